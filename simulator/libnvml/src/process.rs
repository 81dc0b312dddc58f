//! What one process has of the library: how often it was initialised, its view
//! of the state, the handles and event sets that it was given.

use std::sync::{Mutex, PoisonError};

use gpu::{NvmlError, Reply};

use crate::events::Sets;
use crate::handle::Handles;
use crate::session::Session;

/// The library in this process.
#[derive(Debug)]
pub(crate) struct Process {
    /// How often it was initialised and not shut down.
    uses: u32,
    /// There while it is initialised.
    pub(crate) session: Option<Session>,
    /// Pointers given out stay valid over a shutdown, as NVML's do.
    pub(crate) handles: Handles,
    pub(crate) sets: Sets,
}

static PROCESS: Mutex<Process> =
    Mutex::new(Process { uses: 0, session: None, handles: Handles::new(), sets: Sets::new() });

/// Does something with the process's share of the library, alone. A call that
/// panicked before has left nothing half done that matters: the state is in the
/// store, and what is kept here is only found again.
pub(crate) fn with<T>(work: impl FnOnce(&mut Process) -> T) -> T {
    work(&mut PROCESS.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Process {
    /// Initialises it once more.
    ///
    /// # Errors
    /// That there is no simulated machine, or that its state is refused.
    pub(crate) fn initialise(&mut self) -> Reply<()> {
        if self.session.is_none() {
            self.session = Some(Session::open()?);
        }
        self.uses += 1;
        Ok(())
    }

    /// Takes one initialisation back; with the last one the state is closed.
    ///
    /// # Errors
    /// `Uninitialized`.
    pub(crate) fn shut_down(&mut self) -> Reply<()> {
        self.uses = self.uses.checked_sub(1).ok_or(NvmlError::Uninitialized)?;
        if self.uses == 0 {
            self.session = None;
        }
        Ok(())
    }
}
