//! Compute instances, inside a GPU instance: profiles in all versions of their
//! struct, placements, what still fits, creation, lists, destruction.

use std::ffi::{c_uint, c_void};

use gpu::{ComputeProfile, Engines, InstanceHandle, NvmlError, Placement, Reply};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{In, Out, OutArray, Versioned, text};
use crate::c_handle::{ComputeInstance, GpuInstance};
use crate::entry::Call;
use crate::first_versions::ComputeInstanceInfoV1;
use crate::handle::Handle;

type Pointer = *mut c_void;
type InfoV1 = sys::nvmlComputeInstanceProfileInfo_t;
type InfoV2 = sys::nvmlComputeInstanceProfileInfo_v2_t;
type InfoV3 = sys::nvmlComputeInstanceProfileInfo_v3_t;

/// A profile, and the engines of the GPU instance, which all compute instances
/// in it share. Multiprocessors that no source tells of are 0.
struct Facts {
    profile: ComputeProfile,
    free: u32,
    engines: Engines,
}

/// A profile as one of the structs; what not all of them have comes last.
macro_rules! info {
    ($type:ident, $facts:expr, { $($field:ident: $value:expr),* $(,)? }) => {{
        let Facts { profile, engines, free: _ } = $facts;
        $type {
            id: profile.id,
            sliceCount: profile.slices.into(),
            instanceCount: profile.max_instances.into(),
            multiprocessorCount: profile.sm.unwrap_or(0),
            sharedCopyEngineCount: engines.copy,
            sharedDecoderCount: engines.decoder,
            sharedEncoderCount: engines.encoder,
            sharedJpegCount: engines.jpeg,
            sharedOfaCount: engines.ofa,
            $($field: $value),*
        }
    }};
}

fn name(facts: &Facts) -> String {
    format!("MIG {}", facts.profile.name)
}

fn v1(facts: &Facts) -> InfoV1 {
    info!(InfoV1, facts, {})
}

fn v2(facts: &Facts, version: c_uint) -> InfoV2 {
    info!(InfoV2, facts, { version: version, name: text(&name(facts)) })
}

fn v3(facts: &Facts, version: c_uint) -> InfoV3 {
    info!(InfoV3, facts, { version: version, name: text(&name(facts)), capabilities: 0 })
}

/// The profiles inside a GPU instance. Their ids are the header's enums.
fn facts(call: &mut Call<'_>, parent: InstanceHandle) -> Reply<Vec<Facts>> {
    let profiles = call.query(|nvml| nvml.compute_instance_profiles(parent))?;
    let info = call.query(|nvml| nvml.gpu_instance_info(parent))?;
    let gpu = call.session.machine().gpu(parent.gpu()).and_then(|gpu| gpu.mig());
    let engines = gpu.and_then(|mig| mig.by_id(info.profile_id)).ok_or(NvmlError::Unknown)?.engines;
    Ok(profiles.into_iter().map(|(profile, free)| Facts { profile, free, engines }).collect())
}

fn with_id(call: &mut Call<'_>, parent: InstanceHandle, id: c_uint) -> Reply<Facts> {
    let found = facts(call, parent)?.into_iter().find(|facts| facts.profile.id == id);
    found.ok_or(NvmlError::NotSupported)
}

/// The checks of what the header calls `profile` and `engProfile`.
fn by_enum(call: &mut Call<'_>, parent: InstanceHandle, profile: c_uint, engines: c_uint) -> Reply<Facts> {
    if profile >= sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT
        || engines >= sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT
    {
        return Err(NvmlError::InvalidArgument);
    }
    with_id(call, parent, profile)
}

fn placement(at: sys::nvmlComputeInstancePlacement_t) -> Reply<Placement> {
    let small = |n: c_uint| u8::try_from(n).map_err(|_| NvmlError::InvalidArgument);
    Ok(Placement { start: small(at.start)?, size: small(at.size)? })
}

/// Everything that the last version of the struct has.
fn info_of(call: &mut Call<'_>, instance: ComputeInstance) -> Reply<sys::nvmlComputeInstanceInfo_t> {
    let instance = instance.find(call.handles)?;
    let has = call.query(|nvml| nvml.compute_instance_info(instance))?;
    let parent = instance.parent();
    let device = call.query(|nvml| nvml.device_handle_by_index(parent.gpu()))?;
    Ok(sys::nvmlComputeInstanceInfo_t {
        device: call.give(Handle::Device(device)).cast(),
        gpuInstance: call.give(Handle::GpuInstance(parent)).cast(),
        id: has.id.into(),
        profileId: has.profile_id,
        placement: sys::nvmlComputeInstancePlacement_t {
            start: has.placement.start.into(),
            size: has.placement.size.into(),
        },
    })
}

