//! Handles. For C they are pointers to readable memory; here they are addresses, which are looked up in a
//! registry before use and never dereferenced. So an invented pointer is an invalid argument, and a handle
//! whose instance was destroyed fails as a stale one.

use std::collections::BTreeMap;
use std::ffi::c_void;

use gpu::{ComputeHandle, InstanceHandle, NvmlError, Reply};

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Handle {
    /// A GPU or a MIG device.
    Device(gpu::Device),
    /// A GPU instance.
    GpuInstance(InstanceHandle),
    /// A compute instance.
    ComputeInstance(ComputeHandle),
    /// A set of events, by its number.
    Events(u64),
    /// A set of events of the system, by its number.
    SystemEvents(u64),
    /// A sample of how much something worked, by its number.
    Sample(u64),
}

/// Memory behind a handle: some programs look at where it points.
const READABLE: usize = 256;

/// When so many handles are known, those of instances that are gone are forgotten.
const MANY: usize = 4096;

/// The handles that this process was given.
#[derive(Debug)]
pub(crate) struct Handles {
    by_address: BTreeMap<usize, Handle>,
    memory: BTreeMap<Handle, Box<[u8; READABLE]>>,
}

impl Handles {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { by_address: BTreeMap::new(), memory: BTreeMap::new() }
    }

    /// The pointer for a handle: the same one each time.
    pub(crate) fn give(&mut self, handle: Handle) -> *mut c_void {
        let memory = self.memory.entry(handle).or_insert_with(|| Box::new([0; READABLE]));
        let pointer = memory.as_mut_ptr();
        self.by_address.insert(pointer.addr(), handle);
        pointer.cast()
    }

    /// Forgets one.
    pub(crate) fn take(&mut self, handle: Handle) {
        if let Some(memory) = self.memory.remove(&handle) {
            self.by_address.remove(&memory.as_ptr().addr());
        }
    }

    /// Forgets stale ones, once there are many: a process that creates
    /// instances for years stays small.
    pub(crate) fn forget_stale(&mut self, mut is_stale: impl FnMut(Handle) -> bool) {
        if self.memory.len() < MANY {
            return;
        }
        self.memory.retain(|handle, _| !is_stale(*handle));
        let memory = &self.memory;
        self.by_address.retain(|_, handle| memory.contains_key(handle));
    }

    /// What a pointer stands for.
    ///
    /// # Errors
    /// `InvalidArgument` for one that was never given.
    pub(crate) fn find(&self, pointer: *mut c_void) -> Reply<Handle> {
        self.by_address.get(&pointer.addr()).copied().ok_or(NvmlError::InvalidArgument)
    }
}
