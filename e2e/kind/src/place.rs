//! The files of a cluster: one folder, and a lock so that two runs do not interfere.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The folder of the cluster.
#[derive(Debug)]
pub struct Place {
    folder: PathBuf,
}

/// A lock on a place, held while it lives.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is unlocked when it is closed")] File);

impl Place {
    /// The folder, made where it is not there yet.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn at(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let folder = fs::canonicalize(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// The folder itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the engine of our own keeps, as long as it runs.
    #[must_use]
    pub fn engine(&self) -> PathBuf {
        self.folder.join("engine")
    }

    /// How the cluster is reached.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// What the machine was like before.
    #[must_use]
    pub fn machine(&self) -> PathBuf {
        self.folder.join("machine.json")
    }

    /// What the cluster was made of.
    #[must_use]
    pub fn cluster(&self) -> PathBuf {
        self.folder.join("cluster.json")
    }

    /// Which image of the operator was loaded into the nodes last.
    #[must_use]
    pub fn loaded(&self) -> PathBuf {
        self.folder.join("operator-image")
    }

    /// Where a node image with this key is kept.
    #[must_use]
    pub fn image(&self, key: &str) -> PathBuf {
        self.folder.join("images").join(format!("{key}.tar.zst"))
    }

    /// A folder for work that is thrown away.
    ///
    /// # Errors
    /// When it cannot be emptied or made.
    pub fn scratch(&self) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join("scratch");
        remove(&folder)?;
        fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(folder)
    }

    /// The place for this run alone, which says what it does.
    ///
    /// # Errors
    /// When another run has it; the error says which.
    pub fn hold(&self, doing: &str) -> anyhow::Result<Held> {
        let path = self.folder.join("lock");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Only to say who it is: that the place is taken is known already.
                let who = fs::read_to_string(&path).unwrap_or_default();
                bail!(
                    "another run is at work on {} (process {}): wait until it ends, or use another folder (--folder)",
                    self.folder.display(),
                    if who.trim().is_empty() { "unknown" } else { who.trim() }
                );
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        let me = std::process::id();
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{me}, `{doing}`"))?;
        Ok(Held(file))
    }
}

/// Removes a file or a folder, if it is there.
///
/// # Errors
/// When it is there and cannot be removed.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_told_who_is_at_work() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        let held = place.hold("kind story").unwrap();
        let error = place.hold("kind down").unwrap_err().to_string();
        let me = std::process::id();
        assert!(error.contains(&format!("(process {me}, `kind story`): wait until it ends")), "{error}");
        drop(held);
        place.hold("kind down").unwrap();
    }

    #[test]
    fn scratch_is_empty_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        fs::write(place.scratch().unwrap().join("old"), "").unwrap();
        assert_eq!(fs::read_dir(place.scratch().unwrap()).unwrap().count(), 0);
    }
}
