//! `slicewright simulate`.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use story::{Ending, Entry, StoryError};

use crate::Outcome;
use crate::draw::Colour;
use crate::exit::{Failure, Status};
use crate::transcript;

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
    let name = args.story.display().to_string();
    let mut text = String::new();
    let read = if name == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(&args.story).map(|read| text = read)
    };
    read.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "; a story is a text file with nodes, policies and what happens, as those in the folder stories of the \
                 repository"
            }
            _ => "",
        };
        Failure::Data(format!("{name}: cannot be read: {error}{hint}"))
    })?;
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
