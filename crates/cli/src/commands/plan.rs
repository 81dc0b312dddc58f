//! `slicewright plan`.

use std::io::Write;
use std::path::PathBuf;

use crate::Outcome;
use crate::preview::{preview, print};
use crate::question::{Question, fleet};

/// Shows what policies would change on a recorded fleet, before anybody merges
///
/// Exits with 0 if nothing changes, with 2 if something does, and with 3 if a
/// policy is violated (a floor or a static layout that is not reached) or
/// blocked. The same input gives the same bytes; "now" is the moment at which
/// the fleet was recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright plan --fleet examples/fleet/lab.yaml -f examples/policies
  slicewright plan --fleet lab.yaml --base main/policies -f policies     what a change of policies changes
  slicewright plan --fleet lab.yaml -f policies -o json | jq .verdict")]
pub struct Args {
    /// The recorded fleet (docs/reference/snapshot.md)
    #[arg(long, value_name = "SNAPSHOT")]
    fleet: PathBuf,
    /// Policies before: a file, or a folder of manifests
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Policies: a file, or a folder of manifests; other objects in it are added to the fleet's
    #[arg(short = 'f', long = "file", value_name = "DIR_OR_FILE")]
    file: PathBuf,
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs (formatVersion 1)
    Json,
}

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (snapshot, problems) = fleet(&args.fleet)?;
    let question = Question::read(&snapshot, problems, Some(&args.file))?;
    let decision = question.decide()?;
    let base = match &args.base {
        Some(base) => {
            let base = Question::read(&snapshot, vec![], Some(base))?;
            let decided = base.decide()?;
            Some((base, decided))
        }
        None => None,
    };
    let preview = preview(&question, &decision, base.as_ref().map(|(base, decided)| (base, decided)));
    match args.output {
        Output::Text => print(&preview, out)?,
        Output::Json => writeln!(out, "{}", serde_json::json!(preview))?,
    }
    Ok(preview.status())
}
