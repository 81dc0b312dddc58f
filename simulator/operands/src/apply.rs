//! The effect of `mig-parted` on the GPUs of a node: assert, change modes, change geometry. It works
//! through NVML, as root; it never chooses the placement of a slice, and tries the orders of creation until
//! the driver accepts one.

use std::collections::BTreeMap;

use gpu::{Caller, Device, InstanceHandle, Machine, MigMode, Mode, Nvml, NvmlError, PciClass};
use mig::ProfileName;

use crate::config::Entry;

/// Why a configuration did not get applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// NVML refused.
    #[error("GPU {gpu}: {doing}: {error}")]
    Nvml {
        /// The GPU.
        gpu: u16,
        /// What was being done.
        doing: String,
        /// What NVML said.
        error: NvmlError,
    },
    /// No order of creation was accepted.
    #[error("GPU {gpu}: no order of creating {wanted} is accepted by the driver")]
    NoOrder {
        /// The GPU.
        gpu: u16,
        /// The slices.
        wanted: String,
    },
    /// The GPU has no such profile, or no MIG.
    #[error("GPU {gpu}: {problem}")]
    Impossible {
        /// The GPU.
        gpu: u16,
        /// What is not possible.
        problem: String,
    },
    /// The mode is not what it should be.
    #[error("GPU {gpu}: MIG mode is not yet what the configuration says; a reset or reboot is pending")]
    ModeNotApplied {
        /// The GPU.
        gpu: u16,
    },
}

/// Whether the configuration is in place: every GPU is matched, and as every
/// entry that matches it says. A GPU that no entry matches denies it.
#[must_use]
pub fn is_applied(machine: &Machine, entries: &[Entry]) -> bool {
    machine.gpus().iter().zip(0u16..).all(|(gpu, index)| {
        let mut matching = entries.iter().filter(|e| e.matches(index, &gpu.model)).peekable();
        matching.peek().is_some()
            && matching.all(|entry| {
                mode_is(gpu.mode, entry.mig_enabled)
                    && (!entry.mig_enabled || slices_of(machine, index) == entry.slices())
            })
    })
}

/// Whether all modes are as the configuration says.
#[must_use]
pub fn modes_are_applied(machine: &Machine, entries: &[Entry]) -> bool {
    machine.gpus().iter().zip(0u16..).all(|(gpu, index)| {
        let mut matching = entries.iter().filter(|e| e.matches(index, &gpu.model));
        matching.all(|entry| gpu.mode.is_none() || mode_is(gpu.mode, entry.mig_enabled))
    })
}

fn mode_is(mode: Option<MigMode>, on: bool) -> bool {
    mode.is_some_and(|mode| mode.current == Mode::Enabled) == on
}

/// The slices of a GPU, by profile.
fn slices_of(machine: &Machine, index: u16) -> BTreeMap<ProfileName, u32> {
    let mut slices = BTreeMap::new();
    if let Some(gpu) = machine.gpu(index) {
        for gi in gpu.instances.values().filter(|gi| !gi.compute.is_empty()) {
            *slices.entry(gpu.profile_of(gi).name).or_insert(0) += 1;
        }
    }
    slices
}

/// Sets the modes: clears every matched GPU, sets its mode, and resets *all*
/// GPUs of the node when any mode is pending.
///
/// # Errors
/// The first call that fails; what was done before stays done.
pub fn apply_modes(machine: &mut Machine, entries: &[Entry]) -> Result<(), ApplyError> {
    let count = machine.gpus().len();
    let mut pending = false;
    for entry in entries {
        for index in (0u16..).take(count) {
            let gpu = &machine.gpus()[usize::from(index)];
            if !entry.matches(index, &gpu.model) {
                continue;
            }
            if gpu.mode.is_none() {
                if entry.mig_enabled && entry.is_explicit() {
                    let problem = "the GPU has no MIG, and the configuration names it".to_owned();
                    return Err(ApplyError::Impossible { gpu: index, problem });
                }
                continue;
            }
            let on = gpu.mig_is_on();
            let mut nvml = machine.nvml(Caller::Root);
            let device = handle(&mut nvml, index)?;
            if on {
                clear(&mut nvml, index, device)?;
            }
            let mode = if entry.mig_enabled { Mode::Enabled } else { Mode::Disabled };
            nvml.set_mig_mode(device, mode).map_err(nvml_error(index, "setting the MIG mode"))?;
            let now = nvml.mig_mode(device).map_err(nvml_error(index, "reading the MIG mode"))?;
            pending |= now.current != now.pending;
        }
    }
    if pending {
        for index in (0u16..).take(count) {
            if machine.gpus()[usize::from(index)].model.pci_class != PciClass::ThreeD {
                continue;
            }
            let mut nvml = machine.nvml(Caller::Root);
            let device = handle(&mut nvml, index)?;
            nvml.reset_gpu(device).map_err(nvml_error(index, "resetting the GPU"))?;
        }
    }
    Ok(())
}

