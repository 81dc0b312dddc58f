//! The queries of a monitor in one round: everything about every GPU and every MIG device.
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]

use std::ffi::c_char;
use std::mem::zeroed;

use gpu::Caller;
use nvml_wrapper_sys::bindings::*;

use super::Sim;

/// Eight GPUs with seven slices each.
pub(crate) fn busy_node() -> Sim {
    let mut machine = super::machine(&["H100-80GB"; 8]);
    for index in 0..8 {
        let mut nvml = machine.nvml(Caller::Root);
        let device = nvml.device_handle_by_index(index).unwrap();
        nvml.set_mig_mode(device, gpu::Mode::Enabled).unwrap();
        for _ in 0..7 {
            let slice = nvml.create_gpu_instance(device, 19).unwrap();
            nvml.create_compute_instance(slice, 0).unwrap();
        }
    }
    Sim::new(machine)
}

/// Asks everything; how many calls that were.
pub(crate) fn sweep(lib: &NvmlLib) -> u32 {
    let mut calls = 0;
    let mut made = |code: nvmlReturn_t| {
        assert!(code == 0 || code == nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, "{code}");
        calls += 1;
    };
    let mut text: [c_char; 96] = [0; 96];
    let (mut number, mut other, mut count) = (0, 0, 0);
    unsafe {
        made(lib.nvmlDeviceGetCount_v2(&mut count));
        for index in 0..count {
            let mut device = zeroed();
            made(lib.nvmlDeviceGetHandleByIndex_v2(index, &mut device));
            made(lib.nvmlDeviceGetName(device, text.as_mut_ptr(), 96));
            made(lib.nvmlDeviceGetUUID(device, text.as_mut_ptr(), 96));
            made(lib.nvmlDeviceGetPciInfo_v3(device, &mut zeroed()));
            made(lib.nvmlDeviceGetMemoryInfo(device, &mut zeroed()));
            made(lib.nvmlDeviceGetUtilizationRates(device, &mut zeroed()));
            made(lib.nvmlDeviceGetTemperature(device, 0, &mut number));
            made(lib.nvmlDeviceGetPowerUsage(device, &mut number));
            made(lib.nvmlDeviceGetClockInfo(device, nvmlClockType_enum_NVML_CLOCK_SM, &mut number));
            made(lib.nvmlDeviceGetClockInfo(device, nvmlClockType_enum_NVML_CLOCK_MEM, &mut number));
            let mut none = 0;
            let nowhere = std::ptr::null_mut();
            made(lib.nvmlDeviceGetComputeRunningProcesses_v3(device, &mut none, nowhere));
            made(lib.nvmlDeviceGetMigMode(device, &mut number, &mut other));
            let mut slices = 0;
            made(lib.nvmlDeviceGetMaxMigDeviceCount(device, &mut slices));
            for slice in 0..slices {
                let mut mig = zeroed();
                made(lib.nvmlDeviceGetMigDeviceHandleByIndex(device, slice, &mut mig));
                made(lib.nvmlDeviceGetGpuInstanceId(mig, &mut number));
                made(lib.nvmlDeviceGetComputeInstanceId(mig, &mut number));
                made(lib.nvmlDeviceGetUUID(mig, text.as_mut_ptr(), 96));
                made(lib.nvmlDeviceGetName(mig, text.as_mut_ptr(), 96));
                made(lib.nvmlDeviceGetAttributes_v2(mig, &mut zeroed()));
                made(lib.nvmlDeviceGetMemoryInfo(mig, &mut zeroed()));
                made(lib.nvmlDeviceGetComputeRunningProcesses_v3(mig, &mut none, nowhere));
            }
        }
    }
    calls
}

/// What exporters ask for by number: energy, power, and how warm the memory is.
const FIELDS: [u32; 4] = [
    field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
    field_id::NVML_FI_DEV_POWER_INSTANT,
    field_id::NVML_FI_DEV_POWER_AVERAGE,
    field_id::NVML_FI_DEV_MEMORY_TEMP,
];

/// What an exporter measures beside that, by the clock: energy, fields, the work of GPUs and slices; and how near GPUs
/// are to each other. How many calls that were.
pub(crate) fn measure(lib: &NvmlLib) -> u32 {
    let mut calls = 0;
    let mut made = |code: nvmlReturn_t| {
        assert_eq!(code, 0);
        calls += 1;
    };
    let (mut count, mut nearness, mut energy) = (0, 0, 0);
    unsafe {
        made(lib.nvmlDeviceGetCount_v2(&mut count));
        let mut sample = zeroed();
        made(lib.nvmlGpmSampleAlloc(&mut sample));
        for index in 0..count {
            let (mut device, mut neighbour) = (zeroed(), zeroed());
            made(lib.nvmlDeviceGetHandleByIndex_v2(index, &mut device));
            made(lib.nvmlDeviceGetHandleByIndex_v2((index + 1) % count, &mut neighbour));
            made(lib.nvmlDeviceGetTopologyCommonAncestor(device, neighbour, &mut nearness));
            made(lib.nvmlDeviceGetTotalEnergyConsumption(device, &mut energy));
            let mut fields: [nvmlFieldValue_t; 4] = zeroed();
            for (field, id) in fields.iter_mut().zip(FIELDS) {
                field.fieldId = id;
            }
            made(lib.nvmlDeviceGetFieldValues(device, 4, fields.as_mut_ptr()));
            made(lib.nvmlGpmSampleGet(device, sample));
            // Seven of the smallest slices.
            for instance in 7..14 {
                made(lib.nvmlGpmMigSampleGet(device, instance, sample));
            }
        }
        made(lib.nvmlGpmSampleFree(sample));
    }
    calls
}
