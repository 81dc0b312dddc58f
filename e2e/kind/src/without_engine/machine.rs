//! The settings that a kubelet changes for the whole machine, whatever namespace it runs in: recorded
//! before the first one starts, and restored at the end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::place::remove;

/// Settings of the kernel that are not in any namespace, and that a kubelet
/// or a node's systemd sets.
const SETTINGS: &[&str] = &[
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "kernel/pid_max",
    "kernel/printk",
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "fs/nr_open",
    "fs/file-max",
    "fs/protected_hardlinks",
    "fs/protected_symlinks",
    "fs/protected_regular",
    "fs/protected_fifos",
];

/// A folder that container engines make where it is not there, to mount it.
const MODULES: &str = "/lib/modules";

/// What the machine was like.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Before {
    settings: BTreeMap<String, String>,
    had_modules: bool,
}

/// Reads and writes the settings below one folder (`/proc/sys`).
#[derive(Debug)]
pub struct Machine {
    settings: PathBuf,
    modules: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self { settings: "/proc/sys".into(), modules: MODULES.into() }
    }
}

impl Machine {
    /// Writes down what it is like, unless an earlier run did and did not come
    /// to its end: then that is what it was like.
    ///
    /// # Errors
    /// When it cannot be written down: then nothing may be changed.
    pub fn remember(&self, file: &Path) -> anyhow::Result<()> {
        if file.exists() {
            return Ok(());
        }
        let settings = SETTINGS
            .iter()
            .filter_map(|name| {
                // A kernel without the setting has nothing that could change.
                let value = fs::read_to_string(self.settings.join(name)).ok()?;
                Some(((*name).to_owned(), value.trim().to_owned()))
            })
            .collect();
        let before = Before { settings, had_modules: self.modules.exists() };
        let partial = file.with_extension("partial");
        fs::write(&partial, serde_json::to_vec_pretty(&before)?)
            .and_then(|()| fs::rename(&partial, file))
            .with_context(|| format!("cannot write down what the machine is like, in {}", file.display()))
    }

    /// Makes the folder that kind mounts into its nodes, where there is none:
    /// Docker does it by itself, and podman refuses. It goes again with the rest.
    pub fn make_modules(&self) {
        // Who may not is told by the engine what it misses.
        let _ = fs::create_dir(&self.modules);
    }

    /// Puts back what was written down; what it put back, for people, and how
    /// to put back what only root may.
    ///
    /// # Errors
    /// When something cannot be put back: what was written down stays.
    pub fn restore(&self, file: &Path) -> anyhow::Result<Vec<String>> {
        let text = match fs::read(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let before: Before = serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} is not what we wrote: see what it says, put that back by hand, and remove it",
                file.display()
            )
        })?;
        let mut restored = Vec::new();
        for (name, value) in &before.settings {
            let path = self.settings.join(name);
            let now = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let now = now.trim();
            if now != value {
                restored.push(put_back(name, now, value, fs::write(&path, value))?);
            }
        }
        // Only if it is empty: then nobody has begun to use it.
        if !before.had_modules && self.modules.exists() && fs::remove_dir(&self.modules).is_ok() {
            restored.push(format!("{} is gone again", self.modules.display()));
        }
        remove(file)?;
        Ok(restored)
    }
}

/// What came of it, for people. Who may use this machine's engine need not be
/// root, and the kubelets in it are.
fn put_back(name: &str, now: &str, value: &str, outcome: io::Result<()>) -> anyhow::Result<String> {
    let name = name.replace('/', ".");
    match outcome {
        Ok(()) => Ok(format!("{name} is {value} again, and was {now}")),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(format!("{name} was {value} and is {now}: `sudo sysctl -w '{name}={value}'` puts it back"))
        }
        Err(error) => Err(error).with_context(|| format!("cannot make {name} {value} again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(dir: &Path) -> Machine {
        let settings = dir.join("sys");
        fs::create_dir_all(settings.join("vm")).unwrap();
        fs::write(settings.join("vm/overcommit_memory"), "0\n").unwrap();
        Machine { settings, modules: dir.join("modules") }
    }

    #[test]
    fn what_a_kubelet_changed_is_put_back_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path());
        let file = dir.path().join("machine.json");
        machine.remember(&file).unwrap();
        fs::write(machine.settings.join("vm/overcommit_memory"), "1\n").unwrap();
        machine.make_modules();
        assert!(machine.modules.is_dir());
        let told = machine.restore(&file).unwrap();
        assert_eq!(
            told,
            [
                "vm.overcommit_memory is 0 again, and was 1".to_owned(),
                format!("{} is gone again", machine.modules.display())
            ]
        );
        assert_eq!(fs::read_to_string(machine.settings.join("vm/overcommit_memory")).unwrap(), "0");
        assert!(!file.exists());
        assert_eq!(machine.restore(&file).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_interrupted_run_does_not_make_us_forget_what_was_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path());
        let file = dir.path().join("machine.json");
        machine.remember(&file).unwrap();
        fs::write(machine.settings.join("vm/overcommit_memory"), "1\n").unwrap();
        // The next run begins without the end of the first.
        machine.remember(&file).unwrap();
        machine.restore(&file).unwrap();
        assert_eq!(fs::read_to_string(machine.settings.join("vm/overcommit_memory")).unwrap(), "0");
    }

    #[test]
    fn who_may_not_put_a_setting_back_is_told_the_command() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(
            put_back("kernel/printk", "7 4 1 7", "4 4 1 7", Err(denied)).unwrap(),
            "kernel.printk was 4 4 1 7 and is 7 4 1 7: `sudo sysctl -w 'kernel.printk=4 4 1 7'` puts it back"
        );
        let other = io::Error::from(io::ErrorKind::InvalidInput);
        let error = put_back("kernel/panic", "10", "0", Err(other)).unwrap_err().to_string();
        assert_eq!(error, "cannot make kernel.panic 0 again");
    }

    #[test]
    fn a_damaged_note_is_said_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path());
        let file = dir.path().join("machine.json");
        fs::write(&file, "{").unwrap();
        let error = machine.restore(&file).unwrap_err().to_string();
        assert!(error.contains("is not what we wrote"), "{error}");
        assert!(file.exists());
    }
}
