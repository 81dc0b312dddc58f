//! `slicewright-image`: builds the programs, finds the files that belong to them, and writes images. `cargo
//! xtask image` starts it with the necessary tools.

mod make;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match make::run(&make::Args::parse(), &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "slicewright-image: {error:#}");
            ExitCode::FAILURE
        }
    }
}
