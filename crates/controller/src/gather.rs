//! Reads everything that the operator would see once, for a recording of the fleet. It reads the same
//! kinds, trims them in the same way and puts them into the same [`Store`], so that a plan from the
//! recording is the operator's plan. Nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::gvk::GroupVersionKind;
use observe::Objects;

use crate::calls::{CallError, Calls};
use crate::operator::owners::{self, Owners};
use crate::own_rights::is_allowed;
use crate::rbac::{Right, SNAPSHOT, Scope};
use crate::settings::MapRef;
use crate::store::{Change, Foreign, Item, Source, Store, take_outdated, trim};
use crate::watch::ours;

/// What is asked of the cluster beside everything.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The namespace of the GPU Operator, as the operator's flag says it.
    pub gpu_operator_namespace: String,
    /// The name of our map.
    pub map_name: String,
    /// The administrators' own map.
    pub administrators_map: Option<MapRef>,
    /// The number of objects in one page of a list.
    pub page_size: u32,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The objects, trimmed to what is planned with.
    pub objects: Objects,
    /// The version of the API server, if it says so.
    pub server_version: Option<String>,
    /// Kinds that the cluster does not have.
    pub absent: Vec<String>,
    /// Objects that could not be read, each with the reason.
    pub unreadable: Vec<(String, String)>,
}

/// The fleet could not be read.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// Rights are missing; all of them.
    #[error("these rights are missing: {}", .0.join(", "))]
    Forbidden(Vec<String>),
    /// The API server gives no usable answer.
    #[error("failed to read the cluster")]
    Call(#[from] CallError),
}

/// Who asks which rights there are; nothing is stored of it.
const ASKER: &str = "slicewright-snapshot";
/// How many owners are asked for at the same time.
const AT_ONCE: usize = 8;

/// Reads the fleet.
///
/// # Errors
/// When rights are missing (nothing was read then), or an answer.
pub async fn gather(calls: &Calls, ask: &Ask) -> Result<Gathered, GatherError> {
    let mut reading =
        Reading { calls, ask, store: Store::default(), absent: Vec::new(), denied: BTreeSet::new() };
    let version = calls.ask("the version", calls.client().apiserver_version()).await;
    reading.read().await?;
    if reading.denied.is_empty() {
        reading.owners().await?;
    }
    let Reading { store, mut absent, mut denied, .. } = reading;
    if !denied.is_empty() {
        // What comes later is not known to be needed yet: ask, so that nobody
        // has to run this once for each right.
        denied.extend(missing(calls, ask, &absent).await);
        return Err(GatherError::Forbidden(denied.into_iter().collect()));
    }
    let Store { mut objects, unreadable, .. } = store;
    take_outdated(&mut objects);
    absent.sort();
    Ok(Gathered {
        objects: recorded(objects),
        server_version: version.ok().map(|info| info.git_version),
        absent,
        unreadable: unreadable
            .into_iter()
            .map(|((source, (namespace, name)), why)| {
                let of = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
                (format!("{source} {of}{name}"), why)
            })
            .collect(),
    })
}

struct Reading<'a> {
    calls: &'a Calls,
    ask: &'a Ask,
    store: Store,
    absent: Vec<String>,
    denied: BTreeSet<String>,
}

