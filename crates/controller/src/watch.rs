//! The watches: one task each, which trims the objects and passes them on in order. The channel is bounded,
//! so that a list of many thousands waits for the receiver.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::core::gvk::GroupVersionKind;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::class::chain;
use crate::clock;
use crate::settings::{MapRef, Settings};
use crate::store::bounds::Bounded;
use crate::store::{Change, Foreign, Item, Source, Store};

/// How many changes may wait to be taken in.
pub const BACKLOG: usize = 4096;
/// How much longer than asked a watch may say nothing before it is given up:
/// the API server should have ended it.
const LATE: Duration = Duration::from_secs(5);
/// Which part of its time a watch may lack at its end and still have had it: 5 s
/// of 240.
const EARLY: u32 = 48;

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

impl Pauses {
    const fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

/// The watches that run.
pub struct Watches {
    client: Client,
    all: Selection,
    changes: mpsc::Sender<(Source, Change)>,
    tasks: JoinSet<()>,
    running: BTreeMap<Source, AbortHandle>,
    maps: BTreeSet<MapRef>,
    /// Kinds of others that are read where they exist.
    foreign: Vec<Foreign>,
    operator_namespace: String,
    pauses: Pauses,
    call_timeout: Duration,
    watch_time: Duration,
}

impl Watches {
    /// Nothing runs yet: [`Watches::adjust`] starts what is due.
    #[must_use]
    pub fn new(client: Client, settings: &Settings, changes: mpsc::Sender<(Source, Change)>) -> Self {
        let here = &settings.gpu_operator_namespace;
        let at = |name: &str| MapRef { namespace: here.clone(), name: name.to_owned() };
        let mut maps = BTreeSet::from([
            at(&settings.map_name),
            at(rollout::names::PLUGIN_MAP_NAME),
            at(rollout::names::DEFAULT_MAP),
        ]);
        maps.extend(settings.administrators_map.clone());
        Self {
            client,
            all: Selection { fields: None, page: settings.page_size },
            changes,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            maps,
            foreign: Foreign::read_with(settings).collect(),
            operator_namespace: here.clone(),
            pauses: Pauses::new(settings.longest_watch_retry),
            call_timeout: settings.call_timeout,
            watch_time: settings.watch_time,
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
            Source::VolumeClaims,
            Source::Volumes,
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
            Source::VolumeClaims,
            Source::Volumes,
            Source::Definitions,
        ]);
        if store.is_synced(&Source::GpuNodes) {
            wanted.insert(Source::Nodes);
        }
        if store.is_synced(&Source::Nodes) {
            wanted.insert(Source::Pods);
        }
        wanted.extend(self.maps.iter().cloned().map(Source::Map));
        // The maps that ClusterPolicy names, whatever their names.
        for policy in store.objects.cluster_policies.values() {
            let layouts = policy.spec.mig_manager.config.as_ref().map(|config| config.name.clone());
            let sharing = policy.spec.device_plugin.config.as_ref().map(|config| config.name.clone());
            for name in layouts.into_iter().chain(sharing).filter(|name| !name.is_empty()) {
                wanted.insert(Source::Map(MapRef { namespace: self.operator_namespace.clone(), name }));
            }
        }
        let foreign = self.foreign.iter().copied().filter(|f| store.definitions.contains(&f.definition()));
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
            tracing::info!(%source, "a source is no longer watched, because its kind or its reference no longer exists");
        }
        // Listed again, they come with the rest of their kind: what is known stays until then.
        for source in store.take_passed_over() {
            if let Some(task) = self.running.remove(&source) {
                task.abort();
                tracing::info!(%source, "a source is listed again, because a queue became strict");
            }
        }
        for source in wanted {
            if !self.running.contains_key(&source) {
                store.expect(source.clone());
                let task = self.start(source.clone());
                self.running.insert(source, task);
            }
        }
    }

    /// Every watch begins anew and hands on here: what those of before have
    /// said and nobody has taken in yet is of another history.
    pub fn begin_anew(&mut self, changes: mpsc::Sender<(Source, Change)>, store: &mut Store) {
        self.tasks.abort_all();
        self.running.clear();
        self.changes = changes;
        self.announce(store);
        self.adjust(store);
    }

    fn start(&mut self, source: Source) -> AbortHandle {
        let (client, all, changes) = (self.client.clone(), self.all.clone(), self.changes.clone());
        let (pauses, call_timeout, watch_time) = (self.pauses.clone(), self.call_timeout, self.watch_time);
        let out = Out { source: source.clone(), changes, pauses, call_timeout, watch_time };
        match source {
            Source::Nodes => self.tasks.spawn(follow(Api::all(client), all, out, Item::node)),
            Source::Pods => self.tasks.spawn(follow(Api::all(client), all, out, Item::bounded_pod)),
            Source::Namespaces => self.tasks.spawn(follow(Api::all(client), all, out, Item::namespace)),
            Source::PriorityClasses => {
                self.tasks.spawn(follow(Api::all(client), all, out, Item::priority_class))
            }
            Source::VolumeClaims => self.tasks.spawn(follow(Api::all(client), all, out, Item::volume_claim)),
            Source::Volumes => self.tasks.spawn(follow(Api::all(client), all, out, Item::volume)),
            Source::Definitions => {
                let item = |crd: PartialObjectMeta<CustomResourceDefinition>| {
                    Item::Definition(crd.metadata.name.unwrap_or_default())
                };
                self.tasks.spawn(follow(Api::all(client), all, out, item))
            }
            Source::Map(map) => {
                let one = Selection { fields: Some(format!("metadata.name={}", map.name)), ..all };
                let maps = Api::namespaced(client, &map.namespace);
                self.tasks.spawn(follow(maps, one, out, Item::config_map))
            }
            Source::Policies => {
                let kind = ours(api::GpuPartitionPolicy::plural(&()).as_ref(), "GpuPartitionPolicy");
                self.tasks.spawn(follow_dynamic(client, kind, all, out))
            }
            Source::GpuNodes => {
                let kind = ours(api::GpuNode::plural(&()).as_ref(), "GpuNode");
                self.tasks.spawn(follow_dynamic(client, kind, all, out))
            }
            Source::Foreign(foreign) => self.tasks.spawn(follow_foreign(client, foreign, all, out)),
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
    /// How long one watch lasts.
    watch_time: Duration,
}

impl Out {
    /// Hands a change on. `false` when nobody is there any more.
    async fn send(&self, change: Change) -> bool {
        self.changes.send((self.source.clone(), change)).await.is_ok()
    }

    async fn say(&self, change: Change) -> Result<(), Ended> {
        if self.send(change).await { Ok(()) } else { Err(Ended::NobodyListens) }
    }
}

/// How often no version of a kind was served, before it is said that none is: a CRD needs a moment until it is served.
const SURELY_UNREAD: usize = 5;

/// Which version of a foreign kind the API server serves. Asks until it knows.
async fn served(client: &Client, foreign: Foreign, out: &Out) -> ApiResource {
    let (group, kind, plural, versions) = foreign.names();
    let mut pause = Duration::from_millis(250);
    let mut in_trouble = out.pauses.clone();
    let mut unread = 0;
    loop {
        let mut are_all_answered = true;
        for version in versions {
            let group_version = format!("{group}/{version}");
            let asked = client.list_api_group_resources(&group_version);
            let listed = tokio::time::timeout(out.call_timeout, asked).await;
            are_all_answered &= match &listed {
                Ok(Err(kube::Error::Api(status))) => status.code == 404,
                Ok(answer) => answer.is_ok(),
                Err(_) => false,
            };
            let found = listed
                .is_ok_and(|list| list.is_ok_and(|list| list.resources.iter().any(|r| r.name == plural)));
            if found {
                return ApiResource::from_gvk_with_plural(
                    &GroupVersionKind::gvk(group, version, kind),
                    plural,
                );
            }
        }
        if !are_all_answered {
            let text = format!("the API server does not say which version of {plural}.{group} it serves");
            out.send(Change::Trouble(text)).await;
            unread = 0;
            // It was there before, or may be: it is looked for as often as after a watch that broke.
            tokio::time::sleep(in_trouble.next().unwrap_or(Pauses::FIRST)).await;
            continue;
        }
        let text =
            format!("no version of {plural}.{group} that can be read is served ({})", versions.join(", "));
        out.send(Change::Trouble(text)).await;
        unread += 1;
        if unread >= SURELY_UNREAD
            && let Some(served) = versions_of(client, group, out).await
        {
            out.send(Change::Unread(served)).await;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(30));
    }
}

/// The versions of a group that the API server serves; `None` where it does not say.
async fn versions_of(client: &Client, group: &str, out: &Out) -> Option<Vec<String>> {
    let listed = tokio::time::timeout(out.call_timeout, client.list_api_groups()).await.ok()?.ok()?;
    let found = listed.groups.into_iter().find(|found| found.name == group);
    let versions = found.into_iter().flat_map(|group| group.versions);
    Some(versions.map(|version| version.version).collect())
}

/// Follows a kind of others, in a version that is served: an upgrade of theirs
/// may end the one that was read so far.
async fn follow_foreign(client: Client, foreign: Foreign, all: Selection, out: Out) {
    let mut pauses = out.pauses.clone();
    loop {
        let kind = served(&client, foreign, &out).await;
        let ended = match foreign {
            // Anybody who has a namespace may make these, or have them made.
            Foreign::Notebook
            | Foreign::HardwareProfile
            | Foreign::Workload
            | Foreign::AdmissionCheck
            | Foreign::ResourceFlavor
            | Foreign::LocalQueue
            | Foreign::InferenceService
            | Foreign::LlmInferenceService => {
                let api: Api<Bounded<DynamicObject>> = Api::all_with(client.clone(), &kind);
                follow_while_served(&api, &all, &out, &Item::bounded, &mut pauses).await
            }
            Foreign::ClusterPolicy
            | Foreign::GpuCluster
            | Foreign::DscInitialization
            | Foreign::ClusterQueue => {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
                follow_while_served(&api, &all, &out, &Item::dynamic, &mut pauses).await
            }
        };
        match ended {
            Followed::NobodyListens => return,
            Followed::NotListed => {}
        }
    }
}

async fn follow_dynamic(client: Client, kind: ApiResource, all: Selection, out: Out) {
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    follow(api, all, out, Item::dynamic).await;
}

/// Follows the objects of a kind: lists everything, watches from there on, and
/// begins anew when the watch broke. Going on where it broke would say nothing
/// of what happened meanwhile to somebody who put back an older copy of etcd:
/// a watch from a version that is still to come is silent until it has come.
///
/// The library's `watcher` does the same but for two things that are needed
/// here: it does not say which version a list is of, and it goes on where a
/// watch broke (`docs/adr/0008-the-cache.md`).
async fn follow<K>(api: Api<K>, params: Selection, out: Out, item: impl Fn(K) -> Item)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut pauses = out.pauses.clone();
    // Of a kind that has one version only, it may be served again.
    while let Followed::NotListed = follow_while_served(&api, &params, &out, &item, &mut pauses).await {}
}

