//! A simulated node, and programs that run on it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use gpu::Machine;
use serde_json::Value;
use store::{State, Store};
use tempfile::TempDir;

use crate::running::Running;

/// What makes a program see the files of the node instead of this machine's.
const ENTER: &str = include_str!("enter.sh");

/// A node with simulated GPUs: a state and files of its own, which go with it.
#[derive(Debug)]
pub struct Node {
    dir: TempDir,
    library: PathBuf,
    store: Store,
}

/// What a program said, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit status.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Node {
    /// A node with this machine, on which programs load the library in a folder.
    ///
    /// # Errors
    /// When its state or its files cannot be written.
    pub fn new(machine: Machine, library: PathBuf) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let store = Store::create(&dir.path().join("state"), State::new(machine))?;
        Self::over(store, dir, library)
    }

    /// A node whose state is in this directory, where another program may work on it, too.
    ///
    /// # Errors
    /// When its state cannot be read, or its files cannot be written.
    pub fn beside(state: &Path, library: PathBuf) -> anyhow::Result<Self> {
        Self::over(Store::open(state)?, tempfile::tempdir()?, library)
    }

    fn over(store: Store, dir: TempDir, library: PathBuf) -> anyhow::Result<Self> {
        for empty in ["proc", "devices"] {
            std::fs::create_dir(dir.path().join(empty))?;
        }
        store.keep_files(&dir.path().join("root"))?;
        Ok(Self { dir, library, store })
    }

    /// The node with this version of the driver, such as `580.159.04`.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn with_driver(self, version: &str) -> anyhow::Result<Self> {
        self.store.update(|state| version.clone_into(&mut state.driver_version))?;
        Ok(self)
    }

    /// Puts the library and nvidia-smi into the node's files, so that these are a driver root. They are
    /// named as they are in the folder that programs load the library from.
    ///
    /// # Errors
    /// When they cannot be copied.
    pub fn with_driver_root(self) -> anyhow::Result<Self> {
        let (libraries, programs) = (self.file("usr/lib64"), self.file("usr/bin"));
        std::fs::create_dir_all(&libraries)?;
        std::fs::create_dir_all(&programs)?;
        for entry in std::fs::read_dir(&self.library)? {
            let (at, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if !name.to_string_lossy().starts_with("libnvidia-ml.so") {
                continue;
            }
            match std::fs::read_link(&at) {
                Ok(to) => std::os::unix::fs::symlink(to, libraries.join(name))?,
                Err(_) => drop(std::fs::copy(&at, libraries.join(name))?),
            }
        }
        let smi = std::fs::copy(self.library.join("nvidia-smi"), programs.join("nvidia-smi"));
        smi.context("there is no nvidia-smi beside the library")?;
        Ok(self)
    }

    /// Where a file of the node is, such as `proc/modules`.
    #[must_use]
    pub fn file(&self, path: &str) -> PathBuf {
        self.dir.path().join("root").join(path)
    }

    /// The truth: the machine as it is now.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn machine(&self) -> anyhow::Result<Machine> {
        Ok(self.store.read(|state| state.machine.clone())?)
    }

    /// Changes the machine behind the programs' backs.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn change<T>(&self, change: impl FnOnce(&mut Machine) -> T) -> anyhow::Result<T> {
        Ok(self.store.update(|state| change(&mut state.machine))?)
    }

    /// Runs a program with these lines as its input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, program: &str, args: &[&str], input: &str) -> anyhow::Result<Output> {
        let mut command = Command::new(program);
        command.args(args);
        self.finish(command, input)
    }

    /// Runs a program that sees the node's kernel modules and PCI devices, too.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_inside(&self, program: &str, args: &[&str]) -> anyhow::Result<Output> {
        self.finish(self.inside(program, args), "")
    }

    /// Starts one, which runs until it is dropped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_inside(&self, program: &str, args: &[&str]) -> anyhow::Result<Running> {
        let mut command = self.inside(program, args);
        self.surround(&mut command)?;
        Running::start(command, self.dir.path().join("running.log"))
    }

    fn inside(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if !rustix::process::geteuid().is_root() {
            // In a user namespace of its own everybody may mount.
            command.arg("--map-root-user");
        }
        command.args(["--", "sh", "-c", ENTER, "enter.sh"]).arg(self.dir.path()).arg(program).args(args);
        command
    }

    /// The environment in which a program finds the node.
    fn surround(&self, command: &mut Command) -> anyhow::Result<()> {
        command.env(store::DIRECTORY_VARIABLE, self.store.dir()).env("LD_LIBRARY_PATH", &self.library);
        #[expect(clippy::disallowed_methods, reason = "the path on which a program finds nvidia-smi")]
        let path = std::env::var_os("PATH").unwrap_or_default();
        let with_ours = std::env::split_paths(&path).collect::<Vec<_>>();
        let all = std::iter::once(self.library.clone()).chain(with_ours);
        command.env("PATH", std::env::join_paths(all)?);
        Ok(())
    }

    fn finish(&self, mut command: Command, input: &str) -> anyhow::Result<Output> {
        self.surround(&mut command)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
        // What these programs are told is less than a pipe holds: nobody waits for anybody.
        ensure!(input.len() <= 4096, "more input than a pipe holds");
        let mut stdin = child.stdin.take().context("no standard input")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        Ok(Output {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

/// The answers of a session, one JSON value a line.
///
/// # Errors
/// When it did not end well, or a line is no JSON.
pub fn json_lines(said: &Output) -> anyhow::Result<Vec<Value>> {
    ensure!(said.code == 0, "ended with {}: {}", said.code, said.err);
    said.out.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}
