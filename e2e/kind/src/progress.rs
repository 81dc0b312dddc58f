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
pub(crate) fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_what_begins_and_that_it_ended() {
        let mut told = Vec::new();
        assert_eq!(Progress::new(&mut told).step("loading", || Ok(7)).unwrap(), 7);
        assert_eq!(String::from_utf8(told).unwrap(), "kind: loading …\nkind: loading: 0 s\n");
    }

    #[test]
    fn what_failed_is_not_told_as_done() {
        let mut told = Vec::new();
        let step = Progress::new(&mut told).step("loading", || anyhow::bail!("no room"));
        assert_eq!(step.map(|()| "done").unwrap_err().to_string(), "no room");
        assert_eq!(String::from_utf8(told).unwrap(), "kind: loading …\n");
    }
}
