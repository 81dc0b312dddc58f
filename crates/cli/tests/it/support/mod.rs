//! A simulated node, and the library over it, for a command that is started as
//! a process.

use std::path::{Path, PathBuf};

use gpu::{Activity, Caller, Client, Machine, Mode, Target};
use store::{State, Store};
use tempfile::TempDir;

/// The node, until it is dropped.
pub(crate) struct Node {
    folder: TempDir,
    /// Its state, for what happens to it.
    pub(crate) store: Store,
}

impl Node {
    /// A node with this machine.
    pub(crate) fn with(machine: Machine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("node"), State::new(machine)).unwrap();
        std::os::unix::fs::symlink(built(), folder.path().join("libnvidia-ml.so.1")).unwrap();
        Self { folder, store }
    }

    /// What `SLICEWRIGHT_SIM_DIR` names.
    pub(crate) fn directory(&self) -> &Path {
        self.store.dir()
    }

    /// A folder for `LD_LIBRARY_PATH`, in which the library has its usual name.
    pub(crate) fn libraries(&self) -> &Path {
        self.folder.path()
    }
}

/// The library that cargo built beside this program.
fn built() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libsimulated_nvml.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

/// A workstation as it may be: an A100 with three slices, one of them in use,
/// a display card, and an H100 that is not cut.
pub(crate) fn workstation() -> Machine {
    let model = |name: &str| gpu::Model::find(name).unwrap();
    let display = gpu::Model::without_mig("NVIDIA T1000", 4096, gpu::PciClass::Vga);
    let mut machine = Machine::new("workstation", gpu::DriverBranch::default(), jiff::Timestamp::UNIX_EPOCH)
        .with_gpu(&model("A100-80GB"))
        .with_gpu(&std::sync::Arc::new(display))
        .with_gpu(&model("H100-80GB"));
    let mut nvml = machine.nvml(Caller::Root);
    let device = nvml.device_handle_by_index(0).unwrap();
    nvml.set_mig_mode(device, Mode::Enabled).unwrap();
    // 3g.40gb, 2g.20gb and 1g.10gb, each with the compute instance that has all of it.
    for (profile, compute) in [(9, 2), (14, 1), (19, 0)] {
        let slice = nvml.create_gpu_instance(device, profile).unwrap();
        nvml.create_compute_instance(slice, compute).unwrap();
    }
    let busy = machine.gpus()[0].instances.values().find(|gi| machine.gpus()[0].profile_of(gi).slices == 2);
    let target = Target::ComputeInstance(0, busy.unwrap().id, 0);
    let name = "python3".to_owned();
    let client = Client { pid: 4242, name, target, activity: Activity::Computes, memory_mib: 9216 };
    machine.open(client).unwrap();
    machine
}
