//! Our map of the device plugin's configurations: whose keys are in it, when it is written, and what people are told
//! while `ClusterPolicy` does not name it.

use api::foreign::cluster_policy::DevicePluginConfig;
use k8s_openapi::api::core::v1::ConfigMap;
use reconcile::{PluginMapWrite, Repoint, Round};
use rollout::{Method, Outlook, PluginConfig, Shared, StartBlocker};
use serde_json::json;

use crate::cluster::{Cluster, OPERATOR};

/// Three nodes with eight T4s each, and a policy that shares them.
fn pool() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["t1", "t2", "t3"] {
        cluster.uncut(name, "Tesla-T4");
    }
    cluster.shares_gpus(json!({"type": "TimeSlicing", "rules": [
        {"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4},
    ]}));
    cluster
}

fn ours() -> PluginConfig {
    PluginConfig::of_gpus(4, true, true)
}

fn names(cluster: &mut Cluster, map: &str) {
    let policy = cluster.objects.cluster_policies.get_mut("gpu-cluster-policy").unwrap();
    policy.spec.device_plugin.config =
        Some(DevicePluginConfig { name: map.to_owned(), default: String::new() });
}

fn put(cluster: &mut Cluster, name: &str, data: serde_json::Value) {
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": OPERATOR, "resourceVersion": "9"}, "data": data,
    }))
    .unwrap();
    cluster.objects.config_maps.insert((OPERATOR.to_owned(), name.to_owned()), map);
}

fn round(cluster: &Cluster) -> Round {
    cluster.round()
}

fn written(round: &Round) -> &PluginMapWrite {
    round.plugin_map.write.as_ref().unwrap_or_else(|| panic!("{:?}", round.plugin_map.problem))
}

fn degraded(round: &Round) -> (String, String) {
    let status = round.policies.values().next().unwrap();
    let found = status.conditions.iter().find(|c| c.type_ == "Degraded");
    found.map_or_else(Default::default, |c| (c.reason.clone(), c.message.clone()))
}

#[test]
fn the_administrators_keys_stay_as_they_are_beside_ours() {
    let mut cluster = pool();
    names(&mut cluster, "time-slicing-config");
    put(&mut cluster, "time-slicing-config", json!({"tesla-t4": "version: v1", "odd": "no configuration"}));
    let round = round(&cluster);
    let PluginMapWrite { map, data, if_version, is_ours: _ } = written(&round);
    assert_eq!((map.name.as_str(), if_version), ("slicewright-plugin-config", &None));
    let keys: Vec<&String> = data.keys().collect();
    assert_eq!(keys, ["odd", &ours().key(), "tesla-t4"]);
    assert_eq!((data["odd"].as_str(), &data[&ours().key()]), ("no configuration", &ours().render()));

    // Once ClusterPolicy names ours, what administrators have put there stays.
    names(&mut cluster, "slicewright-plugin-config");
    put(&mut cluster, "slicewright-plugin-config", json!({"tesla-t4": "version: v1"}));
    let round = cluster.round();
    let PluginMapWrite { data, if_version, .. } = written(&round);
    assert_eq!(if_version.as_deref(), Some("9"));
    assert_eq!(data.keys().collect::<Vec<_>>(), [&ours().key(), "tesla-t4"]);
}

#[test]
fn a_map_that_has_everything_is_not_written_and_one_that_was_edited_is() {
    let mut cluster = pool();
    names(&mut cluster, "slicewright-plugin-config");
    put(
        &mut cluster,
        "slicewright-plugin-config",
        json!({ours().key(): ours().render(), "theirs": "version: v1"}),
    );
    assert_eq!(round(&cluster).plugin_map, reconcile::PluginMapRound::default());
    put(
        &mut cluster,
        "slicewright-plugin-config",
        json!({ours().key(): "version: v1", "theirs": "version: v1"}),
    );
    let edited = round(&cluster);
    assert_eq!(written(&edited).data[&ours().key()], ours().render());
    // Who edited it owns the text since: only what is known to be ours is taken back.
    assert!(!written(&edited).is_ours, "it only has the name of ours");
    let key = (OPERATOR.to_owned(), "slicewright-plugin-config".to_owned());
    let map = cluster.objects.config_maps.get_mut(&key).unwrap();
    map.metadata.labels =
        serde_json::from_value(json!({"app.kubernetes.io/managed-by": "slicewright"})).unwrap();
    assert!(written(&round(&cluster)).is_ours);
}

