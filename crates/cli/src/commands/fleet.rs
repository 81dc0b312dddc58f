//! `slicewright fleet`.

use std::io::Write;

use crate::draw::{self, Colour};
use crate::exit::{Failure, Status};
use crate::page::svg::{self, Changes};
use crate::question::{Empty, Question};
use crate::source::Source;
use crate::{Outcome, page, picture, structured};

/// Draws a fleet: every GPU with its slices and their use
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright fleet  # the cluster of the current context
  slicewright fleet --fleet examples/fleet/lab.yaml
  slicewright fleet --fleet lab.yaml -o html > fleet.html
  slicewright fleet --context lab -o json | jq '.nodes[].gpus[].slices'")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// A picture of characters
    Text,
    /// For programs (formatVersion 1)
    Json,
    /// The same as YAML
    Yaml,
    /// A picture
    Svg,
    /// A separate page with the picture; it loads no other files
    Html,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    let (snapshot, problems) = args.source.read()?;
    let question = Question::read(&snapshot, problems, None, Empty::Allowed)?;
    match args.output {
        Output::Text => text(&question, colour, out)?,
        Output::Json => structured::json(&structured::fleet(&question), out)?,
        Output::Yaml => structured::yaml(&structured::fleet(&question), out)?,
        Output::Svg => {
            let picture = svg::fleet(&question.seen.inventory, &Changes::new(), &page::title(&question));
            out.write_all(picture.as_bytes())?;
        }
        Output::Html => out.write_all(page::fleet(&question).as_bytes())?,
    }
    Ok(Status::Success)
}

fn text(question: &Question, colour: Colour, out: &mut dyn Write) -> Result<(), Failure> {
    let inventory = &question.seen.inventory;
    write!(out, "{}", picture::fleet(inventory, colour))?;
    if !picture::nodes(inventory).is_empty() {
        writeln!(out, "\n{}", draw::legend(colour))?;
    }
    for problem in &question.problems {
        writeln!(out, "{}: {problem}", problem.severity)?;
    }
    Ok(())
}
