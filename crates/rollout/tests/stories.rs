//! Rollouts of one node, told as stories.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod fake;

use fake::{Caller, World, layout};
use slicewright_rollout::{Outlook, Phase};

#[test]
fn a_node_takes_its_first_layout_and_is_open_again() {
    let mut caller = Caller::new(World::new("0:off 1:off"), "0:1g.10gb*7 1:3g.40gb*2");
    caller.settle();
    assert_eq!(caller.last.as_ref().unwrap().outlook, Outlook::Idle);
    assert_eq!(caller.world.hardware, layout("0:1g.10gb*7 1:3g.40gb*2"));
    assert!(!caller.world.unschedulable);
    assert_eq!(caller.progress.phase, Phase::Idle);
    assert_eq!(
        caller.transcript,
        [
            "Mapping: waits for the map's entry to be written",
            "  EnsureMapEntry",
            "Mapping: waits for kubelet to bring the map's entry to MIG manager",
            "Cordoning: waits for the cordon to be noticed",
            "  Cordon",
            "Cordoning: waits for the cordon to be noticed",
            "Quiescing: waits for a consistent list of the node's pods",
            "  ListPods",
            "Quiescing: waits for the label to be written",
            "  SetConfigLabel",
            "Changing: waits for MIG manager to take up the change",
            "Changing: waits for MIG manager to finish",
            "Verifying: waits for the slices to be schedulable (the device plugin's new pod is not ready)",
            "Verifying: waits for the slices to be schedulable (the node offers nothing; expected is nvidia.com/mig-1g.10gb: 7, nvidia.com/mig-3g.40gb: 2)",
            "Verifying: waits for the slices to be schedulable (the labels of GPU feature discovery are not up to date)",
            "Verifying: waits for the slices to be schedulable (everything is there, and is watched for a moment)",
            "Releasing: waits for the cordon to be lifted",
            "  Uncordon",
            "idle",
        ]
    );
}
