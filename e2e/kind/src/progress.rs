//! Progress messages for a waiting user.

use std::io::{self, Write};
use std::time::Instant;

/// Tells what is done and how long it took.
#[derive(Debug)]
pub struct Progress<W> {
    out: W,
}

impl<W: Write> Progress<W> {
    /// Tells it there.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// One line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "kind: {text}")?;
        self.out.flush()
    }

    /// Says what begins, does it, and says how long it took.
    ///
    /// # Errors
    /// What the work returns.
    pub fn step<T>(&mut self, what: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.say(&format!("{what} …"))?;
        let start = clock();
        let done = work()?;
        self.say(&format!("{what}: {} s", start.elapsed().as_secs()))?;
        Ok(done)
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a step took is told to people and decides nothing")]
fn clock() -> Instant {
    Instant::now()
}
