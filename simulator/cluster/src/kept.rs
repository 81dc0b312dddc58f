//! A node that is kept, for all tasks that act upon it.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use store::{State, Store, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::host::Host;

/// A node that is kept.
pub(crate) struct Kept {
    pub(crate) name: String,
    host: Mutex<Host>,
    /// Where its GPUs are while programs have them, too.
    gpus: OnceLock<Store>,
    pub(crate) wake: Notify,
    pub(crate) stop: CancellationToken,
}

impl Kept {
    pub(crate) fn new(host: Host, stop: CancellationToken) -> Self {
        Self {
            name: host.node.name().to_owned(),
            host: Mutex::new(host),
            gpus: OnceLock::new(),
            wake: Notify::new(),
            stop,
        }
    }

    fn host(&self) -> MutexGuard<'_, Host> {
        // A panic elsewhere is told by the task that had it.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the node, or acts upon it, while nobody else does: no program
    /// that has its GPUs either.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Host) -> T) -> T {
        let mut host = self.host();
        let Some(store) = self.gpus.get() else { return act(&mut host) };
        let (mut act, mut answer) = (Some(act), None);
        let shared = store.update(|state| {
            host.node.found_machine(state.machine.clone());
            answer = act.take().map(|act| act(&mut host));
            state.machine = host.node.machine().clone();
        });
        if let Err(error) = shared {
            tracing::error!(
                node = self.name,
                error = &error as &dyn std::error::Error,
                "its GPUs are not shared"
            );
        }
        answer.or_else(|| act.map(|act| act(&mut host))).expect("it was acted once")
    }

    /// From now on programs have the GPUs, too, through the simulator's library
    /// and this folder.
    pub(crate) fn share_gpus(&self, folder: &Path) -> Result<(), StoreError> {
        let host = self.host();
        let store = Store::create(folder, State::new(host.node.machine().clone()))?;
        // Who came first has them already.
        let _ = self.gpus.set(store);
        Ok(())
    }
}
