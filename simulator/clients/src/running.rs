//! A program that runs until nobody needs it any more.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

/// A program in the background. It ends when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it says goes into a file.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, log: PathBuf) -> anyhow::Result<Self> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let program = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
        Ok(Self { child, log })
    }

    /// What it said so far.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn said(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(&self.log).with_context(|| format!("cannot read {}", self.log.display()))
    }

    /// Waits for something that it brings about: until `look` finds it.
    ///
    /// # Errors
    /// When it ends before, or after a minute and a half: with its last words.
    #[expect(clippy::disallowed_methods, reason = "it is another program, which takes its time")]
    pub fn until<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        const PAUSE: Duration = Duration::from_millis(100);
        for _ in 0..900 {
            if let Some(found) = look()? {
                return Ok(found);
            }
            self.runs(what)?;
            std::thread::sleep(PAUSE);
        }
        anyhow::bail!("{what} did not come: {}", self.last_words())
    }

    /// That it has not ended before `what`, which somebody waits for.
    ///
    /// # Errors
    /// When it has: with its last words.
    pub(crate) fn runs(&mut self, what: &str) -> anyhow::Result<()> {
        ensure!(self.child.try_wait()?.is_none(), "ended before {what}: {}", self.last_words());
        Ok(())
    }

    fn last_words(&self) -> String {
        let said = self.said().unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
