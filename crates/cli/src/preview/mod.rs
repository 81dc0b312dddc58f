//! The preview of a plan, for the comment in a pull request: what changes, who
//! is affected, what capacity results, before anybody merges.

pub mod compare;
pub mod markdown;
pub mod risks;
mod text;

use std::collections::BTreeMap;

use jiff::Timestamp;
use mig::ProfileName;
use planner::decide::Decision;
use planner::names::{NodeName, PodRef, PolicyName};
use planner::plan::{NodeStep, Plan};
use planner::policy::Mode;
use planner::report::{Outcome, RequestReport, Supply};
use reconcile::review::Fingerprint;
use rollout::Settings;
use rollout::fleet::{PlannedChange, Wave, estimate};
use serde::Serialize;

use crate::exit::Status;
use crate::expectations::{Expectation, Judged, judge};
use crate::question::Question;

use compare::{Compared, compare};
pub use risks::Risk;
use risks::risks;
pub use text::print;

/// The version of the JSON; it grows when a field changes its meaning or goes.
pub const FORMAT_VERSION: u32 = 1;

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
    /// Supply against demand, by policy and profile.
    pub supply: BTreeMap<PolicyName, BTreeMap<ProfileName, Supply>>,
    /// What the other revision of the policies would do differently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// When the nodes are expected to change, by policy.
    pub rollout: BTreeMap<PolicyName, Vec<WavePreview>>,
    /// Every request and its answer.
    pub requests: Vec<Answer>,
    /// How good the plan is, level by level.
    pub certificate: Vec<planner::report::LevelCertificate>,
    /// What stands beside the policies and was not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<NotRead>,
    /// What it was made from.
    pub provenance: Provenance,
}

/// A document beside the policies that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotRead {
    /// What it is.
    pub what: String,
    /// File, line and column.
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
    /// Nodes from which pods are evicted.
    pub drains: usize,
    /// Pods that are evicted.
    pub evictions: usize,
    /// Requests that wait, and how many of them the plan serves.
    pub requests: usize,
    /// Of those, served.
    pub served: usize,
    /// Policies' bounds that are not met.
    pub violations: usize,
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
    /// What it gets, in words.
    pub after: String,
    /// Where the new slices start.
    pub placements: Vec<(ProfileName, u8)>,
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
) -> Preview {
    let mut judged = judge(expectations, (question, decision), base);
    judged.sort_by_key(|expectation| expectation.holds);
    let steps = &decision.plan.steps;
    let compared = base.map(|old| compare((question, decision), old));
    let risks = risks(question, decision, compared.as_ref());
    let answers: Vec<Answer> = decision.report.requests.iter().map(answer).collect();
    Preview {
        format_version: FORMAT_VERSION,
        verdict: Verdict::of(question, decision),
        expectations: judged,
        risks,
        nodes: steps.iter().map(|step| node(question, step)).collect(),
        supply: decision.report.policies.iter().map(|p| (p.policy.clone(), p.supply.clone())).collect(),
        compared,
        rollout: waves(question, &decision.plan),
        requests: answers,
        certificate: decision.report.certificate.clone(),
        not_read: question
            .skipped
            .iter()
            .filter(|s| !crate::expectations::is_expectations(&s.document))
            .map(|s| NotRead { what: s.what.clone(), place: s.place.to_string(), why: s.why })
            .collect(),
        provenance: Provenance {
            cluster: question.snapshot.cluster.clone(),
            snapshot_taken_at: question.now(),
            version: env!("CARGO_PKG_VERSION"),
            policy_digest: policy_digest(question),
            plan_digest: decision.plan.digest(),
            annotations: annotations(question, decision),
        },
    }
}

impl Verdict {
    /// The counts of a decision.
    fn of(question: &Question, decision: &Decision) -> Self {
        let steps = &decision.plan.steps;
        let reports = &decision.report.requests;
        let risks = risks(question, decision, None);
        Self {
            gpus: steps.iter().map(|step| step.gpus.len()).sum(),
            nodes: steps.len(),
            drains: steps.iter().filter(|step| !step.evicts.is_empty()).count(),
            evictions: steps.iter().map(|step| step.evicts.len()).sum(),
            requests: reports.len(),
            served: reports.iter().filter(|r| !matches!(r.outcome, Outcome::Unserved { .. })).count(),
            violations: risks.iter().filter(|risk| risk.kind == "violation").count(),
        }
    }
}

impl Preview {
    /// 0 when nothing changes, 2 when something does, 3 when a policy is
    /// violated or blocked; 4 before all of these when an expectation does
    /// not hold.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.expectations.iter().any(|expectation| !expectation.holds) {
            return Status::Unmet;
        }
        let blocked = self.risks.iter().any(|risk| matches!(risk.kind, "violation" | "blocked"));
        match (blocked, self.verdict.gpus) {
            (true, _) => Status::Blocked,
            (false, 0) => Status::Success,
            (false, _) => Status::Changes,
        }
    }
}

fn policy_digest(question: &Question) -> String {
    reconcile::policy_status::policy_digest(&question.snapshot.objects.policies)
}

fn annotations(question: &Question, decision: &Decision) -> BTreeMap<&'static str, String> {
    let observe::Observed { inventory, requests, policies, .. } = &question.seen;
    let policy_of = planner::assign::policy_of(inventory, policies).policy_of;
    let policies = &question.snapshot.objects.policies;
    Fingerprint::of(&decision.plan, policies, &policy_of, inventory, requests).annotations()
}

fn answer(report: &RequestReport) -> Answer {
    Answer {
        request: report.id.to_string(),
        served: !matches!(report.outcome, Outcome::Unserved { .. }),
        answer: report.outcome.to_string(),
    }
}

fn node(question: &Question, step: &NodeStep) -> NodePreview {
    let NodeStep { node, policy, gpus, enable_mig, evicts, serves } = step;
    let mode = question.seen.policies.iter().find(|p| p.name == *policy).map(|p| p.mode);
    NodePreview {
        node: node.clone(),
        policy: policy.clone(),
        preview_only: mode == Some(Mode::Preview),
        gpus: gpus
            .iter()
            .map(|change| GpuPreview {
                gpu: change.gpu.0,
                model: change.model.clone(),
                before: change.before.to_string(),
                after: planner::words::counted(change.after.iter().map(|(profile, _)| *profile)),
                placements: change.after.clone(),
            })
            .collect(),
        enables_mig: *enable_mig,
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
            mode_change: step.enable_mig,
            evicts: step.evicts.len(),
        })
        .collect();
    let assignment = planner::assign::policy_of(&seen.inventory, &seen.policies);
    let mut nodes: BTreeMap<PolicyName, usize> = BTreeMap::new();
    let mut down: BTreeMap<PolicyName, usize> = BTreeMap::new();
    for (node, policy) in &assignment.policy_of {
        *nodes.entry(policy.clone()).or_insert(0) += 1;
        if !seen.inventory.nodes[node].schedulable {
            *down.entry(policy.clone()).or_insert(0) += 1;
        }
    }
    let rules = observe::rules::rollouts(&seen.policies, &seen.rollouts);
    estimate(&changes, &rules, &nodes, &down, &Settings::default(), question.now())
        .into_iter()
        .map(|(policy, waves)| (policy, waves.into_iter().map(wave).collect()))
        .collect()
}

fn wave(wave: Wave) -> WavePreview {
    let Wave { nodes, starts, ends } = wave;
    WavePreview { nodes, starts, ends }
}
