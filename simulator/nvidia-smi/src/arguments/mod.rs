//! The command line, in the forms that nvidia-smi takes: `-i 0`, `-i=0`,
//! `--id=0` and `--id 0` are the same. A parser made for other conventions
//! would refuse `-mig`, `-lgip` and the optional value of `-cci`.

mod mig;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::render::csv::Format;
use crate::render::query::Section;

pub(crate) use mig::{MigAction, MigCommand};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    HelpQueryGpu,
    HelpQueryApps,
    MigHelp,
    Version,
    Summary(Targets),
    List(Targets),
    Query { targets: Targets, sections: Vec<Section> },
    QueryGpu { targets: Targets, fields: String, format: Format },
    QueryApps { targets: Targets, fields: String, format: Format },
    SetMig { targets: Targets, on: bool },
    SetPersistence { targets: Targets, on: bool },
    Reset(Targets),
    Mig(MigCommand),
}

/// The GPUs that `-i` names: indices, UUIDs, bus ids. `None` are all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets(pub(crate) Option<Vec<String>>);

/// A command line that nvidia-smi refuses, with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

impl Refused {
    fn unknown(option: &str) -> Self {
        Self(format!("ERROR: Option {option} is not recognized. Please run 'nvidia-smi -h' for help.\n\n"))
    }

    fn combination() -> Self {
        Self("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n".to_owned())
    }
}

/// What a command line asks for.
///
/// # Errors
/// The words with which it is refused.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, Refused> {
    let mut words = Words::new(arguments);
    if words.peek() == Some("mig") {
        words.next();
        return mig::parse(words);
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

    fn list(&mut self) -> Result<Vec<String>, Refused> {
        Ok(self.value()?.split(',').map(|item| item.trim().to_owned()).collect())
    }
}

/// Options as they were found, before they make a command.
#[derive(Default)]
struct Wishes {
    targets: Targets,
    actions: Vec<Action>,
    sections: Option<Vec<Section>>,
    format: Option<Format>,
}

enum Action {
    Done(Command),
    List,
    Query,
    QueryGpu(String),
    QueryApps(String),
    SetMig(bool),
    SetPersistence(bool),
    Reset,
}

impl Wishes {
    fn take(&mut self, word: &str, words: &mut Words) -> Result<(), Refused> {
        let action = match word {
            "-i" | "--id" => {
                self.targets = Targets(Some(words.list()?));
                return Ok(());
            }
            "-d" | "--display" => {
                let named: Option<Vec<_>> = words.list()?.iter().map(|name| Section::named(name)).collect();
                self.sections = Some(named.ok_or_else(Refused::combination)?);
                return Ok(());
            }
            "--format" => {
                self.format = Some(format(&words.list()?)?);
                return Ok(());
            }
            "-h" | "--help" => Action::Done(Command::Help),
            "--help-query-gpu" => Action::Done(Command::HelpQueryGpu),
            "--help-query-compute-apps" => Action::Done(Command::HelpQueryApps),
            "--version" => Action::Done(Command::Version),
            "-L" | "--list-gpus" => Action::List,
            "-q" | "--query" => Action::Query,
            "--query-gpu" => Action::QueryGpu(words.value()?),
            "--query-compute-apps" => Action::QueryApps(words.value()?),
            "-mig" | "--multi-instance-gpu" => Action::SetMig(switch(&words.value()?)?),
            "-pm" | "--persistence-mode" => Action::SetPersistence(switch(&words.value()?)?),
            "-r" | "--gpu-reset" => Action::Reset,
            unknown => return Err(Refused::unknown(unknown)),
        };
        self.actions.push(action);
        Ok(())
    }

    fn command(self) -> Result<Command, Refused> {
        let Self { targets, mut actions, sections, format } = self;
        let action = actions.pop();
        if !actions.is_empty() {
            return Err(Refused::combination());
        }
        let asks = matches!(action, Some(Action::QueryGpu(_) | Action::QueryApps(_)));
        if (format.is_some() && !asks) || (sections.is_some() && !matches!(action, Some(Action::Query))) {
            return Err(Refused::combination());
        }
        let chosen = || {
            let missing =
                "\"--format=\" switch is missing. Should be used together with \"--query-*\" switches.\n";
            format.ok_or_else(|| Refused(missing.to_owned()))
        };
        Ok(match action {
            None => Command::Summary(targets),
            Some(Action::Done(command)) => command,
            Some(Action::List) => Command::List(targets),
            Some(Action::Query) => Command::Query { targets, sections: sections.unwrap_or_default() },
            Some(Action::QueryGpu(fields)) => Command::QueryGpu { targets, fields, format: chosen()? },
            Some(Action::QueryApps(fields)) => Command::QueryApps { targets, fields, format: chosen()? },
            Some(Action::SetMig(on)) => Command::SetMig { targets, on },
            Some(Action::SetPersistence(on)) => Command::SetPersistence { targets, on },
            Some(Action::Reset) => Command::Reset(targets),
        })
    }
}

/// `csv`, which must be there, and what it goes without.
fn format(items: &[String]) -> Result<Format, Refused> {
    let mut format = Format { header: true, units: true };
    let mut csv = false;
    for item in items {
        match item.as_str() {
            "csv" => csv = true,
            "noheader" => format.header = false,
            "nounits" => format.units = false,
            _ => return Err(Refused::combination()),
        }
    }
    if csv { Ok(format) } else { Err(Refused::combination()) }
}

fn switch(value: &str) -> Result<bool, Refused> {
    match value.to_ascii_uppercase().as_str() {
        "0" | "DISABLED" => Ok(false),
        "1" | "ENABLED" => Ok(true),
        _ => Err(Refused::combination()),
    }
}
