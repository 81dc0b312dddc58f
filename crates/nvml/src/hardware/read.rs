//! Reads the GPUs of the machine, their possible profiles and their present slices.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::error::{Error, Result};
use crate::library::{
    ComputeProfile, Gpu as GpuHandle, GpuInstance, GpuProfile, Library, Mode, Placement, profile_name,
};
use crate::port::{Device, Found, Gpu, GpuUuid, Layout, Process, Profile, Silent, Slice, Span};

const MIB: u64 = 1024 * 1024;

/// All GPUs; those that do not answer apart.
pub(super) fn enumerate(library: &Library) -> Result<Found> {
    let (mut gpus, mut silent) = (Vec::new(), Vec::new());
    for index in 0..library.gpu_count()? {
        match library.gpu(index).and_then(|handle| describe(index, &handle)) {
            Ok(gpu) => gpus.push(gpu),
            Err(error) => silent.push(Silent { index, error }),
        }
    }
    Ok(Found { driver: library.driver_version()?, gpus, silent })
}

fn describe(index: u32, handle: &GpuHandle<'_>) -> Result<Gpu> {
    let mode = match handle.mig_mode() {
        Ok(mode) => Some(mode),
        // Without MIG, or with a driver that has never heard of it.
        Err(Error::NoFunction { .. }) => None,
        Err(error) if matches!(error.code(), Some(Code::NotSupported | Code::FunctionNotFound)) => None,
        Err(error) => return Err(error),
    };
    Ok(Gpu {
        index,
        uuid: GpuUuid(handle.uuid()?),
        name: handle.name()?,
        bus_id: handle.bus_id()?,
        memory_mib: handle.memory()?.total / MIB,
        mode,
    })
}

/// A profile as the driver describes it, and as the port does.
pub(super) struct Offered {
    /// In the library's words.
    pub(super) described: GpuProfile,
    /// In ours, with its places.
    pub(super) profile: Profile,
    /// Why its places are not known, where they are not: only the privileged
    /// may ask for them.
    pub(super) withheld: Option<Error>,
}

/// The profiles, with their places.
pub(super) fn profiles(handle: &GpuHandle<'_>) -> Result<Vec<Offered>> {
    let total = handle.memory()?.total / MIB;
    handle.profiles()?.into_iter().map(|profile| offered(handle, profile, total)).collect()
}

fn offered(handle: &GpuHandle<'_>, described: GpuProfile, total_mib: u64) -> Result<Offered> {
    let (placements, withheld) = match handle.possible_placements(described.id) {
        Ok(placements) => (placements, None),
        Err(error) if error.code() == Some(Code::NoPermission) => (Vec::new(), Some(error)),
        Err(error) => return Err(error),
    };
    let mut places = placements.into_iter().map(span_of).collect::<Result<Vec<_>>>()?;
    places.sort_unstable();
    let GpuProfile { number, id, slices, max_instances, multiprocessors, engines, memory_mib, .. } =
        described;
    let name = described.name.clone();
    let name = name.unwrap_or_else(|| profile_name(number, slices, memory_mib, total_mib));
    let slices = small(slices)?;
    let profile =
        Profile { name, id, number, slices, max_instances, multiprocessors, memory_mib, engines, places };
    Ok(Offered { described, profile, withheld })
}

fn span_of(placement: Placement) -> Result<Span> {
    Ok(Span { start: small(placement.start)?, size: small(placement.size)? })
}

/// A small number: slices and units are counted in `u8` everywhere else.
fn small(number: u32) -> Result<u8> {
    let call = "nvmlDeviceGetGpuInstanceProfileInfo";
    u8::try_from(number).map_err(|_| Error::nonsense(call, format!("{number} slices or units")))
}

/// What the GPU is cut into. Only the privileged may list instances; others
/// get what programs see, without places.
pub(super) fn layout(library: &Library, handle: &GpuHandle<'_>) -> Result<Layout> {
    let on = match handle.mig_mode() {
        Ok(mode) => mode.current == Mode::Enabled,
        Err(Error::NoFunction { .. }) => false,
        Err(error) if error.code() == Some(Code::NotSupported) => false,
        Err(error) => return Err(error),
    };
    let processes = processes(library, handle);
    if !on {
        return Ok(Layout { slices: Vec::new(), processes });
    }
    let mut slices = match slices(handle) {
        Err(error) if error.code() == Some(Code::NoPermission) => slices_as_seen(handle)?,
        slices => slices?,
    };
    slices.sort_by_key(|slice| (slice.span, slice.gpu_instance));
    Ok(Layout { slices, processes })
}

