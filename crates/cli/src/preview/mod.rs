//! The preview of a plan, for the comment in a pull request: what changes, who is affected, and the
//! resulting capacity, before the merge.

pub mod compare;
pub mod markdown;
pub mod risks;
mod selects_nothing;
mod text;
pub(crate) mod titles;
mod tone;

use std::collections::BTreeMap;

use api::policy_status::ReviewState;
use jiff::{SignedDuration, Timestamp};
use mig::ProfileName;
use planner::decide::Decision;
use planner::inventory::{Hold, Node};
use planner::names::{NodeName, PodRef, PolicyName};
use planner::plan::{GpuChange, NodeStep, Plan};
use planner::policy::Mode;
use planner::report::{Offered, Outcome, RequestReport, SeatSupply, Supply};
use reconcile::review::Fingerprint;
use rollout::Settings;
use rollout::fleet::{PlannedChange, Wave, estimate};
use serde::Serialize;

use crate::exit::Status;
use crate::expectations::{Expectation, Judged, judge};
use crate::manifests::Ignored;
use crate::picture::{self, Bars};
use crate::question::Question;

use compare::{Compared, compare};
pub use risks::Risk;
use risks::risks;
pub use text::print;
pub(crate) use text::{age, before, verdict_line, when};

/// The version of the JSON; it grows when a field changes its meaning or goes.
pub const FORMAT_VERSION: u32 = 1;

/// How good the plan is, in a sentence. That no plan is better is said only
/// where every level is proved; else how far from its bound the first level is
/// that is not. What decides only among plans that create and destroy as many
/// slices is no level of the certificate: nothing is said of it.
pub(crate) fn how_good(preview: &Preview) -> String {
    let certificate = &preview.certificate;
    let proven = certificate.iter().filter(|level| level.is_proven()).count();
    let levels = certificate.len();
    match (may_be_better(certificate), &preview.gave_up) {
        (_, Some(why)) => format!("There is no plan: {why}."),
        (None, None) => format!(
            "No plan is better up to the number of slices created and destroyed: proved on {proven} of {levels} levels."
        ),
        (Some(open), None) => format!("A {open}. Proved on {proven} of {levels} levels."),
    }
}

/// How far the first level that is not proved is from its bound.
fn may_be_better(certificate: &[planner::report::LevelCertificate]) -> Option<String> {
    let open = certificate.iter().find(|level| !level.is_proven())?;
    Some(format!(
        "better plan may exist: {} is {}, and cannot be below {}",
        open.level, open.value, open.bound
    ))
}

/// Everything that a preview says, in the order in which it says it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The version of this format.
    pub format_version: u32,
    /// The counts.
    pub verdict: Verdict,
    /// What must hold, and whether it does; failed ones first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Judged>,
    /// What can go wrong, or is already wrong.
    pub risks: Vec<Risk>,
    /// The nodes that change, in the order in which they should.
    pub nodes: Vec<NodePreview>,
    /// Supply against demand, by policy and profile; `gpu` stands for GPUs with MIG off.
    pub supply: BTreeMap<PolicyName, BTreeMap<Offered, Supply>>,
    /// Supply and demand in seats, by policy and resource: of GPUs that are not cut, and of slices that several pods
    /// share.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub seats: BTreeMap<PolicyName, BTreeMap<Offered, SeatSupply>>,
    /// What the other revision of the policies would do differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// When the nodes are expected to change, by policy.
    pub rollout: BTreeMap<PolicyName, Vec<WavePreview>>,
    /// Every request and its answer.
    pub requests: Vec<Answer>,
    /// How good the plan is, level by level.
    pub certificate: Vec<planner::report::LevelCertificate>,
    /// Why there is no plan, where the planner gave up: nothing changes then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<String>,
    /// What stands beside the policies and was not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<NotRead>,
    /// What was reviewed, where the policies say it and the plan is another one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_reviewed: Vec<NotReviewed>,
    /// What it was made from.
    pub provenance: Provenance,
}

/// A policy that says which plan was reviewed, while this is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotReviewed {
    /// The policy with the annotation.
    pub policy: String,
    /// What moved, as a sentence.
    pub message: String,
}

