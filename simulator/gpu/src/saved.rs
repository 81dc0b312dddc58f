//! Saves and restores a machine: the saved text is complete, and it is checked when it is read, since it
//! may have been edited.
//!
//! Models are saved completely, once for all GPUs of a model, and not by their name: a state has the same
//! meaning for a program with another catalogue, and a card that is in no catalogue can be saved like any
//! other.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mig::Geometry;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::device::{Allocation, EccErrors, Gpu, GpuInstance, Labelling};
use crate::driver::DriverBranch;
use crate::event::{Breach, Event};
use crate::fault::{Armed, Scheduled, Stall};
use crate::machine::{Client, ClientId, Machine, Target};
use crate::meter::Meter;
use crate::mode::MigMode;
use crate::model::Model;
use crate::topology::Topology;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    host: String,
    driver: DriverBranch,
    passthrough: bool,
    /// States of before it was known are of hosts that were built plainly.
    #[serde(default)]
    topology: Topology,
    now: Timestamp,
    booted: Timestamp,
    boots: u32,
    epoch: u64,
    generation: u64,
    models: Vec<Model>,
    gpus: Vec<SavedGpu>,
    clients: BTreeMap<ClientId, Client>,
    next_client: u64,
    armed: Armed,
    scheduled: Vec<Scheduled>,
    stall: Stall,
    events: Vec<Event>,
    forgotten: u64,
    breaches: Vec<Breach>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedGpu {
    /// Its place in the list of models.
    model: usize,
    uuid: String,
    bus_id: String,
    labelling: Labelling,
    mode: Option<MigMode>,
    persistence: bool,
    lost: bool,
    instances: BTreeMap<u8, GpuInstance>,
    allocation: Option<Allocation>,
    last_xid: Option<u32>,
    ecc: EccErrors,
    #[serde(default)]
    power_limit_mw: Option<u32>,
    /// States of before there was one begin to count when they are read.
    #[serde(default)]
    meter: Option<Meter>,
}

impl From<Machine> for Saved {
    fn from(machine: Machine) -> Self {
        let Machine {
            host,
            driver,
            passthrough,
            topology,
            now,
            booted,
            boots,
            epoch,
            generation,
            gpus,
            clients,
            next_client,
            armed,
            scheduled,
            stall,
            events,
            forgotten,
            breaches,
        } = machine;
        let mut models: Vec<Model> = Vec::new();
        let mut saved = Vec::new();
        for gpu in gpus {
            let Gpu {
                model,
                uuid,
                bus_id,
                labelling,
                mode,
                persistence,
                lost,
                instances,
                allocation,
                last_xid,
                ecc,
                power_limit_mw,
                meter,
                // The machine's.
                driver: _,
            } = gpu;
            let model = models.iter().position(|other| *other == *model).unwrap_or_else(|| {
                models.push(Model::clone(&model));
                models.len() - 1
            });
            saved.push(SavedGpu {
                model,
                uuid,
                bus_id,
                labelling,
                mode,
                persistence,
                lost,
                instances,
                allocation,
                last_xid,
                ecc,
                power_limit_mw,
                meter: Some(meter),
            });
        }
        Self {
            host,
            driver,
            passthrough,
            topology,
            now,
            booted,
            boots,
            epoch,
            generation,
            models,
            gpus: saved,
            clients,
            next_client,
            armed,
            scheduled,
            stall,
            events,
            forgotten,
            breaches,
        }
    }
}

impl TryFrom<Saved> for Machine {
    type Error = String;

    fn try_from(saved: Saved) -> Result<Self, String> {
        let Saved {
            host,
            driver,
            passthrough,
            topology,
            now,
            booted,
            boots,
            epoch,
            generation,
            models,
            gpus,
            clients,
            next_client,
            armed,
            scheduled,
            stall,
            events,
            forgotten,
            breaches,
        } = saved;
        if gpus.len() > 32 {
            return Err(format!("{} GPUs; a host has at most 32", gpus.len()));
        }
        let models: Vec<_> = models.into_iter().map(Arc::new).collect();
        let mut read = Vec::with_capacity(gpus.len());
        for (index, gpu) in gpus.into_iter().enumerate() {
            let gpu = gpu.read(&models, driver, now).map_err(|error| format!("GPU {index}: {error}"))?;
            read.push(gpu);
        }
        let machine = Self {
            host,
            driver,
            passthrough,
            topology,
            now,
            booted,
            boots,
            epoch,
            generation,
            gpus: read,
            clients,
            next_client,
            armed,
            scheduled,
            stall,
            events,
            forgotten,
            breaches,
        };
        machine.check_clients()?;
        Ok(machine)
    }
}