/// Why a kind is not followed any more.
enum Followed {
    /// The operator is gone.
    NobodyListens,
    /// The API server does not list the kind in this version: it does not know it, or has an error for an answer.
    NotListed,
}

/// The same, until the API server does not list the kind in this version any
/// more. Returns after a pause.
async fn follow_while_served<K>(
    api: &Api<K>,
    params: &Selection,
    out: &Out,
    item: &impl Fn(K) -> Item,
    pauses: &mut Pauses,
) -> Followed
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    loop {
        let ended = match list(api, params, out, item).await {
            Ok(version) => watch(api, params, out, item, pauses, version).await,
            Err(ended) => ended,
        };
        let (text, is_listed) = match ended {
            Ended::NobodyListens => return Followed::NobodyListens,
            Ended::NotListed(text) => (text, false),
            Ended::Broke(text) => (text, true),
        };
        if !out.send(Change::Trouble(text)).await {
            return Followed::NobodyListens;
        }
        tokio::time::sleep(pauses.next().unwrap_or(Pauses::FIRST)).await;
        if !is_listed {
            return Followed::NotListed;
        }
    }
}

/// Why a list or a watch came to its end.
enum Ended {
    /// The operator is gone.
    NobodyListens,
    /// The API server does not know the kind, or not in this version, or cannot convert its objects to it.
    NotListed(String),
    /// It did not get through.
    Broke(String),
}

