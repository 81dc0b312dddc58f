//! `slicewright plan`.

use std::io::Write;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use crate::draw::Colour;
use crate::exit::Failure;
use crate::expectations::{self, Expectation};
use crate::preview::{Freshness, markdown, preview, print};
use crate::question::{self, Empty, Question, refuse_errors};
use crate::source::Source;
use crate::{Outcome, exit, files, page};

/// Shows what policies would change on a fleet, before they are merged
///
/// Exits with 0 if nothing changes, with 2 if something changes, with 3 if a
/// policy is violated (a floor or a static layout that is not reached) or
/// blocked, and with 5 if users lose slices: their pods are evicted, or they
/// are not served although the previous policies would serve them. These take
/// precedence over all of the above: 4 if an expectation does not hold, and 6
/// if the policies name a reviewed plan and the present plan differs. 7 takes
/// precedence over everything: the planner gave up and there is no plan.
///
/// If the plan is not proved optimal, the first line says so, and how far from
/// the optimum it may be.
///
/// The same input gives the same bytes; "now" is the moment at which the fleet
/// was recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright plan --fleet examples/fleet/lab.yaml -f examples/policies
  slicewright plan --context lab -f policies  # on the cluster as it is now
  # What a change of policies changes:
  slicewright plan --fleet lab.yaml --base main/policies -f policies
  # The same for a comment of a pull request, and as a page:
  slicewright plan --fleet lab.yaml --base old -f new -o markdown > comment.md
  slicewright plan --fleet lab.yaml --base old -f new -o html > plan.html
  kustomize build clusters/lab | slicewright plan --fleet lab.yaml -f -
  slicewright plan --fleet lab.yaml -f policies -o json | jq .verdict")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The previous policies, to compare with: a file, or a folder of manifests
    /// (it may be empty)
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Policies: a file, `-` for standard input, or a folder of manifests;
    /// other objects in it are added to the fleet. If the folder has a
    /// kustomization.yaml, only its `resources` are read
    #[arg(short = 'f', long = "file", value_name = "DIR_OR_FILE")]
    file: PathBuf,
    /// A file with expectations (docs/reference/expectations.md);
    /// DIR/expectations.yaml is read automatically
    #[arg(long, value_name = "FILE")]
    expect: Vec<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    /// The maximum length of the Markdown, in bytes, from 4000; it says what was
    /// omitted
    #[arg(long, value_name = "BYTES", default_value_t = markdown::MOST_BYTES, value_parser = max_bytes)]
    max_bytes: usize,
    /// The present time, such as 2026-11-20T08:00:00Z, or `clock` for the clock
    /// of this machine: reports the age of the recording, and warns if it is
    /// old
    #[arg(long, value_name = "TIME", value_parser = now)]
    now: Option<Timestamp>,
    /// The age from which a recording counts as old, such as 24h, 90m or 7d; with
    /// --now
    #[arg(
        long, value_name = "AGE", default_value = "24h", value_parser = age, requires = "now",
        allow_hyphen_values = true
    )]
    max_age: SignedDuration,
}

fn now(text: &str) -> Result<Timestamp, String> {
    match text {
        "clock" => Ok(controller::clock::now()),
        text => text.parse().map_err(|_| "write a time such as 2026-11-20T08:00:00Z, or `clock`".to_owned()),
    }
}

fn age(text: &str) -> Result<SignedDuration, String> {
    let (mut left, mut seconds) = (text, Some(0_i64));
    for (unit, size) in [('d', 86_400), ('h', 3_600), ('m', 60)] {
        let Some((number, rest)) = left.split_once(unit) else { continue };
        let number = number.parse::<u32>().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()));
        seconds = seconds.zip(number).map(|(sum, number)| sum + i64::from(number) * size);
        left = rest;
    }
    let age = seconds.filter(|_| left.is_empty() && !text.is_empty()).map(SignedDuration::from_secs);
    age.ok_or_else(|| {
        "write whole days, hours and minutes, each with its unit and in this order, such as 24h, 90m, 1h30m or 7d"
            .to_owned()
    })
}

fn max_bytes(text: &str) -> Result<usize, String> {
    let least = markdown::LEAST_BYTES;
    let bytes = text.parse().ok().filter(|bytes| *bytes >= least);
    bytes.ok_or_else(|| {
        format!("write a number of bytes, at least {least}: the verdict and the digests need as many")
    })
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs (formatVersion 1)
    Json,
    /// For one comment of a pull request
    Markdown,
    /// A separate page, with the fleet as a picture; it loads no other files
    Html,
    /// The picture alone
    Svg,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    if args.source.is_standard_input() && files::is_standard_input(&args.file) {
        return Err(Failure::Usage(
            "--fleet and -f cannot both be standard input: name a file for one".to_owned(),
        ));
    }
    // A slip of the pen is said at once, and not after a cluster has been read, or has not answered.
    std::iter::once(&args.file).chain(&args.base).try_for_each(|path| question::policies_exist(path))?;
    let (snapshot, problems) = args.source.read()?;
    // With something to compare with, having no policy (any more) is an answer.
    let empty = if args.base.is_some() { Empty::Allowed } else { Empty::Refused };
    let mut question = Question::read(&snapshot, problems, Some(&args.file), empty)?;
    let expectations = expectations(args, &question)?;
    let decision = question.decide()?;
    let base = match &args.base {
        Some(base) => {
            let name = files::name(base);
            let base = Question::read(&snapshot, vec![], Some(base), Empty::Allowed)?;
            // The other problems of the policies before are not those of the change.
            question.problems.extend(base.problems.iter().filter(|problem| problem.object == name).cloned());
            let decided = base.decide()?;
            Some((base, decided))
        }
        None => None,
    };
    let freshness = args.now.map(|now| Freshness { now, oldest: args.max_age });
    let base = base.as_ref().map(|(base, decided)| (base, decided));
    let preview = preview(&question, &decision, base, &expectations, freshness);
    let written = match args.output {
        Output::Text => print(&preview, colour, out),
        Output::Json => writeln!(out, "{}", serde_json::json!(preview)),
        Output::Markdown => markdown::print(&preview, args.max_bytes, out),
        Output::Html => out.write_all(page::plan(&question, &preview).as_bytes()),
        Output::Svg => out.write_all(page::picture(&question, &preview).as_bytes()),
    };
    exit::answered(preview.status(), written)
}

/// What must hold: the files that were named, the one beside the policies,
/// and what stands among them.
fn expectations(args: &Args, question: &Question) -> Result<Vec<Expectation>, Failure> {
    let mut problems = Vec::new();
    let mut all = Vec::new();
    let local = ["expectations.yaml", "expectations.yml"].map(|name| args.file.join(name));
    let mut read: Vec<&PathBuf> = args.expect.iter().collect();
    read.extend(local.iter().filter(|file| file.is_file() && !args.expect.contains(file)));
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