impl Machine {
    /// Whether another machine differs from this one in its time at most.
    #[must_use]
    pub fn equals_but_for_time(&self, other: &Self) -> bool {
        let Self {
            host,
            driver,
            passthrough,
            topology,
            now: _,
            booted,
            boots,
            epoch,
            generation,
            gpus,
            clients,
            next_client,
            armed,
            scheduled,
            stall,
            events,
            forgotten,
            breaches,
        } = self;
        (host, driver, passthrough, topology, booted, boots)
            == (&other.host, &other.driver, &other.passthrough, &other.topology, &other.booted, &other.boots)
            && (epoch, generation, next_client) == (&other.epoch, &other.generation, &other.next_client)
            && (gpus, clients) == (&other.gpus, &other.clients)
            && (armed, scheduled, stall) == (&other.armed, &other.scheduled, &other.stall)
            && (events, forgotten, breaches) == (&other.events, &other.forgotten, &other.breaches)
    }

    fn check_clients(&self) -> Result<(), String> {
        for (id, client) in &self.clients {
            let gpu = self.gpu(client.target.gpu());
            let there = gpu.is_some_and(|gpu| match client.target {
                Target::Gpu(_) => true,
                Target::GpuInstance(_, gi) => gpu.instances.contains_key(&gi),
                Target::ComputeInstance(_, gi, ci) => {
                    gpu.instances.get(&gi).is_some_and(|gi| gi.compute.contains_key(&ci))
                }
            });
            if !there {
                return Err(format!("client {} has {:?} open, which is not there", id.0, client.target));
            }
            if id.0 >= self.next_client {
                return Err(format!(
                    "client {} is numbered higher than the next one, {}",
                    id.0, self.next_client
                ));
            }
        }
        Ok(())
    }
}

impl SavedGpu {
    fn read(self, models: &[Arc<Model>], driver: DriverBranch, now: Timestamp) -> Result<Gpu, String> {
        let Self {
            model,
            uuid,
            bus_id,
            labelling,
            mode,
            persistence,
            lost,
            instances,
            allocation,
            last_xid,
            ecc,
            power_limit_mw,
            meter,
        } = self;
        let model = models.get(model).ok_or_else(|| format!("there is no model {model}"))?;
        if model.mig.is_some() != mode.is_some() {
            return Err(format!("a {} and its MIG mode do not go together", model.name));
        }
        let gpu = Gpu {
            model: Arc::clone(model),
            uuid,
            bus_id,
            labelling,
            mode,
            persistence,
            lost,
            instances,
            allocation,
            last_xid,
            ecc,
            power_limit_mw,
            meter: meter.unwrap_or(Meter::from(now)),
            driver,
        };
        match gpu.geometry() {
            Some(geometry) => check_instances(&gpu, geometry)?,
            None if gpu.instances.is_empty() => {}
            None => return Err(format!("a {} cannot have instances", gpu.model.name)),
        }
        Ok(gpu)
    }
}

fn check_instances(gpu: &Gpu, geometry: &Geometry) -> Result<(), String> {
    if !gpu.mig_is_on() && !gpu.instances.is_empty() {
        return Err("instances, and MIG is off".to_owned());
    }
    let count = geometry.placement_count();
    if let Some(gi) = gpu.instances.values().find(|gi| usize::from(gi.placement.0) >= count) {
        return Err(format!("GPU instance {} is at placement {} of {count}", gi.id, gi.placement.0));
    }
    if gpu.layout().len() as usize != gpu.instances.len() || !geometry.is_legal(gpu.layout()) {
        return Err("its GPU instances cannot be on one GPU together".to_owned());
    }
    for (id, gi) in &gpu.instances {
        let place = gpu.id_of(gi.placement);
        if *id != gi.id || *id != place {
            return Err(format!(
                "GPU instance {} is listed as {id}, and its place has the id {place}",
                gi.id
            ));
        }
        let profiles = gpu.compute_profiles(gi);
        let mut taken = 0u32;
        for (id, ci) in &gi.compute {
            let known = profiles
                .iter()
                .any(|p| p.id == ci.profile && p.slices == ci.slices && p.starts.contains(&ci.start));
            let span = ((1u32 << ci.slices.min(16)) - 1) << ci.start.min(15);
            if *id != ci.id || !known || taken & span != 0 {
                return Err(format!("compute instance {id} of GPU instance {} cannot be there", gi.id));
            }
            taken |= span;
        }
    }
    Ok(())
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Saved::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Machine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Saved::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}
