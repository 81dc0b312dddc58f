//! A replacement for kube-scheduler: the filters that matter for slices and its messages, without
//! preemption.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration};

use crate::asks::{Amounts, amounts, is_over, of_pod};

/// What became of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes to this node.
    Bound(String),
    /// It cannot go anywhere; this is what the scheduler says.
    Unschedulable(String),
}

/// Decides about every pod that waits, highest priority first, then oldest.
/// The answers are in that order.
pub(crate) fn schedule<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    pods: impl Iterator<Item = &'a Pod> + Clone,
) -> Vec<(String, Verdict)> {
    let nodes: BTreeMap<&str, &Node> = nodes.filter_map(|n| Some((n.metadata.name.as_deref()?, n))).collect();
    let mut free: BTreeMap<&str, Amounts> = nodes
        .iter()
        .map(|(name, node)| (*name, amounts(node.status.as_ref().and_then(|s| s.allocatable.as_ref()))))
        .collect();
    for pod in pods.clone().filter(|p| !is_over(p)) {
        let node = pod.spec.as_ref().and_then(|s| s.node_name.as_deref());
        if let Some(free) = node.and_then(|n| free.get_mut(n)) {
            take(free, &of_pod(pod));
        }
    }
    let mut waiting: Vec<&Pod> = pods.filter(|p| waits(p)).collect();
    waiting.sort_by_key(|p| {
        let priority = p.spec.as_ref().and_then(|s| s.priority).unwrap_or(0);
        (-i64::from(priority), p.metadata.creation_timestamp.clone(), crate::store::key_of(*p))
    });
    let mut verdicts = Vec::new();
    for pod in waiting {
        let asks = of_pod(pod);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut starved = 0;
        let mut fits: Vec<(i64, &str)> = Vec::new();
        for (name, node) in &nodes {
            let why = refusals(pod, &asks, node, &free[name]);
            starved += usize::from(why.iter().any(|w| w.starts_with("Insufficient")));
            if why.is_empty() {
                fits.push((-least_free(&free[name], node), name));
            }
            for reason in why {
                *reasons.entry(reason).or_insert(0) += 1;
            }
        }
        let verdict = match fits.into_iter().min() {
            Some((_, name)) => {
                take(free.get_mut(name).expect("every node is in it"), &asks);
                Verdict::Bound(name.to_owned())
            }
            None => Verdict::Unschedulable(sentence(nodes.len(), &reasons, starved)),
        };
        verdicts.push((crate::store::key_of(pod), verdict));
    }
    verdicts
}

/// Whether the scheduler has to decide about it.
fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.node_name.is_none()
        && pod.metadata.deletion_timestamp.is_none()
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
        && !is_over(pod)
}

fn take(free: &mut Amounts, asks: &Amounts) {
    for (name, amount) in asks {
        *free.entry(name.clone()).or_insert(0) -= amount;
    }
}

/// The share of CPU or memory that is free, in thousandths, the lesser of the
/// two: the scheduler spreads by these and by nothing else.
fn least_free(free: &Amounts, node: &Node) -> i64 {
    let all = amounts(node.status.as_ref().and_then(|s| s.allocatable.as_ref()));
    let share =
        |name| free.get(name).copied().unwrap_or(0) * 1000 / all.get(name).copied().unwrap_or(1).max(1);
    share("cpu").min(share("memory"))
}

/// Why a node does not take a pod; the first filter that refuses speaks.
fn refusals(pod: &Pod, asks: &Amounts, node: &Node, free: &Amounts) -> Vec<String> {
    let spec = pod.spec.as_ref().expect("a pod that waits has a spec");
    let node_spec = node.spec.clone().unwrap_or_default();
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node_spec.unschedulable == Some(true) && !tolerations.iter().any(|t| tolerates(t, &unschedulable)) {
        return vec!["node(s) were unschedulable".to_owned()];
    }
    let repels = |t: &&Taint| t.effect != "PreferNoSchedule" && !tolerations.iter().any(|x| tolerates(x, t));
    if let Some(taint) = node_spec.taints.iter().flatten().find(repels) {
        let value = taint.value.as_deref().unwrap_or_default();
        return vec![format!("node(s) had untolerated taint {{{}: {value}}}", taint.key)];
    }
    if !matches_selectors(pod, node) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    asks.iter()
        .filter(|(name, amount)| **amount > free.get(*name).copied().unwrap_or(0))
        .map(
            |(name, _)| {
                if name == "pods" { "Too many pods".to_owned() } else { format!("Insufficient {name}") }
            },
        )
        .collect()
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key = toleration.key.as_deref().unwrap_or_default();
    toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && exists)
        && (exists
            || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())
}

fn matches_selectors(pod: &Pod, node: &Node) -> bool {
    let spec = pod.spec.as_ref().expect("a pod that waits has a spec");
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required.is_none_or(|r| r.node_selector_terms.iter().any(|term| matches_term(term, node, labels)))
}

fn matches_term(term: &NodeSelectorTerm, node: &Node, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term without any condition matches nothing.
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|e| matches_requirement(e, labels.get(&e.key).map(String::as_str)))
        && fields.iter().all(|f| matches_requirement(f, node.metadata.name.as_deref()))
}

