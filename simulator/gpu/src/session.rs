//! The library as a process sees it: handles, and the calls that only read.
//!
//! Every call checks in one order: whether the library is initialised, whether handles and arguments are
//! valid, whether a fault applies, whether the caller has permission, whether the GPU supports it, and
//! whether its state allows it. A failed call changes nothing.

use mig::PlacementIndex;

use crate::compute::ComputeProfile;
use crate::device::{ComputeInstance, Gpu, GpuInstance};
use crate::driver::OtherCards;
use crate::error::{NvmlError, Reply};
use crate::event::Happened;
use crate::fault::{Behaviour, Stall, Verb};
use crate::handle::{
    Attributes, Caller, ComputeHandle, ComputeInstanceInfo, Device, GpuInstanceInfo, InstanceHandle, Memory,
    Placement, compute_handle, instance_handle,
};
use crate::machine::{Machine, Target};
use crate::mode::MigMode;
use crate::model::ProfileFacts;

/// The profile enums that exist (`NVML_GPU_INSTANCE_PROFILE_COUNT`).
pub const GPU_INSTANCE_PROFILE_COUNT: u32 = 0x12;

/// NVML, in one process. Named after the C functions, without their prefix.
#[derive(Debug)]
pub struct Nvml<'m> {
    pub(crate) machine: &'m mut Machine,
    pub(crate) caller: Caller,
}

impl Machine {
    /// The NVML library, as a process of this caller sees it.
    pub fn nvml(&mut self, caller: Caller) -> Nvml<'_> {
        Nvml::new(self, caller)
    }
}

impl<'m> Nvml<'m> {
    const fn new(machine: &'m mut Machine, caller: Caller) -> Self {
        Self { machine, caller }
    }

    pub(crate) fn initialised(&self) -> Reply<()> {
        match self.caller {
            Caller::Uninitialized => Err(NvmlError::Uninitialized),
            Caller::Root | Caller::User => Ok(()),
        }
    }

    pub(crate) fn privileged(&self) -> Reply<()> {
        match self.caller {
            Caller::Root => Ok(()),
            Caller::User | Caller::Uninitialized => Err(NvmlError::NoPermission),
        }
    }

    /// The GPU behind a handle that must be a GPU's.
    pub(crate) fn whole(&self, device: Device) -> Reply<u16> {
        match device {
            Device::Gpu { index, epoch }
                if epoch == self.machine.epoch && self.machine.gpu(index).is_some() =>
            {
                self.present(index).map(|()| index)
            }
            Device::Gpu { .. } | Device::Mig(_) => Err(NvmlError::InvalidArgument),
        }
    }

    /// Nothing is known of a GPU that fell off the bus, nor of what was on it: what was read before is no answer.
    fn present(&self, gpu: u16) -> Reply<()> {
        if self.state(gpu).lost { Err(NvmlError::GpuIsLost) } else { Ok(()) }
    }

    pub(crate) fn state(&self, gpu: u16) -> &Gpu {
        &self.machine.gpus[usize::from(gpu)]
    }

    pub(crate) fn instance(&self, handle: InstanceHandle) -> Reply<&GpuInstance> {
        let gi = self
            .machine
            .gpu(handle.gpu)
            .and_then(|gpu| gpu.instances.get(&handle.id))
            .filter(|gi| gi.generation == handle.generation)
            .ok_or(NvmlError::InvalidArgument)?;
        self.present(handle.gpu).map(|()| gi)
    }

    pub(crate) fn compute(&self, handle: ComputeHandle) -> Reply<(&GpuInstance, &ComputeInstance)> {
        let gi = self.instance(handle.parent)?;
        let ci = gi.compute.get(&handle.id).filter(|ci| ci.generation == handle.generation);
        ci.map(|ci| (gi, ci)).ok_or(NvmlError::InvalidArgument)
    }

