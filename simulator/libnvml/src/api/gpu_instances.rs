//! GPU instances: profiles in all versions of their struct, placements, what
//! still fits, creation, lists, destruction.

use std::ffi::{c_uint, c_void};

use gpu::{NvmlError, OtherCards, Placement, ProfileFacts, Reply};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{In, Out, OutArray, Versioned, text};
use crate::c_handle::{Device, GpuInstance};
use crate::entry::Call;
use crate::handle::Handle;

type Pointer = *mut c_void;
type InfoV1 = sys::nvmlGpuInstanceProfileInfo_t;
type InfoV2 = crate::padded::ProfileInfoV2;
type InfoV3 = crate::padded::ProfileInfoV3;

/// No capture shows an instance with peer-to-peer.
const NO_P2P: c_uint = 0;

/// What the library calls a profile: as nvidia-smi prints it.
fn name(facts: &ProfileFacts) -> String {
    format!("MIG {}", facts.name)
}

/// The graphics bit of `capabilities`.
fn capabilities(facts: &ProfileFacts) -> c_uint {
    if facts.name.attribute == mig::Attribute::Graphics { sys::NVML_GPU_INSTANCE_PROFILE_CAPS_GFX } else { 0 }
}

/// A profile as one of the structs; what not all of them have comes last.
macro_rules! info {
    ($type:ident, $facts:expr, { $($field:ident: $value:expr),* $(,)? }) => {{
        let facts: &ProfileFacts = $facts;
        $type {
            id: facts.id,
            sliceCount: facts.slices.into(),
            instanceCount: facts.max_instances.into(),
            multiprocessorCount: facts.sm,
            copyEngineCount: facts.engines.copy,
            decoderCount: facts.engines.decoder,
            encoderCount: facts.engines.encoder,
            jpegCount: facts.engines.jpeg,
            ofaCount: facts.engines.ofa,
            memorySizeMB: facts.memory_mib.into(),
            $($field: $value),*
        }
    }};
}

fn v1(facts: &ProfileFacts) -> InfoV1 {
    info!(InfoV1, facts, { isP2pSupported: NO_P2P })
}

/// The driver takes the version out of the struct (580.159.04).
fn v2(facts: &ProfileFacts) -> InfoV2 {
    info!(InfoV2, facts, { version: 0, _1: 0, isP2pSupported: NO_P2P, name: text(&name(facts)) })
}

fn v3(facts: &ProfileFacts, version: c_uint) -> InfoV3 {
    info!(InfoV3, facts, { version: version, _1: 0, name: text(&name(facts)), capabilities: capabilities(facts) })
}

/// Answers in the version that the caller asked for.
fn answer(info: Versioned, facts: impl FnOnce() -> Reply<ProfileFacts>) -> Reply<()> {
    if let Some(info) = info.is::<InfoV2>(2) {
        info.set(v2(&facts()?));
    } else if let Some(info) = info.is::<InfoV3>(3) {
        info.set(v3(&facts()?, info.get()?.version));
    } else {
        return Err(NvmlError::InvalidArgument);
    }
    Ok(())
}

fn by_enum(call: &mut Call<'_>, device: Device, profile: c_uint) -> Reply<ProfileFacts> {
    let device = call.device(device)?;
    if profile >= sys::NVML_GPU_INSTANCE_PROFILE_COUNT {
        return Err(NvmlError::InvalidArgument);
    }
    call.query(|nvml| nvml.gpu_instance_profile_info(device, profile))
}

fn by_id(call: &mut Call<'_>, device: Device, id: c_uint) -> Reply<ProfileFacts> {
    let known = call.ask(device, |of| {
        let mig = of.whole(NvmlError::InvalidArgument)?.mig().ok_or(NvmlError::NotSupported)?;
        let known = mig.by_id(id).map(|facts| facts.nvml_enum);
        known.ok_or(match of.machine.driver().profile_of_other_cards(id) {
            Some(OtherCards::Unsupported) => NvmlError::NotFound,
            Some(OtherCards::WithoutPlacements) | None => NvmlError::InvalidArgument,
        })
    })?;
    by_enum(call, device, known)
}

fn placement(at: sys::nvmlGpuInstancePlacement_t) -> Reply<Placement> {
    let small = |n: c_uint| u8::try_from(n).map_err(|_| NvmlError::InvalidArgument);
    Ok(Placement { start: small(at.start)?, size: small(at.size)? })
}

