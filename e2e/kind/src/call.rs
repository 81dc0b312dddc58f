//! Runs other programs, and reports their output when they fail.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// How much of what a program said last is told when it failed.
const LAST_LINES: usize = 12;

/// Runs a command to its end; what it printed.
///
/// # Errors
/// When it cannot be started or fails; the error ends with what it said last.
pub fn call(command: &mut Command) -> anyhow::Result<String> {
    call_with(command, b"")
}

/// Runs a command with this on its standard input; what it printed.
///
/// # Errors
/// As [`call`].
pub fn call_with(command: &mut Command, input: &[u8]) -> anyhow::Result<String> {
    let name = shown(command);
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    let pipe = child.stdin.take();
    let output = thread::scope(|scope| {
        let writer = pipe.map(|mut pipe| scope.spawn(move || pipe.write_all(input)));
        let output = child.wait_with_output();
        if let Some(writer) = writer {
            // A program that ends without reading says why by its status.
            let _ = writer.join();
        }
        output
    });
    judged(&name, &output.with_context(|| format!("cannot wait for {name}"))?)
}

fn judged(name: &str, output: &Output) -> anyhow::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
    bail!("{name} ended with {}:\n  {last}", output.status)
}

/// Whether a command succeeds; what it says is nobody's business.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Asks again and again whether something has come about.
///
/// # Errors
/// When it has not after so many tenths of a second.
pub fn wait_until(what: &str, tenths: u32, mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    for _ in 0..tenths {
        if is_so() {
            return Ok(());
        }
        pause(1);
    }
    ensure!(is_so(), "{what} has not come about in {} s", tenths / 10);
    Ok(())
}

/// How often a wait begins anew because something moved: what never comes to
/// rest, a container that crashes again and again, is waited for no longer.
const STRETCHES: u32 = 10;

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
    mut is_so: impl FnMut() -> bool,
    mut reading: impl FnMut() -> String,
) -> anyhow::Result<()> {
    let mut before = reading();
    for _ in 0..STRETCHES {
        if wait_until(what, tenths, &mut is_so).is_ok() {
            return Ok(());
        }
        let now = reading();
        ensure!(now != before, "{what} has not come about, and nothing moved in the last {} s", tenths / 10);
        before = now;
    }
    bail!("{what} has not come about in {} s, although something moved all the time", tenths * STRETCHES / 10)
}

/// Lets so many tenths of a second go by.
pub fn pause(tenths: u32) {
    #[expect(
        clippy::disallowed_methods,
        reason = "programs of others are asked again and again: they do not tell"
    )]
    thread::sleep(Duration::from_millis(100) * tenths);
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().take(6).map(|word| word.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_what_was_said_last() {
        let error = call(Command::new("sh").args(["-c", "seq 40 >&2; exit 3"])).unwrap_err().to_string();
        assert!(
            error.starts_with("`sh -c seq 40 >&2; exit 3` ended with exit status: 3:\n  29\n"),
            "{error}"
        );
        assert!(error.ends_with("\n  40"), "{error}");
    }

    #[test]
    fn what_is_handed_in_is_read_and_what_is_printed_comes_back() {
        let much = "a line\n".repeat(100_000);
        assert_eq!(call_with(&mut Command::new("cat"), much.as_bytes()).unwrap(), much);
    }

    #[test]
    fn waiting_ends_with_what_was_waited_for() {
        let error = wait_until("the engine", 0, || false).unwrap_err().to_string();
        assert_eq!(error, "the engine has not come about in 0 s");
    }

    #[test]
    fn a_wait_goes_on_while_something_moves_and_ends_when_nothing_does() {
        let mut looks = 0;
        let mut step = 0;
        let comes = wait_while_moving(
            "the label",
            0,
            || {
                looks += 1;
                looks == 4
            },
            || {
                step += 1;
                step.to_string()
            },
        );
        comes.unwrap();
        assert_eq!((looks, step), (4, 4));

        let mut readings = ["one pod", "two pods", "two pods"].into_iter();
        let error =
            wait_while_moving("the label", 0, || false, || readings.next().unwrap().to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "the label has not come about, and nothing moved in the last 0 s");
        assert_eq!(readings.next(), None, "not before a stretch without a move");

        let mut crashes = 0;
        let error = wait_while_moving(
            "the label",
            0,
            || false,
            || {
                crashes += 1;
                crashes.to_string()
            },
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the label has not come about in 0 s, although something moved all the time"
        );
    }
}
