//! Events that the driver reports: errors, and changes of the MIG configuration by any process.

#![allow(unsafe_code, reason = "registering, which nvml-wrapper does only by giving the set away")]

use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;

use super::device::Gpu;
use super::function;
use crate::code::Code;
use crate::error::{Error, Result, check};

/// A set of events that GPUs are registered with.
#[derive(Debug)]
pub struct EventSet<'l> {
    set: nvml_wrapper::EventSet<'l>,
}

/// An event, and the GPU that it is about.
#[derive(Debug)]
pub struct Event<'l> {
    /// The GPU.
    pub gpu: Gpu<'l>,
    /// Its kinds; usually one.
    pub kinds: EventTypes,
    /// The number of an Xid error, if that is what happened.
    pub xid: Option<u64>,
}

impl<'l> EventSet<'l> {
    pub(super) const fn new(set: nvml_wrapper::EventSet<'l>) -> Self {
        Self { set }
    }

    /// Registers a GPU for those of the events that it has. nvml-wrapper's own
    /// call frees the whole set when one GPU refuses.
    ///
    /// # Errors
    /// The library's; other GPUs stay registered.
    pub fn register(&self, gpu: &Gpu<'l>, wanted: EventTypes) -> Result<()> {
        const CALL: &str = "nvmlDeviceRegisterEvents";
        let has = gpu.device().supported_event_types();
        let has = has.map_err(|e| Error::from_call("nvmlDeviceGetSupportedEventTypes", e))?;
        let call = function(CALL, &gpu.sys().nvmlDeviceRegisterEvents)?;
        // SAFETY: the handle of the set is passed to the library that it came from; the set stays ours.
        let set = unsafe { self.set.handle() };
        // SAFETY: both handles are of this library, which is loaded.
        check(CALL, unsafe { call(gpu.handle(), (has & wanted).bits(), set) })
    }

    /// The next event, if there is one within this time.
    ///
    /// # Errors
    /// The library's.
    pub fn wait(&self, at_most: Duration) -> Result<Option<Event<'l>>> {
        let milliseconds = u32::try_from(at_most.as_millis()).unwrap_or(u32::MAX);
        match self.set.wait(milliseconds) {
            Ok(event) => {
                let xid = event.event_data.map(|xid| match xid {
                    XidError::Value(number) => number,
                    XidError::Unknown => 999,
                });
                Ok(Some(Event { gpu: Gpu::new(event.device), kinds: event.event_type, xid }))
            }
            Err(error) => match Error::from_call("nvmlEventSetWait_v2", error) {
                error if error.code() == Some(Code::Timeout) => Ok(None),
                error => Err(error),
            },
        }
    }
}