/// The pool, shared as its policy says and at rest. Then somebody deletes our map.
fn shared_pool_whose_map_is_deleted() -> Cluster {
    let mut cluster = pool();
    for name in ["t1", "t2", "t3"] {
        cluster.is_shared(name, &ours());
    }
    let _ = cluster.settle();
    cluster.objects.config_maps.remove(&(OPERATOR.to_owned(), "slicewright-plugin-config".to_owned()));
    cluster
}

#[test]
fn a_map_that_somebody_deletes_is_written_again_with_the_keys_of_nodes_that_their_policy_has_left_too() {
    let mut cluster = shared_pool_whose_map_is_deleted();
    let again = json!({ours().key(): ours().render()});
    assert_eq!(json!(written(&round(&cluster)).data), again);
    // The nodes keep their keys without a policy, and without them their device plugin does not start again.
    cluster.objects.policies.clear();
    assert_eq!(json!(written(&round(&cluster)).data), again);
    assert_eq!(round(&cluster).plugin_map.lost, None);
    // So too where only a key was taken out, or its text edited.
    for data in
        [json!({"theirs": "version: v1"}), json!({ours().key(): "version: v1", "theirs": "version: v1"})]
    {
        put(&mut cluster, "slicewright-plugin-config", data);
        let keys = written(&round(&cluster)).data.clone();
        assert_eq!((keys.len(), &keys[&ours().key()]), (2, &ours().render()));
    }
    put(
        &mut cluster,
        "slicewright-plugin-config",
        json!({ours().key(): ours().render(), "theirs": "version: v1"}),
    );
    assert_eq!(
        round(&cluster).plugin_map,
        reconcile::PluginMapRound::default(),
        "nothing is written at rest"
    );
    // Somebody gave the nodes another key: what only memory has is not written.
    for name in ["t1", "t2", "t3"] {
        cluster.label(name, "nvidia.com/device-plugin.config", Some("theirs"));
    }
    put(&mut cluster, "slicewright-plugin-config", json!({"theirs": "version: v1"}));
    assert_eq!(round(&cluster).plugin_map, reconcile::PluginMapRound::default());
    // Somebody else's map is used: ours is of no use to anybody.
    names(&mut cluster, "time-slicing-config");
    put(&mut cluster, "time-slicing-config", json!({}));
    cluster.objects.config_maps.remove(&(OPERATOR.to_owned(), "slicewright-plugin-config".to_owned()));
    assert_eq!(round(&cluster).plugin_map, reconcile::PluginMapRound::default());
}

#[test]
fn a_key_that_nobody_remembers_is_found_by_the_labels_of_its_node_and_proved_by_its_name() {
    for config in [ours(), PluginConfig::of_gpus(7, false, false), PluginConfig::default()] {
        let mut cluster = pool();
        cluster.objects.policies.clear();
        cluster.is_shared("t1", &config);
        cluster.objects.config_maps.clear();
        let round = round(&cluster);
        assert_eq!(json!(written(&round).data), json!({config.key(): config.render()}));
        assert_eq!(round.plugin_map.lost, None);
    }
}