fn slices(handle: &GpuHandle<'_>) -> Result<Vec<Slice>> {
    let mut devices = devices(handle)?;
    let mut slices = Vec::new();
    for Offered { described, profile, withheld: _ } in profiles(handle)? {
        for instance in handle.gpu_instances(&described)? {
            match slice(&profile, &instance, &mut devices) {
                Ok(slice) => slices.push(slice),
                // Somebody destroyed it between the two calls.
                Err(error) if error.code() == Some(Code::InvalidArgument) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(slices)
}

fn slice(
    profile: &Profile,
    instance: &GpuInstance<'_>,
    devices: &mut BTreeMap<u32, Vec<(u32, String)>>,
) -> Result<Slice> {
    let info = instance.info()?;
    let offered = instance.compute_profiles()?;
    let mut slices_of = BTreeMap::new();
    for compute in &offered {
        for found in instance.compute_instances(compute.id)? {
            slices_of.insert(found.info()?.id, compute.slices);
        }
    }
    let uuids = devices.remove(&info.id).unwrap_or_default();
    let devices = uuids
        .into_iter()
        .map(|(compute_instance, uuid)| {
            let whole = slices_of.get(&compute_instance) == Some(&u32::from(profile.slices));
            Device { uuid, compute_instance, whole }
        })
        .collect();
    Ok(Slice {
        profile: profile.name.clone(),
        span: Some(span_of(info.placement)?),
        gpu_instance: info.id,
        devices,
    })
}

/// The MIG devices: GPU instance to compute instances with their UUIDs.
fn devices(handle: &GpuHandle<'_>) -> Result<BTreeMap<u32, Vec<(u32, String)>>> {
    let mut devices: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    for device in handle.mig_devices()? {
        let (gpu_instance, compute_instance) = (device.gpu_instance_id()?, device.compute_instance_id()?);
        devices.entry(gpu_instance).or_default().push((compute_instance, device.uuid()?));
    }
    Ok(devices)
}

/// Slices as programs see them, for whoever may not list instances. A slice
/// without a compute instance is not to be seen this way.
fn slices_as_seen(handle: &GpuHandle<'_>) -> Result<Vec<Slice>> {
    let mut slices: BTreeMap<u32, Slice> = BTreeMap::new();
    for device in handle.mig_devices()? {
        let (gpu_instance, compute_instance) = (device.gpu_instance_id()?, device.compute_instance_id()?);
        let attributes = device.attributes()?;
        let whole = attributes.compute_instance_slices == attributes.gpu_instance_slices;
        let name = device.name()?;
        // "NVIDIA A100-SXM4-80GB MIG 1g.10gb", or "… MIG 1c.3g.40gb" for a part of one.
        let profile = name.rsplit_once(" MIG ").map_or(name.as_str(), |(_, profile)| profile);
        let profile = match profile.split_once("c.") {
            Some((parts, rest)) if parts.bytes().all(|b| b.is_ascii_digit()) => rest,
            _ => profile,
        };
        let slice = slices.entry(gpu_instance).or_insert_with(|| Slice {
            profile: profile.to_owned(),
            span: None,
            gpu_instance,
            devices: Vec::new(),
        });
        slice.devices.push(Device { uuid: device.uuid()?, compute_instance, whole });
    }
    Ok(slices.into_values().collect())
}

/// Who computes; `None` where the driver does not tell this caller.
pub(super) fn processes(library: &Library, handle: &GpuHandle<'_>) -> Option<Vec<Process>> {
    let found = handle.processes().ok()?;
    let told = found.into_iter().map(|process| Process {
        pid: process.pid,
        name: library.process_name(process.pid),
        memory_mib: process.memory.map(|bytes| bytes / MIB),
        instance: process.instance,
    });
    Some(told.collect())
}

/// The compute instance profile that has all of a GPU instance. Several may
/// have as many slices: the one with as many multiprocessors is meant, and of
/// those the first (an A100 names a second one that cannot be created).
pub(super) fn whole<'p>(offered: &'p [ComputeProfile], of: &GpuProfile) -> Option<&'p ComputeProfile> {
    offered
        .iter()
        .filter(|compute| compute.slices == of.slices)
        .min_by_key(|compute| (compute.multiprocessors != of.multiprocessors, compute.number))
}
