//! The time, and for how long what was read by it holds.

use std::cell::Cell;

use jiff::{SignedDuration, Timestamp};

/// The time of a reading. Whoever asks it something says by that when the reading has to be made again.
pub(super) struct Clock {
    now: Timestamp,
    turns_at: Cell<Option<Timestamp>>,
}

impl Clock {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { now, turns_at: Cell::new(None) }
    }

    /// The time itself: what is read by it holds for this moment alone.
    pub(super) fn now(&self) -> Timestamp {
        self.turns_at.set(Some(self.now));
        self.now
    }

    /// Whether something is less than so long ago, or to come within as long: clocks differ.
    pub(super) fn is_within(&self, of: SignedDuration, moment: Timestamp) -> bool {
        // It is within from a moment after the first on, and no more from the second on.
        let begins =
            moment.checked_sub(of).and_then(|before| before.checked_add(SignedDuration::from_nanos(1)));
        for turn in [begins, moment.checked_add(of)].into_iter().flatten() {
            if turn > self.now && self.turns_at.get().is_none_or(|at| turn < at) {
                self.turns_at.set(Some(turn));
            }
        }
        self.now.duration_since(moment).abs() < of
    }

    /// From when on what was read may read otherwise; `None` if time changes nothing of it.
    pub(super) fn turns_at(&self) -> Option<Timestamp> {
        self.turns_at.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn what_is_never_asked_turns_nothing() {
        assert_eq!(Clock::new(at(5)).turns_at(), None);
    }

    #[test]
    fn what_is_read_by_the_time_itself_holds_for_the_moment() {
        let clock = Clock::new(at(5));
        assert!(clock.is_within(SignedDuration::from_secs(10), at(4)));
        assert_eq!(clock.now(), at(5));
        assert!(clock.is_within(SignedDuration::from_secs(10), at(4)));
        assert_eq!(clock.turns_at(), Some(at(5)));
    }

    /// Second by second: the answer changes only when it was said that it may.
    #[test]
    fn an_answer_holds_until_its_turn() {
        let of = SignedDuration::from_secs(3);
        let asked = |second| {
            let clock = Clock::new(at(second));
            (clock.is_within(of, at(10)), clock.turns_at())
        };
        for second in 0..20 {
            let (answer, turns) = asked(second);
            assert_eq!(answer, (8..13).contains(&second), "at {second}");
            for later in second + 1..20 {
                let has_turned = turns.is_some_and(|turn| turn <= at(later));
                assert!(has_turned || asked(later).0 == answer, "from {second} to {later}");
            }
        }
        assert_eq!(asked(13).1, None, "after that it stays as it is");
    }
}
