//! `slicewright`: arguments in, one call into the library, an exit status out.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use cli::draw::Colour;

fn main() -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    let screen = if stdout.is_terminal() && !no_color() { Colour::Always } else { Colour::Never };
    let status = cli::run_on(screen, std::env::args_os(), &mut stdout, &mut std::io::stderr().lock());
    // A reader that went away (`slicewright fleet | head`) is not an error of ours.
    let _ = stdout.flush();
    status.into()
}

/// Whether the environment asks for no colour: `NO_COLOR` is set and not empty.
#[expect(clippy::disallowed_methods, reason = "a convention between programs, which no argument stands for")]
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
