//! `slicewright-sim node fault`: injects faults, with their times and numbers.

mod functions;

use std::io::Write;

use anyhow::{Context, bail};
use clap::Subcommand;
use gpu::{Behaviour, Fault, NvmlError, Scheduled, Times, Verb};
use jiff::SignedDuration;
use mig::Architecture;
use store::{FunctionFault, State, Store, StoreError};

use super::fault_words::{behaviour, describe, times};
use super::place::find_gpu;

/// Makes things fail on the node: at once or later; once, several times, or until cleared.
#[derive(Debug, clap::Args)]
#[command(after_long_help = after_help())]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A function of NVML misbehaves in every program that calls it.
    Function {
        /// Its name, such as nvmlDeviceCreateGpuInstance; `*` is every function, `reset` is
        /// `nvidia-smi --gpu-reset`.
        #[arg(value_name = "FUNCTION")]
        name: String,
        #[command(flatten)]
        how: How,
        #[command(flatten)]
        often: Often,
        /// Only when it is called for this GPU or a slice of it.
        #[arg(long, value_name = "INDEX")]
        gpu: Option<u16>,
        #[command(flatten)]
        when: When,
    },
    /// A GPU falls off the bus: its calls fail with NVML_ERROR_GPU_IS_LOST until a reboot.
    Lost {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        when: When,
    },
    /// The driver reports an Xid error, as an event and as the GPU's last one.
    Xid {
        #[command(flatten)]
        which: Which,
        /// Its number: 31 is a fault of the application, 79 a GPU that is gone.
        #[arg(value_name = "NUMBER")]
        number: u32,
        #[command(flatten)]
        when: When,
    },
    /// The memory has ECC errors. The Xid that a driver reports with them (48, 94, 95) is a fault
    /// of its own.
    Ecc {
        #[command(flatten)]
        which: Which,
        /// The number of corrected errors.
        #[arg(long, value_name = "N", default_value_t = 0)]
        corrected: u32,
        /// The number of uncorrected errors.
        #[arg(long, value_name = "N", default_value_t = 0, required_unless_present = "corrected")]
        uncorrected: u32,
        #[command(flatten)]
        when: When,
    },
    /// The next change of the MIG mode only becomes pending: the reset that the driver does itself
    /// fails, and `nvidia-smi -r` or a reboot brings the mode into force.
    PendingMode {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        when: When,
    },
    /// Resets fail: `nvidia-smi -r`, and those that the driver does itself when the MIG mode changes.
    FailedReset {
        #[command(flatten)]
        which: Which,
        /// The code, by name or number.
        #[arg(long, value_name = "CODE", default_value = "UNKNOWN", value_parser = code)]
        fails_with: NvmlError,
        #[command(flatten)]
        often: Often,
        #[command(flatten)]
        when: When,
    },
    /// Removes all faults, those that are scheduled included. What has happened stays: a lost
    /// GPU needs a reboot.
    Clear,
    /// Lists the functions.
    Functions {
        /// Only those with this in their name.
        #[arg(value_name = "TEXT", default_value = "")]
        text: String,
    },
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct How {
    /// It does nothing and fails with this code, for example IN_USE, NVML_ERROR_IN_USE or 19.
    #[arg(long, value_name = "CODE", value_parser = code)]
    fails_with: Option<NvmlError>,
    /// It does its work, but returns this error code.
    #[arg(long, value_name = "CODE", value_parser = code)]
    works_and_fails_with: Option<NvmlError>,
    /// It takes this much longer, for example 5s or 2m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    slow: Option<SignedDuration>,
    /// It never returns.
    #[arg(long)]
    hangs: bool,
    /// It returns success, but does nothing.
    #[arg(long)]
    ignored: bool,
}

