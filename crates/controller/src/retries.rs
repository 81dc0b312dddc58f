//! When a failed operation may be retried: later each time, and independently of other operations.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::class::Class;

/// What failed, and how often in a row.
#[derive(Debug)]
pub struct Retries {
    longest: Duration,
    failed: BTreeMap<String, Failed>,
}

#[derive(Debug)]
struct Failed {
    times: u32,
    since: Instant,
    next: Instant,
}

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);

impl Retries {
    /// Nothing failed yet; no pause gets longer than `longest`.
    #[must_use]
    pub const fn new(longest: Duration) -> Self {
        Self { longest, failed: BTreeMap::new() }
    }

    /// Whether something may be tried now.
    #[must_use]
    pub fn may_try(&self, what: &str, now: Instant) -> bool {
        self.failed.get(what).is_none_or(|failed| now >= failed.next)
    }

    /// It failed. What we got wrong is tried seldom from the start, and so is
    /// what people wrote: a change of theirs is seen. What a human must allow is
    /// tried soon at first, since an API server that has just started refuses
    /// for a moment what it allows, and then seldom. Says how often in a row it
    /// failed.
    pub fn failed(&mut self, what: &str, class: Class, now: Instant) -> u32 {
        let (times, since) = self.failed.get(what).map_or((0, now), |failed| (failed.times, failed.since));
        let times = times.saturating_add(1);
        let pause = match class {
            Class::Transient => FIRST.saturating_mul(1 << times.min(16).saturating_sub(1)),
            Class::Blocked => FIRST.saturating_mul(1 << (2 * times.min(8).saturating_sub(1))),
            Class::UserInput | Class::Bug => self.longest,
        };
        self.failed.insert(what.to_owned(), Failed { times, since, next: now + pause.min(self.longest) });
        times
    }

    /// It succeeded.
    pub fn succeeded(&mut self, what: &str) {
        self.failed.remove(what);
    }

    /// When the next may be tried.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.failed.values().map(|failed| failed.next).min()
    }

    /// How many things fail, and since when the one that has failed for longest.
    #[must_use]
    pub fn failing(&self) -> (usize, Option<Instant>) {
        (self.failed.len(), self.failed.values().map(|failed| failed.since).min())
    }

    /// What could have been tried at `start` and was not is no longer of
    /// interest.
    pub fn forget_before(&mut self, start: Instant) {
        self.failed.retain(|_, failed| failed.next > start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_one_failure_holds_back_nobody_else() {
        let start = crate::clock::instant();
        let mut retries = Retries::new(Duration::from_secs(4));
        let mut at = start;
        for expect in [500, 1000, 2000, 4000, 4000] {
            retries.failed("node a", Class::Transient, at);
            let pause = retries.next().map(|next| next - at);
            assert_eq!(pause, Some(Duration::from_millis(expect)));
            assert!(!retries.may_try("node a", at));
            assert!(retries.may_try("node b", at));
            at += Duration::from_millis(expect);
            assert!(retries.may_try("node a", at));
            assert_eq!(retries.failing(), (1, Some(start)));
        }
        retries.succeeded("node a");
        assert_eq!(retries.next(), None);
        assert_eq!(retries.failing(), (0, None));
    }

    #[test]
    fn what_a_human_must_allow_is_tried_soon_for_a_moment_and_then_seldom() {
        let start = crate::clock::instant();
        let mut retries = Retries::new(Duration::from_secs(60));
        for expect in [500, 2_000, 8_000, 32_000, 60_000, 60_000] {
            retries.failed("map", Class::Blocked, start);
            assert_eq!(retries.next(), Some(start + Duration::from_millis(expect)));
        }
    }

    #[test]
    fn what_nobody_but_us_can_mend_is_tried_seldom_from_the_start() {
        let start = crate::clock::instant();
        for class in [Class::UserInput, Class::Bug] {
            let mut retries = Retries::new(Duration::from_secs(60));
            retries.failed("map", class, start);
            assert_eq!(retries.next(), Some(start + Duration::from_secs(60)));
        }
    }
}
