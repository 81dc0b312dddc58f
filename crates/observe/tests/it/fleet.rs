//! Nodes and pods become the inventory: known facts, unknown facts, and nodes that are not changed.

use crate::words::*;
use planner::inventory::{ChangeScope, Hold, Room};
use serde_json::{Value, json};

#[test]
fn a_fresh_node_has_its_gpus_with_mig_off_and_idle() {
    let seen = see(&[node("n1")]);
    let n1 = node_of(&seen, "n1");
    assert_eq!(slices(n1, 0), ["off, idle"]);
    assert_eq!(slices(n1, 1), ["off, idle"]);
    assert_eq!(n1.gpus.len(), 2);
    assert_eq!(n1.scope, ChangeScope::EmptyNode);
    assert_eq!(n1.hold, None);
    assert!(n1.schedulable);
    assert_eq!(texts(&seen.problems), [""; 0]);
}

#[test]
fn a_node_without_gpus_is_not_in_the_inventory() {
    let plain = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}});
    let mut t4 = node("t4");
    t4["metadata"]["labels"]["nvidia.com/gpu.product"] = "Tesla-T4".into();
    t4["metadata"]["labels"]["nvidia.com/mig.capable"] = "false".into();
    let seen = see(&[plain, t4]);
    assert!(seen.inventory.nodes.is_empty());
    assert!(seen.problems.is_empty());
}

#[test]
fn a_shipped_name_that_allocatable_confirms_is_the_layout() {
    let seen = see(&[cut(
        node("n1"),
        "all-balanced",
        &[("mig-1g.10gb", 4), ("mig-2g.20gb", 2), ("mig-3g.40gb", 2)],
    )]);
    let n1 = node_of(&seen, "n1");
    assert_eq!(slices(n1, 1), ["1g.10gb idle", "1g.10gb idle", "2g.20gb idle", "3g.40gb idle"]);
    assert_eq!(n1.scope, ChangeScope::IdleGpus);
    assert_eq!(n1.hold, None);
}

#[test]
fn an_entry_of_our_map_may_cut_each_gpu_differently() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-mig-config", "namespace": "nvidia-gpu-operator"},
        "data": {"config.yaml": "version: v1\nmig-configs:\n  slicewright-7f3a:\n    - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}\n    - {devices: [1], mig-enabled: true, mig-devices: {3g.40gb: 2}}\n"},
    });
    let seen = see(&[map, cut(node("n1"), "slicewright-7f3a", &[("mig-1g.10gb", 7), ("mig-3g.40gb", 2)])]);
    let n1 = node_of(&seen, "n1");
    assert_eq!(slices(n1, 0).len(), 7);
    assert_eq!(slices(n1, 1), ["3g.40gb idle", "3g.40gb idle"]);
}

#[test]
fn a_layout_that_allocatable_denies_is_not_believed() {
    let seen = see(&[cut(node("n1"), "all-1g.10gb", &[("mig-1g.10gb", 13)])]);
    let why = "label nvidia.com/mig.config says `all-1g.10gb`, so 14 nvidia.com/mig-1g.10gb is expected, and the node advertises 13 nvidia.com/mig-1g.10gb";
    assert_eq!(node_of(&seen, "n1").hold, Some(Hold::NotEstablished { why: why.into() }));
    assert_eq!(
        texts(&seen.problems),
        [format!("Node n1: the layout of its GPUs cannot be determined, so it is not changed: {why}")]
    );
}

/// The scheduler goes by what a node offers.
#[test]
fn a_slice_that_a_node_does_not_offer_is_free_for_nobody() {
    let held_of_14 = |offered: &[(&str, u32)]| {
        let seen = see(&[cut(node("n1"), "all-1g.10gb", offered)]);
        node_of(&seen, "n1").allocated.get(&"1g.10gb".parse().expect("a profile")).copied().unwrap_or(0)
    };
    assert_eq!(held_of_14(&[("mig-1g.10gb", 14)]), 0);
    assert_eq!(held_of_14(&[("mig-1g.10gb", 13)]), 1);
    assert_eq!(held_of_14(&[("mig-7g.80gb", 1)]), 14, "it offers another profile only");
    assert_eq!(held_of_14(&[]), 0, "its device plugin may only be restarting");
}