/// Sets the geometry: a GPU that has what it should is left alone; any other
/// is cleared, and its slices are created.
///
/// # Errors
/// The first GPU that fails. GPUs before it have their new slices, it has
/// none or what could not be destroyed, GPUs after it are as before.
pub fn apply_geometry(machine: &mut Machine, entries: &[Entry]) -> Result<(), ApplyError> {
    for entry in entries.iter().filter(|entry| entry.mig_enabled) {
        for index in (0u16..).take(machine.gpus().len()) {
            let gpu = &machine.gpus()[usize::from(index)];
            let wanted = entry.slices();
            if !entry.matches(index, &gpu.model) || gpu.mode.is_none() && !entry.is_explicit() {
                continue;
            }
            if !gpu.mig_is_on() {
                return Err(ApplyError::ModeNotApplied { gpu: index });
            }
            if slices_of(machine, index) == wanted {
                continue;
            }
            create_all(machine, index, &wanted)?;
        }
    }
    match machine.gpus().iter().zip(0u16..).find(|(gpu, index)| {
        entries
            .iter()
            .any(|e| e.matches(*index, &gpu.model) && gpu.mode.is_some() && !mode_is(gpu.mode, e.mig_enabled))
    }) {
        Some((_, gpu)) => Err(ApplyError::ModeNotApplied { gpu }),
        None => Ok(()),
    }
}

fn create_all(
    machine: &mut Machine,
    index: u16,
    wanted: &BTreeMap<ProfileName, u32>,
) -> Result<(), ApplyError> {
    let gpu = &machine.gpus()[usize::from(index)];
    let mut ids = Vec::new();
    for (name, n) in wanted {
        let facts = gpu.mig().and_then(|mig| mig.named(*name)).ok_or_else(|| ApplyError::Impossible {
            gpu: index,
            problem: format!("model {} has no profile {name}", gpu.model.name),
        })?;
        ids.push((facts.slices, facts.memory_mib, facts.id, *n));
    }
    // Largest first, as mig-parted sorts before it permutes.
    ids.sort_by_key(|(slices, memory, id, _)| std::cmp::Reverse((*slices, *memory, *id)));
    let mut left: Vec<(u32, u32)> = ids.into_iter().map(|(_, _, id, n)| (id, n)).collect();
    let mut nvml = machine.nvml(Caller::Root);
    let device = handle(&mut nvml, index)?;
    clear(&mut nvml, index, device)?;
    if permute(&mut nvml, index, device, &mut left)? {
        return Ok(());
    }
    let wanted = wanted.iter().map(|(name, n)| format!("{n} x {name}")).collect::<Vec<_>>().join(", ");
    Err(ApplyError::NoOrder { gpu: index, wanted })
}

/// Tries the orders of creation, in mig-parted's sequence. A beginning that
/// the driver refuses is not repeated for every order that begins so: it would
/// be refused again.
fn permute(
    nvml: &mut Nvml<'_>,
    gpu: u16,
    device: Device,
    left: &mut [(u32, u32)],
) -> Result<bool, ApplyError> {
    if left.iter().all(|(_, n)| *n == 0) {
        return Ok(true);
    }
    for i in 0..left.len() {
        let (id, n) = left[i];
        if n == 0 {
            continue;
        }
        let gi = match create_one(nvml, gpu, device, id) {
            Ok(gi) => gi,
            Err(ApplyError::Nvml { error: NvmlError::InsufficientResources, .. }) => continue,
            Err(error) => {
                clear(nvml, gpu, device)?;
                return Err(error);
            }
        };
        left[i].1 -= 1;
        if permute(nvml, gpu, device, left)? {
            return Ok(true);
        }
        left[i].1 += 1;
        destroy(nvml, gpu, gi)?;
    }
    Ok(false)
}

fn create_one(nvml: &mut Nvml<'_>, gpu: u16, device: Device, id: u32) -> Result<InstanceHandle, ApplyError> {
    let creating = |what: &str| nvml_error(gpu, &format!("creating {what} of profile {id}"));
    let gi = nvml.create_gpu_instance(device, id).map_err(creating("a GPU instance"))?;
    let profiles = nvml.compute_instance_profiles(gi).map_err(creating("a compute instance"))?;
    if let Some((default, _)) = profiles.iter().find(|(p, _)| p.default) {
        nvml.create_compute_instance(gi, default.id).map_err(creating("a compute instance"))?;
    }
    Ok(gi)
}

/// Destroys every instance of a GPU, in the order of profiles and ids. What
/// somebody has open stops it; what was before it is gone.
fn clear(nvml: &mut Nvml<'_>, gpu: u16, device: Device) -> Result<(), ApplyError> {
    for profile in 0..gpu::GPU_INSTANCE_PROFILE_COUNT {
        let id = match nvml.gpu_instance_profile_info(device, profile) {
            Ok(facts) => facts.id,
            Err(NvmlError::NotSupported) => continue,
            Err(error) => return Err(nvml_error(gpu, "listing profiles")(error)),
        };
        for gi in nvml.gpu_instances(device, id).map_err(nvml_error(gpu, "listing GPU instances"))? {
            destroy(nvml, gpu, gi)?;
        }
    }
    Ok(())
}

fn destroy(nvml: &mut Nvml<'_>, gpu: u16, gi: InstanceHandle) -> Result<(), ApplyError> {
    for ci in nvml.compute_instances(gi).map_err(nvml_error(gpu, "listing compute instances"))? {
        nvml.destroy_compute_instance(ci).map_err(nvml_error(gpu, "destroying a compute instance"))?;
    }
    nvml.destroy_gpu_instance(gi).map_err(nvml_error(gpu, "destroying a GPU instance"))
}

fn handle(nvml: &mut Nvml<'_>, index: u16) -> Result<Device, ApplyError> {
    nvml.device_handle_by_index(index).map_err(nvml_error(index, "opening the GPU"))
}

fn nvml_error(gpu: u16, doing: &str) -> impl Fn(NvmlError) -> ApplyError + use<> {
    let doing = doing.to_owned();
    move |error| ApplyError::Nvml { gpu, doing: doing.clone(), error }
}
