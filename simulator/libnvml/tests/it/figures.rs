//! Figures that were measured on real cards, and values that these cards do not provide.
#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use crate::support::Sim;
use crate::support::raw::*;
use gpu::{DriverBranch, Machine, Model};
use nvml_wrapper_sys::bindings::*;

fn node(driver: u16, models: &[Model]) -> Sim {
    let machine = Machine::new("node-a", DriverBranch(driver), store::now());
    let sim = Sim::new(models.iter().fold(machine, |machine, model| machine.with_gpu(&model.clone().into())));
    sim.init().unwrap();
    sim
}

fn model(name: &str) -> Model {
    match mig::sharing::find(name) {
        Some(mig::sharing::Known::Card(card)) => Model::of_card(card),
        _ => Model::clone(&Model::find(name).unwrap()),
    }
}

fn bar1(sim: &Sim, device: nvmlDevice_t) -> (u64, u64) {
    let bar1 = ask(|bar1| unsafe { sim.lib.nvmlDeviceGetBAR1MemoryInfo(device, bar1) }).unwrap();
    (bar1.bar1Total >> 20, bar1.bar1Used >> 20)
}

/// The address windows of one slice of each of these profiles, and of the card.
fn windows(driver: u16, name: &str, profiles: &[u32]) -> (Vec<u64>, (u64, u64)) {
    let sim = node(driver, &[model(name)]);
    let device = sim.gpu(0).unwrap();
    sim.set_mode(device, 1).unwrap();
    for profile in profiles {
        let gi = sim.create(device, *profile).unwrap();
        let whole = (0..5).rev().find(|ci| sim.compute(gi, *ci).is_ok());
        assert!(whole.is_some());
    }
    let slices = (0..profiles.len() as u32).map(|index| bar1(&sim, sim.mig(device, index).unwrap()).0);
    (slices.collect(), bar1(&sim, device))
}

#[test]
fn slices_share_what_the_memory_leaves_of_the_address_window() {
    assert_eq!(windows(590, "H100-80GB", &[9, 14, 19]), (vec![24_739, 12_369, 6_184], (131_072, 81_081)));
    assert_eq!(windows(580, "H200-141GB", &[9, 14, 19]).0, [59_237, 29_618, 14_809]);
    assert_eq!(windows(580, "A100-40GB", &[9, 14, 19]).0, [12_211, 6_105, 3_052]);
    // Up to 560 they shared all of it.
    assert_eq!(windows(560, "H100-94GB", &[9, 14, 19]), (vec![65_535, 32_767, 16_383], (131_072, 0)));
}

#[test]
fn memory_of_slices_is_that_of_the_driver() {
    let memory = |driver| {
        let sim = node(driver, &[model("A100-40GB")]);
        sim.set_mode(sim.gpu(0).unwrap(), 1).unwrap();
        let info = |profile| {
            ask(|info| unsafe {
                sim.lib.nvmlDeviceGetGpuInstanceProfileInfo(sim.gpu(0).unwrap(), profile, info)
            })
        };
        [0, 1, 2, 3].map(|profile| info(profile).unwrap().memorySizeMB)
    };
    assert_eq!(memory(535), [4864, 9856, 19_968, 19_968]);
    assert_eq!(memory(580), [4864, 9984, 20_096, 20_096]);
}

#[test]
fn what_the_driver_reserves_is_apart_from_what_is_used_only_in_the_second_version() {
    let sim = node(590, &[model("H100-80GB"), model("A30")]);
    let memory = |index| {
        let device = sim.gpu(index).unwrap();
        let first: nvmlMemory_t =
            ask(|memory| unsafe { sim.lib.nvmlDeviceGetMemoryInfo(device, memory) }).unwrap();
        let mut second = nvmlMemory_v2_t { version: 0x0200_0028, total: 0, reserved: 0, free: 0, used: 0 };
        assert_eq!(unsafe { sim.lib.nvmlDeviceGetMemoryInfo_v2(device, &raw mut second) }, 0);
        assert_eq!(first.total, first.used + first.free);
        assert_eq!(second.total, second.reserved + second.used + second.free);
        assert_eq!((first.used, first.free), (second.reserved + second.used, second.free));
        (second.reserved, second.used)
    };
    assert_eq!(memory(0), (480 << 20, 0));
    // Nobody captured an A30.
    assert_eq!(memory(1), (0, 0));
    // A slice has all of its memory.
    let device = sim.gpu(0).unwrap();
    sim.set_mode(device, 1).unwrap();
    let gi = sim.create(device, 19).unwrap();
    sim.compute(gi, 0).unwrap();
    let slice = sim.mig(device, 0).unwrap();
    let has: nvmlMemory_t = ask(|memory| unsafe { sim.lib.nvmlDeviceGetMemoryInfo(slice, memory) }).unwrap();
    assert_eq!((has.total, has.used), (9984 << 20, 0));
}

