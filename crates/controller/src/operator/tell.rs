//! Events for users. An event that the API server could not accept is sent again, with its original time;
//! the statuses show the same in the meantime, so that nothing depends on an event.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Operator;
use super::refused::For;
use super::round::say;
use super::steps::{self, together};
use crate::calls::CallError;
use crate::class::{Class, chain};
use crate::clock;
use crate::publish::events::{self, Draft};

/// How many unsent events are kept. More wait only when the API server has
/// refused them for long, and then the oldest tell what nobody asks any more.
const MOST_UNSENT: usize = 500;

/// What is tried again, as [`crate::retries::Retries`] knows it.
fn subject_of(namespace: &str) -> String {
    format!("events in {namespace}")
}

/// Events that were not sent, with the time of what they tell.
#[derive(Debug, Default)]
pub(super) struct Unsent(Vec<(Draft, Timestamp)>);

/// What came of sending some.
#[derive(Debug, Default)]
struct Tally {
    sent: usize,
    /// What nobody will ever take: the next attempt would fare no better.
    refused: Vec<CallError>,
    /// What is kept for later.
    again: Vec<(Draft, Timestamp)>,
    /// Why, of the last of these.
    busy: Option<CallError>,
}

impl Unsent {
    /// Everything that is to be sent now: what waits, and then what is new.
    fn take_with(&mut self, drafts: Vec<Draft>, now: Timestamp) -> Vec<(Draft, Timestamp)> {
        let mut due = std::mem::take(&mut self.0);
        due.extend(drafts.into_iter().map(|draft| (draft, now)));
        due
    }

    /// Keeps events for later, the newest where there are too many. Says how
    /// many were too many.
    fn keep(&mut self, mut unsent: Vec<(Draft, Timestamp)>) -> usize {
        unsent.sort_by_key(|(_, at)| *at);
        let dropped = unsent.len().saturating_sub(MOST_UNSENT);
        unsent.drain(..dropped);
        self.0 = unsent;
        dropped
    }
}

/// Whether an event may be taken later: the API server is busy, or a human may
/// come to allow it. In a namespace that is going nobody will ever want it.
fn may_be_taken(error: &CallError) -> bool {
    let going = error.status().is_some_and(|status| status.message.contains("being terminated"));
    matches!(error.class(), Class::Transient | Class::Blocked) && !going && !error.is_not_found()
}

/// Sorts what was sent from what may be sent again, and from what may not.
fn tally(outcomes: Vec<(Draft, Timestamp, Result<(), CallError>)>) -> Tally {
    let mut tally = Tally::default();
    for (draft, at, outcome) in outcomes {
        match outcome {
            Ok(()) => tally.sent += 1,
            Err(error) if may_be_taken(&error) => {
                tally.again.push((draft, at));
                tally.busy = Some(error);
            }
            Err(error) => tally.refused.push(error),
        }
    }
    tally
}

impl Operator {
    /// Sends what is new, and what was not sent before. Says how many were not
    /// taken.
    pub(super) async fn tell(&mut self, drafts: Vec<Draft>, now: Timestamp) -> usize {
        let due = self.unsent.take_with(drafts, now);
        if !self.executor.may_write() {
            // Who has the lease now says it.
            return 0;
        }
        if due.is_empty() {
            return 0;
        }
        // Who refuses them in one namespace holds back none elsewhere.
        let instant = clock::instant();
        let mut later = Vec::new();
        let mut by_namespace: BTreeMap<String, Vec<(Draft, Timestamp)>> = BTreeMap::new();
        for (draft, at) in due {
            let namespace = events::namespace(&draft);
            if self.retries.may_try(&subject_of(&namespace), instant) {
                by_namespace.entry(namespace).or_default().push((draft, at));
            } else {
                later.push((draft, at));
            }
        }
        let mut failures = 0;
        for (namespace, due) in by_namespace {
            let mut work = Vec::new();
            for (draft, at) in due {
                work.push(steps::send(self.executor.clone(), draft, self.settings.identity.clone(), at));
            }
            let at_once = self.settings.parallel_nodes;
            let Tally { sent, refused, again, busy } = tally(self.pump(together(at_once, work)).await);
            for error in &refused {
                say("event", error.class(), 1, &chain(error));
            }
            self.metrics.events("sent", sent);
            self.metrics.events("refused", refused.len());
            self.metrics.events("retried", again.len());
            failures += refused.len() + again.len();
            let outcome = busy.map_or(Ok(()), Err);
            let what = subject_of(&namespace);
            self.refused.note(For::Events(namespace), &outcome);
            self.judge(&what, outcome);
            later.extend(again);
        }
        self.keep(later);
        failures
    }

