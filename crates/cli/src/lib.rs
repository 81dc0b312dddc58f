//! The `slicewright` command as a library: every command reads its arguments
//! and writes to the streams that it is handed, so that tests run it in
//! process.

pub mod commands;
pub mod draw;
pub mod exit;

use std::ffi::OsString;
use std::io::Write;

use clap::{Parser, Subcommand};

use crate::exit::{Failure, Status};

/// Plans how a fleet of GPUs is cut into MIG slices, explains why, and shows
/// it on simulated GPUs.
#[derive(Debug, Parser)]
#[command(name = "slicewright", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Layouts(commands::layouts::Args),
    Fit(commands::fit::Args),
    Solve(commands::solve::Args),
}

/// Runs one command line. Results go to `out`, messages for people to `err`.
pub fn run<I>(args: I, out: &mut dyn Write, err: &mut dyn Write) -> Status
where
    I: IntoIterator<Item = OsString>,
{
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return exit::clap_error(&error, out, err),
    };
    let result = match cli.command {
        Command::Layouts(args) => commands::layouts::run(&args, out),
        Command::Fit(args) => commands::fit::run(&args, out),
        Command::Solve(args) => commands::solve::run(&args, out),
    };
    result.unwrap_or_else(|failure| failure.report(err))
}

/// What a command returns.
pub type Outcome = Result<Status, Failure>;
