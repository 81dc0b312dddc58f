//! `cargo xtask release` and `cargo xtask publish` start this program.

mod prepare;
mod publish;
mod registry;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

/// Makes a release.
#[derive(Debug, Parser)]
#[command(bin_name = "slicewright-release", max_term_width = 100)]
enum Args {
    /// Writes the next version into the checkout
    Prepare(prepare::Args),
    /// Publishes what was built of this version
    Publish(publish::Args),
}

fn main() -> ExitCode {
    let mut out = std::io::stdout();
    let done = match Args::parse() {
        Args::Prepare(args) => prepare::run(&args, &mut out),
        Args::Publish(args) => publish::run(&args, &mut out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The causes in one line, and no stack: what failed is said in words.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