/// Whoever asks would be told that a slice is free, and wait for ever.
#[test]
fn nothing_is_free_on_a_node_on_which_mig_manager_failed_and_which_offers_nothing() {
    let with_state = |state: &str, offered: &[(&str, u32)]| {
        let mut n1 = cut(node("n1"), "all-1g.10gb", offered);
        n1["metadata"]["labels"]["nvidia.com/mig.config.state"] = state.into();
        node_of(&see(&[n1]), "n1").schedulable
    };
    assert!(!with_state("failed", &[]));
    assert!(with_state("failed", &[("mig-1g.10gb", 13)]), "what it offers can be had");
    assert!(with_state("success", &[]), "its device plugin may only be restarting");
}

#[test]
fn zeros_that_stay_in_allocatable_mean_nothing() {
    let mut n1 = cut(node("n1"), "all-3g.40gb", &[("mig-3g.40gb", 4)]);
    n1["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "0".into();
    assert_eq!(node_of(&see(&[n1]), "n1").hold, None);
}

#[test]
fn an_unknown_model_is_said_and_left_alone() {
    let mut n1 = node("n1");
    n1["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-Z900-1TB".into();
    let seen = see(&[n1]);
    let Some(Hold::NotEstablished { why }) = &node_of(&seen, "n1").hold else { panic!("it is held") };
    assert!(why.starts_with("label nvidia.com/gpu.product=NVIDIA-Z900-1TB is not a known model; the known models are A100-40GB, "), "{why}");
}

#[test]
fn absurd_counts_are_said_and_left_alone() {
    for count in ["-2", "many", "70000", "999"] {
        let mut n1 = node("n1");
        n1["metadata"]["labels"]["nvidia.com/gpu.count"] = count.into();
        let seen = see(&[n1]);
        let Some(Hold::NotEstablished { why }) = &node_of(&seen, "n1").hold else { panic!("it is held") };
        assert_eq!(
            why,
            &format!("label nvidia.com/gpu.count=`{count}` is not a number of GPUs from 0 to 256")
        );
    }
}

#[test]
fn models_are_remembered_while_labels_are_away() {
    let mut n1 = cut(node("n1"), "all-1g.10gb", &[("mig-1g.10gb", 7)]);
    for label in ["gpu.product", "gpu.count", "mig.capable", "mig.strategy"] {
        n1["metadata"]["labels"].as_object_mut().expect("labels").remove(&format!("nvidia.com/{label}"));
    }
    let remembered = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {"observed": {"by": "Controller", "at": "2026-11-21T08:00:00Z", "gpus": [
            {"index": 0, "model": "A100-80GB", "migEnabled": true, "slices": []},
        ]}},
    });
    let seen = see(&[n1.clone(), remembered]);
    assert_eq!(slices(node_of(&seen, "n1"), 0).len(), 7);
    let forgotten = see(&[n1]);
    let Some(Hold::NotEstablished { why }) = &node_of(&forgotten, "n1").hold else { panic!("it is held") };
    assert_eq!(
        why,
        "label nvidia.com/gpu.product does not exist (yet), and the operator has not seen the node before"
    );
}

/// What the controller saw of a node in the boot `b-1`.
fn remembered(gpus: u16, model: &str) -> Value {
    let gpus: Vec<Value> = (0..gpus)
        .map(|index| json!({"index": index, "model": model, "migEnabled": true, "slices": []}))
        .collect();
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {"observed": {"by": "Controller", "at": "2026-11-21T08:00:00Z", "bootId": "b-1",
            "gpus": gpus}},
    })
}