    /// Lets a fault strike the call, if one is armed, and does the work.
    /// `lie` is what the call answers when it only pretends.
    pub(crate) fn faulted<T>(
        &mut self,
        verb: Verb,
        gpu: u16,
        work: impl FnOnce(&mut Self) -> Reply<T>,
        lie: impl FnOnce(&mut Self) -> T,
    ) -> Reply<T> {
        self.present(gpu)?;
        let struck = self.machine.armed.strike(verb, Some(gpu));
        if struck.is_some() {
            self.machine.log(Some(gpu), Happened::FaultStruck { verb });
        }
        match struck {
            None => work(self),
            Some(Behaviour::Fail(error)) => Err(error),
            Some(Behaviour::FailAfterEffect(error)) => work(self).and(Err(error)),
            Some(Behaviour::Ignore) => Ok(lie(self)),
            Some(Behaviour::Slow(more)) => {
                self.machine.stall = self.machine.stall.and(Stall::For(more));
                work(self)
            }
            Some(Behaviour::Hang) => {
                self.machine.stall = Stall::Forever;
                Err(NvmlError::Timeout)
            }
        }
    }

    /// As [`faulted`](Self::faulted), for a call that only reads: one that
    /// ignores its work has nothing to answer with, and reads all the same.
    pub(crate) fn read<T>(&mut self, gpu: u16, work: impl FnOnce(&Self) -> Reply<T>) -> Reply<T> {
        self.present(gpu)?;
        let struck = self.machine.armed.strike(Verb::Query, Some(gpu));
        if struck.is_some() {
            self.machine.log(Some(gpu), Happened::FaultStruck { verb: Verb::Query });
        }
        match struck {
            None | Some(Behaviour::Ignore) => work(self),
            Some(Behaviour::Fail(error) | Behaviour::FailAfterEffect(error)) => Err(error),
            Some(Behaviour::Slow(more)) => {
                self.machine.stall = self.machine.stall.and(Stall::For(more));
                work(self)
            }
            Some(Behaviour::Hang) => {
                self.machine.stall = Stall::Forever;
                Err(NvmlError::Timeout)
            }
        }
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// Not initialised.
    pub fn device_count(&mut self) -> Reply<u16> {
        self.initialised()?;
        Ok(u16::try_from(self.machine.gpus.len()).expect("at most 32"))
    }

    /// A GPU, by its index.
    ///
    /// # Errors
    /// `InvalidArgument` past the last one, `GpuIsLost`.
    pub fn device_handle_by_index(&mut self, index: u16) -> Reply<Device> {
        self.initialised()?;
        if self.machine.gpu(index).is_none() {
            return Err(NvmlError::InvalidArgument);
        }
        self.read(index, |nvml| Ok(Device::Gpu { index, epoch: nvml.machine.epoch }))
    }

    /// A GPU or a MIG device, by its UUID.
    ///
    /// # Errors
    /// `NotFound`, `GpuIsLost`.
    pub fn device_handle_by_uuid(&mut self, uuid: &str) -> Reply<Device> {
        self.initialised()?;
        for (index, gpu) in (0u16..).zip(&self.machine.gpus) {
            if gpu.uuid == uuid {
                return self.present(index).map(|()| Device::Gpu { index, epoch: self.machine.epoch });
            }
            for (gi, ci) in gpu.mig_devices() {
                // Drivers with the short form find the long one as well.
                let long = || format!("MIG-{}/{}/{}", gpu.uuid, gi.id, ci.id) == uuid;
                if gpu.mig_uuid(gi, ci) == uuid || long() {
                    return self.present(index).map(|()| Device::Mig(compute_handle(index, gi, ci)));
                }
            }
        }
        Err(NvmlError::NotFound)
    }

    /// The UUID of a GPU or a MIG device.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn uuid(&mut self, device: Device) -> Reply<String> {
        self.initialised()?;
        match device {
            Device::Gpu { .. } => {
                let gpu = self.whole(device)?;
                self.read(gpu, |nvml| Ok(nvml.state(gpu).uuid.clone()))
            }
            Device::Mig(handle) => {
                let (gi, ci) = self.compute(handle)?;
                Ok(self.state(handle.parent.gpu).mig_uuid(gi, ci))
            }
        }
    }

