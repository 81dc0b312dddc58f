//! How long work takes, whatever else the machine does: the processor time of the thread. Where the system
//! does not tell it, time on the wall.

use std::time::{Duration, Instant};

/// The work's result, and how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    let start = Instant::now();
    let before = processor();
    let result = work();
    let wall = start.elapsed();
    let of_thread = before.and_then(|before| processor()?.checked_sub(before));
    (of_thread.unwrap_or(wall), result)
}

/// The processor time of this thread; Linux tells it.
fn processor() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
