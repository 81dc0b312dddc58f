//! `slicewright-sim node`: the GPUs of one machine, as programs that load
//! `libnvidia-ml.so.1` see them.

mod models;
mod setup;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

/// Simulated GPUs of this machine, for every program that loads our `libnvidia-ml.so.1`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory with the state of the node.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = store::DIRECTORY_VARIABLE,
        default_value = store::DEFAULT_DIRECTORY
    )]
    dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::Args),
}

/// Does one thing to the node.
pub(crate) fn run(args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let Args { dir, command } = args;
    match command {
        Command::Setup(args) => setup::run(&dir, args, out),
    }
}
