//! `slicewright gpus`.

mod json;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mig::{Catalog, Model};
use nvml::compare::{self, Difference};
use nvml::port::{Answer, Found, Gpu, Gpus, Layout, Profile};
use nvml::{Error, Unanswered, Worker};

use crate::Outcome;
use crate::draw::Colour;
use crate::exit::{Failure, Status, chain};

/// Shows the GPUs of this machine and the slices that they are cut into
///
/// Reads them through NVIDIA's management library, or through the simulator's
/// in its place, and changes nothing. GPUs that Slicewright does not know are
/// shown too: the driver says how they can be partitioned.
///
/// Only root can see where slices are; other users see which devices programs
/// can open. A slice is drawn as in use when a process computes on it. A slice
/// that is allocated to an idle pod is not recognised.
///
/// Exits with 0 when everything was read, and with 1 when there is no driver
/// or a GPU does not answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright gpus             # tables and pictures
  slicewright gpus --profiles  # what each GPU can be cut into, too
  slicewright gpus -o json     # everything, for programs
  # Where the GPU Operator installs the driver:
  slicewright gpus --library /run/nvidia/driver/usr/lib64/libnvidia-ml.so.1")]
pub struct Args {
    /// The library to load; without it libnvidia-ml.so.1, wherever the system has it
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Show what each GPU can be cut into, and where the driver and our tables differ
    #[arg(long)]
    profiles: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// Tables and pictures
    Text,
    /// One JSON document
    Json,
}

/// How long the driver may take for all of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was read.
struct Machine {
    found: Found,
    gpus: Vec<Seen>,
}

/// One GPU, as far as it could be read.
struct Seen {
    gpu: Gpu,
    model: Option<&'static Model>,
    profiles: Answer<Vec<Profile>>,
    layout: Answer<Layout>,
    /// Where the driver's values are not those of the model's table.
    differences: Vec<Difference>,
}

impl Machine {
    /// Whether everything could be read.
    fn is_complete(&self) -> bool {
        let Self { found, gpus } = self;
        found.silent.is_empty() && gpus.iter().all(|seen| seen.profiles.is_ok() && seen.layout.is_ok())
    }
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    let machine = read(args.library.as_deref())?;
    match args.output {
        Output::Text => text::print(&machine, args.profiles, colour, out)?,
        Output::Json => writeln!(out, "{:#}", json::render(&machine))?,
    }
    Ok(if machine.is_complete() { Status::Success } else { Status::Negative })
}

/// Reads on a thread of its own, so that a driver that hangs is told of.
fn read(library: Option<&Path>) -> Result<Machine, Failure> {
    let library = library.map(Path::to_owned);
    let (worker, ended) = Worker::start(move |serve| nvml::open(library.as_deref(), |gpus| serve(gpus)));
    match worker.ask(look).wait(PATIENCE) {
        Ok(machine) => machine.map_err(|error| Failure::Unavailable(chain(&error))),
        Err(waiting @ Unanswered::NotYet(_)) => Err(Failure::Unavailable(waiting.to_string())),
        Err(gone @ Unanswered::Gone) => Err(Failure::Unavailable(match ended.wait(PATIENCE) {
            Ok(Err(error)) => unavailable(&error),
            Ok(Ok(())) | Err(_) => gone.to_string(),
        })),
    }
}

fn unavailable(error: &Error) -> String {
    match error {
        Error::NoLibrary { .. } => format!("{} (--library PATH)", chain(error)),
        other => chain(other),
    }
}

fn look(gpus: &mut dyn Gpus) -> Answer<Machine> {
    let found = gpus.enumerate()?;
    let seen = |gpu: &Gpu| {
        let model = Catalog::builtin().by_product_name(&gpu.name);
        let profiles = gpus.profiles(&gpu.uuid);
        let differences = match (model, &profiles) {
            (Some(model), Ok(profiles)) if !profiles.is_empty() => {
                compare::with_model(model, gpu, profiles, &found.driver)
            }
            _ => Vec::new(),
        };
        let layout = gpus.layout(&gpu.uuid);
        Seen { gpu: gpu.clone(), model, profiles, layout, differences }
    };
    let gpus = found.gpus.iter().map(seen).collect();
    Ok(Machine { found, gpus })
}
