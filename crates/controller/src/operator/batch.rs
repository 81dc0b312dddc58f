//! Collects changes for a moment, so that one round handles all of them. It is
//! a plain state machine that gets the time as an argument: the loop asks it
//! when the next round is due, and reports when a round begins.

use std::time::{Duration, Instant};

/// What has changed, and since when no round has looked at it.
#[derive(Debug)]
pub(super) struct Batch {
    /// How long changes are gathered.
    delay: Duration,
    /// Since when something has changed that no round has looked at.
    since: Option<Instant>,
    /// How many changes no round has looked at.
    waiting: usize,
}

impl Batch {
    /// Nothing has changed yet.
    pub(super) const fn new(delay: Duration) -> Self {
        Self { delay, since: None, waiting: 0 }
    }

    /// Something changed. The moment is that of the first change: later ones
    /// do not put the round off, so that a stream of them does not starve it.
    pub(super) fn add(&mut self, now: Instant) {
        self.touch(now);
        self.waiting += 1;
    }

    /// A round should look, though no object changed.
    pub(super) fn touch(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// A round begins, and looks at everything so far. What changes from now
    /// on, it does not see.
    pub(super) fn begin(&mut self) {
        self.since = None;
        self.waiting = 0;
    }

    /// Who does not lead has no rounds to wait for.
    pub(super) fn forget_count(&mut self) {
        self.waiting = 0;
    }

    /// Since when something waits for a round.
    pub(super) const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// How many changes wait for a round.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the next round is due, if anything changed.
    pub(super) fn due(&self) -> Option<Instant> {
        Some(self.since? + self.delay)
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
    /// round takes so long. Says when rounds begin, and what each sees.
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
                batch.begin();
                busy_until = now + takes;
            }
        }
        rounds
    }

    #[test]
    fn many_changes_in_one_moment_are_planned_once() {
        let many: Vec<u64> = (100..400).collect();
        assert_eq!(rounds(&many, 50, 5_000), [(600, 300)], "once, when the first has waited long enough");
        assert_eq!(rounds(&[], 50, 5_000), [], "and nothing at all when nothing changes");
    }

    #[test]
    fn a_change_while_one_is_planned_is_planned_once_more() {
        assert_eq!(rounds(&[0, 700, 800], 1_000, 5_000), [(500, 1), (1_500, 2)]);
        // One that comes as the round begins is not lost, either.
        assert_eq!(rounds(&[0, 501], 1_000, 5_000), [(500, 1), (1_500, 1)]);
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
