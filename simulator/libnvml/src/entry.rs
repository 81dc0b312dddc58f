//! The steps of every function of the library before its own work, in this order: it keeps panics from
//! unwinding into C, checks that the library is initialised, checks the arguments, and applies faults.
//! Permission, support and state are checked after that, in the function itself and in the engine. The
//! order is inferred.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpu::{Behaviour, Nvml, NvmlError, Reply, Stall, Subject};
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use crate::argument::Argument;
use crate::c_handle::Device;
use crate::clock;
use crate::events::Sets;
use crate::handle::{Handle, Handles};
use crate::process::{self, Process};
use crate::samples::Samples;
use crate::session::Session;
use crate::system_events::SystemSets;

/// Functions of the library, as the header has them, with what they do. A
/// function of several names, such as one and its `_v2`, is written once. The
/// body runs after the checks of all arguments, and ends in success unless it
/// returns an error.
macro_rules! entries {
    ($( $(#[$doc:meta])* fn $($name:ident)|+ ($($arguments:tt)*) { $($body:tt)* } )*) => {
        $( entries! { @all [$($name)+] ($($arguments)*) { $($body)* } } )*
    };
    (@all [$($name:ident)+] $arguments:tt $body:tt) => {
        $( entries! { @one $name $arguments $body } )+
    };
    (@one $name:ident ($call:ident $(, $argument:ident: $type:ty)* $(,)?) { $($body:tt)* }) => {
        #[allow(unsafe_code, reason = "a name that C looks up; what C promises is in the arguments' types")]
        #[allow(non_snake_case, reason = "the header's names")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::entry::enter(Some(stringify!($name)), &[$(&$argument),*], |$call| { $($body)*; Ok(()) })
        }
    };
}

/// Functions that this simulator does not simulate: they check that the
/// library is initialised and that handles are handles.
macro_rules! not_supported {
    ($( $name:ident($($argument:ident: $type:ty),* $(,)?); )*) => {$(
        #[allow(unsafe_code, reason = "a name that C looks up; nothing is done with the arguments")]
        #[allow(non_snake_case, reason = "the header's names")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::entry::enter(Some(stringify!($name)), &[$(&$argument),*], |_| Err(gpu::NvmlError::NotSupported))
        }
    )*};
}

/// One call in progress: it has the process's share of the library to itself.
#[derive(Debug)]
pub(crate) struct Call<'p> {
    pub(crate) handles: &'p mut Handles,
    pub(crate) sets: &'p mut Sets,
    pub(crate) system_sets: &'p mut SystemSets,
    pub(crate) samples: &'p mut Samples,
    pub(crate) session: &'p mut Session,
    stall: Stall,
}

