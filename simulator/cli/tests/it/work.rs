//! `slicewright-sim node work`: how our container uses the slices that it was given.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpu::{Caller, NvmlError};
use store::{State, Store};

/// A node with one slice; its UUID.
fn with_a_slice(dir: &Path) -> String {
    let mut setup = Command::new(env!("CARGO_BIN_EXE_slicewright-sim"));
    setup.args(["node", "--dir"]).arg(dir).args(["setup", "--gpus", "a100-80gb", "--mig"]);
    assert!(setup.stdout(Stdio::null()).status().unwrap().success());
    let store = Store::open(dir).unwrap();
    let cut = |state: &mut State| {
        let mut nvml = state.machine.nvml(Caller::Root);
        let device = nvml.device_handle_by_index(0)?;
        let instance = nvml.create_gpu_instance(device, 19)?;
        nvml.create_compute_instance(instance, 0)?;
        let gpu = &state.machine.gpus()[0];
        let (gi, ci) = gpu.mig_devices().next().unwrap();
        Ok::<_, NvmlError>(gpu.mig_uuid(gi, ci))
    };
    store.update(cut).unwrap().unwrap()
}

/// A workload that has said so many lines.
fn works(dir: &Path, uuid: &str, options: &[&str], lines: usize) -> (Child, Vec<String>) {
    let mut work = Command::new(env!("CARGO_BIN_EXE_slicewright-sim"));
    work.args(["node", "work"]).args(options).env(store::DIRECTORY_VARIABLE, dir);
    work.env("NVIDIA_VISIBLE_DEVICES", uuid).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = work.spawn().unwrap();
    let said = BufReader::new(child.stdout.as_mut().unwrap()).lines().take(lines);
    let said = said.collect::<Result<_, _>>().unwrap();
    (child, said)
}

/// What `nvidia-smi mig -dci` asks for.
fn destroy(state: &mut State) -> Result<(), NvmlError> {
    let mut nvml = state.machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(0)?;
    let instance = nvml.gpu_instance_by_id(device, 13)?;
    let compute = nvml.compute_instance_by_id(instance, 0)?;
    nvml.destroy_compute_instance(compute)
}

fn told_to_stop(mut child: Child) {
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(told.success() && child.wait().unwrap().success());
}

#[test]
fn a_workload_has_its_slice_open_until_it_is_told_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let uuid = with_a_slice(dir.path());
    let (child, said) = works(dir.path(), &uuid, &[], 2);
    assert_eq!(said, [format!("given: {uuid}"), format!("open: {uuid}")]);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.update(destroy).unwrap(), Err(NvmlError::InUse));
    told_to_stop(child);
    assert_eq!(store.update(destroy).unwrap(), Ok(()));
}

#[test]
fn an_idle_notebook_opens_nothing_so_that_nvml_does_not_protect_it() {
    let dir = tempfile::tempdir().unwrap();
    let uuid = with_a_slice(dir.path());
    let (child, said) = works(dir.path(), &uuid, &["--opens", "never"], 2);
    assert_eq!(said[1], "idle: opens nothing");
    assert_eq!(Store::open(dir.path()).unwrap().update(destroy).unwrap(), Ok(()));
    told_to_stop(child);
}

#[test]
fn a_slice_that_is_taken_away_is_said_and_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let uuid = with_a_slice(dir.path());
    let (mut child, _) = works(dir.path(), &uuid, &[], 2);
    Store::open(dir.path()).unwrap().update(|state| state.machine.reboot()).unwrap();
    assert!(!child.wait().unwrap().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("was taken away while it was open"), "{said}");
}

#[test]
fn a_slice_that_is_not_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    with_a_slice(dir.path());
    for (given, expected) in [
        ("MIG-none", "nothing here has the UUID MIG-none"),
        ("0:13", "\"0:13\" is no UUID of a GPU or slice"),
    ] {
        let (mut child, _) = works(dir.path(), given, &[], 0);
        assert!(!child.wait().unwrap().success());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}
