//! The fleet over time, in intervals of equal length, for pictures.

use serde::Serialize;

use crate::trace::seconds;
use crate::world::Use;

/// The fleet over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The first second.
    pub from: i64,
    /// The last second.
    pub until: i64,
    /// The spans, each as long as the others.
    pub spans: Vec<Level>,
}

/// What of the fleet is what during a span: compute slices times seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    /// In somebody's hands.
    pub held: u128,
    /// Cut, and free for anybody.
    pub idle: u128,
    /// Not held, on nodes that were changing.
    pub away: u128,
    /// Covered by no slice.
    pub uncut: u128,
    /// Asked for, and not there: no part of the fleet.
    pub waiting: u128,
}

impl Level {
    fn add(&mut self, used: Use, waiting: u64, length: i64) {
        let of = |slices: u64| u128::from(slices) * seconds(length);
        self.held += of(used.held);
        self.idle += of(used.idle);
        self.away += of(used.away);
        self.uncut += of(used.uncut);
        self.waiting += of(waiting);
    }

    /// What the fleet has, held or not.
    #[must_use]
    pub const fn capacity(&self) -> u128 {
        self.held + self.idle + self.away + self.uncut
    }
}

impl Timeline {
    pub(crate) fn new((from, until): (i64, i64), spans: usize) -> Self {
        Self { from, until, spans: vec![Level::default(); spans.max(1)] }
    }

    /// Where a span begins; that of the last but one is where everything ends.
    #[must_use]
    pub fn begins(&self, span: usize) -> i64 {
        let length = i128::from(self.until - self.from);
        let spans = i128::try_from(self.spans.len()).unwrap_or(1);
        let at = i128::from(self.from) + length * i128::try_from(span).unwrap_or(spans) / spans;
        i64::try_from(at).unwrap_or(self.until)
    }

    /// From one second to another it was like this.
    pub(crate) fn add(&mut self, from: i64, until: i64, used: Use, waiting: u64) {
        let length = i128::from((self.until - self.from).max(1));
        let spans = i128::try_from(self.spans.len()).unwrap_or(1);
        let first = (i128::from(from - self.from) * spans / length).clamp(0, spans - 1);
        for span in usize::try_from(first).unwrap_or(0)..self.spans.len() {
            let (begins, ends) = (self.begins(span), self.begins(span + 1));
            if begins >= until {
                break;
            }
            self.spans[span].add(used, waiting, ends.min(until) - begins.max(from));
        }
    }

    /// All spans together.
    #[must_use]
    pub fn total(&self) -> Level {
        self.spans.iter().fold(Level::default(), |sum, span| Level {
            held: sum.held + span.held,
            idle: sum.idle + span.idle,
            away: sum.away + span.away,
            uncut: sum.uncut + span.uncut,
            waiting: sum.waiting + span.waiting,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_over_several_spans_is_shared_among_them_and_nothing_is_lost() {
        let mut timeline = Timeline::new((100, 110), 3);
        let used = Use { held: 2, idle: 1, away: 0, uncut: 4 };
        timeline.add(100, 101, used, 0);
        timeline.add(101, 110, used, 5);
        assert_eq!((timeline.begins(1), timeline.begins(2), timeline.begins(3)), (103, 106, 110));
        let held: Vec<u128> = timeline.spans.iter().map(|span| span.held).collect();
        assert_eq!(held, [6, 6, 8]);
        let total = timeline.total();
        assert_eq!((total.capacity(), total.waiting), (70, 45));
    }
}