impl Call<'_> {
    /// Runs a query of the engine.
    ///
    /// # Errors
    /// Those of the engine, and of a state that cannot be read.
    pub(crate) fn query<T>(&mut self, work: impl FnOnce(&mut Nvml<'_>) -> Reply<T>) -> Reply<T> {
        self.session.query(&mut self.stall, work)
    }

    /// Runs a call of the engine that changes something.
    ///
    /// # Errors
    /// Those of the engine, and of a state that cannot be written.
    pub(crate) fn change<T>(&mut self, work: impl FnOnce(&mut Nvml<'_>) -> Reply<T>) -> Reply<T> {
        self.session.change(&mut self.stall, work)
    }

    /// Asks about a GPU or a MIG device what the engine has no verb for.
    ///
    /// # Errors
    /// Those of the engine, and those of the answer.
    pub(crate) fn ask<T>(
        &mut self,
        device: Device,
        answer: impl FnOnce(Subject<'_>) -> Reply<T>,
    ) -> Reply<T> {
        let device = self.device(device)?;
        self.query(|nvml| nvml.ask(device, answer))
    }

    /// What a device's handle stands for.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn device(&self, device: Device) -> Reply<gpu::Device> {
        device.find(self.handles)
    }

    /// The pointer that C knows something by.
    pub(crate) fn give(&mut self, handle: Handle) -> *mut c_void {
        self.handles.give(handle)
    }

    /// Whether the caller may do what the header reserves to privileged users.
    ///
    /// # Errors
    /// `NoPermission`.
    pub(crate) fn privileged(&self) -> Reply<()> {
        if self.session.is_privileged() { Ok(()) } else { Err(NvmlError::NoPermission) }
    }

    fn run(
        &mut self,
        name: Option<&str>,
        arguments: &[&dyn Argument],
        body: impl FnOnce(&mut Self) -> Reply<()>,
    ) -> Reply<()> {
        if self.session.refresh()? {
            self.handles.forget_stale(|handle| self.session.is_stale(handle));
        }
        for argument in arguments {
            argument.check(self.handles)?;
        }
        let is_lost = |gpu| self.session.machine().gpu(gpu).is_some_and(|gpu| gpu.lost);
        if arguments.iter().filter_map(|argument| argument.gpu(self.handles)).any(is_lost) {
            return Err(NvmlError::GpuIsLost);
        }
        let gpu = || arguments.iter().find_map(|argument| argument.gpu(self.handles));
        let struck = name.map_or(Ok(None), |name| self.session.strike(name, gpu));
        match struck? {
            None => body(self),
            Some(Behaviour::Fail(error)) => Err(error),
            Some(Behaviour::FailAfterEffect(error)) => body(self).and(Err(error)),
            Some(Behaviour::Ignore) => {
                arguments.iter().for_each(|argument| argument.blank());
                Ok(())
            }
            Some(Behaviour::Slow(more)) => {
                self.stall = Stall::For(more);
                body(self)
            }
            Some(Behaviour::Hang) => {
                self.stall = Stall::Forever;
                Err(NvmlError::Timeout)
            }
        }
    }
}

/// A call of a function, by the name for which faults strike.
pub(crate) fn enter(
    name: Option<&str>,
    arguments: &[&dyn Argument],
    body: impl FnOnce(&mut Call<'_>) -> Reply<()>,
) -> nvmlReturn_t {
    guarded(|| {
        let (reply, stall) = process::with(|process| run(process, name, arguments, body));
        // Others go on meanwhile: the process is theirs again.
        clock::wait(stall);
        reply
    })
}

/// A call that initialises the library or shuts it down: `count` says how many
/// uses there are after it. The state is there for the call, since faults are
/// in it, and after it as long as somebody uses it.
pub(crate) fn enter_counted(
    name: &str,
    open: impl FnOnce(&mut Process) -> Reply<()>,
    count: impl FnOnce(u32) -> u32,
) -> nvmlReturn_t {
    guarded(|| {
        let (reply, stall) = process::with(|process| {
            if let Err(error) = open(process) {
                return (Err(error), Stall::None);
            }
            let done = run(process, Some(name), &[], |call| {
                call.session.uses = count(call.session.uses);
                Ok(())
            });
            process.close_unused();
            done
        });
        clock::wait(stall);
        reply
    })
}

/// A call that is answered before the library is initialised, too: the state is
/// there for it, and after it if somebody uses it.
pub(crate) fn enter_early(
    name: &str,
    arguments: &[&dyn Argument],
    body: impl FnOnce(&mut Call<'_>) -> Reply<()>,
) -> nvmlReturn_t {
    guarded(|| {
        let (reply, stall) = process::with(|process| {
            if let Err(error) = process.open() {
                return (Err(error), Stall::None);
            }
            let done = run(process, Some(name), arguments, body);
            process.close_unused();
            done
        });
        clock::wait(stall);
        reply
    })
}

fn run(
    process: &mut Process,
    name: Option<&str>,
    arguments: &[&dyn Argument],
    body: impl FnOnce(&mut Call<'_>) -> Reply<()>,
) -> (Reply<()>, Stall) {
    let Process { session, handles, sets, system_sets, samples } = process;
    let Some(session) = session.as_mut() else {
        return (Err(NvmlError::Uninitialized), Stall::None);
    };
    let mut call = Call { handles, sets, system_sets, samples, session, stall: Stall::None };
    (call.run(name, arguments, body), call.stall)
}

/// Turns a reply into C's code, and a panic into `NVML_ERROR_UNKNOWN`: it must
/// not unwind into a C program.
pub(crate) fn guarded(work: impl FnOnce() -> Reply<()>) -> nvmlReturn_t {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => nvml_wrapper_sys::bindings::nvmlReturn_enum_NVML_SUCCESS,
        Ok(Err(error)) => error as nvmlReturn_t,
        Err(_) => NvmlError::Unknown as nvmlReturn_t,
    }
}
