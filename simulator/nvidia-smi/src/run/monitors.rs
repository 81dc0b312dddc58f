//! `dmon` and `pmon`.

use std::io;
use std::time::Duration;

use super::Session;
use crate::arguments::{Form, Metric, ProcessMetric, Rounds, Stamp, Targets};
use crate::ask::machine;
use crate::exit::Exit;
use crate::render::monitors;

impl Session<'_> {
    pub(super) fn device_monitor(
        &mut self,
        targets: &Targets,
        metrics: &[Metric],
        rounds: Rounds,
        stamp: Stamp,
        form: Form,
    ) -> io::Result<Exit> {
        let shape = monitors::Shape { stamp, form, driver: self.driver() };
        self.watch(rounds, |session, first| {
            let now = session.clock.now();
            session.with(targets, |session, all| {
                if first {
                    write!(session.out, "{}", monitors::device_heading(shape, metrics))?;
                }
                for gpu in session.everything(&all.found)? {
                    write!(session.out, "{}", monitors::device_line(shape, &now, &gpu, metrics))?;
                }
                Ok(Exit::SUCCESS)
            })
        })
    }

    pub(super) fn process_monitor(
        &mut self,
        targets: &Targets,
        metrics: &[ProcessMetric],
        rounds: Rounds,
        stamp: Stamp,
    ) -> io::Result<Exit> {
        let driver = self.driver();
        self.watch(rounds, |session, first| {
            let now = session.clock.now();
            session.with(targets, |session, all| {
                if first {
                    write!(session.out, "{}", monitors::process_heading(stamp, metrics, driver))?;
                }
                for gpu in session.everything(&all.found)? {
                    let found = all.found.iter().find(|found| found.index == gpu.index);
                    let loads = found.map(machine::loads).unwrap_or_default();
                    let place = monitors::place(stamp, driver, &now, gpu.index);
                    let lines = monitors::process_lines(&place, &gpu, &loads, metrics, driver);
                    write!(session.out, "{lines}")?;
                }
                Ok(Exit::SUCCESS)
            })
        })
    }

    /// Looks as often as is asked for, or until the clock ends.
    fn watch(
        &mut self,
        rounds: Rounds,
        mut look: impl FnMut(&mut Self, bool) -> io::Result<Exit>,
    ) -> io::Result<Exit> {
        let mut done: u32 = 0;
        loop {
            let exit = look(self, done == 0)?;
            self.out.flush()?;
            done = done.saturating_add(1);
            let enough = rounds.count.is_some_and(|count| done >= count);
            let delay = Duration::from_secs(rounds.delay.into());
            if exit != Exit::SUCCESS || enough || !self.clock.wait(delay) {
                return Ok(exit);
            }
        }
    }
}