#[test]
fn a_key_whose_text_nobody_can_tell_is_said_to_be_lost_and_the_map_is_there_for_the_other_nodes() {
    let mut cluster = shared_pool_whose_map_is_deleted();
    let operator = cluster.objects.cluster_policies.get_mut("gpu-cluster-policy").unwrap();
    operator.spec.device_plugin.config.as_mut().unwrap().default = "tesla-t4".to_owned();
    for name in ["t1", "t2"] {
        cluster.label(name, "nvidia.com/device-plugin.config", Some("slicewright-0000000000"));
    }
    let said = |cluster: &Cluster| {
        let round = round(cluster);
        let lost = round.plugin_map.lost.clone().expect("something is lost");
        assert_eq!(degraded(&round), ("PluginMapInvalid".to_owned(), lost.clone()));
        assert_eq!(round.plugin_map.problem, None, "what is known is written all the same");
        (lost, round.plugin_map.write)
    };
    let (lost, write) = said(&cluster);
    assert!(
        lost.contains("named: `tesla-t4` (the default of ClusterPolicy gpu-cluster-policy), `slicewright-0000000000` (node t1 and 1 other); write"),
        "{lost}"
    );
    assert_eq!(write.expect("the third node's key is known").data, [(ours().key(), ours().render())].into());
    // As long as it is lost it is said, and the map is not written again for it.
    put(&mut cluster, "slicewright-plugin-config", json!({ours().key(): ours().render()}));
    assert_eq!(said(&cluster), (lost, None));
    // Without a policy nobody has a condition; kubelet still has to have a map to mount.
    cluster.objects.policies.clear();
    cluster.objects.gpu_nodes.clear();
    cluster.label("t3", "nvidia.com/device-plugin.config", None);
    cluster.objects.config_maps.clear();
    let round = round(&cluster);
    assert!(round.plugin_map.lost.is_some());
    assert_eq!(written(&round).data, [].into());
}

#[test]
fn a_key_that_a_node_names_stays_whoever_wrote_it_and_one_that_nobody_needs_goes() {
    let mut cluster = pool();
    names(&mut cluster, "slicewright-plugin-config");
    put(
        &mut cluster,
        "slicewright-plugin-config",
        json!({"slicewright-0000000000": "a", "slicewright-1111111111": "b"}),
    );
    cluster.edit_node("t2", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("nvidia.com/device-plugin.config".to_owned(), "slicewright-0000000000".to_owned());
    });
    let round = round(&cluster);
    let data = &written(&round).data;
    assert_eq!(data.get("slicewright-0000000000").map(String::as_str), Some("a"));
    assert!(!data.contains_key("slicewright-1111111111"));
}

fn has_default(cluster: &mut Cluster, key: &str) {
    let policy = cluster.objects.cluster_policies.get_mut("gpu-cluster-policy").unwrap();
    policy.spec.device_plugin.config.as_mut().unwrap().default = key.to_owned();
}

/// Somebody copied a key of ours there, so that nodes that come later are shared at once. No label names it.
#[test]
fn a_key_that_cluster_policy_has_as_its_default_stays_for_every_node_without_a_label() {
    let (by_six, map) = (PluginConfig::of_gpus(6, true, true), "slicewright-plugin-config");
    let mut cluster = pool();
    names(&mut cluster, map);
    has_default(&mut cluster, &by_six.key());
    put(&mut cluster, map, json!({by_six.key(): by_six.render(), "slicewright-1111111111": "b"}));
    let next = round(&cluster);
    let expect = json!({by_six.key(): by_six.render(), ours().key(): ours().render()});
    assert_eq!((json!(written(&next).data), next.plugin_map.lost), (expect, None));

    // No policy shares any more, and no label names the key: memory still has its text when somebody takes it out.
    let mut cluster = shared_pool_whose_map_is_deleted();
    has_default(&mut cluster, &ours().key());
    cluster.objects.policies.clear();
    for name in ["t1", "t2", "t3"] {
        cluster.label(name, "nvidia.com/device-plugin.config", None);
    }
    let next = round(&cluster);
    assert_eq!(json!(written(&next).data), json!({ours().key(): ours().render()}));
    assert_eq!(next.plugin_map.lost, None);
}

