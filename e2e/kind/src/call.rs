//! Runs other programs, and reports their output when they fail.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::thread;

use anyhow::{Context, bail};

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

pub(crate) fn judged(name: &str, output: &Output) -> anyhow::Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    bail!("{name} ended with {}:\n  {}", output.status, last_lines(&said))
}

/// What was said last, for people.
pub(crate) fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ")
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

/// A command as people read it: its first words.
pub(crate) fn shown(command: &Command) -> String {
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
}