#[test]
fn gpus_that_were_swapped_are_believed_over_what_is_remembered() {
    let mut n1 = cut(node("n1"), "all-1g.6gb", &[("mig-1g.6gb", 8)]);
    n1["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-A30".into();
    n1["status"]["nodeInfo"]["bootID"] = "b-2".into();
    let seen = see(&[n1.clone(), remembered(2, "A100-80GB")]);
    let found = node_of(&seen, "n1");
    assert_eq!(found.gpus.values().map(|gpu| gpu.model.as_str()).collect::<Vec<_>>(), ["A30", "A30"]);
    assert_eq!((slices(found, 1).len(), &found.hold), (4, &None));
    // While the labels are away it is as before.
    n1["metadata"]["labels"].as_object_mut().expect("labels").remove("nvidia.com/gpu.product");
    let seen = see(&[n1, remembered(2, "A100-80GB")]);
    assert_eq!(node_of(&seen, "n1").gpus[&planner::names::GpuIndex(0)].model, "A100-80GB");
}

#[test]
fn another_number_of_gpus_is_believed_after_a_boot_and_not_within_one() {
    // Three were there, and two are.
    let mut n1 = cut(node("n1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let within = see(&[n1.clone(), remembered(3, "A100-80GB")]);
    let found = node_of(&within, "n1");
    assert_eq!(found.gpus.len(), 3);
    assert!(matches!(found.hold, Some(Hold::NotEstablished { .. })), "{:?}", found.hold);
    n1["status"]["nodeInfo"]["bootID"] = "b-2".into();
    let after = see(&[n1.clone(), remembered(3, "A100-80GB")]);
    let found = node_of(&after, "n1");
    assert_eq!((found.gpus.len(), &found.hold), (2, &None));
    // What the node advertises has to agree: a label may be of before the boot.
    n1["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "21".into();
    let stale = see(&[n1, remembered(3, "A100-80GB")]);
    let found = node_of(&stale, "n1");
    assert_eq!((found.gpus.len(), &found.hold), (3, &None));
}

// Who holds what.

fn two_kinds() -> Value {
    let map_like = [("mig-1g.10gb", 4), ("mig-2g.20gb", 2), ("mig-3g.40gb", 2)];
    cut(node("n1"), "all-balanced", &map_like)
}

#[test]
fn without_an_agent_a_profile_is_idle_only_if_nobody_on_the_node_holds_it() {
    let seen = see(&[two_kinds(), pod("a", "p", &[("mig-3g.40gb", 1)], Some("n1"))]);
    let n1 = node_of(&seen, "n1");
    for gpu in [0, 1] {
        assert_eq!(
            slices(n1, gpu),
            ["1g.10gb idle", "1g.10gb idle", "2g.20gb idle", "3g.40gb maybe in use by a/p"]
        );
    }
    assert_eq!(n1.allocated.iter().map(|(p, n)| format!("{n} {p}")).collect::<Vec<_>>(), ["1 3g.40gb"]);
}

#[test]
fn when_every_slice_is_held_each_is_in_use() {
    let seen = see(&[
        two_kinds(),
        pod("a", "p", &[("mig-3g.40gb", 1)], Some("n1")),
        pod("b", "q", &[("mig-3g.40gb", 1)], Some("n1")),
    ]);
    let n1 = node_of(&seen, "n1");
    assert_eq!(slices(n1, 0)[3], "3g.40gb in use by a/p");
    assert_eq!(slices(n1, 1)[3], "3g.40gb in use by b/q");
}

#[test]
fn pods_that_have_not_started_or_are_ending_hold_their_slices_and_ended_ones_do_not() {
    let mut starting = pod("a", "starting", &[("mig-1g.10gb", 1)], Some("n1"));
    starting["status"]["phase"] = "Pending".into();
    let mut ending = pod("a", "ending", &[("mig-2g.20gb", 1)], Some("n1"));
    ending["metadata"]["deletionTimestamp"] = NOW.into();
    let mut ended = pod("a", "ended", &[("mig-3g.40gb", 1)], Some("n1"));
    ended["status"]["phase"] = "Succeeded".into();
    let seen = see(&[two_kinds(), starting, ending, ended]);
    assert_eq!(
        slices(node_of(&seen, "n1"), 0),
        [
            "1g.10gb maybe in use by a/starting",
            "1g.10gb maybe in use by a/starting",
            "2g.20gb maybe in use by a/ending",
            "3g.40gb idle",
        ]
    );
}

#[test]
fn more_slices_in_use_than_there_are_is_an_error() {
    let pods = ["p", "q", "r"].map(|name| pod("a", name, &[("mig-3g.40gb", 1)], Some("n1")));
    let seen = see(&[&[two_kinds()][..], &pods[..]].concat());
    assert_eq!(
        texts(&seen.problems)[0],
        "Node n1: its pods hold 3 3g.40gb slice(s), but it has only 2; they are held by a/p (1), a/q (1), a/r (1)"
    );
    assert_eq!(seen.problems[0].severity, observe::Severity::Error);
    assert!(matches!(node_of(&seen, "n1").hold, Some(Hold::NotEstablished { .. })));
}

#[test]
fn taints_keep_away_who_does_not_tolerate_them() {
    let mut n1 = node("n1");
    n1["spec"]["taints"] = json!([
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "lab", "effect": "NoExecute"},
    ]);
    let taint = |key: &str, value: &str, effect: &str| planner::inventory::Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
    };
    assert_eq!(
        node_of(&see(&[n1]), "n1").taints,
        [taint("dedicated", "lab", "NoExecute"), taint("nvidia.com/gpu", "", "NoSchedule")]
    );
}

#[test]
fn a_pod_that_holds_a_whole_gpu_is_seen() {
    let seen = see(&[node("n1"), pod("a", "train", &[("gpu", 1)], Some("n1"))]);
    assert_eq!(slices(node_of(&seen, "n1"), 0), ["off, maybe in use by a/train"]);
    let seen = see(&[node("n1"), pod("a", "train", &[("gpu", 2)], Some("n1"))]);
    assert_eq!(slices(node_of(&seen, "n1"), 1), ["off, in use by a/train"]);
}

#[test]
fn what_is_free_is_allocatable_less_what_bound_pods_ask_for() {
    let seen = see(&[node("n1"), pod("a", "p", &[], Some("n1")), pod("a", "elsewhere", &[], Some("n2"))]);
    assert_eq!(
        node_of(&seen, "n1").room,
        Room { cpu_milli: 31_000, memory_bytes: 255 << 30, pods: 109, ..Room::UNLIMITED }
    );
}

// What the agent says.

#[test]
fn a_node_under_dra_is_there_and_left_alone_although_no_label_says_what_it_has() {
    let mut n1 = node("n1");
    let labels = n1["metadata"]["labels"].as_object_mut().expect("labels");
    labels.retain(|key, _| !key.starts_with("nvidia.com/"));
    labels.insert("nvidia.com/gpu.present".into(), "true".into());
    assert!(see(&[n1.clone()]).inventory.nodes.is_empty(), "nobody manages it");
    n1["metadata"]["labels"]["nvidia.com/gpu.deploy.dra-driver"] = "true".into();
    let seen = see(&[n1]);
    assert_eq!(node_of(&seen, "n1").hold, Some(Hold::HandsOff { who: "DRA (GPUCluster)".into() }));
    assert_eq!(texts(&seen.problems), [""; 0]);
}

#[test]
fn shared_devices_are_left_alone_with_what_would_help() {
    #[track_caller]
    fn check(labels: &[(&str, &str)], advertised: &[(&str, u32)], expect: Option<&str>) {
        let mut n1 = cut(node("n1"), "all-1g.10gb", advertised);
        for (key, value) in labels {
            n1["metadata"]["labels"][format!("nvidia.com/{key}")] = (*value).into();
        }
        let why = match node_of(&see(&[n1]), "n1").hold.clone() {
            Some(Hold::NotEstablished { why }) => Some(why),
            _ => None,
        };
        assert_eq!(why.as_deref(), expect);
    }
    check(
        &[
            ("mig-1g.10gb.replicas", "2"),
            ("mig-1g.10gb.sharing-strategy", "time-slicing"),
            ("gpu.replicas", "0"),
        ],
        &[("mig-1g.10gb", 28)],
        Some(
            "its devices are shared by time-slicing (label nvidia.com/mig-1g.10gb.replicas=2), so its allocatable resources do not show its slices; to have it planned, let its device plugin use a configuration without sharing (now: the default of the ClusterPolicy's spec.devicePlugin.config)",
        ),
    );
    // Renamed: neither the product nor the resources that we know say anything.
    check(
        &[("gpu.replicas", "4"), ("gpu.sharing-strategy", "mps"), ("device-plugin.config", "mps-4")],
        &[("gpu.shared", 8)],
        Some(
            "its devices are shared by mps (label nvidia.com/gpu.replicas=4), so its allocatable resources do not show its slices; to have it planned, let its device plugin use a configuration without sharing (now: label nvidia.com/device-plugin.config=mps-4)",
        ),
    );
    // A configuration that shares what the node has not is of no account.
    check(&[("gpu.replicas", "0"), ("mig-1g.10gb.replicas", "1")], &[("mig-1g.10gb", 14)], None);
}

#[test]
fn a_rollout_holds_its_node() {
    let rollout = |rollout: Value| {
        json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
            "status": {"rollout": {"phase": "as people see it", "progress": rollout}},
        })
    };
    let hold = |gpu_node: Value| node_of(&see(&[node("n1"), gpu_node]), "n1").hold.clone();
    assert_eq!(hold(rollout(json!({"phase": "Verifying"}))), Some(Hold::Changing));
    // It can still be taken back: for the planner it is as if nothing had begun.
    assert_eq!(hold(rollout(json!({"phase": "Quiescing"}))), None);
    assert_eq!(
        hold(rollout(json!({"phase": "Failed", "lastError": "ManagerFailed"}))),
        Some(Hold::Failed { why: "MIG manager reported `failed`".into() })
    );
    let newer = hold(rollout(json!({"phase": "OfAVersionToCome"})));
    assert!(
        matches!(&newer, Some(Hold::NotEstablished { why }) if why.contains("cannot be read")),
        "{newer:?}"
    );
    assert_eq!(
        hold(rollout(json!({"phase": "Idle", "applied": "slicewright-1234"}))),
        Some(Hold::ForeignLayout { label: String::new() })
    );
    let until = "2026-11-21T09:05:00Z";
    assert_eq!(
        hold(rollout(json!({"phase": "Idle", "cooldownUntil": until}))),
        Some(Hold::CoolingDown { until: until.parse().expect("a time") })
    );
    assert_eq!(hold(rollout(json!({"phase": "Idle", "cooldownUntil": "2026-11-21T08:59:59Z"}))), None);
    assert_eq!(
        hold(rollout(json!({"phase": "Idle", "cooldownUntil": "2026-11-21T09:00:00Z"}))),
        None,
        "just over"
    );
    assert_eq!(
        hold(rollout(json!({"phase": "Released"}))),
        Some(Hold::Failed { why: "an administrator ended its rollout".into() })
    );
}

