//! Collects changes for a moment, so that one round handles all of them. It is
//! a plain state machine that gets the time as an argument: the loop asks it
//! when the next round is due, and reports when a round begins.
//!
//! Changes that belong together arrive together: the pods of a Job, or what a
//! write of ours brings about. So a round waits until nothing has arrived for a
//! fifth of the delay. It never waits longer than the delay, so that a stream of
//! changes does not starve planning. And it begins five times as long after the
//! last round began as that one has planned, but not longer than the delay after
//! it, so that single changes do not keep a processor busy: a small fleet is
//! planned in milliseconds, and whoever waits there need not wait for a round
//! that looked at something else.

use std::time::{Duration, Instant};

/// The delay is so many times as long as what may pass without a change while
/// more is awaited. A fifth of the default is 100 ms, in which an API server and
/// its controllers say the rest of what belongs together.
const QUIET: u32 = 5;

/// Rounds are so many times as far apart as one has planned, so that planning takes a fifth of a processor at most while
/// single changes come one after another. A fleet that takes more than a fifth of the delay to plan takes more than that:
/// people wait.
const SHARE: u32 = 5;

/// What has changed, and since when no round has looked at it.
#[derive(Debug)]
pub(super) struct Batch {
    /// How long changes are gathered at most.
    delay: Duration,
    /// The first and the last moment at which something changed that no round has looked at.
    changed: Option<(Instant, Instant)>,
    /// When the last round began.
    began: Option<Instant>,
    /// How long after that the next one may begin.
    apart: Duration,
    /// How many changes no round has looked at.
    waiting: usize,
}

impl Batch {
    /// Nothing has changed yet.
    pub(super) const fn new(delay: Duration) -> Self {
        Self { delay, changed: None, began: None, apart: delay, waiting: 0 }
    }

    /// An object changed.
    pub(super) fn add(&mut self, now: Instant) {
        let (first, _) = self.changed.unwrap_or((now, now));
        self.changed = Some((first, now));
        self.waiting += 1;
    }

    /// A round should look, though no object changed: nothing that belongs to it is on its way.
    pub(super) fn touch(&mut self, now: Instant) {
        self.changed.get_or_insert((now, now));
    }

    /// A round begins, and looks at everything so far. What changes from now
    /// on, it does not see.
    pub(super) fn begin(&mut self, now: Instant) {
        self.changed = None;
        self.began = Some(now);
        self.apart = self.delay;
        self.waiting = 0;
    }

    /// The round has a plan, which took so long to make.
    pub(super) fn planned(&mut self, took: Duration) {
        self.apart = took.saturating_mul(SHARE).min(self.delay);
    }

    /// Who does not lead has no rounds to wait for.
    pub(super) fn forget_count(&mut self) {
        self.waiting = 0;
    }

    /// Since when something waits for a round.
    pub(super) fn since(&self) -> Option<Instant> {
        self.changed.map(|(first, _)| first)
    }

    /// How many changes wait for a round.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the next round is due, if anything changed.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, last) = self.changed?;
        let quiet = last + self.delay / QUIET;
        let apart = self.began.map_or(quiet, |began| began + self.apart);
        Some(quiet.max(apart).min(first + self.delay))
    }

    /// Whether a round is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| now >= due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: u64 = 500;

    /// Plays the loop: changes come at these moments (in milliseconds), and a
    /// round takes so long, all of it to make its plan. Says when rounds begin, and what each sees.
    fn rounds(changes: &[u64], takes: u64, until: u64) -> Vec<(u64, usize)> {
        let start = crate::clock::instant();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut batch = Batch::new(Duration::from_millis(DELAY));
        let (mut rounds, mut busy_until) = (Vec::new(), 0);
        for now in 0..until {
            for _ in changes.iter().filter(|change| **change == now) {
                batch.add(at(now));
            }
            if now >= busy_until && batch.is_due(at(now)) {
                rounds.push((now, batch.waiting()));
                batch.begin(at(now));
                batch.planned(Duration::from_millis(takes));
                busy_until = now + takes;
            }
        }
        rounds
    }

    #[test]
    fn a_change_that_comes_alone_is_planned_soon() {
        assert_eq!(rounds(&[1_000], 50, 5_000), [(1_100, 1)]);
        assert_eq!(rounds(&[], 50, 5_000), [], "and nothing at all when nothing changes");
    }

    #[test]
    fn many_changes_in_one_moment_are_planned_once() {
        let many: Vec<u64> = (100..400).collect();
        assert_eq!(rounds(&many, 50, 5_000), [(499, 300)], "once, when no more came for a while");
        let more: Vec<u64> = (100..700).collect();
        assert_eq!(
            rounds(&more, 100, 5_000),
            [(600, 501), (1_100, 99)],
            "and the first waits no longer than so"
        );
    }

    #[test]
    fn changes_that_come_one_by_one_do_not_keep_a_processor_busy() {
        let one_by_one = [0, 150, 300, 450];
        assert_eq!(rounds(&one_by_one, 100, 5_000), [(100, 1), (600, 3)], "half a second apart");
        assert_eq!(rounds(&one_by_one, 200, 5_000), [(100, 1), (600, 3)], "and not longer");
        assert_eq!(rounds(&one_by_one, 40, 5_000), [(100, 1), (400, 2), (600, 1)], "five times 40 ms");
        assert_eq!(rounds(&one_by_one, 10, 5_000), [(100, 1), (250, 1), (400, 1), (550, 1)]);
    }

    #[test]
    fn after_a_round_without_a_plan_the_next_is_as_far_off_as_any() {
        let start = crate::clock::instant();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut batch = Batch::new(Duration::from_millis(DELAY));
        batch.begin(at(0));
        batch.planned(Duration::from_millis(2));
        batch.begin(at(1_000));
        batch.add(at(1_010));
        assert_eq!(batch.due(), Some(at(1_500)));
    }

    #[test]
    fn a_change_while_one_is_planned_is_planned_once_more() {
        assert_eq!(rounds(&[0, 700, 800], 1_000, 5_000), [(100, 1), (1_100, 2)]);
        // One that comes as the round begins is not lost, either.
        assert_eq!(rounds(&[0, 101], 1_000, 5_000), [(100, 1), (1_100, 1)]);
    }

    #[test]
    fn what_is_no_object_puts_no_round_off() {
        let start = crate::clock::instant();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut batch = Batch::new(Duration::from_millis(DELAY));
        batch.add(at(0));
        batch.touch(at(90));
        assert_eq!((batch.since(), batch.due()), (Some(at(0)), Some(at(100))));
    }

    #[test]
    fn a_steady_stream_of_changes_does_not_starve_planning() {
        let stream: Vec<u64> = (0..10_000).step_by(10).collect();
        let rounds = rounds(&stream, 0, 10_000);
        assert_eq!(rounds.len(), 19, "{rounds:?}");
        assert!(rounds.windows(2).all(|two| two[1].0 - two[0].0 <= DELAY + 10), "{rounds:?}");
    }

    #[test]
    fn the_moment_is_what_it_was_told() {
        let now = crate::clock::instant();
        let mut none = Batch::new(Duration::ZERO);
        assert!(!none.is_due(now), "nothing changed");
        none.touch(now);
        assert!(none.is_due(now), "no moment to wait");
        assert_eq!(none.waiting(), 0, "and no object changed");
    }
}
