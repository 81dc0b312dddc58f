//! The state of the library in one process: its view of the shared state, and its handles and event sets.

use std::sync::{Mutex, PoisonError};

use gpu::Reply;

use crate::events::Sets;
use crate::handle::Handles;
use crate::samples::Samples;
use crate::session::Session;
use crate::system_events::SystemSets;

/// The library in this process.
#[derive(Debug)]
pub(crate) struct Process {
    /// There while it is initialised.
    pub(crate) session: Option<Session>,
    /// Pointers given out stay valid over a shutdown, as NVML's do.
    pub(crate) handles: Handles,
    pub(crate) sets: Sets,
    pub(crate) system_sets: SystemSets,
    pub(crate) samples: Samples,
}

static PROCESS: Mutex<Process> = Mutex::new(Process {
    session: None,
    handles: Handles::new(),
    sets: Sets::new(),
    system_sets: SystemSets::new(),
    samples: Samples::new(),
});

/// Does something with the process's share of the library, alone. A call that
/// panicked before has left nothing half done that matters: the state is in the
/// store, and what is kept here is only found again.
pub(crate) fn with<T>(work: impl FnOnce(&mut Process) -> T) -> T {
    work(&mut PROCESS.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Process {
    /// Opens the state, if that has not happened. It is nobody's use yet.
    ///
    /// # Errors
    /// That there is no simulated machine, or that its state is refused.
    pub(crate) fn open(&mut self) -> Reply<()> {
        if self.session.is_none() {
            self.session = Some(Session::open()?);
        }
        Ok(())
    }

    /// Closes the state, if nobody uses it.
    pub(crate) fn close_unused(&mut self) {
        self.session.take_if(|session| session.uses == 0);
    }
}
