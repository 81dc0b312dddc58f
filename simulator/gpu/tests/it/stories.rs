//! The administrators' documents that the simulator must reproduce: the A100 server with 56 slices (seed
//! 001) and the DGX Station whose processes hold the GPU (seed 003); and the uneven slices of Hopper.

use std::sync::Arc;

use crate::support::{cgi, dci, device, dgi, instances, mig, mig_devices, model, open, start};
use gpu::{
    Activation, Activity, Caller, DriverBranch, Machine, MigMode, Mode, Model, NvmlError, PciClass, Target,
};

fn mode(machine: &mut Machine, gpu: u16) -> Result<MigMode, NvmlError> {
    let device = device(machine, gpu);
    machine.nvml(Caller::User).mig_mode(device)
}

fn eight_a100s() -> Machine {
    let machine = Machine::new("a100-server", DriverBranch::default(), start());
    (0..8).fold(machine, |machine, _| machine.with_gpu(&model("A100-40GB")))
}

#[test]
fn mig_is_switched_on_for_all_gpus_or_for_some() {
    let mut machine = eight_a100s();
    for gpu in [0, 1] {
        assert_eq!(mig(&mut machine, gpu, Mode::Enabled), Ok(Activation::Success));
    }
    let on = (0..8).filter(|gpu| mode(&mut machine, *gpu) == Ok(MigMode::settled(Mode::Enabled)));
    assert_eq!(on.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn eight_gpus_become_fifty_six_slices_and_an_eighth_small_one_never_fits() {
    let mut machine = eight_a100s();
    let mut uuids = std::collections::BTreeSet::new();
    for gpu in 0..8 {
        mig(&mut machine, gpu, Mode::Enabled).unwrap();
        // The document asks for eight; no A100 has room for more than seven.
        let (created, error) = cgi(&mut machine, gpu, &[19; 8]);
        assert_eq!((created.len(), error), (7, Some(NvmlError::InsufficientResources)));
        uuids.extend(mig_devices(&mut machine, gpu).into_iter().map(|(_, profile, uuid)| {
            assert_eq!(profile, "1g.5gb");
            uuid
        }));
    }
    assert_eq!(uuids.len(), 56);
}

#[test]
fn small_ones_before_the_3g_fail_and_the_3g_first_succeeds() {
    let mut machine = crate::support::cut_ready("A100-40GB");
    assert_eq!(cgi(&mut machine, 0, &[19, 19, 14, 9]).1, Some(NvmlError::InsufficientResources));
    dci(&mut machine, 0).unwrap();
    dgi(&mut machine, 0).unwrap();
    let (created, error) = cgi(&mut machine, 0, &[9, 19, 19, 14]);
    assert_eq!((created.len(), error), (4, None));
}

#[test]
fn compute_instances_go_before_gpu_instances() {
    let mut machine = crate::support::cut_ready("A100-40GB");
    cgi(&mut machine, 0, &[19; 7]);
    assert_eq!(dgi(&mut machine, 0), Err(NvmlError::InUse), "a compute instance is in the way");
    let expect = [7, 8, 9, 10, 11, 12, 13];
    assert_eq!(dci(&mut machine, 0).unwrap(), expect.map(|gi| (gi, 0)));
    assert_eq!(dgi(&mut machine, 0).unwrap(), expect);
    assert!(instances(&mut machine, 0).is_empty());
}

#[test]
fn a_reboot_loses_instances_and_the_mode_survives_on_ampere_only() {
    for (name, survives) in [("A100-40GB", true), ("A30", true), ("H100-80GB", false)] {
        let mut machine = crate::support::cut_ready(name);
        let smallest = if name == "A30" { 14 } else { 19 };
        cgi(&mut machine, 0, &[smallest; 2]);
        let boot = machine.boot_id();
        machine.reboot();
        assert_ne!(machine.boot_id(), boot);
        let after = if survives { Mode::Enabled } else { Mode::Disabled };
        assert_eq!(mode(&mut machine, 0), Ok(MigMode::settled(after)), "{name}");
        assert!(machine.gpus()[0].instances.is_empty(), "{name}");

        mig(&mut machine, 0, Mode::Enabled).unwrap();
        machine.reload_driver().unwrap();
        assert_eq!(mode(&mut machine, 0), Ok(MigMode::settled(after)), "{name}, driver reloaded");
    }
}

/// Four GPUs, of which the third drives the display.
fn dgx_station() -> Machine {
    let a100 = model("NVIDIA A100-SXM4-80GB");
    let display = Arc::new(Model::without_mig("NVIDIA DGX Display", 4096, PciClass::Vga));
    Machine::new("dgx-station", DriverBranch::default(), start())
        .with_gpu(&a100)
        .with_gpu(&a100)
        .with_gpu(&display)
        .with_gpu(&a100)
}

#[test]
fn a_gpu_that_processes_hold_keeps_its_mode_pending_until_they_are_gone() {
    let mut machine = dgx_station();
    let holders = ["nv-hostengine", "nvsm_core", "nvidia-persistenced", "Xorg", "gnome-shell"]
        .map(|name| open(&mut machine, name, Target::Gpu(0), Activity::Watches));
    assert_eq!(mig(&mut machine, 0, Mode::Enabled), Ok(Activation::InUse), "the call succeeds");
    let pending = MigMode { current: Mode::Disabled, pending: Mode::Enabled };
    assert_eq!(mode(&mut machine, 0), Ok(pending));

    let gpu = device(&mut machine, 0);
    assert_eq!(machine.nvml(Caller::Root).reset_gpu(gpu), Err(NvmlError::InUse));
    for holder in holders {
        assert_eq!(mode(&mut machine, 0), Ok(pending));
        machine.close(holder).unwrap();
    }
    assert_eq!(mig(&mut machine, 0, Mode::Enabled), Ok(Activation::Success), "retried");
    assert_eq!(mode(&mut machine, 0), Ok(MigMode::settled(Mode::Enabled)));
}

#[test]
fn a_pending_mode_comes_into_force_with_a_reset_or_a_reboot() {
    for reboot in [false, true] {
        let mut machine = dgx_station();
        let holder = open(&mut machine, "nv-hostengine", Target::Gpu(3), Activity::Watches);
        assert_eq!(mig(&mut machine, 3, Mode::Enabled), Ok(Activation::InUse));
        if reboot {
            machine.reboot();
        } else {
            machine.close(holder).unwrap();
            let gpu = device(&mut machine, 3);
            machine.nvml(Caller::Root).reset_gpu(gpu).unwrap();
        }
        assert_eq!(mode(&mut machine, 3), Ok(MigMode::settled(Mode::Enabled)), "reboot: {reboot}");
    }
}

#[test]
fn a_passed_through_ampere_waits_for_a_reset_and_a_hopper_does_not() {
    for (name, expect) in [("A100-40GB", Activation::ResetRequired), ("H100-80GB", Activation::Success)] {
        let mut machine =
            Machine::new("vm", DriverBranch::default(), start()).passed_through().with_gpu(&model(name));
        assert_eq!(mig(&mut machine, 0, Mode::Enabled), Ok(expect), "{name}");
    }
}

#[test]
fn the_listing_names_each_slice_and_the_display_gpu_has_none() {
    let mut machine = dgx_station();
    mig(&mut machine, 0, Mode::Enabled).unwrap();
    cgi(&mut machine, 0, &[19; 7]);
    let listed = mig_devices(&mut machine, 0);
    assert_eq!(listed.iter().map(|(index, ..)| *index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    assert!(listed.iter().all(|(_, profile, _)| profile == "1g.10gb"));
    for (index, _, uuid) in &listed {
        let mut nvml = machine.nvml(Caller::User);
        let found = nvml.device_handle_by_uuid(uuid).unwrap();
        assert_eq!(nvml.index(found), Ok(*index));
        let parent = nvml.parent(found).unwrap();
        assert_eq!(nvml.name(parent).unwrap(), "NVIDIA A100-SXM4-80GB");
    }
    assert!(mig_devices(&mut machine, 1).is_empty());
    assert!(mig_devices(&mut machine, 2).is_empty());
    let display = device(&mut machine, 2);
    let mut nvml = machine.nvml(Caller::Root);
    assert_eq!(nvml.mig_mode(display), Err(NvmlError::NotSupported));
    assert_eq!(nvml.set_mig_mode(display, Mode::Enabled), Err(NvmlError::NotSupported));
    assert_eq!(nvml.max_mig_device_count(display), Ok(0));
}

#[test]
fn the_same_place_has_the_same_uuid_each_time_it_is_cut() {
    let mut machine = crate::support::cut_ready("A100-80GB");
    cgi(&mut machine, 0, &[19; 7]);
    let before = mig_devices(&mut machine, 0);
    dci(&mut machine, 0).unwrap();
    dgi(&mut machine, 0).unwrap();
    // A 3g goes to 4:4; the small ones below it are where they were.
    cgi(&mut machine, 0, &[9, 19, 19]);
    let after = mig_devices(&mut machine, 0);
    assert_eq!(
        after.iter().map(|(_, p, _)| p.as_str()).collect::<Vec<_>>(),
        ["3g.40gb", "1g.10gb", "1g.10gb"]
    );
    let small = |devices: &[(u16, String, String)]| -> Vec<String> {
        devices.iter().filter(|(_, p, _)| p == "1g.10gb").map(|(_, _, uuid)| uuid.clone()).collect()
    };
    assert_eq!(small(&after), small(&before)[..2]);
    assert_eq!((before[0].0, after[1].0), (0, 1), "the 3g has a lower id: indices shift, UUIDs do not");
}

#[test]
fn mig_is_switched_off_after_its_compute_instances_are_gone() {
    let mut machine = dgx_station();
    mig(&mut machine, 0, Mode::Enabled).unwrap();
    cgi(&mut machine, 0, &[19, 14]);
    assert_eq!(mig(&mut machine, 0, Mode::Disabled), Ok(Activation::InUse));
    dci(&mut machine, 0).unwrap();
    let dcgm = open(&mut machine, "nv-hostengine", Target::Gpu(0), Activity::Watches);
    assert_eq!(mig(&mut machine, 0, Mode::Disabled), Ok(Activation::InUse));
    machine.close(dcgm).unwrap();
    // As the document does: the GPU instances go with the reset.
    assert_eq!(mig(&mut machine, 0, Mode::Disabled), Ok(Activation::Success));
    assert_eq!(mode(&mut machine, 0), Ok(MigMode::OFF));
    assert_eq!(machine.gpu(0).unwrap().instances.len(), 0);
}

#[test]
fn from_hopper_on_instances_refuse_to_have_mig_switched_off() {
    let mut machine = crate::support::cut_ready("H100-80GB");
    cgi(&mut machine, 0, &[19]);
    assert_eq!(mig(&mut machine, 0, Mode::Disabled), Err(NvmlError::InUse));
    dci(&mut machine, 0).unwrap();
    assert_eq!(mig(&mut machine, 0, Mode::Disabled), Err(NvmlError::InUse), "GPU instances too");
    assert_eq!(mode(&mut machine, 0).unwrap().pending, Mode::Enabled, "nothing is pending");
    dgi(&mut machine, 0).unwrap();
    assert_eq!(mig(&mut machine, 0, Mode::Disabled), Ok(Activation::Success));
}

#[test]
fn persistence_mode_is_a_flag_that_a_reboot_clears() {
    let mut machine = dgx_station();
    let gpu = device(&mut machine, 0);
    assert_eq!(
        machine.nvml(Caller::User).set_persistence_mode(gpu, Mode::Enabled),
        Err(NvmlError::NoPermission)
    );
    machine.nvml(Caller::Root).set_persistence_mode(gpu, Mode::Enabled).unwrap();
    assert!(machine.gpus()[0].persistence);
    machine.reboot();
    assert!(!machine.gpus()[0].persistence);
}

#[test]
fn slices_of_a_hopper_are_uneven() {
    for (id, sm, copy, memory_mib) in [
        (19, 16, 1, 9984),
        (15, 26, 1, 20096),
        (14, 32, 2, 20096),
        (9, 60, 3, 40448),
        (5, 64, 4, 40448),
        (0, 132, 8, 81152),
    ] {
        let mut machine = crate::support::cut_ready("H100-80GB");
        cgi(&mut machine, 0, &[id]);
        let gpu = device(&mut machine, 0);
        let mut nvml = machine.nvml(Caller::User);
        let slice = nvml.mig_device_handle_by_index(gpu, 0).unwrap();
        let attributes = nvml.attributes(slice).unwrap();
        assert_eq!(attributes.multiprocessors, Some(sm), "profile {id}");
        assert_eq!((attributes.engines.copy, attributes.memory_mib), (copy, memory_mib), "profile {id}");
        assert_eq!(nvml.memory(slice).unwrap().total_mib, memory_mib);
        assert_eq!(nvml.attributes(gpu), Err(NvmlError::NotSupported), "only for MIG devices");
    }
}

#[test]
fn inside_a_2g_of_a_hopper_two_profiles_share_a_name() {
    for (name, id_of_2g, expect) in [
        (
            "H100-80GB",
            14,
            vec![(0, "1c.2g.20gb", Some(16), 2), (1, "2g.20gb", Some(32), 1), (7, "1c.2g.20gb", Some(26), 1)],
        ),
        // With the multiprocessors of that card, whose 1g.20gb has no more of them than its 1g.10gb.
        (
            "NVIDIA H100 PCIe",
            14,
            vec![(0, "1c.2g.20gb", Some(14), 2), (1, "2g.20gb", Some(30), 1), (7, "1c.2g.20gb", Some(14), 1)],
        ),
        ("A100-80GB", 14, vec![(0, "1c.2g.20gb", Some(14), 2), (1, "2g.20gb", Some(28), 1)]),
    ] {
        let mut machine = crate::support::cut_ready(name);
        let gpu = device(&mut machine, 0);
        let mut nvml = machine.nvml(Caller::Root);
        let gi = nvml.create_gpu_instance(gpu, id_of_2g).unwrap();
        let listed = nvml.compute_instance_profiles(gi).unwrap();
        let listed: Vec<_> = listed.iter().map(|(p, free)| (p.id, p.name.as_str(), p.sm, *free)).collect();
        assert_eq!(listed, expect, "{name}");
    }
}

#[test]
fn compute_instances_fill_a_gpu_instance_and_share_its_memory() {
    let mut machine = crate::support::cut_ready("A100-80GB");
    let gpu = device(&mut machine, 0);
    let mut nvml = machine.nvml(Caller::Root);
    let gi = nvml.create_gpu_instance(gpu, 9).unwrap();
    assert_eq!(nvml.mig_device_handle_by_index(gpu, 0), Err(NvmlError::NotFound), "no compute, no device");
    for id in 0..3 {
        let ci = nvml.create_compute_instance(gi, 0).unwrap();
        assert_eq!(nvml.compute_instance_info(ci).unwrap().id, id);
    }
    assert_eq!(nvml.create_compute_instance(gi, 0), Err(NvmlError::InsufficientResources));
    assert_eq!(nvml.create_compute_instance(gi, 3), Err(NvmlError::NotSupported), "no 4c in a 3g");
    let middle = nvml.compute_instance_by_id(gi, 1).unwrap();
    nvml.destroy_compute_instance(middle).unwrap();
    assert_eq!(nvml.compute_instance_info(middle), Err(NvmlError::InvalidArgument), "the handle is stale");
    let again = nvml.create_compute_instance(gi, 0).unwrap();
    assert_eq!(nvml.compute_instance_info(again).unwrap().id, 1, "the lowest free id");
    let device = nvml.mig_device_handle_by_index(gpu, 2).unwrap();
    assert_eq!(nvml.name(device).unwrap(), "NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb");
    assert_eq!(nvml.memory(device).unwrap().total_mib, 40192);
}

#[test]
fn a_model_without_verified_totals_is_refused_with_the_reason() {
    let error = Model::find("B300").unwrap_err().to_string();
    let expect = "B300 cannot be simulated, because no source gives id, SMs, memory and engines of 7 of its \
                  7 profiles; it can be planned for, and H200-141GB, which has the same grid, can be simulated";
    assert_eq!(error, expect);
}
