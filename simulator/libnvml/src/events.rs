//! Event sets, and the entries of the machine's log that they deliver. A set records from the moment of
//! registration.

use std::collections::{BTreeMap, VecDeque};

use gpu::{Happened, Machine, Subject};
use nvml_wrapper_sys::bindings as sys;

/// What one GPU was registered for in a set.
#[derive(Clone, Copy, Debug)]
struct Registration {
    gpu: u16,
    types: u64,
    /// The number of the first event after it.
    from: u64,
}

/// A set.
#[derive(Debug, Default)]
pub(crate) struct Set {
    registrations: Vec<Registration>,
    /// The number of the first event that was not looked at.
    next: u64,
    /// What is to be delivered of those that were.
    ready: VecDeque<Delivery>,
}

/// The sets of this process, by number.
#[derive(Debug)]
pub(crate) struct Sets {
    sets: BTreeMap<u64, Set>,
    next: u64,
}

/// Something to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) gpu: u16,
    pub(crate) event: u64,
    pub(crate) data: u64,
}

/// The types that this library delivers.
pub(crate) const DELIVERED: u64 = (sys::nvmlEventTypeXidCriticalError
    | sys::nvmlEventMigConfigChange
    | sys::nvmlEventTypeSingleBitEccError
    | sys::nvmlEventTypeDoubleBitEccError) as u64;

/// The types for which a card can be registered: all of the header's were seen on
/// an H100 and an H200 with driver 580.159.04.
pub(crate) fn supported(of: Subject<'_>) -> u64 {
    let late = of.gpu.model.compute_capability.is_some_and(|(major, _)| major >= 9);
    if late && of.machine.driver().0 >= 580 { sys::nvmlEventTypeAll.into() } else { DELIVERED }
}

impl Sets {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { sets: BTreeMap::new(), next: 1 }
    }

    /// A new, empty one.
    pub(crate) fn create(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.sets.insert(number, Set::default());
        number
    }

    /// Ends one; whether it was there.
    pub(crate) fn free(&mut self, number: u64) -> bool {
        self.sets.remove(&number).is_some()
    }

    /// One of them.
    pub(crate) fn get(&mut self, number: u64) -> Option<&mut Set> {
        self.sets.get_mut(&number)
    }
}

impl Set {
    /// Registers a GPU for more types of events, from now on.
    pub(crate) fn register(&mut self, gpu: u16, types: u64, machine: &Machine) {
        let from = machine.event_count();
        if self.registrations.is_empty() {
            self.next = from;
        }
        self.registrations.push(Registration { gpu, types, from });
    }

    /// The GPUs that are registered.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = u16> {
        self.registrations.iter().map(|registration| registration.gpu)
    }

    /// The next event that somebody registered for.
    pub(crate) fn next(&mut self, machine: &Machine) -> Option<Delivery> {
        let log = machine.events_from(self.next);
        // What was forgotten meanwhile is lost, as in a driver whose queue is full.
        self.next = machine.event_count() - log.len() as u64;
        for event in log {
            let at = self.next;
            self.next += 1;
            let Some(gpu) = event.gpu else { continue };
            for (kind, data) in kinds(&event.what) {
                let wanted = |r: &Registration| r.gpu == gpu && r.types & kind != 0 && r.from <= at;
                if self.registrations.iter().any(wanted) {
                    self.ready.push_back(Delivery { gpu, event: kind, data });
                }
            }
        }
        self.ready.pop_front()
    }
}

/// The types and data of an event, as C has them.
fn kinds(what: &Happened) -> Vec<(u64, u64)> {
    let one = |kind: u32, data: u32| (u64::from(kind), u64::from(data));
    match what {
        Happened::Xid { code } => vec![one(sys::nvmlEventTypeXidCriticalError, *code)],
        Happened::EccErrors { corrected, uncorrected } => {
            let both = [
                (*corrected, sys::nvmlEventTypeSingleBitEccError),
                (*uncorrected, sys::nvmlEventTypeDoubleBitEccError),
            ];
            both.into_iter().filter(|(count, _)| *count > 0).map(|(_, kind)| one(kind, 0)).collect()
        }
        Happened::ModeChanged { .. }
        | Happened::Created { .. }
        | Happened::Destroyed { .. }
        | Happened::ComputeCreated { .. }
        | Happened::ComputeDestroyed { .. } => vec![one(sys::nvmlEventMigConfigChange, 0)],
        Happened::ModePending { .. }
        | Happened::Reset
        | Happened::Rebooted
        | Happened::DriverReloaded
        | Happened::Breach { .. }
        | Happened::FaultStruck { .. }
        | Happened::FellOffTheBus => Vec::new(),
    }
}
