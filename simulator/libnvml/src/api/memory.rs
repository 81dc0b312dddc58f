//! Memory. That of a MIG device is its GPU instance's, which all compute
//! instances there share.

use std::ffi::c_ulonglong;

use gpu::NvmlError;
use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlMemory_t, nvmlMemory_v2_t};

use crate::argument::{Out, Versioned};
use crate::c_handle::Device;
use crate::figures;

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
        let memory = memory.must_be::<nvmlMemory_v2_t>(2)?;
        let version = memory.get()?.version;
        let device = call.device(device)?;
        let (total, reserved, used) = bytes(call.query(|nvml| nvml.memory(device))?);
        memory.set(nvmlMemory_v2_t { version, total, reserved, free: total - reserved - used, used })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(call, device: Device, memory: Out<nvmlBAR1Memory_t>) {
        let (total, used) = call.ask(device, |of| figures::bar1_mib(of).ok_or(NvmlError::NotSupported))?;
        let (total, used) = (c_ulonglong::from(total) * MIB, c_ulonglong::from(used) * MIB);
        memory.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used })
    }
}
