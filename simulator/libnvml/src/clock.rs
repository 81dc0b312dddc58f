//! Real waiting: the library uses the time of the programs that call it.

use std::time::Duration;

use gpu::Stall;

/// Waits as long as a fault says that the call takes.
pub(crate) fn wait(stall: Stall) {
    match stall {
        Stall::None => {}
        Stall::For(duration) => sleep(duration.unsigned_abs()),
        Stall::Forever => loop {
            std::thread::park();
        },
    }
}

/// Sleeps.
#[expect(clippy::disallowed_methods, reason = "a slow call is one that takes real time")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
