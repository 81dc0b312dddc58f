//! The node: eight A100-80GB, four of them cut, or any other GPUs, as the simulator's library shows them to the agent.

use std::collections::BTreeMap;
use std::path::Path;

use gpu::{Caller, Machine, Mode};
use jiff::Timestamp;
use store::{State, Store};

/// The places of the slices of each GPU; no places: MIG is off.
const CUT: [&[(&str, u8)]; 8] = [
    &[("3g.40gb", 0), ("3g.40gb", 4)],
    &[("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 4)],
    &[("7g.80gb", 0)],
    &[("4g.40gb", 0), ("3g.40gb", 4)],
    &[],
    &[],
    &[],
    &[],
];

/// One GPU: its model, and the places of its slices.
pub(crate) type Cut = (&'static str, &'static [(&'static str, u8)]);

/// The machine, before anybody uses it.
pub(crate) fn machine() -> Machine {
    machine_of(&CUT.map(|places| ("A100-80GB", places)))
}

/// A machine with these GPUs, before anybody uses it.
pub(crate) fn machine_of(gpus: &[Cut]) -> Machine {
    let model = |name| gpu::Model::find(name).unwrap();
    let empty = Machine::new("gpu-7", gpu::DriverBranch::default(), Timestamp::UNIX_EPOCH);
    let mut machine = gpus.iter().fold(empty, |machine, (name, _)| machine.with_gpu(&model(name)));
    for (index, (name, places)) in gpus.iter().enumerate().filter(|(_, (_, places))| !places.is_empty()) {
        let model = model(name);
        let mut nvml = machine.nvml(Caller::Root);
        let device = nvml.device_handle_by_index(u16::try_from(index).unwrap()).unwrap();
        nvml.set_mig_mode(device, Mode::Enabled).unwrap();
        for (profile, start) in *places {
            let profile = model.mig.as_ref().unwrap().named(profile.parse().unwrap()).unwrap();
            let (id, slices) = (profile.id, profile.slices);
            let places = nvml.gpu_instance_possible_placements(device, id).unwrap();
            let placement = *places.iter().find(|place| place.start == *start).unwrap();
            let slice = nvml.create_gpu_instance_with_placement(device, id, placement).unwrap();
            let whole = nvml.compute_instance_profiles(slice).unwrap();
            let whole = whole.iter().find(|(compute, _)| compute.slices == slices).unwrap().0.id;
            nvml.create_compute_instance(slice, whole).unwrap();
        }
    }
    machine
}

/// The devices of a machine, by names such as `1:2g.20gb@4` and `5` for a whole GPU.
pub(crate) fn devices(machine: &Machine) -> BTreeMap<String, String> {
    let mut devices = BTreeMap::new();
    for (index, gpu) in machine.gpus().iter().enumerate() {
        devices.insert(index.to_string(), gpu.uuid.clone());
        for (slice, part) in gpu.mig_devices() {
            let (profile, start) = (gpu.profile_of(slice).name, gpu.span_of(slice).0);
            devices.insert(format!("{index}:{profile}@{start}"), gpu.mig_uuid(slice, part));
        }
    }
    devices
}

pub(crate) fn create(directory: &Path, machine: Machine) -> Store {
    Store::create(directory, State::new(machine)).unwrap()
}