/// The rules of the CRD (in CEL) have their twins here: what the API server
/// refuses (`e2e/scenarios/crds.rs`), a preview refuses, too.
#[test]
fn what_the_rules_of_the_crd_refuse_is_refused_here_too() {
    let bounds = |bounds: &str| {
        format!("layout: {{type: DemandDriven, demandDriven: {{slices: [{{profile: 1g.10gb, {bounds}}}]}}}}")
    };
    let gpus = "static: {gpus: [{slices: [{profile: 1g.10gb, count: 7}]}]}";
    let rollout = |rollout: &str| format!("layout: {{type: DemandDriven}}\n  rollout: {{{rollout}}}");
    let window =
        |duration: &str| rollout(&format!("windows: [{{schedule: 0 22 * * *, duration: {duration}}}]"));
    let select = |expression: &str| {
        format!("layout: {{type: DemandDriven}}\n  nodeSelector: {{matchExpressions: [{{{expression}}}]}}")
    };
    let wrong = [
        ("spec.nodeSelector", "layout: {type: DemandDriven}\n  nodeSelector: {}".to_owned()),
        ("spec.nodeSelector.matchExpressions[0].values", select("key: pool, operator: In")),
        ("spec.nodeSelector.matchExpressions[0].values", select("key: pool, operator: Exists, values: [a]")),
        ("spec.layout.static", format!("layout: {{type: DemandDriven, {gpus}}}")),
        ("spec.layout.demandDriven", format!("layout: {{type: Static, {gpus}, demandDriven: {{}}}}")),
        ("spec.layout.static.gpus", "layout: {type: Static}".to_owned()),
        ("spec.layout.static.gpus[0].slices", "layout: {type: Static, static: {gpus: [{indices: [0]}]}}".to_owned()),
        ("spec.layout.static.gpus[0].mig", "layout: {type: Static, static: {gpus: [{mig: Disabled, slices: [{profile: 1g.10gb, count: 7}]}]}}".to_owned()),
        ("spec.layout.demandDriven.slices[0].minCount", bounds("minCount: 5, maxCount: 4")),
        ("spec.layout.demandDriven.slices[0].spareCount", bounds("spareCount: 5, maxCount: 4")),
        ("spec.rollout.maxUnavailable", rollout("maxUnavailable: 0")),
        ("spec.rollout.maxUnavailable", rollout("maxUnavailable: 0%")),
        ("spec.rollout.cooldown", rollout("cooldown: 200h")),
        ("spec.rollout.cooldown", rollout("cooldown: ''")),
        ("spec.rollout.windows[0].duration", window("0s")),
        ("spec.rollout.windows[0].duration", window("169h")),
    ];
    for (field, spec) in wrong {
        let selector = if spec.contains("nodeSelector") {
            ""
        } else {
            "  nodeSelector: {matchLabels: {pool: research}}\n"
        };
        let text = format!(
            "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: wrong}}\nspec:\n{selector}  {spec}\n"
        );
        let found = crate::words::problems_of(&text);
        let said = found.iter().any(|p| p.contains(&format!("{field}:")));
        assert!(said, "{field}: {text}\n{found:#?}");
    }
}