fn matches_requirement(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |order| {
        let bound = values.first().and_then(|v| number(v));
        value.and_then(number).zip(bound).is_some_and(|(have, bound)| have.cmp(&bound) == order)
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|v| values.iter().any(|x| x == v)),
        "NotIn" => value.is_none_or(|v| values.iter().all(|x| x != v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(std::cmp::Ordering::Greater),
        "Lt" => compare(std::cmp::Ordering::Less),
        _ => false,
    }
}

/// What the scheduler says about a pod that fits nowhere.
fn sentence(nodes: usize, reasons: &BTreeMap<String, usize>, starved: usize) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    let mut preemption = Vec::new();
    if starved > 0 {
        preemption.push(format!("{starved} No preemption victims found for incoming pod"));
    }
    if nodes > starved {
        preemption.push(format!("{} Preemption is not helpful for scheduling", nodes - starved));
    }
    preemption.sort();
    format!(
        "0/{nodes} nodes are available: {}. preemption: 0/{nodes} nodes are available: {}.",
        parts.join(", "),
        preemption.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, extra: serde_json::Value) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"pool": "research"}},
            "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "250", "nvidia.com/mig-1g.10gb": "2"}},
        });
        merge(&mut node, extra);
        serde_json::from_value(node).expect("a node")
    }

    fn pod(name: &str, created: &str, extra: serde_json::Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "a", "creationTimestamp": created},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1", "cpu": "1"}}}]},
        });
        merge(&mut pod, extra);
        serde_json::from_value(pod).expect("a pod")
    }

    fn merge(into: &mut serde_json::Value, from: serde_json::Value) {
        match (into, from) {
            (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(serde_json::Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    const EARLY: &str = "2026-03-02T09:00:00Z";
    const LATE: &str = "2026-03-02T10:00:00Z";

    #[track_caller]
    fn check(nodes: &[Node], pods: &[Pod], expect: &[(&str, &str)]) {
        let verdicts = schedule(nodes.iter(), pods.iter());
        let told: Vec<(String, String)> = verdicts
            .into_iter()
            .map(|(pod, verdict)| match verdict {
                Verdict::Bound(node) => (pod, node),
                Verdict::Unschedulable(why) => (pod, why),
            })
            .collect();
        let expect: Vec<(String, String)> =
            expect.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(told, expect);
    }

    #[test]
    fn the_older_pod_gets_the_last_slice_and_the_other_is_told_why_not() {
        let taken = pod("held", EARLY, json!({"spec": {"nodeName": "n1"}}));
        let (old, young) = (pod("old", EARLY, json!({})), pod("young", LATE, json!({})));
        check(
            &[node("n1", json!({}))],
            &[young, old, taken],
            &[
                ("a/old", "n1"),
                (
                    "a/young",
                    "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
                ),
            ],
        );
    }

    #[test]
    fn priority_goes_before_age() {
        let (old, high) =
            (pod("old", EARLY, json!({})), pod("high", LATE, json!({"spec": {"priority": 10}})));
        let one = node("n1", json!({"status": {"allocatable": {"nvidia.com/mig-1g.10gb": "1"}}}));
        let verdicts = schedule([one].iter(), [old, high].iter());
        assert_eq!(verdicts[0], ("a/high".to_owned(), Verdict::Bound("n1".to_owned())));
    }

    #[test]
    fn each_node_refuses_for_its_first_reason() {
        let nodes = [
            node("cordoned", json!({"spec": {"unschedulable": true}})),
            node("other", json!({"metadata": {"labels": {"pool": "prod"}}})),
            node("small", json!({"status": {"allocatable": {"cpu": "500m"}}})),
            node(
                "tainted",
                json!({"spec": {"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}}),
            ),
        ];
        let wants = pod("lab", EARLY, json!({"spec": {"nodeSelector": {"pool": "research"}}}));
        check(
            &nodes,
            &[wants],
            &[(
                "a/lab",
                "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {dedicated: ml}, 1 node(s) were unschedulable. preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not helpful for scheduling.",
            )],
        );
    }

    #[test]
    fn what_is_over_gated_or_going_is_left_alone_and_holds_nothing() {
        let over = pod("over", EARLY, json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Succeeded"}}));
        let gated = pod("gated", EARLY, json!({"spec": {"schedulingGates": [{"name": "kueue"}]}}));
        let going = pod("going", EARLY, json!({"metadata": {"deletionTimestamp": LATE}}));
        let lab = pod(
            "lab",
            EARLY,
            json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "2"}}}]}}),
        );
        check(&[node("n1", json!({}))], &[over, gated, going, lab], &[("a/lab", "n1")]);
    }

    #[test]
    fn required_affinity_knows_all_operators() {
        let affine = |operator: &str, values: serde_json::Value| {
            let term =
                json!({"matchExpressions": [{"key": "gpu.count", "operator": operator, "values": values}]});
            let required =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
            pod("lab", EARLY, json!({"spec": {"affinity": {"nodeAffinity": required}}}))
        };
        let nodes = [node("n1", json!({"metadata": {"labels": {"gpu.count": "7"}}}))];
        let bound = |p: Pod| matches!(schedule(nodes.iter(), [p].iter())[0].1, Verdict::Bound(_));
        assert!(bound(affine("In", json!(["7"]))) && !bound(affine("NotIn", json!(["7"]))));
        assert!(bound(affine("Exists", json!([]))) && !bound(affine("DoesNotExist", json!([]))));
        assert!(bound(affine("Gt", json!(["6"]))) && !bound(affine("Lt", json!(["7"]))));
    }
}
