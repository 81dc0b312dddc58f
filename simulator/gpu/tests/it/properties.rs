//! For any operations in any order: no illegal state, errors that change nothing, equal results for equal
//! input, and numbers of remaining slices that agree with an exhaustive search.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use crate::support::{device, instances, model, start};
use gpu::{Activity, Caller, Client, Labelling, Machine, Mode, Placement, Share, Target};
use mig::{Geometry, Layout, ProfileIndex};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Mode(bool),
    Create(usize),
    CreateAt(usize, u8),
    Compute(usize, u32),
    DestroyCompute(usize),
    Destroy(usize),
    Open(usize, bool),
    Close,
    Allocate(usize),
    Release(usize),
    Reset,
    Reboot,
    ReloadDriver,
    AsUser(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let n = 0usize..12;
    prop_oneof![
        2 => any::<bool>().prop_map(Op::Mode),
        8 => n.clone().prop_map(Op::Create),
        6 => (n.clone(), 0u8..13).prop_map(|(p, s)| Op::CreateAt(p, s)),
        8 => (n.clone(), 0u32..9).prop_map(|(i, p)| Op::Compute(i, p)),
        4 => n.clone().prop_map(Op::DestroyCompute),
        4 => n.clone().prop_map(Op::Destroy),
        3 => (n.clone(), any::<bool>()).prop_map(|(i, c)| Op::Open(i, c)),
        3 => Just(Op::Close),
        3 => n.clone().prop_map(Op::Allocate),
        2 => n.clone().prop_map(Op::Release),
        1 => Just(Op::Reset),
        1 => Just(Op::Reboot),
        1 => Just(Op::ReloadDriver),
        1 => n.prop_map(Op::AsUser),
    ]
}

fn profile_ids(machine: &Machine) -> Vec<(u32, u8)> {
    let mig = machine.gpus()[0].mig().expect("an A100 has MIG");
    mig.profiles.iter().map(|p| (p.id, mig.geometry.profile(p.index).size)).collect()
}

/// Does one thing; `false` if it was refused.
fn act(machine: &mut Machine, op: &Op) -> bool {
    let gpu = device(machine, 0);
    let ids = profile_ids(machine);
    let here = if machine.gpus()[0].mig_is_on() { instances(machine, 0) } else { Vec::new() };
    let pick = |i: &usize| here.get(i % here.len().max(1)).copied();
    let gi_id = |i: &usize| machine.gpus()[0].instances.keys().nth(*i).copied();
    match op {
        Op::Mode(on) => {
            let mode = if *on { Mode::Enabled } else { Mode::Disabled };
            machine.nvml(Caller::Root).set_mig_mode(gpu, mode).is_ok()
        }
        Op::Create(i) => machine.nvml(Caller::Root).create_gpu_instance(gpu, ids[i % ids.len()].0).is_ok(),
        Op::CreateAt(i, start) => {
            let (id, size) = ids[i % ids.len()];
            let at = Placement { start: *start, size };
            machine.nvml(Caller::Root).create_gpu_instance_with_placement(gpu, id, at).is_ok()
        }
        Op::Compute(i, profile) => match pick(i) {
            Some(gi) => machine.nvml(Caller::Root).create_compute_instance(gi, *profile).is_ok(),
            None => false,
        },
        Op::DestroyCompute(i) => match pick(i) {
            Some(gi) => {
                let mut nvml = machine.nvml(Caller::Root);
                let first = nvml.compute_instances(gi).expect("the instance exists").first().copied();
                first.is_some_and(|ci| nvml.destroy_compute_instance(ci).is_ok())
            }
            None => false,
        },
        Op::Destroy(i) => match pick(i) {
            Some(gi) => machine.nvml(Caller::Root).destroy_gpu_instance(gi).is_ok(),
            None => false,
        },
        Op::Open(i, compute) => {
            let target = match gi_id(i) {
                Some(gi) if *compute => Target::ComputeInstance(0, gi, 0),
                Some(gi) => Target::GpuInstance(0, gi),
                None => Target::Gpu(0),
            };
            let name = "python".to_owned();
            let client = Client { pid: 1, name, target, activity: Activity::Computes, memory_mib: 64 };
            machine.open(client).is_ok()
        }
        Op::Close => {
            let first = machine.clients().next().map(|(id, _)| id);
            first.is_some_and(|id| machine.close(id).is_some())
        }
        Op::Allocate(i) => match gi_id(i) {
            Some(gi) => machine.allocate(Share::Slice(0, gi), &format!("team/pod-{i}")).is_ok(),
            None => false,
        },
        Op::Release(i) => match gi_id(i) {
            Some(gi) => {
                machine.release(Share::Slice(0, gi));
                true
            }
            None => false,
        },
        Op::Reset => machine.nvml(Caller::Root).reset_gpu(gpu).is_ok(),
        Op::Reboot => {
            machine.reboot();
            true
        }
        Op::ReloadDriver => machine.reload_driver().is_ok(),
        Op::AsUser(i) => machine.nvml(Caller::User).create_gpu_instance(gpu, ids[i % ids.len()].0).is_ok(),
    }
}