entries! {
    fn nvmlDeviceGetGpuInstanceProfileInfo(call, device: Device, profile: c_uint, info: Out<InfoV1>) {
        info.set(v1(&by_enum(call, device, profile)?))
    }

    fn nvmlDeviceGetGpuInstanceProfileInfoV(call, device: Device, profile: c_uint, info: Versioned) {
        answer(info, || by_enum(call, device, profile))?
    }

    fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(call, device: Device, id: c_uint, info: Versioned) {
        answer(info, || by_id(call, device, id))?
    }

    /// Whatever is there now. A null array asks for the count. The header reserves it to privileged users;
    /// drivers answer everybody (evidence id 25510043945).
    fn nvmlDeviceGetGpuInstancePossiblePlacements | nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        call, device: Device, id: c_uint, placements: OutArray<sys::nvmlGpuInstancePlacement_t>, count: Out<c_uint>
    ) {
        let device = call.device(device)?;
        let all = call.query(|nvml| nvml.gpu_instance_possible_placements(device, id))?;
        let c = |p: &Placement| sys::nvmlGpuInstancePlacement_t { start: p.start.into(), size: p.size.into() };
        let all: Vec<_> = all.iter().map(c).collect();
        placements.fill(&all);
        count.set(all.len() as c_uint)
    }

    /// To everybody, like the placements.
    fn nvmlDeviceGetGpuInstanceRemainingCapacity(call, device: Device, id: c_uint, count: Out<c_uint>) {
        let device = call.device(device)?;
        count.set(call.query(|nvml| nvml.gpu_instance_remaining_capacity(device, id))?)
    }

    fn nvmlDeviceCreateGpuInstance(call, device: Device, id: c_uint, instance: Out<Pointer>) {
        let device = call.device(device)?;
        let created = call.change(|nvml| nvml.create_gpu_instance(device, id))?;
        instance.set(call.give(Handle::GpuInstance(created)))
    }

    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        call, device: Device, id: c_uint, at: In<sys::nvmlGpuInstancePlacement_t>, instance: Out<Pointer>
    ) {
        let (device, at) = (call.device(device)?, placement(at.get()?)?);
        let created = call.change(|nvml| nvml.create_gpu_instance_with_placement(device, id, at))?;
        instance.set(call.give(Handle::GpuInstance(created)))
    }

    fn nvmlGpuInstanceDestroy(call, instance: GpuInstance) {
        let instance = instance.find(call.handles)?;
        call.change(|nvml| nvml.destroy_gpu_instance(instance))?
    }

    /// The array must be long enough for all that the profile allows.
    fn nvmlDeviceGetGpuInstances(call, device: Device, id: c_uint, instances: OutArray<Pointer>, count: Out<c_uint>) {
        let device = call.device(device)?;
        if instances.is_null() {
            return Err(NvmlError::InvalidArgument);
        }
        call.privileged()?;
        let all = call.query(|nvml| nvml.gpu_instances(device, id))?;
        let all: Vec<_> = all.into_iter().map(|i| call.give(Handle::GpuInstance(i))).collect();
        instances.fill(&all);
        count.set(all.len() as c_uint)
    }

    fn nvmlDeviceGetGpuInstanceById(call, device: Device, id: c_uint, instance: Out<Pointer>) {
        let device = call.device(device)?;
        call.privileged()?;
        // An id that no instance can have is not found, like one that none has.
        let id = u8::try_from(id).unwrap_or(u8::MAX);
        let found = call.query(|nvml| nvml.gpu_instance_by_id(device, id))?;
        instance.set(call.give(Handle::GpuInstance(found)))
    }

    fn nvmlGpuInstanceGetInfo(call, instance: GpuInstance, info: Out<sys::nvmlGpuInstanceInfo_t>) {
        let instance = instance.find(call.handles)?;
        let has = call.query(|nvml| nvml.gpu_instance_info(instance))?;
        let device = call.query(|nvml| nvml.device_handle_by_index(instance.gpu()))?;
        info.set(sys::nvmlGpuInstanceInfo_t {
            device: call.give(Handle::Device(device)).cast(),
            id: has.id.into(),
            profileId: has.profile_id,
            placement: sys::nvmlGpuInstancePlacement_t {
                start: has.placement.start.into(),
                size: has.placement.size.into(),
            },
        })
    }
}
