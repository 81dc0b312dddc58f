//! Settings of a card: persistence, compute mode, display, accounting.

use std::ffi::{c_int, c_uint};

use gpu::{Mode, NvmlError, PciClass};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::Out;
use crate::c_handle::Device;

const OFF: c_uint = sys::nvmlEnableState_enum_NVML_FEATURE_DISABLED;
const ON: c_uint = sys::nvmlEnableState_enum_NVML_FEATURE_ENABLED;

entries! {
    fn nvmlDeviceGetPersistenceMode(call, device: Device, mode: Out<sys::nvmlEnableState_t>) {
        mode.set(call.ask(device, |of| {
            of.whole(NvmlError::NotSupported).map(|gpu| if gpu.persistence { ON } else { OFF })
        })?)
    }

    fn nvmlDeviceSetPersistenceMode(call, device: Device, mode: sys::nvmlEnableState_t) {
        let device = call.device(device)?;
        let mode = match mode {
            OFF => Mode::Disabled,
            ON => Mode::Enabled,
            _ => return Err(NvmlError::InvalidArgument),
        };
        call.change(|nvml| nvml.set_persistence_mode(device, mode))?
    }

    /// Nothing changes it here.
    fn nvmlDeviceGetComputeMode(call, device: Device, mode: Out<sys::nvmlComputeMode_t>) {
        call.ask(device, |_| Ok(()))?;
        mode.set(sys::nvmlComputeMode_enum_NVML_COMPUTEMODE_DEFAULT)
    }

    /// Whether a display may be attached: servers' cards say that one is, although they have no connectors
    /// (an A100 and a T4 did); a card with connectors says that none is.
    fn nvmlDeviceGetDisplayMode(call, device: Device, display: Out<sys::nvmlEnableState_t>) {
        display.set(call.ask(device, |of| {
            let gpu = of.whole(NvmlError::NotSupported)?;
            Ok(if gpu.model.pci_class == PciClass::ThreeD { ON } else { OFF })
        })?)
    }

    fn nvmlDeviceGetDisplayActive(call, device: Device, display: Out<sys::nvmlEnableState_t>) {
        call.ask(device, |of| of.whole(NvmlError::NotSupported).map(drop))?;
        display.set(OFF)
    }

    /// Off, as it must be with MIG on.
    fn nvmlDeviceGetAccountingMode(call, device: Device, mode: Out<sys::nvmlEnableState_t>) {
        call.ask(device, |of| of.whole(NvmlError::NotSupported).map(drop))?;
        mode.set(OFF)
    }

    /// Each card is on its own board.
    fn nvmlDeviceOnSameBoard(call, one: Device, other: Device, same: Out<c_int>) {
        let (one, other) = (call.device(one)?, call.device(other)?);
        let index = |nvml: &mut gpu::Nvml<'_>, device| nvml.ask(device, |of| of.whole(NvmlError::InvalidArgument).map(|_| of.index));
        let (one, other) = (call.query(|nvml| index(nvml, one))?, call.query(|nvml| index(nvml, other))?);
        same.set((one == other).into())
    }
}
