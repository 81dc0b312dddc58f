//! Processes that end with the test: each in a process group of its own, all of them stopped by a watchdog
//! when this process has ended, panicked or was killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;

/// A folder for one control plane, and the watchdog that removes it and ends
/// what was started for it.
#[derive(Debug)]
pub struct Den {
    folder: PathBuf,
    watchdog: Mutex<Option<(Child, ChildStdin)>>,
}

impl Den {
    /// A new folder with its watchdog.
    ///
    /// # Errors
    /// When the folder cannot be made or the shell cannot be started.
    pub fn new() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("slicewright-e2e-").tempdir()?.keep();
        let mut watchdog = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "watchdog"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = watchdog.stdin.take().expect("its standard input is a pipe");
        Ok(Self { folder, watchdog: Mutex::new(Some((watchdog, pipe))) })
    }

    /// Where logs and keys are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves the folder for a human to look at.
    pub fn keep(&self) {
        self.tell("keep");
    }

    fn tell(&self, line: &str) {
        let mut watchdog = self.watchdog.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, pipe)) = watchdog.as_mut() {
            // A watchdog that is gone ended everything; whoever started it will notice that.
            let _ = writeln!(pipe, "{line}").and_then(|()| pipe.flush());
        }
    }

    /// Starts a program whose output goes to `NAME.log` in the folder, after
    /// what an earlier run of it left there.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, name: &str, mut command: Command) -> io::Result<Running> {
        let log = self.folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start {name}: {error}")))?;
        self.tell(&format!("group {}", child.id()));
        Ok(Running { name: name.to_owned(), child, log })
    }

    /// Ends a process and waits for it.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub fn stop(&self, mut running: Running) -> io::Result<()> {
        running.child.kill()?;
        running.child.wait()?;
        self.tell(&format!("gone {}", running.child.id()));
        Ok(())
    }
}

impl Drop for Den {
    /// Ends everything now, and waits until it is done.
    fn drop(&mut self) {
        let watchdog = self.watchdog.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some((mut watchdog, pipe)) = watchdog {
            drop(pipe);
            let _ = watchdog.wait();
        }
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Running {
    /// How it ended, if it has.
    ///
    /// # Errors
    /// When that cannot be asked.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last lines that it wrote.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(12).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forever() -> Command {
        let mut command = Command::new("sh");
        // A child of the child: the whole group has to go.
        command.args(["-c", "sleep 1000 & echo started; wait"]);
        command
    }

    /// Whether somebody of this process group is alive (a zombie is not).
    fn lives(group: u32) -> bool {
        let Ok(entries) = fs::read_dir("/proc") else { return false };
        entries.flatten().any(|entry| {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { return false };
            let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
            let fields: Vec<_> = rest.split(' ').collect();
            fields[0] != "Z" && fields[2] == group.to_string()
        })
    }

    /// A signal is sent and not waited for.
    async fn ends(group: u32) {
        crate::wait::asking("the group has ended", crate::wait::PATIENCE, async || {
            Ok(if lives(group) { Err("it lives".to_owned()) } else { Ok(()) })
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn everything_ends_and_the_folder_goes_when_the_den_is_dropped() {
        let den = Den::new().unwrap();
        let folder = den.folder().to_owned();
        let running = den.start("forever", forever()).unwrap();
        let group = running.child.id();
        assert!(lives(group));
        drop(den);
        ends(group).await;
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_den_that_is_kept_stays_and_its_processes_end_all_the_same() {
        let den = Den::new().unwrap();
        let folder = den.folder().to_owned();
        let group = den.start("forever", forever()).unwrap().child.id();
        den.keep();
        drop(den);
        ends(group).await;
        assert!(folder.join("forever.log").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn what_was_stopped_is_not_ended_again() {
        let den = Den::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo last words; exec sleep 1000"]);
        let running = den.start("one", command).unwrap();
        let group = running.child.id();
        den.stop(running).unwrap();
        ends(group).await;
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Den::new().unwrap().start("moon", Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().starts_with("cannot start moon: "), "{error}");
    }
}
