//! `slicewright`: one call into the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::process::run(std::env::args_os())
}