impl How {
    fn behaviour(self) -> Behaviour {
        let Self { fails_with, works_and_fails_with, slow, hangs, ignored } = self;
        match (fails_with, works_and_fails_with, slow) {
            (Some(error), ..) => Behaviour::Fail(error),
            (_, Some(error), _) => Behaviour::FailAfterEffect(error),
            (_, _, Some(more)) => Behaviour::Slow(more),
            _ if hangs => Behaviour::Hang,
            _ => {
                debug_assert!(ignored, "clap requires one of them");
                Behaviour::Ignore
            }
        }
    }
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct Often {
    /// How many calls.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Every call, until `fault clear`.
    #[arg(long, conflicts_with = "times")]
    until_cleared: bool,
}

impl Often {
    const fn times(self) -> Times {
        if self.until_cleared { Times::UntilCleared } else { Times::Count(self.times) }
    }
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct When {
    /// After a while, such as 30s or 5m; at once, if it is not given.
    #[arg(long = "in", value_name = "DURATION", value_parser = duration)]
    after: Option<SignedDuration>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct Which {
    /// The GPU.
    #[arg(long, value_name = "INDEX")]
    gpu: u16,
}

fn after_help() -> String {
    let codes: Vec<String> =
        NvmlError::ALL.iter().map(|error| format!("{} ({})", short(*error), error.code())).collect();
    format!(
        "Examples:
  slicewright-sim node fault function nvmlDeviceCreateGpuInstance \\
    --fails-with INSUFFICIENT_RESOURCES
  slicewright-sim node fault function nvmlDeviceSetMigMode \\
    --ignored --gpu 1 --times 3
  slicewright-sim node fault function nvmlDeviceGetMigMode \\
    --slow 5s --until-cleared
  slicewright-sim node fault function '*' \\
    --fails-with GPU_IS_LOST --gpu 0 --until-cleared --in 10m
  slicewright-sim node fault lost --gpu 0 --in 30s
  slicewright-sim node fault xid --gpu 0 79
  slicewright-sim node fault ecc --gpu 0 --uncorrected 1
  slicewright-sim node fault pending-mode --gpu 0
  slicewright-sim node fault failed-reset --gpu 0 --fails-with IN_USE --times 2
  slicewright-sim node fault functions MigMode
  slicewright-sim node fault clear

What is armed and scheduled: `slicewright-sim node show`. Codes:
  {}",
        codes.join(", ")
    )
}

fn short(error: NvmlError) -> &'static str {
    error.name().trim_start_matches("NVML_ERROR_")
}

fn code(text: &str) -> Result<NvmlError, String> {
    let plain = text.trim().replace(['-', ' '], "_").to_ascii_uppercase();
    let meant = |error: &&NvmlError| {
        short(**error) == plain.trim_start_matches("NVML_ERROR_") || error.code().to_string() == plain
    };
    NvmlError::ALL.iter().find(meant).copied().ok_or_else(|| {
        let known: Vec<String> =
            NvmlError::ALL.iter().map(|e| format!("{} ({})", short(*e), e.code())).collect();
        format!("no code of NVML; there are {}", known.join(", "))
    })
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    let parsed = text.parse::<SignedDuration>().ok().filter(SignedDuration::is_positive);
    parsed.ok_or_else(|| "a duration is a number with its unit, such as 30s, 5m or 1h30m".to_owned())
}

pub(super) fn run(
    open: impl FnOnce() -> Result<Store, StoreError>,
    args: Args,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let command = match args.command {
        Command::Functions { text } => return functions::list(&text, out),
        other => other,
    };
    // What is misspelt is told before a node is looked for.
    let command = match command {
        Command::Function { name, how, often, gpu, when } => {
            Command::Function { name: functions::find(&name)?, how, often, gpu, when }
        }
        other => other,
    };
    let said = open()?.update(|state| arm(state, command))??;
    writeln!(out, "{said}")?;
    Ok(())
}

/// Arms or schedules one fault; what it says of it.
fn arm(state: &mut State, command: Command) -> anyhow::Result<String> {
    let (fault, when) = match command {
        Command::Function { name, how, often, gpu, when } => {
            if let Some(gpu) = gpu {
                find_gpu(&state.machine, gpu)?;
            }
            let (behaviour, times) = (how.behaviour(), often.times());
            let from = when.after.map(|after| state.machine.now() + after);
            let said = format!("{name} {}, {}", self::behaviour(behaviour), self::times(times));
            state.functions.push(FunctionFault { function: name, gpu, behaviour, times, from });
            return Ok(said + &on(gpu) + &later(when));
        }
        Command::Lost { which, when } => (Fault::FallsOffTheBus { gpu: which.gpu }, when),
        Command::Xid { which, number, when } => (Fault::Xid { gpu: which.gpu, code: number }, when),
        Command::Ecc { which, corrected, uncorrected, when } => {
            if (corrected, uncorrected) == (0, 0) {
                bail!("no ECC errors: give --corrected or --uncorrected more than 0");
            }
            (Fault::Ecc { gpu: which.gpu, corrected, uncorrected }, when)
        }
        Command::PendingMode { which, when } => {
            let gpu = find_gpu(&state.machine, which.gpu)?;
            let facts =
                gpu.mig().with_context(|| format!("GPU {} ({}) has no MIG", which.gpu, gpu.model.name))?;
            if facts.architecture != Architecture::Ampere {
                bail!(
                    "GPU {} ({}) changes its MIG mode without a reset: only on Ampere can it be pending; \
                     a client that has the GPU open makes it pending on every model",
                    which.gpu,
                    gpu.model.name
                );
            }
            let fault = resets(which.gpu, NvmlError::Unknown, Times::Count(1));
            begin(state, fault, when);
            let gpu = which.gpu;
            return Ok(format!("the next MIG mode of GPU {gpu} stays pending until a reset{}", later(when)));
        }
        Command::FailedReset { which, fails_with, often, when } => {
            (resets(which.gpu, fails_with, often.times()), when)
        }
        Command::Clear => {
            let before =
                state.functions.len() + state.machine.armed().count() + state.machine.scheduled().len();
            state.functions.clear();
            state.machine.begin(Fault::Clear);
            state.machine.clear_schedule();
            return Ok(format!("{before} faults cleared"));
        }
        Command::Functions { .. } => bail!("the functions are listed without a node"),
    };
    let (what, gpu, how, often) = describe(&fault);
    if let Some(gpu) = gpu {
        find_gpu(&state.machine, gpu)?;
    }
    begin(state, fault, when);
    let words = [what, how, often].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
    Ok(words.join(" ") + &on(gpu) + &later(when))
}

fn begin(state: &mut State, fault: Fault, when: When) {
    match when.after {
        None => state.machine.begin(fault),
        Some(after) => state.machine.schedule(Scheduled { at: state.machine.now() + after, fault }),
    }
}

const fn resets(gpu: u16, error: NvmlError, times: Times) -> Fault {
    Fault::Call { verb: Verb::Reset, gpu: Some(gpu), behaviour: Behaviour::Fail(error), times }
}

fn on(gpu: Option<u16>) -> String {
    gpu.map(|gpu| format!(", on GPU {gpu}")).unwrap_or_default()
}

fn later(when: When) -> String {
    when.after.map(|after| format!(", in {after:#}")).unwrap_or_default()
}
