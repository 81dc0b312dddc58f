//! The `slicewright` command as a library: every command reads its arguments and writes to streams that are
//! arguments, so that tests run it in process.

mod called;
mod card;
pub mod commands;
pub mod draw;
pub mod exit;
pub mod expectations;
pub mod files;
pub mod kustomization;
mod loose_file;
pub mod manifests;
pub mod page;
pub mod picture;
pub mod preview;
pub mod process;
pub mod question;
pub mod shared;
pub mod source;
pub mod structured;
mod table;
pub mod transcript;

use std::ffi::OsString;
use std::io::Write;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::draw::Colour;
use crate::exit::{Failure, Status};

/// Plans how a fleet of GPUs is partitioned into MIG slices, explains the plan,
/// and shows it on simulated GPUs.
#[derive(Debug, Parser)]
#[command(name = "slicewright", version, max_term_width = 100)]
struct Cli {
    /// When to use colour in pictures; `auto`: if the output is a terminal and
    /// NO_COLOR is not set
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    Layouts(commands::layouts::Args),
    Fit(commands::fit::Args),
    Solve(commands::solve::Args),
    Plan(commands::plan::Args),
    Explain(commands::explain::Args),
    Profiles(commands::profiles::Args),
    Fleet(commands::fleet::Args),
    Simulate(commands::simulate::Args),
    Replay(commands::replay::Args),
    Demo(commands::demo::Args),
    Snapshot(commands::snapshot::Args),
    SupportBundle(commands::support_bundle::Args),
    Release(commands::release::Args),
    #[cfg(feature = "gpus")]
    Gpus(commands::gpus::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
}

/// Runs one command line. Results go to `out`, messages for people to `err`.
/// There is no colour unless the command line asks for it.
pub fn run<I>(args: I, out: &mut dyn Write, err: &mut dyn Write) -> Status
where
    I: IntoIterator<Item = OsString>,
{
    run_on(Colour::Never, args, out, err)
}

/// Runs one command line with results on a screen that has these colours.
pub fn run_on<I>(screen: Colour, args: I, out: &mut dyn Write, err: &mut dyn Write) -> Status
where
    I: IntoIterator<Item = OsString>,
{
    let args: Vec<OsString> = args.into_iter().collect();
    let mut command = called::command(Cli::command(), args.first().map(OsString::as_os_str));
    let parsed = command.try_get_matches_from_mut(&args).and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return exit::clap_error(&loose_file::explain(&command, &args, error), out, err),
    };
    let colour = match cli.color {
        Color::Auto => screen,
        Color::Always => Colour::Always,
        Color::Never => Colour::Never,
    };
    let result = match cli.command {
        Command::Layouts(args) => commands::layouts::run(&args, colour, out),
        Command::Fit(args) => commands::fit::run(&args, colour, out),
        Command::Solve(args) => commands::solve::run(&args, out),
        Command::Plan(args) => commands::plan::run(&args, colour, out),
        Command::Explain(args) => commands::explain::run(&args, colour, out),
        Command::Profiles(args) => commands::profiles::run(&args, out, err),
        Command::Fleet(args) => commands::fleet::run(&args, colour, out),
        Command::Simulate(args) => commands::simulate::run(&args, colour, out),
        Command::Replay(args) => commands::replay::run(&args, out, err),
        Command::Demo(args) => commands::demo::run(&args, colour, out),
        Command::Snapshot(args) => commands::snapshot::run(&args, out, err),
        Command::SupportBundle(args) => commands::support_bundle::run(&args, out),
        Command::Release(args) => commands::release::run(&args, out),
        #[cfg(feature = "gpus")]
        Command::Gpus(args) => commands::gpus::run(&args, colour, out),
        Command::Completions(args) => commands::completions::run(&args, Cli::command(), out),
        Command::Man(args) => commands::man::run(&args, Cli::command(), out),
    };
    result.unwrap_or_else(|failure| failure.report(err))
}

/// What a command returns.
pub type Outcome = Result<Status, Failure>;