/// What time it is, and from when on a recording is old.
#[derive(Clone, Copy, Debug)]
pub struct Freshness {
    /// The time.
    pub now: Timestamp,
    /// The age from which on a warning is told.
    pub oldest: SignedDuration,
}

/// A document beside the policies that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotRead {
    /// What it is.
    pub what: String,
    /// File, line and column; the file alone where all of it is meant.
    pub place: String,
    /// Why it was not read.
    pub why: &'static str,
}

/// The counts of the first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// GPUs that change.
    pub gpus: usize,
    /// Nodes that change.
    pub nodes: usize,
    /// Of those, nodes whose policy is in mode `Preview`: nothing is done there.
    pub previewed: usize,
    /// Nodes from which pods are evicted.
    pub drains: usize,
    /// Pods that are evicted. Nobody evicts those that a policy in mode
    /// `Preview` would evict, and they are not counted.
    pub evictions: usize,
    /// Requests that wait, and how many of them the plan serves.
    pub requests: usize,
    /// Of those, served.
    pub served: usize,
    /// Policies' bounds that are not met.
    pub violations: usize,
    /// People who lose by this: their pods are evicted, or a request that the
    /// policies before would serve is not served.
    pub lose: usize,
    /// People who get their slice later than under the policies before.
    pub wait: usize,
}

/// One node that changes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePreview {
    /// The node.
    pub node: NodeName,
    /// The policy that wants it, and in which mode it is.
    pub policy: PolicyName,
    /// Whether the policy only previews: nothing is changed then.
    pub preview_only: bool,
    /// Its GPUs: what they have, and what they get.
    pub gpus: Vec<GpuPreview>,
    /// MIG is switched on first; all GPUs of the node are reset.
    pub enables_mig: bool,
    /// MIG is switched off on a GPU; all GPUs of the node are cleared.
    pub disables_mig: bool,
    /// Pods that are evicted.
    pub evicts: Vec<PodRef>,
    /// Requests that its new slices serve.
    pub serves: Vec<String>,
}

/// One GPU that changes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuPreview {
    /// Which GPU.
    pub gpu: u16,
    /// Its model.
    pub model: String,
    /// What it has, in words.
    pub before: String,
    /// What it gets, in words; `MIG off` where it gets no slices.
    pub after: String,
    /// Where the new slices start.
    pub placements: Vec<(ProfileName, u8)>,
    /// The same as it is drawn.
    pub bars: Option<Bars>,
}

/// One wave of a rollout.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WavePreview {
    /// The nodes that change together.
    pub nodes: Vec<NodeName>,
    /// When it is expected to start; absent when nothing opens it.
    pub starts: Option<Timestamp>,
    /// When it is expected to be done.
    pub ends: Option<Timestamp>,
    /// Whether its policy only previews, so that it does not start whatever opens.
    #[serde(skip)]
    pub preview_only: bool,
}

/// A request and its answer in words.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Who asks.
    pub request: String,
    /// Whether the plan serves it.
    pub served: bool,
    /// The answer.
    pub answer: String,
}

/// What a preview was made from.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The cluster that the snapshot is of.
    pub cluster: Option<String>,
    /// When the fleet was recorded; the preview is as true as it is fresh.
    pub snapshot_taken_at: Timestamp,
    /// How old the recording is, in seconds, where somebody said what time it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// The release that planned.
    pub version: &'static str,
    /// The digest of all policies.
    pub policy_digest: String,
    /// The digest of the plan.
    pub plan_digest: String,
    /// The annotations that say that this was reviewed, ready to be committed
    /// with the policies.
    pub annotations: BTreeMap<&'static str, String>,
}

