//! A host with GPUs: time, boots, the driver, clients that hold GPUs open, the kubelet's record of
//! allocations, and the complete state for callers that may see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::device::{Allocation, EccErrors, Gpu, Labelling};
use crate::driver::DriverBranch;
use crate::error::{NvmlError, Reply};
use crate::event::{Breach, Event, Happened};
use crate::fault::{Armed, Fault, Scheduled, Stall, Verb};
use crate::meter::Meter;
use crate::mode::{MigMode, Mode};
use crate::model::{MigFacts, Model, ProfileFacts};
use crate::topology::Topology;
use crate::uuid;

/// What a client has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Target {
    /// A whole GPU.
    Gpu(u16),
    /// A GPU instance: GPU and id. What monitors such as DCGM keep.
    GpuInstance(u16, u8),
    /// A compute instance: GPU, GPU instance and id. What CUDA opens.
    ComputeInstance(u16, u8, u8),
}

impl Target {
    /// The GPU.
    #[must_use]
    pub const fn gpu(self) -> u16 {
        match self {
            Self::Gpu(gpu) | Self::GpuInstance(gpu, _) | Self::ComputeInstance(gpu, _, _) => gpu,
        }
    }
}

/// What a client does with what it has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Activity {
    /// It watches (an open file): in the way of mode changes and resets.
    Watches,
    /// It has channels and memory, and computes nothing, as a notebook does most
    /// of the time: in the way of everything that `Computes` is in the way of.
    Idles,
    /// It has channels and memory: in the way of creating instances, too,
    /// when it has the whole GPU.
    Computes,
}

impl Activity {
    /// Whether it has channels and memory: NVML lists it, and the GPU's clocks
    /// are up.
    #[must_use]
    pub const fn has_context(self) -> bool {
        match self {
            Self::Watches => false,
            Self::Idles | Self::Computes => true,
        }
    }
}

/// A process that has something open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its process id.
    pub pid: u32,
    /// Its name, such as `nv-hostengine`.
    pub name: String,
    /// What it has open.
    pub target: Target,
    /// What it does with it.
    pub activity: Activity,
    /// How much memory it has there, in MiB.
    pub memory_mib: u32,
}

/// The number of one opening; each is closed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

/// A slice as the kubelet's book names it, or a whole GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Share {
    /// The whole GPU.
    Gpu(u16),
    /// A GPU instance: GPU and id.
    Slice(u16, u8),
}

/// A host with simulated GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub(crate) host: String,
    pub(crate) driver: DriverBranch,
    pub(crate) passthrough: bool,
    pub(crate) topology: Topology,
    pub(crate) now: Timestamp,
    pub(crate) booted: Timestamp,
    pub(crate) boots: u32,
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) next_client: u64,
    pub(crate) armed: Armed,
    pub(crate) scheduled: Vec<Scheduled>,
    pub(crate) stall: Stall,
    pub(crate) events: Vec<Event>,
    /// How many events came before those.
    pub(crate) forgotten: u64,
    pub(crate) breaches: Vec<Breach>,
}

impl Machine {
    /// A host without GPUs, booted at `now`.
    #[must_use]
    pub fn new(host: &str, driver: DriverBranch, now: Timestamp) -> Self {
        Self {
            host: host.to_owned(),
            driver,
            passthrough: false,
            topology: Topology::default(),
            now,
            booted: now,
            boots: 1,
            epoch: 1,
            generation: 0,
            gpus: Vec::new(),
            clients: BTreeMap::new(),
            next_client: 1,
            armed: Armed::default(),
            scheduled: Vec::new(),
            stall: Stall::None,
            events: Vec::new(),
            forgotten: 0,
            breaches: Vec::new(),
        }
    }

    /// The same host as a virtual machine with its GPUs passed through: the
    /// driver cannot reset them itself when their mode changes.
    #[must_use]
    pub fn passed_through(mut self) -> Self {
        self.passthrough = true;
        self
    }

    /// Whether it is a virtual machine with its GPUs passed through.
    #[must_use]
    pub const fn is_passed_through(&self) -> bool {
        self.passthrough
    }

