//! The life of MIG instances through the C interface.
#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use std::mem::zeroed;
use std::ptr::null_mut;

use crate::support::Sim;
use crate::support::raw::*;
use gpu::{Activity, Client, Target};
use nvml_wrapper_sys::bindings::*;

/// A node with one A100-80GB, MIG on.
fn cut() -> (Sim, nvmlDevice_t) {
    let sim = Sim::with(&["A100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    assert_eq!(sim.set_mode(device, 1), Ok(0));
    (sim, device)
}

#[test]
fn instances_are_created_where_hardware_puts_them_and_go_in_order() {
    let (sim, device) = cut();
    // The guide's example: the order breaks both halves.
    let ids: Vec<_> =
        [19, 19, 14].iter().map(|id| sim.info(sim.create(device, *id).unwrap()).unwrap().id).collect();
    assert_eq!(ids, [13, 11, 3]);
    assert_eq!(sim.create(device, 9), Err(NO_ROOM));
    assert_eq!(sim.instances(device, 19), Ok(vec![11, 13]));
    assert_eq!(sim.instances(device, 14), Ok(vec![3]));
    let three = ask(|gi| unsafe { sim.lib.nvmlDeviceGetGpuInstanceById(device, 3, gi) }).unwrap();
    let info = sim.info(three).unwrap();
    assert_eq!((info.device, info.id, info.profileId), (device, 3, 14));
    assert_eq!((info.placement.start, info.placement.size), (0, 2));

    let whole = sim.compute(three, 1).unwrap();
    assert_eq!(sim.compute(three, 0), Err(NO_ROOM));
    assert_eq!(sim.destroy(three), Err(IN_USE));
    let ci = ask(|info| unsafe { sim.lib.nvmlComputeInstanceGetInfo_v2(whole, info) }).unwrap();
    assert_eq!((ci.device, ci.gpuInstance, ci.id, ci.profileId), (device, three, 0, 1));
    sim.destroy_compute(whole).unwrap();
    sim.destroy(three).unwrap();
    assert_eq!(sim.instances(device, 14), Ok(vec![]));
}

#[test]
fn a_placement_is_obeyed_or_refused() {
    let (sim, device) = cut();
    let at_four = sim.create_at(device, 9, 4, 4).unwrap();
    assert_eq!(sim.info(at_four).unwrap().id, 2);
    assert_eq!(sim.create_at(device, 9, 4, 4), Err(NO_ROOM));
    assert_eq!(sim.create_at(device, 9, 2, 4), Err(INVALID));
    assert_eq!(sim.create_at(device, 9, 0, 3), Err(INVALID));
    assert_eq!(sim.create_at(device, 9, 0x1_0000, 4), Err(INVALID));
    assert_eq!(sim.create_at(device, 1234, 0, 4), Err(INVALID));
    let free = |id| ask(|n| unsafe { sim.lib.nvmlDeviceGetGpuInstanceRemainingCapacity(device, id, n) });
    assert_eq!((free(19), free(14), free(9), free(0)), (Ok(4), Ok(2), Ok(1), Ok(0)));
}

#[test]
fn handles_of_what_is_gone_are_invalid_even_when_the_id_is_used_again() {
    let (sim, device) = cut();
    let old = sim.create(device, 0).unwrap();
    let ci = sim.compute(old, 4).unwrap();
    let mig = sim.mig(device, 0).unwrap();
    let uuid = sim.uuid(mig).unwrap();
    sim.destroy_compute(ci).unwrap();
    assert_eq!(sim.uuid(mig), Err(INVALID));
    assert_eq!(sim.by_uuid(&uuid), Err(NOT_FOUND));
    assert_eq!(sim.destroy_compute(ci), Err(INVALID));
    sim.destroy(old).unwrap();
    assert_eq!(sim.destroy(old), Err(INVALID));
    let new = sim.create(device, 0).unwrap();
    assert_eq!(sim.info(old).map(drop), Err(INVALID));
    sim.compute(new, 4).unwrap();
    // The same place has the same UUID again.
    assert_eq!(sim.uuid(sim.mig(device, 0).unwrap()), Ok(uuid));
}

#[test]
fn mig_devices_are_devices_with_a_parent_a_name_and_attributes() {
    let (sim, device) = cut();
    let gi = sim.create(device, 9).unwrap();
    sim.compute(gi, 1).unwrap();
    assert_eq!(sim.mig(device, 1), Err(NOT_FOUND));
    assert_eq!(sim.mig(device, 7), Err(INVALID));
    let mig = sim.mig(device, 0).unwrap();
    assert_eq!(sim.mig(device, 0), Ok(mig));
    assert_eq!(sim.name(mig).unwrap(), "NVIDIA A100-SXM4-80GB MIG 2c.3g.40gb");
    assert_eq!(sim.by_uuid(&sim.uuid(mig).unwrap()), Ok(mig));
    let is = |device| ask(|is| unsafe { sim.lib.nvmlDeviceIsMigDeviceHandle(device, is) });
    assert_eq!((is(device), is(mig)), (Ok(0), Ok(1)));
    let parent = |d| ask(|p| unsafe { sim.lib.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(d, p) });
    assert_eq!((parent(mig), parent(device)), (Ok(device), Err(INVALID)));
    let ids = [
        ask(|id| unsafe { sim.lib.nvmlDeviceGetGpuInstanceId(mig, id) }),
        ask(|id| unsafe { sim.lib.nvmlDeviceGetComputeInstanceId(mig, id) }),
        ask(|id| unsafe { sim.lib.nvmlDeviceGetIndex(mig, id) }),
        ask(|n| unsafe { sim.lib.nvmlDeviceGetMaxMigDeviceCount(device, n) }),
    ];
    assert_eq!(ids, [Ok(2), Ok(0), Ok(0), Ok(7)]);
    let has = ask(|a| unsafe { sim.lib.nvmlDeviceGetAttributes_v2(mig, a) }).unwrap();
    assert_eq!(
        (has.multiprocessorCount, has.gpuInstanceSliceCount, has.computeInstanceSliceCount),
        (28, 3, 2)
    );
    assert_eq!((has.sharedCopyEngineCount, has.sharedDecoderCount, has.memorySizeMB), (3, 2, 40192));
    let none = ask(|a| unsafe { sim.lib.nvmlDeviceGetAttributes_v2(device, a) });
    assert_eq!(none.map(drop), Err(NOT_SUPPORTED));
    let memory = ask(|m| unsafe { sim.lib.nvmlDeviceGetMemoryInfo(mig, m) }).unwrap();
    assert_eq!((memory.total >> 20, memory.free, memory.used), (40192, memory.total, 0));
    let load = ask(|load| unsafe { sim.lib.nvmlDeviceGetUtilizationRates(device, load) });
    assert_eq!(load.map(drop), Err(NOT_SUPPORTED));
}

#[test]
fn a_profile_is_the_same_in_every_version_of_its_struct() {
    let (sim, device) = cut();
    let v1 = ask(|info| unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfo(device, 0, info) }).unwrap();
    assert_eq!((v1.id, v1.sliceCount, v1.instanceCount, v1.memorySizeMB), (19, 1, 7, 9728));
    let mut v2: nvmlGpuInstanceProfileInfo_v2_t = unsafe { zeroed() };
    v2.version = version::<nvmlGpuInstanceProfileInfo_v2_t>(2);
    done(unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfoV(device, 0, &mut v2) }).unwrap();
    assert_eq!((v2.id, text(&v2.name)), (19, "MIG 1g.10gb".to_owned()));
    let mut v3: nvmlGpuInstanceProfileInfo_v3_t = unsafe { zeroed() };
    v3.version = version::<nvmlGpuInstanceProfileInfo_v3_t>(3);
    let by_id = (&raw mut v3).cast();
    done(unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfoByIdV(device, 19, by_id) }).unwrap();
    assert_eq!((v3.id, v3.memorySizeMB, text(&v3.name)), (19, 9728, "MIG 1g.10gb".to_owned()));
    assert_eq!(v3.version, version::<nvmlGpuInstanceProfileInfo_v3_t>(3));
    // No version; a size that is none (version 2 and 3 have the same).
    for wrong in [0, 1, 2, 3 << 24 | 151, version::<nvmlGpuInstanceProfileInfo_v2_t>(4), u32::MAX] {
        v2.version = wrong;
        let code = unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfoV(device, 0, &mut v2) };
        assert_eq!(done(code), Err(INVALID), "{wrong}");
    }
    let code = |profile| {
        let info =
            |info: &mut _| unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfo(device, profile, info) };
        ask(info).map(drop)
    };
    assert_eq!(code(NVML_GPU_INSTANCE_PROFILE_8_SLICE), Err(NOT_SUPPORTED));
    assert_eq!(code(NVML_GPU_INSTANCE_PROFILE_COUNT), Err(INVALID));
}