#[test]
fn until_cluster_policy_names_our_map_the_condition_has_the_command() {
    let mut cluster = pool();
    put(&mut cluster, "slicewright-plugin-config", json!({ours().key(): ours().render()}));
    let round = round(&cluster);
    let (reason, message) = degraded(&round);
    assert_eq!(reason, "PluginMapNotOurs");
    assert!(message.contains("may restart on every GPU node"), "{message}");
    assert!(
        message.ends_with(
            "kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy --type merge -p '{\"spec\":{\"devicePlugin\":{\"config\":{\"name\":\"slicewright-plugin-config\"}}}}'"
        ),
        "{message}"
    );
    assert!(round.nodes.values().all(|node| {
        node.advance.outlook == Outlook::Holding(StartBlocker::PluginMapNotOurs)
            && node.advance.actions.is_empty()
    }));
    // Policies that share nothing are not told.
    cluster.policy(json!({"type": "DemandDriven"}));
    assert_eq!(degraded(&cluster.round()).0, "");
}

#[test]
fn a_map_that_cannot_be_made_is_said_and_nothing_is_written() {
    let mut cluster = pool();
    names(&mut cluster, "time-slicing-config");
    let problem = |cluster: &Cluster| {
        let round = cluster.round();
        assert_eq!(round.plugin_map.write, None);
        let problem = round.plugin_map.problem.clone().expect("something is wrong");
        assert_eq!(degraded(&round), ("PluginMapInvalid".to_owned(), problem.clone()));
        problem
    };
    assert!(problem(&cluster).contains("nvidia-gpu-operator/time-slicing-config, which is not there"));
    put(&mut cluster, "time-slicing-config", json!({"slicewright-mine": "version: v1"}));
    assert!(problem(&cluster).contains("has the key `slicewright-mine`"));
    put(&mut cluster, "time-slicing-config", json!({"tesla-t4": "version: v1"}));
    let theirs = cluster.objects.config_maps.values_mut().next().unwrap();
    theirs.binary_data = Some([("odd".to_owned(), k8s_openapi::ByteString::default())].into());
    assert!(problem(&cluster).contains("has the key `odd` in `binaryData`"), "{}", problem(&cluster));
    put(&mut cluster, "time-slicing-config", json!({"large": "x".repeat(1_048_576)}));
    assert!(problem(&cluster).contains("1032192 are allowed"), "{}", problem(&cluster));
}

#[test]
fn what_nobody_in_force_asks_for_is_not_written() {
    let mut cluster = pool();
    cluster.edit_policy(|policy| policy.spec.mode = api::policy::Mode::Preview);
    let round = round(&cluster);
    assert_eq!(round.plugin_map, reconcile::PluginMapRound::default());
    assert!(round.nodes.values().all(|node| node.advance.actions.is_empty()));
}

#[test]
fn the_key_of_a_sharing_comes_into_the_map_with_the_entry_of_the_layout_that_it_follows() {
    let mut cluster = Cluster::new();
    for name in ["n1", "n2"] {
        cluster.node(name);
    }
    let slices = json!([{"profile": "1g.10gb", "count": 7}]);
    cluster.policy(json!({"type": "Static", "static": {"gpus": [{"slices": slices}]}}));
    cluster.edit_policy(|policy| {
        policy.spec.sharing = serde_json::from_value(json!({"type": "TimeSlicing", "rules": [
            {"resource": "nvidia.com/mig-1g.10gb", "replicas": 2},
        ]}))
        .unwrap();
    });
    let round = round(&cluster);
    let replicas = [("nvidia.com/mig-1g.10gb".to_owned(), 2)].into();
    let shared = Shared { by: Method::TimeSlicing, rename: true, one_each: true, replicas };
    let config = PluginConfig { strategy: None, sharing: Some(shared) };
    assert_eq!(written(&round).data[&config.key()], config.render());
    assert!(round.map.write.is_some(), "both are mounted when the node is cordoned");
}

