//! MIG mode.

use std::ffi::c_uint;

use gpu::{Activation, MigMode, Mode, NvmlError, Reply};
use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_MIG_DISABLE, NVML_DEVICE_MIG_ENABLE, nvmlReturn_enum_NVML_SUCCESS, nvmlReturn_t,
};

use crate::argument::Out;
use crate::c_handle::Device;

const fn number(mode: Mode) -> c_uint {
    match mode {
        Mode::Disabled => NVML_DEVICE_MIG_DISABLE,
        Mode::Enabled => NVML_DEVICE_MIG_ENABLE,
    }
}

const fn mode(number: c_uint) -> Reply<Mode> {
    match number {
        NVML_DEVICE_MIG_DISABLE => Ok(Mode::Disabled),
        NVML_DEVICE_MIG_ENABLE => Ok(Mode::Enabled),
        _ => Err(NvmlError::InvalidArgument),
    }
}

entries! {
    fn nvmlDeviceGetMigMode(call, device: Device, current: Out<c_uint>, pending: Out<c_uint>) {
        let device = call.device(device)?;
        let MigMode { current: now, pending: then } = call.query(|nvml| nvml.mig_mode(device))?;
        current.set(number(now));
        pending.set(number(then))
    }

    /// Success, with the reason in `activation`, even when the mode only becomes pending.
    fn nvmlDeviceSetMigMode(call, device: Device, wanted: c_uint, activation: Out<nvmlReturn_t>) {
        let (device, wanted) = (call.device(device)?, mode(wanted)?);
        activation.set(match call.change(|nvml| nvml.set_mig_mode(device, wanted))? {
            Activation::Success => nvmlReturn_enum_NVML_SUCCESS,
            Activation::InUse => NvmlError::InUse as nvmlReturn_t,
            Activation::ResetRequired => NvmlError::ResetRequired as nvmlReturn_t,
        })
    }
}
