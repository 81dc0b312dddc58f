//! The watches: one task each, which trims what it gets and hands it on in
//! order. The channel is bounded, so that a list of many thousands waits for
//! whoever takes it in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::core::gvk::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::class::chain;
use crate::settings::{MapRef, Settings};
use crate::store::{Change, Foreign, Item, Source, Store};

/// How many changes may wait to be taken in.
pub const BACKLOG: usize = 4096;
/// How long the API server keeps one watch open. The client gives a silent
/// connection up a little later (see [`crate::client`]).
pub const WATCH_SECONDS: u32 = 240;

/// How soon a watch that broke is tried again: doubled each time, until it gets
/// through. There are a dozen watches, of one replica or two; so a short longest
/// pause costs an API server in trouble little, and everything that is decided
/// meanwhile is decided on what was seen before.
#[derive(Clone, Debug)]
struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(250);

    const fn new(longest: Duration) -> Self {
        Self { next: Self::FIRST, longest }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next.min(self.longest);
        self.next = pause * 2;
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

/// The watches that run.
pub struct Watches {
    client: Client,
    config: watcher::Config,
    changes: mpsc::Sender<(Source, Change)>,
    tasks: JoinSet<()>,
    running: BTreeMap<Source, AbortHandle>,
    maps: BTreeSet<MapRef>,
    operator_namespace: String,
    pauses: Pauses,
    call_timeout: Duration,
}

impl Watches {
    /// Nothing runs yet: [`Watches::adjust`] starts what is due.
    #[must_use]
    pub fn new(client: Client, settings: &Settings, changes: mpsc::Sender<(Source, Change)>) -> Self {
        let here = &settings.gpu_operator_namespace;
        let at = |name: &str| MapRef { namespace: here.clone(), name: name.to_owned() };
        let mut maps = BTreeSet::from([at(&settings.map_name), at(observe::names::DEFAULT_MAP)]);
        maps.extend(settings.administrators_map.clone());
        Self {
            client,
            config: watcher::Config::default().timeout(WATCH_SECONDS).page_size(settings.page_size),
            changes,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            maps,
            operator_namespace: here.clone(),
            pauses: Pauses::new(settings.longest_watch_retry),
            call_timeout: settings.call_timeout,
        }
    }

    /// Tells the store what will come, so that nothing counts as complete
    /// before it did.
    pub fn announce(&self, store: &mut Store) {
        for source in [
            Source::GpuNodes,
            Source::Nodes,
            Source::Pods,
            Source::Policies,
            Source::Namespaces,
            Source::PriorityClasses,
            Source::Definitions,
        ] {
            store.expect(source);
        }
    }

    /// Starts and stops watches as the cluster has it now. Nodes are listed
    /// after what is remembered of them, and pods after nodes: which pods are
    /// kept depends on which nodes have GPUs.
    pub fn adjust(&mut self, store: &mut Store) {
        let mut wanted = BTreeSet::from([
            Source::GpuNodes,
            Source::Policies,
            Source::Namespaces,
            Source::PriorityClasses,
            Source::Definitions,
        ]);
        if store.is_synced(&Source::GpuNodes) {
            wanted.insert(Source::Nodes);
        }
        if store.is_synced(&Source::Nodes) {
            wanted.insert(Source::Pods);
        }
        wanted.extend(self.maps.iter().cloned().map(Source::Map));
        // The map that ClusterPolicy names, whatever its name.
        for policy in store.objects.cluster_policies.values() {
            let name = policy.spec.mig_manager.config.as_ref().map(|config| config.name.clone());
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                wanted.insert(Source::Map(MapRef { namespace: self.operator_namespace.clone(), name }));
            }
        }
        let foreign = Foreign::ALL.into_iter().filter(|f| store.definitions.contains(&f.definition()));
        wanted.extend(foreign.map(Source::Foreign));
        let stop: Vec<Source> = self.running.keys().filter(|s| !wanted.contains(s)).cloned().collect();
        for source in stop {
            // What was synced once and is only started later stays.
            if matches!(source, Source::Nodes | Source::Pods) {
                continue;
            }
            if let Some(task) = self.running.remove(&source) {
                task.abort();
            }
            store.forget(&source);
            tracing::info!(%source, "is no longer watched: its kind or its reference is gone");
        }
        for source in wanted {
            if !self.running.contains_key(&source) {
                store.expect(source.clone());
                let task = self.start(source.clone());
                self.running.insert(source, task);
            }
        }
    }

    fn start(&mut self, source: Source) -> AbortHandle {
        let (client, config, changes) = (self.client.clone(), self.config.clone(), self.changes.clone());
        let (pauses, call_timeout) = (self.pauses.clone(), self.call_timeout);
        let out = Out { source: source.clone(), changes, pauses, call_timeout };
        match source {
            Source::Nodes => self.tasks.spawn(follow(Api::all(client), config, out, Item::node)),
            Source::Pods => self.tasks.spawn(follow(Api::all(client), config, out, Item::pod)),
            Source::Namespaces => self.tasks.spawn(follow(Api::all(client), config, out, Item::namespace)),
            Source::PriorityClasses => {
                self.tasks.spawn(follow(Api::all(client), config, out, Item::priority_class))
            }
            Source::Definitions => {
                let item = |crd: PartialObjectMeta<CustomResourceDefinition>| {
                    Item::Definition(crd.metadata.name.unwrap_or_default())
                };
                self.tasks.spawn(follow(Api::all(client), config, out, item))
            }
            Source::Map(map) => {
                let config = config.fields(&format!("metadata.name={}", map.name));
                let maps = Api::namespaced(client, &map.namespace);
                self.tasks.spawn(follow(maps, config, out, Item::config_map))
            }
            Source::Policies => {
                let kind = ours(api::GpuPartitionPolicy::plural(&()).as_ref(), "GpuPartitionPolicy");
                self.tasks.spawn(follow_dynamic(client, kind, config, out))
            }
            Source::GpuNodes => {
                let kind = ours(api::GpuNode::plural(&()).as_ref(), "GpuNode");
                self.tasks.spawn(follow_dynamic(client, kind, config, out))
            }
            Source::Foreign(foreign) => self.tasks.spawn(async move {
                let kind = served(&client, foreign, &out).await;
                follow_dynamic(client, kind, config, out).await;
            }),
        }
    }
}

