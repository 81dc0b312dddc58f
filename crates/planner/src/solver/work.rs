//! Work, counted: about the additions and multiplications that the simplex has done on this thread. It follows
//! from what was asked alone, so it can bound what an answer may cost, where time never may.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<u64> = const { Cell::new(0) };
}

/// What was done on this thread so far.
#[must_use]
pub fn done() -> u64 {
    DONE.get()
}

/// Counts work.
pub(super) fn count(operations: usize) {
    DONE.set(done().wrapping_add(operations as u64));
}

/// So much work, from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    from: u64,
    operations: u64,
}

impl Allowance {
    pub(crate) fn of(operations: u64) -> Self {
        Self { from: done(), operations }
    }

    pub(crate) fn is_used_up(self) -> bool {
        done().wrapping_sub(self.from) > self.operations
    }

    /// One part in so many of what is left of it.
    pub(crate) fn part(self, of: u64) -> Self {
        Self::of(self.operations.saturating_sub(done().wrapping_sub(self.from)) / of)
    }
}
