//! Copies of etcd's data, and the restore of an older one, as an administrator does it after a disaster;
//! after that, everything that any client remembers is wrong.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::control_plane::ControlPlane;
use crate::wait;

/// A copy of etcd's data.
#[derive(Clone, Debug)]
pub struct Copy {
    folder: PathBuf,
}

/// What becomes of the numbers of versions when a copy is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// They go on from where they were when it was made, and are given out a
    /// second time.
    AsTheyWere,
    /// They go on far above all that were given out
    /// (`etcdutl snapshot restore --bump-revision`).
    Raised,
}

/// How far the numbers are raised, as etcd's documentation has it.
const RAISED_BY: &str = "1000000000";

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn run(mut command: Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed with {}: {said}", output.status);
    Ok(())
}

fn signal(name: &str, process: u32) -> anyhow::Result<()> {
    let mut command = Command::new("kill");
    command.args(["-s", name, &process.to_string()]);
    run(command)
}

/// Waits until every thread of a process has stopped: a signal is on its way
/// for a while, and what a thread writes meanwhile would be in one file of the
/// copy and not in the other.
async fn stands_still(process: u32) -> anyhow::Result<()> {
    let stopped = |task: &Path| {
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        // The name, in parentheses, may have blanks.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't') | None)
    };
    wait::asking("etcd stands still", wait::PATIENCE, async || {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).context("etcd is gone")?;
        let busy = tasks.flatten().filter(|task| !stopped(&task.path())).count();
        Ok(if busy == 0 { Ok(()) } else { Err(format!("{busy} of its threads run")) })
    })
    .await
}

impl ControlPlane {
    /// Copies etcd's data. Meanwhile it stands still, so that the copy is of
    /// one moment: what it has written by then is what a crash would leave.
    ///
    /// # Errors
    /// When that cannot be done.
    pub async fn copy_etcd(&self, name: &str) -> anyhow::Result<Copy> {
        let process = self.etcd_process().await.context("etcd does not run")?;
        let folder = self.folder().join(format!("etcd-{name}"));
        signal("STOP", process)?;
        let copied = stands_still(process).await.and_then(|()| Ok(copy_all(&self.etcd_folder(), &folder)?));
        signal("CONT", process)?;
        copied.context("cannot copy etcd's data")?;
        Ok(Copy { folder })
    }

    /// Ends the control plane, puts a copy of etcd's data back, and starts it
    /// again, all parts of it, as Kubernetes' documentation says.
    ///
    /// # Errors
    /// When that cannot be done.
    pub async fn put_back_etcd(&self, copy: &Copy, versions: Versions) -> anyhow::Result<()> {
        self.stop_all().await?;
        let data = self.etcd_folder();
        fs::remove_dir_all(&data).context("cannot remove etcd's data")?;
        match versions {
            Versions::AsTheyWere => copy_all(&copy.folder, &data).context("cannot put the copy back")?,
            Versions::Raised => {
                let mut command = Command::new(tools::find("etcdutl")?);
                command
                    .args(["snapshot", "restore", "--skip-hash-check", "--mark-compacted"])
                    .arg(format!("--bump-revision={RAISED_BY}"))
                    .arg(format!("--data-dir={}", data.display()))
                    .args(self.etcd_peers())
                    .arg(copy.folder.join("member/snap/db"));
                run(command)?;
            }
        }
        self.start_all().await
    }
}