entries! {
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        call, parent: GpuInstance, profile: c_uint, engines: c_uint, info: Out<InfoV1>
    ) {
        let parent = parent.find(call.handles)?;
        info.set(v1(&by_enum(call, parent, profile, engines)?))
    }

    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        call, parent: GpuInstance, profile: c_uint, engines: c_uint, info: Versioned
    ) {
        let parent = parent.find(call.handles)?;
        if let Some(info) = info.is::<InfoV2>(2) {
            info.set(v2(&by_enum(call, parent, profile, engines)?, info.get()?.version));
        } else if let Some(info) = info.is::<InfoV3>(3) {
            info.set(v3(&by_enum(call, parent, profile, engines)?, info.get()?.version));
        } else {
            return Err(NvmlError::InvalidArgument);
        }
    }

    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(call, parent: GpuInstance, id: c_uint, count: Out<c_uint>) {
        let parent = parent.find(call.handles)?;
        call.privileged()?;
        count.set(with_id(call, parent, id)?.free)
    }

    /// Whatever is there now. A null array asks for the count.
    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        call, parent: GpuInstance, id: c_uint, placements: OutArray<sys::nvmlComputeInstancePlacement_t>, count: Out<c_uint>
    ) {
        let parent = parent.find(call.handles)?;
        call.privileged()?;
        let profile = with_id(call, parent, id)?.profile;
        let size = profile.slices.into();
        let c = |start: &u8| sys::nvmlComputeInstancePlacement_t { start: (*start).into(), size };
        let all: Vec<_> = profile.starts.iter().map(c).collect();
        placements.fill(&all);
        count.set(all.len() as c_uint)
    }

    fn nvmlGpuInstanceCreateComputeInstance(call, parent: GpuInstance, id: c_uint, instance: Out<Pointer>) {
        let parent = parent.find(call.handles)?;
        let created = call.change(|nvml| nvml.create_compute_instance(parent, id))?;
        instance.set(call.give(Handle::ComputeInstance(created)))
    }

    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        call, parent: GpuInstance, id: c_uint, at: In<sys::nvmlComputeInstancePlacement_t>, instance: Out<Pointer>
    ) {
        let (parent, at) = (parent.find(call.handles)?, placement(at.get()?)?);
        let created = call.change(|nvml| nvml.create_compute_instance_with_placement(parent, id, at))?;
        instance.set(call.give(Handle::ComputeInstance(created)))
    }

    fn nvmlComputeInstanceDestroy(call, instance: ComputeInstance) {
        let instance = instance.find(call.handles)?;
        call.change(|nvml| nvml.destroy_compute_instance(instance))?
    }

    /// The array must be long enough for all that the profile allows.
    fn nvmlGpuInstanceGetComputeInstances(
        call, parent: GpuInstance, id: c_uint, instances: OutArray<Pointer>, count: Out<c_uint>
    ) {
        let parent = parent.find(call.handles)?;
        if instances.is_null() {
            return Err(NvmlError::InvalidArgument);
        }
        call.privileged()?;
        with_id(call, parent, id)?;
        let mut all = Vec::new();
        for handle in call.query(|nvml| nvml.compute_instances(parent))? {
            if call.query(|nvml| nvml.compute_instance_info(handle))?.profile_id == id {
                all.push(call.give(Handle::ComputeInstance(handle)));
            }
        }
        instances.fill(&all);
        count.set(all.len() as c_uint)
    }

    fn nvmlGpuInstanceGetComputeInstanceById(call, parent: GpuInstance, id: c_uint, instance: Out<Pointer>) {
        let parent = parent.find(call.handles)?;
        call.privileged()?;
        // An id that no instance can have is not found, like one that none has.
        let id = u8::try_from(id).unwrap_or(u8::MAX);
        let found = call.query(|nvml| nvml.compute_instance_by_id(parent, id))?;
        instance.set(call.give(Handle::ComputeInstance(found)))
    }

    fn nvmlComputeInstanceGetInfo(call, instance: ComputeInstance, info: Out<ComputeInstanceInfoV1>) {
        let all = info_of(call, instance)?;
        info.set(ComputeInstanceInfoV1 {
            device: all.device,
            gpu_instance: all.gpuInstance,
            id: all.id,
            profile_id: all.profileId,
        })
    }

    fn nvmlComputeInstanceGetInfo_v2(call, instance: ComputeInstance, info: Out<sys::nvmlComputeInstanceInfo_t>) {
        info.set(info_of(call, instance)?)
    }
}
