//! For tests only: a process that is instructed to do so dies between two steps of an update, like a killed
//! one.

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
