//! `slicewright profiles`: the hardware profiles that the operator would publish, for Git.

use std::io::Write;
use std::path::PathBuf;

use observe::problem::Severity;
use reconcile::menu::cards;
use serde_json::Value;

use crate::exit::{Failure, Status};
use crate::question::{Empty, Question};
use crate::source::Source;
use crate::{Outcome, files, structured};

/// Works with the hardware profiles of OpenShift AI
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Export(Export),
}

/// Prints a hardware profile for each slice, whole GPU and shared GPU that the policies allow
///
/// These are the profiles that the operator publishes with
/// `--hardware-profiles=publish`, without the label and the annotations by which
/// it knows its own: the operator leaves profiles from Git alone. The command
/// only reads.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright profiles export --fleet lab.yaml -f policies > profiles.yaml
  slicewright profiles export --context lab --queue research --namespace odh")]
struct Export {
    #[command(flatten)]
    source: Source,
    /// Policies: a file, `-` for standard input, or a folder of manifests; if
    /// absent, the policies of the fleet
    #[arg(short = 'f', long = "file", value_name = "DIR_OR_FILE")]
    file: Option<PathBuf>,
    /// The namespace of the profiles: that of OpenShift AI's applications, or a
    /// project
    #[arg(long, default_value = "redhat-ods-applications", value_name = "NAMESPACE")]
    namespace: String,
    /// A local queue of Kueue for which profiles are printed as well
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<String>,
}

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let Command::Export(args) = &args.command;
    if args.source.is_standard_input() && args.file.as_deref().is_some_and(files::is_standard_input) {
        return Err(Failure::Usage(
            "--fleet and -f cannot both be standard input: name a file for one".to_owned(),
        ));
    }
    let (snapshot, problems) = args.source.read()?;
    let question = Question::read(&snapshot, problems, args.file.as_deref(), Empty::Refused)?;
    let (cards, problems) = cards(&question.seen, &args.queues);
    for problem in problems.iter().filter(|problem| problem.severity <= Severity::Warning) {
        writeln!(err, "{}: {problem}", problem.severity)?;
    }
    let profiles: Vec<Value> = cards.iter().map(|card| card.plain_manifest(&args.namespace)).collect();
    if profiles.is_empty() {
        return Err(Failure::Data(
            "the policies allow no slice on any node of the fleet, and no GPU: a policy in mode Enforce has to select a node with GPUs that can be partitioned, or share GPUs or leave them whole".to_owned(),
        ));
    }
    for profile in &profiles {
        writeln!(out, "---")?;
        structured::yaml(profile, out)?;
    }
    Ok(Status::Success)
}
