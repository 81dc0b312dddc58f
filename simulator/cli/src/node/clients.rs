//! `slicewright-sim node client` and `run`: processes that have a GPU or a
//! slice open.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command as Process;

use anyhow::{Context, bail};
use clap::Subcommand;
use gpu::{Activity, Client, ClientId, Target};
use store::Store;

use super::place::{self, Place};

/// Clients that have a GPU or a slice open, without a process behind them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  slicewright-sim node client start --on 0 --name nv-hostengine --watches
  slicewright-sim node client start --on 0:13 --name python --memory 4000
  slicewright-sim node client end 1
  slicewright-sim node client end --all

A client of this kind stays until it is ended, or the node reboots. One that is
there as long as a real process is: `slicewright-sim node run`.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A client opens something.
    Start {
        #[command(flatten)]
        opens: Opens,
        /// Its process id.
        #[arg(long, value_name = "PID", default_value_t = 4711)]
        pid: u32,
        /// The name of its program.
        #[arg(long, value_name = "NAME", default_value = "python")]
        name: String,
    },
    /// A client closes what it has open.
    End {
        /// Its number, as `node show` prints it.
        #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<u64>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
}

/// Runs a program that has a GPU or a slice open: as long as it runs, and until the last process
/// that it started is gone, the slice is in use.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  slicewright-sim node run --on 0:13 --memory 4000 -- sleep 600
  slicewright-sim node run --on MIG-0a7e... -- python train.py

The program replaces this one: it has this process's id, its signals and its
exit status, which suits the entry point of a container. How it ends does not
matter: what it had open is closed when its processes are gone, in whatever
container they were. Readers notice within a tenth of a second.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    opens: Opens,
    /// Its name in lists of processes [default: the name of the program].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct Opens {
    /// What it opens: a GPU (0), a GPU instance (0:13), a compute instance (0:13:0), or a UUID.
    /// Who computes in a GPU instance has its compute instance open.
    #[arg(long, value_name = "PLACE")]
    on: Place,
    /// How much memory it has there, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    memory: u32,
    /// It has what a program that computes has, and computes nothing, like a notebook between two
    /// cells: it blocks the same, the utilisation is 0, and the clocks are up.
    #[arg(long, conflicts_with = "watches")]
    idles: bool,
    /// It only monitors: it blocks changes of the MIG mode and resets, but not the creation of
    /// instances.
    #[arg(long)]
    watches: bool,
}

impl Opens {
    fn client(&self, store: &Store, pid: u32, name: String) -> anyhow::Result<Client> {
        let target = store.read(|state| {
            let target = self.on.find(&state.machine)?;
            if self.watches { Ok(target) } else { place::where_one_computes(&state.machine, target) }
        })??;
        let activity = match (self.watches, self.idles) {
            (true, _) => Activity::Watches,
            (false, true) => Activity::Idles,
            (false, false) => Activity::Computes,
        };
        Ok(Client { pid, name, target, activity, memory_mib: self.memory })
    }
}

fn cannot_open(target: Target) -> String {
    format!("{} cannot be opened", place::name(target))
}

pub(super) fn run(store: &Store, args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    match args.command {
        Command::Start { opens, pid, name } => {
            let client = opens.client(store, pid, name)?;
            let (target, name) = (client.target, client.name.clone());
            let opened = store.update(|state| state.machine.open(client))?;
            let id = opened.with_context(|| cannot_open(target))?.0;
            writeln!(out, "client {id}: {name} has {} open", place::name(target))?;
        }
        Command::End { ids, all } => {
            let ended = store.update(|state| -> anyhow::Result<usize> {
                let there: Vec<u64> = state.machine.clients().map(|(id, _)| id.0).collect();
                let ids = if all { there.clone() } else { ids };
                if let Some(id) = ids.iter().find(|id| !there.contains(id)) {
                    let known = there.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                    bail!(
                        "there is no client {id}: there {}",
                        match there.len() {
                            0 => "are none".to_owned(),
                            1 => format!("is {known}"),
                            _ => format!("are {known}"),
                        }
                    );
                }
                for id in &ids {
                    state.machine.close(ClientId(*id));
                }
                Ok(ids.len())
            })??;
            writeln!(out, "{ended} client{} ended", if ended == 1 { "" } else { "s" })?;
        }
    }
    Ok(())
}

/// Becomes the program; comes back only if that is not possible.
pub(super) fn run_program(store: &Store, args: RunArgs) -> anyhow::Result<()> {
    let RunArgs { opens, name, command } = args;
    let (program, arguments) = command.split_first().expect("clap requires one");
    let name = name.unwrap_or_else(|| program.to_string_lossy().into_owned());
    let client = opens.client(store, std::process::id(), name)?;
    let target = client.target;
    let live = store.enter(client)?.with_context(|| cannot_open(target))?;
    live.pass_on().context("its file cannot be handed on")?;
    let error = Process::new(program).args(arguments).exec();
    // It was for a moment; the next to look finds nobody there.
    drop(live);
    Err(error).with_context(|| format!("cannot run {}", program.to_string_lossy()))
}
