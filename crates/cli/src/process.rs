//! The command as a process: its streams, and whether they have colour. The program `slicewright` is only
//! this; the single program of the image is this and the operator (crates/multicall).

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::draw::Colour;
use crate::exit::{Failure, Status};

/// Runs one command line over the process's own streams.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    let screen = if stdout.is_terminal() && !no_color() { Colour::Always } else { Colour::Never };
    let mut stderr = std::io::stderr().lock();
    let status = crate::run_on(screen, arguments, &mut stdout, &mut stderr);
    // What could not be written is no success; any other status says more than that.
    match (stdout.flush(), status) {
        (Err(error), Status::Success) => Failure::Output(error).report(&mut stderr).into(),
        (Ok(()) | Err(_), status) => status.into(),
    }
}

/// Whether the environment asks for no colour: `NO_COLOR` is set and not empty.
#[expect(clippy::disallowed_methods, reason = "a convention between programs, which no argument stands for")]
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
