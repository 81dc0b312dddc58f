//! Nodes of which some GPUs are whole and the others cut, and policies that want them so.

use observe::{Actuator, ClusterView};
use planner::inventory::ChangeScope;
use planner::names::NodeName;
use planner::policy::{Bounds, LayoutPolicy, StaticCut};
use serde_json::{Value, json};

use crate::words::{cut, node, node_of, pod, policy, see, slices, texts};

/// Eight GPUs, of which the first two are whole and the others cut into seven.
fn server(name: &str) -> Value {
    let mut server = cut(node(name), "slicewright-2whole", &[("gpu", 2), ("mig-1g.10gb", 42)]);
    server["metadata"]["labels"]["nvidia.com/gpu.count"] = "8".into();
    server
}

fn map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-mig-config", "namespace": "nvidia-gpu-operator"},
        "data": {"config.yaml": "version: v1\nmig-configs:\n  slicewright-2whole:\n    - {devices: [0, 1], mig-enabled: false}\n    - {devices: [2, 3, 4, 5, 6, 7], mig-enabled: true, mig-devices: {1g.10gb: 7}}\n"},
    })
}

/// A policy for whole GPUs and slices.
fn two_whole() -> Value {
    let mut policy = policy("research");
    policy["spec"]["layout"] = json!({"type": "Static", "static": {"gpus": [
        {"indices": [0, 1], "mig": "Disabled"},
        {"slices": [{"profile": "1g.10gb", "count": 7}]},
    ]}});
    policy
}

/// A policy under which requests decide which GPUs are whole.
fn on_demand(bounds: Value) -> Value {
    let mut policy = policy("research");
    policy["spec"]["layout"]["demandDriven"] = json!({"wholeGpus": bounds});
    policy
}

fn actuator(seen: &ClusterView) -> Actuator {
    seen.nodes[&NodeName("n1".to_owned())].actuator
}

#[test]
fn the_gpus_of_a_node_that_is_half_whole_change_by_themselves() {
    let train = pod("a", "train", &[("gpu", 1)], Some("n1"));
    let lab = pod("a", "lab", &[("mig-1g.10gb", 1)], Some("n2"));
    let seen = see(&[map(), server("n1"), server("n2"), train, lab]);
    let n1 = node_of(&seen, "n1");
    assert_eq!(n1.gpus.len(), 8);
    assert_eq!((n1.scope, &n1.hold), (ChangeScope::IdleGpus, &None));
    // Which of the two it has is not known, but that it has one.
    assert_eq!(slices(n1, 0), ["off, maybe in use by a/train"]);
    assert_eq!(slices(n1, 1), ["off, maybe in use by a/train"]);
    assert_eq!(n1.whole_held, 1);
    assert_eq!(slices(n1, 7), ["1g.10gb idle"; 7]);
    let n2 = node_of(&seen, "n2");
    assert_eq!(slices(n2, 0), ["off, idle"]);
    assert_eq!(slices(n2, 2), ["1g.10gb maybe in use by a/lab"; 7]);
    assert_eq!(texts(&seen.problems), [""; 0]);
}

#[test]
fn a_pod_with_both_whole_gpus_has_each_of_them() {
    let train = pod("a", "train", &[("gpu", 2)], Some("n1"));
    let seen = see(&[map(), server("n1"), train]);
    let n1 = node_of(&seen, "n1");
    assert_eq!([slices(n1, 0), slices(n1, 1)], [["off, in use by a/train"], ["off, in use by a/train"]]);
    assert_eq!(n1.whole_held, 2);
}

#[test]
fn a_rule_with_mig_disabled_wants_whole_gpus() {
    let seen = see(&[map(), server("n1"), two_whole()]);
    let LayoutPolicy::Static { gpus } = &seen.policies[0].layout else { panic!("it is static") };
    assert_eq!(gpus[0].cut, StaticCut::MigOff);
    assert!(gpus[1].cuts_into("1g.10gb".parse().expect("a profile")));
    assert_eq!(texts(&seen.problems), [""; 0]);
}

/// The agent does not switch MIG, so a node that a policy wants partly whole is MIG manager's, unless it was handed
/// over to the agent before.
#[test]
fn a_node_that_is_to_have_whole_gpus_is_not_handed_to_its_agent() {
    let mut agent = pod("slicewright-agent", "agent-n1", &[], Some("n1"));
    agent["metadata"]["uid"] = "uid-agent".into();
    agent["metadata"]["labels"] =
        json!({"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"});
    agent["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "slicewright-agent", "uid": "uid-set", "controller": true},
    ]);
    agent["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let one = |index: u32| {
        json!({"index": index, "model": "A100-80GB", "uuid": format!("GPU-{index}"), "migEnabled": true, "slices": [
            {"profile": "7g.80gb", "start": 0, "used": "Idle", "devices": [format!("MIG-{index}")]},
        ]})
    };
    let report = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {
            "observed": {"by": "Agent", "at": "2026-11-21T08:59:00Z", "bootId": "b-1", "gpus": [one(0), one(1)]},
            "agent": {
                "podUid": "uid-agent", "bootId": "b-1", "version": "9.8.7", "mode": "Change", "report": 7,
                "at": "2026-11-21T08:59:00Z",
            },
        },
    });
    let with = |node: Value, policy: Value| see(&[node, report.clone(), agent.clone(), policy]);
    assert_eq!(actuator(&with(node("n1"), policy("research"))), Actuator::Agent);
    assert_eq!(actuator(&with(node("n1"), two_whole())), Actuator::Operands);
    let mut others = two_whole();
    others["spec"]["layout"]["static"]["gpus"][0]["indices"] = json!([6, 7]);
    assert_eq!(actuator(&with(node("n1"), others)), Actuator::Agent, "it has no such GPU");
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    assert_eq!(actuator(&with(node("n1"), on_demand(json!({})))), Actuator::Operands);
    assert_eq!(actuator(&with(node("n1"), on_demand(json!({"maxCount": 0})))), Actuator::Agent);
    assert_eq!(actuator(&with(handed, two_whole())), Actuator::Agent);
}