/// The pool, our map, and an operator that may point `ClusterPolicy` to it. The policy's window opens at eight.
fn pool_with_a_window(mode: api::policy::Mode) -> Cluster {
    let mut cluster = pool();
    put(&mut cluster, "slicewright-plugin-config", json!({ours().key(): ours().render()}));
    cluster.settings.points_device_plugin = true;
    cluster.edit_policy(|policy| {
        policy.spec.mode = mode;
        policy.spec.rollout.windows =
            serde_json::from_value(json!([{"schedule": "0 8 * * *", "duration": "1h"}])).unwrap();
    });
    cluster
}

#[test]
fn cluster_policy_is_pointed_to_our_map_in_a_window_of_a_policy_that_shares_which_says_so_before() {
    let mut cluster = pool_with_a_window(api::policy::Mode::Enforce);
    cluster.now = "2026-11-20T07:30:00Z".parse().unwrap();
    let before = round(&cluster);
    assert_eq!(before.plugin_map.repoint, None);
    let (reason, message) = degraded(&before);
    assert_eq!(reason, "PluginMapNotOurs");
    assert!(
        message.ends_with(
            "the operator points it there at 2026-11-20T08:00:00Z, when a window opens, and the device plugin and GPU feature discovery restart on every GPU node (pods that run keep their GPUs)"
        ),
        "{message}"
    );
    let opens = "2026-11-20T08:00:00Z".parse().unwrap();
    assert!(before.wake_at.is_some_and(|at| at <= opens), "the window is not missed: {:?}", before.wake_at);

    cluster.now = opens;
    let due = round(&cluster);
    let expect = Repoint {
        cluster_policy: "gpu-cluster-policy".to_owned(),
        if_version: cluster.objects.cluster_policies["gpu-cluster-policy"]
            .metadata
            .resource_version
            .clone()
            .unwrap_or_default(),
        map: "slicewright-plugin-config".to_owned(),
    };
    assert_eq!(due.plugin_map.repoint, Some(expect));
    assert!(degraded(&due).1.contains("the operator points it there now"), "{}", degraded(&due).1);

    names(&mut cluster, "slicewright-plugin-config");
    assert_eq!(round(&cluster).plugin_map.repoint, None);
}

#[test]
fn cluster_policy_is_never_pointed_there_for_another_policy_nor_before_the_map_is_complete() {
    let open = "2026-11-20T08:30:00Z".parse().unwrap();
    let mut cluster = pool_with_a_window(api::policy::Mode::Preview);
    cluster.now = open;
    let preview = round(&cluster);
    assert_eq!(preview.plugin_map.repoint, None, "a preview changes nothing");

    let mut cluster = pool_with_a_window(api::policy::Mode::Enforce);
    cluster.now = open;
    cluster.settings.points_device_plugin = false;
    assert_eq!(round(&cluster).plugin_map.repoint, None, "without the flag a person does it");

    // Another policy, which shares nothing, may change its nodes at any time.
    let mut cluster = pool_with_a_window(api::policy::Mode::Enforce);
    cluster.now = "2026-11-20T07:30:00Z".parse().unwrap();
    cluster.node("g1");
    cluster.edit_node("g1", |node| {
        node.metadata.labels.get_or_insert_default().insert("pool".to_owned(), "others".to_owned());
    });
    let mut others = Cluster::new();
    others.policy(json!({"type": "DemandDriven"}));
    others.edit_policy(|policy| {
        policy.metadata.name = Some("others".to_owned());
        policy.spec.node_selector =
            serde_json::from_value(json!({"matchLabels": {"pool": "others"}})).unwrap();
    });
    let others = others.objects.policies.remove("research").unwrap();
    cluster.objects.policies.insert("others".to_owned(), others);
    assert_eq!(round(&cluster).plugin_map.repoint, None, "its window is not that of who shares");

    // Somebody took our key out of the map: it is written first.
    let mut cluster = pool_with_a_window(api::policy::Mode::Enforce);
    cluster.now = open;
    cluster.objects.config_maps.clear();
    assert_eq!(round(&cluster).plugin_map.repoint, None, "a plugin whose map is missing does not start");
}

