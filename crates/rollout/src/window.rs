//! When nodes may start: a schedule, a duration and a time zone. Only a node's start has to be inside a
//! window; a change that has started is completed.
//!
//! Schedules are on the wall clock of the time zone; a window lasts its duration in real time. A window
//! that would open in the hour that a change to summer time skips opens later by the skipped time; in the
//! hour that occurs twice it opens once, the first time.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::schedule::{Schedule, ScheduleError};

/// One window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    schedule: Schedule,
    duration: SignedDuration,
    zone: TimeZone,
    zone_name: String,
}

/// Why something is not a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The duration.
    #[error("duration `{text}` is not valid: write 1m to 168h, such as 6h or 1h30m")]
    Duration {
        /// What was given.
        text: String,
    },
    /// The time zone.
    #[error("timeZone `{name}` is not known: write an IANA name such as Asia/Seoul, or UTC")]
    TimeZone {
        /// What was given.
        name: String,
    },
}

/// The longest window: a week, after which the schedule is what repeats.
const LONGEST: SignedDuration = SignedDuration::from_hours(168);
/// 29 February comes every 4 years, but around 2100 only after 8.
const LOOK_AHEAD_DAYS: usize = 366 * 9;

impl Window {
    /// A window from its three fields, as a policy has them.
    ///
    /// # Errors
    /// Names the field and its value, and says what is allowed.
    pub fn new(schedule: &str, duration: &str, time_zone: &str) -> Result<Self, WindowError> {
        let wrong = || WindowError::Duration { text: duration.to_owned() };
        // What is wrong is told in the order of the fields.
        let parsed: SignedDuration = duration.parse().unwrap_or_default();
        let window = Self::lasting(schedule, parsed, time_zone);
        window.map_err(|error| match error {
            WindowError::Duration { .. } => wrong(),
            WindowError::Schedule(_) | WindowError::TimeZone { .. } => error,
        })
    }

    /// A window that stays open for so long.
    ///
    /// # Errors
    /// Names the field and its value, and says what is allowed.
    pub fn lasting(schedule: &str, duration: SignedDuration, time_zone: &str) -> Result<Self, WindowError> {
        let schedule = schedule.parse()?;
        if duration < SignedDuration::from_mins(1) || duration > LONGEST {
            return Err(WindowError::Duration { text: format!("{duration:#}") });
        }
        // The bundled database: no file of the machine changes what a policy means.
        let zone = TimeZoneDatabase::bundled()
            .get(time_zone)
            .map_err(|_| WindowError::TimeZone { name: time_zone.to_owned() })?;
        Ok(Self { schedule, duration, zone, zone_name: time_zone.to_owned() })
    }

    /// Whether it is open: open at its first moment, closed at its last.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.closes(now).is_some()
    }

    /// When the window that is open now closes, if one is. Where openings
    /// overlap, the last of them counts.
    #[must_use]
    pub fn closes(&self, now: Timestamp) -> Option<Timestamp> {
        let earliest = now.checked_sub(self.duration).unwrap_or(Timestamp::MIN);
        let mut date = self.date(now)?;
        // A zone's clock may stand a day away from the real duration.
        let until = self.date(earliest)?.yesterday().ok()?;
        while date >= until {
            if self.schedule.has_day(date) {
                let opened = self
                    .schedule
                    .times()
                    .rev()
                    .filter_map(|time| self.moment(date, time))
                    .find(|at| *at <= now);
                if let Some(opened) = opened {
                    return (opened > earliest).then(|| opened + self.duration);
                }
            }
            date = date.yesterday().ok()?;
        }
        None
    }

    /// The next moment at or after `now` at which it opens.
    #[must_use]
    pub fn next_open(&self, now: Timestamp) -> Option<Timestamp> {
        let mut date = self.date(now)?.yesterday().ok()?;
        for _ in 0..LOOK_AHEAD_DAYS {
            if self.schedule.has_day(date)
                && let Some(at) = self
                    .schedule
                    .times()
                    .filter_map(|time| self.moment(date, time))
                    .filter(|at| *at >= now)
                    .min()
            {
                return Some(at);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn date(&self, at: Timestamp) -> Option<Date> {
        Some(at.to_zoned(self.zone.clone()).date())
    }

    fn moment(&self, date: Date, (hour, minute): (i8, i8)) -> Option<Timestamp> {
        let zoned = date.at(hour, minute, 0, 0).to_zoned(self.zone.clone()).ok()?;
        Some(zoned.timestamp())
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedule, duration, zone: _, zone_name } = self;
        write!(f, "{schedule} for {duration:#} ({zone_name})")
    }
}

/// Whether any of the windows is open; without windows it always is.
#[must_use]
pub fn is_open(windows: &[Window], now: Timestamp) -> bool {
    windows.is_empty() || windows.iter().any(|window| window.is_open(now))
}

/// When the first of the windows opens, at `now` or later; without windows, now.
#[must_use]
pub fn next_open(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    if is_open(windows, now) {
        return Some(now);
    }
    windows.iter().filter_map(|window| window.next_open(now)).min()
}
