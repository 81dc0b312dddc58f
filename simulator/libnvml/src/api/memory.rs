//! Memory. That of a MIG device is its GPU instance's, which all compute
//! instances there share.

use std::ffi::c_ulonglong;

use gpu::NvmlError;
use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlMemory_t};

use crate::argument::{Out, Versioned};
use crate::c_handle::Device;
use crate::figures;
use crate::padded::MemoryV2;

const MIB: c_ulonglong = 1024 * 1024;

/// In bytes: all of it, what the driver reserves, and what clients use.
fn bytes(has: gpu::Memory) -> (c_ulonglong, c_ulonglong, c_ulonglong) {
    let gpu::Memory { total_mib, used_mib, reserved_kib } = has;
    let reserved = c_ulonglong::from(reserved_kib) * 1024;
    (c_ulonglong::from(total_mib) * MIB, reserved, c_ulonglong::from(used_mib) * MIB)
}

entries! {
    /// What the driver reserves counts as used here.
    fn nvmlDeviceGetMemoryInfo(call, device: Device, memory: Out<nvmlMemory_t>) {
        let device = call.device(device)?;
        let (total, reserved, used) = bytes(call.query(|nvml| nvml.memory(device))?);
        memory.set(nvmlMemory_t { total, free: total - reserved - used, used: reserved + used })
    }

    /// With what the driver reserves apart.
    fn nvmlDeviceGetMemoryInfo_v2(call, device: Device, memory: Versioned) {
        // Of another version the driver says this (580.159.04).
        let memory = memory.is::<MemoryV2>(2).ok_or(NvmlError::FunctionNotFound)?;
        let version = memory.get()?.version;
        let device = call.device(device)?;
        let (total, reserved, used) = bytes(call.query(|nvml| nvml.memory(device))?);
        memory.set(MemoryV2 { version, _1: 0, total, reserved, free: total - reserved - used, used })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(call, device: Device, memory: Out<nvmlBAR1Memory_t>) {
        let (total, used) = call.ask(device, |of| figures::bar1_kib(of).ok_or(NvmlError::NotSupported))?;
        let (total, used) = (total * 1024, used * 1024);
        memory.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used })
    }
}
