//! The writes of the GPU Operator's replacement, and the values that it does not change.
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use sim_cli::gpu_operator::{Seen, Write, due};

const FOUND: &str = "feature.node.kubernetes.io/pci-10de.present";

fn policy(spec: Value, state: &str) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": spec, "status": {"state": state},
    }))
    .unwrap()
}

fn usual() -> Value {
    json!({"mig": {"strategy": "mixed"}, "migManager": {"config": {"name": "", "default": "all-disabled"}}})
}

fn node(labels: Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n1", "labels": labels}})).unwrap()
}

/// The DaemonSets as they are in the manifest, as the API server has them.
fn daemon_sets() -> Vec<DaemonSet> {
    let text = include_str!("../../../../e2e/kind/manifests/operands.yaml");
    let sets = text.split("\n---\n").filter(|part| part.contains("kind: DaemonSet"));
    let sets = sets.map(|part| {
        let mut set: DaemonSet = serde_saphyr::from_str(part).unwrap();
        set.metadata.generation = Some(1);
        set.status = serde_json::from_value(json!({
            "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1,
            "updatedNumberScheduled": 1, "observedGeneration": 1,
        }))
        .unwrap();
        set
    });
    sets.collect()
}

fn seen(spec: Value, labels: Value) -> Seen {
    Seen { policies: vec![policy(spec, "ready")], nodes: vec![node(labels)], daemon_sets: daemon_sets() }
}

/// The labels that one node gets.
fn labels_of(seen: &Seen) -> Value {
    due(seen, "gpu-operator")
        .into_iter()
        .find_map(|write| match write {
            Write::Node(_, patch) => Some(patch["metadata"]["labels"].clone()),
            _ => None,
        })
        .unwrap_or(Value::Null)
}

fn daemon_sets_of(seen: &Seen) -> Vec<(String, Value)> {
    let writes = due(seen, "gpu-operator").into_iter();
    let sets = writes.filter_map(|write| match write {
        Write::DaemonSet(name, patch) => Some((name, patch["spec"]["template"]["spec"].clone())),
        _ => None,
    });
    sets.collect()
}

#[test]
fn a_cluster_without_a_policy_gets_the_one_of_the_chart() {
    let writes = due(&Seen::default(), "gpu-operator");
    let [Write::MakePolicy(name, content)] = writes.as_slice() else { panic!("{writes:?}") };
    assert_eq!((name.as_str(), &content["spec"]["mig"]["strategy"]), ("cluster-policy", &json!("mixed")));
}

#[test]
fn the_operands_go_where_nfd_found_a_gpu_and_mig_manager_where_gfd_says_that_it_can_be_cut() {
    assert_eq!(labels_of(&seen(usual(), json!({}))), Value::Null, "no GPU, no label");
    let found = labels_of(&seen(usual(), json!({FOUND: "true"})));
    assert_eq!(found["nvidia.com/gpu.present"], "true");
    assert_eq!(found["nvidia.com/gpu.deploy.device-plugin"], "true");
    assert_eq!(found.get("nvidia.com/gpu.deploy.mig-manager"), None);
    assert_eq!(found.get("nvidia.com/mig.config"), None);
    let capable = labels_of(&seen(usual(), json!({FOUND: "true", "nvidia.com/mig.capable": "true"})));
    assert_eq!(capable["nvidia.com/gpu.deploy.mig-manager"], "true");
    assert_eq!(capable["nvidia.com/mig.config"], "all-disabled");
}

#[test]
fn what_somebody_wrote_is_left_and_what_is_empty_is_filled() {
    let there = json!({
        FOUND: "true", "nvidia.com/mig.capable": "true", "nvidia.com/mig.config": "all-balanced",
        "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change", "nvidia.com/gpu.deploy.dcgm": "false",
        "nvidia.com/gpu.deploy.mig-manager": "",
    });
    let labels = labels_of(&seen(usual(), there));
    for left in ["nvidia.com/mig.config", "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dcgm"]
    {
        assert_eq!(labels.get(left), None, "{left}");
    }
    assert_eq!(labels["nvidia.com/gpu.deploy.mig-manager"], "true");
    let out = json!({
        FOUND: "true", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.operands": "false",
        "nvidia.com/gpu.deploy.dcgm": "true",
    });
    assert_eq!(labels_of(&seen(usual(), out)), json!({"nvidia.com/gpu.deploy.dcgm": null}));
}

#[test]
fn the_manifests_are_what_the_usual_policy_asks_for() {
    assert_eq!(daemon_sets_of(&seen(usual(), json!({}))), []);
    assert_eq!(due(&seen(usual(), json!({})), "gpu-operator"), []);
}

