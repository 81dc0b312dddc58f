//! Clients that are processes: each holds a lock on a file of its own, which
//! the kernel releases when it dies, however it dies, and in whatever
//! namespace of process ids. So nobody has to be told that a client is gone.

use std::fs::File;

use gpu::ClientId;
use rustix::fs::{FlockOperation, flock};

use crate::disk::{CLIENTS, Disk};
use crate::state::State;

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

    /// Closes what dead processes had open.
    pub(crate) fn bury(&self, state: &mut State) {
        for id in self.dead(state) {
            state.machine.close(id);
            if let Some(process) = state.processes.remove(&id) {
                // Whoever may not remove it leaves it; it holds nobody up.
                let _ = std::fs::remove_file(self.path(CLIENTS).join(process.to_string()));
            }
        }
        // A reboot closes everything without asking.
        let State { machine, processes, .. } = state;
        processes.retain(|id, _| machine.clients().any(|(open, _)| open == *id));
    }
}