    fn keep(&mut self, unsent: Vec<(Draft, Timestamp)>) {
        let dropped = self.unsent.keep(unsent);
        self.metrics.events("dropped", dropped);
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::ObjectReference;
    use kube::core::Status;

    use super::*;
    use crate::calls::{Verb, What};

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn draft(note: &str) -> Draft {
        Draft {
            regarding: ObjectReference::default(),
            related: None,
            warning: false,
            reason: "SliceComing".to_owned(),
            action: "Plan".to_owned(),
            note: note.to_owned(),
            once: note.to_owned(),
        }
    }

    fn refused(code: u16) -> Result<(), CallError> {
        let what = What { verb: Verb::Create, object: "Event a/b".to_owned() };
        let status = Status::failure("no", "No").with_code(code);
        Err(CallError::Refused { what, source: kube::Error::Api(status.boxed()) })
    }

    fn notes(events: &[(Draft, Timestamp)]) -> Vec<(&str, Timestamp)> {
        events.iter().map(|(draft, at)| (draft.note.as_str(), *at)).collect()
    }

    #[test]
    fn what_was_not_taken_just_now_is_sent_again_with_its_time_and_before_what_is_new() {
        let mut unsent = Unsent::default();
        let outcomes = vec![
            (draft("taken"), at(1), Ok(())),
            (draft("busy"), at(2), refused(503)),
            (draft("too many"), at(1), refused(429)),
        ];
        let Tally { sent, refused, again, busy } = tally(outcomes);
        assert_eq!((sent, refused.len(), busy.is_some()), (1, 0, true));
        assert_eq!(unsent.keep(again), 0);
        let due = unsent.take_with(vec![draft("new")], at(3));
        assert_eq!(notes(&due), [("too many", at(1)), ("busy", at(2)), ("new", at(3))]);
        assert_eq!(unsent.take_with(Vec::new(), at(4)), [], "what is due is not due twice");
    }

    #[test]
    fn what_nobody_will_ever_take_is_not_sent_again() {
        let Tally { sent, refused, again, busy } =
            tally(vec![(draft("nowhere"), at(1), refused(404)), (draft("wrong"), at(1), refused(422))]);
        assert_eq!((sent, refused.len(), again.len(), busy.is_some()), (0, 2, 0, false));
    }

    #[test]
    fn what_a_human_may_come_to_allow_is_sent_again() {
        let Tally { sent, refused, again, busy } = tally(vec![(draft("forbidden"), at(1), refused(403))]);
        assert_eq!((sent, refused.len(), again.len()), (0, 0, 1));
        assert_eq!(busy.map(|error| error.class()), Some(Class::Blocked));
    }

    #[test]
    fn of_too_many_the_newest_are_kept() {
        let mut unsent = Unsent::default();
        let many = (0..503).rev().map(|second| (draft("x"), at(second))).collect();
        assert_eq!(unsent.keep(many), 3);
        let kept = unsent.take_with(Vec::new(), at(0));
        assert_eq!((MOST_UNSENT, kept.len(), kept[0].1), (500, 500, at(3)));
    }
}