/// The rules, stated anew over memory units and compute slices.
fn check_legal(machine: &Machine) {
    let gpu = &machine.gpus()[0];
    let mig = gpu.mig().expect("an A100 has MIG");
    assert!(gpu.mig_is_on() || gpu.instances.is_empty(), "instances without MIG");
    let mut units = BTreeSet::new();
    let mut compute = 0;
    let mut media = 0;
    for (id, gi) in &gpu.instances {
        let facts = gpu.profile_of(gi);
        let (start, size) = gpu.span_of(gi);
        assert_eq!(*id, gi.id);
        assert!(mig.geometry.profile(facts.index).starts.contains(&start));
        assert!((start..start + size).all(|unit| units.insert(unit)), "memory overlaps");
        compute += facts.slices;
        media += u32::from(facts.name.attribute == mig::Attribute::Media);
        let mut slices = BTreeSet::new();
        for ci in gi.compute.values() {
            let mut span = ci.start..ci.start + ci.slices;
            assert!(span.all(|s| s < facts.slices && slices.insert(s)), "compute overlaps");
        }
    }
    assert!(compute <= mig.geometry.compute() && media <= 1);
    for (_, client) in machine.clients() {
        let there = match client.target {
            Target::Gpu(_) => true,
            Target::GpuInstance(_, gi) => gpu.instances.contains_key(&gi),
            Target::ComputeInstance(_, gi, ci) => gpu.instances[&gi].compute.contains_key(&ci),
        };
        assert!(there, "somebody has open what is gone");
    }
    let uuids: BTreeSet<_> = gpu.mig_devices().map(|(gi, ci)| gpu.mig_uuid(gi, ci)).collect();
    assert_eq!(uuids.len(), gpu.mig_devices().count(), "two devices of one UUID");
}

/// The most of one profile that can be added, by trying every set of starts.
fn most(geometry: &Geometry, layout: Layout, profile: ProfileIndex) -> u32 {
    let starts: Vec<_> = geometry.placements().filter(|p| geometry.profile_of(*p) == profile).collect();
    (0u32..1 << starts.len())
        .filter(|set| {
            let chosen = || starts.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, p)| *p);
            let fresh = chosen().all(|p| !layout.contains(p));
            fresh && geometry.is_legal(chosen().fold(layout, Layout::with))
        })
        .map(u32::count_ones)
        .max()
        .unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations(
        which in 0usize..4,
        swapped in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let name = ["A100-40GB", "A30", "H100-80GB", "RTX-PRO-6000-96GB"][which];
        let labelling = if swapped { Labelling::V2 } else { Labelling::V1 };
        let fresh = || Machine::new("host", gpu::DriverBranch::default(), start())
            .with_gpu_labelled(&model(name), labelling);
        let mut machine = fresh();
        act(&mut machine, &Op::Mode(true));
        let mut again = machine.clone();
        for op in &ops {
            let before = machine.clone();
            if !act(&mut machine, op) {
                prop_assert_eq!(&machine, &before, "refused, and changed something: {:?}", op);
            }
            check_legal(&machine);
        }
        let written = serde_json::to_string(&machine).unwrap();
        let read: Machine = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &machine, "written down and read again, another machine");
        prop_assert!(read.equals_but_for_time(&machine));
        for op in &ops {
            act(&mut again, op);
        }
        prop_assert_eq!(&machine, &again, "the same operations, another outcome");
        let gpu = &machine.gpus()[0];
        let geometry = gpu.geometry().unwrap();
        for profile in &gpu.mig().unwrap().profiles {
            let free = gpu.remaining_capacity(profile.index);
            prop_assert_eq!(free, most(geometry, gpu.layout(), profile.index), "{}", profile.name);
        }
    }
}
