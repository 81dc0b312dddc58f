//! `slicewright-sim node`: the GPUs of one machine, as programs that load
//! `libnvidia-ml.so.1` see them.

mod clients;
mod driver;
mod env;
mod fault;
mod fault_words;
mod files;
mod models;
mod place;
mod restart;
mod setup;
mod show;
mod work;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use store::Store;

/// Simulated GPUs of this machine, for every program that loads our `libnvidia-ml.so.1`.
///
/// The state is in a directory that all programs share, and it outlives them. What one program
/// changes, all others see at once.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory with the state of the node.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = store::DIRECTORY_VARIABLE,
        hide_env_values = true,
        default_value = store::DEFAULT_DIRECTORY
    )]
    dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
A node in a minute:
  slicewright-sim node setup --gpus a100-80gb=2,display --mig
  nvidia-smi mig -i 0 -cgi 19,19,9 -C        # ours, or any program that uses NVML
  slicewright-sim node show
  slicewright-sim node run --on 0:13 --memory 4000 -- sleep 600 &
  nvidia-smi mig -i 0 -dci                   # In use by another client
  slicewright-sim node fault lost --gpu 1 --in 5m
  slicewright-sim node reboot

Programs find the state by SLICEWRIGHT_SIM_DIR, or in /run/slicewright-sim.";

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::Args),
    Env(env::Args),
    Show(show::Args),
    Client(clients::Args),
    Run(clients::RunArgs),
    Work(work::Args),
    Fault(fault::Args),
    Reboot(restart::RebootArgs),
    ReloadDriver(restart::ReloadArgs),
    Files(files::Args),
    Driver(driver::Args),
}

/// Does one thing to the node.
pub(crate) async fn run(args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let Args { dir, command } = args;
    let open = || Store::open(&dir);
    match command {
        Command::Setup(args) => setup::run(&dir, args, out),
        // Also before there is a node.
        Command::Env(args) => env::run(&dir, args, out),
        Command::Show(args) => show::run(&open()?, &args, out),
        Command::Client(args) => clients::run(&open()?, args, out),
        Command::Run(args) => clients::run_program(&open()?, args),
        Command::Work(args) => work::run(&open()?, args, out).await,
        // Which functions there are does not depend on a node.
        Command::Fault(args) => fault::run(open, args, out),
        Command::Reboot(args) => restart::reboot(&open()?, &args, out),
        Command::ReloadDriver(args) => restart::reload(&open()?, &args, out),
        Command::Files(args) => files::run(&open()?, args, out),
        Command::Driver(args) => driver::run(&dir, args, out).await,
    }
}
