//! `slicewright-sim node show`: the node as a table, a picture, or JSON.

mod json;
mod picture;
mod table;

use std::io::Write;

use clap::ValueEnum;
use gpu::{Gpu, Mode};
use store::Store;

/// Shows the node: GPUs, slices, clients, and what goes wrong.
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = "\
Examples:
  slicewright-sim node show
  slicewright-sim node show --output picture
  slicewright-sim node show --output json | jq '.gpus[].instances'")]
pub(super) struct Args {
    /// How.
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// Lines of columns.
    #[default]
    Table,
    /// Each GPU's memory, with its slices where they are.
    Picture,
    /// Everything, for programs.
    Json,
}

pub(super) fn run(store: &Store, args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let state = store.snapshot()?;
    match args.output {
        Output::Table => table::write(&state, store.files_are_current()?, out)?,
        Output::Picture => picture::write(&state, out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &json::describe(&state, store.dir()))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// `on`, `off`, `off, on after a reset`, or `-` for a card without MIG.
fn mode(gpu: &Gpu) -> &'static str {
    use Mode::{Disabled, Enabled};
    match gpu.mode.map(|mode| (mode.current, mode.pending)) {
        None => "-",
        Some((Enabled, Enabled)) => "on",
        Some((Disabled, Disabled)) => "off",
        Some((Disabled, Enabled)) => "off, on after a reset",
        Some((Enabled, Disabled)) => "on, off after a reset",
    }
}
