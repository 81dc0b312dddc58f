//! The command line, in the forms that nvidia-smi takes: `-i 0`, `-i=0`,
//! `--id=0` and `--id 0` are the same. A parser made for other conventions
//! would refuse `-mig`, `-lgip` and the optional value of `-cci`.

mod connections;
mod known;
mod mig;
mod monitors;
#[cfg(test)]
mod tests;
mod wishes;

use std::collections::VecDeque;

use crate::render::csv::Format;
use crate::render::log::Section;

pub(crate) use connections::{NvlinkQuestion, Path, PeerAccess, Topology};
pub(crate) use mig::{MigAction, MigCommand};
pub(crate) use monitors::{Metric, ProcessMetric, Rounds, Stamp};
use wishes::Wishes;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    HelpQuery(Query),
    MigHelp,
    MonitorHelp,
    Version,
    Summary {
        targets: Targets,
        repeated: Repeated,
    },
    List(Targets),
    Log {
        targets: Targets,
        form: LogForm,
        repeated: Repeated,
    },
    /// The units of several GPUs with one power supply, which `-u` asks for instead of GPUs.
    LogOfUnits,
    /// The GPUs that the driver was told to leave alone.
    ListExcluded,
    /// The DTD of the document that `-x` prints.
    Dtd {
        file: Option<String>,
    },
    Query {
        query: Query,
        targets: Targets,
        fields: String,
        format: Format,
        repeated: Repeated,
    },
    SetMig {
        targets: Targets,
        on: bool,
    },
    SetPersistence {
        targets: Targets,
        on: bool,
    },
    SetPowerLimit {
        targets: Targets,
        milliwatts: u32,
    },
    Reset(Targets),
    Mig(MigCommand),
    DeviceMonitor {
        targets: Targets,
        metrics: Vec<Metric>,
        rounds: Rounds,
        stamp: Stamp,
        file: Option<String>,
    },
    ProcessMonitor {
        targets: Targets,
        metrics: Vec<ProcessMetric>,
        rounds: Rounds,
        stamp: Stamp,
        file: Option<String>,
    },
    Topology(Topology),
    Nvlink {
        targets: Targets,
        question: NvlinkQuestion,
    },
}

/// What `--query-…` asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Gpu,
    ComputeApps,
    AccountedApps,
    RetiredPages,
    RemappedRows,
    SupportedClocks,
}

/// In which form `-q` prints, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogForm {
    /// Lines; of these sections only, if there are any.
    Text(Vec<Section>),
    /// An XML document, which has its DTD in it or only names it.
    Xml { with_dtd: bool },
}

/// Where output goes, and whether it is made again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// Milliseconds between two of them.
    pub(crate) every: Option<u64>,
    /// A file instead of standard output.
    pub(crate) file: Option<String>,
}

/// The GPUs that `-i` names: indices, UUIDs, bus ids. `None` are all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets(pub(crate) Option<Vec<String>>);

/// A command line that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// By the real program too, with these words.
    Wrong(String),
    /// No option of the real program's, with its words.
    Unknown(String),
    /// The real program knows this word, and this one does not simulate it.
    NotSimulated(String),
}

impl Refused {
    fn unknown(option: &str) -> Self {
        Self::Unknown(format!("ERROR: Option {option} is not recognized. Please run 'nvidia-smi -h'.\n\n"))
    }

    fn unknown_of(subcommand: &str, option: &str) -> Self {
        Self::Wrong(format!(
            "ERROR: Option {option} is not recognized. Please run 'nvidia-smi {subcommand} -h' for help.\n\n"
        ))
    }

    /// A word where none is expected.
    fn stray(word: &str) -> Self {
        Self::Wrong(format!("Option \"{word}\" is not recognized.\n"))
    }

    fn combination() -> Self {
        Self::Wrong(
            "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n".to_owned(),
        )
    }

    /// An option that belongs to other commands.
    fn not_valid_here(option: &str) -> Self {
        Self::Wrong(format!(
            "ERROR: Option {option} is not valid for this command. Please run 'nvidia-smi -h' for help.\n\n"
        ))
    }

    /// Not the name of a section of the log.
    fn sections() -> Self {
        Self::Wrong("Failed to parse --display/-d flags\n".to_owned())
    }

    fn sections_of_xml() -> Self {
        let words = "Invalid combination of input arguments: --display/-d flags can not be combined with -x/--xml-format flags.\n";
        Self::Wrong(words.to_owned())
    }

    /// Not the name of a format.
    fn format() -> Self {
        Self::Wrong("Format modifier is not recognized.\n".to_owned())
    }

    fn combination_of(subcommand: &str) -> Self {
        Self::Wrong(format!(
            "Invalid combination of input arguments. Please run 'nvidia-smi {subcommand} -h' for help.\n\n"
        ))
    }

    fn not_simulated(word: &str) -> Self {
        Self::NotSimulated(word.to_owned())
    }
}

/// What a command line asks for.
///
/// # Errors
/// The words with which it is refused.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, Refused> {
    let mut words = Words::new(arguments);
    let subcommand = words.peek().filter(|word| !word.starts_with('-')).map(str::to_owned);
    if let Some(subcommand) = subcommand {
        words.next();
        return match subcommand.as_str() {
            "mig" => mig::parse(words),
            "dmon" => monitors::dmon(words),
            "pmon" => monitors::pmon(words),
            "topo" => connections::topo(words),
            "nvlink" => connections::nvlink(words),
            known if known::is_subcommand(known) => Err(Refused::not_simulated(known)),
            unknown => Err(Refused::unknown(unknown)),
        };
    }
    let mut wishes = Wishes::default();
    while let Some(word) = words.next() {
        wishes.take(&word, &mut words)?;
    }
    wishes.command()
}

/// The words of a command line. A value that stands behind `=` is the next one.
struct Words {
    left: VecDeque<String>,
}

impl Words {
    fn new(arguments: &[String]) -> Self {
        Self { left: arguments.iter().cloned().collect() }
    }

    fn peek(&self) -> Option<&str> {
        self.left.front().map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        let word = self.left.pop_front()?;
        match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => {
                self.left.push_front(value.to_owned());
                Some(option.to_owned())
            }
            _ => Some(word),
        }
    }

    /// The value of an option, which must be there.
    fn value(&mut self) -> Result<String, Refused> {
        self.left.pop_front().ok_or_else(Refused::combination)
    }

    /// The value of an option that may go without.
    fn optional_value(&mut self) -> Option<String> {
        if self.peek()?.starts_with('-') { None } else { self.left.pop_front() }
    }

    /// The number behind an option that may go without.
    fn optional_number(&mut self) -> Option<u64> {
        let number = self.peek()?.parse().ok()?;
        self.left.pop_front();
        Some(number)
    }

    fn list(&mut self) -> Result<Vec<String>, Refused> {
        Ok(self.value()?.split(',').map(|item| item.trim().to_owned()).collect())
    }
}
