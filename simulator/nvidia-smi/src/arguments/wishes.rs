//! Options as they were found, before they make a command.

use super::known::{self, Value};
use super::{Command, LogForm, Query, Refused, Repeated, Targets, UnitForm, Words};
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
    /// The first option, as it was written.
    first: Option<String>,
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
        let written = words.option.clone();
        if let [Action::List | Action::Done(_)] = self.actions[..] {
            return Err(if is_alone(word) {
                Refused::one_at_a_time()
            } else {
                Refused::not_valid_here(&written)
            });
        }
        if let (true, Some(other)) = (is_alone(word), &self.first) {
            return Err(Refused::not_valid_here(other));
        }
        self.first.get_or_insert(written);
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
            "-mig" | "--multi-instance-gpu" => {
                Action::SetMig(switch(&words.value()?).ok_or_else(Refused::combination)?)
            }
            "-pm" | "--persistence-mode" => {
                let written = words.option.clone();
                let value = words.value()?;
                let invalid = || match is_number(&value) {
                    true => Refused::late(&format!("Invalid persistence mode: {value}")),
                    false => Refused::value(&written, &value),
                };
                Action::SetPersistence(switch(&value).ok_or_else(invalid)?)
            }
            "-pl" | "--power-limit" => {
                let written = words.option.clone();
                let value = words.value()?;
                let invalid = || Refused::value(&written, &value);
                Action::SetPowerLimit(milliwatts(&value).ok_or_else(invalid)?)
            }
            "-r" | "--gpu-reset" => match words.optional_value() {
                None => Action::Reset,
                Some(kind) if kind == "bus" => return Err(Refused::not_simulated("-r bus")),
                Some(_) => return Err(Refused::combination()),
            },
            known if known::is_option(known) => return Err(not_simulated(known, words)),
            unknown => return Err(Refused::unknown(unknown)),
        };
        self.actions.push(action);
        Ok(())
    }

    /// What says more about an action. Whether it was that.
    fn take_modifier(&mut self, word: &str, words: &mut Words) -> Result<bool, Refused> {
        match word {
            // `-g` is what `-i` was called once, and still works.
            "-i" | "--id" | "-g" => self.targets = Targets(Some(words.list()?)),
            "-d" | "--display" => {
                let named: Option<Vec<_>> = words.list()?.iter().map(|name| Section::named(name)).collect();
                self.sections = Some(named.ok_or_else(Refused::sections)?);
            }
            "--format" => self.format = format(words.optional_value().as_deref().unwrap_or_default())?,
            "-x" | "--xml-format" => self.xml = true,
            "--dtd" => self.dtd = true,
            "-u" | "--unit" => self.units = true,
            "-f" | "--filename" => self.repeated.file = Some(words.value()?),
            "-l" | "--loop" => {
                let seconds = words.optional_number().unwrap_or(LOOP);
                self.repeated.every = Some(interval(seconds.checked_mul(1000))?);
            }
            "-lms" | "--loop-ms" => {
                let written = words.option.clone();
                let value = words.optional_value().ok_or_else(|| Refused::without_value(&written))?;
                // A word that is no number is taken, too (driver 580.159.04); how long that one waits is not known.
                let milliseconds = value.parse().ok().or_else(|| LOOP.checked_mul(1000));
                self.repeated.every = Some(interval(milliseconds)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn command(self) -> Result<Command, Refused> {
        let Self { targets, mut actions, sections, format, repeated, xml, dtd, units, first: _ } = self;
        let action = actions.pop();
        // Of several questions of one kind the last one counts.
        let is_same = |earlier: &Action| match (&action, earlier) {
            (Some(Action::Log), Action::Log) => true,
            (Some(Action::Query(one, _)), Action::Query(other, _)) => one == other,
            _ => false,
        };
        if !actions.iter().all(is_same) {
            return Err(Refused::combination());
        }
        let logs = matches!(action, Some(Action::Log));
        if units && !logs {
            return Err(Refused::goes_with_query("-u/--unit", "a unit"));
        }
        if xml && !logs {
            return Err(Refused::goes_with_query("-x/--xml-format", "an XML"));
        }
        if sections.is_some() && !logs {
            return Err(Refused::goes_with_query("-d/--display", "a filtered"));
        }
        if units && sections.is_some() {
            return Err(Refused::sections_of("-u/--unit"));
        }
        if let (true, Some(named)) = (units, &targets.0) {
            // There is none.
            return Err(Refused::no_unit(named));
        }
        if units {
            let form = if xml { UnitForm::Xml } else { UnitForm::Text };
            // Only the log of units is known.
            let is_known = !dtd && format.is_none() && repeated.every.is_none();
            return if is_known {
                Ok(Command::LogOfUnits { form, file: repeated.file })
            } else {
                Err(Refused::not_simulated("-u"))
            };
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
            return Err(Refused::sections_of("-x/--xml-format"));
        }
        let may_repeat = logs || queries || action.is_none();
        if (format.is_some() && !queries) || (dtd && !xml) || (repeated != Repeated::default() && !may_repeat)
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

/// `csv`, which must be there, and what it goes without; `None` where nothing is said.
fn format(items: &str) -> Result<Option<Format>, Refused> {
    if items.is_empty() {
        return Ok(None);
    }
    let mut format = Format { header: true, units: true };
    let mut csv = false;
    for item in items.split(',') {
        match item.trim() {
            "csv" => csv = true,
            "noheader" => format.header = false,
            "nounits" => format.units = false,
            _ => return Err(Refused::format()),
        }
    }
    if csv { Ok(Some(format)) } else { Err(Refused::combination()) }
}

/// Options that want to be alone: nothing goes with them (driver 580.159.04).
fn is_alone(word: &str) -> bool {
    ["-L", "--list-gpus", "-B", "--list-excluded-gpus", "--version", "-h", "--help"].contains(&word)
}

/// What is said of an option that is not simulated: as by the real program where that would not do it either.
fn not_simulated(option: &str, words: &mut Words) -> Refused {
    let Some(takes) = known::value_of(option) else { return Refused::not_simulated(option) };
    let written = words.option.clone();
    let value = match words.value() {
        Ok(value) => value,
        Err(missing) => return missing,
    };
    match takes {
        Value::NumberOr(_) if known::is_no_compute_mode(option, &value) => {
            Refused::late(&format!("Invalid compute mode: {value}"))
        }
        Value::NumberOr(known)
            if is_number(&value) || known.contains(&value.to_ascii_uppercase().as_str()) =>
        {
            Refused::not_simulated(option)
        }
        Value::NumberOr(_) => Refused::value(&written, &value),
        Value::Clocks(form) if !value.split(',').all(is_clock) => Refused::late(&format!(
            "Specified clocks \"{value}\" are not valid. Please format input as {form}"
        )),
        Value::Clocks(_) => Refused::not_simulated(option),
    }
}

fn is_number(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// A clock in MHz, or one of the words for such.
fn is_clock(value: &str) -> bool {
    is_number(value) || ["tdp", "unlimited"].contains(&value)
}

fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_uppercase().as_str() {
        "0" | "DISABLED" => Some(false),
        "1" | "ENABLED" => Some(true),
        _ => None,
    }
}

/// Watts, with a fraction or without, as milliwatts.
fn milliwatts(value: &str) -> Option<u32> {
    let (watts, rest) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if watts.is_empty() || !digits(watts) || !digits(rest) || rest.len() > 3 {
        return None;
    }
    let milli: u32 = format!("{rest:0<3}").parse().ok()?;
    watts.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(milli)
}

/// Milliseconds between two outputs.
fn interval(milliseconds: Option<u64>) -> Result<u64, Refused> {
    if milliseconds == Some(0) {
        return Err(Refused::never());
    }
    milliseconds.filter(|ms| *ms <= LONGEST_LOOP).ok_or_else(Refused::combination)
}
