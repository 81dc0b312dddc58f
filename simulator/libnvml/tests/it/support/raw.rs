//! The C interface with a minimal wrapper: codes stay codes.

use std::ffi::{CStr, CString, c_uint};
use std::mem::zeroed;
use std::ptr::null_mut;

use nvml_wrapper_sys::bindings::*;

use super::Sim;

/// What a call answers when it fails.
pub(crate) type Code = u32;

pub(crate) const INVALID: Code = nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
pub(crate) const NOT_SUPPORTED: Code = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;
pub(crate) const NO_PERMISSION: Code = nvmlReturn_enum_NVML_ERROR_NO_PERMISSION;
pub(crate) const NOT_FOUND: Code = nvmlReturn_enum_NVML_ERROR_NOT_FOUND;
pub(crate) const TOO_SMALL: Code = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE;
pub(crate) const UNINITIALIZED: Code = nvmlReturn_enum_NVML_ERROR_UNINITIALIZED;
pub(crate) const IN_USE: Code = nvmlReturn_enum_NVML_ERROR_IN_USE;
pub(crate) const NO_ROOM: Code = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES;
pub(crate) const TIMEOUT: Code = nvmlReturn_enum_NVML_ERROR_TIMEOUT;

/// The struct version that the header makes of a type and a number.
pub(crate) const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

/// The text in one of C's arrays.
pub(crate) fn text(array: &[std::ffi::c_char]) -> String {
    // SAFETY: an array of bytes is one, whatever its sign.
    let bytes = unsafe { std::slice::from_raw_parts(array.as_ptr().cast::<u8>(), array.len()) };
    CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap().to_owned()
}

/// A call that has one answer.
pub(crate) fn ask<T>(call: impl FnOnce(&mut T) -> Code) -> Result<T, Code> {
    // SAFETY: only types of C's are asked for, of which zeros are a value.
    let mut answer: T = unsafe { zeroed() };
    match call(&mut answer) {
        0 => Ok(answer),
        code => Err(code),
    }
}

/// A call without an answer.
pub(crate) fn done(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}

#[allow(clippy::undocumented_unsafe_blocks, reason = "all of them hand over what the header asks for")]
impl Sim {
    pub(crate) fn init(&self) -> Result<(), Code> {
        done(unsafe { self.lib.nvmlInit_v2() })
    }

    pub(crate) fn shutdown(&self) -> Result<(), Code> {
        done(unsafe { self.lib.nvmlShutdown() })
    }

    pub(crate) fn gpu(&self, index: u32) -> Result<nvmlDevice_t, Code> {
        ask(|device| unsafe { self.lib.nvmlDeviceGetHandleByIndex_v2(index, device) })
    }

    pub(crate) fn by_uuid(&self, uuid: &str) -> Result<nvmlDevice_t, Code> {
        let uuid = CString::new(uuid).unwrap();
        ask(|device| unsafe { self.lib.nvmlDeviceGetHandleByUUID(uuid.as_ptr(), device) })
    }

    pub(crate) fn name(&self, device: nvmlDevice_t) -> Result<String, Code> {
        let mut buffer = [0; NVML_DEVICE_NAME_V2_BUFFER_SIZE as usize];
        let length = buffer.len() as u32;
        done(unsafe { self.lib.nvmlDeviceGetName(device, buffer.as_mut_ptr(), length) })?;
        Ok(text(&buffer))
    }

    pub(crate) fn uuid(&self, device: nvmlDevice_t) -> Result<String, Code> {
        let mut buffer = [0; NVML_DEVICE_UUID_V2_BUFFER_SIZE as usize];
        let length = buffer.len() as u32;
        done(unsafe { self.lib.nvmlDeviceGetUUID(device, buffer.as_mut_ptr(), length) })?;
        Ok(text(&buffer))
    }

    pub(crate) fn mode(&self, device: nvmlDevice_t) -> Result<(u32, u32), Code> {
        let mut pending = 0;
        let current = ask(|current| unsafe { self.lib.nvmlDeviceGetMigMode(device, current, &mut pending) })?;
        Ok((current, pending))
    }

    /// What the activation says.
    pub(crate) fn set_mode(&self, device: nvmlDevice_t, mode: u32) -> Result<Code, Code> {
        ask(|activation| unsafe { self.lib.nvmlDeviceSetMigMode(device, mode, activation) })
    }

    pub(crate) fn create(&self, device: nvmlDevice_t, profile: u32) -> Result<nvmlGpuInstance_t, Code> {
        ask(|gi| unsafe { self.lib.nvmlDeviceCreateGpuInstance(device, profile, gi) })
    }

    pub(crate) fn create_at(
        &self,
        device: nvmlDevice_t,
        profile: u32,
        start: u32,
        size: u32,
    ) -> Result<nvmlGpuInstance_t, Code> {
        let at = nvmlGpuInstancePlacement_t { start, size };
        ask(|gi| unsafe { self.lib.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, &at, gi) })
    }

    pub(crate) fn destroy(&self, gi: nvmlGpuInstance_t) -> Result<(), Code> {
        done(unsafe { self.lib.nvmlGpuInstanceDestroy(gi) })
    }

    pub(crate) fn info(&self, gi: nvmlGpuInstance_t) -> Result<nvmlGpuInstanceInfo_t, Code> {
        ask(|info| unsafe { self.lib.nvmlGpuInstanceGetInfo(gi, info) })
    }

    pub(crate) fn compute(&self, gi: nvmlGpuInstance_t, profile: u32) -> Result<nvmlComputeInstance_t, Code> {
        ask(|ci| unsafe { self.lib.nvmlGpuInstanceCreateComputeInstance(gi, profile, ci) })
    }

    pub(crate) fn destroy_compute(&self, ci: nvmlComputeInstance_t) -> Result<(), Code> {
        done(unsafe { self.lib.nvmlComputeInstanceDestroy(ci) })
    }

    pub(crate) fn mig(&self, device: nvmlDevice_t, index: u32) -> Result<nvmlDevice_t, Code> {
        ask(|mig| unsafe { self.lib.nvmlDeviceGetMigDeviceHandleByIndex(device, index, mig) })
    }

    /// The ids of the instances of a profile.
    pub(crate) fn instances(&self, device: nvmlDevice_t, profile: u32) -> Result<Vec<u32>, Code> {
        let mut all = [null_mut(); 8];
        let count: c_uint =
            ask(|n| unsafe { self.lib.nvmlDeviceGetGpuInstances(device, profile, all.as_mut_ptr(), n) })?;
        all[..count as usize].iter().map(|gi| self.info(*gi).map(|info| info.id)).collect()
    }
}
