//! The record in a `GpuNode`, and the conclusions that follow from it alone.

use api::GpuNode;
use observe::memory::{Memory, OperandKeys};
use serde_json::{Value, json};

use crate::words::{cut, node, node_of, pod, see, slices};

fn remembered(progress: Value) -> Memory {
    let gpu_node = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {"rollout": {"phase": "as people see it", "progress": progress}},
    });
    let gpu_node: GpuNode = serde_json::from_value(gpu_node).expect("a GpuNode");
    Memory::from_gpu_node(Some(&gpu_node))
}

/// On its way from the administrators' entry to one of ours.
fn on_its_way(phase: &str) -> Memory {
    let target =
        json!({"layout": {"0": {"mig": {"1g.10gb": 7}}}, "label": "slicewright-1", "labelBefore": "theirs"});
    remembered(json!({"phase": phase, "target": target}))
}

#[test]
fn a_node_heads_for_its_target_once_the_label_is_written_or_nothing_can_be_taken_back() {
    let heads = |memory: &Memory, label: Option<&str>| {
        memory.heads_for(&OperandKeys { manager: label, plugin: None }).is_some()
    };
    for phase in ["Mapping", "Cordoning", "Quiescing"] {
        let memory = on_its_way(phase);
        assert!(heads(&memory, Some("slicewright-1")), "{phase}: written, and the answer was lost");
        for label in [Some("theirs"), Some("of-somebody-else"), None] {
            assert!(!heads(&memory, label), "{phase}: {label:?}");
        }
    }
    for label in [Some("slicewright-1"), Some("theirs"), None] {
        assert!(heads(&on_its_way("Changing"), label), "{label:?}");
        for over in ["Failed", "Released"] {
            assert!(!heads(&on_its_way(over), label), "{over}: {label:?}");
        }
    }
    // What is restored has the label that it had: of that nothing can be told.
    let target = json!({"layout": {}, "label": "slicewright-1", "labelBefore": "slicewright-1"});
    assert!(!heads(&remembered(json!({"phase": "Quiescing", "target": target})), Some("slicewright-1")));
    assert!(!heads(&remembered(json!({"phase": "Changing"})), Some("slicewright-1")), "it has no target");
}

#[test]
fn a_node_whose_sharing_changes_heads_for_it_once_the_key_is_written() {
    let change = json!({"config": {}, "devices": {"nvidia.com/gpu": 8}});
    let target =
        json!({"layout": {}, "label": "slicewright-2", "labelBefore": "slicewright-1", "sharing": change});
    let memory = remembered(json!({"phase": "Quiescing", "target": target}));
    let heads = |manager, plugin| memory.heads_for(&OperandKeys { manager, plugin }).is_some();
    assert!(heads(None, Some("slicewright-2")), "written, and the answer was lost");
    assert!(!heads(None, Some("slicewright-1")));
    assert!(!heads(Some("slicewright-2"), None), "that is MIG manager's");
}

#[test]
fn a_node_is_on_its_way_from_the_beginning_of_a_rollout_to_its_end() {
    assert!(!Memory::from_gpu_node(None).is_on_its_way());
    assert!(!remembered(json!({"phase": "Idle"})).is_on_its_way());
    for phase in ["Mapping", "Quiescing", "Changing", "Failed"] {
        assert!(on_its_way(phase).is_on_its_way(), "{phase}");
    }
    assert!(remembered(json!("nobody can read this")).is_on_its_way(), "nobody knows");
}

#[test]
fn swapped_gpus_are_new_to_us_unless_the_node_is_on_its_way_to_a_new_layout() {
    let forgets = |memory: &Memory| {
        let mut after = memory.clone();
        after.forget_swapped();
        if !after.swapped {
            assert_eq!(after.progress, memory.progress, "nothing else is forgotten");
        }
        after.swapped
    };
    assert!(!forgets(&Memory::default()), "there was nothing");
    assert!(forgets(&remembered(json!({"phase": "Idle", "applied": "slicewright-1"}))));
    assert!(forgets(&on_its_way("Failed")));
    assert!(!forgets(&on_its_way("Changing")), "it finds out by itself");
    let restored = json!({"layout": {}, "label": "slicewright-1", "restore": true});
    assert!(forgets(&remembered(json!({"phase": "Changing", "target": restored}))));
}

/// The label is written: GPU 1 will be cut anew, and whoever holds a slice of
/// GPU 0 keeps it, also while nothing of the node is offered.
#[test]
fn on_a_node_past_the_point_of_return_who_stays_holds_what_it_held() {
    let layout = |second: Value| json!({"0": {"mig": {"1g.10gb": 3, "3g.40gb": 1}}, "1": second});
    let target = json!({
        "layout": layout(json!({"mig": {"1g.10gb": 2, "3g.40gb": 1}})), "from": layout(json!({"mig": {"7g.80gb": 1}})),
        "label": "slicewright-1", "bootId": "b-1",
    });
    let gpus =
        [0, 1].map(|index| json!({"index": index, "model": "A100-80GB", "migEnabled": true, "slices": []}));
    let on_its_way = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {
            "rollout": {"phase": "Changing", "progress": {"phase": "Changing", "target": target}},
            "observed": {"by": "Controller", "at": "2026-11-21T08:00:00Z", "gpus": gpus},
        },
    });
    let mut n1 = cut(node("n1"), "slicewright-1", &[]);
    n1["metadata"]["labels"]["nvidia.com/gpu.count"] = "2".into();
    let seen = see(&[
        n1,
        on_its_way,
        pod("a", "ada", &[("mig-1g.10gb", 2)], Some("n1")),
        pod("a", "bob", &[("mig-3g.40gb", 1)], Some("n1")),
    ]);
    let n1 = node_of(&seen, "n1");
    assert_eq!(
        slices(n1, 0),
        ["1g.10gb in use by a/ada", "1g.10gb in use by a/ada", "1g.10gb idle", "3g.40gb in use by a/bob"]
    );
    assert_eq!(slices(n1, 1), ["1g.10gb idle", "1g.10gb idle", "3g.40gb idle"]);
}
