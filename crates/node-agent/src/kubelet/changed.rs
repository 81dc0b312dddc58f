//! Tells when kubelet's checkpoint changed, by inotify on its folder: kubelet replaces the file with a rename. A
//! kernel that cannot tell, or a folder that is not there, makes the agent look every minute only.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// The watch of one file.
#[derive(Debug)]
pub struct Changes {
    folder: PathBuf,
    name: OsString,
    watch: Option<AsyncFd<OwnedFd>>,
}

/// Why nobody tells about changes.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A file name was expected.
    #[error("{} does not name a file", path.display())]
    NoFile {
        /// What was given.
        path: PathBuf,
    },
    /// The kernel says no.
    #[error("changes in {} cannot be watched", folder.display())]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// What the kernel says.
        #[source]
        source: std::io::Error,
    },
}

impl Changes {
    /// A watch of this file, which need not be there; its folder must.
    ///
    /// # Errors
    /// The path has no file name. That there is no folder yet is no error:
    /// [`Changes::ensure`] tries again.
    pub fn watch(path: &Path) -> Result<Self, WatchError> {
        let (folder, name) = path
            .parent()
            .zip(path.file_name())
            .ok_or_else(|| WatchError::NoFile { path: path.to_owned() })?;
        Ok(Self { folder: folder.to_owned(), name: name.to_owned(), watch: None })
    }

    /// Begins to watch, unless it does so already.
    ///
    /// # Errors
    /// The kernel refuses; most likely the folder is not there.
    #[expect(
        deprecated,
        reason = "what comes after it is `unsafe`, for types that give another descriptor away; an OwnedFd does not"
    )]
    pub fn ensure(&mut self) -> Result<(), WatchError> {
        if self.watch.is_some() {
            return Ok(());
        }
        let refused = |source| WatchError::Refused { folder: self.folder.clone(), source };
        let fd =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|e| refused(e.into()))?;
        let what = WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&fd, &self.folder, what).map_err(|e| refused(e.into()))?;
        self.watch = Some(AsyncFd::new(fd).map_err(refused)?);
        Ok(())
    }

    /// Returns when the file changed since the last call. Without a watch it
    /// never returns.
    pub async fn next(&mut self) {
        loop {
            let Some(watch) = &self.watch else { return std::future::pending().await };
            let Ok(mut ready) = watch.readable().await else {
                self.watch = None;
                return;
            };
            let told = drain(watch.get_ref(), self.name.as_bytes());
            ready.clear_ready();
            match told {
                Noticed::Nothing => {}
                Noticed::Changed => return,
                Noticed::Lost => {
                    self.watch = None;
                    return;
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Noticed {
    Nothing,
    Changed,
    /// The folder is another one now, or the watch broke.
    Lost,
}

/// Reads all that there is.
fn drain(fd: &OwnedFd, name: &[u8]) -> Noticed {
    let mut space = [MaybeUninit::<u8>::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut space);
    let mut told = Noticed::Nothing;
    loop {
        let now = match reader.next() {
            Ok(event) => {
                let lost = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
                if event.events().intersects(lost) {
                    Noticed::Lost
                } else if event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                    || event.file_name().is_some_and(|file| file.to_bytes() == name)
                {
                    Noticed::Changed
                } else {
                    Noticed::Nothing
                }
            }
            Err(Errno::INTR) => Noticed::Nothing,
            Err(Errno::AGAIN) => return told,
            Err(_) => return Noticed::Lost,
        };
        told = told.max(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn replace(path: &Path) {
        let new = path.with_extension("new");
        std::fs::write(&new, "x").unwrap();
        std::fs::rename(new, path).unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_replaced_is_told_and_its_neighbours_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubelet_internal_checkpoint");
        let mut changes = Changes::watch(&path).unwrap();
        changes.ensure().unwrap();
        replace(&folder.path().join("kubelet.sock"));
        // Whatever happened before is in the queue already, so one turn of the loop sees it.
        let quiet = tokio::time::timeout(Duration::ZERO, changes.next()).await;
        assert!(quiet.is_err(), "a neighbour");
        replace(&path);
        tokio::time::timeout(SOON, changes.next()).await.expect("it was replaced");
        replace(&path);
        replace(&path);
        tokio::time::timeout(SOON, changes.next()).await.expect("it was replaced twice");
        assert!(tokio::time::timeout(Duration::ZERO, changes.next()).await.is_err(), "both are told at once");
    }

    #[tokio::test]
    async fn a_folder_that_comes_later_or_is_replaced_is_watched_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("device-plugins");
        let path = folder.join("checkpoint");
        let mut changes = Changes::watch(&path).unwrap();
        let error = changes.ensure().unwrap_err().to_string();
        assert!(error.contains(&folder.display().to_string()), "{error}");
        std::fs::create_dir(&folder).unwrap();
        changes.ensure().unwrap();
        std::fs::remove_dir(&folder).unwrap();
        tokio::time::timeout(SOON, changes.next()).await.expect("whatever was there may be gone");
        std::fs::create_dir(&folder).unwrap();
        changes.ensure().unwrap();
        replace(&path);
        tokio::time::timeout(SOON, changes.next()).await.expect("it is watched again");
    }

    #[test]
    fn a_path_without_a_file_is_refused() {
        assert!(matches!(Changes::watch(Path::new("/")), Err(WatchError::NoFile { .. })));
    }
}
