//! The differences between two revisions of the policies, on the same fleet.

use std::collections::{BTreeMap, BTreeSet};

use api::GpuPartitionPolicy;
use mig::ProfileName;
use planner::decide::Decision;
use planner::names::{GpuId, NodeName, PodRef, PolicyName};
use planner::plan::NodeStep;
use planner::policy::Mode;
use planner::report::{Offered, Outcome, Supply};
use planner::words::aim;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::{Verdict, is_applied, policy_digest};
use crate::question::Question;

/// The difference to another revision of the policies.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// Whether the policies differ at all.
    pub policies_differ: bool,
    /// The policies that differ, by name.
    pub policies: Vec<PolicyDiff>,
    /// Policies in another mode than before.
    pub modes: Vec<ModeChange>,
    /// Nodes that have another policy than before, or none, or one for the first time.
    pub nodes: Vec<NodeMoves>,
    /// GPUs that change only with one of the revisions, or to something else.
    pub gpus_differ: Vec<GpuId>,
    /// The same GPUs, with what they have and what each revision makes of them.
    pub gpus: Vec<GpuDiff>,
    /// Requests that only the new revision serves. What a policy in mode
    /// `Preview` would do serves nobody, under either revision.
    pub gain: Vec<String>,
    /// Requests that only the old revision serves.
    pub lose: Vec<String>,
    /// Requests that the old revision serves with what is there, and the new
    /// one only once nodes have changed.
    pub wait: Vec<String>,
    /// Pods that only the new revision evicts.
    pub evicts: Vec<PodRef>,
    /// Pods that only the old revision evicts.
    pub spares: Vec<PodRef>,
    /// Supply and demand under both revisions, by policy and profile.
    pub supply: BTreeMap<PolicyName, BTreeMap<Offered, SupplyDiff>>,
    /// The counts of the old revision.
    pub verdict: Verdict,
    /// The digest of the old policies.
    pub policy_digest: String,
    /// The digest of the old plan.
    pub plan_digest: String,
}

/// What became of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its spec differs.
    Changed,
}

/// One policy that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDiff {
    /// The policy.
    pub policy: PolicyName,
    /// What became of it.
    pub change: Change,
    /// Its fields that differ; of a changed policy only.
    pub fields: Vec<FieldDiff>,
    /// Its manifest before and after, as the lines of a unified difference.
    pub yaml: Vec<String>,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// The field, such as `spec.layout.demandDriven.slices[1g.10gb].maxCount`.
    pub field: String,
    /// Its value before, as JSON; absent when it was not there.
    pub before: Option<String>,
    /// Its value after.
    pub after: Option<String>,
}

/// A policy that was, and is, in another mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeChange {
    /// The policy.
    pub policy: PolicyName,
    /// Its mode before.
    pub before: Mode,
    /// Its mode after.
    pub after: Mode,
}

impl ModeChange {
    /// What it means, in a sentence.
    #[must_use]
    pub fn message(&self) -> String {
        let Self { policy, before, after } = self;
        let means = match (before, after) {
            (_, Mode::Enforce) => "what it plans is applied now",
            (Mode::Enforce, Mode::Preview) => "it only previews, and nothing of its plan is applied any more",
            (_, Mode::Invalid) => "it makes no sense, so that nothing is planned for it",
            (Mode::Enforce, Mode::Paused) => "it plans nothing more, and no change starts any more",
            (_, Mode::Preview) => "it plans, and nothing of its plan is applied",
            (_, Mode::Paused) => "it plans nothing more; nothing of its plan was applied before either",
        };
        format!("policy {policy} goes from mode {before:?} to {after:?}: {means}")
    }
}

/// A node whose policy is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMoves {
    /// The node.
    pub node: NodeName,
    /// Its policy before.
    pub before: Option<PolicyName>,
    /// Its policy after.
    pub after: Option<PolicyName>,
}

/// A GPU that the revisions treat differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuDiff {
    /// Which.
    pub gpu: GpuId,
    /// What it has.
    pub now: String,
    /// What the old revision makes of it.
    pub before: String,
    /// What the new revision makes of it.
    pub after: String,
}

/// Supply and demand of a profile under both revisions; absent where the
/// policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SupplyDiff {
    /// Under the old revision.
    pub before: Option<Supply>,
    /// Under the new one.
    pub after: Option<Supply>,
}