    /// The same host, built like this: GPUs that it gets from now on sit there.
    #[must_use]
    pub fn built_as(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Where its GPUs are.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The same host with one more GPU, numbered as V1 numbers.
    #[must_use]
    pub fn with_gpu(self, model: &Arc<Model>) -> Self {
        self.with_gpu_labelled(model, Labelling::V1)
    }

    /// The same host with one more GPU.
    ///
    /// # Panics
    /// If the host has 32 GPUs already, the most that the driver numbers.
    #[must_use]
    pub fn with_gpu_labelled(mut self, model: &Arc<Model>, labelling: Labelling) -> Self {
        let index = u16::try_from(self.gpus.len()).expect("a host has at most 32 GPUs");
        assert!(index < 32, "a host has at most 32 GPUs");
        let model = for_driver(model, self.driver);
        let mode = model.mig.is_some().then_some(MigMode::OFF);
        self.gpus.push(Gpu {
            uuid: uuid::gpu(&self.host, index),
            bus_id: format!("00000000:{:02X}:00.0", self.topology.seat(index).bus),
            labelling,
            mode,
            persistence: false,
            lost: false,
            instances: BTreeMap::new(),
            allocation: None,
            last_xid: None,
            ecc: EccErrors::default(),
            power_limit_mw: None,
            meter: Meter::from(self.now),
            driver: self.driver,
            model,
        });
        self
    }

    /// Its name.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The driver.
    #[must_use]
    pub const fn driver(&self) -> DriverBranch {
        self.driver
    }

    /// The engine's time.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Since when it is up.
    #[must_use]
    pub fn uptime(&self) -> SignedDuration {
        self.now.duration_since(self.booted)
    }

    /// How often it booted.
    #[must_use]
    pub const fn boots(&self) -> u32 {
        self.boots
    }

    /// The id of this boot.
    #[must_use]
    pub fn boot_id(&self) -> String {
        uuid::boot(&self.host, self.boots)
    }

    /// Its GPUs, by index.
    #[must_use]
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// One GPU.
    #[must_use]
    pub fn gpu(&self, index: u16) -> Option<&Gpu> {
        self.gpus.get(usize::from(index))
    }

    /// The load of the driver that handles are of; another one with each
    /// reboot and reload.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What happened, in order, as far as it is remembered.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many events there were since the machine was made: the number that
    /// the next one will have.
    #[must_use]
    pub fn event_count(&self) -> u64 {
        self.forgotten + self.events.len() as u64
    }

    /// What happened from the event of this number on. Older ones than those
    /// that are remembered are left out.
    #[must_use]
    pub fn events_from(&self, number: u64) -> &[Event] {
        let skip = usize::try_from(number.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        self.events.get(skip..).unwrap_or_default()
    }

    /// Forgets all but the last events, so that a machine that lives for long
    /// stays small.
    pub fn forget_events(&mut self, keep: usize) {
        let old = self.events.len().saturating_sub(keep);
        self.events.drain(..old);
        self.forgotten += old as u64;
    }

    /// How often invariant 1 was broken, and by what.
    #[must_use]
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// How long calls kept their callers since this was last asked.
    pub fn take_stall(&mut self) -> Stall {
        std::mem::take(&mut self.stall)
    }

    /// Lets time pass. What was scheduled until then happens, in order. Time
    /// never runs backwards: an earlier moment changes nothing.
    pub fn advance(&mut self, to: Timestamp) {
        while let Some(i) = self.due(to) {
            let Scheduled { at, fault } = self.scheduled.remove(i);
            self.now = self.now.max(at);
            self.begin(fault);
        }
        self.now = self.now.max(to);
    }

    fn due(&self, to: Timestamp) -> Option<usize> {
        (0..self.scheduled.len())
            .filter(|i| self.scheduled[*i].at <= to)
            .min_by_key(|i| self.scheduled[*i].at)
    }

    /// When something happens by itself next.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.scheduled.iter().map(|s| s.at).min()
    }

    /// Puts a fault on the schedule. One whose moment is past begins with the
    /// next [`advance`](Self::advance).
    pub fn schedule(&mut self, fault: Scheduled) {
        self.scheduled.push(fault);
    }

    /// What is on the schedule, in the order in which it was put there.
    #[must_use]
    pub fn scheduled(&self) -> &[Scheduled] {
        &self.scheduled
    }

    /// The calls that misbehave, first armed first.
    pub fn armed(&self) -> impl Iterator<Item = Fault> {
        self.armed.calls()
    }

    /// Forgets what is on the schedule.
    pub fn clear_schedule(&mut self) {
        self.scheduled.clear();
    }

    /// Begins a fault now. A GPU that is not there has none.
    pub fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Call { verb, gpu, behaviour, times } => self.armed.arm(verb, gpu, behaviour, times),
            Fault::FallsOffTheBus { gpu } => {
                if let Some(device) = self.gpus.get_mut(usize::from(gpu)) {
                    device.lost = true;
                    self.log(Some(gpu), Happened::FellOffTheBus);
                }
            }
            Fault::Xid { gpu, code } => {
                if let Some(device) = self.gpus.get_mut(usize::from(gpu)) {
                    device.last_xid = Some(code);
                    self.log(Some(gpu), Happened::Xid { code });
                }
            }
            Fault::Ecc { gpu, corrected, uncorrected } => {
                if let Some(device) = self.gpus.get_mut(usize::from(gpu)) {
                    device.ecc.add(corrected, uncorrected);
                    self.log(Some(gpu), Happened::EccErrors { corrected, uncorrected });
                }
            }
            Fault::Clear => self.armed.clear(),
        }
    }

    /// A process opens something.
    ///
    /// # Errors
    /// [`NvmlError::NotFound`] if it is not there, [`NvmlError::GpuIsLost`]
    /// if its GPU does not answer.
    pub fn open(&mut self, client: Client) -> Reply<ClientId> {
        let gpu = self.gpu(client.target.gpu()).ok_or(NvmlError::NotFound)?;
        if gpu.lost {
            return Err(NvmlError::GpuIsLost);
        }
        let there = match client.target {
            Target::Gpu(_) => true,
            Target::GpuInstance(_, gi) => gpu.instances.contains_key(&gi),
            Target::ComputeInstance(_, gi, ci) => {
                gpu.instances.get(&gi).is_some_and(|gi| gi.compute.contains_key(&ci))
            }
        };
        if !there {
            return Err(NvmlError::NotFound);
        }
        self.read_meter(client.target.gpu());
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.clients.insert(id, client);
        Ok(id)
    }

    /// A process closes what it opened; closing twice does nothing.
    pub fn close(&mut self, id: ClientId) -> Option<Client> {
        let gpu = self.clients.get(&id)?.target.gpu();
        self.read_meter(gpu);
        self.clients.remove(&id)
    }

    /// The processes that have something open, in the order of opening.
    pub fn clients(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.clients.iter().map(|(id, client)| (*id, client))
    }

    /// Whether anybody has the GPU, or anything on it, open.
    #[must_use]
    pub fn is_busy(&self, gpu: u16) -> bool {
        self.clients.values().any(|c| c.target.gpu() == gpu)
    }

    /// Writes into the kubelet's book that somebody has a share. Allocation
    /// is not use: it keeps nobody from destroying the slice.
    ///
    /// # Errors
    /// [`NvmlError::NotFound`] if there is no such share,
    /// [`NvmlError::InUse`] if it is somebody else's.
    pub fn allocate(&mut self, share: Share, owner: &str) -> Reply<()> {
        let since = self.now;
        let book = self.book(share).ok_or(NvmlError::NotFound)?;
        match book {
            Some(has) if has.owner != owner => Err(NvmlError::InUse),
            Some(_) => Ok(()),
            None => {
                *book = Some(Allocation { owner: owner.to_owned(), since, harmed: false });
                Ok(())
            }
        }
    }

    /// Strikes a share out of the kubelet's book; one that is gone, or free,
    /// stays so.
    pub fn release(&mut self, share: Share) {
        if let Some(book) = self.book(share) {
            *book = None;
        }
    }

    fn book(&mut self, share: Share) -> Option<&mut Option<Allocation>> {
        match share {
            Share::Gpu(gpu) => Some(&mut self.gpus.get_mut(usize::from(gpu))?.allocation),
            Share::Slice(gpu, gi) => {
                Some(&mut self.gpus.get_mut(usize::from(gpu))?.instances.get_mut(&gi)?.allocation)
            }
        }
    }

    /// Reboots the host: every process ends, every instance is gone, MIG mode
    /// stays where the InfoROM keeps it, lost GPUs come back.
    pub fn reboot(&mut self) {
        self.boots += 1;
        self.booted = self.now;
        self.clients.clear();
        for gpu in &mut self.gpus {
            gpu.persistence = false;
            gpu.lost = false;
            gpu.allocation = None;
        }
        self.load_driver();
        self.log(None, Happened::Rebooted);
    }

    /// Unloads the driver and loads it again.
    ///
    /// # Errors
    /// [`NvmlError::InUse`] while any process has any GPU open.
    pub fn reload_driver(&mut self) -> Reply<()> {
        if !self.clients.is_empty() {
            return Err(NvmlError::InUse);
        }
        for index in 0..self.gpus.len() {
            self.harm_all(u16::try_from(index).expect("at most 32"), Verb::Reset);
        }
        self.load_driver();
        self.log(None, Happened::DriverReloaded);
        Ok(())
    }

    fn load_driver(&mut self) {
        self.epoch += 1;
        for gpu in &mut self.gpus {
            gpu.instances.clear();
            gpu.last_xid = None;
            gpu.ecc.start_anew();
            gpu.power_limit_mw = None;
            gpu.meter = Meter::from(self.now);
            let kept = gpu.mig().is_some_and(MigFacts::mode_is_persistent);
            gpu.mode =
                gpu.mode.map(|mode| MigMode::settled(if kept { mode.pending } else { Mode::Disabled }));
        }
    }

    /// Makes this machine the one that is there instead of another: no handle
    /// that somebody has of the other one is valid here.
    pub fn take_the_place_of(&mut self, other: &Self) {
        self.epoch = other.epoch + 1;
        self.generation = self.generation.max(other.generation);
        self.next_client = self.next_client.max(other.next_client);
    }

    pub(crate) fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    pub(crate) fn log(&mut self, gpu: Option<u16>, what: Happened) {
        self.events.push(Event { at: self.now, gpu, what });
    }

    /// Takes everything on a GPU from those who have it, and counts it.
    pub(crate) fn harm_all(&mut self, gpu: u16, by: Verb) {
        self.harm(Share::Gpu(gpu), by);
        let ids: Vec<_> = self.gpus[usize::from(gpu)].instances.keys().copied().collect();
        for id in ids {
            self.harm(Share::Slice(gpu, id), by);
        }
    }

    /// Takes a share from whoever has it, and counts it, once.
    pub(crate) fn harm(&mut self, share: Share, by: Verb) {
        let (gpu, slice) = match share {
            Share::Gpu(gpu) => (gpu, None),
            Share::Slice(gpu, id) => {
                let device = &self.gpus[usize::from(gpu)];
                let gi = &device.instances[&id];
                (gpu, Some((device.profile_of(gi).name, device.span_of(gi).0)))
            }
        };
        let Some(Some(allocation)) = self.book(share) else { return };
        if std::mem::replace(&mut allocation.harmed, true) {
            return;
        }
        let owner = allocation.owner.clone();
        self.breaches.push(Breach { at: self.now, gpu, slice, owner: owner.clone(), by });
        self.log(Some(gpu), Happened::Breach { owner });
    }
}

/// The model with the profiles that the driver knows.
fn for_driver(model: &Arc<Model>, driver: DriverBranch) -> Arc<Model> {
    let Some(mig) = &model.mig else { return Arc::clone(model) };
    let geometry = &mig.geometry;
    let known = geometry.subset(|p| driver.has(p, geometry.memory(), geometry.compute()));
    let memory = |facts: &ProfileFacts| {
        let later = facts.memory_mib_from_driver.range(..=driver.0).next_back();
        later.map_or(facts.memory_mib, |(_, mib)| *mib)
    };
    if known == **geometry && mig.profiles.iter().all(|facts| memory(facts) == facts.memory_mib) {
        return Arc::clone(model);
    }
    let facts = |(i, spec): (u8, &mig::ProfileSpec)| {
        let facts = mig.named(spec.name).expect("every profile has facts");
        ProfileFacts { index: mig::ProfileIndex(i), memory_mib: memory(facts), ..facts.clone() }
    };
    let profiles = (0u8..).zip(known.profiles()).map(facts).collect();
    let mig = MigFacts { architecture: mig.architecture, geometry: Arc::new(known), profiles };
    Arc::new(Model { mig: Some(mig), ..Model::clone(model) })
}
