//! One agent at a time works on a node. A pod of an agent can be deleted by force while its process lives on, an update can
//! overlap, and somebody can install a second DaemonSet. Two agents would void each other's reports for ever; and one that
//! the driver kept in a call could go on with a change that the other had ended long before.
//!
//! So an agent locks the folder of kubelet's checkpoint, which every agent of the node has mounted, and looks at nothing
//! before it has the lock. The kernel lets go of it when the last thread of the process has ended, one that hangs in the
//! driver included, and at no other moment.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The lock of this node.
#[derive(Debug)]
pub struct Alone {
    folder: PathBuf,
    is_locked: bool,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent has it.
    #[error(
        "another agent works on this node and has locked {}: this one begins when the process of that one has ended",
        folder.display()
    )]
    Taken {
        /// What it has locked.
        folder: PathBuf,
    },
    /// The folder is not there, or cannot be locked.
    #[error("{} cannot be locked", folder.display())]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
}

impl Alone {
    /// The lock of the node whose kubelet has this checkpoint; nothing is locked
    /// yet.
    #[must_use]
    pub fn beside(checkpoint: &Path) -> Self {
        let folder = checkpoint.parent().unwrap_or(Path::new("/")).to_owned();
        Self { folder, is_locked: false }
    }

    /// Takes the lock, unless this process has it already. It is kept until the
    /// process ends.
    ///
    /// # Errors
    /// Another agent has it, or nobody can have it.
    pub fn ensure(&mut self) -> Result<(), LockError> {
        if self.is_locked {
            return Ok(());
        }
        let folder = || self.folder.clone();
        let refused = |source| LockError::Refused { folder: folder(), source };
        let opened = File::open(&self.folder).map_err(refused)?;
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(LockError::Taken { folder: folder() }),
            Err(error) => return Err(refused(error.into())),
        }
        // Nobody closes it: a call of the driver may outlast the loop that asked for it.
        let _ = opened.into_raw_fd();
        self.is_locked = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_of_a_node_has_the_lock_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = folder.path().join("kubelet_internal_checkpoint");
        let (mut first, mut second) = (Alone::beside(&checkpoint), Alone::beside(&checkpoint));
        first.ensure().unwrap();
        first.ensure().unwrap();
        let error = second.ensure().unwrap_err();
        assert!(matches!(error, LockError::Taken { .. }));
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
        // Its loop has ended, and its process has not.
        drop(first);
        assert!(matches!(second.ensure(), Err(LockError::Taken { .. })));
    }

    #[test]
    fn a_folder_that_is_not_there_yet_is_locked_when_it_is() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("device-plugins");
        let mut alone = Alone::beside(&folder.join("checkpoint"));
        assert!(matches!(alone.ensure(), Err(LockError::Refused { .. })));
        std::fs::create_dir(&folder).unwrap();
        alone.ensure().unwrap();
    }
}