/// A kind of ours.
pub(crate) fn ours(plural: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(api::GROUP, api::VERSION, kind), plural)
}

/// Where a watch hands its changes on.
struct Out {
    source: Source,
    changes: mpsc::Sender<(Source, Change)>,
    pauses: Pauses,
    /// How long one page of a list may take.
    call_timeout: Duration,
}

impl Out {
    /// Hands a change on. `false` when nobody is there any more.
    async fn send(&self, change: Change) -> bool {
        self.changes.send((self.source.clone(), change)).await.is_ok()
    }
}

/// Which version of a foreign kind the API server serves. Asks until it knows:
/// a CRD needs a moment until it is served.
async fn served(client: &Client, foreign: Foreign, out: &Out) -> ApiResource {
    let (group, kind, plural, versions) = foreign.names();
    let mut pause = Duration::from_millis(250);
    loop {
        for version in versions {
            let group_version = format!("{group}/{version}");
            let asked = client.list_api_group_resources(&group_version);
            let listed = tokio::time::timeout(out.call_timeout, asked).await;
            let found = listed
                .is_ok_and(|list| list.is_ok_and(|list| list.resources.iter().any(|r| r.name == plural)));
            if found {
                return ApiResource::from_gvk_with_plural(
                    &GroupVersionKind::gvk(group, version, kind),
                    plural,
                );
            }
        }
        let text =
            format!("no version of {plural}.{group} that can be read is served ({})", versions.join(", "));
        out.send(Change::Trouble(text)).await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(30));
    }
}

async fn follow_dynamic(client: Client, kind: ApiResource, config: watcher::Config, out: Out) {
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    follow(api, config, out, Item::dynamic).await;
}

