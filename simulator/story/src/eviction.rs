//! Eviction as the API server does it: a pod is evicted if every disruption budget that covers it allows
//! that.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::asks::is_over;
use crate::store::Shelf;

/// Whether a pod may be evicted now; if not, what the API server says.
pub(crate) fn refusal(pod: &Pod, pods: &Shelf<Pod>, budgets: &Shelf<PodDisruptionBudget>) -> Option<String> {
    budgets.values().find_map(|budget| {
        let spec = budget.spec.as_ref()?;
        let covers = |p: &Pod| {
            p.metadata.namespace == budget.metadata.namespace
                && spec.selector.as_ref().is_some_and(|s| selects(s, p))
        };
        if !covers(pod) {
            return None;
        }
        let (mut all, mut healthy) = (0, 0);
        for other in pods.values().filter(|p| covers(p) && !is_over(p)) {
            all += 1;
            healthy += i64::from(is_healthy(other));
        }
        let needs = match (&spec.min_available, &spec.max_unavailable) {
            (Some(min), _) => share(min, all),
            (None, Some(max)) => all - share(max, all),
            (None, None) => all - 1,
        };
        (healthy - 1 < needs).then(|| {
            let name = budget.metadata.name.as_deref().unwrap_or_default();
            format!(
                "Cannot evict pod as it would violate the pod's disruption budget. \
                 The disruption budget {name} needs {needs} healthy pods and has {healthy} currently"
            )
        })
    })
}

fn is_healthy(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// A number, or a percentage of all pods, rounded up.
fn share(value: &IntOrString, all: i64) -> i64 {
    match value {
        IntOrString::Int(n) => i64::from(*n),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(100);
            (all * percent + 99) / 100
        }
    }
}

fn selects(selector: &LabelSelector, pod: &Pod) -> bool {
    let label = |key: &str| pod.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str);
    let holds = |r: &LabelSelectorRequirement| {
        let values = r.values.as_deref().unwrap_or_default();
        match r.operator.as_str() {
            "In" => label(&r.key).is_some_and(|v| values.iter().any(|x| x == v)),
            "NotIn" => label(&r.key).is_none_or(|v| values.iter().all(|x| x != v)),
            "Exists" => label(&r.key).is_some(),
            _ => label(&r.key).is_none(),
        }
    };
    selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(holds)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::store::Revision;

    fn pod(name: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "a", "labels": {"app": "api"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .expect("a pod")
    }

    #[track_caller]
    fn check(spec: serde_json::Value, expect: Option<&str>) {
        let (mut pods, mut budgets, mut revision) = (Shelf::default(), Shelf::default(), Revision::default());
        for name in ["api-0", "api-1"] {
            pods.put(pod(name), Timestamp::UNIX_EPOCH, &mut revision);
        }
        let budget = json!({"metadata": {"name": "api", "namespace": "a"}, "spec": spec});
        budgets.put(serde_json::from_value(budget).expect("a budget"), Timestamp::UNIX_EPOCH, &mut revision);
        assert_eq!(refusal(&pod("api-0"), &pods, &budgets).as_deref(), expect);
    }

    #[test]
    fn a_pod_may_go_when_its_budgets_can_spare_it() {
        let api = json!({"matchLabels": {"app": "api"}});
        check(json!({"minAvailable": 1, "selector": api}), None);
        check(json!({"maxUnavailable": "50%", "selector": api}), None);
        check(json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "other"}}}), None);
        check(
            json!({"minAvailable": "100%", "selector": api}),
            Some(
                "Cannot evict pod as it would violate the pod's disruption budget. \
                 The disruption budget api needs 2 healthy pods and has 2 currently",
            ),
        );
    }
}
