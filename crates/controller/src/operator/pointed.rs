//! How often we have pointed the device plugin, or MIG manager, to our map. Each time it starts anew on every GPU node,
//! so against somebody who points it elsewhere each time, such as a GitOps tool, this is not done again and again.

use jiff::{SignedDuration, Timestamp};

/// How long it is left as it is after the first time; each pause is twice as long as the one before.
const FIRST: SignedDuration = SignedDuration::from_hours(1);
/// The longest of them. What has lasted so long nobody contests any more.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// When we pointed it there. All of it is lost in a crash, which costs one restart at most.
#[derive(Debug, Default)]
pub(super) struct Pointed {
    at: Option<Timestamp>,
    /// How often in a row, none of which lasted.
    times: u32,
}

impl Pointed {
    /// We did it now.
    pub(super) fn done(&mut self, now: Timestamp) {
        let lasted = self.at.is_none_or(|at| now.duration_since(at) >= LONGEST.saturating_mul(2));
        self.times = if lasted { 1 } else { self.times.saturating_add(1) };
        self.at = Some(now);
    }

    /// Until when it is not done again.
    pub(super) fn rests_until(&self) -> Option<Timestamp> {
        let pause = FIRST.saturating_mul(1 << self.times.saturating_sub(1).min(16)).min(LONGEST);
        self.at?.checked_add(pause).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_points_elsewhere_each_time_is_answered_ever_less_often_and_who_let_it_be_for_long_like_the_first_time()
     {
        let hours = |n: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(n);
        let mut pointed = Pointed::default();
        assert_eq!(pointed.rests_until(), None, "the first time nothing is in the way");
        let mut at = 0;
        for pause in [1, 2, 4, 8, 16, 24, 24] {
            pointed.done(hours(at));
            assert_eq!(pointed.rests_until(), Some(hours(at + pause)));
            at += pause;
        }
        pointed.done(hours(at + 48));
        assert_eq!(pointed.rests_until(), Some(hours(at + 49)));
    }
}
