//! The calls that change a GPU.

use std::collections::BTreeMap;

use mig::{PlacementIndex, ProfileIndex};

use crate::compute::{self, ComputeProfile};
use crate::device::{ComputeInstance, GpuInstance};
use crate::error::{NvmlError, Reply};
use crate::event::Happened;
use crate::fault::{Behaviour, Verb};
use crate::handle::{ComputeHandle, Device, InstanceHandle, Placement, compute_handle, instance_handle};
use crate::machine::{Client, Machine, Share, Target};
use crate::mode::{Activation, MigMode, Mode};
use crate::model::MigFacts;
use crate::session::Nvml;

impl Nvml<'_> {
    /// Switches MIG on or off. A successful call may leave the mode pending:
    /// the activation says why.
    ///
    /// # Errors
    /// `NoPermission`, `NotSupported` without MIG; `InUse` from Hopper on when
    /// MIG is to be switched off while instances are there.
    pub fn set_mig_mode(&mut self, device: Device, mode: Mode) -> Reply<Activation> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        self.faulted(
            Verb::SetMigMode,
            gpu,
            |nvml| {
                nvml.privileged()?;
                let now = nvml.state(gpu).mode.ok_or(NvmlError::NotSupported)?;
                nvml.machine.set_mode(gpu, now, mode)
            },
            |_| Activation::Success,
        )
    }

    /// Resets a GPU: what is pending comes into force, instances are gone.
    ///
    /// # Errors
    /// `NoPermission`; `InUse` while anybody has it, or anything on it, open.
    pub fn reset_gpu(&mut self, device: Device) -> Reply<()> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            if nvml.machine.is_busy(gpu) {
                return Err(NvmlError::InUse);
            }
            nvml.machine.reset(gpu);
            Ok(())
        };
        self.faulted(Verb::Reset, gpu, work, |_| ())
    }

    /// Switches persistence mode on or off.
    ///
    /// # Errors
    /// `NoPermission`.
    pub fn set_persistence_mode(&mut self, device: Device, mode: Mode) -> Reply<()> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            nvml.machine.gpus[usize::from(gpu)].persistence = mode == Mode::Enabled;
            Ok(())
        };
        self.faulted(Verb::SetPersistenceMode, gpu, work, |_| ())
    }

    /// Creates a GPU instance where the driver likes it best.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown profile id, `NoPermission`,
    /// `NotSupported` with MIG off, `InUse` while somebody computes on the
    /// whole GPU, `InsufficientResources` without room.
    pub fn create_gpu_instance(&mut self, device: Device, profile_id: u32) -> Reply<InstanceHandle> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        let profile = self.profile(gpu, profile_id)?;
        self.create(gpu, profile, |nvml, profile| nvml.state(gpu).best_fit(profile))
    }

    /// Creates a GPU instance at a placement.
    ///
    /// # Errors
    /// As [`create_gpu_instance`](Self::create_gpu_instance); `InvalidArgument`
    /// for a placement that the profile does not have.
    pub fn create_gpu_instance_with_placement(
        &mut self,
        device: Device,
        profile_id: u32,
        placement: Placement,
    ) -> Reply<InstanceHandle> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        let profile = self.profile(gpu, profile_id)?;
        let at = match profile {
            Some(_) => Some(self.placement_at(gpu, profile_id, placement)?),
            None => None,
        };
        self.create(gpu, profile, |nvml, _| at.filter(|at| nvml.state(gpu).free().contains(*at)))
    }

    fn create(
        &mut self,
        gpu: u16,
        profile: Option<ProfileIndex>,
        choose: impl FnOnce(&Self, ProfileIndex) -> Option<PlacementIndex>,
    ) -> Reply<InstanceHandle> {
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            let Some(profile) = profile.filter(|_| nvml.state(gpu).mig_is_on()) else {
                return Err(NvmlError::NotSupported);
            };
            let has_all =
                |client: &Client| client.target == Target::Gpu(gpu) && client.activity.has_context();
            if nvml.machine.clients().any(|(_, client)| has_all(client)) {
                return Err(NvmlError::InUse);
            }
            let placement = choose(nvml, profile).ok_or(NvmlError::InsufficientResources)?;
            let id = nvml.state(gpu).id_of(placement);
            let generation = nvml.machine.next_generation();
            let gi = GpuInstance { id, placement, compute: BTreeMap::new(), allocation: None, generation };
            let handle = instance_handle(gpu, &gi);
            let (profile, start) = (nvml.state(gpu).profile_of(&gi).name, nvml.state(gpu).span_of(&gi).0);
            nvml.machine.gpus[usize::from(gpu)].instances.insert(id, gi);
            nvml.machine.log(Some(gpu), Happened::Created { gpu_instance: id, profile, start });
            Ok(handle)
        };
        // The pretended instance was never there: its handle is stale at once.
        let lie = |nvml: &mut Self| InstanceHandle { gpu, id: 0, generation: nvml.machine.next_generation() };
        self.faulted(Verb::CreateGpuInstance, gpu, work, lie)
    }

    /// Destroys a GPU instance. One that is allocated and not open goes: the
    /// driver does not know of the kubelet's book. That is counted.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle, `NoPermission`, `InUse` while it
    /// has compute instances or is open.
    pub fn destroy_gpu_instance(&mut self, handle: InstanceHandle) -> Reply<()> {
        self.initialised()?;
        self.instance(handle)?;
        let InstanceHandle { gpu, id, generation: _ } = handle;
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            let gi = nvml.instance(handle)?;
            let open = |at: Target| match at {
                Target::Gpu(_) => false,
                Target::GpuInstance(g, i) | Target::ComputeInstance(g, i, _) => (g, i) == (gpu, id),
            };
            if !gi.compute.is_empty() || nvml.machine.clients().any(|(_, c)| open(c.target)) {
                return Err(NvmlError::InUse);
            }
            let (profile, start) = (nvml.state(gpu).profile_of(gi).name, nvml.state(gpu).span_of(gi).0);
            nvml.machine.harm(Share::Slice(gpu, id), Verb::DestroyGpuInstance);
            nvml.machine.gpus[usize::from(gpu)].instances.remove(&id);
            nvml.machine.log(Some(gpu), Happened::Destroyed { gpu_instance: id, profile, start });
            Ok(())
        };
        self.faulted(Verb::DestroyGpuInstance, gpu, work, |_| ())
    }

    /// Creates a compute instance where the driver likes it best.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle, `NoPermission`, `NotSupported`
    /// for a profile that the GPU instance does not have,
    /// `InsufficientResources` without room.
    pub fn create_compute_instance(
        &mut self,
        parent: InstanceHandle,
        profile_id: u32,
    ) -> Reply<ComputeHandle> {
        self.create_compute(parent, profile_id, |all, profile, gi| {
            Ok(compute::best_start(all, profile, &gi.spans()))
        })
    }

    /// Creates a compute instance at a placement.
    ///
    /// # Errors
    /// As [`create_compute_instance`](Self::create_compute_instance);
    /// `InvalidArgument` for a placement that the profile does not have.
    pub fn create_compute_instance_with_placement(
        &mut self,
        parent: InstanceHandle,
        profile_id: u32,
        placement: Placement,
    ) -> Reply<ComputeHandle> {
        self.create_compute(parent, profile_id, |_, profile, gi| {
            if placement.size != profile.slices || !profile.starts.contains(&placement.start) {
                return Err(NvmlError::InvalidArgument);
            }
            let free = compute::free_starts(profile, &gi.spans());
            Ok(Some(placement.start).filter(|start| free.contains(start)))
        })
    }

    fn create_compute(
        &mut self,
        parent: InstanceHandle,
        profile_id: u32,
        choose: impl FnOnce(&[ComputeProfile], &ComputeProfile, &GpuInstance) -> Reply<Option<u8>>,
    ) -> Reply<ComputeHandle> {
        self.initialised()?;
        self.instance(parent)?;
        let InstanceHandle { gpu, id, generation: _ } = parent;
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            let gi = nvml.instance(parent)?;
            let all = nvml.state(gpu).compute_profiles(gi);
            let profile = all.iter().find(|p| p.id == profile_id).ok_or(NvmlError::NotSupported)?;
            let start = choose(&all, profile, gi)?.ok_or(NvmlError::InsufficientResources)?;
            let ci = (0u8..).find(|ci| !gi.compute.contains_key(ci)).expect("fewer than 256");
            let generation = nvml.machine.next_generation();
            let instance = ComputeInstance {
                id: ci,
                profile: profile_id,
                start,
                slices: profile.slices,
                generation,
                busy_us: 0,
            };
            let gi = nvml.machine.gpus[usize::from(gpu)].instances.get_mut(&id).expect("it was there");
            gi.compute.insert(ci, instance);
            let handle = compute_handle(gpu, gi, &gi.compute[&ci]);
            nvml.machine.log(Some(gpu), Happened::ComputeCreated { gpu_instance: id, compute_instance: ci });
            Ok(handle)
        };
        let lie =
            |nvml: &mut Self| ComputeHandle { parent, id: 0, generation: nvml.machine.next_generation() };
        self.faulted(Verb::CreateComputeInstance, gpu, work, lie)
    }

    /// Destroys a compute instance. If its GPU instance is allocated, its
    /// owner is harmed by this, and that is counted.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle, `NoPermission`, `InUse` while it
    /// is open.
    pub fn destroy_compute_instance(&mut self, handle: ComputeHandle) -> Reply<()> {
        self.initialised()?;
        self.compute(handle)?;
        let ComputeHandle { parent: InstanceHandle { gpu, id, generation: _ }, id: ci, generation: _ } =
            handle;
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            let target = Target::ComputeInstance(gpu, id, ci);
            if nvml.machine.clients().any(|(_, c)| c.target == target) {
                return Err(NvmlError::InUse);
            }
            nvml.machine.harm(Share::Slice(gpu, id), Verb::DestroyComputeInstance);
            let gi = nvml.machine.gpus[usize::from(gpu)].instances.get_mut(&id).expect("it was there");
            gi.compute.remove(&ci);
            nvml.machine
                .log(Some(gpu), Happened::ComputeDestroyed { gpu_instance: id, compute_instance: ci });
            Ok(())
        };
        self.faulted(Verb::DestroyComputeInstance, gpu, work, |_| ())
    }
}

