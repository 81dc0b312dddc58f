//! NVIDIA's nvidia-mig-parted, unmodified, over the GPUs that the agent has changed: what it exports is what the agent
//! reports. MIG manager gets a node back by counts that are taken from the report, and mig-parted has to find them there.

use std::collections::BTreeMap;

use agent::{ChangeId, GpuChange, GpuUuid, Outcome, Wish};
use api::gpu_node::GpuNodeStatus;
use clients::{Node, find};
use gpu::{Machine, Model, Share};
use serde_json::Value;

use crate::change::{operate, places};
use crate::node::{Cut, machine_of};
use crate::scene::Scene;

const PROGRAM: &str = "nvidia-mig-parted";

/// Somebody has a slice of one GPU of each model: the one at 0.
const GPUS: [Cut; 8] = [
    ("A100-80GB", &[("3g.40gb", 0), ("3g.40gb", 4)]),
    ("A100-80GB", &[("7g.80gb", 0)]),
    ("A100-80GB", &[]),
    ("A30", &[("2g.12gb", 0), ("2g.12gb", 2)]),
    ("H100-80GB", &[("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4)]),
    ("H200-141GB", &[("4g.71gb", 0), ("3g.71gb", 4)]),
    ("GH200-96GB", &[("1g.12gb", 0), ("1g.24gb", 2), ("2g.24gb", 4)]),
    ("GH200-96GB", &[("7g.96gb", 0)]),
];

const IN_USE: [(&str, &str); 5] = [
    ("a100", "0:3g.40gb@0"),
    ("a30", "3:2g.12gb@0"),
    ("h100", "4:1g.10gb@0"),
    ("h200", "5:4g.71gb@0"),
    ("gh200", "6:1g.12gb@0"),
];

/// What a GPU becomes, and what is in the place of its slices.
type Recut = (usize, &'static [(&'static str, u8)], &'static [(&'static str, u8)]);