#[test]
fn an_h100_on_a_pcie_card_has_fewer_multiprocessors() {
    let sim = node(580, &[model("NVIDIA H100 PCIe")]);
    let device = sim.gpu(0).unwrap();
    assert_eq!(sim.name(device).unwrap(), "NVIDIA H100 PCIe");
    let sm = |profile| {
        let info = ask(|info| unsafe { sim.lib.nvmlDeviceGetGpuInstanceProfileInfo(device, profile, info) });
        info.unwrap().multiprocessorCount
    };
    assert_eq!([0, 7, 9, 1, 2, 3, 4].map(sm), [14, 14, 14, 30, 46, 62, 114]);
    let pci: nvmlPciInfo_t = ask(|pci| unsafe { sim.lib.nvmlDeviceGetPciInfo_v3(device, pci) }).unwrap();
    assert_eq!(pci.pciDeviceId, 0x2331_10de);
}

#[test]
fn every_card_of_the_catalogue_says_what_discovery_asks() {
    for card in mig::sharing::cards() {
        let sim = node(580, &[Model::of_card(card)]);
        let device = sim.gpu(0).unwrap();
        let (mut major, mut minor) = (0, 0);
        assert_eq!(unsafe { sim.lib.nvmlDeviceGetCudaComputeCapability(device, &mut major, &mut minor) }, 0);
        assert!(major >= 6, "{}", card.id);
        let architecture = ask(|a| unsafe { sim.lib.nvmlDeviceGetArchitecture(device, a) }).unwrap();
        assert_ne!(architecture, NVML_DEVICE_ARCH_UNKNOWN, "{}", card.id);
        let mut pending = 0;
        let ecc = ask(|now| unsafe { sim.lib.nvmlDeviceGetEccMode(device, now, &mut pending) });
        assert_eq!((ecc, pending), (Ok(1), 1), "{}", card.id);
        let pci: nvmlPciInfo_t = ask(|pci| unsafe { sim.lib.nvmlDeviceGetPciInfo_v3(device, pci) }).unwrap();
        assert_eq!((pci.pciDeviceId & 0xffff, pci.pciDeviceId >> 16 == 0), (0x10de, false), "{}", card.id);
        assert_eq!(sim.mode(device), Err(NOT_SUPPORTED));
    }
}

#[test]
fn only_counters_that_a_card_has_are_told() {
    let sim = node(580, &[model("H100-80GB"), model("T4")]);
    let counter = |gpu, location| {
        let device = sim.gpu(gpu).unwrap();
        ask(|count| unsafe { sim.lib.nvmlDeviceGetMemoryErrorCounter(device, 0, 0, location, count) })
    };
    // L1, L2, the card's memory, registers, textures, shared, CBU, SRAM.
    let no = Err(NOT_SUPPORTED);
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|l| counter(0, l)), [no, no, Ok(0), no, no, no, no, Ok(0)]);
    assert_eq!([0, 2, 3, 7].map(|l| counter(1, l)), [Ok(0), Ok(0), Ok(0), no]);

    let rows = |gpu| {
        let (mut b, mut c, mut d) = (9, 9, 9);
        let device = sim.gpu(gpu).unwrap();
        ask(|a| unsafe { sim.lib.nvmlDeviceGetRemappedRows(device, a, &mut b, &mut c, &mut d) })
    };
    assert_eq!((rows(0), rows(1)), (Ok(0), Err(NOT_SUPPORTED)));
    sim.set_mode(sim.gpu(0).unwrap(), 1).unwrap();
    sim.create(sim.gpu(0).unwrap(), 19).unwrap();
    assert_eq!(rows(0), Err(NOT_SUPPORTED));
}