#[test]
fn a_refusal_to_point_cluster_policy_there_is_quoted_and_nothing_else_is_done_until_it_is_taken() {
    let mut cluster = pool_with_a_window(api::policy::Mode::Enforce);
    cluster.now = "2026-11-20T08:30:00Z".parse().unwrap();
    let refused = reconcile::RefusedWrite {
        write: "patch ClusterPolicy gpu-cluster-policy".to_owned(),
        words: "nothing moves on Fridays".to_owned(),
    };
    cluster.obstacles.plugin_pointer = Some(refused);
    let round_of_refusal = round(&cluster);
    let (reason, message) = degraded(&round_of_refusal);
    assert_eq!(reason, "PluginMapNotOurs");
    assert!(
        message.contains("the API server refuses to let the operator patch ClusterPolicy gpu-cluster-policy: nothing moves on Fridays; allow it there"),
        "{message}"
    );
    assert!(
        message.contains("or run: kubectl patch clusterpolicies.nvidia.com gpu-cluster-policy"),
        "{message}"
    );
    assert!(round_of_refusal.plugin_map.repoint.is_some(), "it is tried again");
    for (name, node) in &round_of_refusal.nodes {
        assert_eq!(node.advance.actions, [], "{name} is neither cordoned nor told anything");
        let holds = &node.advance.outlook;
        assert!(matches!(holds, Outlook::Holding(StartBlocker::PluginMapNotOurs)), "{name}: {holds:?}");
    }
    // When the window has closed, people are told when the next one opens, and not of last night's refusal.
    cluster.now = "2026-11-20T09:30:00Z".parse().unwrap();
    assert!(degraded(&round(&cluster)).1.contains("at 2026-11-21T08:00:00Z, when a window opens"));

    // It is allowed, and done: the nodes go on.
    cluster.now = "2026-11-21T08:30:00Z".parse().unwrap();
    cluster.obstacles.plugin_pointer = None;
    names(&mut cluster, "slicewright-plugin-config");
    let after = round(&cluster);
    assert_eq!((after.plugin_map.repoint.clone(), degraded(&after).0), (None, String::new()));
    let holds = |outlook: &Outlook| matches!(outlook, Outlook::Holding(StartBlocker::PluginMapNotOurs));
    assert!(!after.nodes.values().any(|node| holds(&node.advance.outlook)));
}

/// A GitOps tool that puts `ClusterPolicy` back each time would have the device plugin restart on every GPU node, again and
/// again.
#[test]
fn who_points_cluster_policy_elsewhere_again_is_not_answered_at_once_and_is_told_of() {
    let mut cluster = pool_with_a_window(api::policy::Mode::Enforce);
    cluster.now = "2026-11-20T08:10:00Z".parse().unwrap();
    cluster.obstacles.pointer_rests_until = Some("2026-11-20T08:30:00Z".parse().unwrap());
    let undone = round(&cluster);
    assert_eq!(undone.plugin_map.repoint, None);
    let (reason, message) = degraded(&undone);
    assert_eq!(reason, "PluginMapNotOurs");
    assert!(message.contains("so the operator leaves it so until 2026-11-20T08:30:00Z"), "{message}");
    assert!(message.contains("such as a GitOps tool, name the map `slicewright-plugin-config`"), "{message}");
    cluster.now = "2026-11-20T08:30:00Z".parse().unwrap();
    assert!(round(&cluster).plugin_map.repoint.is_some(), "it may have been a mistake");
}
