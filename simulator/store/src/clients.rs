//! Clients that are processes: each holds a lock on a file of its own, which the kernel releases when the
//! process ends, for whatever reason and in whatever namespace of process ids. So no notification is needed
//! when a client ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use gpu::{Client, ClientId, Reply};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::disk::{CLIENTS, Disk};
use crate::error::StoreError;
use crate::state::State;
use crate::store::Store;

impl Disk {
    /// Whether somebody holds the file of a client.
    fn is_held(&self, process: u64) -> bool {
        let path = self.path(CLIENTS).join(process.to_string());
        // What is not there is not held; what cannot be looked at may be.
        match File::open(path) {
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            // Shared, so that two who look at once do not take one another for the client.
            Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared).is_err(),
        }
    }

    /// The clients whose process is gone.
    pub(crate) fn dead(&self, state: &State) -> Vec<ClientId> {
        let gone = state.processes.iter().filter(|(_, process)| !self.is_held(**process));
        gone.map(|(id, _)| *id).collect()
    }

    /// Closes what dead processes had open, and forgets those whose client was
    /// closed by others: a reboot closes everything without asking.
    pub(crate) fn bury(&self, state: &mut State) {
        for id in self.dead(state) {
            state.machine.close(id);
        }
        let State { machine, processes, .. } = state;
        processes.retain(|id, process| {
            let open = machine.clients().any(|(open, _)| open == *id);
            if !open {
                // Whoever may not remove it leaves it; it holds nobody up.
                let _ = std::fs::remove_file(self.path(CLIENTS).join(process.to_string()));
            }
            open
        });
    }
}

/// A process that has something of the node open: as long as this lives, and
/// whoever inherits its file.
#[derive(Debug)]
pub struct Live {
    id: ClientId,
    file: File,
}

impl Live {
    /// The client.
    #[must_use]
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// Lets a program that is started instead of this one be the client, and
    /// all that it starts: what it has open is closed when the last is gone.
    ///
    /// # Errors
    /// The kernel says no.
    pub fn pass_on(&self) -> std::io::Result<()> {
        Ok(fcntl_setfd(&self.file, FdFlags::empty())?)
    }
}

impl Store {
    /// Opens something for this process, until it ends or drops the answer.
    ///
    /// # Errors
    /// The state cannot be changed. Inside: what NVML says if the thing is not
    /// there.
    pub fn enter(&self, client: Client) -> Result<Reply<Live>, StoreError> {
        let entered = self.update(|state| {
            let number = state.next_process;
            let id = match state.machine.open(client) {
                Ok(id) => id,
                Err(error) => return Ok(Err(error)),
            };
            // Held before anybody can read of it. If this process dies here, the state does not
            // know the number, and the next client gets it.
            let held = self.disk().hold(number);
            if held.is_err() {
                state.machine.close(id);
            }
            let file = held?;
            state.next_process += 1;
            state.processes.insert(id, number);
            Ok(Ok(Live { id, file }))
        })?;
        entered.map_err(|source| StoreError::Io {
            doing: "cannot make the file of a client in",
            path: self.dir().to_owned(),
            source,
        })
    }
}

impl Disk {
    fn hold(&self, process: u64) -> std::io::Result<File> {
        let path = self.path(CLIENTS).join(process.to_string());
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }
}