/// One change each, of everything that nobody has, and then of what the one before has left.
const RECUTS: [&[Recut]; 3] = [
    &[
        (0, &[("3g.40gb", 0), ("3g.40gb", 4)], &[("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6)]),
        (1, &[("7g.80gb", 0)], &[("4g.40gb", 0), ("1g.10gb+me", 4), ("1g.20gb", 6)]),
        (3, &[("2g.12gb", 0), ("2g.12gb", 2)], &[("2g.12gb", 0), ("1g.6gb", 2), ("1g.6gb+me", 3)]),
        (5, &[("4g.71gb", 0), ("3g.71gb", 4)], &[("4g.71gb", 0), ("1g.18gb", 4), ("1g.18gb", 5)]),
    ],
    &[
        (
            4,
            &[("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4)],
            &[("1g.10gb", 0), ("1g.20gb", 2), ("3g.40gb", 4)],
        ),
        (
            6,
            &[("1g.12gb", 0), ("1g.24gb", 2), ("2g.24gb", 4)],
            &[("1g.12gb", 0), ("1g.12gb", 1), ("3g.48gb", 4)],
        ),
        (7, &[("7g.96gb", 0)], &[("2g.24gb", 0), ("2g.24gb", 2), ("3g.48gb", 4)]),
    ],
    &[
        (0, &[("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6)], &[("3g.40gb", 0)]),
        (1, &[("4g.40gb", 0), ("1g.10gb+me", 4), ("1g.20gb", 6)], &[("1g.20gb", 0)]),
        (7, &[("2g.24gb", 0), ("2g.24gb", 2), ("3g.48gb", 4)], &[("7g.96gb", 0)]),
    ],
];

/// For each GPU by its index: whether it is cut, and how many slices of each profile it has.
type Counts = BTreeMap<u64, (bool, BTreeMap<String, u64>)>;

fn reported(status: &GpuNodeStatus) -> Counts {
    let mut counts = Counts::new();
    for gpu in &status.observed.as_ref().unwrap().gpus {
        let (_, slices) = counts
            .entry(u64::try_from(gpu.index).unwrap())
            .or_insert_with(|| (gpu.mig_enabled, BTreeMap::new()));
        for slice in &gpu.slices {
            *slices.entry(slice.profile.clone()).or_default() += 1;
        }
    }
    counts
}

fn exported(node: &Node, program: &str) -> Counts {
    let said = node.run_inside(program, &["export", "-o", "json"]).unwrap();
    assert_eq!(said.code, 0, "{}", said.err);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    let mut counts = Counts::new();
    for part in value["mig-configs"]["current"].as_array().unwrap() {
        let slices: BTreeMap<String, u64> = serde_json::from_value(part["mig-devices"].clone()).unwrap();
        let enabled = part["mig-enabled"].as_bool().unwrap();
        for gpu in gpus(part) {
            let twice = counts.insert(gpu, (enabled, slices.clone()));
            assert_eq!(twice, None, "{gpu} is there twice: {value}");
        }
    }
    counts
}

/// Of which GPUs a part speaks: of these, or of all of a model.
fn gpus(part: &Value) -> Vec<u64> {
    if let Some(some) = part["devices"].as_array() {
        return some.iter().map(|gpu| gpu.as_u64().unwrap()).collect();
    }
    assert_eq!(part["devices"], "all");
    let is_meant = |model| {
        let device = Model::find(model).unwrap().pci_device.unwrap();
        part["device-filter"] == format!("0x{device:04X}10DE")
    };
    (0..).zip(GPUS).filter(|(_, (model, _))| is_meant(model)).map(|(index, _)| index).collect()
}

fn wish(scene: &Scene, number: usize, recuts: &[Recut]) -> Wish {
    let gpu = |(index, before, after): &Recut| {
        let gpu = GpuUuid(scene.id(&index.to_string()).to_owned());
        GpuChange { gpu, before: places(before), after: places(after) }
    };
    Wish { id: ChangeId(format!("change-{number}")), permit: None, gpus: recuts.iter().map(gpu).collect() }
}

/// The simulator counts whoever takes what these have.
fn allocate(machine: &mut Machine, pod: &str, device: &str) {
    let index: u16 = device.split_once(':').unwrap().0.parse().unwrap();
    let gpu = machine.gpu(index).unwrap();
    let first = gpu.instances.values().find(|slice| gpu.span_of(slice).0 == 0).unwrap().id;
    machine.allocate(Share::Slice(index, first), pod).unwrap();
}

#[tokio::test]
async fn what_mig_parted_exports_after_each_recut_is_what_the_agent_reports() {
    let Some(found) = find(&[PROGRAM]) else { return };
    let program = found.programs[0].display().to_string();
    let mut scene = Scene::of(machine_of(&GPUS)).await;
    let node = Node::beside(&scene.folder.path().join("gpus"), found.library).unwrap();
    for (pod, device) in IN_USE {
        scene.gives("research", pod, device);
        node.change(|machine| allocate(machine, pod, device)).unwrap();
    }
    scene.agent_with(&["--mode", "change"]);
    let first = scene.until("it reports", |status| status.observed.is_some()).await;
    assert_eq!(exported(&node, &program), reported(&first), "before the first change");
    let mut expected = reported(&first);
    for (number, recuts) in RECUTS.iter().enumerate() {
        let outcome = scene.patiently(operate(&scene, wish(&scene, number, recuts))).await;
        assert_eq!(outcome, Outcome::Done, "{}", scene.log());
        for (index, _, after) in *recuts {
            let mut counts = BTreeMap::new();
            for (profile, _) in *after {
                *counts.entry((*profile).to_owned()).or_default() += 1;
            }
            expected.insert(u64::try_from(*index).unwrap(), (true, counts));
        }
        assert_eq!(reported(&scene.status()), expected, "change {number}");
        assert_eq!(exported(&node, &program), expected, "change {number}");
    }
    assert!(scene.machine().breaches().is_empty(), "{:?}", scene.machine().breaches());
}
