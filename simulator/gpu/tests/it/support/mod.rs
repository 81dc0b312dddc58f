//! Machines and commands that read as an administrator would type them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Arc;

use gpu::{
    Activity, Caller, Client, ClientId, Device, DriverBranch, InstanceHandle, Labelling, Machine, Mode,
    Model, NvmlError, Target,
};
use jiff::Timestamp;

pub fn start() -> Timestamp {
    "2026-11-20T09:00:00Z".parse().unwrap()
}

/// A machine with one GPU of a model, MIG on.
pub fn cut_ready(model: &str) -> Machine {
    cut_ready_labelled(model, Labelling::V1)
}

pub fn cut_ready_labelled(model: &str, labelling: Labelling) -> Machine {
    let mut machine = Machine::new("dgx", DriverBranch::default(), start())
        .with_gpu_labelled(&self::model(model), labelling);
    mig(&mut machine, 0, Mode::Enabled).unwrap();
    machine
}

/// `nvidia-smi -i GPU -mig MODE`
pub fn mig(machine: &mut Machine, gpu: u16, mode: Mode) -> Result<gpu::Activation, NvmlError> {
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu)?;
    nvml.set_mig_mode(device, mode)
}

/// `nvidia-smi mig -i GPU -cgi IDS -C`: what is created until one fails.
pub fn cgi(machine: &mut Machine, gpu: u16, ids: &[u32]) -> (Vec<String>, Option<NvmlError>) {
    let mut created = Vec::new();
    for id in ids {
        match create(machine, gpu, *id) {
            Ok(handle) => {
                let mut nvml = machine.nvml(Caller::Root);
                let info = nvml.gpu_instance_info(handle).unwrap();
                created.push(format!("{}@{}:{}", info.id, info.placement.start, info.placement.size));
            }
            Err(error) => return (created, Some(error)),
        }
    }
    (created, None)
}

/// One GPU instance with its default compute instance.
pub fn create(machine: &mut Machine, gpu: u16, id: u32) -> Result<InstanceHandle, NvmlError> {
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu)?;
    let gi = nvml.create_gpu_instance(device, id)?;
    let profiles = nvml.compute_instance_profiles(gi)?;
    let (default, _) = profiles.iter().find(|(p, _)| p.default).expect("every GPU instance has a default");
    nvml.create_compute_instance(gi, default.id)?;
    Ok(gi)
}

/// `nvidia-smi -L`: index, profile and UUID of the MIG devices.
pub fn mig_devices(machine: &mut Machine, gpu: u16) -> Vec<(u16, String, String)> {
    let mut nvml = machine.nvml(Caller::User);
    let device = nvml.device_handle_by_index(gpu).unwrap();
    let mut found = Vec::new();
    for index in 0..nvml.max_mig_device_count(device).unwrap() {
        match nvml.mig_device_handle_by_index(device, index) {
            Ok(mig) => {
                let name = nvml.name(mig).unwrap();
                let (_, profile) = name.split_once(" MIG ").unwrap();
                found.push((nvml.index(mig).unwrap(), profile.to_owned(), nvml.uuid(mig).unwrap()));
            }
            Err(error) => assert_eq!(error, NvmlError::NotFound),
        }
    }
    found
}

/// `nvidia-smi mig -i GPU -dci`: GPU instance and compute instance ids, in order.
pub fn dci(machine: &mut Machine, gpu: u16) -> Result<Vec<(u8, u8)>, NvmlError> {
    let mut gone = Vec::new();
    for gi in instances(machine, gpu) {
        let mut nvml = machine.nvml(Caller::Root);
        let id = nvml.gpu_instance_info(gi)?.id;
        for ci in nvml.compute_instances(gi)? {
            let ci_id = nvml.compute_instance_info(ci)?.id;
            nvml.destroy_compute_instance(ci)?;
            gone.push((id, ci_id));
        }
    }
    Ok(gone)
}

/// `nvidia-smi mig -i GPU -dgi`
pub fn dgi(machine: &mut Machine, gpu: u16) -> Result<Vec<u8>, NvmlError> {
    let mut gone = Vec::new();
    for gi in instances(machine, gpu) {
        let mut nvml = machine.nvml(Caller::Root);
        let id = nvml.gpu_instance_info(gi)?.id;
        nvml.destroy_gpu_instance(gi)?;
        gone.push(id);
    }
    Ok(gone)
}

/// The GPU instances, by id.
pub fn instances(machine: &mut Machine, gpu: u16) -> Vec<InstanceHandle> {
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu).unwrap();
    (0..15).filter_map(|id| nvml.gpu_instance_by_id(device, id).ok()).collect()
}

pub fn device(machine: &mut Machine, gpu: u16) -> Device {
    machine.nvml(Caller::Root).device_handle_by_index(gpu).unwrap()
}

pub fn open(machine: &mut Machine, name: &str, target: Target, activity: Activity) -> ClientId {
    machine.open(Client { pid: 2180, name: name.to_owned(), target, activity, memory_mib: 0 }).unwrap()
}

pub fn model(name: &str) -> Arc<Model> {
    Model::find(name).unwrap()
}