#[test]
fn a_field_value_is_that_of_its_scope() {
    let sim = node(580, &[model("H100-80GB")]);
    let device = sim.gpu(0).unwrap();
    let value = |scope| {
        let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        (field.fieldId, field.scopeId) = (field_id::NVML_FI_DEV_POWER_INSTANT, scope);
        assert_eq!(unsafe { sim.lib.nvmlDeviceGetFieldValues(device, 1, &mut field) }, 0);
        field.nvmlReturn
    };
    assert_eq!([value(NVML_POWER_SCOPE_GPU), value(NVML_POWER_SCOPE_MODULE)], [0, NOT_SUPPORTED]);
}

#[test]
fn memory_that_has_sensors_tells_how_warm_it_is_and_what_it_draws() {
    let sim = node(590, &[model("H100-80GB"), model("L40S")]);
    let value = |index, id, scope| {
        let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        (field.fieldId, field.scopeId) = (id, scope);
        let device = sim.gpu(index).unwrap();
        assert_eq!(unsafe { sim.lib.nvmlDeviceGetFieldValues(device, 1, &mut field) }, 0);
        if field.nvmlReturn == 0 { Ok(unsafe { field.value.uiVal }) } else { Err(field.nvmlReturn) }
    };
    let temperature = |index| value(index, field_id::NVML_FI_DEV_MEMORY_TEMP, 0);
    let gpu = ask(|celsius| unsafe { sim.lib.nvmlDeviceGetTemperature(sim.gpu(0).unwrap(), 0, celsius) });
    assert_eq!((temperature(0), temperature(1)), (gpu.map(|celsius| celsius + 6), Err(NOT_SUPPORTED)));
    let power = |index, id| value(index, id, NVML_POWER_SCOPE_MEMORY);
    let average = |index| power(index, field_id::NVML_FI_DEV_POWER_AVERAGE);
    assert_eq!((average(0), average(1)), (Ok(44_000), Err(NOT_SUPPORTED)));
    assert_eq!(power(0, field_id::NVML_FI_DEV_POWER_INSTANT), Err(NOT_SUPPORTED));
}

#[test]
fn each_driver_has_the_cuda_that_it_was_seen_with() {
    let cuda = |driver| {
        let sim = node(driver, &[model("L40S")]);
        ask(|version| unsafe { sim.lib.nvmlSystemGetCudaDriverVersion(version) })
    };
    assert_eq!([535, 580, 590, 595].map(cuda), [Ok(12_020), Ok(13_000), Ok(13_010), Ok(13_020)]);
}

#[test]
fn a_part_of_a_slice_has_multiprocessors_and_its_older_name_finds_it() {
    let sim = node(580, &[model("H200-141GB")]);
    let device = sim.gpu(0).unwrap();
    sim.set_mode(device, 1).unwrap();
    let gi = sim.create(device, 9).unwrap();
    sim.compute(gi, 1).unwrap();
    let mig = sim.mig(device, 0).unwrap();
    let attributes = ask(|a| unsafe { sim.lib.nvmlDeviceGetAttributes_v2(mig, a) }).unwrap();
    assert_eq!(attributes.multiprocessorCount, 32);
    let id = sim.info(gi).unwrap().id;
    assert_eq!(sim.by_uuid(&format!("MIG-{}/{id}/0", sim.uuid(device).unwrap())), Ok(mig));
    assert_eq!(sim.by_uuid(&format!("MIG-{}/{id}/1", sim.uuid(device).unwrap())), Err(NOT_FOUND));
}

