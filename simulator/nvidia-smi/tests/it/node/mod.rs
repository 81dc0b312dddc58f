//! A simulated node in a folder of its own, and a shell on it in which
//! `nvidia-smi` is ours, over the shared library that cargo built.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use gpu::{Activity, Client, DriverBranch, Labelling, Machine, Model, PciClass, Target};
use store::{State, Store};
use tempfile::TempDir;

/// A node with the library and the tool.
pub(crate) struct Node {
    pub(crate) store: Store,
    dir: TempDir,
}

/// What a command said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) status: i32,
}

/// The shared library as cargo built it, beside the test.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().join("libsimulated_nvml.so");
    assert!(built.exists(), "{} is not there: cargo builds it with the test", built.display());
    built
}

/// A host without GPUs, of a driver such as `550.54.14`.
pub(crate) fn host(driver: &str) -> (Machine, String) {
    let branch = driver.split('.').next().unwrap().parse().unwrap();
    (Machine::new("dgx", DriverBranch(branch), store::now()), driver.to_owned())
}

/// A GPU of the catalogue.
pub(crate) fn with(machine: Machine, model: &str, labelling: Labelling) -> Machine {
    machine.with_gpu_labelled(&Model::find(model).unwrap(), labelling)
}

/// A card without MIG.
pub(crate) fn with_display(machine: Machine, product: &str, memory_mib: u32) -> Machine {
    machine.with_gpu(&Model::without_mig(product, memory_mib, PciClass::Vga).into())
}

impl Node {
    pub(crate) fn new((machine, driver): (Machine, String)) -> Self {
        let dir = TempDir::new().unwrap();
        let state = State { driver_version: driver, ..State::new(machine) };
        let store = Store::create(&dir.path().join("state"), state).unwrap();
        let (lib, bin) = (dir.path().join("lib"), dir.path().join("bin"));
        fs::create_dir(&lib).unwrap();
        fs::create_dir(&bin).unwrap();
        symlink(built(), lib.join("libnvidia-ml.so.1")).unwrap();
        symlink(env!("CARGO_BIN_EXE_nvidia-smi"), bin.join("nvidia-smi")).unwrap();
        Self { store, dir }
    }

    /// A node with one GPU of the newest driver, MIG on.
    pub(crate) fn cut_ready(model: &str) -> Self {
        let (machine, driver) = host("580.65.06");
        let node = Self::new((with(machine, model, Labelling::V1), driver));
        node.says("sudo nvidia-smi -mig 1");
        node
    }

    /// A command line in a shell, as an ordinary user; `sudo` makes it root's.
    pub(crate) fn shell(&self, line: &str) -> Output {
        let script = format!("sudo() {{ SLICEWRIGHT_SIM_PRIVILEGED=1 \"$@\"; }}\n{line}");
        let output = Command::new("sh")
            .arg("-c")
            .arg(script)
            .env("PATH", format!("{}:/usr/bin:/bin", self.dir.path().join("bin").display()))
            .env("LD_LIBRARY_PATH", self.dir.path().join("lib"))
            .env(store::DIRECTORY_VARIABLE, self.store.dir())
            .env("SLICEWRIGHT_SIM_PRIVILEGED", "0")
            .output()
            .unwrap();
        Output {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code().unwrap(),
        }
    }

    /// What a command says that must succeed.
    #[track_caller]
    pub(crate) fn says(&self, line: &str) -> String {
        let Output { out, err, status } = self.shell(line);
        assert_eq!((status, err.as_str()), (0, ""), "{line}\n{out}");
        out
    }

    /// A process opens something.
    pub(crate) fn opens(&self, pid: u32, name: &str, target: Target, activity: Activity, memory_mib: u32) {
        let client = Client { pid, name: name.to_owned(), target, activity, memory_mib };
        self.store.update(|state| state.machine.open(client).unwrap()).unwrap();
    }

    /// All openings of the processes with a name end.
    pub(crate) fn ends(&self, name: &str) {
        let end = |state: &mut State| {
            let of_it: Vec<_> =
                state.machine.clients().filter(|(_, c)| c.name == name).map(|(id, _)| id).collect();
            assert!(!of_it.is_empty(), "no {name} has anything open");
            for id in of_it {
                state.machine.close(id);
            }
        };
        self.store.update(end).unwrap();
    }

    pub(crate) fn reboot(&self) {
        self.store.update(|state| state.machine.reboot()).unwrap();
    }
}
