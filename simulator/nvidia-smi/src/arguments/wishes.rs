//! Options as they were found, before they make a command.

use super::{Command, LogForm, Query, Refused, Repeated, Targets, Words, known};
use crate::render::csv::Format;
use crate::render::log::Section;

/// Seconds between two outputs where `-l` does not say.
const LOOP: u64 = 5;

/// The most milliseconds that `-lms` takes: a day.
const LONGEST_LOOP: u64 = 24 * 60 * 60 * 1000;

#[derive(Default)]
pub(super) struct Wishes {
    targets: Targets,
    actions: Vec<Action>,
    sections: Option<Vec<Section>>,
    format: Option<Format>,
    repeated: Repeated,
    xml: bool,
    dtd: bool,
    units: bool,
}

enum Action {
    Done(Command),
    List,
    Log,
    Query(Query, String),
    SetMig(bool),
    SetPersistence(bool),
    SetPowerLimit(u32),
    Reset,
}

impl Wishes {
    pub(super) fn take(&mut self, word: &str, words: &mut Words) -> Result<(), Refused> {
        if self.take_modifier(word, words)? {
            return Ok(());
        }
        let action = match word {
            "-h" | "--help" => Action::Done(Command::Help),
            "--help-query-gpu" => Action::Done(Command::HelpQuery(Query::Gpu)),
            "--help-query-compute-apps" => Action::Done(Command::HelpQuery(Query::ComputeApps)),
            "--help-query-accounted-apps" => Action::Done(Command::HelpQuery(Query::AccountedApps)),
            "--help-query-retired-pages" => Action::Done(Command::HelpQuery(Query::RetiredPages)),
            "--help-query-remapped-rows" => Action::Done(Command::HelpQuery(Query::RemappedRows)),
            "--help-query-supported-clocks" => Action::Done(Command::HelpQuery(Query::SupportedClocks)),
            "--version" => Action::Done(Command::Version),
            "-L" | "--list-gpus" => Action::List,
            "-B" | "--list-excluded-gpus" => Action::Done(Command::ListExcluded),
            // `-a` is what `-q` was called once, and still works.
            "-q" | "--query" | "-a" => Action::Log,
            "--query-gpu" => Action::Query(Query::Gpu, words.value()?),
            "--query-compute-apps" => Action::Query(Query::ComputeApps, words.value()?),
            "--query-accounted-apps" => Action::Query(Query::AccountedApps, words.value()?),
            "--query-retired-pages" => Action::Query(Query::RetiredPages, words.value()?),
            "--query-remapped-rows" => Action::Query(Query::RemappedRows, words.value()?),
            "--query-supported-clocks" => Action::Query(Query::SupportedClocks, words.value()?),
            "-mig" | "--multi-instance-gpu" => Action::SetMig(switch(&words.value()?)?),
            "-pm" | "--persistence-mode" => Action::SetPersistence(switch(&words.value()?)?),
            "-pl" | "--power-limit" => Action::SetPowerLimit(milliwatts(&words.value()?)?),
            "-r" | "--gpu-reset" => match words.optional_value() {
                None => Action::Reset,
                Some(kind) if kind == "bus" => return Err(Refused::not_simulated("-r bus")),
                Some(_) => return Err(Refused::combination()),
            },
            known if known::is_option(known) => return Err(Refused::not_simulated(known)),
            unknown => return Err(Refused::unknown(unknown)),
        };
        self.actions.push(action);
        Ok(())
    }

