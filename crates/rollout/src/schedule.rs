//! Five-field cron schedules: minute, hour, day of month, month, day of week.
//!
//! As `man 5 crontab` defines them: `*`, numbers, names of months and days, lists, ranges and steps; when
//! both day fields are restricted, a day matches when either does.
//!
//! It is our own parser: a window needs the latest time before a moment as well as the next one after it, errors that
//! name the field and what is allowed, and refusal of days that never come. `cronexpr` reads more (`L`, `W`, `#`, which
//! `man 5 crontab` does not have), looks only forward, and only for four years. It is the oracle in
//! `tests/it/windows_oracle.rs`.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;

/// One schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    days_restricted: bool,
    weekdays_restricted: bool,
}

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Not five fields.
    #[error(
        "schedule `{text}` has {found} fields; write five: minute, hour, day of month, month, day of week, such as `0 22 * * 1-5`"
    )]
    Fields {
        /// What was given.
        text: String,
        /// How many fields it has.
        found: usize,
    },
    /// One of them is wrong.
    #[error("schedule `{text}`: {field} `{value}` is not valid; allowed are {allowed}")]
    Value {
        /// What was given.
        text: String,
        /// Which field.
        field: &'static str,
        /// The part that is wrong.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Such as 30 February.
    #[error("schedule `{text}` never comes: no year has such a day")]
    Never {
        /// What was given.
        text: String,
    },
}

struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { name: "minute", first: 0, last: 59, names: &[] },
    Field { name: "hour", first: 0, last: 23, names: &[] },
    Field { name: "day of month", first: 1, last: 31, names: &[] },
    Field { name: "month", first: 1, last: 12, names: &MONTHS },
    Field { name: "day of week", first: 0, last: 7, names: &WEEKDAYS },
];

impl Field {
    fn allowed(&self) -> String {
        let names = match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(", {first} to {last}"),
            _ => String::new(),
        };
        format!("{} to {}{names}, `*`, lists (1,2), ranges (1-5) and steps (*/2)", self.first, self.last)
    }

    fn number(&self, text: &str) -> Option<u32> {
        if let Some(at) = self.names.iter().position(|name| text.eq_ignore_ascii_case(name)) {
            return Some(self.first + u32::try_from(at).ok()?);
        }
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n| digits && (self.first..=self.last).contains(n))
    }

    /// One part of a list, as bits.
    fn part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let step_by = match step {
            Some(step) if step.bytes().all(|b| b.is_ascii_digit()) => {
                step.parse::<usize>().ok().filter(|n| *n > 0)?
            }
            Some(_) => return None,
            None => 1,
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.first, self.last),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            None => {
                let first = self.number(range)?;
                (first, if step.is_some() { self.last } else { first })
            }
        };
        (first <= last).then(|| (first..=last).step_by(step_by).fold(0, |bits, n| bits | 1 << n))
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<_> = text.split_whitespace().collect();
        if parts.len() != FIELDS.len() {
            return Err(ScheduleError::Fields { text: text.to_owned(), found: parts.len() });
        }
        let mut bits = [0u64; 5];
        for ((field, part), bits) in FIELDS.iter().zip(&parts).zip(&mut bits) {
            for item in part.split(',') {
                *bits |= field.part(item).ok_or_else(|| ScheduleError::Value {
                    text: text.to_owned(),
                    field: field.name,
                    value: item.to_owned(),
                    allowed: field.allowed(),
                })?;
            }
        }
        let [minutes, hours, days, months, mut weekdays] = bits;
        // Sunday is 0 and 7.
        weekdays |= weekdays >> 7 & 1;
        let schedule = Self {
            text: parts.join(" "),
            minutes,
            hours,
            days,
            months,
            weekdays: weekdays & 0x7f,
            days_restricted: !parts[2].starts_with('*'),
            weekdays_restricted: !parts[4].starts_with('*'),
        };
        if schedule.comes() { Ok(schedule) } else { Err(ScheduleError::Never { text: schedule.text }) }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Schedule {
    /// Whether any year has a day that matches: some selected month is long
    /// enough for some selected day, or a day of the week is enough.
    fn comes(&self) -> bool {
        const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let by_weekday = self.weekdays_restricted && self.days_restricted;
        by_weekday
            || (1..=12u32).zip(LENGTHS).any(|(month, length)| {
                self.months >> month & 1 == 1 && (1..=length).any(|day| self.days >> day & 1 == 1)
            })
    }

    /// Whether the schedule has any time on this day.
    pub(crate) fn has_day(&self, date: Date) -> bool {
        let bit = |bits: u64, n: i8| bits >> n & 1 == 1;
        let day = bit(self.days, date.day());
        let weekday = bit(self.weekdays, date.weekday().to_sunday_zero_offset());
        let either = self.days_restricted && self.weekdays_restricted;
        bit(self.months, date.month()) && if either { day || weekday } else { day && weekday }
    }

    /// The times of a day, ascending: hour and minute.
    pub(crate) fn times(&self) -> impl DoubleEndedIterator<Item = (i8, i8)> + '_ {
        let set = |bits: u64, n: i8| bits >> n & 1 == 1;
        (0..24).filter(move |hour| set(self.hours, *hour)).flat_map(move |hour| {
            (0..60).filter(move |minute| set(self.minutes, *minute)).map(move |minute| (hour, minute))
        })
    }
}
