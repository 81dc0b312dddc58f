//! Samples of the work of a GPU or a GPU instance, as the functions for performance monitoring take and
//! compare them.

use std::collections::BTreeMap;

use gpu::Work;

/// What a sample was taken of: a GPU, or a GPU instance on it.
pub(crate) type Source = (u16, Option<u8>);

/// The samples of this process, by number; one that was allocated is empty
/// until something is put into it.
#[derive(Debug)]
pub(crate) struct Samples {
    samples: BTreeMap<u64, Option<(Source, Work)>>,
    next: u64,
}

impl Samples {
    /// None.
    pub(crate) const fn new() -> Self {
        Self { samples: BTreeMap::new(), next: 1 }
    }

    /// A new, empty one.
    pub(crate) fn create(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.samples.insert(number, None);
        number
    }

    /// Ends one.
    pub(crate) fn free(&mut self, number: u64) {
        self.samples.remove(&number);
    }

    /// Puts something into one, in place of what was there.
    pub(crate) fn put(&mut self, number: u64, source: Source, work: Work) {
        self.samples.insert(number, Some((source, work)));
    }

    /// What is in it.
    pub(crate) fn get(&self, number: u64) -> Option<(Source, Work)> {
        self.samples.get(&number).copied().flatten()
    }
}