/// Makes the preview of a question; `base` is the same fleet under another
/// revision of the policies.
#[must_use]
pub fn preview(
    question: &Question,
    decision: &Decision,
    base: Option<(&Question, &Decision)>,
    expectations: &[Expectation],
    freshness: Option<Freshness>,
) -> Preview {
    let mut judged = judge(expectations, (question, decision), base);
    judged.sort_by_key(|expectation| expectation.holds);
    let steps = &decision.plan.steps;
    let compared = base.map(|old| compare((question, decision), old));
    let mut risks = risks(question, decision, compared.as_ref());
    let age = freshness.map(|freshness| freshness.now.duration_since(question.now()));
    risks.extend(age.zip(freshness).and_then(|(age, freshness)| old(age, freshness.oldest)));
    let answers: Vec<Answer> = decision.report.requests.iter().map(answer).collect();
    Preview {
        format_version: FORMAT_VERSION,
        verdict: Verdict::new(question, decision).against(compared.as_ref()),
        expectations: judged,
        risks,
        nodes: steps.iter().map(|step| node(question, step)).collect(),
        supply: decision.report.policies.iter().map(|p| (p.policy.clone(), p.offers().collect())).collect(),
        seats: decision
            .report
            .policies
            .iter()
            .filter(|policy| !policy.seats.is_empty())
            .map(|policy| (policy.policy.clone(), policy.seats.clone()))
            .collect(),
        compared,
        rollout: waves(question, &decision.plan),
        requests: answers,
        certificate: decision.report.certificate.clone(),
        gave_up: decision.report.gave_up.clone(),
        not_read: not_read(question),
        not_reviewed: not_reviewed(question, decision),
        provenance: Provenance {
            age_seconds: age.map(|age| age.as_secs()),
            cluster: question.snapshot.cluster.clone(),
            snapshot_taken_at: to_the_second(question.now()),
            version: env!("CARGO_PKG_VERSION"),
            policy_digest: policy_digest(question),
            plan_digest: decision.plan.digest(),
            annotations: annotations(question, decision),
        },
    }
}

/// What stands beside the policies and was not read: documents, then whole files.
fn not_read(question: &Question) -> Vec<NotRead> {
    let skipped = question.skipped.iter().filter(|s| !crate::expectations::is_expectations(&s.document));
    let documents = skipped.map(|s| NotRead { what: s.what.clone(), place: s.place.to_string(), why: s.why });
    let whole = question.ignored.iter().map(|ignored| {
        let Ignored { file, why } = ignored;
        NotRead { what: "the file".to_owned(), place: file.clone(), why }
    });
    documents.chain(whole).collect()
}

impl Verdict {
    /// The counts of a decision.
    fn new(question: &Question, decision: &Decision) -> Self {
        let steps = &decision.plan.steps;
        let reports = &decision.report.requests;
        let risks = risks(question, decision, None);
        let applied = || steps.iter().filter(|step| is_applied(question, &step.policy));
        let evictions = applied().map(|step| step.evicts.len()).sum();
        Self {
            gpus: steps.iter().map(|step| step.gpus.len()).sum(),
            nodes: steps.len(),
            previewed: steps.len() - applied().count(),
            drains: applied().filter(|step| !step.evicts.is_empty()).count(),
            evictions,
            requests: reports.len(),
            served: reports.iter().filter(|r| !matches!(r.outcome, Outcome::Unserved { .. })).count(),
            violations: risks.iter().filter(|risk| risk.kind == "violation").count(),
            lose: evictions,
            wait: 0,
        }
    }

    /// What it costs people beyond what the policies before would cost them.
    fn against(self, compared: Option<&Compared>) -> Self {
        let Some(compared) = compared else { return self };
        Self { lose: compared.evicts.len() + compared.lose.len(), wait: compared.wait.len(), ..self }
    }
}

impl Preview {
    /// 0 when nothing changes, 2 when something does, 3 when a policy is
    /// violated or blocked, 5 when people lose a slice or the one that they
    /// would have got; before all of these 4 when an expectation does not
    /// hold, and 6 when another plan was reviewed. Where there is no plan, 7:
    /// what the other statuses say is said of a plan.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.gave_up.is_some() {
            return Status::GaveUp;
        }
        if self.expectations.iter().any(|expectation| !expectation.holds) {
            return Status::Unmet;
        }
        if !self.not_reviewed.is_empty() {
            return Status::NotReviewed;
        }
        if self.verdict.lose > 0 {
            return Status::Loss;
        }
        let blocked = self.risks.iter().any(|risk| matches!(risk.kind, "violation" | "blocked"));
        match (blocked, self.verdict.gpus) {
            (true, _) => Status::Blocked,
            (false, 0) => Status::Success,
            (false, _) => Status::Changes,
        }
    }
}

