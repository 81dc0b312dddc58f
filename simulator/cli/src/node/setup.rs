//! `slicewright-sim node setup`: sets the GPUs of the machine.

use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::ValueEnum;
use gpu::{Caller, DriverBranch, Labelling, Machine, Mode, NvmlError, Topology};
use store::{State, Store};

use super::models::Gpus;

/// Sets up a node: which GPUs it has. An existing node is replaced; programs that use it continue
/// with the new one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help())]
pub(super) struct Args {
    /// Models and how many of each, in the order of their indices.
    #[arg(long, value_name = "MODEL[=COUNT],...", value_delimiter = ',', required = true)]
    gpus: Vec<Gpus>,
    /// The name of the host; the GPUs' UUIDs are made from it, and are the same each time.
    #[arg(long, value_name = "NAME", default_value = "node")]
    host: String,
    /// The driver: a branch, such as 535, or a whole version, such as 535.104.05.
    #[arg(long, value_name = "VERSION", default_value = "580")]
    driver: Driver,
    /// How the machine is built: where its GPUs are on PCIe, NUMA nodes and NVLinks.
    #[arg(long, value_name = "NAME", default_value = "plain", value_parser = machine)]
    machine: Topology,
    /// MIG is on from the start, on every GPU that knows it.
    #[arg(long)]
    mig: bool,
    /// How 7-slice GPUs number their GPU instances: v1 has `1g` at start 0 as 7, v2 as 11.
    #[arg(long, value_enum, default_value = "v1")]
    labelling: LabellingArg,
    /// It is a virtual machine with its GPUs passed through: a change of the MIG mode that needs
    /// a reset stays pending until `nvidia-smi -r` or a reboot.
    #[arg(long)]
    passthrough: bool,
    /// Who may change the node: the user that sets it up and root, or everybody (for containers
    /// that run as any user). Everybody may read.
    #[arg(long, value_enum, default_value = "owner")]
    writers: WritersArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LabellingArg {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WritersArg {
    Owner,
    Everybody,
}

/// A driver by branch, or by its whole version.
#[derive(Clone, Debug)]
struct Driver {
    branch: u16,
    whole: Option<String>,
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let major = text.split('.').next().unwrap_or_default();
        let numbers =
            text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        match major.parse() {
            Ok(branch @ 450..=999) if numbers => {
                Ok(Self { branch, whole: text.contains('.').then(|| text.to_owned()) })
            }
            _ => {
                Err("a driver is a branch from 450 on, such as 580, or a version, such as 580.65.06"
                    .to_owned())
            }
        }
    }
}

fn machine(name: &str) -> Result<Topology, String> {
    Topology::find(name).map_err(|error| error.to_string())
}

fn after_help() -> String {
    let can = |model: &&mig::Model| model.simulatable().is_ok();
    let models: Vec<&str> =
        mig::Catalog::builtin().models().iter().filter(can).map(|model| model.id.as_str()).collect();
    format!(
        "Models with MIG (the names that NVML reports do as well):
  {}
Without:
  {}
Machines (--machine):
  {}

Examples:
  slicewright-sim node setup --gpus a100-80gb=8
  slicewright-sim node setup --gpus a100-80gb=4,display --driver 535 --host dgx
  slicewright-sim node setup --gpus 'NVIDIA A100-SXM4-80GB=2' --dir /tmp/node",
        models.join(", "),
        gpu::without_mig().join(", "),
        Topology::names().join(", "),
    )
}

pub(super) fn run(dir: &Path, args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let Args { gpus, host, driver, machine: built, mig, labelling, passthrough, writers } = args;
    let total: u32 = gpus.iter().map(|gpus| u32::from(gpus.count)).sum();
    if total > 32 {
        bail!("--gpus: {total} GPUs; a host has at most 32");
    }
    if host.is_empty() {
        bail!("--host: a host has a name");
    }
    if usize::try_from(total).is_ok_and(|total| total > built.seats.len()) {
        bail!("--gpus: {total} GPUs; a {} has room for {}", built.name, built.seats.len());
    }
    let labelling = match labelling {
        LabellingArg::V1 => Labelling::V1,
        LabellingArg::V2 => Labelling::V2,
    };
    let mut machine = Machine::new(&host, DriverBranch(driver.branch), store::now()).built_as(built);
    for Gpus { model, count } in &gpus {
        for _ in 0..*count {
            machine = machine.with_gpu_labelled(model, labelling);
        }
    }
    if mig {
        mig_on(&mut machine).context("MIG cannot be switched on")?;
    }
    if passthrough {
        machine = machine.passed_through();
    }
    let mut state = State::new(machine);
    state.driver_version = driver.whole.unwrap_or(state.driver_version);
    state.writers = match writers {
        WritersArg::Owner => store::Writers::Owner,
        WritersArg::Everybody => store::Writers::Everybody,
    };
    let version = state.driver_version.clone();
    Store::create(dir, state)?;
    let each: Vec<String> =
        gpus.iter().map(|Gpus { model, count }| format!("{count} {}", model.name)).collect();
    writeln!(out, "{host} has {} and driver {version}; its state is in {}", each.join(", "), dir.display())?;
    Ok(())
}

fn mig_on(machine: &mut Machine) -> Result<(), NvmlError> {
    for index in 0..u16::try_from(machine.gpus().len()).expect("at most 32") {
        if machine.gpus()[usize::from(index)].mig().is_some() {
            let mut nvml = machine.nvml(Caller::Root);
            let device = nvml.device_handle_by_index(index)?;
            nvml.set_mig_mode(device, Mode::Enabled)?;
        }
    }
    Ok(())
}
