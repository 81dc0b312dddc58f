//! What is published of GPUs that are not cut: seats of those that several pods share, and whole ones, on three nodes
//! with eight T4s each, of which one is in use.

use reconcile::MenuSettings;
use rollout::PluginConfig;
use serde_json::{Value, json};

use super::{PRODUCT, install, minutes, name, profile, round};
use crate::cluster::Cluster;

/// The nodes; OpenShift AI is installed, and somebody trains on a GPU of the first.
fn t4s(sharing: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.settings.menu = Some(MenuSettings::default());
    for node in ["t1", "t2", "t3"] {
        cluster.uncut(node, "Tesla-T4");
    }
    cluster.shares_gpus(sharing);
    hold(&mut cluster, "train", "nvidia.com/gpu", "t1");
    install(&mut cluster);
    cluster
}

fn hold(cluster: &mut Cluster, pod: &str, resource: &str, node: &str) {
    cluster.add_pod(json!({
        "metadata": {"name": pod, "namespace": "team", "uid": format!("u-{pod}")},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": {resource: "1"}}}]},
        "status": {"phase": "Running"},
    }));
}

fn by_four() -> Value {
    json!({"type": "TimeSlicing", "rules": [{"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4}]})
}

/// The resource, its name for people, the count of cores, and the memory.
fn asks(cluster: &mut Cluster, name: &str) -> (String, String, Value, Value) {
    let spec = json!(profile(cluster, name).spec);
    let of = |n: usize| spec["identifiers"][n].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let gpu = of(2);
    assert_eq!((&gpu["minCount"], &gpu["maxCount"]), (&json!(1), &json!(1)));
    (
        text(&gpu["identifier"]),
        text(&gpu["displayName"]),
        of(0)["maxCount"].clone(),
        of(1)["maxCount"].clone(),
    )
}

fn described(cluster: &mut Cluster, name: &str) -> String {
    profile(cluster, name).annotation("opendatahub.io/description").unwrap().to_owned()
}

fn product(cluster: &mut Cluster, name: &str) -> Value {
    json!(profile(cluster, name).spec)["scheduling"]["node"]["nodeSelector"][PRODUCT].clone()
}

#[test]
fn a_shared_gpu_is_offered_as_a_seat_by_its_policy_and_neither_who_holds_one_nor_how_far_the_rollout_is_changes_that()
 {
    let mut cluster = t4s(by_four());
    let done = round(&mut cluster);
    assert_eq!(done.len(), 1, "{done:?}");
    let seat = name(&cluster, &["gpu-research-tesla-t4-gpu-shared-4-"]);
    let words = ("nvidia.com/gpu.shared".to_owned(), "GPU, shared by 4".to_owned());
    // 32 cores and 256 GiB: a quarter of an eighth of nine tenths.
    assert_eq!(asks(&mut cluster, &seat), (words.0, words.1, json!(1), json!("7Gi")));
    assert_eq!(
        described(&mut cluster, &seat),
        "A GPU, shared by 4 pods, with no memory limit of its own. If none is free, the workload waits until one is."
    );
    let shown = profile(&mut cluster, &seat).annotation("opendatahub.io/display-name").unwrap().to_owned();
    assert_eq!(shown, "GPU, shared by 4 (Tesla T4, research)");
    assert_eq!(product(&mut cluster, &seat), "Tesla-T4");

    // One node after the other is shared, the last one never, since somebody trains there; and all seats are taken.
    for node in ["t2", "t3"] {
        cluster.is_shared(node, &PluginConfig::of_gpus(4, true, true));
        assert_eq!(minutes(&mut cluster, 20), [""; 0]);
        for n in 0..32 {
            hold(&mut cluster, &format!("{node}-{n}"), "nvidia.com/gpu.shared", node);
        }
    }
    assert_eq!(minutes(&mut cluster, 60), [""; 0], "people wait for a seat; it is still on the menu");
}

#[test]
fn seats_that_keep_the_name_of_whole_gpus_select_the_product_as_it_is_once_they_are_shared() {
    let mut cluster = t4s(by_four());
    cluster.edit_policy(|policy| policy.spec.sharing.as_mut().unwrap().rename = false);
    round(&mut cluster);
    let seat = name(&cluster, &["gpu-research-tesla-t4-shared-gpu-4-"]);
    assert_eq!(asks(&mut cluster, &seat).0, "nvidia.com/gpu");
    assert_eq!(product(&mut cluster, &seat), "Tesla-T4-SHARED");
    for node in ["t1", "t2", "t3"] {
        cluster.is_shared(node, &PluginConfig::of_gpus(4, false, true));
        assert_eq!(minutes(&mut cluster, 20), [""; 0], "{node}");
    }
    // Back to one pod each: another resource's worth, and another product.
    cluster.shares_gpus(json!({"type": "None"}));
    assert_eq!(minutes(&mut cluster, 1).len(), 1);
    let whole = name(&cluster, &["gpu-research-tesla-t4-gpu-"]);
    assert_eq!(product(&mut cluster, &whole), "Tesla-T4");
    assert_eq!(minutes(&mut cluster, 10), [format!("withdraw {seat}")]);
}

#[test]
fn seats_of_mps_say_what_they_are_worth_and_are_another_offer_than_seats_by_turns() {
    let mut cluster = t4s(by_four());
    round(&mut cluster);
    let turns = name(&cluster, &["gpu-shared-4"]);
    // The device plugin would exit with it beside `mixed`: it is refused, and nobody shares yet.
    cluster.edit_policy(|policy| {
        policy.spec.sharing.as_mut().unwrap().type_ = api::policy::SharingType::Mps;
    });
    let refused = minutes(&mut cluster, 12);
    assert!(refused.contains(&format!("withdraw {turns}")), "{refused:?}");
    cluster.strategy("");
    let done = round(&mut cluster);
    assert_eq!(done.len(), 1, "{done:?}");
    let mps = name(&cluster, &["gpu-shared-4-mps"]);
    let said = described(&mut cluster, &mps);
    assert!(
        said.contains("shared by 4 pods, with equal shares of memory, and a failure of one pod ends all"),
        "{said}"
    );
    assert_eq!(asks(&mut cluster, &mps).1, "GPU, shared by 4 through MPS");
}

#[test]
fn a_gpu_for_one_pod_each_is_offered_whole() {
    let mut cluster = t4s(json!({"type": "None"}));
    assert_eq!(round(&mut cluster).len(), 1);
    let whole = name(&cluster, &["gpu-research-tesla-t4-gpu-"]);
    let words = ("nvidia.com/gpu".to_owned(), "GPU".to_owned());
    assert_eq!(asks(&mut cluster, &whole), (words.0, words.1, json!(3), json!("28Gi")));
    assert_eq!(
        described(&mut cluster, &whole),
        "A whole GPU, with all of its memory. If none is free, the workload waits until one is."
    );
}

#[test]
fn a_node_that_somebody_else_shares_is_offered_as_it_is() {
    let mut cluster = t4s(by_four());
    for node in ["t1", "t2", "t3"] {
        cluster.is_shared(node, &PluginConfig::of_gpus(6, true, true));
        cluster.edit_node(node, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("nvidia.com/device-plugin.config".to_owned(), "by-hand".to_owned());
        });
    }
    let done = round(&mut cluster);
    assert_eq!(done.len(), 1, "{done:?}");
    assert!(done[0].contains("gpu-shared-6-"), "{done:?}");
}

#[test]
fn a_queue_gets_one_profile_of_each_resource_that_promises_no_more_than_the_worst_of_its_nodes() {
    let mut cluster = t4s(json!({"type": "TimeSlicing", "rules": [
        {"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4},
        {"model": "A100-40GB", "resource": "nvidia.com/gpu", "replicas": 8},
    ]}));
    cluster.uncut("a1", "NVIDIA-A100-SXM4-40GB");
    cluster.settings.menu = Some(MenuSettings { queues: vec!["gpus".to_owned()], ..MenuSettings::default() });
    let done = round(&mut cluster);
    assert_eq!(done.len(), 3, "one for each product, and one for the queue: {done:?}");
    assert!(name(&cluster, &["t4-gpu-shared-4"]) != name(&cluster, &["40gb-gpu-shared-8"]));
    let queued = name(&cluster, &["gpu-q-gpus-"]);
    assert!(queued.contains("gpu-shared-up-to-8-"), "{queued}");
    assert_eq!(asks(&mut cluster, &queued).1, "GPU, shared by up to 8");
    let said = described(&mut cluster, &queued);
    assert!(said.starts_with("A GPU, shared by up to 8 pods, with no memory limit of its own."), "{said}");
}

#[test]
fn whole_gpus_of_nodes_that_are_cut_are_offered_where_the_policy_leaves_or_makes_them_whole() {
    let whole = |cluster: &mut Cluster, layout: Value| {
        cluster.policy(layout);
        cluster.settings.menu.as_mut().unwrap().hold = jiff::SignedDuration::ZERO;
        minutes(cluster, 3);
        let all = cluster.objects.hardware_profiles.values().filter(|profile| !profile.is_disabled());
        let asks: Vec<&str> = all.map(|profile| profile.spec.identifiers[2].identifier.as_str()).collect();
        (asks.contains(&"nvidia.com/gpu"), asks.contains(&"nvidia.com/mig-3g.40gb"))
    };
    let mut cluster = super::fleet();
    assert_eq!(whole(&mut cluster, json!({"type": "DemandDriven"})), (false, true));
    let bounds = |bounds: Value| json!({"type": "DemandDriven", "demandDriven": {"wholeGpus": bounds}});
    assert_eq!(whole(&mut cluster, bounds(json!({}))), (true, true));
    assert_eq!(whole(&mut cluster, bounds(json!({"maxCount": 0}))), (false, true));
    let large = json!([{"profile": "3g.40gb", "count": 2}]);
    let rules = |first: Value| json!({"type": "Static", "static": {"gpus": [first, {"slices": large}]}});
    assert_eq!(whole(&mut cluster, rules(json!({"indices": [0, 1], "mig": "Disabled"}))), (true, true));
    assert_eq!(whole(&mut cluster, rules(json!({"model": "A30", "mig": "Disabled"}))), (false, true));
}

#[test]
fn slices_and_whole_gpus_that_several_share_are_offered_beside_each_other() {
    let mut cluster = super::fleet();
    let large = json!([{"profile": "3g.40gb", "count": 2}]);
    cluster.policy(json!({"type": "Static", "static": {"gpus": [
        {"indices": [0, 1], "mig": "Disabled"}, {"slices": large}]}}));
    cluster.edit_policy(|policy| {
        policy.spec.sharing = serde_json::from_value(json!({"type": "TimeSlicing", "rules": [
            {"resource": "nvidia.com/gpu", "replicas": 2},
        ]}))
        .unwrap();
    });
    let done = round(&mut cluster);
    assert_eq!(done.len(), 2, "{done:?}");
    let seat = name(&cluster, &["gpu-shared-2"]);
    assert_eq!(asks(&mut cluster, &seat).0, "nvidia.com/gpu.shared");
    assert!(name(&cluster, &["3g-40gb"]) != seat);
}