    /// What says more about an action. Whether it was that.
    fn take_modifier(&mut self, word: &str, words: &mut Words) -> Result<bool, Refused> {
        match word {
            // `-g` is what `-i` was called once, and still works.
            // All GPUs are listed, or none (driver 580.159.04).
            "-i" | "--id" | "-g" if matches!(self.actions[..], [Action::List]) => {
                return Err(Refused::not_valid_here(word));
            }
            "-i" | "--id" | "-g" => self.targets = Targets(Some(words.list()?)),
            "-d" | "--display" => {
                let named: Option<Vec<_>> = words.list()?.iter().map(|name| Section::named(name)).collect();
                self.sections = Some(named.ok_or_else(Refused::sections)?);
            }
            "--format" => self.format = Some(format(&words.list()?)?),
            "-x" | "--xml-format" => self.xml = true,
            "--dtd" => self.dtd = true,
            "-u" | "--unit" => self.units = true,
            "-f" | "--filename" => self.repeated.file = Some(words.value()?),
            "-l" | "--loop" => {
                let seconds = words.optional_number().unwrap_or(LOOP);
                self.repeated.every = Some(interval(seconds.checked_mul(1000))?);
            }
            "-lms" | "--loop-ms" => {
                self.repeated.every = Some(interval(words.optional_number())?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn command(self) -> Result<Command, Refused> {
        let Self { targets, mut actions, sections, format, repeated, xml, dtd, units } = self;
        let action = actions.pop();
        if !actions.is_empty() {
            return Err(Refused::combination());
        }
        let logs = matches!(action, Some(Action::Log));
        if units {
            // Of units only the log is known, of which there are none.
            let alone = logs && !xml && !dtd && sections.is_none() && format.is_none();
            let alone = alone && targets == Targets::default() && repeated == Repeated::default();
            return if alone { Ok(Command::LogOfUnits) } else { Err(Refused::not_simulated("-u")) };
        }
        if dtd && action.is_none() {
            let alone = Repeated { file: repeated.file.clone(), ..Repeated::default() };
            let is_alone = targets == Targets::default() && sections.is_none() && format.is_none() && !xml;
            return if is_alone && repeated == alone {
                Ok(Command::Dtd { file: repeated.file })
            } else {
                Err(Refused::combination())
            };
        }
        let queries = matches!(action, Some(Action::Query(..)));
        if sections.is_some() && xml {
            return Err(Refused::sections_of_xml());
        }
        let may_repeat = logs || queries || action.is_none();
        if (format.is_some() && !queries)
            || (sections.is_some() && !logs)
            || (xml && !logs)
            || (dtd && !xml)
            || (repeated != Repeated::default() && !may_repeat)
        {
            return Err(Refused::combination());
        }
        Ok(match action {
            None => Command::Summary { targets, repeated },
            Some(Action::Done(command)) => command,
            Some(Action::List) => Command::List(targets),
            Some(Action::Log) => {
                let form = if xml {
                    LogForm::Xml { with_dtd: dtd }
                } else {
                    LogForm::Text(sections.unwrap_or_default())
                };
                Command::Log { targets, form, repeated }
            }
            Some(Action::Query(query, fields)) => {
                // What nothing is said about is printed as with `csv` (driver 580.159.04).
                let format = format.unwrap_or(Format { header: true, units: true });
                Command::Query { query, targets, fields, format, repeated }
            }
            Some(Action::SetMig(on)) => Command::SetMig { targets, on },
            Some(Action::SetPersistence(on)) => Command::SetPersistence { targets, on },
            Some(Action::SetPowerLimit(milliwatts)) => Command::SetPowerLimit { targets, milliwatts },
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
            _ => return Err(Refused::format()),
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

/// Watts, with a fraction or without, as milliwatts.
fn milliwatts(value: &str) -> Result<u32, Refused> {
    let (watts, rest) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if watts.is_empty() || !digits(watts) || !digits(rest) || rest.len() > 3 {
        return Err(Refused::combination());
    }
    let milli: u32 = format!("{rest:0<3}").parse().map_err(|_| Refused::combination())?;
    let watts: u32 = watts.parse().map_err(|_| Refused::combination())?;
    watts.checked_mul(1000).and_then(|whole| whole.checked_add(milli)).ok_or_else(Refused::combination)
}

/// Milliseconds between two outputs.
fn interval(milliseconds: Option<u64>) -> Result<u64, Refused> {
    milliseconds.filter(|ms| (1..=LONGEST_LOOP).contains(ms)).ok_or_else(Refused::combination)
}
