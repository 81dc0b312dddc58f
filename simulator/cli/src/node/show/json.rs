//! A node for programs. Fields may be added; the existing ones keep their names and meanings.

use std::path::{Path, PathBuf};

use gpu::{Activity, EccErrors, Fault, Gpu, MigMode, Mode, Scheduled};
use serde::Serialize;
use store::{FunctionFault, State};

use crate::node::place;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    directory: PathBuf,
    host: String,
    driver_version: String,
    boots: u32,
    gpus: Vec<GpuOut>,
    clients: Vec<ClientOut>,
    function_faults: Vec<FunctionFault>,
    faults: Vec<Fault>,
    scheduled: Vec<Scheduled>,
    files: Option<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GpuOut {
    index: usize,
    model: String,
    product: String,
    uuid: String,
    pci_bus_id: String,
    memory_mib: u32,
    /// Absent on a card without MIG.
    #[serde(skip_serializing_if = "Option::is_none")]
    mig: Option<ModeOut>,
    lost: bool,
    xid: Option<u32>,
    ecc: EccErrors,
    instances: Vec<Instance>,
}

#[derive(Serialize)]
struct ModeOut {
    current: bool,
    pending: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    id: u8,
    profile: String,
    profile_id: u32,
    start: u8,
    size: u8,
    compute: Vec<Compute>,
}

#[derive(Serialize)]
struct Compute {
    id: u8,
    profile: String,
    uuid: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientOut {
    id: u64,
    pid: u32,
    name: String,
    on: String,
    memory_mib: u32,
    computes: bool,
    /// Whether it is there as long as a process is.
    process: bool,
}

pub(super) fn describe(state: &State, directory: &Path) -> Node {
    let machine = &state.machine;
    let clients = machine.clients().map(|(id, client)| ClientOut {
        id: id.0,
        pid: client.pid,
        name: client.name.clone(),
        on: place::name(client.target),
        memory_mib: client.memory_mib,
        computes: client.activity == Activity::Computes,
        process: state.processes.contains_key(&id),
    });
    Node {
        directory: directory.to_owned(),
        host: machine.host().to_owned(),
        driver_version: state.driver_version.clone(),
        boots: machine.boots(),
        gpus: machine.gpus().iter().enumerate().map(|(index, gpu)| one(index, gpu)).collect(),
        clients: clients.collect(),
        function_faults: state.functions.clone(),
        faults: machine.armed().collect(),
        scheduled: machine.scheduled().to_vec(),
        files: state.files.clone(),
    }
}

fn one(index: usize, gpu: &Gpu) -> GpuOut {
    let mode = |MigMode { current, pending }| ModeOut {
        current: current == Mode::Enabled,
        pending: pending == Mode::Enabled,
    };
    let instance = |gi: &gpu::GpuInstance| {
        let (start, size) = gpu.span_of(gi);
        let compute = gi.compute.values().map(|ci| Compute {
            id: ci.id,
            profile: gpu.mig_profile_name(gi, ci),
            uuid: gpu.mig_uuid(gi, ci),
        });
        let facts = gpu.profile_of(gi);
        let (profile, profile_id) = (facts.name.to_string(), facts.id);
        Instance { id: gi.id, profile, profile_id, start, size, compute: compute.collect() }
    };
    GpuOut {
        index,
        model: gpu.model.name.clone(),
        product: gpu.model.product.clone(),
        uuid: gpu.uuid.clone(),
        pci_bus_id: gpu.bus_id.clone(),
        memory_mib: gpu.model.memory_mib,
        mig: gpu.mode.map(mode),
        lost: gpu.lost,
        xid: gpu.last_xid,
        ecc: gpu.ecc,
        instances: gpu.instances.values().map(instance).collect(),
    }
}