#[test]
fn placements_are_counted_with_a_null_and_filled_without() {
    let (sim, device) = cut();
    let mut count = 0;
    let ask_count =
        unsafe { sim.lib.nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, 14, null_mut(), &mut count) };
    assert_eq!((ask_count, count), (0, 3));
    let mut all = vec![nvmlGpuInstancePlacement_t { start: 9, size: 9 }; 3];
    done(unsafe {
        sim.lib.nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, 14, all.as_mut_ptr(), &mut count)
    })
    .unwrap();
    assert_eq!(all.iter().map(|p| (p.start, p.size)).collect::<Vec<_>>(), [(0, 2), (2, 2), (4, 2)]);
}

#[test]
fn compute_instances_have_profiles_placements_and_lists() {
    let (sim, device) = cut();
    let gi = sim.create(device, 0).unwrap();
    let v1 = |profile, engines| {
        ask(|i| unsafe { sim.lib.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, profile, engines, i) })
    };
    let three = v1(2, 0).unwrap();
    assert_eq!((three.id, three.sliceCount, three.instanceCount, three.multiprocessorCount), (2, 3, 2, 42));
    assert_eq!(v1(5, 0).map(drop), Err(NOT_SUPPORTED));
    assert_eq!(v1(8, 0).map(drop), Err(INVALID));
    assert_eq!(v1(2, 1).map(drop), Err(INVALID));
    let mut v3: nvmlComputeInstanceProfileInfo_v3_t = unsafe { zeroed() };
    v3.version = version::<nvmlComputeInstanceProfileInfo_v3_t>(3);
    let info = (&raw mut v3).cast();
    done(unsafe { sim.lib.nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 2, 0, info) }).unwrap();
    assert_eq!(text(&v3.name), "MIG 3c.7g.80gb");

    let at = nvmlComputeInstancePlacement_t { start: 4, size: 3 };
    let ci = ask(|ci| unsafe { sim.lib.nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 2, &at, ci) })
        .unwrap();
    let mut all = [null_mut(); 7];
    let count = ask(|n| unsafe { sim.lib.nvmlGpuInstanceGetComputeInstances(gi, 2, all.as_mut_ptr(), n) });
    assert_eq!((count, all[0]), (Ok(1), ci));
    let found = ask(|found| unsafe { sim.lib.nvmlGpuInstanceGetComputeInstanceById(gi, 0, found) });
    assert_eq!(found, Ok(ci));
    let missing = ask(|found| unsafe { sim.lib.nvmlGpuInstanceGetComputeInstanceById(gi, 1, found) });
    assert_eq!(missing, Err(NOT_FOUND));
    let free = |id| ask(|n| unsafe { sim.lib.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, id, n) });
    assert_eq!((free(2), free(0), free(4)), (Ok(1), Ok(4), Ok(0)));
    let mut count = 0;
    let places =
        unsafe { sim.lib.nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 2, null_mut(), &mut count) };
    assert_eq!((places, count), (0, 2));
}

