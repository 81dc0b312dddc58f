//! The figures of one replay.

use serde::Serialize;

use crate::timeline::{Level, Timeline};
use crate::trace::Trace;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// How many asked.
    pub asked: usize,
    /// How many got their slices before they went.
    pub served: usize,
    /// How many never did. The two add up to those that asked.
    pub never: usize,
    /// How long they waited. Who was never served waited as long as it was there.
    pub waited: Waited,
    /// Compute slices times seconds that were asked for.
    pub asked_slice_seconds: u128,
    /// Of them, how many were held.
    pub held_slice_seconds: u128,
    /// What the fleet had: held, idle, away and uncut.
    pub fleet: Level,
    /// How often a GPU was cut anew.
    pub gpus_changed: usize,
    /// How often a node was.
    pub nodes_changed: usize,
    /// How often a node was cordoned and opened again unchanged, since what it
    /// was to become was no longer wanted.
    pub taken_back: usize,
    /// Seconds that nodes were closed, all together.
    pub closed_node_seconds: u128,
    /// Slices made and unmade.
    pub operations: u64,
    /// How often was planned.
    pub plans: u64,
}

/// How long requests waited, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// Half of them no longer than this.
    pub p50: i64,
    /// 90 of 100 no longer than this.
    pub p90: i64,
    /// 99 of 100 no longer than this.
    pub p99: i64,
    /// The longest.
    pub max: i64,
    /// All of them together.
    pub sum: i64,
}

impl Waited {
    /// Of all waits. The p-th percentile is the smallest wait that at least p
    /// of a hundred do not exceed.
    #[must_use]
    pub fn from_waits(mut waits: Vec<i64>) -> Self {
        waits.sort_unstable();
        let percentile = |p: usize| {
            let rank = (waits.len() * p).div_ceil(100);
            waits.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Self {
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            max: waits.last().copied().unwrap_or(0),
            sum: waits.iter().sum(),
        }
    }
}

/// What is counted on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bound_at: Vec<Option<i64>>,
    pub(crate) gpus_changed: usize,
    pub(crate) nodes_changed: usize,
    pub(crate) taken_back: usize,
    pub(crate) closed_node_seconds: u128,
    pub(crate) operations: u64,
    pub(crate) plans: u64,
}

impl Figures {
    pub(crate) fn new(trace: &Trace, counted: &Counted, timeline: &Timeline) -> Self {
        let Counted {
            bound_at,
            gpus_changed,
            nodes_changed,
            taken_back,
            closed_node_seconds,
            operations,
            plans,
        } = counted;
        let fleet = timeline.total();
        let served = bound_at.iter().flatten().count();
        let waits = trace.requests.iter().zip(bound_at);
        let waits = waits.map(|(asked, bound)| bound.unwrap_or(asked.until) - asked.from).collect();
        Self {
            asked: trace.requests.len(),
            served,
            never: trace.requests.len() - served,
            waited: Waited::from_waits(waits),
            asked_slice_seconds: trace.slice_seconds(),
            held_slice_seconds: fleet.held,
            fleet,
            gpus_changed: *gpus_changed,
            nodes_changed: *nodes_changed,
            taken_back: *taken_back,
            closed_node_seconds: *closed_node_seconds,
            operations: *operations,
            plans: *plans,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_wait_that_somebody_had() {
        let waited = Waited::from_waits((1..=200).rev().collect());
        assert_eq!((waited.p50, waited.p90, waited.p99, waited.max), (100, 180, 198, 200));
        let one = Waited::from_waits(vec![7]);
        assert_eq!((one.p50, one.p99, one.max, one.sum), (7, 7, 7, 7));
        assert_eq!(Waited::from_waits(vec![]), Waited::default());
    }
}
