//! Waiting without sleeping: the objects of a kind are watched until a
//! condition holds. When it does not in time, the error shows what was seen
//! last.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use anyhow::{anyhow, bail};
use futures::StreamExt;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a condition may take to hold, unless somebody says otherwise. Scenarios take a few seconds, those with Kueue
/// half a minute more, after which it gives quota anew; a busy machine takes some times as long. Nobody waits so long
/// where all is well: only a failure is told later.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The objects of a kind as they are now, by `namespace/name` or `name`.
pub type Seen<K> = BTreeMap<String, K>;

/// The key of an object.
fn key<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// Watches until `judge` gives something. What it says instead, an `Err` with
/// what is still missing, is in the error when time is up, with the objects.
///
/// # Errors
/// When time is up.
pub async fn until<K, T>(
    api: Api<K>,
    what: &str,
    patience: Duration,
    mut judge: impl FnMut(&Seen<K>) -> Result<T, String>,
) -> anyhow::Result<T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
{
    let mut seen = Seen::new();
    let mut missing = "nothing was seen".to_owned();
    let watching = async {
        // A relist gathers beside and replaces at its end, as a store does.
        let mut fresh = Seen::new();
        let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Init) => {
                    fresh.clear();
                    continue;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    fresh.insert(key(&object), object);
                    continue;
                }
                Ok(watcher::Event::InitDone) => seen = std::mem::take(&mut fresh),
                Ok(watcher::Event::Apply(object)) => {
                    seen.insert(key(&object), object);
                }
                Ok(watcher::Event::Delete(object)) => {
                    seen.remove(&key(&object));
                }
                // The API server may be restarting; the watcher tries again.
                Err(error) => {
                    missing = format!("the watch failed: {error}");
                    continue;
                }
            }
            match judge(&seen) {
                Ok(found) => return Some(found),
                Err(why) => missing = why,
            }
        }
        None
    };
    match tokio::time::timeout(patience, watching).await {
        Ok(Some(found)) => Ok(found),
        Ok(None) => bail!("the watch for {what} ended"),
        Err(_) => Err(anyhow!(
            "waited {} s until {what}, in vain: {missing}. Seen last:\n{}",
            patience.as_secs(),
            shown(&seen)
        )),
    }
}

/// Watches one object by its name until `judge` gives something; `None` is
/// its absence.
///
/// # Errors
/// When time is up.
pub async fn until_one<K, T>(
    api: Api<K>,
    name: &str,
    what: &str,
    patience: Duration,
    mut judge: impl FnMut(Option<&K>) -> Result<T, String>,
) -> anyhow::Result<T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
{
    until(api, what, patience, |seen| judge(seen.values().find(|object| object.name_any() == name))).await
}

/// Asks again and again, for what cannot be watched: a file, a counter in
/// this process.
///
/// # Errors
/// When time is up, or asking fails.
pub async fn asking<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Result<T, String>>,
) -> anyhow::Result<T> {
    let mut missing = String::new();
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tick.tick().await;
            match ask().await? {
                Ok(found) => return anyhow::Ok(found),
                Err(why) => missing = why,
            }
        }
    };
    match tokio::time::timeout(patience, asking).await {
        Ok(result) => result,
        Err(_) => bail!("waited {} s until {what}, in vain: {missing}", patience.as_secs()),
    }
}

/// Objects as a human wants to read them: without what every object carries.
fn shown<K: Serialize>(seen: &Seen<K>) -> String {
    let mut text = String::new();
    for object in seen.values() {
        let mut value = serde_json::to_value(object).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(|m| m.as_object_mut()) {
            for field in ["managedFields", "uid", "creationTimestamp", "generation"] {
                metadata.remove(field);
            }
        }
        let yaml = serde_saphyr::to_string(&value).unwrap_or_else(|_| value.to_string());
        text.push_str("---\n");
        text.push_str(&yaml);
    }
    if text.is_empty() { "(none)".to_owned() } else { text }
}