#[test]
fn a_busy_gpu_leaves_the_mode_pending_and_the_call_succeeds() {
    let sim = Sim::with(&["A100-80GB"]);
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    let monitor = Client {
        pid: 77,
        name: "nv-hostengine".to_owned(),
        target: Target::Gpu(0),
        activity: Activity::Watches,
        memory_mib: 0,
    };
    let id = sim.store.update(|state| state.machine.open(monitor)).unwrap().unwrap();
    assert_eq!(sim.set_mode(device, 1), Ok(IN_USE));
    assert_eq!(sim.mode(device), Ok((0, 1)));
    sim.store.update(|state| state.machine.close(id)).unwrap();
    assert_eq!(sim.set_mode(device, 1), Ok(0));
    assert_eq!(sim.mode(device), Ok((1, 1)));
    assert_eq!(sim.set_mode(device, 2), Err(INVALID));
}

#[test]
fn without_privilege_one_sees_mig_devices_and_neither_lists_nor_changes_instances() {
    let (sim, device) = cut();
    sim.compute(sim.create(device, 0).unwrap(), 4).unwrap();
    sim.shutdown().unwrap();
    let sim = sim.for_a_user();
    sim.init().unwrap();
    let device = sim.gpu(0).unwrap();
    assert!(sim.name(sim.mig(device, 0).unwrap()).unwrap().ends_with("MIG 7g.80gb"));
    assert_eq!(sim.instances(device, 0), Err(NO_PERMISSION));
    assert_eq!(sim.create(device, 19), Err(NO_PERMISSION));
    assert_eq!(sim.set_mode(device, 0), Err(NO_PERMISSION));
    // Arguments come before permission.
    assert_eq!(sim.create(device, 1234), Err(INVALID));
    assert_eq!(sim.set_mode(device, 7), Err(INVALID));
}

#[test]
fn a_card_without_mig_says_so() {
    let model = gpu::Model::without_mig("Tesla T4", 15360, gpu::PciClass::ThreeD);
    let sim = Sim::new(crate::support::machine(&["A30"]).with_gpu(&std::sync::Arc::new(model)));
    sim.init().unwrap();
    let device = sim.gpu(1).unwrap();
    assert_eq!(sim.mode(device), Err(NOT_SUPPORTED));
    assert_eq!(sim.set_mode(device, 1), Err(NOT_SUPPORTED));
    assert_eq!(ask(|n| unsafe { sim.lib.nvmlDeviceGetMaxMigDeviceCount(device, n) }), Ok(0));
    let load = ask(|load| unsafe { sim.lib.nvmlDeviceGetUtilizationRates(device, load) });
    assert_eq!(load.map(|load| load.gpu), Ok(0));
}