impl Reading<'_> {
    /// In the operator's order: nodes after what is remembered of them, pods
    /// after nodes, since which pods are kept depends on which nodes have GPUs.
    async fn read(&mut self) -> Result<(), GatherError> {
        for (source, kind) in [
            (Source::GpuNodes, ours(&api::GpuNode::plural(&()), "GpuNode")),
            (Source::Policies, ours(&api::GpuPartitionPolicy::plural(&()), "GpuPartitionPolicy")),
        ] {
            let versions = self.served(&kind.group, &[api::VERSION]).await?;
            let found = versions.get(api::VERSION).is_some_and(|plurals| plurals.contains(&kind.plural));
            if found {
                self.dynamic(source, kind).await?;
            } else {
                self.absent.push(format!("{}.{}", kind.plural, kind.group));
            }
        }
        self.all("nodes", Source::Nodes, Item::node).await?;
        self.pods().await?;
        self.all("priorityclasses.scheduling.k8s.io", Source::PriorityClasses, Item::priority_class).await?;
        self.all("persistentvolumeclaims", Source::VolumeClaims, Item::volume_claim).await?;
        self.all("persistentvolumes", Source::Volumes, Item::volume).await?;
        let api = Api::all(self.calls.client());
        let params = ListParams::default();
        let listed = self.calls.list_metadata_pages(&api, "namespaces", &params, self.ask.page_size).await;
        let listed = self.allowed("list namespaces", listed)?;
        self.take(Source::Namespaces, listed.into_iter().map(Item::namespace));
        // Model servers keep a hardware profile from being deleted, as workbenches do.
        let servers = [Foreign::InferenceService, Foreign::LlmInferenceService];
        for foreign in Foreign::ALWAYS.into_iter().chain(Foreign::QUEUES).chain(servers) {
            let (group, kind, plural, versions) = foreign.names();
            let served = self.served(group, versions).await?;
            let version = versions.iter().find(|v| served.get(**v).is_some_and(|all| all.contains(plural)));
            if let Some(version) = version {
                let kind = GroupVersionKind::gvk(group, version, kind);
                let kind = ApiResource::from_gvk_with_plural(&kind, plural);
                self.dynamic(Source::Foreign(foreign), kind).await?;
            } else {
                self.absent.push(format!("{plural}.{group}"));
            }
        }
        self.maps().await
    }

    /// The operator adds up pods that only take room. A recording has each: a
    /// sum is no object.
    async fn pods(&mut self) -> Result<(), GatherError> {
        let api: Api<Pod> = Api::all(self.calls.client());
        let listed = self.calls.list_pages(&api, "pods", &ListParams::default(), self.ask.page_size).await;
        let listed: Vec<Pod> = self.allowed("list pods", listed)?.into_iter().map(trim::pod).collect();
        let plain: Vec<Pod> = listed.iter().filter(|pod| trim::only_takes_room(pod)).cloned().collect();
        self.take(Source::Pods, listed.into_iter().map(|pod| Item::Pod(Box::new(pod))));
        let objects = &mut self.store.objects;
        objects.room_taken.clear();
        for pod in plain {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
            if objects.nodes.contains_key(node) {
                let meta = &pod.metadata;
                let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
                objects.pods.insert(key, Arc::new(pod));
            }
        }
        Ok(())
    }

    /// Whatever the operator reads of the maps of layouts.
    async fn maps(&mut self) -> Result<(), GatherError> {
        let Ask { gpu_operator_namespace: here, map_name, administrators_map, .. } = self.ask;
        let ours = [rollout::names::DEFAULT_MAP, rollout::names::PLUGIN_MAP_NAME].map(str::to_owned);
        let mut names = vec![map_name.clone()];
        names.extend(ours);
        let policies = self.store.objects.cluster_policies.values();
        names.extend(policies.filter_map(|policy| {
            let config = policy.spec.mig_manager.config.as_ref()?;
            (!config.name.is_empty()).then(|| config.name.clone())
        }));
        let mut maps: BTreeSet<MapRef> =
            names.into_iter().map(|name| MapRef { namespace: here.clone(), name }).collect();
        maps.extend(administrators_map.clone());
        for map in maps {
            let api = Api::namespaced(self.calls.client(), &map.namespace);
            let params = ListParams::default().fields(&format!("metadata.name={}", map.name));
            let title = format!("configmap {}/{}", map.namespace, map.name);
            let listed = self.calls.list_pages(&api, &title, &params, self.ask.page_size).await;
            let right = format!("list configmaps in namespace {}", map.namespace);
            let listed = self.allowed(&right, listed)?;
            self.take(Source::Map(map), listed.into_iter().map(Item::config_map));
        }
        Ok(())
    }

    /// The kinds that the API server serves in the versions that we can read.
    async fn served(
        &self,
        group: &str,
        versions: &[&'static str],
    ) -> Result<BTreeMap<&'static str, BTreeSet<String>>, CallError> {
        let client = self.calls.client();
        let mut served = BTreeMap::new();
        for version in versions {
            let of = format!("{group}/{version}");
            match self.calls.ask(&format!("the kinds of {of}"), client.list_api_group_resources(&of)).await {
                Ok(list) => {
                    served.insert(*version, list.resources.into_iter().map(|kind| kind.name).collect());
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(served)
    }

    async fn all<K>(
        &mut self,
        title: &str,
        source: Source,
        item: impl Fn(K) -> Item,
    ) -> Result<(), GatherError>
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.calls.client());
        let listed = self.calls.list_pages(&api, title, &ListParams::default(), self.ask.page_size).await;
        let listed = self.allowed(&format!("list {title}"), listed)?;
        self.take(source, listed.into_iter().map(item));
        Ok(())
    }

    async fn dynamic(&mut self, source: Source, kind: ApiResource) -> Result<(), GatherError> {
        let title = format!("{}.{}", kind.plural, kind.group);
        let api: Api<DynamicObject> = Api::all_with(self.calls.client(), &kind);
        let listed = self.calls.list_pages(&api, &title, &ListParams::default(), self.ask.page_size).await;
        let listed = self.allowed(&format!("list {title}"), listed)?;
        self.take(source, listed.into_iter().map(Item::dynamic));
        Ok(())
    }

    /// Notes a missing right, and goes on.
    fn allowed<T>(&mut self, right: &str, listed: Result<Vec<T>, CallError>) -> Result<Vec<T>, CallError> {
        match listed {
            Err(error) if error.is_forbidden() => {
                self.denied.insert(right.to_owned());
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    fn take(&mut self, source: Source, items: impl Iterator<Item = Item>) {
        self.store.expect(source.clone());
        self.store.take(&source, Change::Begin(None));
        for item in items {
            self.store.take(&source, Change::Put(item));
        }
        self.store.take(&source, Change::End);
    }

    /// Who stands behind the controllers of pods.
    async fn owners(&mut self) -> Result<(), GatherError> {
        let mut known = Owners::default();
        let calls = Arc::new(self.calls.clone());
        loop {
            let unknown = known.unknown(&self.store.objects);
            if unknown.is_empty() {
                break;
            }
            let asked = unknown.into_iter().map(|question| owners::ask(Arc::clone(&calls), question));
            let found: Vec<_> = futures::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
            for (question, found) in found {
                let found = self.allowed(&question.right(), found.map(|found| vec![found]))?;
                known.learn(question.named, found.into_iter().next().unwrap_or_default());
            }
        }
        known.tell(&mut self.store.objects, Vec::new());
        Ok(())
    }
}

/// What is planned with of kinds that the operator keeps whole: the
/// environment of a workbench is nobody's business, nor is what people or
/// their tools noted on a policy.
fn recorded(mut objects: Objects) -> Objects {
    for notebook in objects.notebooks.values_mut() {
        *notebook = Arc::new(trim::notebook(Arc::unwrap_or_clone(std::mem::take(notebook))));
    }
    for profile in objects.hardware_profiles.values_mut() {
        *profile = trim::hardware_profile(std::mem::take(profile));
    }
    for policy in objects.policies.values_mut() {
        policy.metadata.annotations = None;
    }
    objects
}

/// A right in words, such as `list pods` or `list configmaps in namespace x`.
fn words(right: &Right, verb: &str, ask: &Ask) -> String {
    let group = if right.group.is_empty() { "" } else { "." };
    let within = match right.scope {
        Scope::GpuOperator => format!(" in namespace {}", ask.gpu_operator_namespace),
        Scope::Cluster | Scope::Own | Scope::OpenShiftAi => String::new(),
    };
    format!("{verb} {}{group}{}{within}", right.resource, right.group)
}

/// Every right that we lack, as the API server tells it. What it does not tell
/// is not known to be missing. Of groups that it does not serve, nothing is needed.
async fn missing(calls: &Calls, ask: &Ask, absent: &[String]) -> Vec<String> {
    let mut missing = Vec::new();
    let groups = calls.ask("the groups of the API", calls.client().list_api_groups()).await;
    let groups: Option<BTreeSet<String>> =
        groups.ok().map(|list| list.groups.into_iter().map(|group| group.name).collect());
    let is_served = |right: &&Right| {
        right.group.is_empty() || groups.as_ref().is_none_or(|groups| groups.contains(right.group))
    };
    let needed = SNAPSHOT.iter().filter(|r| !absent.contains(&format!("{}.{}", r.resource, r.group)));
    let needed = needed.filter(is_served);
    for (right, (verb, _)) in needed.flat_map(|right| right.verbs.iter().map(move |verb| (right, verb))) {
        let namespace = (right.scope == Scope::GpuOperator).then(|| ask.gpu_operator_namespace.clone());
        let attributes = ResourceAttributes {
            group: Some(right.group.to_owned()),
            resource: Some(right.resource.to_owned()),
            verb: Some((*verb).to_owned()),
            namespace,
            ..ResourceAttributes::default()
        };
        let denied = is_allowed(calls, ASKER, attributes).await == Some(false);
        if denied {
            missing.push(words(right, verb, ask));
        }
    }
    missing
}
