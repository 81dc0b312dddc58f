//! Sets of events of the whole system: the driver leaves the GPUs and comes back to them. A set records from
//! the moment of registration.

use std::collections::{BTreeMap, VecDeque};

use gpu::{Happened, Machine};
use nvml_wrapper_sys::bindings as sys;

use crate::figures::PciAddress;
use crate::padded::SystemEvent;

const UNBIND: u64 = sys::nvmlSystemEventTypeGpuDriverUnbind as u64;
const BIND: u64 = sys::nvmlSystemEventTypeGpuDriverBind as u64;

/// All types that there are.
pub(crate) const SUPPORTED: u64 = UNBIND | BIND;

/// A set.
#[derive(Debug, Default)]
pub(crate) struct SystemSet {
    /// What was registered for, each with the number of the first event after that.
    registrations: Vec<(u64, u64)>,
    /// The number of the first event that was not looked at.
    next: u64,
    /// What is to be delivered of those that were.
    ready: VecDeque<SystemEvent>,
}

/// The sets of this process, by number.
#[derive(Debug)]
pub(crate) struct SystemSets {
    sets: BTreeMap<u64, SystemSet>,
    next: u64,
}

impl SystemSets {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { sets: BTreeMap::new(), next: 1 }
    }

    /// A new, empty one.
    pub(crate) fn create(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.sets.insert(number, SystemSet::default());
        number
    }

    /// Ends one.
    pub(crate) fn free(&mut self, number: u64) {
        self.sets.remove(&number);
    }

    /// One of them.
    pub(crate) fn get(&mut self, number: u64) -> Option<&mut SystemSet> {
        self.sets.get_mut(&number)
    }
}

impl SystemSet {
    /// Registers for more types, from now on.
    pub(crate) fn register(&mut self, types: u64, machine: &Machine) {
        let from = machine.event_count();
        if self.registrations.is_empty() {
            self.next = from;
        }
        self.registrations.push((types, from));
    }

    /// The next events that somebody registered for, at most so many.
    pub(crate) fn next(&mut self, machine: &Machine, most: usize) -> Vec<SystemEvent> {
        let log = machine.events_from(self.next);
        // What was forgotten meanwhile is lost, as in a driver whose queue is full.
        self.next = machine.event_count() - log.len() as u64;
        for event in log {
            let at = self.next;
            self.next += 1;
            if !matches!(event.what, Happened::DriverReloaded) {
                continue;
            }
            for kind in [UNBIND, BIND] {
                if self.registrations.iter().any(|(types, from)| types & kind != 0 && *from <= at) {
                    let of = |gpu: &gpu::Gpu| SystemEvent {
                        eventType: kind,
                        gpuId: PciAddress::parse(&gpu.bus_id).map_or(0, PciAddress::id),
                        _1: 0,
                    };
                    self.ready.extend(machine.gpus().iter().map(of));
                }
            }
        }
        let many = most.min(self.ready.len());
        self.ready.drain(..many).collect()
    }
}
