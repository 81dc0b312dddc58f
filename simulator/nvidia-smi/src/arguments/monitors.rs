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
                _ => return Err(Refused::combination()),
            }
        }
        if stamp == Self::default() { Err(Refused::combination()) } else { Ok(stamp) }
    }
}

/// The groups of columns that `-s` chooses, in the order in which it names them.
fn chosen<T: PartialEq>(letters: &str, of: fn(char) -> Option<T>) -> Result<Vec<T>, Refused> {
    let mut chosen = Vec::new();
    for letter in letters.chars() {
        let metric = of(letter).ok_or_else(Refused::combination)?;
        if !chosen.contains(&metric) {
            chosen.push(metric);
        }
    }
    if chosen.is_empty() { Err(Refused::combination()) } else { Ok(chosen) }
}

/// How often a monitor looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// How often; without, until somebody ends it.
    pub(crate) count: Option<u32>,
    /// In seconds.
    pub(crate) delay: u32,
}

/// Seconds that a monitor may wait between two looks.
const LONGEST_DELAY: u32 = 600;

pub(super) fn dmon(mut words: Words) -> Result<Command, Refused> {
    let mut asked = Asked::default();
    let mut metrics = vec![Metric::Power, Metric::Utilization, Metric::Clocks];
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-s" | "--select" => metrics = chosen(&words.value()?, Metric::from_letter)?,
            "--format" | "--gpm-metrics" | "--gpm-options" => {
                return Err(Refused::not_simulated(&format!("dmon {word}")));
            }
            other => asked.take("dmon", other, &mut words)?,
        }
    }
    let Asked { targets, rounds, stamp, file } = asked;
    Ok(Command::DeviceMonitor { targets, metrics, rounds, stamp, file })
}

pub(super) fn pmon(mut words: Words) -> Result<Command, Refused> {
    let mut asked = Asked::default();
    let mut metrics = vec![ProcessMetric::Utilization];
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-s" | "--select" => metrics = chosen(&words.value()?, ProcessMetric::from_letter)?,
            other => asked.take("pmon", other, &mut words)?,
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
    fn take(&mut self, monitor: &str, word: &str, words: &mut Words) -> Result<(), Refused> {
        match word {
            "-i" | "--id" => self.targets = Targets(Some(words.list()?)),
            "-o" | "--options" => self.stamp = Stamp::from_letters(&words.value()?)?,
            "-f" | "--filename" => self.file = Some(words.value()?),
            "-c" | "--count" => self.rounds.count = Some(at_least_one(&words.value()?)?),
            "-d" | "--delay" => {
                let delay = at_least_one(&words.value()?)?;
                if delay > LONGEST_DELAY {
                    return Err(Refused::combination());
                }
                self.rounds.delay = delay;
            }
            unknown => return Err(Refused::unknown_of(monitor, unknown)),
        }
        Ok(())
    }
}

fn at_least_one(value: &str) -> Result<u32, Refused> {
    value.parse().ok().filter(|count| *count > 0).ok_or_else(Refused::combination)
}
