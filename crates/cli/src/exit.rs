//! Exit statuses, and how failures are reported.

use std::io::{self, Write};
use std::process::ExitCode;

/// What the process exits with. The numbers 64 and 65 are those of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 0: done; it fits; nothing would change.
    Success,
    /// 1: it does not fit; something failed that is nobody's input.
    Negative,
    /// 2: `plan`: something would change.
    Changes,
    /// 3: `plan`: something would change, and something is blocked or violated.
    Blocked,
    /// 4: `plan`: an expectation does not hold, whether something changes or not.
    Unmet,
    /// 5: `plan`: people lose a slice, or the one that they would have got.
    Loss,
    /// 6: `plan`: the policies say which plan was reviewed, and it is another one.
    NotReviewed,
    /// 7: the planner gave up: it found no plan, or (`solve`) not the proof that its plan is the best.
    GaveUp,
    /// 64: a wrong command line, or a question that makes no sense.
    Usage,
    /// 65: input that cannot be read or is not valid.
    Data,
    /// 141: the reader went away before all was said, as of a program that ends by SIGPIPE.
    Cut,
}

impl Status {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Changes => 2,
            Self::Blocked => 3,
            Self::Unmet => 4,
            Self::Loss => 5,
            Self::NotReviewed => 6,
            Self::GaveUp => 7,
            Self::Usage => 64,
            Self::Data => 65,
            Self::Cut => 141,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}

/// Why a command stops.
#[derive(Debug)]
pub enum Failure {
    /// The question makes no sense.
    Usage(String),
    /// The input cannot be read or is not valid.
    Data(String),
    /// Something that cannot be, and is a bug of ours.
    Bug(String),
    /// The effort was used up before any plan was found.
    GaveUp(String),
    /// The cluster does not answer, or refuses.
    Unavailable(String),
    /// Writing the result failed.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    /// The failure of an error and its causes, as one line each.
    #[must_use]
    pub fn data(error: &dyn std::error::Error) -> Self {
        Self::Data(chain(error))
    }

    /// Writes the message for people and gives the status.
    pub fn report(&self, err: &mut dyn Write) -> Status {
        let (message, status) = match self {
            Self::Usage(message) => (message.as_str(), Status::Usage),
            Self::Data(message) => (message.as_str(), Status::Data),
            Self::GaveUp(message) => (message.as_str(), Status::GaveUp),
            Self::Bug(message) | Self::Unavailable(message) => (message.as_str(), Status::Negative),
            // The reader went away, and knows that it did: nothing is said, as other programs do.
            Self::Output(error) if is_cut(error) => return Status::Cut,
            Self::Output(error) => {
                let _ = writeln!(err, "error: cannot write the result: {error}");
                return Status::Negative;
            }
        };
        let _ = writeln!(err, "error: {message}");
        status
    }
}

/// Whether a reader went away before everything was written.
fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// The status of an answer that is known before it is written: a reader who
/// stops reading (`slicewright plan | head -1`) does not change it.
///
/// # Errors
/// If it cannot be written for another reason.
pub fn answered(status: Status, written: io::Result<()>) -> Result<Status, Failure> {
    match written {
        Err(error) if !is_cut(&error) => Err(Failure::Output(error)),
        Ok(()) | Err(_) => Ok(status),
    }
}

/// An error and what caused it, in one line, each thing once.
pub use controller::class::chain;

/// What clap says, with our statuses: help and version are results.
pub(crate) fn clap_error(error: &clap::Error, out: &mut dyn Write, err: &mut dyn Write) -> Status {
    let text = error.render();
    if error.use_stderr() {
        let _ = write!(err, "{text}");
        Status::Usage
    } else {
        match write!(out, "{text}") {
            Ok(()) => Status::Success,
            Err(error) => Failure::Output(error).report(err),
        }
    }
}