/// Whether what a policy plans is done, and not only shown.
fn is_applied(question: &Question, policy: &PolicyName) -> bool {
    question.mode(policy) != Some(Mode::Preview)
}

fn policy_digest(question: &Question) -> String {
    reconcile::policy_digest::policy_digest(&question.snapshot.objects.policies)
}

fn annotations(question: &Question, decision: &Decision) -> BTreeMap<&'static str, String> {
    fingerprint(question, decision).annotations()
}

/// A warning about a recording that is older than it should be.
fn old(age: SignedDuration, oldest: SignedDuration) -> Option<Risk> {
    let message = format!(
        "the fleet was recorded {} ago, which is more than {}: it may be out of date; record it again with \
         `slicewright snapshot`",
        words(age),
        words(oldest)
    );
    (age > oldest).then_some(Risk { kind: "warning", message })
}

/// The policies that say which plan was reviewed, of exactly these policies,
/// while this plan is another one.
fn not_reviewed(question: &Question, decision: &Decision) -> Vec<NotReviewed> {
    let found = fingerprint(question, decision);
    let policies = question.snapshot.objects.policies.iter();
    policies
        .filter_map(|(name, policy)| {
            let review = reconcile::review::review(policy, &found, question.now())?;
            let moved = review.state == ReviewState::Moved && reconcile::review::is_judged(&review);
            moved.then(|| NotReviewed { policy: name.clone(), message: review.message })
        })
        .collect()
}

fn fingerprint(question: &Question, decision: &Decision) -> Fingerprint {
    let observe::ClusterView { inventory, requests, policies, .. } = &question.seen;
    let policy_of = planner::assign::policy_of(inventory, policies).policy_of;
    let policies = &question.snapshot.objects.policies;
    Fingerprint::new(&decision.plan, policies, &policy_of, inventory, requests)
}

