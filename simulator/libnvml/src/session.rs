//! A process's view of the state that all processes share: a copy of the machine, which is refreshed when
//! the state has changed. Queries run on the copy and make no system call while nothing changes; calls that
//! change something, or use up a fault, go through the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpu::{Behaviour, Caller, Machine, Nvml, NvmlError, Reply, Stall, Verb};
use store::{State, Store, StoreError};

use crate::handle::Handle;

/// Set to `0` or `1`, it says whether the process counts as privileged; else
/// its effective user id does. For tests of what an ordinary user sees.
const PRIVILEGED_VARIABLE: &str = "SLICEWRIGHT_SIM_PRIVILEGED";

/// The view.
#[derive(Debug)]
pub(crate) struct Session {
    /// How often the process initialised the library and did not shut it down.
    pub(crate) uses: u32,
    store: Store,
    caller: Caller,
    /// The state as it was last seen.
    state: Arc<State>,
    /// A copy of its machine, for queries: they want one of their own.
    machine: Machine,
}

impl Session {
    /// Opens the state of this machine.
    ///
    /// # Errors
    /// `DriverNotLoaded` if there is none, `Unknown` if it is refused; each
    /// with a line on stderr.
    pub(crate) fn open() -> Reply<Self> {
        let directory = variable(store::DIRECTORY_VARIABLE).map(PathBuf::from);
        let directory = directory.as_deref().unwrap_or(Path::new(store::DEFAULT_DIRECTORY));
        let store = Store::open(directory).map_err(|error| refused(&error))?;
        let caller = match variable(PRIVILEGED_VARIABLE).as_deref() {
            Some("0") => Caller::User,
            Some("1") => Caller::Root,
            _ if rustix::process::geteuid().is_root() => Caller::Root,
            _ => Caller::User,
        };
        let state = store.snapshot().map_err(|error| refused(&error))?;
        Ok(Self { uses: 0, machine: state.machine.clone(), store, caller, state })
    }

    /// The state, as it was at the beginning of the call.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The machine, as it was at the beginning of the call.
    pub(crate) fn machine(&self) -> &Machine {
        &self.state.machine
    }

    /// Whether the process may do what is reserved to privileged users.
    pub(crate) const fn is_privileged(&self) -> bool {
        matches!(self.caller, Caller::Root)
    }

    /// Looks whether the state changed; says whether it did.
    ///
    /// # Errors
    /// That it cannot be read.
    pub(crate) fn refresh(&mut self) -> Reply<bool> {
        let state = self.store.snapshot().map_err(|error| refused(&error))?;
        let changed = !Arc::ptr_eq(&state, &self.state);
        if changed {
            self.machine = state.machine.clone();
            self.state = state;
        }
        Ok(changed)
    }

    /// Whether what a handle stands for is gone.
    pub(crate) fn is_stale(&mut self, handle: Handle) -> bool {
        let mut nvml = self.machine.nvml(self.caller);
        // What is on a GPU that fell off the bus is not gone: whoever asks is told that the GPU is lost.
        let known = match handle {
            Handle::Device(gpu::Device::Gpu { .. })
            | Handle::Events(_)
            | Handle::SystemEvents(_)
            | Handle::Sample(_) => Ok(()),
            Handle::Device(mig) => nvml.parent(mig).map(drop),
            Handle::GpuInstance(instance) => nvml.gpu_instance_info(instance).map(drop),
            Handle::ComputeInstance(instance) => nvml.compute_instance_info(instance).map(drop),
        };
        known == Err(NvmlError::InvalidArgument)
    }

    /// Runs a query: on the copy, unless it would use up a fault.
    pub(crate) fn query<T>(
        &mut self,
        stall: &mut Stall,
        work: impl FnOnce(&mut Nvml<'_>) -> Reply<T>,
    ) -> Reply<T> {
        if self.machine.is_armed(Verb::Query) {
            return self.update(stall, work, |reply| reply);
        }
        work(&mut self.machine.nvml(self.caller))
    }

    /// Runs what has an effect.
    pub(crate) fn change<T>(
        &mut self,
        stall: &mut Stall,
        work: impl FnOnce(&mut Nvml<'_>) -> Reply<T>,
    ) -> Reply<T> {
        self.update(stall, work, |reply| reply.and(Err(NvmlError::NoPermission)))
    }

    /// Runs work on the state; where this process may not write it, on a copy,
    /// of which `unwritten` says what the reply is worth.
    fn update<T>(
        &mut self,
        stall: &mut Stall,
        work: impl FnOnce(&mut Nvml<'_>) -> Reply<T>,
        unwritten: impl FnOnce(Reply<T>) -> Reply<T>,
    ) -> Reply<T> {
        let caller = self.caller;
        let mut work = Some(work);
        let mut run = |machine: &mut Machine| {
            let work = work.take().expect("it runs once");
            let reply = work(&mut machine.nvml(caller));
            (reply, machine.take_stall())
        };
        let (reply, took) = match self.store.update(|state| run(&mut state.machine)) {
            Ok(done) => done,
            Err(StoreError::ReadOnly { .. }) => {
                let (reply, took) = run(&mut self.machine.clone());
                (unwritten(reply), took)
            }
            Err(error) => return Err(refused(&error)),
        };
        *stall = longer(*stall, took);
        self.refresh()?;
        reply
    }

    /// What a fault does to a call of this function, if one is armed. It uses
    /// up one of its times.
    ///
    /// # Errors
    /// That the state cannot be written.
    pub(crate) fn strike(
        &mut self,
        function: &str,
        gpu: impl FnOnce() -> Option<u16>,
    ) -> Reply<Option<Behaviour>> {
        if !self.state.has_function_faults() {
            return Ok(None);
        }
        let gpu = gpu();
        let struck = match self.store.update(|state| state.strike(function, gpu)) {
            Ok(struck) => struck,
            Err(StoreError::ReadOnly { .. }) => State::clone(&self.state).strike(function, gpu),
            Err(error) => return Err(refused(&error)),
        };
        self.refresh()?;
        Ok(struck)
    }
}

fn longer(one: Stall, more: Stall) -> Stall {
    match (one, more) {
        (Stall::Forever, _) | (_, Stall::Forever) => Stall::Forever,
        (Stall::None, other) | (other, Stall::None) => other,
        (Stall::For(a), Stall::For(b)) => Stall::For(a.saturating_add(b)),
    }
}

/// The environment is where a library that others load finds its settings.
#[expect(clippy::disallowed_methods, reason = "a shared library has no arguments but its environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The code for a state that cannot be used. NVML has no words for why, so
/// whoever runs the program reads them on stderr.
#[expect(clippy::print_stderr, reason = "a C program is told a number, and the human beside it nothing")]
fn refused(error: &StoreError) -> NvmlError {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    eprintln!("libnvidia-ml.so.1 (simulated): {text}");
    match error {
        StoreError::NotSetUp { .. } => NvmlError::DriverNotLoaded,
        _ => NvmlError::Unknown,
    }
}