#[test]
fn temperature_limits_are_told_as_each_card_counts_them() {
    let relative = |sim: &Sim, index| {
        [
            field_id::NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT,
            field_id::NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
            field_id::NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT,
            field_id::NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT,
        ]
        .map(|id| {
            let mut field: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
            field.fieldId = id;
            let device = sim.gpu(index).unwrap();
            assert_eq!(unsafe { sim.lib.nvmlDeviceGetFieldValues(device, 1, &mut field) }, 0);
            let signed = field.valueType == nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT;
            assert!(signed || field.nvmlReturn != 0);
            (field.nvmlReturn == 0).then_some(unsafe { field.value.siVal })
        })
    };
    let absolute = |sim: &Sim, index| {
        [0, 1, 2, 3].map(|kind| {
            let device = sim.gpu(index).unwrap();
            ask(|limit| unsafe { sim.lib.nvmlDeviceGetTemperatureThreshold(device, kind, limit) }).ok()
        })
    };
    {
        let cards = ["H100-80GB", "L40S", "NVIDIA A100-SXM4-40GB", "T4", "A30"];
        let sim = node(590, &cards.map(model));
        assert_eq!(relative(&sim, 0), [Some(-8), Some(-2), Some(0), Some(0)]);
        assert_eq!(relative(&sim, 1), [Some(-5), Some(-2), None, Some(0)]);
        assert_eq!(absolute(&sim, 2), [Some(92), Some(89), Some(95), Some(85)]);
        assert_eq!(absolute(&sim, 3), [Some(96), Some(93), None, Some(85)]);
        assert_eq!(relative(&sim, 2), [None; 4]);
        // Both of an H100, as driver 580 says.
        assert_eq!(absolute(&sim, 0), [Some(95), Some(89), Some(95), Some(87)]);
        assert_eq!((relative(&sim, 4), absolute(&sim, 4)), ([None; 4], [None; 4]));
        let beyond =
            ask(|limit| unsafe { sim.lib.nvmlDeviceGetTemperatureThreshold(sim.gpu(2).unwrap(), 8, limit) });
        assert_eq!(beyond, Err(INVALID));
    }
    assert_eq!(relative(&node(535, &[model("H100-80GB")]), 0), [None; 4]);
}

#[test]
fn captured_boards_say_what_they_said() {
    let sim = node(590, &[model("H100-80GB"), model("L40S"), model("T4")]);
    let gpu = |index| sim.gpu(index).unwrap();
    let limits = |index| {
        let mut most = 0;
        ask(|least| unsafe {
            sim.lib.nvmlDeviceGetPowerManagementLimitConstraints(gpu(index), least, &mut most)
        })
        .map(|least| (least, most))
    };
    assert_eq!(
        [limits(0), limits(1), limits(2)],
        [Ok((200_000, 700_000)), Ok((100_000, 350_000)), Ok((60_000, 70_000))]
    );
    let banks = |index| {
        ask(|to: &mut nvmlRowRemapperHistogramValues_t| unsafe {
            sim.lib.nvmlDeviceGetRowRemapperHistogram(gpu(index), to)
        })
        .map(|histogram| histogram.max)
    };
    assert_eq!([banks(0), banks(1), banks(2)], [Ok(2560), Ok(192), Err(NOT_SUPPORTED)]);
    let image = |index| {
        let mut text = [0; 16];
        done(unsafe { sim.lib.nvmlDeviceGetInforomImageVersion(gpu(index), text.as_mut_ptr(), 16) })
            .map(|()| crate::support::raw::text(&text))
    };
    assert_eq!(image(0).as_deref(), Ok("G520.0200.00.05"));
    assert_eq!(image(2), Err(NOT_SUPPORTED));
    let fabric = |index| {
        ask(|to| unsafe { sim.lib.nvmlDeviceGetGpuFabricInfo(gpu(index), to) }).map(|info| info.state)
    };
    assert_eq!((fabric(0), fabric(1)), (Ok(3), Err(NOT_SUPPORTED)));
    let margin = |index| {
        ask(|to: &mut nvmlMarginTemperature_t| {
            to.version = version::<nvmlMarginTemperature_v1_t>(1);
            unsafe { sim.lib.nvmlDeviceGetMarginTemperature(gpu(index), to) }
        })
        .map(|margin| margin.marginTemperature)
    };
    assert_eq!((margin(0), margin(2)), (Ok(56), Err(NOT_SUPPORTED)));
    let retired = |index| {
        ask(|count| unsafe { sim.lib.nvmlDeviceGetRetiredPages(gpu(index), 0, count, std::ptr::null_mut()) })
    };
    assert_eq!((retired(0), retired(2)), (Err(NOT_SUPPORTED), Ok(0)));
}