impl Machine {
    /// What becomes of a wanted mode; the GPU has MIG.
    ///
    /// Where the change resets the GPU, GPU instances without compute instances
    /// are not in its way: they go with the reset. Where it does not, instances
    /// of any kind refuse it.
    fn set_mode(&mut self, gpu: u16, now: MigMode, wanted: Mode) -> Reply<Activation> {
        if now == MigMode::settled(wanted) {
            return Ok(Activation::Success);
        }
        let device = &mut self.gpus[usize::from(gpu)];
        let resets = device.mig().is_some_and(MigFacts::mode_needs_reset);
        if now.current == wanted {
            device.mode = Some(MigMode::settled(wanted));
            return Ok(Activation::Success);
        }
        if !resets && !device.instances.is_empty() {
            return Err(NvmlError::InUse);
        }
        let in_the_way = device.instances.values().any(|gi| !gi.compute.is_empty());
        device.mode = Some(MigMode { current: now.current, pending: wanted });
        let pending = if self.is_busy(gpu) || in_the_way {
            Some(Activation::InUse)
        } else if resets && (self.is_passed_through() || self.reset_fails(gpu)) {
            Some(Activation::ResetRequired)
        } else {
            None
        };
        if let Some(why) = pending {
            self.log(Some(gpu), Happened::ModePending { to: wanted });
            return Ok(why);
        }
        self.harm_all(gpu, Verb::SetMigMode);
        self.gpus[usize::from(gpu)].instances.clear();
        if resets {
            self.log(Some(gpu), Happened::Reset);
        }
        self.gpus[usize::from(gpu)].mode = Some(MigMode::settled(wanted));
        self.log(Some(gpu), Happened::ModeChanged { to: wanted });
        Ok(Activation::Success)
    }

    /// Whether a fault spoils the reset that the driver does itself.
    fn reset_fails(&mut self, gpu: u16) -> bool {
        let struck = self.armed.strike(Verb::Reset, Some(gpu));
        if struck.is_some() {
            self.log(Some(gpu), Happened::FaultStruck { verb: Verb::Reset });
        }
        matches!(struck, Some(Behaviour::Fail(_) | Behaviour::Ignore | Behaviour::Hang))
    }

    /// A reset that nobody is in the way of.
    fn reset(&mut self, gpu: u16) {
        self.harm_all(gpu, Verb::Reset);
        let device = &mut self.gpus[usize::from(gpu)];
        device.instances.clear();
        device.last_xid = None;
        device.ecc.start_anew();
        let before = device.mode;
        device.mode = before.map(|mode| MigMode::settled(mode.pending));
        let changed = before.filter(|mode| mode.current != mode.pending);
        self.log(Some(gpu), Happened::Reset);
        if let Some(mode) = changed {
            self.log(Some(gpu), Happened::ModeChanged { to: mode.pending });
        }
    }
}