/// The labels that GPU feature discovery writes are away while a node changes.
#[test]
fn a_node_on_its_way_keeps_the_labels_by_which_it_was_selected() {
    let mut n1 = cut(node("n1"), "all-1g.10gb", &[]);
    n1["metadata"]["labels"]["nvidia.com/mig.config.state"] = "pending".into();
    for label in ["gpu.product", "gpu.count", "mig.capable", "mig.strategy"] {
        n1["metadata"]["labels"].as_object_mut().expect("labels").remove(&format!("nvidia.com/{label}"));
    }
    let remembered = |phase: &str| {
        json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
            "status": {
                "rollout": {"phase": phase, "progress": {"phase": phase}},
                "observed": {"by": "Controller", "at": "2026-11-21T08:00:00Z",
                    "labels": {"nvidia.com/mig.capable": "true", "pool": "of-somebody-else",
                        "nvidia.com/mig.config": "all-7g.80gb"},
                    "gpus": [{"index": 0, "model": "A100-80GB", "migEnabled": true, "slices": []}]},
            },
        })
    };
    let mut selects = policy("research");
    selects["spec"]["nodeSelector"] = json!({"matchLabels": {"nvidia.com/mig.capable": "true"}});
    let seen = see(&[n1.clone(), remembered("Changing"), selects.clone()]);
    let n1_seen = node_of(&seen, "n1");
    assert_eq!(n1_seen.labels.get("nvidia.com/mig.capable").map(String::as_str), Some("true"));
    // What was remembered of other people's labels, or of layouts, counts for nothing.
    assert_eq!(n1_seen.labels["pool"], "research");
    assert_eq!(n1_seen.labels["nvidia.com/mig.config"], "all-1g.10gb");
    let assigned = planner::assign::policy_of(&seen.inventory, &seen.policies);
    assert_eq!(assigned.policy_of.len(), 1);
    // A node that has arrived has the labels that it has.
    n1["metadata"]["labels"]["nvidia.com/mig.config.state"] = "success".into();
    let seen = see(&[n1, remembered("Idle"), selects]);
    assert_eq!(node_of(&seen, "n1").labels.get("nvidia.com/mig.capable"), None);
}

