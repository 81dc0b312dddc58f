//! The command line, in the forms that nvidia-smi takes: `-i 0`, `-i=0`,
//! `--id=0` and `--id 0` are the same. A parser made for other conventions
//! would refuse `-mig`, `-lgip` and the optional value of `-cci`.

mod connections;
mod known;
mod mig;
mod monitors;
mod others;
mod states;
#[cfg(test)]
mod tests;
mod wishes;

use std::collections::VecDeque;

use crate::render::csv::Format;
use crate::render::log::Section;

pub(crate) use connections::{Numa, NvlinkQuestion, Path, PeerAccess, Topology};
pub(crate) use mig::{MigAction, MigCommand};
pub(crate) use monitors::{Form, Metric, ProcessMetric, Rounds, Stamp};
pub(crate) use states::{Confidential, State};
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
    LogOfUnits {
        form: UnitForm,
        file: Option<String>,
    },
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
        form: Form,
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
    /// `compute-policy -l`
    ComputePolicies(Targets),
    /// `boost-slider -l`
    BoostSliders(Targets),
    /// Any question of `vgpu`.
    Vgpu(Targets),
    /// A question of `conf-compute`, `c2c`, `power-profiles` or `drain`.
    State(State),
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

/// In which form `-q -u` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitForm {
    Text,
    Xml,
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
    /// No option of the real program's, or one without its value, with its words.
    Unknown(String),
    /// By a monitor, with these words and its help, and yet as if nothing had happened (driver 580.159.04).
    ToldHow(String),
    /// The real program knows this word, and this one does not simulate it.
    NotSimulated(String),
}

impl Refused {
    fn unknown(option: &str) -> Self {
        Self::Unknown(format!("ERROR: Option {option} is not recognized. Please run 'nvidia-smi -h'.\n\n"))
    }

    /// No option of a subcommand, or a word where it expects none.
    fn stray(word: &str) -> Self {
        Self::Wrong(format!("Option \"{word}\" is not recognized.\n"))
    }

    /// A monitor that cannot begin.
    fn no_monitor(words: &str) -> Self {
        Self::Unknown(format!("{words}Failed to process command line \n\n"))
    }

    fn told_how(words: &str) -> Self {
        Self::ToldHow(format!("{words}\n"))
    }

    fn without_value(option: &str) -> Self {
        Self::Unknown(format!(
            "ERROR: Option {option} is missing its value. Please run 'nvidia-smi -h' for help.\n\n"
        ))
    }

    /// The same, of an option of a monitor.
    fn without_value_in_monitor(option: &str) -> Self {
        Self::told_how(&format!("Option \"{option}\" is missing its value."))
    }

    /// The same, of an option of another subcommand.
    fn without_value_there(option: &str) -> Self {
        Self::Wrong(format!("Option \"{option}\" is missing its value.\n"))
    }

    /// A value that an option cannot have.
    fn value(option: &str, value: &str) -> Self {
        Self::Wrong(format!(
            "ERROR: Option {value} is invalid for {option}. Please run 'nvidia-smi -h' for help.\n\n"
        ))
    }

    /// A value that is looked at when everything else was understood.
    fn late(words: &str) -> Self {
        Self::Wrong(format!("{words}\nTerminating early due to previous errors.\n"))
    }

    fn combination() -> Self {
        Self::Wrong(
            "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n".to_owned(),
        )
    }

    /// An option that only says how `-q` answers.
    fn goes_with_query(option: &str, what: &str) -> Self {
        Self::Wrong(format!(
            "Invalid combination of input arguments. Specify -q/--query and {option} to run {what} query.  Please run 'nvidia-smi -h' for help.\n\n"
        ))
    }

    /// No time between two outputs.
    fn never() -> Self {
        let words =
            "Provided [-l(ms) | --loop(-ms)=] value is incorrect. Loop frequency must be greater than 0.\n\n";
        Self::Wrong(words.to_owned())
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

    fn sections_of(option: &str) -> Self {
        Self::Wrong(format!(
            "Invalid combination of input arguments: --display/-d flags can not be combined with {option} flags.\n"
        ))
    }

    fn no_unit(named: &[String]) -> Self {
        Self::Wrong(format!("Specified unit index {} is not valid\n", named.join(",")))
    }

    fn one_at_a_time() -> Self {
        let words = "ERROR: Only one command can be run at a time. Please run 'nvidia-smi -h' for help.\n\n";
        Self::Wrong(words.to_owned())
    }

    /// A value that an option of a subcommand cannot have.
    fn value_there(option: &str, value: &str) -> Self {
        Self::Wrong(format!("Option \"{value}\" is invalid for \"{option}\".\n"))
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
        let words = words.of_subcommand();
        return match subcommand.as_str() {
            "mig" => mig::parse(words),
            "dmon" => monitors::dmon(words.of_monitor()),
            "pmon" => monitors::pmon(words.of_monitor()),
            "topo" => connections::topo(words),
            "nvlink" => connections::nvlink(words),
            "compute-policy" => others::compute_policy(words),
            "boost-slider" => others::boost_slider(words),
            "vgpu" => others::vgpu(words),
            "conf-compute" => states::conf_compute(words),
            "c2c" => states::c2c(words),
            "power-profiles" => states::power_profiles(words),
            "drain" => states::drain(words),
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
    /// The option that was taken last, as it was written.
    option: String,
    /// What is said of it when its value is missing.
    without_value: fn(&str) -> Refused,
}

impl Words {
    fn new(arguments: &[String]) -> Self {
        let left = arguments.iter().cloned().collect();
        Self { left, option: String::new(), without_value: Refused::without_value }
    }

    /// The words behind a subcommand.
    fn of_subcommand(self) -> Self {
        Self { without_value: Refused::without_value_there, ..self }
    }

    /// The words behind `dmon` and `pmon`.
    fn of_monitor(self) -> Self {
        Self { without_value: Refused::without_value_in_monitor, ..self }
    }

    fn peek(&self) -> Option<&str> {
        self.left.front().map(String::as_str)
    }

    fn next(&mut self) -> Option<String> {
        let word = self.left.pop_front()?;
        self.option.clone_from(&word);
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
        self.left.pop_front().ok_or_else(|| (self.without_value)(&self.option))
    }

    /// The value of an option that may go without.
    fn optional_value(&mut self) -> Option<String> {
        if self.peek()?.starts_with('-') { None } else { self.left.pop_front() }
    }

    /// The number behind an option that may go without. What is no number is passed over, and the option has none
    /// then (driver 580.159.04).
    fn optional_number(&mut self) -> Option<u64> {
        self.optional_value()?.parse().ok()
    }

    fn list(&mut self) -> Result<Vec<String>, Refused> {
        Ok(self.value()?.split(',').map(|item| item.trim().to_owned()).collect())
    }
}
