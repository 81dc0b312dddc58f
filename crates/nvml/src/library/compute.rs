//! Compute instances, which live inside of GPU instances and are what a
//! process opens.

#![allow(unsafe_code, reason = "calls of NVML's C interface that nvml-wrapper does not have")]

use std::marker::PhantomData;
use std::mem;
use std::os::raw::c_uint;
use std::ptr;

use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t,
    nvmlComputeInstanceProfileInfo_t, nvmlComputeInstanceProfileInfo_v2_t,
    nvmlComputeInstanceProfileInfo_v3_t,
};

use super::engines::Engines;
use super::instance::GpuInstance;
use super::profile::{Placement, named, newest_of, version};
use super::{function, text};
use crate::code::Code;
use crate::error::{Error, Result, check};

/// As for GPU instance profiles: numbers are tried until there are no more.
const MOST_PROFILES: u32 = 64;

/// Room for one list.
const ROOM: usize = 64;

/// `NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED`, the only kind there is.
const SHARED: c_uint = 0;

/// A compute instance profile inside of one GPU instance. Several may have one
/// name: they are told apart by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeProfile {
    /// Its number in NVML's enumeration (`NVML_COMPUTE_INSTANCE_PROFILE_*`).
    pub number: u32,
    /// Its id, which nvidia-smi shows and every other call takes.
    pub id: u32,
    /// Its name, where the driver gives one.
    pub name: Option<String>,
    /// Compute slices.
    pub slices: u32,
    /// How many at most in one GPU instance.
    pub max_instances: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The engines of the GPU instance, which its compute instances share.
    pub shared_engines: Engines,
    /// Whether instances do graphics, where the driver says so.
    pub graphics: Option<bool>,
}

/// A handle of a compute instance.
#[derive(Debug)]
pub struct ComputeInstance<'l> {
    nvml: &'l Nvml,
    handle: nvmlComputeInstance_t,
    /// NVML's handles belong to the thread that works with them: not `Send`.
    of: PhantomData<*const ()>,
}

/// What a compute instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeInstanceInfo {
    /// Its id in the GPU instance.
    pub id: u32,
    /// The id of its profile.
    pub profile_id: u32,
    /// Where it is, in compute slices of the GPU instance.
    pub placement: Placement,
}