/// Compares `new` with `old`, each a question and its answer.
pub(super) fn compare(new: (&Question, &Decision), old: (&Question, &Decision)) -> Compared {
    let (served, served_before) = (served(new), served(old));
    let only = |a: &BTreeMap<String, bool>, b: &BTreeMap<String, bool>| {
        a.keys().filter(|id| !b.contains_key(*id)).cloned().collect::<Vec<_>>()
    };
    let now = |served: &BTreeMap<String, bool>, id: &String| served.get(id) == Some(&true);
    let (evicted, evicted_before) = (evicted(new), evicted(old));
    let gpus = gpus(new, old);
    Compared {
        policies_differ: policy_digest(new.0) != policy_digest(old.0),
        policies: policies(&new.0.snapshot.objects.policies, &old.0.snapshot.objects.policies),
        modes: modes(new.0, old.0),
        nodes: nodes(new.0, old.0),
        gpus_differ: gpus.iter().map(|diff| diff.gpu.clone()).collect(),
        gpus,
        gain: only(&served, &served_before),
        lose: only(&served_before, &served),
        wait: served
            .iter()
            .filter(|(id, at_once)| !**at_once && now(&served_before, id))
            .map(|(id, _)| id.clone())
            .collect(),
        evicts: evicted.difference(&evicted_before).cloned().collect(),
        spares: evicted_before.difference(&evicted).cloned().collect(),
        supply: supply(new.1, old.1),
        verdict: Verdict::new(old.0, old.1),
        policy_digest: policy_digest(old.0),
        plan_digest: old.1.plan.digest(),
    }
}

/// The requests that are served by what is done, and whether with what is there.
fn served((question, decision): (&Question, &Decision)) -> BTreeMap<String, bool> {
    let policy_of = planner::assign::policy_of(&question.seen.inventory, &question.seen.policies).policy_of;
    let previews = |node: &NodeName| policy_of.get(node).is_some_and(|policy| !is_applied(question, policy));
    let reports = decision.report.requests.iter();
    reports
        .filter_map(|report| match &report.outcome {
            Outcome::ServedNow { .. } => Some((report.id.to_string(), true)),
            Outcome::ServedByPlan { node, .. } if previews(node) => None,
            Outcome::ServedByPlan { .. } => Some((report.id.to_string(), false)),
            Outcome::Unserved { .. } => None,
        })
        .collect()
}

fn evicted((question, decision): (&Question, &Decision)) -> BTreeSet<PodRef> {
    let steps = decision.plan.steps.iter().filter(|step| is_applied(question, &step.policy));
    steps.flat_map(|step| &step.evicts).cloned().collect()
}

/// What a GPU becomes, and whether that is done or only shown.
type After<'a> = BTreeMap<GpuId, (bool, &'a Vec<(ProfileName, u8)>)>;

fn gpus(new: (&Question, &Decision), old: (&Question, &Decision)) -> Vec<GpuDiff> {
    fn changes<'a>((question, decision): (&Question, &'a Decision)) -> After<'a> {
        let of = |step: &'a NodeStep| {
            let applied = is_applied(question, &step.policy);
            let id = |gpu| GpuId { node: step.node.clone(), gpu };
            step.gpus.iter().map(move |gpu| (id(gpu.gpu), (applied, &gpu.after)))
        };
        decision.plan.steps.iter().flat_map(of).collect()
    }
    let (after, before) = (changes(new), changes(old));
    let all: BTreeSet<&GpuId> = after.keys().chain(before.keys()).collect();
    let what = |question: &Question, id: &GpuId, changes: &After<'_>| match changes.get(id) {
        Some((true, layout)) => aim(layout),
        Some((false, layout)) => format!("stays (only previewed: {})", aim(layout)),
        None if has(question, id).is_empty() => "not seen".to_owned(),
        None => "stays".to_owned(),
    };
    all.into_iter()
        .filter(|id| after.get(id) != before.get(id))
        .map(|id| GpuDiff {
            gpu: id.clone(),
            now: has(new.0, id),
            before: what(old.0, id, &before),
            after: what(new.0, id, &after),
        })
        .collect()
}

/// The policies of both revisions whose mode is another one.
fn modes(new: &Question, old: &Question) -> Vec<ModeChange> {
    let change = |policy: &PolicyName| {
        let (before, after) = (old.mode(policy)?, new.mode(policy)?);
        (before != after).then(|| ModeChange { policy: policy.clone(), before, after })
    };
    new.seen.policies.iter().filter_map(|policy| change(&policy.name)).collect()
}

/// What a GPU has, in words.
fn has(question: &Question, id: &GpuId) -> String {
    let node = question.seen.inventory.nodes.get(&id.node);
    node.and_then(|node| node.gpus.get(&id.gpu)).map(|gpu| gpu.slices.to_string()).unwrap_or_default()
}

