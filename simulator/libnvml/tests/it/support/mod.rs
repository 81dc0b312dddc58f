//! A simulated node in a folder of its own, and the built library over it,
//! loaded as every program loads it.
#![allow(unsafe_code, reason = "the environment is set, and a library loaded")]
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod functions;
pub(crate) mod layouts;
pub(crate) mod raw;
pub(crate) mod sweep;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu::{DriverBranch, Machine, Model};
use nvml_wrapper_sys::bindings::NvmlLib;
use store::{State, Store};
use tempfile::TempDir;

/// The environment names the folder, and a process has one environment.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A node and the library over it.
pub(crate) struct Sim {
    pub(crate) store: Store,
    pub(crate) lib: NvmlLib,
    library: PathBuf,
    _dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// The library as cargo built it, beside the test.
pub(crate) fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().join("libsimulated_nvml.so");
    assert!(built.exists(), "{} is not there: cargo builds it with the test", built.display());
    built
}

/// A machine with GPUs of these models.
pub(crate) fn machine(models: &[&str]) -> Machine {
    let mut machine = Machine::new("node-a", DriverBranch::default(), store::now());
    for model in models {
        machine = machine.with_gpu(&Model::find(model).unwrap());
    }
    machine
}

impl Sim {
    /// A node with this machine.
    pub(crate) fn new(machine: Machine) -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = TempDir::new().unwrap();
        let store = Store::create(&dir.path().join("state"), State::new(machine)).unwrap();
        // SAFETY: only the holder of the lock reads or writes the environment in these tests.
        unsafe {
            std::env::set_var(store::DIRECTORY_VARIABLE, store.dir());
            std::env::set_var("SLICEWRIGHT_SIM_PRIVILEGED", "1");
        }
        // SAFETY: loading it runs no code of ours.
        let lib = unsafe { NvmlLib::new(built()) }.unwrap();
        Self { store, lib, library: built(), _dir: dir, _alone: alone }
    }

    /// A node with GPUs of these models.
    pub(crate) fn with(models: &[&str]) -> Self {
        Self::new(machine(models))
    }

    /// The caller is an ordinary user from the next initialisation on.
    pub(crate) fn for_a_user(self) -> Self {
        // SAFETY: as above.
        unsafe { std::env::set_var("SLICEWRIGHT_SIM_PRIVILEGED", "0") }
        self
    }

    /// The library through the wrapper that Rust programs use.
    pub(crate) fn wrapper(&self) -> nvml_wrapper::Nvml {
        nvml_wrapper::Nvml::builder().lib_path(self.library.as_os_str()).init().unwrap()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // The library may stay loaded, and the next node is another one.
        while self.shutdown().is_ok() {}
    }
}