impl<'l> GpuInstance<'l> {
    /// The compute instance profiles that this GPU instance has.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for the number 0 means that the instance is
    /// gone.
    pub fn compute_profiles(&self) -> Result<Vec<ComputeProfile>> {
        let mut profiles = Vec::new();
        for number in 0..MOST_PROFILES {
            match self.compute_profile(number) {
                Ok(profile) => profiles.push(profile),
                Err(error) => match error.code() {
                    Some(Code::NotSupported) => {}
                    Some(Code::InvalidArgument) if number > 0 => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(profiles)
    }

    /// A compute instance profile, by its number in NVML's enumeration. The
    /// newest struct that the driver understands is used.
    ///
    /// # Errors
    /// [`Code::NotSupported`] if this GPU instance has no such profile,
    /// [`Code::InvalidArgument`] past the last number.
    pub fn compute_profile(&self, number: u32) -> Result<ComputeProfile> {
        newest_of([&|| self.compute_v3(number), &|| self.compute_v2(number), &|| self.compute_v1(number)])
    }

    fn compute_v3(&self, number: u32) -> Result<ComputeProfile> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstanceProfileInfoV";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstanceProfileInfoV)?;
        // SAFETY: the struct is plain numbers and characters, for which zeros are a value.
        let mut info: nvmlComputeInstanceProfileInfo_v3_t = unsafe { mem::zeroed() };
        info.version = version::<nvmlComputeInstanceProfileInfo_v3_t>(3);
        let of_any_version: *mut nvmlComputeInstanceProfileInfo_v2_t = (&raw mut info).cast();
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the library writes as much as the version in the struct says, which is the size of the struct.
        check(CALL, unsafe { call(self.handle(), number, SHARED, of_any_version) })?;
        Ok(ComputeProfile {
            number,
            id: info.id,
            name: named(text::read_text(CALL, &info.name)?),
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            shared_engines: Engines {
                copy: info.sharedCopyEngineCount,
                decoder: info.sharedDecoderCount,
                encoder: info.sharedEncoderCount,
                jpeg: info.sharedJpegCount,
                ofa: info.sharedOfaCount,
            },
            graphics: Some(
                info.capabilities & nvml_wrapper_sys::bindings::NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX != 0,
            ),
        })
    }

    fn compute_v2(&self, number: u32) -> Result<ComputeProfile> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstanceProfileInfoV";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstanceProfileInfoV)?;
        // SAFETY: the struct is plain numbers and characters, for which zeros are a value.
        let mut info: nvmlComputeInstanceProfileInfo_v2_t = unsafe { mem::zeroed() };
        info.version = version::<nvmlComputeInstanceProfileInfo_v2_t>(2);
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the struct is of the version that it names.
        check(CALL, unsafe { call(self.handle(), number, SHARED, &raw mut info) })?;
        Ok(ComputeProfile {
            number,
            id: info.id,
            name: named(text::read_text(CALL, &info.name)?),
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            shared_engines: Engines {
                copy: info.sharedCopyEngineCount,
                decoder: info.sharedDecoderCount,
                encoder: info.sharedEncoderCount,
                jpeg: info.sharedJpegCount,
                ofa: info.sharedOfaCount,
            },
            graphics: None,
        })
    }

    fn compute_v1(&self, number: u32) -> Result<ComputeProfile> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstanceProfileInfo)?;
        // SAFETY: the struct is plain numbers, for which zeros are a value.
        let mut info: nvmlComputeInstanceProfileInfo_t = unsafe { mem::zeroed() };
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // this struct has one version only.
        check(CALL, unsafe { call(self.handle(), number, SHARED, &raw mut info) })?;
        Ok(ComputeProfile {
            number,
            id: info.id,
            name: None,
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            shared_engines: Engines {
                copy: info.sharedCopyEngineCount,
                decoder: info.sharedDecoderCount,
                encoder: info.sharedEncoderCount,
                jpeg: info.sharedJpegCount,
                ofa: info.sharedOfaCount,
            },
            graphics: None,
        })
    }

    /// Where compute instances of a profile may be, whatever is there now.
    /// Drivers that lack the call answer [`Error::NoFunction`]; an A100
    /// answers with nothing.
    ///
    /// # Errors
    /// The library's.
    pub fn compute_possible_placements(&self, profile_id: u32) -> Result<Vec<Placement>> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstancePossiblePlacements";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstancePossiblePlacements)?;
        let mut count: c_uint = 0;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // without a buffer the call only counts.
        check(CALL, unsafe { call(self.handle(), profile_id, ptr::null_mut(), &raw mut count) })?;
        let room = text::within(CALL, count, ROOM)?;
        let mut placements = vec![nvmlComputeInstancePlacement_t { start: 0, size: 0 }; room];
        if room > 0 {
            // SAFETY: as above; the buffer has as many entries as the count says.
            check(CALL, unsafe { call(self.handle(), profile_id, placements.as_mut_ptr(), &raw mut count) })?;
        }
        placements.truncate(text::within(CALL, count, room)?);
        Ok(placements.iter().map(|p| Placement { start: p.start, size: p.size }).collect())
    }

    /// How many more compute instances of a profile fit now.
    ///
    /// # Errors
    /// The library's.
    pub fn compute_remaining_capacity(&self, profile_id: u32) -> Result<u32> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstanceRemainingCapacity";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstanceRemainingCapacity)?;
        let mut count: c_uint = 0;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the count is ours.
        check(CALL, unsafe { call(self.handle(), profile_id, &raw mut count) })?;
        Ok(count)
    }

    /// The compute instances of a profile that are there now.
    ///
    /// # Errors
    /// The library's.
    pub fn compute_instances(&self, profile_id: u32) -> Result<Vec<ComputeInstance<'l>>> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstances";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstances)?;
        let mut handles: Vec<nvmlComputeInstance_t> = vec![ptr::null_mut(); ROOM];
        let mut count: c_uint = 0;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // a GPU instance has far fewer compute instances than the buffer holds.
        check(CALL, unsafe { call(self.handle(), profile_id, handles.as_mut_ptr(), &raw mut count) })?;
        handles.truncate(text::within(CALL, count, ROOM)?);
        handles.into_iter().map(|handle| self.compute(CALL, handle)).collect()
    }

    /// A compute instance, by its id.
    ///
    /// # Errors
    /// [`Code::NotFound`].
    pub fn compute_instance(&self, id: u32) -> Result<ComputeInstance<'l>> {
        const CALL: &str = "nvmlGpuInstanceGetComputeInstanceById";
        let call = function(CALL, &self.sys().nvmlGpuInstanceGetComputeInstanceById)?;
        let mut handle: nvmlComputeInstance_t = ptr::null_mut();
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), id, &raw mut handle) })?;
        self.compute(CALL, handle)
    }

    /// Creates a compute instance where the driver likes it best.
    ///
    /// # Errors
    /// [`Code::InsufficientResources`] without room, [`Code::NotSupported`]
    /// for a profile that this GPU instance does not have.
    pub fn create_compute_instance(&self, profile_id: u32) -> Result<ComputeInstance<'l>> {
        const CALL: &str = "nvmlGpuInstanceCreateComputeInstance";
        let call = function(CALL, &self.sys().nvmlGpuInstanceCreateComputeInstance)?;
        let mut handle: nvmlComputeInstance_t = ptr::null_mut();
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), profile_id, &raw mut handle) })?;
        self.compute(CALL, handle)
    }

    /// Creates a compute instance at a placement.
    ///
    /// # Errors
    /// As [`create_compute_instance`](Self::create_compute_instance).
    pub fn create_compute_instance_at(&self, profile_id: u32, at: Placement) -> Result<ComputeInstance<'l>> {
        const CALL: &str = "nvmlGpuInstanceCreateComputeInstanceWithPlacement";
        let call = function(CALL, &self.sys().nvmlGpuInstanceCreateComputeInstanceWithPlacement)?;
        let placement = nvmlComputeInstancePlacement_t { start: at.start, size: at.size };
        let mut handle: nvmlComputeInstance_t = ptr::null_mut();
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // the placement outlives the call, which only reads it; the place for the answer is ours.
        check(CALL, unsafe { call(self.handle(), profile_id, &raw const placement, &raw mut handle) })?;
        self.compute(CALL, handle)
    }

    fn compute(&self, call: &'static str, handle: nvmlComputeInstance_t) -> Result<ComputeInstance<'l>> {
        if handle.is_null() {
            return Err(Error::nonsense(call, "an instance without a handle"));
        }
        Ok(ComputeInstance { nvml: self.nvml(), handle, of: PhantomData })
    }
}