/// The author of the policy counts from one, or thinks of larger servers.
#[test]
fn an_index_that_no_gpu_of_the_policys_nodes_has_is_named_with_those_that_there_are() {
    let mut policy = two_whole();
    policy["spec"]["layout"]["static"]["gpus"][0]["indices"] = json!([0, 1, 8, 99]);
    let seen = see(&[map(), server("n1"), server("n2"), policy.clone()]);
    assert_eq!(
        texts(&seen.problems),
        [
            "GpuPartitionPolicy research: spec.layout.static.gpus[0].indices: names GPU 8, 99, which none of the 2 node(s) of this policy has: their GPUs have the indices 0 to 7"
        ]
    );
    // Of a node that is new, nobody knows how many GPUs it has.
    let mut new = node("new");
    new["metadata"]["labels"].as_object_mut().unwrap().remove("nvidia.com/gpu.count");
    new["status"]["allocatable"].as_object_mut().unwrap().remove("nvidia.com/gpu");
    let seen = see(&[map(), server("n1"), new, policy]);
    assert!(node_of(&seen, "new").gpus.is_empty());
    let said = texts(&seen.problems);
    assert!(!said.iter().any(|text| text.contains("indices")), "{said:?}");
}

#[test]
fn bounds_of_whole_gpus_are_read_and_those_that_make_no_sense_are_named() {
    let seen = see(&[on_demand(json!({"minCount": 1, "spareCount": 2, "maxCount": 4}))]);
    let expect = Bounds { min: 1, spare: 2, max: Some(4) };
    assert_eq!(seen.policies[0].layout.whole_gpus(), Some(&expect));
    assert_eq!(see(&[on_demand(json!({}))]).policies[0].layout.whole_gpus(), Some(&Bounds::default()));
    assert_eq!(see(&[policy("research")]).policies[0].layout.whole_gpus(), None);
    let wrong = see(&[on_demand(json!({"minCount": 5, "maxCount": 4}))]);
    let said = texts(&wrong.problems);
    assert!(
        said[0].contains("spec.layout.demandDriven.wholeGpus.minCount: is 5, but maxCount is 4"),
        "{said:?}"
    );
}

/// A node of four cards that have no MIG, which offers all of them.
fn t4(name: &str) -> Value {
    let mut node = node(name);
    let labels = &mut node["metadata"]["labels"];
    labels["nvidia.com/gpu.product"] = "Tesla-T4".into();
    labels["nvidia.com/mig.capable"] = "false".into();
    labels["pool"] = "graphics".into();
    node["status"]["allocatable"]["nvidia.com/gpu"] = "4".into();
    node
}

/// Who asks for two GPUs, and where it finds them.
fn finds(objects: &[Value]) -> Option<String> {
    let asks = pod("b", "train", &[("gpu", 2)], None);
    let seen = see(&[&[map(), server("n1"), on_demand(json!({})), asks], objects].concat());
    let [request] = seen.requests.as_slice() else { panic!("one asks") };
    assert_eq!(request.whole_gpus, 2);
    request.finds.as_ref().map(|node| node.0.clone())
}

#[test]
fn who_finds_whole_gpus_on_a_node_without_mig_is_left_to_the_scheduler() {
    assert_eq!(finds(&[]), None);
    assert_eq!(finds(&[t4("t4")]), Some("t4".to_owned()));
    // Two are left, then one.
    assert_eq!(finds(&[t4("t4"), pod("c", "render", &[("gpu", 2)], Some("t4"))]), Some("t4".to_owned()));
    assert_eq!(finds(&[t4("t4"), pod("c", "render", &[("gpu", 3)], Some("t4"))]), None);
    let edited = |edit: fn(&mut Value)| {
        let mut node = t4("t4");
        edit(&mut node);
        finds(&[node])
    };
    assert_eq!(edited(|node| node["spec"]["unschedulable"] = true.into()), None);
    assert_eq!(edited(|node| node["status"]["conditions"][0]["status"] = "False".into()), None);
    assert_eq!(
        edited(|node| node["spec"]["taints"] = json!([{"key": "graphics", "effect": "NoSchedule"}])),
        None
    );
    assert_eq!(edited(|node| node["status"]["allocatable"]["cpu"] = "500m".into()), None);
    // A node whose GPUs have MIG is planned for, so nothing is found there.
    assert_eq!(finds(&[server("n2")]), None);
}
