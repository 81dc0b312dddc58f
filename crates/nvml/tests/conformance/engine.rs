//! The port over the engine, in process. It is written for its own sake, from
//! the trait's promises, and shares nothing with the adapter: where the two
//! disagree, one of them is wrong.

use std::cell::RefCell;
use std::time::Duration;

use gpu::{Caller, Happened as Engine, InstanceHandle, Machine, NvmlError, Placement};
use nvml::conformance::{Bench, CHANGING, Story, reading};
use nvml::port::{
    Answer, Created, Destroyed, Device, Engines, Event, Found, Gpu, GpuUuid, Gpus, Happened, Layout, MigMode,
    Mode, ModeSet, Place, PortError, Process, Profile, Silent, Slice, Span,
};
use nvml::{Code, Error};

use crate::others::{Behind, machine};

/// The port over a machine that others share.
pub(crate) struct InProcess<'m> {
    machine: &'m RefCell<Machine>,
    /// How many events were told, once somebody asked.
    told: Option<u64>,
}

impl<'m> InProcess<'m> {
    pub(crate) fn new(machine: &'m RefCell<Machine>) -> Self {
        Self { machine, told: None }
    }

    fn engine<T>(&self, call: impl FnOnce(&mut gpu::Nvml<'_>) -> gpu::Reply<T>) -> gpu::Reply<T> {
        call(&mut self.machine.borrow_mut().nvml(Caller::Root))
    }

    fn device(&self, uuid: &GpuUuid) -> Answer<gpu::Device> {
        let whole = |device: gpu::Device| match device {
            gpu::Device::Gpu { .. } => Ok(device),
            gpu::Device::Mig(_) => Err(NvmlError::NotFound),
        };
        let found = self.engine(|nvml| nvml.device_handle_by_uuid(&uuid.0)).and_then(whole);
        found.map_err(|_| PortError::NoSuchGpu {
            gpu: uuid.clone(),
            known: self.machine.borrow().gpus().iter().map(|gpu| GpuUuid(gpu.uuid.clone())).collect(),
        })
    }

    fn mode(&self, uuid: &GpuUuid) -> Answer<gpu::MigMode> {
        let device = self.device(uuid)?;
        self.engine(|nvml| nvml.mig_mode(device)).map_err(|error| match error {
            NvmlError::NotSupported => PortError::NoMig { gpu: uuid.clone() },
            error => driver(uuid, error),
        })
    }

    fn handle(&self, uuid: &GpuUuid, slice: &Slice) -> Answer<InstanceHandle> {
        let device = self.device(uuid)?;
        let id = u8::try_from(slice.gpu_instance).unwrap();
        self.engine(|nvml| nvml.gpu_instance_by_id(device, id)).map_err(|error| driver(uuid, error))
    }

    fn fill(&self, handle: InstanceHandle) -> gpu::Reply<()> {
        let profiles = self.engine(|nvml| nvml.compute_instance_profiles(handle))?;
        let whole = profiles.iter().map(|(profile, _)| profile).find(|profile| profile.default).unwrap();
        self.engine(|nvml| nvml.create_compute_instance(handle, whole.id)).map(drop)
    }

    fn slices(&self, device: gpu::Device) -> gpu::Reply<Vec<Slice>> {
        let mut slices = Vec::new();
        for profile in self.offered(device)? {
            for handle in self.engine(|nvml| nvml.gpu_instances(device, profile.id))? {
                let info = self.engine(|nvml| nvml.gpu_instance_info(handle))?;
                let span = Span { start: info.placement.start, size: info.placement.size };
                let mut devices = Vec::new();
                for compute in self.engine(|nvml| nvml.compute_instances(handle))? {
                    let compute = self.engine(|nvml| nvml.compute_instance_info(compute))?;
                    let uuid = self.mig_uuid(device, info.id, compute.id)?;
                    let whole = compute.placement.size == profile.slices;
                    devices.push(Device { uuid, compute_instance: compute.id.into(), whole });
                }
                slices.push(Slice {
                    profile: profile.name.to_string(),
                    span: Some(span),
                    gpu_instance: info.id.into(),
                    devices,
                });
            }
        }
        slices.sort_by_key(|slice| slice.span);
        Ok(slices)
    }

    fn mig_uuid(&self, device: gpu::Device, gi: u8, ci: u8) -> gpu::Reply<String> {
        let most = self.engine(|nvml| nvml.max_mig_device_count(device))?;
        for index in 0..most {
            let mig = self.engine(|nvml| nvml.mig_device_handle_by_index(device, index))?;
            if self.engine(|nvml| nvml.instance_ids(mig))? == (gi, ci) {
                return self.engine(|nvml| nvml.uuid(mig));
            }
        }
        Err(NvmlError::NotFound)
    }

    fn offered(&self, device: gpu::Device) -> gpu::Reply<Vec<gpu::ProfileFacts>> {
        let mut profiles = Vec::new();
        for number in 0..gpu::GPU_INSTANCE_PROFILE_COUNT {
            match self.engine(|nvml| nvml.gpu_instance_profile_info(device, number)) {
                Ok(profile) => profiles.push(profile),
                Err(NvmlError::NotSupported) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(profiles)
    }
}

fn code(error: NvmlError) -> Code {
    Code::check(error.code()).unwrap_err()
}

fn failed(error: NvmlError) -> Error {
    Error::Failed { call: "the engine", code: code(error) }
}

fn driver(gpu: &GpuUuid, error: NvmlError) -> PortError {
    PortError::Driver { doing: "use", gpu: gpu.clone(), source: failed(error) }
}

fn mode(mode: gpu::Mode) -> Mode {
    match mode {
        gpu::Mode::Disabled => Mode::Disabled,
        gpu::Mode::Enabled => Mode::Enabled,
    }
}

impl Gpus for InProcess<'_> {
    fn enumerate(&mut self) -> Answer<Found> {
        let machine = self.machine.borrow();
        let (silent, live): (Vec<_>, Vec<_>) = (0u32..).zip(machine.gpus()).partition(|(_, gpu)| gpu.lost);
        let describe = |(index, gpu): (u32, &gpu::Gpu)| Gpu {
            index,
            uuid: GpuUuid(gpu.uuid.clone()),
            name: gpu.model.product.clone(),
            bus_id: gpu.bus_id.clone(),
            memory_mib: gpu.model.memory_mib.into(),
            mode: gpu.mode.map(|m| MigMode { current: mode(m.current), pending: mode(m.pending) }),
        };
        let silence = |(index, _)| Silent { index, error: failed(NvmlError::GpuIsLost) };
        Ok(Found {
            driver: format!("{}.65.06", machine.driver().0),
            gpus: live.into_iter().map(describe).collect(),
            silent: silent.into_iter().map(silence).collect(),
        })
    }

    fn profiles(&mut self, gpu: &GpuUuid) -> Answer<Vec<Profile>> {
        let device = self.device(gpu)?;
        let offered = self.offered(device).map_err(|error| driver(gpu, error))?;
        let profile = |facts: gpu::ProfileFacts| {
            let places = self.engine(|nvml| nvml.gpu_instance_possible_placements(device, facts.id))?;
            let gpu::Engines { copy, decoder, encoder, jpeg, ofa } = facts.engines;
            Ok(Profile {
                name: facts.name.to_string(),
                id: facts.id,
                number: facts.nvml_enum,
                slices: facts.slices,
                max_instances: facts.max_instances.into(),
                multiprocessors: facts.sm,
                memory_mib: facts.memory_mib.into(),
                engines: Engines { copy, decoder, encoder, jpeg, ofa },
                places: places.iter().map(|p| Span { start: p.start, size: p.size }).collect(),
            })
        };
        offered.into_iter().map(profile).collect::<gpu::Reply<_>>().map_err(|error| driver(gpu, error))
    }

    fn layout(&mut self, gpu: &GpuUuid) -> Answer<Layout> {
        let device = self.device(gpu)?;
        let on = self.mode(gpu).or_else(|error| match error {
            PortError::NoMig { .. } => Ok(gpu::MigMode::OFF),
            error => Err(error),
        })?;
        let slices = match on.current {
            gpu::Mode::Disabled => Vec::new(),
            gpu::Mode::Enabled => self.slices(device).map_err(|error| driver(gpu, error))?,
        };
        let machine = self.machine.borrow();
        let here = |index: u16| machine.gpu(index).is_some_and(|g| g.uuid == gpu.0);
        let process = |client: &gpu::Client| Process {
            pid: client.pid,
            name: Some(client.name.clone()),
            memory_mib: Some(client.memory_mib.into()),
            instance: match client.target {
                gpu::Target::ComputeInstance(_, gi, ci) => Some((gi.into(), ci.into())),
                gpu::Target::Gpu(_) | gpu::Target::GpuInstance(..) => None,
            },
        };
        let clients = machine.clients().map(|(_, client)| client);
        let computing = clients.filter(|c| here(c.target.gpu()) && c.activity.has_context());
        Ok(Layout { slices, processes: Some(computing.map(process).collect()) })
    }

    fn set_mode(&mut self, gpu: &GpuUuid, wanted: Mode) -> Answer<ModeSet> {
        let target = match wanted {
            Mode::Disabled => gpu::Mode::Disabled,
            Mode::Enabled => gpu::Mode::Enabled,
        };
        let before = self.mode(gpu)?;
        if before == gpu::MigMode::settled(target) {
            return Ok(ModeSet::AlreadySo);
        }
        let slices = self.layout(gpu)?.slices;
        if wanted == Mode::Disabled && !slices.is_empty() {
            let slices = slices.iter().map(|slice| slice.place().unwrap().to_string()).collect();
            return Err(PortError::HasSlices { gpu: gpu.clone(), slices });
        }
        let device = self.device(gpu)?;
        let said = self.engine(|nvml| nvml.set_mig_mode(device, target));
        let after = self.mode(gpu)?;
        match said {
            _ if after == gpu::MigMode::settled(target) => Ok(ModeSet::Changed),
            Err(error) => Err(driver(gpu, error)),
            Ok(gpu::Activation::InUse) => Ok(ModeSet::Pending { why: Code::InUse }),
            Ok(gpu::Activation::ResetRequired) => Ok(ModeSet::Pending { why: Code::ResetRequired }),
            Ok(gpu::Activation::Success) => {
                Err(PortError::NoEffect { gpu: gpu.clone(), what: "the mode".to_owned() })
            }
        }
    }

    fn create(&mut self, gpu: &GpuUuid, place: &Place) -> Answer<Created> {
        if self.mode(gpu)?.current == gpu::Mode::Disabled {
            return Err(PortError::MigIsOff { gpu: gpu.clone() });
        }
        let device = self.device(gpu)?;
        let offered = self.offered(device).map_err(|error| driver(gpu, error))?;
        let known = || offered.iter().map(|p| p.name.to_string()).collect();
        let Some(facts) = offered.iter().find(|p| p.name.to_string() == place.profile) else {
            let profile = place.profile.clone();
            return Err(PortError::NoSuchProfile { gpu: gpu.clone(), profile, known: known() });
        };
        let places = self.engine(|nvml| nvml.gpu_instance_possible_placements(device, facts.id));
        let places = places.map_err(|error| driver(gpu, error))?;
        let Some(at) = places.iter().find(|at| at.start == place.start).copied() else {
            let starts = places.iter().map(|at| at.start).collect();
            return Err(PortError::NoSuchPlace { gpu: gpu.clone(), place: place.clone(), starts });
        };
        let before = self.layout(gpu)?;
        let there = before.at(place);
        let said = match there {
            Some(slice) if slice.is_whole() => return Ok(Created::AlreadyThere(slice.clone())),
            Some(slice) if slice.devices.is_empty() => self.fill(self.handle(gpu, slice)?),
            Some(slice) => {
                let parts = slice.devices.len();
                return Err(PortError::Divided { gpu: gpu.clone(), place: place.clone(), parts });
            }
            None => {
                let Placement { start, size } = at;
                let span = Span { start, size };
                if let Some(by) = before.slices.iter().find(|s| s.span.unwrap().overlaps(span)) {
                    let by = by.place().unwrap();
                    return Err(PortError::Occupied { gpu: gpu.clone(), place: place.clone(), by });
                }
                match self.engine(|nvml| nvml.create_gpu_instance_with_placement(device, facts.id, at)) {
                    Ok(handle) if self.engine(|nvml| nvml.gpu_instance_info(handle)).is_ok() => {
                        self.fill(handle)
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        };
        let after = self.layout(gpu)?;
        match (after.at(place), said) {
            (Some(slice), _) if slice.is_whole() => Ok(match there {
                Some(_) => Created::Completed(slice.clone()),
                None => Created::New(slice.clone()),
            }),
            (None, Err(error)) => Err(driver(gpu, error)),
            (None, Ok(())) => Err(PortError::NoEffect { gpu: gpu.clone(), what: place.to_string() }),
            (Some(slice), said) => {
                let handle = self.handle(gpu, slice)?;
                let gone = there.is_none() && self.engine(|nvml| nvml.destroy_gpu_instance(handle)).is_ok();
                Err(match said {
                    Ok(()) => PortError::NoEffect { gpu: gpu.clone(), what: place.to_string() },
                    Err(error) if gone => driver(gpu, error),
                    Err(error) => PortError::Incomplete {
                        gpu: gpu.clone(),
                        place: place.clone(),
                        source: failed(error),
                    },
                })
            }
        }
    }

    fn destroy(&mut self, gpu: &GpuUuid, place: &Place) -> Answer<Destroyed> {
        let before = self.layout(gpu)?;
        let Some(slice) = before.at(place) else { return Ok(Destroyed::AlreadyGone) };
        let handle = self.handle(gpu, slice)?;
        let inside = self.engine(|nvml| nvml.compute_instances(handle)).map_err(|e| driver(gpu, e))?;
        let first = inside
            .into_iter()
            .filter_map(|inside| self.engine(|nvml| nvml.destroy_compute_instance(inside)).err())
            .next();
        let said = self.engine(|nvml| nvml.destroy_gpu_instance(handle));
        let after = self.layout(gpu)?;
        let Some(left) = after.at(place) else { return Ok(Destroyed::Gone) };
        let lie = || PortError::NoEffect { gpu: gpu.clone(), what: place.to_string() };
        Err(match (first, said) {
            (_, Ok(())) => lie(),
            (None, Err(NvmlError::InUse)) if !left.devices.is_empty() => lie(),
            (Some(NvmlError::InUse), _) | (None, Err(NvmlError::InUse)) => {
                let processes = before.on(slice).cloned().collect();
                PortError::InUse { gpu: gpu.clone(), place: place.clone(), processes }
            }
            (Some(error), _) | (None, Err(error)) => driver(gpu, error),
        })
    }

    fn events(&mut self, _: Duration) -> Answer<Vec<Event>> {
        let machine = self.machine.borrow();
        let new = machine.events_from(self.told.unwrap_or(machine.event_count()));
        let what = |happened: &Engine| match happened {
            Engine::ModeChanged { .. }
            | Engine::Created { .. }
            | Engine::Destroyed { .. }
            | Engine::ComputeCreated { .. }
            | Engine::ComputeDestroyed { .. } => Some(Happened::Repartitioned),
            Engine::EccErrors { corrected: _, uncorrected } => {
                (*uncorrected > 0).then_some(Happened::MemoryError)
            }
            Engine::Xid { code } => Some(Happened::Xid((*code).into())),
            Engine::ModePending { .. }
            | Engine::Reset
            | Engine::Rebooted
            | Engine::DriverReloaded
            | Engine::Breach { .. }
            | Engine::FaultStruck { .. }
            | Engine::FellOffTheBus => None,
        };
        let uuid = |index: Option<u16>| index.and_then(|i| machine.gpu(i)).map(|g| GpuUuid(g.uuid.clone()));
        let events =
            new.iter().filter_map(|e| Some(Event { gpu: uuid(e.gpu), what: what(&e.what)? })).collect();
        self.told = Some(machine.event_count());
        Ok(events)
    }
}

struct InMemory;

impl Bench for InMemory {
    fn play(&self, story: Story) {
        let machine = RefCell::new(machine());
        let others = Behind(|work: &mut dyn FnMut(&mut Machine)| work(&mut machine.borrow_mut()));
        story(&mut InProcess::new(&machine), &others);
    }
}

#[test]
fn the_engine_keeps_what_the_port_promises() {
    for (name, story) in CHANGING {
        println!("{name}");
        InMemory.play(*story);
    }
}

#[test]
fn what_the_engine_tells_hangs_together() {
    let machine = RefCell::new(machine());
    let read = reading(&mut InProcess::new(&machine));
    assert_eq!(read[1], "GPU 1 Tesla T4: without MIG, 0 profiles, 0 slices");
    assert_eq!(read.len(), 3);
}
