//! Confidential computing: off, on cards that could (an H100 and an H200, driver 580).

use std::ffi::c_uint;

use gpu::{NvmlError, Reply, Subject};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Ignored, Out, Versioned};
use crate::boards;
use crate::c_handle::Device;
use crate::entry::Call;
use crate::padded::KeyRotation;

fn card(of: Subject<'_>) -> Reply<()> {
    boards::asked(of.whole(NvmlError::NotSupported)?).map(drop).ok_or(NvmlError::NotSupported)
}

/// A machine of which some card could compute confidentially.
fn machine(call: &Call<'_>) -> Reply<()> {
    let can = call.session.machine().gpus().iter().any(|gpu| boards::asked(gpu).is_some());
    if can { Ok(()) } else { Err(NvmlError::NotSupported) }
}

entries! {
    /// The CPU cannot, the GPUs can.
    fn nvmlSystemGetConfComputeCapabilities(call, capabilities: Out<sys::nvmlConfComputeSystemCaps_t>) {
        machine(call)?;
        capabilities.set(sys::nvmlConfComputeSystemCaps_t { cpuCaps: 0, gpusCaps: 1 })
    }

    /// Off, on machines that could not, too: `nvidia-smi conf-compute -f` says so of an A100 (driver 580) and of a
    /// GeForce (595).
    fn nvmlSystemGetConfComputeState(_call, state: Out<sys::nvmlConfComputeSystemState_t>) {
        state.set(sys::nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 })
    }

    fn nvmlSystemGetConfComputeGpusReadyState(call, accepting: Out<c_uint>) {
        machine(call)?;
        accepting.set(0)
    }

    fn nvmlSystemGetConfComputeKeyRotationThresholdInfo(call, info: Versioned) {
        let info = info.must_be::<KeyRotation>(1)?;
        let version = info.get()?.version;
        machine(call)?;
        info.set(KeyRotation { version, _1: 0, attackerAdvantage: 60 })
    }

    fn nvmlDeviceGetConfComputeMemSizeInfo(call, device: Device, info: Out<sys::nvmlConfComputeMemSizeInfo_t>) {
        let unprotectedMemSizeKib = call.ask(device, |of| {
            card(of)?;
            let reserved = of.gpu.reserved_kib(of.machine.driver());
            Ok((u64::from(of.gpu.model.memory_mib) * 1024).saturating_sub(reserved.into()))
        })?;
        info.set(sys::nvmlConfComputeMemSizeInfo_t { protectedMemSizeKib: 0, unprotectedMemSizeKib })
    }

    /// Nobody issues one while it is off.
    fn nvmlDeviceGetConfComputeGpuCertificate(call, device: Device, _certificate: Ignored) {
        call.ask(device, |of| card(of).and(Err(NvmlError::Unknown)))?
    }

    /// Without it there is nothing to protect.
    fn nvmlDeviceGetConfComputeProtectedMemoryUsage(call, device: Device, memory: Out<sys::nvmlMemory_t>) {
        call.ask(device, |of| {
            boards::board(of.whole(NvmlError::NotSupported)?).map(drop).ok_or(NvmlError::NotSupported)
        })?;
        memory.set(sys::nvmlMemory_t { total: 0, free: 0, used: 0 })
    }
}
