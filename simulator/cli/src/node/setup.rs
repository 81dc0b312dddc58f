//! `slicewright-sim node setup`.

use std::io::Write;
use std::path::Path;

use anyhow::bail;
use gpu::{DriverBranch, Machine};
use store::{State, Store};

use super::models::Gpus;

/// Sets up a node: which GPUs it has. One that is there already is replaced.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Models and how many of each, by index: `a100-80gb=2,display`.
    #[arg(long, value_name = "MODEL[=COUNT],...", value_delimiter = ',', required = true)]
    gpus: Vec<Gpus>,
    /// The name of the host, from which the GPUs' UUIDs are made.
    #[arg(long, value_name = "NAME", default_value = "node")]
    host: String,
}

pub(super) fn run(dir: &Path, args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let Args { gpus, host } = args;
    let total: u32 = gpus.iter().map(|gpus| u32::from(gpus.count)).sum();
    if total > 32 {
        bail!("--gpus: {total} GPUs; a host has at most 32");
    }
    let mut machine = Machine::new(&host, DriverBranch::default(), store::now());
    for Gpus { model, count } in &gpus {
        for _ in 0..*count {
            machine = machine.with_gpu(model);
        }
    }
    Store::create(dir, State::new(machine))?;
    writeln!(out, "{host} has {total} GPUs; its state is in {}", dir.display())?;
    Ok(())
}