/// A DGX Station: the card that drives the screen stands between the others,
/// and GPU feature discovery does not count it.
#[test]
fn a_map_that_names_indices_says_which_gpus_there_are() {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-mig-config", "namespace": "nvidia-gpu-operator"},
        "data": {"config.yaml": "version: v1\nmig-configs:\n  station:\n    - {devices: [0, 1, 3, 4], mig-enabled: true, mig-devices: {1g.10gb: 7}}\n    - {devices: [2], mig-enabled: false}\n"},
    });
    let mut station = cut(node("station"), "station", &[("mig-1g.10gb", 28)]);
    station["metadata"]["labels"]["nvidia.com/gpu.count"] = "4".into();
    let seen = see(&[map.clone(), station.clone()]);
    let found = node_of(&seen, "station");
    assert_eq!(found.hold, None);
    let indices: Vec<u16> = found.gpus.keys().map(|index| index.0).collect();
    assert_eq!(indices, [0, 1, 3, 4]);
    // It was seen before anything told the indices.
    let remembered = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "station"}, "spec": {},
        "status": {"observed": {"by": "Controller", "at": "2026-11-21T08:00:00Z", "bootId": "b-1", "gpus":
            (0..4).map(|index| json!({"index": index, "model": "A100-80GB", "migEnabled": true, "slices": []}))
                .collect::<Vec<_>>()}},
    });
    let seen = see(&[map, station, remembered]);
    assert_eq!(node_of(&seen, "station").hold, None);
}