impl Ended {
    fn by(doing: &str, error: &kube::Error) -> Self {
        let text = format!("{doing}: {}", chain(error));
        match error {
            kube::Error::Api(status) if [404, 500].contains(&status.code) => Self::NotListed(text),
            _ => Self::Broke(text),
        }
    }
}

/// Which objects of a kind are followed.
#[derive(Clone, Debug, Default)]
struct Selection {
    fields: Option<String>,
    /// How many a page of a list has.
    page: u32,
}

/// Lists everything, page by page; each has to come in time. Returns the
/// version that the list is of.
async fn list<K>(
    api: &Api<K>,
    selection: &Selection,
    out: &Out,
    item: &impl Fn(K) -> Item,
) -> Result<String, Ended>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams { field_selector: selection.fields.clone(), ..ListParams::default() };
    params.limit = Some(selection.page);
    let mut version = None;
    loop {
        let page = match tokio::time::timeout(out.call_timeout, api.list(&params)).await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => return Err(Ended::by("failed to list", &error)),
            Err(_) => {
                return Err(Ended::Broke(format!("no answer to a list within {:?}", out.call_timeout)));
            }
        };
        // Every page is of the version of the first.
        if version.is_none() {
            let of = page.metadata.resource_version.filter(|version| !version.is_empty());
            let Some(of) = of else {
                return Err(Ended::Broke("a list says no version".to_owned()));
            };
            out.say(Change::Begin(of.parse().ok())).await?;
            version = Some(of);
        }
        for object in page.items {
            out.say(Change::Put(item(object))).await?;
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if let (None, Some(version)) = (&params.continue_token, &version) {
            out.say(Change::End).await?;
            return Ok(version.clone());
        }
    }
}

