//! `slicewright plan`.

use std::io::Write;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::expectations::{self, Expectation};
use crate::preview::{markdown, preview, print};
use crate::question::{Empty, Question, fleet, refuse_errors};
use crate::{Outcome, files};

/// Shows what policies would change on a recorded fleet, before anybody merges
///
/// Exits with 0 if nothing changes, with 2 if something does, and with 3 if a
/// policy is violated (a floor or a static layout that is not reached) or
/// blocked; with 4, before all of these, if an expectation does not hold. The same input gives the same bytes; "now" is the moment at which
/// the fleet was recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright plan --fleet examples/fleet/lab.yaml -f examples/policies
  slicewright plan --fleet lab.yaml --base main/policies -f policies     what a change of policies changes
  slicewright plan --fleet lab.yaml --base main/policies -f policies -o markdown > comment.md
  slicewright plan --fleet lab.yaml -f policies -o json | jq .verdict")]
pub struct Args {
    /// The recorded fleet (docs/reference/snapshot.md)
    #[arg(long, value_name = "SNAPSHOT")]
    fleet: PathBuf,
    /// Policies before, to compare with: a file, or a folder of manifests (it may be empty)
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Policies: a file, or a folder of manifests; other objects in it are added to the fleet's. Of a
    /// folder with a kustomization.yaml, what its `resources` name
    #[arg(short = 'f', long = "file", value_name = "DIR_OR_FILE")]
    file: PathBuf,
    /// What must hold (docs/reference/expectations.md); DIR/expectations.yaml is read without being named
    #[arg(long, value_name = "FILE")]
    expect: Vec<PathBuf>,
    /// How it is printed
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// How long the Markdown may be, in bytes; what is left out is said
    #[arg(long, value_name = "BYTES", default_value_t = markdown::MOST_BYTES)]
    max_bytes: usize,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs (formatVersion 1)
    Json,
    /// For one comment of a pull request
    Markdown,
}

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (snapshot, problems) = fleet(&args.fleet)?;
    // With something to compare with, having no policy (any more) is an answer.
    let empty = if args.base.is_some() { Empty::Allowed } else { Empty::Refused };
    let question = Question::read(&snapshot, problems, Some(&args.file), empty)?;
    let expectations = expectations(args, &question)?;
    let decision = question.decide()?;
    let base = match &args.base {
        Some(base) => {
            let base = Question::read(&snapshot, vec![], Some(base), Empty::Allowed)?;
            let decided = base.decide()?;
            Some((base, decided))
        }
        None => None,
    };
    let preview =
        preview(&question, &decision, base.as_ref().map(|(base, decided)| (base, decided)), &expectations);
    match args.output {
        Output::Text => print(&preview, out)?,
        Output::Json => writeln!(out, "{}", serde_json::json!(preview))?,
        Output::Markdown => markdown::print(&preview, args.max_bytes, out)?,
    }
    Ok(preview.status())
}

/// What must hold: the files that were named, the one beside the policies,
/// and what stands among them.
fn expectations(args: &Args, question: &Question) -> Result<Vec<Expectation>, Failure> {
    let mut problems = Vec::new();
    let mut all = Vec::new();
    let beside = ["expectations.yaml", "expectations.yml"].map(|name| args.file.join(name));
    let mut read: Vec<&PathBuf> = args.expect.iter().collect();
    read.extend(beside.iter().filter(|file| file.is_file() && !args.expect.contains(file)));
    for file in &read {
        let (name, text) = files::read(file)?;
        all.extend(expectations::read(&name, &text, &mut problems));
    }
    let named: Vec<String> = read.iter().map(|file| file.display().to_string()).collect();
    let among = question.skipped.iter().filter(|s| expectations::is_expectations(&s.document));
    for skipped in among.filter(|skipped| !named.contains(&skipped.place.file)) {
        all.extend(expectations::read_document(&skipped.place.file, &skipped.document, &mut problems));
    }
    refuse_errors(&problems)?;
    Ok(all)
}