/// Its labels give a number of GPUs, and the display card has an index between theirs: nothing is planned for indices
/// that nobody has named, and the two nodes beside it are planned for.
#[test]
fn a_station_whose_indices_nobody_names_is_left_alone_with_what_would_help() {
    let mut station = node("station");
    station["metadata"]["labels"]["nvidia.com/gpu.count"] = "4".into();
    station["metadata"]["labels"]["nvidia.com/gpu.machine"] =
        "NVIDIA-DGX-Station-A100-920-23487-2531-000".into();
    station["status"]["allocatable"]["nvidia.com/gpu"] = "4".into();
    let seen = see(&[station.clone(), node("n1"), node("n2")]);
    let Some(Hold::NotEstablished { why }) = &node_of(&seen, "station").hold else { panic!("{seen:?}") };
    assert!(why.contains("display card") && why.contains("`devices: [0, 1, 3, 4]`"), "{why}");
    assert_eq!((&node_of(&seen, "n1").hold, &node_of(&seen, "n2").hold), (&None, &None));
    // An entry names them, on a station where MIG is still off.
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "default-mig-parted-config", "namespace": "nvidia-gpu-operator"},
        "data": {"config.yaml": "version: v1\nmig-configs:\n  station-off:\n    - {devices: [0, 1, 3, 4], mig-enabled: false}\n"},
    });
    station["metadata"]["labels"]["nvidia.com/mig.config"] = "station-off".into();
    let seen = see(&[map, station]);
    let found = node_of(&seen, "station");
    assert_eq!(found.hold, None);
    assert_eq!(found.gpus.keys().map(|index| index.0).collect::<Vec<_>>(), [0, 1, 3, 4]);
}