/// Watches from a version on until the watch breaks. One that the API server
/// ends when its time is up goes on; one that ends before broke.
async fn watch<K>(
    api: &Api<K>,
    selection: &Selection,
    out: &Out,
    item: &impl Fn(K) -> Item,
    pauses: &mut Pauses,
    mut version: String,
) -> Ended
where
    K: Resource + Clone + DeserializeOwned + Debug + 'static,
{
    let params = WatchParams {
        field_selector: selection.fields.clone(),
        timeout: u32::try_from(out.watch_time.as_secs()).ok(),
        ..WatchParams::default()
    };
    let silence = out.watch_time + LATE;
    let its_time = out.watch_time - out.watch_time / EARLY;
    loop {
        let began = clock::instant();
        let events = match tokio::time::timeout(out.call_timeout, api.watch(&params, &version)).await {
            Ok(Ok(events)) => events,
            Ok(Err(error)) => return Ended::by("failed to watch", &error),
            Err(_) => return Ended::Broke(format!("no watch began within {:?}", out.call_timeout)),
        };
        let mut events = std::pin::pin!(events);
        loop {
            let Ok(told) = tokio::time::timeout(silence, events.next()).await else {
                return Ended::Broke(format!("a watch said nothing for {silence:?}"));
            };
            let change = match told {
                None if clock::instant().duration_since(began) >= its_time => break,
                None => return Ended::Broke("a watch ended before its time".to_owned()),
                Some(Err(error)) => return Ended::by("a watch broke", &error),
                Some(Ok(WatchEvent::Error(status))) => {
                    let status = *status;
                    return Ended::Broke(format!("a watch broke: {} ({})", status.message, status.code));
                }
                Some(Ok(WatchEvent::Bookmark(mark))) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    later(&mut version, &object);
                    Change::Put(item(object))
                }
                Some(Ok(WatchEvent::Deleted(object))) => {
                    later(&mut version, &object);
                    Change::Gone(item(object))
                }
            };
            // Not the list: where every watch breaks at once, it would be asked for without a pause.
            pauses.reset();
            if let Err(ended) = out.say(change).await {
                return ended;
            }
        }
    }
}

/// The version from which a watch goes on.
fn later<K: Resource>(version: &mut String, object: &K) {
    if let Some(new) = &object.meta().resource_version {
        version.clone_from(new);
    }
}

#[cfg(test)]
mod tests;
