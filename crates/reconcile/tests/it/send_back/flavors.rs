//! Quota is of a flavor, and Kueue gives a flavor only to pods that tolerate its taints and select its labels. Nobody is sent back
//! for one to whom it would not be given, and quota that is left in such a flavor is no reason why somebody waits.

use api::foreign::ResourceFlavor;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::{HOLD, MEDIUM, crowded, holds, the_workload, waits, within};
use crate::cluster::Cluster;

/// The flavor whose quota somebody holds who cannot be served, with more in its spec.
fn flavor(cluster: &mut Cluster, name: &str, spec: Value) {
    let flavor = json!({"metadata": {"name": name}, "spec": spec});
    let flavor: ResourceFlavor = serde_json::from_value(flavor).unwrap();
    cluster.objects.resource_flavors.insert(name.to_owned(), flavor);
}

/// A taint, as the flavor says it of its nodes.
fn taint(effect: &str) -> Value {
    json!([{"key": "gpu", "value": "yes", "effect": effect}])
}

/// What its pods say beside what they ask for.
fn pods_say(cluster: &mut Cluster, more: &Value) {
    let template = &mut the_workload(cluster, "pair").spec.pod_sets[0].template.spec;
    template.change(|spec| {
        let mut whole = json!(spec);
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        *spec = serde_json::from_value::<PodSpec>(whole).unwrap();
    });
}

/// A required node affinity of these terms.
fn affinity(terms: &[Value]) -> Value {
    let terms: Vec<Value> = terms.iter().map(|all| json!({"matchExpressions": all})).collect();
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

/// How many are sent back for the pair that waits, whose pods say this, where the flavor is this one.
fn sent_back(spec: Value, pods: &Value) -> usize {
    let mut cluster = crowded(20);
    cluster.label("n2", "tier", Some("a"));
    holds(&mut cluster, "large", 20, 0);
    waits(&mut cluster, "pair", MEDIUM, 2, 0);
    flavor(&mut cluster, "pool", spec);
    pods_say(&mut cluster, pods);
    within(&mut cluster, HOLD * 2).len()
}

#[test]
fn nobody_is_sent_back_for_pods_that_do_not_tolerate_the_taints_of_the_flavor() {
    let bears = json!([{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]);
    let of_other = json!([{"key": "gpu", "operator": "Equal", "value": "no"}]);
    let cases = [
        ("nobody tolerates it", taint("NoSchedule"), json!({}), json!([]), 0),
        ("nor this one", taint("NoExecute"), json!({"tolerations": bears}), json!([]), 0),
        ("they tolerate another", taint("NoSchedule"), json!({"tolerations": of_other}), json!([]), 0),
        ("it keeps nobody away", taint("PreferNoSchedule"), json!({}), json!([]), 1),
        ("they tolerate it", taint("NoSchedule"), json!({"tolerations": bears}), json!([]), 1),
        ("by the flavor they tolerate it", taint("NoSchedule"), json!({}), bears.clone(), 1),
    ];
    for (why, taints, pods, tolerations, expected) in cases {
        let spec =
            json!({"nodeLabels": {"pool": "research"}, "nodeTaints": taints, "tolerations": tolerations});
        assert_eq!(sent_back(spec, &pods), expected, "{why}");
    }
}

/// The nodes have what the flavor says, and not what the pods select: Kueue looks at the flavor.
#[test]
fn nobody_is_sent_back_for_pods_that_select_other_nodes_than_the_flavor_has() {
    let spec = || json!({"nodeLabels": {"pool": "research", "tier": "a"}});
    assert_eq!(sent_back(spec(), &json!({"nodeSelector": {"tier": "b"}})), 0);
    let nowhere = json!({"nodeLabels": {"pool": "research", "tier": "c"}});
    assert_eq!(
        sent_back(nowhere, &json!({})),
        0,
        "with that quota they would be kept to nodes that are not there"
    );
    assert_eq!(sent_back(spec(), &json!({"nodeSelector": {"tier": "a"}})), 1);
    // Of that label no flavor says anything.
    let host = "kubernetes.io/hostname";
    assert_eq!(sent_back(spec(), &json!({"nodeSelector": {host: "n2.cluster"}})), 1);
    let wants = json!([{"key": host, "operator": "In", "values": ["n2.cluster"]}]);
    assert_eq!(sent_back(spec(), &affinity(&[wants])), 1);
}

/// A second flavor has quota to spare. Who may not have that one waits for the quota of the first.
#[test]
fn quota_that_is_left_in_a_flavor_which_they_may_not_have_does_not_keep_others_from_gaining() {
    let term = |key: &str, operator: &str, value: &str| json!([{"key": key, "operator": operator, "values": [value]}]);
    let plain = json!({"nodeLabels": {"tier": "spare"}});
    let tainted = json!({"nodeLabels": {"tier": "spare"}, "nodeTaints": taint("NoSchedule")});
    let cases = [
        ("they may have it", &plain, json!({}), 0),
        ("it has a taint", &tainted, json!({}), 1),
        ("they select others", &plain, json!({"nodeSelector": {"pool": "research"}}), 1),
        ("they want others", &plain, affinity(&[term("tier", "NotIn", "spare")]), 1),
        (
            "they want either",
            &plain,
            affinity(&[term("tier", "NotIn", "spare"), term("tier", "In", "spare")]),
            0,
        ),
        (
            "they want what no flavor has",
            &plain,
            affinity(&[term("kubernetes.io/hostname", "In", "n2.cluster")]),
            0,
        ),
    ];
    for (why, spare, pods, expected) in cases {
        let mut cluster = crowded(20);
        holds(&mut cluster, "large", 20, 0);
        waits(&mut cluster, "pair", MEDIUM, 2, 0);
        flavor(&mut cluster, "spare", spare.clone());
        let queue = cluster.objects.cluster_queues.get_mut("research").unwrap();
        let mut quota = queue.spec.resource_groups[0].flavors[0].clone();
        quota.name = "spare".to_owned();
        queue.spec.resource_groups[0].flavors.push(quota);
        pods_say(&mut cluster, &pods);
        assert_eq!(within(&mut cluster, HOLD * 2).len(), expected, "{why}");
    }
}
