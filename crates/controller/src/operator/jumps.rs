//! When the clock of this machine is set while we run. What is remembered of
//! nodes is dated by it: put forward by an hour it would make every node late,
//! and put back it would make a list of pods look fresh for an hour.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

use super::Operator;
use crate::clock;

/// A clock that is slewed moves by less than a millisecond a second; one that
/// differs by more than this since the last turn, some seconds ago, was set.
const MOST_DRIFT: SignedDuration = SignedDuration::from_secs(1);

/// What the clock was seen to do.
#[derive(Debug, Default)]
pub(super) struct Jumps {
    /// When it was looked at last, by the clock and by the one that only goes
    /// forward.
    last: Option<(Timestamp, Instant)>,
    /// When it was last seen to be set, by what it said then.
    set_at: Option<Timestamp>,
}

impl Jumps {
    /// By how much the clock was set since the last look: forward if that is
    /// positive, back if it is negative.
    fn look(&mut self, now: Timestamp, instant: Instant) -> Option<SignedDuration> {
        let (then, before) = self.last.replace((now, instant))?;
        let passed = SignedDuration::try_from(instant.saturating_duration_since(before)).ok()?;
        let jump = now.duration_since(then) - passed;
        let is_set = jump.abs() > MOST_DRIFT;
        if is_set {
            self.set_at = Some(now);
        }
        is_set.then_some(jump)
    }

    /// A moment that was dated by this clock, unless it was dated before the
    /// clock was set, or is still to come: how long ago it is, nobody knows.
    pub(super) fn known(&self, at: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        at.filter(|at| *at <= now && self.set_at.is_none_or(|set| *at >= set))
    }
}

impl Operator {
    /// Notices that the clock was set: what is remembered of nodes moves with
    /// it, and what was listed counts as not listed.
    pub(super) fn notice_jumps(&mut self) {
        let now = self.settings.clock.now();
        let Some(jump) = self.jumps.look(now, clock::instant()) else { return };
        let seconds = jump.as_secs();
        tracing::warn!(
            seconds,
            "the clock of this machine was set: how long each step of a node has taken is counted without the jump"
        );
        for local in self.local.values_mut() {
            local.listed = None;
        }
        // What is dated in the future counts from now on anyway, and what another
        // replica remembered is not dated by this clock.
        if jump.is_positive() && self.led {
            for name in self.store.objects.gpu_nodes.keys() {
                let local = self.local.entry(planner::names::NodeName(name.clone())).or_default();
                local.put_forward += jump;
            }
            for since in self.store.objects.starting_since.values_mut() {
                *since = (*since + jump).min(now);
            }
        }
        if let Some(until) = &mut self.settles_until {
            *until += jump;
        }
        self.wake = None;
        self.touch();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    #[test]
    fn a_clock_that_is_set_is_told_from_one_that_runs() {
        let (mut jumps, at, instant) = (Jumps::default(), Timestamp::UNIX_EPOCH, clock::instant());
        assert_eq!(jumps.look(at + HOUR, instant), None, "the first look knows nothing of before");
        let later = |seconds| instant + Duration::from_secs(seconds);
        let shown = |seconds: i64| at + HOUR + SignedDuration::from_secs(seconds);
        assert_eq!(jumps.look(shown(20), later(20)), None);
        assert_eq!(
            jumps.look(shown(41), later(40)),
            None,
            "a second in twenty may be the machine's own hurry"
        );
        assert_eq!(jumps.look(shown(60) + HOUR, later(60)), Some(HOUR - SignedDuration::from_secs(1)));
        assert_eq!(jumps.look(shown(80), later(80)), Some(-HOUR));
    }

    #[test]
    fn what_was_dated_before_the_clock_was_set_is_of_no_known_age() {
        let (mut jumps, at, instant) = (Jumps::default(), Timestamp::UNIX_EPOCH + HOUR, clock::instant());
        assert_eq!(jumps.known(Some(at), at), Some(at));
        assert_eq!(jumps.known(Some(at + HOUR), at), None, "it is still to come");
        let _first = jumps.look(at, instant);
        let _forward = jumps.look(at + HOUR, instant);
        assert_eq!(jumps.known(Some(at), at + HOUR), None);
        assert_eq!(jumps.known(Some(at + HOUR), at + HOUR), Some(at + HOUR));
    }
}
