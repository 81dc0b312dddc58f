//! For tests: a process that is told to dies between two steps of an update,
//! the way that a killed one does. Nothing here is for anybody else.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// How many points are left; 0: it lives.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// Lets this process be killed at the `n`th point that it comes to.
pub fn at(n: u32) {
    LEFT.store(n, Ordering::Relaxed);
}

/// How many points are left until it is killed.
#[must_use]
pub fn left() -> u32 {
    LEFT.load(Ordering::Relaxed)
}

/// A moment at which a process may be killed.
pub(crate) fn point() {
    let left = LEFT.load(Ordering::Relaxed);
    if left > 0 {
        LEFT.store(left - 1, Ordering::Relaxed);
        if left == 1 {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}
