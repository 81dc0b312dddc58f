//! A fleet as somebody has it on the first day: layouts with names of their own, a node on which MIG manager failed,
//! GPUs without labels, and a policy that only previews.

use std::fs;
use std::path::PathBuf;

use cli::exit::Status;

use crate::plan::run;

const FLEET: &str = r#"apiVersion: snapshot.slicewright.io/v1
kind: Snapshot
takenAt: 2026-11-20T08:00:00Z
objects:
  - apiVersion: v1
    kind: Node
    metadata: {name: own-names, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "1", nvidia.com/mig.capable: "true", nvidia.com/mig.strategy: mixed, nvidia.com/mig.config: our-own-layout, nvidia.com/mig.config.state: success}}
    status: {allocatable: {cpu: "64", memory: 512Gi, pods: "250", nvidia.com/mig-3g.40gb: "1"}, conditions: [{type: Ready, status: "True"}]}
  - apiVersion: v1
    kind: Node
    metadata: {name: failed, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "1", nvidia.com/mig.capable: "true", nvidia.com/mig.strategy: mixed, nvidia.com/mig.config: all-1g.10gb, nvidia.com/mig.config.state: failed}}
    status: {allocatable: {cpu: "64", memory: 512Gi, pods: "250", nvidia.com/gpu: "0"}, conditions: [{type: Ready, status: "True"}]}
  - apiVersion: v1
    kind: Node
    metadata: {name: whole, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB, nvidia.com/gpu.count: "1", nvidia.com/mig.capable: "true", nvidia.com/mig.strategy: mixed, nvidia.com/mig.config: all-disabled, nvidia.com/mig.config.state: success}}
    status: {allocatable: {cpu: "64", memory: 512Gi, pods: "250", nvidia.com/gpu: "1"}, conditions: [{type: Ready, status: "True"}]}
  - apiVersion: v1
    kind: Node
    metadata: {name: no-labels}
    status: {allocatable: {cpu: "64", memory: 512Gi, pods: "250", nvidia.com/gpu: "8"}, conditions: [{type: Ready, status: "True"}]}
  - apiVersion: v1
    kind: Pod
    metadata: {namespace: team-a, name: train-0}
    spec: {containers: [{name: c, resources: {limits: {nvidia.com/mig-1g.10gb: "1"}}}]}
    status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
"#;

fn fleet(name: &str) -> PathBuf {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.yaml"));
    fs::write(&file, FLEET).expect("written");
    file
}

#[test]
fn a_fleet_that_others_cut_is_drawn_without_a_guess() {
    let (status, out, _) = run(&format!("fleet --fleet {}", fleet("drawn").display()));
    assert_eq!(status, Status::Success);
    assert!(out.contains("gpu0 H100-80GB    its slices are not known\n"), "{out}");
    assert!(out.contains("no-labels\n  seats  8 x GPU, as nvidia.com/gpu: 0 held, 8 free\n"), "{out}");
}

#[test]
fn nobody_is_promised_a_slice_of_a_node_that_offers_none_and_a_preview_says_why_it_does_not_start() {
    let (_, out, _) = run(&format!("plan --fleet {} -f examples/first", fleet("planned").display()));
    let waits = "Pod team-a/train-0: served once whole has changed: 1g.10gb on whole/gpu0 (A100-80GB)";
    assert!(out.contains(waits), "{out}");
    assert!(out.contains("      now  MIG is off: the GPU is whole\n"), "{out}");
    assert!(out.contains("1. does not start: the policy only previews (mode: Preview): whole\n"), "{out}");
}

#[test]
fn a_node_that_the_picture_shows_can_be_explained() {
    let (status, out, err) = run(&format!("explain node no-labels --fleet {}", fleet("explained").display()));
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    let told = "no-labels has no GPU of which a label tells the model, so nothing is planned for it\n  seats: 8 x GPU";
    assert!(out.starts_with(told), "{out}");
}
