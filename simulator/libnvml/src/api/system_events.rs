//! Events of the system: the driver leaves a GPU, and comes back to it.

use std::ffi::{c_uint, c_ulonglong};

use gpu::{NvmlError, Reply};
use nvml_wrapper_sys::bindings as sys;

use crate::argument::{Argument, OutArray, Versioned};
use crate::c_handle::SystemEventSet;
use crate::entry::Call;
use crate::filled::filled;
use crate::handle::Handle;
use crate::padded::{SystemEvent, SystemEventSetRequest};
use crate::system_events;
use crate::waiting;

/// `nvmlSystemEventSetFreeRequest_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Free {
    version: c_uint,
    set: SystemEventSet,
}

/// `nvmlSystemRegisterEventRequest_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Register {
    version: c_uint,
    types: c_ulonglong,
    set: SystemEventSet,
}

/// `nvmlSystemEventSetWaitRequest_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Wait {
    version: c_uint,
    timeout_ms: c_uint,
    set: SystemEventSet,
    data: OutArray<SystemEvent>,
    /// How many events the array has room for.
    room: c_uint,
    /// How many were written.
    count: c_uint,
}

filled! { Wait { version, timeout_ms, set, data, room, count } }
const _: () = assert!(
    size_of::<Free>() == size_of::<sys::nvmlSystemEventSetFreeRequest_v1_t>()
        && size_of::<Register>() == size_of::<sys::nvmlSystemRegisterEventRequest_v1_t>()
        && size_of::<Wait>() == size_of::<sys::nvmlSystemEventSetWaitRequest_v1_t>()
);

entries! {
    fn nvmlSystemEventSetCreate(call, request: Versioned) {
        let request = request.must_be::<SystemEventSetRequest>(1)?;
        let number = call.system_sets.create();
        let set = call.give(Handle::SystemEvents(number));
        request.update(|request| request.set = set.cast())?
    }

    fn nvmlSystemEventSetFree(call, request: Versioned) {
        let number = request.must_be::<Free>(1)?.get()?.set.find(call.handles)?;
        call.system_sets.free(number);
        call.handles.take(Handle::SystemEvents(number))
    }

    /// Events of before are not recorded.
    fn nvmlSystemRegisterEvents(call, request: Versioned) {
        let request = request.must_be::<Register>(1)?.get()?;
        let number = request.set.find(call.handles)?;
        if request.types == 0 || request.types & !system_events::SUPPORTED != 0 {
            return Err(NvmlError::InvalidArgument);
        }
        let machine = call.session.machine();
        let set = call.system_sets.get(number).ok_or(NvmlError::InvalidArgument)?;
        set.register(request.types, machine)
    }
}

/// As many events as there are and as the caller has room for, if there are any.
fn next(call: &mut Call<'_>, request: Versioned) -> Reply<Option<()>> {
    let answer = request.must_be::<Wait>(1)?;
    let asked = answer.get()?;
    let number = asked.set.find(call.handles)?;
    if asked.room == 0 || asked.data.is_null() {
        return Err(NvmlError::InvalidArgument);
    }
    let machine = call.session.machine();
    let set = call.system_sets.get(number).ok_or(NvmlError::InvalidArgument)?;
    let events = set.next(machine, asked.room as usize);
    asked.data.fill(&events);
    answer.update(|answer| answer.count = events.len() as c_uint)?;
    Ok(if events.is_empty() { None } else { Some(()) })
}

#[allow(unsafe_code, reason = "a name that C looks up; what C promises is in the argument's type")]
#[allow(non_snake_case, reason = "the header's name")]
#[unsafe(no_mangle)]
extern "C" fn nvmlSystemEventSetWait(request: Versioned) -> sys::nvmlReturn_t {
    let timeout =
        request.is::<Wait>(1).and_then(|request| request.get().ok()).map_or(0, |wait| wait.timeout_ms);
    let arguments: [&dyn Argument; 1] = [&request];
    waiting::until("nvmlSystemEventSetWait", &arguments, timeout, |call| next(call, request))
}