/// A moment without the part of its second: nobody needs to know it more exactly.
pub(crate) fn to_the_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// A duration in its two largest units: `3 d 4 h`, `50 min 2 s`.
pub(super) fn words(duration: SignedDuration) -> String {
    let mut left = duration.as_secs().max(0);
    let mut parts = Vec::new();
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)] {
        if left >= size && parts.len() < 2 {
            parts.push(format!("{} {unit}", left / size));
        }
        left %= size;
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

fn answer(report: &RequestReport) -> Answer {
    Answer {
        request: report.id.to_string(),
        served: !matches!(report.outcome, Outcome::Unserved { .. }),
        answer: report.answer(),
    }
}

fn node(question: &Question, step: &NodeStep) -> NodePreview {
    let NodeStep { node, policy, gpus, enable_mig, evicts, serves } = step;
    NodePreview {
        node: node.clone(),
        policy: policy.clone(),
        preview_only: !is_applied(question, policy),
        gpus: gpus
            .iter()
            .map(|change| GpuPreview {
                gpu: change.gpu.0,
                model: change.model.clone(),
                before: change.before.to_string(),
                after: planner::words::aim(&change.after),
                placements: change.after.clone(),
                bars: question
                    .seen
                    .inventory
                    .nodes
                    .get(node)
                    .and_then(|node| node.gpus.get(&change.gpu))
                    .map(|gpu| picture::bars(gpu, &change.after)),
            })
            .collect(),
        enables_mig: *enable_mig,
        disables_mig: gpus.iter().any(GpuChange::switches_mig_off),
        evicts: evicts.clone(),
        serves: serves.iter().map(ToString::to_string).collect(),
    }
}

/// The waves in which the plan would be rolled out.
fn waves(question: &Question, plan: &Plan) -> BTreeMap<PolicyName, Vec<WavePreview>> {
    let seen = &question.seen;
    let changes: Vec<PlannedChange> = plan
        .steps
        .iter()
        .map(|step| PlannedChange {
            node: step.node.clone(),
            policy: step.policy.clone(),
            mode_change: step.switches_mig(),
            evicts: step.evicts.len(),
        })
        .collect();
    let assignment = planner::assign::policy_of(&seen.inventory, &seen.policies);
    let mut nodes: BTreeMap<PolicyName, usize> = BTreeMap::new();
    let mut down: BTreeMap<PolicyName, usize> = BTreeMap::new();
    for (node, policy) in &assignment.policy_of {
        *nodes.entry(policy.clone()).or_insert(0) += 1;
        let Node { schedulable, hold, .. } = &seen.inventory.nodes[node];
        // A node that offers nothing takes nobody, and none of the budget either.
        if !schedulable && !matches!(hold, Some(Hold::NotEstablished { .. })) {
            *down.entry(policy.clone()).or_insert(0) += 1;
        }
    }
    estimate(&changes, &seen.rollouts, &nodes, &down, &Settings::default(), question.now())
        .into_iter()
        .map(|(policy, waves)| {
            let preview_only = !is_applied(question, &policy);
            (policy, waves.into_iter().map(|one| wave(one, preview_only)).collect())
        })
        .collect()
}

fn wave(wave: Wave, preview_only: bool) -> WavePreview {
    let Wave { nodes, starts, ends } = wave;
    WavePreview { nodes, starts, ends, preview_only }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use planner::report::LevelCertificate;

    use super::*;
    use crate::draw::Colour;
    use crate::question::{Empty, fleet};

    /// What is printed of a decision about the fleet of `examples/`, changed as the test wants.
    fn printed(edit: impl FnOnce(&mut Decision)) -> (Status, String) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let (snapshot, problems) = fleet(&root.join("fleet/lab.yaml")).expect("a fleet");
        let policies = root.join("policies");
        let question =
            Question::read(&snapshot, problems, Some(&policies), Empty::Refused).expect("a question");
        let mut decision = question.decide().expect("a plan");
        edit(&mut decision);
        let preview = preview(&question, &decision, None, &[], None);
        let mut out = Vec::new();
        print(&preview, Colour::Never, &mut out).expect("memory can be written to");
        (preview.status(), String::from_utf8(out).expect("text"))
    }

    #[test]
    fn that_no_plan_is_better_is_said_only_where_every_level_is_proved() {
        let mut levels = Vec::new();
        let (status, out) = printed(|decision| {
            levels = decision.report.certificate.iter().map(|level| level.level.clone()).collect();
        });
        let first = out.lines().next().expect("a line");
        // How many large placements stay possible decides among equals after this, and is not stated.
        let last: Vec<&str> = levels.iter().rev().take(2).map(String::as_str).collect();
        assert_eq!(last, ["nodes touched", "slices created and destroyed"]);
        let proved =
            "No plan is better up to the number of slices created and destroyed: proved on 8 of 8 levels.\n";
        assert!(out.contains(proved) && !first.contains("a better plan may exist"), "{out}");
        let (same, out) = printed(|decision| {
            let level = LevelCertificate { level: "GPUs changed".to_owned(), value: 43, bound: 31 };
            decision.report.certificate = vec![level];
        });
        assert_eq!(same, status, "a plan that is not proved is a plan");
        let first = out.lines().next().expect("a line");
        let open = "; a better plan may exist: GPUs changed is 43, and cannot be below 31";
        assert!(first.ends_with(open) && !out.contains("No plan is better"), "{out}");
    }

    #[test]
    fn where_the_planner_gave_up_there_is_a_status_for_it_and_the_first_line_says_so() {
        let (status, out) = printed(|decision| {
            *decision = Decision::default();
            decision.report.gave_up = Some("no solution was found within 60 nodes".to_owned());
        });
        assert_eq!((status, status.code()), (Status::GaveUp, 7));
        let first = out.lines().next().expect("a line");
        assert!(first.contains("NO PLAN, the planner gave up"), "{first}");
        assert!(out.contains("There is no plan: no solution was found within 60 nodes."), "{out}");
        assert!(!out.contains("No plan is better"), "{out}");
    }
}
