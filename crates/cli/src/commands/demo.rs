//! `slicewright demo`.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use story::{Ending, Entry};

use crate::Outcome;
use crate::commands::simulate;
use crate::draw::{self, Colour};
use crate::exit::{Failure, Status};
use crate::transcript;

/// The story that is told; it is one of the stories that are tests.
const DAY: &str = include_str!("../../../../stories/a-working-day.story");

/// Between two lines on a terminal: slow enough to follow, and the whole day
/// well under a minute.
const PACE: Duration = Duration::from_millis(120);

/// Shows one working day of a small simulated fleet: the requests, the plans
/// and their reasons, the changes, and the messages to each user
///
/// Needs no GPU and no cluster. Time is virtual: the day takes seconds.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not pause between lines
    #[arg(long)]
    fast: bool,
}

/// Runs it.
pub fn run(args: &Args, colour: Colour, out: &mut dyn Write) -> Outcome {
    writeln!(out, "One working day of a small fleet, simulated. {}", draw::legend(colour))?;
    writeln!(out, "A name with * below a slice means that a process has the slice open.\n")?;
    let paced = !args.fast && std::io::stdout().is_terminal();
    let mut written = Ok(());
    let mut shown = 0;
    let told = simulate::tell(DAY, Path::new(""), &mut |entry| {
        if written.is_ok() && !is_for_tests(entry) {
            shown += 1;
            written = out.write_all(transcript::text(entry, colour).as_bytes()).and_then(|()| out.flush());
            if paced && written.is_ok() {
                pause();
            }
        }
    });
    written?;
    match told {
        Ok(Ending { missed: 0 }) => {
            writeln!(out, "\n{shown} events happened. Run your own stories with: slicewright simulate FILE")?;
            Ok(Status::Success)
        }
        Ok(Ending { missed: _ }) => Ok(Status::Negative),
        Err(error) => Err(Failure::Data(format!("the demo's story: {error}"))),
    }
}

/// Expectations make the day a test; people see the pictures.
fn is_for_tests(entry: &Entry) -> bool {
    matches!(entry, Entry::Command { text, .. } if text.starts_with("expect "))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a pause for people who read along on a terminal; nothing waits for it"
)]
fn pause() {
    std::thread::sleep(PACE);
}
