//! Waits. They last as long as something moves towards what is waited for, and end when nothing has moved for a
//! stated time. A fixed time would be too short on a machine that also compiles, and too long on one where
//! everything stands still.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::call::{judged, last_lines, shown};

/// How often a wait begins anew because something moved: what never comes to
/// rest, a container that crashes again and again, is waited for no longer.
const STRETCHES: u32 = 10;

/// Asks again and again whether something has come about: for what may well not come.
///
/// # Errors
/// When it has not after so many tenths of a second.
pub fn wait_until(what: &str, tenths: u32, is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    wait_on(&mut || pause(1), what, tenths, is_so)
}

/// Asks again and again whether something has come about, for as long as
/// something moves towards it: the wait ends without it when `reading` is the
/// same before and after a whole stretch of so many tenths of a second. How
/// fast a machine is, and what else it does, then decides nothing.
///
/// # Errors
/// When nothing moved for a stretch, or nothing came of ten of them.
pub fn wait_while_moving(
    what: &str,
    tenths: u32,
    is_so: impl FnMut() -> bool,
    reading: impl FnMut() -> String,
) -> anyhow::Result<()> {
    wait_while_moving_on(&mut || pause(1), what, tenths, is_so, reading)
}

/// Runs a program that waits by itself, for as long as something moves: when
/// nothing has for so many tenths of a second, it is ended. What it printed.
///
/// # Errors
/// When it cannot be started or fails, or when nothing moved any more.
pub fn call_while_moving(
    command: &mut Command,
    tenths: u32,
    reading: impl FnMut() -> String,
) -> anyhow::Result<String> {
    call_while_moving_on(&mut || pause(1), command, tenths, reading)
}

/// Lets so many tenths of a second go by.
pub fn pause(tenths: u32) {
    #[expect(
        clippy::disallowed_methods,
        reason = "programs of others are asked again and again: they do not tell"
    )]
    thread::sleep(Duration::from_millis(100) * tenths);
}

/// The same on a clock that is given: it lets a tenth of a second go by.
fn wait_on(
    tenth: &mut dyn FnMut(),
    what: &str,
    tenths: u32,
    mut is_so: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    for _ in 0..tenths {
        if is_so() {
            return Ok(());
        }
        tenth();
    }
    ensure!(is_so(), "{what} has not come about in {} s", tenths / 10);
    Ok(())
}

fn wait_while_moving_on(
    tenth: &mut dyn FnMut(),
    what: &str,
    tenths: u32,
    mut is_so: impl FnMut() -> bool,
    mut reading: impl FnMut() -> String,
) -> anyhow::Result<()> {
    let mut before = reading();
    for _ in 0..STRETCHES {
        if wait_on(tenth, what, tenths, &mut is_so).is_ok() {
            return Ok(());
        }
        let now = reading();
        ensure!(now != before, "{what} has not come about, and nothing moved in the last {} s", tenths / 10);
        before = now;
    }
    bail!("{what} has not come about in {} s, although something moved all the time", tenths * STRETCHES / 10)
}

fn call_while_moving_on(
    tenth: &mut dyn FnMut(),
    command: &mut Command,
    tenths: u32,
    reading: impl FnMut() -> String,
) -> anyhow::Result<String> {
    let name = shown(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // A program whose pipe is full would wait for us.
    thread::scope(|scope| {
        let out = scope.spawn(|| read(out));
        let err = scope.spawn(|| read(err));
        let what = format!("the end of {name}");
        // Of a child that cannot be asked, the end is waited for below.
        let ended = |child: &mut Child| child.try_wait().map_or(true, |status| status.is_some());
        let waited = wait_while_moving_on(tenth, &what, tenths, || ended(&mut child), reading);
        if waited.is_err() {
            // It may have ended by itself in this moment.
            let _ = child.kill();
        }
        let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
        let output = Output { status, stdout: joined(out), stderr: joined(err) };
        match waited {
            Ok(()) => judged(&name, &output),
            Err(error) => {
                let said: Vec<u8> = output.stdout.into_iter().chain(output.stderr).collect();
                bail!("{error}; it said last:\n  {}", last_lines(&String::from_utf8_lossy(&said)))
            }
        }
    })
}

/// All that comes; what came before a pipe broke.
fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut all);
    }
    all
}

