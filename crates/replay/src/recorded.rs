//! A trace from recordings of a cluster: who was there at each of several moments.
//!
//! A pod comes when it was created, if that lies between the recording before and the first one that has it;
//! else it comes with that one. Nobody has recorded when it went, so it goes with the first recording that does
//! not have it. Who came and went between two recordings is not in the trace.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;

use crate::trace::{Asked, Asker, Trace};

/// One recording, as far as a trace is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// When, in seconds since the first recording.
    pub at: i64,
    /// Pods that ask for slices, whether they have them or not.
    pub pods: Vec<Seen>,
}

/// A pod of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name with its namespace.
    pub pod: String,
    /// What tells it apart from a later pod of the same name.
    pub uid: String,
    /// When it was created, in seconds since the first recording; negative where it was there before.
    pub created: Option<i64>,
    /// What it asks for.
    pub profile: ProfileName,
    /// How many of them, all on one node.
    pub count: u32,
    /// Who asks, as this recording has it; a trace takes it from the first recording that has the pod.
    pub asker: Asker,
}

impl Trace {
    /// The trace of recordings, which are in the order of their times.
    #[must_use]
    pub fn from_moments(moments: &[Moment]) -> Self {
        let mut trace = Self::default();
        // Who is there, and where in the trace.
        let mut there: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut before: Option<i64> = None;
        for (recording, Moment { at, pods }) in (1..).zip(moments) {
            let seen: BTreeSet<(&str, &str)> =
                pods.iter().map(|seen| (seen.pod.as_str(), seen.uid.as_str())).collect();
            there.retain(|pod, position| {
                let stays = seen.contains(pod);
                if !stays {
                    trace.requests[*position].until = *at;
                }
                stays
            });
            for Seen { pod, uid, created, profile, count, asker } in pods {
                let between = |created: &i64| before.is_some_and(|before| before < *created) && created <= at;
                let from = created.filter(between).unwrap_or(*at);
                let asked = Asked {
                    pod: pod.clone(),
                    from,
                    // Until a recording says that it has gone.
                    until: from,
                    profile: *profile,
                    count: *count,
                    asker: asker.clone(),
                    line: recording,
                };
                there.entry((pod, uid)).or_insert_with(|| {
                    trace.requests.push(asked);
                    trace.requests.len() - 1
                });
            }
            before = Some(*at);
        }
        // Who is still there goes with the last recording.
        let end = before.unwrap_or(0);
        for position in there.into_values() {
            let asked = &mut trace.requests[position];
            asked.until = end.max(asked.from + 1);
        }
        trace.requests.sort_by(|a, b| (a.from, &a.pod).cmp(&(b.from, &b.pod)));
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pod: &str, uid: &str, created: i64) -> Seen {
        let profile = "1g.10gb".parse().expect("a profile");
        let asker = Asker::default();
        Seen { pod: pod.to_owned(), uid: uid.to_owned(), created: Some(created), profile, count: 1, asker }
    }

    #[track_caller]
    fn check(moments: &[Moment], expect: &[(&str, i64, i64)]) {
        let trace = Trace::from_moments(moments);
        let of: Vec<_> = trace.requests.iter().map(|a| (a.pod.as_str(), a.from, a.until)).collect();
        assert_eq!(of, expect);
    }

    #[test]
    fn who_is_there_first_comes_with_it_and_later_ones_when_they_were_created() {
        check(
            &[
                Moment { at: 0, pods: vec![seen("old", "1", -900)] },
                Moment { at: 100, pods: vec![seen("old", "1", -900), seen("new", "2", 40)] },
                Moment { at: 200, pods: vec![seen("new", "2", 40)] },
            ],
            &[("old", 0, 200), ("new", 40, 200)],
        );
    }

    #[test]
    fn a_pod_of_the_same_name_is_another_one() {
        check(
            &[
                Moment { at: 0, pods: vec![seen("lab", "1", -5)] },
                Moment { at: 60, pods: vec![seen("lab", "2", 30)] },
                Moment { at: 90, pods: vec![] },
            ],
            &[("lab", 0, 60), ("lab", 30, 90)],
        );
    }

    #[test]
    fn a_clock_that_is_wrong_moves_nobody_out_of_the_time_between_two_recordings() {
        check(
            &[
                Moment { at: 0, pods: vec![] },
                Moment { at: 60, pods: vec![seen("ahead", "1", 75), seen("behind", "2", -3)] },
                Moment { at: 120, pods: vec![seen("last", "3", 120)] },
            ],
            &[("ahead", 60, 120), ("behind", 60, 120), ("last", 120, 121)],
        );
    }
}
