//! `slicewright fleet`.

use std::io::Write;
use std::path::PathBuf;

use crate::draw::{self, Colour};
use crate::exit::Status;
use crate::question::{Empty, Question, fleet};
use crate::{Outcome, picture};

/// Draws a recorded fleet: every GPU with its slices, and who may use them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  slicewright fleet --fleet examples/fleet/lab.yaml")]
pub struct Args {
    /// The recorded fleet (docs/reference/snapshot.md)
    #[arg(long, value_name = "SNAPSHOT")]
    fleet: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    let (snapshot, problems) = fleet(&args.fleet)?;
    let question = Question::read(&snapshot, problems, None, Empty::Allowed)?;
    write!(out, "{}", picture::fleet(&question.seen.inventory, colour))?;
    writeln!(out, "\n{}", draw::legend(colour))?;
    for problem in &question.problems {
        writeln!(out, "{}: {problem}", problem.severity)?;
    }
    Ok(Status::Success)
}