fn joined(reader: ScopedJoinHandle<'_, Vec<u8>>) -> Vec<u8> {
    reader.join().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Waits on a clock of the test's for something that comes at one of its tenths, or never; what was waited, and
    /// how it ended. `moves` says at which tenths something moves.
    fn waits(tenths: u32, comes: Option<u32>, moves: impl Fn(u32) -> bool) -> (u32, Result<(), String>) {
        let now = Cell::new(0);
        let moved = Cell::new(0);
        let told = wait_while_moving_on(
            &mut || {
                now.set(now.get() + 1);
                moved.set(moved.get() + u32::from(moves(now.get())));
            },
            "the label",
            tenths,
            || comes.is_some_and(|comes| now.get() >= comes),
            || moved.get().to_string(),
        );
        (now.get(), told.map_err(|error| error.to_string()))
    }

    #[test]
    fn what_comes_ends_the_wait_at_once() {
        assert_eq!(waits(600, Some(0), |_| false), (0, Ok(())));
        assert_eq!(waits(600, Some(7), |_| false), (7, Ok(())));
    }

    #[test]
    fn a_slow_machine_is_waited_for_as_long_as_something_moves_once_in_each_stretch() {
        // Four minutes for what takes seconds elsewhere: a pod every half a minute.
        assert_eq!(waits(600, Some(2400), |tenth| tenth % 300 == 0), (2400, Ok(())));
    }

    #[test]
    fn when_nothing_moves_the_wait_ends_after_the_stated_time() {
        let still = "the label has not come about, and nothing moved in the last 60 s".to_owned();
        assert_eq!(waits(600, None, |_| false), (600, Err(still.clone())));
        // It moved in the first stretch, and in none after it.
        assert_eq!(waits(600, None, |tenth| tenth == 590), (1200, Err(still)));
    }

    #[test]
    fn what_never_comes_to_rest_is_not_waited_for_for_ever() {
        let crashes =
            "the label has not come about in 600 s, although something moved all the time".to_owned();
        assert_eq!(waits(600, None, |tenth| tenth % 100 == 0), (6000, Err(crashes)));
    }

    #[test]
    fn what_may_well_not_come_is_waited_for_so_long_and_no_longer() {
        let now = Cell::new(0);
        let waited = wait_on(&mut || now.set(now.get() + 1), "the engine", 30, || false);
        assert_eq!(
            (now.get(), waited.unwrap_err().to_string().as_str()),
            (30, "the engine has not come about in 3 s")
        );
    }

    /// Runs a line of shell on a clock that costs no time, for as long as something moves.
    fn runs(line: &str, tenths: u32, reading: impl FnMut() -> String) -> anyhow::Result<String> {
        call_while_moving_on(&mut thread::yield_now, Command::new("sh").args(["-c", line]), tenths, reading)
    }

    #[test]
    fn a_program_that_waits_by_itself_is_ended_when_nothing_moves_and_what_it_said_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let line = format!("echo 1 of 4 nodes is ready; : > {}; exec tail -f /dev/null", said.display());
        let standstill = || {
            while !said.exists() {
                thread::yield_now();
            }
            String::new()
        };
        let error = runs(&line, 30, standstill).unwrap_err().to_string();
        let still =
            "has not come about, and nothing moved in the last 3 s; it said last:\n  1 of 4 nodes is ready";
        assert!(error.starts_with("the end of `sh -c echo 1 of 4") && error.ends_with(still), "{error}");
    }

    #[test]
    fn what_a_program_that_waits_by_itself_prints_and_how_it_fails_is_told_as_of_any_other() {
        let mut moves = 0;
        let mut moving = || {
            moves += 1;
            moves.to_string()
        };
        let much = runs("seq 100000", u32::MAX, &mut moving).unwrap();
        assert_eq!((much.lines().count(), much.ends_with("\n100000\n")), (100_000, true));
        let error = runs("echo timed out >&2; exit 1", u32::MAX, &mut moving).unwrap_err().to_string();
        assert_eq!(error, "`sh -c echo timed out >&2; exit 1` ended with exit status: 1:\n  timed out");
    }
}