fn nodes(new: &Question, old: &Question) -> Vec<NodeMoves> {
    let of = |question: &Question| {
        planner::assign::policy_of(&question.seen.inventory, &question.seen.policies).policy_of
    };
    let (after, before) = (of(new), of(old));
    let all: BTreeSet<&NodeName> = after.keys().chain(before.keys()).collect();
    all.into_iter()
        .filter(|node| after.get(node) != before.get(node))
        .map(|node| NodeMoves {
            node: node.clone(),
            before: before.get(node).cloned(),
            after: after.get(node).cloned(),
        })
        .collect()
}

fn supply(new: &Decision, old: &Decision) -> BTreeMap<PolicyName, BTreeMap<Offered, SupplyDiff>> {
    let mut all: BTreeMap<PolicyName, BTreeMap<Offered, SupplyDiff>> = BTreeMap::new();
    let mut put = |decision: &Decision, set: fn(&mut SupplyDiff, Supply)| {
        for report in &decision.report.policies {
            let profiles = all.entry(report.policy.clone()).or_default();
            for (what, supply) in report.offers() {
                set(profiles.entry(what).or_insert(SupplyDiff { before: None, after: None }), supply);
            }
        }
    };
    put(old, |diff, supply| diff.before = Some(supply));
    put(new, |diff, supply| diff.after = Some(supply));
    all
}

fn policies(
    new: &BTreeMap<String, GpuPartitionPolicy>,
    old: &BTreeMap<String, GpuPartitionPolicy>,
) -> Vec<PolicyDiff> {
    let spec =
        |policy: &GpuPartitionPolicy| serde_json::to_value(&policy.spec).expect("a policy is plain data");
    let names: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| {
            let (change, fields) = match (old.get(name), new.get(name)) {
                (None, _) => (Change::Added, vec![]),
                (Some(_), None) => (Change::Removed, vec![]),
                (Some(old), Some(new)) => {
                    let mut fields = Vec::new();
                    fields_of("spec", &spec(old), &spec(new), &mut fields);
                    (Change::Changed, fields)
                }
            };
            let differs = change != Change::Changed || !fields.is_empty();
            differs.then(|| PolicyDiff {
                policy: PolicyName(name.clone()),
                change,
                fields,
                yaml: difference(name, &manifest(name, old.get(name)), &manifest(name, new.get(name))),
            })
        })
        .collect()
}

/// How many lines that are the same stand around those that differ.
const CONTEXT: usize = 3;

/// What somebody writes for a policy; nothing for one that is not there.
fn manifest(name: &str, policy: Option<&GpuPartitionPolicy>) -> String {
    let Some(policy) = policy else { return String::new() };
    let spec = serde_json::to_value(&policy.spec).expect("a policy is plain data");
    let object = serde_json::json!({
        "apiVersion": format!("{}/v1alpha1", api::GROUP), "kind": "GpuPartitionPolicy",
        "metadata": {"name": name}, "spec": without_nothing(spec),
    });
    serde_saphyr::to_string(&object).expect("JSON can be written as YAML")
}

/// Without the fields that nobody set.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nothing(v))).collect()
        }
        Value::Array(all) => all.into_iter().map(without_nothing).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

fn difference(name: &str, before: &str, after: &str) -> Vec<String> {
    let difference = TextDiff::from_lines(before, after);
    let (old, new) = (format!("{name}, before"), format!("{name}, after"));
    let hunks = difference.unified_diff().context_radius(CONTEXT).header(&old, &new).to_string();
    hunks.lines().map(str::to_owned).collect()
}

/// The fields in which two values differ. Entries of lists that have a
/// `profile` are compared by it, and not by where they stand.
fn fields_of(path: &str, before: &Value, after: &Value, found: &mut Vec<FieldDiff>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let value = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                fields_of(&format!("{path}.{key}"), &value(old), &value(new), found);
            }
        }
        (Value::Array(_), Value::Array(_)) if keyed(before).is_some() && keyed(after).is_some() => {
            let (old, new) = (keyed(before).unwrap_or_default(), keyed(after).unwrap_or_default());
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let value = |map: &BTreeMap<String, Value>| map.get(key).cloned().unwrap_or_default();
                fields_of(&format!("{path}[{key}]"), &value(&old), &value(&new), found);
            }
        }
        _ => {
            let shown = |value: &Value| (!value.is_null()).then(|| value.to_string());
            found.push(FieldDiff { field: path.to_owned(), before: shown(before), after: shown(after) });
        }
    }
}

/// The entries of a list by their `profile`; none when one has no profile.
fn keyed(list: &Value) -> Option<BTreeMap<String, Value>> {
    let entry = |value: &Value| Some((value.get("profile")?.as_str()?.to_owned(), value.clone()));
    list.as_array()?.iter().map(entry).collect()
}
