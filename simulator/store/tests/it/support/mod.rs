//! Nodes and commands, as the tests of the store need them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::path::Path;

use gpu::{Caller, DriverBranch, InstanceHandle, Machine, Mode, Model, Reply};
use store::State;
use tempfile::TempDir;

/// A directory of the test's own.
pub fn fresh() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// So many A100-80GB.
pub fn a100s(count: u16) -> Machine {
    let model = Model::find("A100-80GB").unwrap();
    let machine = Machine::new("dgx", DriverBranch::default(), "2026-11-20T09:00:00Z".parse().unwrap());
    (0..count).fold(machine, |machine, _| machine.with_gpu(&model))
}

/// Switches MIG on.
pub fn mig_on(state: &mut State, gpu: u16) {
    let mut nvml = state.machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu).unwrap();
    nvml.set_mig_mode(device, Mode::Enabled).unwrap();
}

/// Makes a GPU instance of a profile's id.
pub fn create(state: &mut State, gpu: u16, profile: u32) -> Reply<InstanceHandle> {
    let mut nvml = state.machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(gpu)?;
    nvml.create_gpu_instance(device, profile)
}

/// The ids of the GPU instances.
pub fn instances(state: &State, gpu: u16) -> Vec<u8> {
    state.machine.gpu(gpu).unwrap().instances.keys().copied().collect()
}

/// Everything under a folder: paths, with what is there.
pub fn listing(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
            let what = if kind.is_dir() {
                folders.push(path);
                "folder".to_owned()
            } else if kind.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else if kind.is_file() {
                String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
            } else {
                "device".to_owned()
            };
            // The generation in it is another one for each root.
            if name != ".slicewright-sim-files" {
                found.insert(name, what);
            }
        }
    }
    found
}
