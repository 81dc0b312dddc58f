//! A watch with one additional guarantee: objects that vanished while the watch was interrupted are
//! reported as deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// How soon an interrupted watch is tried again, and how late at most.
const FIRST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(1);

/// Doubles from [`FIRST`] to [`MOST`].
#[derive(Default)]
struct Soon {
    last: Option<Duration>,
}

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.last = Some(self.last.map_or(FIRST, |last| (last * 2).min(MOST)));
        self.last
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {
        self.last = None;
    }
}

/// What was seen.
pub(crate) enum Seen<K, B> {
    /// The object, as it is now.
    There(K),
    /// The brief of one that is not there any more.
    Gone(B),
}

/// For who is never told to begin anew: he is ended and started instead.
pub(crate) fn never() -> tokio::sync::watch::Receiver<u64> {
    tokio::sync::watch::channel(0).1
}

/// Follows the objects of an API until stopped. `brief` is what is kept of
/// each, to tell which one is gone.
///
/// Begins anew whenever `anew` moves, as a component that is restarted.
pub(crate) async fn follow<K, B>(
    api: Api<K>,
    config: watcher::Config,
    stop: CancellationToken,
    mut anew: tokio::sync::watch::Receiver<u64>,
    brief: impl Fn(&K) -> B,
    mut on: impl FnMut(Seen<K, B>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    B: PartialEq,
{
    // The kind may not be served yet, and the API server may be restarting:
    // whoever waits for either does not want to wait for our backoff as well.
    let begin = || watcher(api.clone(), config.clone()).backoff(Soon::default()).boxed();
    let mut stream = begin();
    let mut known: BTreeMap<(Option<String>, String), B> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = anew.changed() => {
                stream = begin();
                continue;
            }
            event = stream.next() => event,
        };
        let key = |object: &K| (object.namespace(), object.name_any());
        match event {
            None => return,
            Some(Err(error)) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a watch was interrupted");
            }
            Some(Ok(watcher::Event::Init)) => listed.clear(),
            Some(Ok(watcher::Event::InitApply(mut object))) => {
                object.managed_fields_mut().clear();
                listed.insert(key(&object));
                let now = brief(&object);
                // Of this name there is another one now, somewhere else perhaps.
                if let Some(before) = known.insert(key(&object), brief(&object)).filter(|old| *old != now) {
                    on(Seen::Gone(before));
                }
                on(Seen::There(object));
            }
            Some(Ok(watcher::Event::InitDone)) => {
                let vanished: Vec<_> = known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for brief in vanished.iter().filter_map(|key| known.remove(key)).collect::<Vec<_>>() {
                    on(Seen::Gone(brief));
                }
            }
            Some(Ok(watcher::Event::Apply(mut object))) => {
                object.managed_fields_mut().clear();
                known.insert(key(&object), brief(&object));
                on(Seen::There(object));
            }
            Some(Ok(watcher::Event::Delete(object))) => {
                known.remove(&key(&object));
                on(Seen::Gone(brief(&object)));
            }
        }
    }
}
