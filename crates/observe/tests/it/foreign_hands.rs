//! Other controllers that work on a node, and the owner of a cordon.

use planner::inventory::Hold;
use serde_json::{Value, json};

use crate::words::{node, node_of, see};

#[track_caller]
fn held(change: impl FnOnce(&mut Value), expect: Hold) {
    let mut n1 = node("n1");
    change(&mut n1);
    assert_eq!(node_of(&see(&[n1]), "n1").hold, Some(expect));
}

#[test]
fn foreign_hands_are_respected() {
    held(|n| n["spec"]["unschedulable"] = true.into(), Hold::Cordoned { by: "somebody else".into() });
    held(
        |n| n["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "drain-required".into(),
        Hold::ForeignWork { who: "a driver upgrade (drain-required)".into() },
    );
    held(
        |n| n["metadata"]["annotations"]["machineconfiguration.openshift.io/state"] = "Working".into(),
        Hold::ForeignWork { who: "the Machine Config Operator (Working)".into() },
    );
    held(
        |n| n["metadata"]["labels"]["nvidia.com/gpu.deploy.dra-driver"] = "true".into(),
        Hold::HandsOff { who: "DRA (GPUCluster)".into() },
    );
    held(
        |n| n["status"]["capacity"]["mig.das.com/1g.10gb"] = "7".into(),
        Hold::HandsOff { who: "the Dynamic Accelerator Slicer (DAS)".into() },
    );
    held(|n| n["status"]["conditions"][0]["status"] = "Unknown".into(), Hold::NotReady);
    held(|n| n["metadata"]["labels"]["nvidia.com/mig.config.state"] = "pending".into(), Hold::Changing);
    held(
        |n| n["metadata"]["labels"]["nvidia.com/gpu.deploy.device-plugin"] = "paused-for-mig-change".into(),
        Hold::Changing,
    );
    // Our mark is on it, and somebody else's name on the cordon.
    held(
        |n| {
            cordon_with_our_mark(n);
            n["metadata"]["managedFields"] =
                json!([{"manager": "kubectl-cordon", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]);
        },
        Hold::Changing,
    );
}

fn cordon_with_our_mark(node: &mut Value) {
    node["spec"]["unschedulable"] = true.into();
    node["metadata"]["labels"]["slicewright.io/cordoned-by"] = "slicewright".into();
}

/// It will be lifted, whatever is planned.
#[test]
fn our_own_cordon_on_a_node_that_can_be_taken_back_is_none_for_the_planner() {
    let mut n1 = node("n1");
    cordon_with_our_mark(&mut n1);
    let progress = |phase: &str| {
        json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
            "status": {"rollout": {"phase": phase, "progress": {"phase": phase}}},
        })
    };
    for phase in ["Idle", "Cordoning", "Quiescing", "Retreating"] {
        let seen = see(&[n1.clone(), progress(phase)]);
        let n1 = node_of(&seen, "n1");
        assert_eq!((&n1.hold, n1.schedulable), (&None, true), "{phase}");
        assert!(!n1.labels.contains_key("slicewright.io/cordoned-by"), "{phase}");
    }
    let seen = see(&[n1, progress("Verifying")]);
    let n1 = node_of(&seen, "n1");
    assert_eq!((&n1.hold, n1.schedulable), (&Some(Hold::Changing), false));
}

/// A policy may select by any label; that one is gone when our cordon is.
#[test]
fn our_mark_is_no_label_of_a_node_that_is_taken_for_open_and_stays_one_where_the_cordon_stays() {
    let marked = |node: &Value| {
        let seen = see(std::slice::from_ref(node));
        node_of(&seen, "n1").labels.contains_key("slicewright.io/cordoned-by")
    };
    let mut ours = node("n1");
    cordon_with_our_mark(&mut ours);
    ours["metadata"]["managedFields"] =
        json!([{"manager": "slicewright-node", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]);
    assert!(!marked(&ours));
    let mut theirs = ours.clone();
    theirs["metadata"]["managedFields"][0]["manager"] = "kubectl-cordon".into();
    assert!(marked(&theirs));
    // The mark without a cordon says what it says.
    ours["spec"]["unschedulable"] = false.into();
    assert!(marked(&ours));
}
