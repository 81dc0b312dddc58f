//! `slicewright simulate`.

use std::io::Write;
use std::path::{Path, PathBuf};

use story::{Ending, Entry, StoryError};

use crate::draw::Colour;
use crate::exit::{Failure, Status};
use crate::transcript;
use crate::{Outcome, files};

/// Runs a story on a simulated fleet, and prints what happens
///
/// The language is described in docs/reference/story.md. Exits with 0 if all
/// expectations of the story hold, with 1 if not, and with 65 if the story
/// cannot be read or stops half-way.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The story; `-` reads it from standard input
    story: PathBuf,

    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// How a transcript is printed.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Format {
    /// A log for people
    #[default]
    Text,
    /// One JSON object per line, one line per entry
    Json,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    let hint = "a story is a text file with nodes, policies and what happens, as those in the folder stories of the \
                repository";
    let (name, text) = files::read_or_hint(&args.story, hint)?;
    if text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#')) {
        return Err(Failure::Data(format!("{name}: nothing happens in it; {hint}")));
    }
    let folder = args.story.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut written = Ok(());
    let told = tell(&text, &folder, &mut |entry| {
        let line = match args.output {
            Format::Text => transcript::text(entry, colour),
            Format::Json => format!("{}\n", serde_json::to_string(entry).expect("plain data can be written")),
        };
        if written.is_ok() {
            written = out.write_all(line.as_bytes());
        }
    });
    written?;
    match told {
        Ok(Ending { missed: 0 }) => Ok(Status::Success),
        Ok(Ending { missed: _ }) => Ok(Status::Negative),
        Err(error) => Err(Failure::Data(format!("{name}: {error}"))),
    }
}

/// Reads a story and lets it happen; files that it names are beside it.
///
/// # Errors
/// Where it cannot be read, or where it stopped.
pub fn tell(text: &str, folder: &Path, tell: &mut dyn FnMut(&Entry)) -> Result<Ending, StoryError> {
    let story = story::parse(text)?;
    let files = |path: &str| {
        std::fs::read_to_string(folder.join(path)).map_err(|error| format!("{path}: cannot be read: {error}"))
    };
    story::run(&story, &files, tell)
}