#[test]
fn the_map_that_the_policy_names_is_mounted_by_mig_manager_and_by_nobody_else() {
    let mut spec = usual();
    spec["migManager"]["config"]["name"] = json!("slicewright-mig-config");
    let patched = daemon_sets_of(&seen(spec, json!({})));
    let volume = json!({"name": "mig-parted-config", "configMap": {"name": "slicewright-mig-config"}});
    assert_eq!(patched, [("nvidia-mig-manager".to_owned(), json!({"volumes": [volume]}))]);
}

#[test]
fn a_strategy_goes_to_plugin_and_discovery_and_an_empty_one_is_taken_out() {
    let mut spec = usual();
    spec["mig"]["strategy"] = json!("single");
    let patched = daemon_sets_of(&seen(spec.clone(), json!({})));
    let names: Vec<_> = patched.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["nvidia-device-plugin-daemonset", "gpu-feature-discovery"]);
    let env = json!([{"name": "MIG_STRATEGY", "value": "single"}]);
    assert_eq!(patched[0].1["containers"], json!([{"name": "nvidia-device-plugin", "env": env}]));
    spec["mig"]["strategy"] = json!("");
    let patched = daemon_sets_of(&seen(spec, json!({})));
    let env = json!([{"name": "MIG_STRATEGY", "$patch": "delete"}]);
    assert_eq!(patched[1].1["containers"], json!([{"name": "gpu-feature-discovery", "env": env}]));
}

#[test]
fn configurations_of_the_plugin_are_mounted_and_config_manager_is_told_the_default() {
    let mut spec = usual();
    spec["devicePlugin"] = json!({"config": {"name": "shared", "default": "ts-4"}});
    let (_, patch) = daemon_sets_of(&seen(spec, json!({}))).remove(0);
    assert_eq!(patch["volumes"], json!([{"name": "available", "configMap": {"name": "shared"}}]));
    let env = json!([{"name": "DEFAULT_CONFIG", "value": "ts-4"}]);
    assert_eq!(patch["containers"], json!([{"name": "config-manager", "env": env}]));
    assert_eq!(patch["initContainers"], json!([{"name": "config-manager-init", "env": env}]));
}

#[test]
fn discovery_reads_the_configurations_of_the_plugin_and_both_read_the_shipped_ones_when_no_map_is_named() {
    let mut spec = usual();
    spec["devicePlugin"] = json!({"config": {"name": "shared", "default": ""}});
    let patched = daemon_sets_of(&seen(spec, json!({})));
    let mounted = json!([{"name": "available", "configMap": {"name": "shared"}}]);
    assert_eq!(patched.iter().map(|(_, patch)| &patch["volumes"]).collect::<Vec<_>>(), [&mounted, &mounted]);
    let mut seen = seen(usual(), json!({}));
    for set in &mut seen.daemon_sets {
        let pod = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        let volumes = pod.volumes.iter_mut().flatten().filter(|volume| volume.name == "available");
        volumes.for_each(|volume| volume.config_map.as_mut().unwrap().name = "shared".to_owned());
    }
    let shipped = json!([{"name": "available", "configMap": {"name": "device-plugin-config"}}]);
    let patched = daemon_sets_of(&seen);
    assert_eq!(patched.iter().map(|(_, patch)| &patch["volumes"]).collect::<Vec<_>>(), [&shipped, &shipped]);
}

#[test]
fn a_manager_that_is_switched_off_has_no_pods_and_comes_back() {
    let mut spec = usual();
    spec["migManager"]["enabled"] = json!(false);
    let mut seen = seen(spec, json!({}));
    let off = json!({"nodeSelector": {"sim.slicewright.io/switched-off": "true"}});
    assert_eq!(daemon_sets_of(&seen), [("nvidia-mig-manager".to_owned(), off)]);
    for set in &mut seen.daemon_sets {
        let pod = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        let selector = pod.node_selector.get_or_insert_default();
        selector.insert("sim.slicewright.io/switched-off".to_owned(), "true".to_owned());
    }
    assert_eq!(daemon_sets_of(&seen), []);
    seen.policies = vec![policy(usual(), "ready")];
    let on = json!({"nodeSelector": {"sim.slicewright.io/switched-off": null}});
    assert_eq!(daemon_sets_of(&seen), [("nvidia-mig-manager".to_owned(), on)]);
}

#[test]
fn the_state_says_whether_all_pods_are_of_the_newest_kind_and_ready() {
    let state = |seen: &Seen| match due(seen, "gpu-operator").last() {
        Some(Write::PolicyStatus(_, patch)) => patch["status"]["state"].as_str().unwrap().to_owned(),
        _ => "unchanged".to_owned(),
    };
    let mut seen = seen(usual(), json!({}));
    assert_eq!(state(&seen), "unchanged");
    seen.daemon_sets[0].metadata.generation = Some(2);
    assert_eq!(state(&seen), "notReady");
    seen.policies = vec![policy(usual(), "notReady")];
    assert_eq!(state(&seen), "unchanged");
    seen.daemon_sets = daemon_sets();
    assert_eq!(state(&seen), "ready");
}
