//! GPU instances: found, created, described, destroyed.

#![allow(unsafe_code, reason = "calls of NVML's C interface that nvml-wrapper does not have")]

use std::marker::PhantomData;
use std::mem;
use std::os::raw::c_uint;
use std::ptr;

use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
};

use super::device::Gpu;
use super::profile::{GpuProfile, Placement};
use super::{function, text};
use crate::error::{Error, Result, check};

/// Room for the instances of one profile, or as many as the profile says: the
/// header names no answer for a buffer that is too small.
const LEAST_ROOM: usize = 64;

/// A handle of a GPU instance.
#[derive(Debug)]
pub struct GpuInstance<'l> {
    nvml: &'l Nvml,
    handle: nvmlGpuInstance_t,
    /// NVML's handles belong to the thread that works with them: not `Send`.
    of: PhantomData<*const ()>,
}

/// What a GPU instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuInstanceInfo {
    /// Its id on the GPU.
    pub id: u32,
    /// The id of its profile.
    pub profile_id: u32,
    /// Where it is, in memory units.
    pub placement: Placement,
}

impl<'l> Gpu<'l> {
    /// The GPU instances of a profile that are there now.
    ///
    /// # Errors
    /// [`Code::NoPermission`](crate::Code::NoPermission),
    /// [`Code::NotSupported`](crate::Code::NotSupported) while MIG is off.
    pub fn gpu_instances(&self, profile: &GpuProfile) -> Result<Vec<GpuInstance<'l>>> {
        const CALL: &str = "nvmlDeviceGetGpuInstances";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstances)?;
        let room = LEAST_ROOM.max(usize::try_from(profile.max_instances).unwrap_or(LEAST_ROOM));
        let mut handles: Vec<nvmlGpuInstance_t> = vec![ptr::null_mut(); room];
        let mut count: c_uint = 0;
        // SAFETY: the handle is of this library, which is loaded; the buffer holds at least as many
        // entries as there can be instances of the profile, which is what the call requires.
        check(CALL, unsafe { call(self.handle(), profile.id, handles.as_mut_ptr(), &raw mut count) })?;
        handles.truncate(text::within(CALL, count, room)?);
        handles.into_iter().map(|handle| self.instance(CALL, handle)).collect()
    }

    /// A GPU instance, by its id.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound).
    pub fn gpu_instance(&self, id: u32) -> Result<GpuInstance<'l>> {
        const CALL: &str = "nvmlDeviceGetGpuInstanceById";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstanceById)?;
        let mut handle: nvmlGpuInstance_t = ptr::null_mut();
        // SAFETY: the handle is of this library, which is loaded; the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), id, &raw mut handle) })?;
        self.instance(CALL, handle)
    }

    /// Creates a GPU instance where the driver likes it best.
    ///
    /// # Errors
    /// [`Code::InsufficientResources`](crate::Code::InsufficientResources)
    /// without room; [`Code::InUse`](crate::Code::InUse) while somebody
    /// computes on the whole GPU.
    pub fn create_gpu_instance(&self, profile_id: u32) -> Result<GpuInstance<'l>> {
        const CALL: &str = "nvmlDeviceCreateGpuInstance";
        let call = function(CALL, &self.sys().nvmlDeviceCreateGpuInstance)?;
        let mut handle: nvmlGpuInstance_t = ptr::null_mut();
        // SAFETY: the handle is of this library, which is loaded; the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), profile_id, &raw mut handle) })?;
        self.instance(CALL, handle)
    }

    /// Creates a GPU instance at a placement.
    ///
    /// # Errors
    /// As [`create_gpu_instance`](Self::create_gpu_instance);
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) for a placement
    /// that the profile does not have.
    pub fn create_gpu_instance_at(&self, profile_id: u32, at: Placement) -> Result<GpuInstance<'l>> {
        const CALL: &str = "nvmlDeviceCreateGpuInstanceWithPlacement";
        let call = function(CALL, &self.sys().nvmlDeviceCreateGpuInstanceWithPlacement)?;
        let placement = nvmlGpuInstancePlacement_t { start: at.start, size: at.size };
        let mut handle: nvmlGpuInstance_t = ptr::null_mut();
        // SAFETY: the handle is of this library, which is loaded; the placement outlives the call, which
        // only reads it; the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), profile_id, &raw const placement, &raw mut handle) })?;
        self.instance(CALL, handle)
    }

    fn instance(&self, call: &'static str, handle: nvmlGpuInstance_t) -> Result<GpuInstance<'l>> {
        if handle.is_null() {
            return Err(Error::nonsense(call, "an instance without a handle"));
        }
        Ok(GpuInstance { nvml: self.nvml(), handle, of: PhantomData })
    }
}

impl<'l> GpuInstance<'l> {
    /// The call by which one is destroyed, as errors name it.
    pub(crate) const DESTROY: &'static str = "nvmlGpuInstanceDestroy";

    pub(super) fn sys(&self) -> &'l NvmlLib {
        self.nvml.lib()
    }

    pub(super) const fn nvml(&self) -> &'l Nvml {
        self.nvml
    }

    pub(super) const fn handle(&self) -> nvmlGpuInstance_t {
        self.handle
    }

    /// What it is.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) once it is gone.
    pub fn info(&self) -> Result<GpuInstanceInfo> {
        const CALL: &str = "nvmlGpuInstanceGetInfo";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetInfo)?;
        // SAFETY: the struct is numbers and a handle that may be null, for which zeros are a value.
        let mut info: nvmlGpuInstanceInfo_t = unsafe { mem::zeroed() };
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one.
        check(CALL, unsafe { call(self.handle, &raw mut info) })?;
        let placement = Placement { start: info.placement.start, size: info.placement.size };
        Ok(GpuInstanceInfo { id: info.id, profile_id: info.profileId, placement })
    }

    /// Destroys it. Nobody is asked whether a pod has it: whoever calls this
    /// knows.
    ///
    /// # Errors
    /// [`Code::InUse`](crate::Code::InUse) while it has compute instances or a
    /// process has it open. The instance is still there then; get another
    /// handle.
    pub fn destroy(self) -> Result<()> {
        let call = function(Self::DESTROY, &self.sys().nvmlGpuInstanceDestroy)?;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // it is used up here.
        check(Self::DESTROY, unsafe { call(self.handle) })
    }
}