impl ComputeInstance<'_> {
    /// What it is.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] once it is gone.
    pub fn info(&self) -> Result<ComputeInstanceInfo> {
        const CALL: &str = "nvmlComputeInstanceGetInfo_v2";
        let call = function(CALL, &self.nvml.lib().nvmlComputeInstanceGetInfo_v2)?;
        // SAFETY: the struct is numbers and handles that may be null, for which zeros are a value.
        let mut info: nvmlComputeInstanceInfo_t = unsafe { mem::zeroed() };
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one.
        check(CALL, unsafe { call(self.handle, &raw mut info) })?;
        let placement = Placement { start: info.placement.start, size: info.placement.size };
        Ok(ComputeInstanceInfo { id: info.id, profile_id: info.profileId, placement })
    }

    /// Destroys it.
    ///
    /// # Errors
    /// [`Code::InUse`] while a process has it open. It is still there then;
    /// get another handle.
    pub fn destroy(self) -> Result<()> {
        const CALL: &str = "nvmlComputeInstanceDestroy";
        let call = function(CALL, &self.nvml.lib().nvmlComputeInstanceDestroy)?;
        // SAFETY: the handle came from this library, which is loaded and checks whether it still is one;
        // it is used up here.
        check(CALL, unsafe { call(self.handle) })
    }
}
