//! `dmon` and `pmon`.

use super::{Command, Refused, Targets, Words};

/// What `dmon` shows of each GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    Power,
    Utilization,
    Clocks,
    Violations,
    Memory,
    Errors,
    Throughput,
}

impl Metric {
    fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'p' => Self::Power,
            'u' => Self::Utilization,
            'c' => Self::Clocks,
            'v' => Self::Violations,
            'm' => Self::Memory,
            'e' => Self::Errors,
            't' => Self::Throughput,
            _ => return None,
        })
    }
}

/// What `pmon` shows of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessMetric {
    Utilization,
    Memory,
}

impl ProcessMetric {
    fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'u' => Self::Utilization,
            'm' => Self::Memory,
            _ => return None,
        })
    }
}

/// What `-o` puts before each line; the date is first, however they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) date: bool,
    pub(crate) time: bool,
}

impl Stamp {
    fn from_letters(letters: &str) -> Result<Self, Refused> {
        let mut stamp = Self::default();
        for letter in letters.chars() {
            match letter {
                'D' => stamp.date = true,
                'T' => stamp.time = true,
                _ => return Err(Refused::no_monitor("Error in parsing options\n")),
            }
        }
        if stamp == Self::default() {
            Err(Refused::no_monitor("Error in parsing options\n"))
        } else {
            Ok(stamp)
        }
    }
}

/// How `dmon` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// With commas, instead of in columns.
    pub(crate) csv: bool,
    /// The line of names.
    pub(crate) names: bool,
    /// The line of units.
    pub(crate) units: bool,
}

impl Form {
    pub(crate) const TABLE: Self = Self { csv: false, names: true, units: true };

    fn from_names(names: &[String]) -> Result<Self, Refused> {
        let mut form = Self::TABLE;
        for name in names {
            match name.as_str() {
                "csv" => form.csv = true,
                "noheader" => form.names = false,
                "nounit" => form.units = false,
                unknown => {
                    let words = format!(
                        "{unknown} is not a recognized format option\nError parsing format options\n"
                    );
                    return Err(Refused::no_monitor(&words));
                }
            }
        }
        Ok(form)
    }
}

/// The groups of columns that `-s` chooses, in the order in which it names them.
fn chosen<T: PartialEq>(letters: &str, of: fn(char) -> Option<T>) -> Result<Vec<T>, Refused> {
    let mut chosen = Vec::new();
    for letter in letters.chars() {
        let metric = of(letter).ok_or_else(no_metric)?;
        if !chosen.contains(&metric) {
            chosen.push(metric);
        }
    }
    if chosen.is_empty() { Err(no_metric()) } else { Ok(chosen) }
}

fn no_metric() -> Refused {
    Refused::no_monitor("Failed to find any metric to display\n")
}

/// How often a monitor looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// How often; without, until somebody ends it.
    pub(crate) count: Option<u32>,
    /// In seconds.
    pub(crate) delay: u32,
}

/// Seconds that `dmon` may wait between two looks.
const LONGEST_DELAY_OF_GPUS: u32 = 600;

/// Seconds that `pmon` may wait between two looks.
const LONGEST_DELAY_OF_PROCESSES: u32 = 10;

pub(super) fn dmon(mut words: Words) -> Result<Command, Refused> {
    let mut asked = Asked::default();
    let mut metrics = vec![Metric::Power, Metric::Utilization, Metric::Clocks];
    let mut form = Form::TABLE;
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-s" | "--select" => metrics = chosen(&words.value()?, Metric::from_letter)?,
            "--format" => form = Form::from_names(&words.list()?)?,
            "--gpm-metrics" | "--gpm-options" => {
                return Err(Refused::not_simulated(&format!("dmon {word}")));
            }
            other => asked.take(other, &mut words, LONGEST_DELAY_OF_GPUS)?,
        }
    }
    let Asked { targets, rounds, stamp, file } = asked;
    Ok(Command::DeviceMonitor { targets, metrics, rounds, stamp, form, file })
}

pub(super) fn pmon(mut words: Words) -> Result<Command, Refused> {
    let mut asked = Asked::default();
    let mut metrics = vec![ProcessMetric::Utilization];
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-s" | "--select" => metrics = chosen(&words.value()?, ProcessMetric::from_letter)?,
            other => asked.take(other, &mut words, LONGEST_DELAY_OF_PROCESSES)?,
        }
    }
    let Asked { targets, rounds, stamp, file } = asked;
    Ok(Command::ProcessMonitor { targets, metrics, rounds, stamp, file })
}

/// What both monitors take.
struct Asked {
    targets: Targets,
    rounds: Rounds,
    stamp: Stamp,
    file: Option<String>,
}

impl Default for Asked {
    fn default() -> Self {
        let rounds = Rounds { count: None, delay: 1 };
        Self { targets: Targets::default(), rounds, stamp: Stamp::default(), file: None }
    }
}

impl Asked {
    fn take(&mut self, word: &str, words: &mut Words, longest_delay: u32) -> Result<(), Refused> {
        match word {
            "-i" | "--id" => self.targets = Targets(Some(words.list()?)),
            "-o" | "--options" => self.stamp = Stamp::from_letters(&words.value()?)?,
            "-f" | "--filename" => self.file = Some(words.value()?),
            "-c" | "--count" => {
                let invalid = || Refused::told_how("Invalid value for number of samples to be displayed");
                self.rounds.count = Some(at_least_one(&words.value()?).ok_or_else(invalid)?);
            }
            "-d" | "--delay" => {
                let delay = at_least_one(&words.value()?).filter(|delay| *delay <= longest_delay);
                let invalid = || {
                    Refused::told_how(&format!(
                        "Collection delay/interval should be between 1 second and {longest_delay} seconds"
                    ))
                };
                self.rounds.delay = delay.ok_or_else(invalid)?;
            }
            unknown => return Err(Refused::told_how(&format!("Option \"{unknown}\" is not recognized."))),
        }
        Ok(())
    }
}

fn at_least_one(value: &str) -> Option<u32> {
    value.parse().ok().filter(|count| *count > 0)
}