/// Follows the objects of a kind. A watch of what nodes are judged by lists
/// anew when it broke, so that it is known from when on it is up to date. Each
/// page of a list has to come in time; a watch may say nothing for as long as
/// nothing happens.
async fn follow<K>(api: Api<K>, config: watcher::Config, out: Out, item: impl Fn(K) -> Item)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut pauses = out.pauses.clone();
    // A page that failed is asked for again after a pause.
    let patience = out.call_timeout + out.pauses.longest;
    loop {
        let mut events = std::pin::pin!(watcher(api.clone(), config.clone()).backoff(out.pauses.clone()));
        let mut lists = true;
        loop {
            let event = match lists {
                true => match tokio::time::timeout(patience, events.next()).await {
                    Ok(event) => event,
                    Err(_) => {
                        let text = format!("no answer to a list within {patience:?}");
                        if !out.send(Change::Trouble(text)).await {
                            return;
                        }
                        tokio::time::sleep(pauses.next().unwrap_or(Pauses::FIRST)).await;
                        break;
                    }
                },
                false => events.next().await,
            };
            match event {
                Some(Ok(Event::Init)) => lists = true,
                Some(Ok(Event::InitDone)) => lists = false,
                _ => {}
            }
            // Not the list: where every watch breaks at once, it would be asked for without a pause.
            if matches!(event, Some(Ok(Event::Apply(_) | Event::Delete(_)))) {
                pauses.reset();
            }
            let change = match event {
                Some(Ok(Event::Init)) => Change::Begin,
                Some(Ok(Event::InitApply(object) | Event::Apply(object))) => Change::Put(item(object)),
                Some(Ok(Event::InitDone)) => Change::End,
                Some(Ok(Event::Delete(object))) => Change::Gone(item(object)),
                Some(Err(error)) => Change::Trouble(chain(&error)),
                None => return,
            };
            let broke = matches!(change, Change::Trouble(_));
            if !out.send(change).await {
                return;
            }
            if broke && out.source.is_judged_by() {
                // One that goes on where it broke would say nothing until something changes.
                let pause = pauses.next().unwrap_or(Pauses::FIRST);
                tokio::time::sleep(pause).await;
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use std::sync::{Arc, Mutex};

    /// An API server of which every watch breaks at once; and what was asked
    /// of it.
    fn breaking() -> (Client, Arc<Mutex<Vec<&'static str>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            noted.lock().unwrap().push(if watch { "watch" } else { "list" });
            let list = r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
            let (status, body) = if watch { (503, "{}") } else { (200, list) };
            let answer = http::Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()));
            async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
        });
        (Client::new(service, "default"), asked)
    }

    async fn first_requests(source: Source) -> Vec<&'static str> {
        let (client, asked) = breaking();
        let (changes, mut told) = mpsc::channel(BACKLOG);
        let pauses = Pauses::new(Duration::from_secs(1));
        let out = Out { source, changes, pauses, call_timeout: Duration::from_secs(10) };
        let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
        let following = tokio::spawn(follow(api, watcher::Config::default(), out, Item::node));
        let mut troubles = 0;
        while troubles < 2 {
            let (_, change) = told.recv().await.unwrap();
            troubles += usize::from(matches!(change, Change::Trouble(_)));
        }
        following.abort();
        asked.lock().unwrap().iter().copied().take(4).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_of_nodes_that_broke_lists_anew_and_others_go_on() {
        assert_eq!(first_requests(Source::Nodes).await, ["list", "watch", "list", "watch"]);
        assert_eq!(first_requests(Source::Policies).await[..3], ["list", "watch", "watch"]);
    }

    /// An API server that takes everything and says nothing: no list of it is
    /// waited for without end, and it is asked again.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_nobody_answers_is_given_up_and_begun_again() {
        let service = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>()
        });
        let (changes, mut told) = mpsc::channel(BACKLOG);
        let out = Out {
            source: Source::Policies,
            changes,
            pauses: Pauses::new(Duration::from_secs(1)),
            call_timeout: Duration::from_secs(10),
        };
        let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(Client::new(service, "default"));
        let following = tokio::spawn(follow(api, watcher::Config::default(), out, Item::node));
        let began = tokio::time::Instant::now();
        let mut troubles = Vec::new();
        while troubles.len() < 2 {
            if let (_, Change::Trouble(text)) = told.recv().await.unwrap() {
                troubles.push((began.elapsed().as_millis(), text));
            }
        }
        following.abort();
        let text = "no answer to a list within 11s".to_owned();
        assert_eq!(troubles, [(11_000, text.clone()), (22_250, text)]);
    }

    #[test]
    fn a_watch_that_broke_is_tried_soon_and_then_at_most_so_seldom() {
        let mut pauses = Pauses::new(Duration::from_secs(1));
        let millis: Vec<_> = pauses.by_ref().take(4).map(|pause| pause.as_millis()).collect();
        assert_eq!(millis, [250, 500, 1_000, 1_000]);
        pauses.reset();
        assert_eq!(pauses.next(), Some(Duration::from_millis(250)));
    }
}
