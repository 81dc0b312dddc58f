//! News for people, as events. One that the API server could not take just now
//! is sent again, with the time of what it tells; the statuses say the same
//! meanwhile, so that nothing waits for an event.

use jiff::Timestamp;

use super::Operator;
use super::round::say;
use super::steps::{self, together};
use crate::class::{Class, chain};
use crate::clock;
use crate::publish::events::Draft;

/// How many unsent events are kept. More wait only when the API server has
/// refused them for long, and then the oldest tell what nobody asks any more.
const MOST_UNSENT: usize = 500;

/// What is tried again, as [`crate::retries::Retries`] knows it.
const WHAT: &str = "events";

impl Operator {
    /// Sends what is new, and what was not sent before. Says how many were not
    /// taken.
    pub(super) async fn tell(&mut self, drafts: Vec<Draft>, now: Timestamp) -> usize {
        let mut due = std::mem::take(&mut self.unsent);
        due.extend(drafts.into_iter().map(|draft| (draft, now)));
        if !self.hands.may_write() {
            // Who has the lease now says it.
            return 0;
        }
        if due.is_empty() {
            return 0;
        }
        if !self.retries.may_try(WHAT, clock::instant()) {
            self.keep(due);
            return 0;
        }
        let mut work = Vec::new();
        for (draft, at) in due {
            work.push(steps::send(self.hands.clone(), draft, self.settings.identity.clone(), at));
        }
        let at_once = self.settings.parallel_nodes;
        let (mut again, mut sent, mut refused, mut busy) = (Vec::new(), 0, 0, None);
        for (draft, at, outcome) in self.pump(together(at_once, work)).await {
            match outcome {
                Ok(()) => sent += 1,
                Err(error) if error.class() == Class::Transient => {
                    again.push((draft, at));
                    busy = Some(error);
                }
                // Its namespace is going, or we may not: the next one would fare no better.
                Err(error) => {
                    refused += 1;
                    say("event", error.class(), 1, &chain(&error));
                }
            }
        }
        self.metrics.events("sent", sent);
        self.metrics.events("refused", refused);
        self.metrics.events("retried", again.len());
        let failures = refused + again.len();
        self.judge(WHAT, busy.map_or(Ok(()), Err));
        self.keep(again);
        failures
    }

    /// Keeps events for later, the newest where there are too many.
    fn keep(&mut self, mut unsent: Vec<(Draft, Timestamp)>) {
        unsent.sort_by_key(|(_, at)| *at);
        let dropped = unsent.len().saturating_sub(MOST_UNSENT);
        unsent.drain(..dropped);
        self.metrics.events("dropped", dropped);
        self.unsent = unsent;
    }
}