    /// The name of a GPU (its product), or of a MIG device: the product, `MIG`
    /// and the profile.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn name(&mut self, device: Device) -> Reply<String> {
        self.initialised()?;
        match device {
            Device::Gpu { .. } => {
                let gpu = self.whole(device)?;
                self.read(gpu, |nvml| Ok(nvml.state(gpu).model.product.clone()))
            }
            Device::Mig(handle) => {
                let (gi, ci) = self.compute(handle)?;
                let gpu = self.state(handle.parent.gpu);
                Ok(format!("{} MIG {}", gpu.model.product, gpu.mig_profile_name(gi, ci)))
            }
        }
    }

    /// The index of a GPU, or of a MIG device inside its GPU.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn index(&mut self, device: Device) -> Reply<u16> {
        self.initialised()?;
        match device {
            Device::Gpu { .. } => self.whole(device),
            Device::Mig(handle) => {
                let (gi, ci) = self.compute(handle)?;
                let place = (gi.id, ci.id);
                let at = self.state(handle.parent.gpu).mig_devices().position(|(g, c)| (g.id, c.id) == place);
                Ok(at.and_then(|i| u16::try_from(i).ok()).expect("it was found a moment ago"))
            }
        }
    }

    /// The MIG mode, now and after the next reset.
    ///
    /// # Errors
    /// `NotSupported` without MIG.
    pub fn mig_mode(&mut self, device: Device) -> Reply<MigMode> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        self.read(gpu, |nvml| nvml.state(gpu).mode.ok_or(NvmlError::NotSupported))
    }

    /// The most MIG devices that the GPU can have; 0 with MIG off, or without.
    ///
    /// # Errors
    /// `InvalidArgument` for a handle that is not a GPU's.
    pub fn max_mig_device_count(&mut self, device: Device) -> Reply<u16> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        self.read(gpu, |nvml| {
            let gpu = nvml.state(gpu);
            Ok(gpu.geometry().filter(|_| gpu.mig_is_on()).map_or(0, |g| u16::from(g.compute())))
        })
    }

    /// A MIG device, by its index inside the GPU. Indices shift when
    /// instances with lower ids come and go.
    ///
    /// # Errors
    /// `InvalidArgument` past the most that there can be, `NotSupported` without
    /// MIG, `NotFound` where there is none now, and with MIG off.
    pub fn mig_device_handle_by_index(&mut self, device: Device, index: u16) -> Reply<Device> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        self.read(gpu, |nvml| {
            let state = nvml.state(gpu);
            let geometry = state.geometry().ok_or(NvmlError::NotSupported)?;
            if index >= u16::from(geometry.compute()) {
                return Err(NvmlError::InvalidArgument);
            }
            let (gi, ci) = state.mig_devices().nth(usize::from(index)).ok_or(NvmlError::NotFound)?;
            Ok(Device::Mig(compute_handle(gpu, gi, ci)))
        })
    }

    /// The GPU of a MIG device.
    ///
    /// # Errors
    /// `InvalidArgument` for a GPU's handle (which code hardware answers here
    /// is not verified), or a stale one.
    pub fn parent(&mut self, device: Device) -> Reply<Device> {
        self.initialised()?;
        let Device::Mig(handle) = device else { return Err(NvmlError::InvalidArgument) };
        self.compute(handle)?;
        Ok(Device::Gpu { index: handle.parent.gpu, epoch: self.machine.epoch })
    }

    /// The ids of the GPU instance and compute instance of a MIG device.
    ///
    /// # Errors
    /// As [`parent`](Self::parent).
    pub fn instance_ids(&mut self, device: Device) -> Reply<(u8, u8)> {
        self.initialised()?;
        let Device::Mig(handle) = device else { return Err(NvmlError::InvalidArgument) };
        let (gi, ci) = self.compute(handle)?;
        Ok((gi.id, ci.id))
    }

    /// Memory of a GPU, or of a MIG device: that of its GPU instance, which
    /// all compute instances there share.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn memory(&mut self, device: Device) -> Reply<Memory> {
        self.initialised()?;
        match device {
            Device::Gpu { .. } => {
                let gpu = self.whole(device)?;
                self.read(gpu, |nvml| {
                    let state = nvml.state(gpu);
                    let (total_mib, reserved_kib) =
                        (state.model.memory_mib, state.reserved_kib(nvml.machine.driver()));
                    let for_clients = total_mib.saturating_sub(reserved_kib.div_ceil(1024));
                    let used_mib = nvml.used(for_clients, |at| at.gpu() == gpu);
                    Ok(Memory { total_mib, used_mib, reserved_kib })
                })
            }
            Device::Mig(handle) => {
                let (gi, _) = self.compute(handle)?;
                let (gpu, id) = (handle.parent.gpu, gi.id);
                let total_mib = self.state(gpu).profile_of(gi).memory_mib;
                let used_mib = self.used(total_mib, |at| match at {
                    Target::Gpu(_) => false,
                    Target::GpuInstance(g, i) | Target::ComputeInstance(g, i, _) => (g, i) == (gpu, id),
                });
                Ok(Memory { total_mib, used_mib, reserved_kib: 0 })
            }
        }
    }

    fn used(&self, total: u32, of: impl Fn(Target) -> bool) -> u32 {
        let used = self.machine.clients().filter(|(_, c)| of(c.target)).map(|(_, c)| c.memory_mib);
        used.fold(0u32, u32::saturating_add).min(total)
    }

    /// The attributes of a MIG device.
    ///
    /// # Errors
    /// `NotSupported` for a GPU's handle.
    pub fn attributes(&mut self, device: Device) -> Reply<Attributes> {
        self.initialised()?;
        let handle = match device {
            Device::Mig(handle) => handle,
            Device::Gpu { .. } => return self.whole(device).and(Err(NvmlError::NotSupported)),
        };
        let (gi, ci) = self.compute(handle)?;
        let gpu = self.state(handle.parent.gpu);
        let facts = gpu.profile_of(gi);
        let profile = gpu.compute_profiles(gi).into_iter().find(|p| p.id == ci.profile);
        Ok(Attributes {
            multiprocessors: profile.and_then(|p| p.sm),
            engines: facts.engines,
            gpu_instance_slices: facts.slices,
            compute_instance_slices: ci.slices,
            memory_mib: facts.memory_mib,
        })
    }

    /// A profile, by NVML's enum (not by nvidia-smi's id).
    ///
    /// # Errors
    /// `InvalidArgument` from [`GPU_INSTANCE_PROFILE_COUNT`] on;
    /// `NotSupported` if this GPU has no such profile, and by old drivers
    /// while MIG is off.
    pub fn gpu_instance_profile_info(&mut self, device: Device, profile: u32) -> Reply<ProfileFacts> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        if profile >= GPU_INSTANCE_PROFILE_COUNT {
            return Err(NvmlError::InvalidArgument);
        }
        self.read(gpu, |nvml| {
            let state = nvml.state(gpu);
            let answers = state.mig_is_on() || nvml.machine.driver().lists_profiles_with_mig_off();
            let facts = state.mig().filter(|_| answers);
            let facts = facts.and_then(|mig| mig.profiles.iter().find(|p| p.nvml_enum == profile));
            facts.cloned().ok_or(NvmlError::NotSupported)
        })
    }

    /// Where a profile may start, whatever is there now.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown profile id, `NotSupported` without MIG.
    pub fn gpu_instance_possible_placements(
        &mut self,
        device: Device,
        profile_id: u32,
    ) -> Reply<Vec<Placement>> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        if self.is_of_other_cards(gpu, profile_id)? {
            return self.read(gpu, |_| Ok(Vec::new()));
        }
        let index = self.profile(gpu, profile_id)?;
        self.read(gpu, |nvml| {
            let geometry = nvml.state(gpu).geometry().ok_or(NvmlError::NotSupported)?;
            let spec = geometry.profile(index.ok_or(NvmlError::NotSupported)?);
            Ok(spec.starts.iter().map(|start| Placement { start: *start, size: spec.size }).collect())
        })
    }

    /// How many more instances of a profile fit: the `Free` column of `-lgip`.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown profile id, `NotSupported` without MIG, and by
    /// old drivers while MIG is off.
    pub fn gpu_instance_remaining_capacity(&mut self, device: Device, profile_id: u32) -> Reply<u32> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        if self.is_of_other_cards(gpu, profile_id)? {
            return self.read(gpu, |_| Ok(0));
        }
        let index = self.profile(gpu, profile_id)?;
        self.read(gpu, |nvml| {
            let state = nvml.state(gpu);
            let answers = state.mig_is_on() || nvml.machine.driver().lists_profiles_with_mig_off();
            index
                .filter(|_| answers)
                .map(|index| state.remaining_capacity(index))
                .ok_or(NvmlError::NotSupported)
        })
    }

    /// Whether the driver knows the profile from other cards, as one that has no
    /// placements here.
    ///
    /// # Errors
    /// `NotSupported`, as the driver says about some of them.
    fn is_of_other_cards(&self, gpu: u16, id: u32) -> Reply<bool> {
        if self.state(gpu).mig().is_none_or(|mig| mig.by_id(id).is_some()) {
            return Ok(false);
        }
        match self.machine.driver().profile_of_other_cards(id) {
            Some(OtherCards::Unsupported) => Err(NvmlError::NotSupported),
            other => Ok(other.is_some()),
        }
    }

    /// The profile with an id; `None` on a GPU without MIG, which has none.
    pub(crate) fn profile(&self, gpu: u16, id: u32) -> Reply<Option<mig::ProfileIndex>> {
        match self.state(gpu).mig() {
            None => Ok(None),
            Some(mig) => mig.by_id(id).map(|p| Some(p.index)).ok_or(NvmlError::InvalidArgument),
        }
    }

    /// The GPU instances of a profile, by id.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown profile id, `NotSupported` with MIG off.
    pub fn gpu_instances(&mut self, device: Device, profile_id: u32) -> Reply<Vec<InstanceHandle>> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        let index = self.profile(gpu, profile_id)?;
        self.read(gpu, |nvml| {
            let state = nvml.state(gpu);
            let (Some(geometry), true, Some(index)) = (state.geometry(), state.mig_is_on(), index) else {
                return Err(NvmlError::NotSupported);
            };
            let of = |gi: &&GpuInstance| geometry.profile_of(gi.placement) == index;
            Ok(state.instances.values().filter(of).map(|gi| instance_handle(gpu, gi)).collect())
        })
    }

    /// A GPU instance, by its id.
    ///
    /// # Errors
    /// `NotFound`, with MIG off, too; `NotSupported` without MIG.
    pub fn gpu_instance_by_id(&mut self, device: Device, id: u8) -> Reply<InstanceHandle> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        self.read(gpu, |nvml| {
            let state = nvml.state(gpu);
            state.mig().ok_or(NvmlError::NotSupported)?;
            state.instances.get(&id).map(|gi| instance_handle(gpu, gi)).ok_or(NvmlError::NotFound)
        })
    }

    /// What a GPU instance is.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn gpu_instance_info(&mut self, handle: InstanceHandle) -> Reply<GpuInstanceInfo> {
        self.initialised()?;
        let gi = self.instance(handle)?;
        let gpu = self.state(handle.gpu);
        let (start, size) = gpu.span_of(gi);
        Ok(GpuInstanceInfo {
            id: gi.id,
            profile_id: gpu.profile_of(gi).id,
            placement: Placement { start, size },
        })
    }

    /// The compute instance profiles of a GPU instance, and how many more of
    /// each fit.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn compute_instance_profiles(&mut self, handle: InstanceHandle) -> Reply<Vec<(ComputeProfile, u32)>> {
        self.initialised()?;
        let gi = self.instance(handle)?;
        let taken = gi.spans();
        let profiles = self.state(handle.gpu).compute_profiles(gi).into_iter();
        Ok(profiles.map(|p| (p.clone(), crate::compute::remaining(&p, &taken))).collect())
    }

    /// The compute instances of a GPU instance, by id.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn compute_instances(&mut self, handle: InstanceHandle) -> Reply<Vec<ComputeHandle>> {
        self.initialised()?;
        let gi = self.instance(handle)?;
        Ok(gi.compute.values().map(|ci| compute_handle(handle.gpu, gi, ci)).collect())
    }

    /// A compute instance, by its id.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle, `NotFound`.
    pub fn compute_instance_by_id(&mut self, handle: InstanceHandle, id: u8) -> Reply<ComputeHandle> {
        self.initialised()?;
        let gi = self.instance(handle)?;
        gi.compute.get(&id).map(|ci| compute_handle(handle.gpu, gi, ci)).ok_or(NvmlError::NotFound)
    }

    /// What a compute instance is.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle.
    pub fn compute_instance_info(&mut self, handle: ComputeHandle) -> Reply<ComputeInstanceInfo> {
        self.initialised()?;
        let (_, ci) = self.compute(handle)?;
        let placement = Placement { start: ci.start, size: ci.slices };
        Ok(ComputeInstanceInfo { id: ci.id, profile_id: ci.profile, placement })
    }

    pub(crate) fn placement_at(&self, gpu: u16, profile_id: u32, at: Placement) -> Reply<PlacementIndex> {
        let state = self.state(gpu);
        let index = self.profile(gpu, profile_id)?.ok_or(NvmlError::NotSupported)?;
        let geometry = state.geometry().ok_or(NvmlError::NotSupported)?;
        let placement =
            geometry.placement(index, at.start).filter(|_| geometry.profile(index).size == at.size);
        placement.ok_or(NvmlError::InvalidArgument)
    }
}
