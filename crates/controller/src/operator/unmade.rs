//! Why the StatefulSet of a workbench creates no pod: a quota of the namespace, or an admission webhook.
//! The StatefulSet reports it only in an event; the events of one set are listed when its workbench has
//! waited for long, and from then on occasionally.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use observe::Objects;
use observe::objects::Key;

use super::Operator;
use super::steps::together;
use crate::calls::{CallError, Calls};
use crate::class::chain;
use crate::clock;
use crate::store::bounds;

/// How long an answer is taken to be true.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// How many are asked at a time: the rest comes with the next turn.
const AT_A_TIME: usize = 20;
/// How many events of one set are looked at. It tells the same thing in one.
const EVENTS: u32 = 20;
/// How much of its words is kept, in bytes.
const LONGEST_WORDS: usize = 300;

/// Sets that were asked, and when.
#[derive(Debug, Default)]
pub(super) struct Unmade {
    asked: BTreeMap<Key, Instant>,
}

impl Unmade {
    /// Workbenches that have waited for a pod for so long, and whose sets are to
    /// be asked.
    fn due(
        &mut self,
        objects: &Objects,
        waited: SignedDuration,
        now: Timestamp,
        instant: Instant,
    ) -> Vec<Key> {
        self.asked.retain(|key, at| {
            objects.starting_since.contains_key(key) && instant.saturating_duration_since(*at) < ASK_AGAIN
        });
        let long = objects.starting_since.iter().filter(|(_, since)| now.duration_since(**since) >= waited);
        long.map(|(key, _)| key)
            .filter(|key| !self.asked.contains_key(*key))
            .take(AT_A_TIME)
            .cloned()
            .collect()
    }
}

impl Operator {
    /// Asks why pods of workbenches are not made. What cannot be found out holds
    /// nobody up.
    pub(super) async fn find_unmade(&mut self) {
        let what = "why a StatefulSet makes no pod";
        let instant = clock::instant();
        if self.batch.since().is_none() || !self.claim.holds() || !self.retries.may_try(what, instant) {
            return;
        }
        let objects = &mut self.store.objects;
        let starting = &objects.starting_since;
        objects.unmade.retain(|key, _| starting.contains_key(key));
        // Before it is time to say that something keeps it from starting.
        let waited = self.settings.observe.blocked_after / 2;
        let due = self.unmade.due(objects, waited, self.settings.clock.now(), instant);
        let work = due.into_iter().map(|key| ask(Arc::clone(&self.calls), key)).collect();
        for (key, found) in together(self.settings.parallel_nodes, work).await {
            match found {
                Ok(words) => {
                    self.retries.succeeded(what);
                    self.unmade.asked.insert(key.clone(), instant);
                    match words {
                        Some(words) => drop(self.store.objects.unmade.insert(key, words)),
                        None => drop(self.store.objects.unmade.remove(&key)),
                    }
                }
                Err(error) => {
                    self.retries.failed(what, error.class(), clock::instant());
                    let (namespace, name) = key;
                    let set = format!("{namespace}/{name}");
                    tracing::warn!(
                        set,
                        error = chain(&error),
                        "the events of a StatefulSet cannot be listed"
                    );
                }
            }
        }
    }
}

/// What a set said last of why it makes no pod.
async fn ask(calls: Arc<Calls>, key: Key) -> (Key, Result<Option<String>, CallError>) {
    let (namespace, name) = &key;
    let api: Api<Event> = Api::namespaced(calls.client(), namespace);
    let fields = format!("regarding.kind=StatefulSet,regarding.name={name},reason=FailedCreate");
    let params = ListParams::default().fields(&fields).limit(EVENTS);
    let found = calls.list(&api, &format!("events of StatefulSet {namespace}/{name}"), &params).await;
    (key, found.map(|events| latest(&events)))
}

/// The words of the latest: on one line, and cut.
fn latest(events: &[Event]) -> Option<String> {
    let when = |event: &Event| {
        let series = event.series.as_ref().map(|series| series.last_observed_time.0);
        let once = event.event_time.as_ref().map(|time| time.0);
        series.or(event.deprecated_last_timestamp.as_ref().map(|time| time.0)).or(once)
    };
    let last = events.iter().max_by_key(|event| when(event))?;
    let words = last.note.as_deref()?.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then(|| bounds::cut(words, LONGEST_WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(note: &str, last: &str) -> Event {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "x"}, "eventTime": null, "note": note, "deprecatedLastTimestamp": last,
        }))
        .expect("an event")
    }

    #[test]
    fn the_latest_words_count_on_one_line_and_cut() {
        let long = format!("exceeded\n quota {}", "ä".repeat(400));
        let events = [event("no right", "2026-11-20T08:00:00Z"), event(&long, "2026-11-20T09:00:00Z")];
        let words = latest(&events).expect("it says why");
        assert!(words.starts_with("exceeded quota ää") && words.ends_with('…'), "{words}");
        assert!(words.len() <= LONGEST_WORDS + '…'.len_utf8());
        assert_eq!(latest(&[]), None);
        assert_eq!(latest(&[event(" ", "2026-11-20T08:00:00Z")]), None);
    }

    #[test]
    fn a_set_is_asked_when_its_workbench_has_waited_and_then_once_a_minute() {
        let (now, instant) = (Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1), clock::instant());
        let mut objects = Objects::default();
        let key = |name: &str| ("team".to_owned(), name.to_owned());
        objects.starting_since.insert(key("long"), now - SignedDuration::from_secs(60));
        objects.starting_since.insert(key("new"), now - SignedDuration::from_secs(59));
        let waited = SignedDuration::from_secs(60);
        let mut unmade = Unmade::default();
        assert_eq!(unmade.due(&objects, waited, now, instant), [key("long")]);
        unmade.asked.insert(key("long"), instant);
        let later = |seconds| instant + Duration::from_secs(seconds);
        assert!(unmade.due(&objects, waited, now, later(59)).is_empty());
        assert_eq!(unmade.due(&objects, waited, now, later(60)), [key("long")]);
        objects.starting_since = (0..100).map(|n| (key(&format!("n{n:02}")), now - waited)).collect();
        assert_eq!(unmade.due(&objects, waited, now, instant).len(), AT_A_TIME);
        assert!(unmade.asked.is_empty(), "who is gone is forgotten");
    }
}
