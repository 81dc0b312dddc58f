//! The objects as the watches show them, and the state of the watches. One task owns the store and feeds it
//! in order; no other task sees it change.
//!
//! [`history`] decides which of two messages is the later one, and notices that the API's data went back in
//! time.

pub mod awaited;
pub mod bounds;
mod dynamic;
pub mod history;
mod item;
mod pod_sums;
mod pool;
mod shared_labels;
mod source;
mod templates;
pub mod trim;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::foreign::workload::Admission;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeSelectorTerm, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use observe::Objects;
use observe::objects::Key;

use awaited::{Awaited, Subject};
use history::{AsOf, WentBack, number};
pub use item::Item;
use item::identity;
pub use source::{Foreign, Source};

/// What a watch has to say.
#[derive(Clone, Debug)]
pub enum Change {
    /// It begins to list everything anew, as of this version.
    Begin(Option<u64>),
    /// The object is so.
    Put(Item),
    /// The object is gone.
    Gone(Item),
    /// Everything has been listed.
    End,
    /// It does not get through, and tries again.
    Trouble(String),
    /// The kind is served, and in no version that is read here; in which it is.
    Unread(Vec<String>),
}

/// How one watch stands.
#[derive(Clone, Debug, Default)]
struct Watch {
    synced: bool,
    listed: Option<history::Listed>,
    trouble: Option<String>,
    /// The highest version that it told of itself: a message or a list.
    heard: u64,
    /// The highest version of a consistent read of what it watches.
    read: u64,
}

/// The objects, and how the watches stand.
#[derive(Debug, Default)]
pub struct Store {
    /// What `observe` looks at.
    pub objects: Objects,
    /// What cannot be read, by source and key.
    pub unreadable: BTreeMap<(Source, Key), String>,
    /// CRDs that exist.
    pub definitions: BTreeSet<String>,
    /// `GPUCluster`s that exist; of them nothing else is read.
    gpu_clusters: BTreeSet<Key>,
    /// Nodes whose pods must be listed before they are shown to anybody: they
    /// turned out to have GPUs after their pods were passed over.
    waiting: BTreeMap<String, Arc<Node>>,
    /// Pods that only take room.
    pod_sums: pod_sums::PodSums,
    /// Labels of nodes that nobody reads; none are laid aside where all are
    /// wanted, as for a recording.
    shared_labels: Option<shared_labels::SharedLabels>,
    /// What workbenches and workloads ask for.
    templates: templates::Templates,
    /// The quota that workloads have.
    admissions: pool::Pool<Admission>,
    /// What the pods and workbenches of each namespace cost.
    costs: bounds::Costs,
    watches: BTreeMap<Source, Watch>,
    /// What has to be listed again, since objects of it were passed over that count now.
    passed_over: BTreeSet<Source>,
    awaited: Awaited,
    /// How it was noticed that the API's data went back in time.
    went_back: Option<WentBack>,
}

/// Whether `new` is older than `old`. Versions that are no numbers are
/// believed as they come.
fn is_older(new: Option<&str>, old: Option<&str>) -> bool {
    match (number(new), number(old)) {
        (Some(new), Some(old)) => new < old,
        _ => false,
    }
}

/// Takes out what was remembered of nodes that are gone, while others have
/// their names.
pub fn take_outdated(objects: &mut Objects) -> Vec<Arc<api::GpuNode>> {
    let Objects { nodes, gpu_nodes, .. } = objects;
    let mut outdated = Vec::new();
    gpu_nodes.retain(|name, gpu_node| {
        let Some(node) = nodes.get(name) else { return true };
        let owner = gpu_node.metadata.owner_references.iter().flatten().find(|o| o.kind == "Node");
        let same = owner.is_none_or(|owner| Some(&owner.uid) == node.metadata.uid.as_ref());
        if !same {
            outdated.push(Arc::clone(gpu_node));
        }
        same
    });
    outdated
}

fn key(meta: &ObjectMeta) -> Key {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

impl Store {
    /// A watch was started: nothing is complete before it has listed.
    pub fn expect(&mut self, source: Source) {
        self.watches.entry(source).or_default();
    }

    /// What has to be listed again, which is what its caller does.
    pub fn take_passed_over(&mut self) -> BTreeSet<Source> {
        std::mem::take(&mut self.passed_over)
    }

    /// A watch was stopped, since its kind is gone: so are its objects.
    pub fn forget(&mut self, source: &Source) {
        self.watches.remove(source);
        self.unreadable.retain(|(of, _), _| of != source);
        for key in self.keys(source) {
            self.remove(source, &key);
        }
        if let Source::Foreign(foreign) = source {
            self.objects.unread_queues.remove(&foreign.definition());
        }
    }

    /// A kind of Kueue cannot be read any more: what was known of it may have ended since, and is forgotten. The kinds of
    /// others are waited for.
    fn is_unread(&mut self, source: &Source, served: Vec<String>) -> bool {
        let Source::Foreign(foreign) = source else { return false };
        if !foreign.is_of_queues() {
            return false;
        }
        for key in self.keys(source) {
            self.remove(source, &key);
        }
        self.objects.unread_queues.insert(foreign.definition(), served.clone()) != Some(served)
    }

    /// What is not complete yet, with the trouble of each.
    #[must_use]
    pub fn incomplete(&self) -> Vec<(Source, Option<String>)> {
        let is_unread = |source: &Source| match source {
            Source::Foreign(foreign) => self.objects.unread_queues.contains_key(&foreign.definition()),
            _ => false,
        };
        let watches = self.watches.iter().filter(|(source, watch)| !watch.synced && !is_unread(source));
        watches.map(|(source, watch)| (source.clone(), watch.trouble.clone())).collect()
    }

    /// Whether a watch has listed everything once.
    #[must_use]
    pub fn is_synced(&self, source: &Source) -> bool {
        self.watches.get(source).is_some_and(|watch| watch.synced)
    }

    /// Whether what a watch shows is of now: it has listed everything and has not broken since, or there is no such kind.
    #[must_use]
    pub fn is_current(&self, source: &Source) -> bool {
        self.watches.get(source).is_none_or(|watch| watch.synced && watch.trouble.is_none())
    }

    /// Nodes whose pods have to be listed.
    #[must_use]
    pub fn to_list(&self) -> Vec<String> {
        self.waiting.keys().cloned().collect()
    }

    /// How many pods are kept, those that only take room included.
    #[must_use]
    pub fn pods_kept(&self) -> usize {
        self.objects.pods.len() + self.pod_sums.len()
    }

    /// What was written, and is not seen yet.
    pub const fn awaited(&mut self) -> &mut Awaited {
        &mut self.awaited
    }

    /// Takes one change in. Says whether anything that matters changed.
    pub fn take(&mut self, source: &Source, change: Change) -> bool {
        // A message of a watch that was stopped.
        if !self.watches.contains_key(source) {
            return false;
        }
        match change {
            Change::Begin(version) => self.begin(source, version),
            Change::Put(item) => {
                let watch = self.watch(source);
                watch.trouble = None;
                let as_of = match &mut watch.listed {
                    None => AsOf::Message,
                    Some(listed) => {
                        listed.keys.insert(identity(&item).0);
                        AsOf::Read(listed.version)
                    }
                };
                self.put(source, item, as_of)
            }
            Change::Gone(item) => {
                let (key, version) = identity(&item);
                if is_older(version.as_deref(), self.version(source, &key).as_deref()) {
                    return false;
                }
                self.heard(source, number(version.as_deref()));
                self.awaited.is_deleted(source, &key, version.as_deref());
                self.remove(source, &key)
            }
            Change::End => self.end(source),
            Change::Unread(served) => self.is_unread(source, served),
            Change::Trouble(text) => {
                let watch = self.watch(source);
                watch.trouble = Some(text);
                // Nobody is found to be late by what was seen before.
                if source.is_judged_by() {
                    watch.synced = false;
                }
                false
            }
        }
    }

    fn watch(&mut self, source: &Source) -> &mut Watch {
        self.watches.entry(source.clone()).or_default()
    }

    fn put(&mut self, source: &Source, item: Item, as_of: AsOf) -> bool {
        let (key, version) = identity(&item);
        if self.is_outdated(source, &key, number(version.as_deref()), as_of) {
            return false;
        }
        self.awaited.is_seen(source, &key, version.as_deref());
        match item {
            Item::Node(node) => self.put_node(key.1, *node),
            Item::Pod(pod) => self.put_pod(key, *pod),
            Item::Namespace(meta) => {
                let labels = |ns: &Namespace| ns.metadata.labels.clone();
                let new = Namespace { metadata: *meta, ..Namespace::default() };
                let same = self.objects.namespaces.get(&key.1).map(labels) == Some(labels(&new));
                self.objects.namespaces.insert(key.1, new);
                !same
            }
            Item::PriorityClass(class) => {
                let new = (*class).clone();
                self.objects.priority_classes.insert(key.1, *class) != Some(new)
            }
            Item::ConfigMap(map) => {
                let new = (*map).clone();
                self.objects.config_maps.insert(key, *map) != Some(new)
            }
            Item::VolumeClaim { key, volume, version: _ } => {
                let claims = &mut self.objects.volumes.claims;
                match volume {
                    Some(volume) => claims.insert(key, volume.clone()) != Some(volume),
                    None => claims.remove(&key).is_some(),
                }
            }
            Item::Volume { name, nodes, version: _ } => self.put_volume(name, nodes),
            Item::Definition(name) => self.definitions.insert(name),
            Item::Dynamic(object) => self.put_dynamic(source, key, *object),
        }
    }

    fn put_node(&mut self, name: String, mut node: Node) -> bool {
        let known = self.objects.nodes.contains_key(&name);
        let remembered = self.objects.gpu_nodes.contains_key(&name);
        if !known && !remembered && !trim::may_have_gpus(&node) {
            self.waiting.remove(&name);
            return false;
        }
        if let Some(shared_labels) = &mut self.shared_labels {
            shared_labels.lay(&name, &mut node);
        }
        let node = Arc::new(node);
        if known {
            let before = self.objects.nodes.insert(name.clone(), node);
            let same = |a: &Node, b: &Node| {
                a.metadata.labels == b.metadata.labels
                    && a.metadata.annotations == b.metadata.annotations
                    && a.spec == b.spec
                    && a.status == b.status
            };
            let after = &self.objects.nodes[&name];
            // A heartbeat moves the version and nothing else.
            return !before.is_some_and(|before| same(&before, after));
        }
        if self.watches.get(&Source::Pods).is_some_and(|watch| watch.synced || watch.listed.is_some()) {
            // Its pods were passed over while nobody knew of its GPUs.
            self.waiting.insert(name, node);
            return false;
        }
        self.objects.nodes.insert(name, node);
        true
    }

    fn put_volume(&mut self, name: String, nodes: Option<Vec<NodeSelectorTerm>>) -> bool {
        let Some(nodes) = nodes else { return self.objects.volumes.places.remove(&name).is_some() };
        self.name_labels(|| shared_labels::of_terms(&nodes));
        let new = nodes.clone();
        self.objects.volumes.places.insert(name, nodes) != Some(new)
    }

    fn put_pod(&mut self, key: Key, mut pod: Pod) -> bool {
        let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let kept = trim::concerns_gpus(&pod)
            || on
                .is_some_and(|node| self.objects.nodes.contains_key(node) || self.waiting.contains_key(node));
        if !kept {
            return self.remove(&Source::Pods, &key);
        }
        if trim::only_takes_room(&pod) {
            // It was waited for only while it was more than that.
            let was_more = !self.pod_sums.contains(&key) && self.remove(&Source::Pods, &key);
            return self.pod_sums.put(&key, &pod, &mut self.objects.room_taken) | was_more;
        }
        self.pod_sums.remove(&key, &mut self.objects.room_taken);
        let going = pod.metadata.deletion_timestamp.is_some();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.awaited.is_going(&key, &uid, going);
        let before = self.cost_of(&Source::Pods, &key);
        if let Some(spec) = pod.spec.as_mut() {
            self.costs.add(&key.0, before, spec);
        }
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
            self.name_labels(|| shared_labels::of_pod(&pod));
        }
        let before = self.objects.pods.insert(key.clone(), Arc::new(pod));
        let after = &self.objects.pods[&key];
        before.is_none_or(|before| {
            before.metadata.uid != after.metadata.uid
                || before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
                || before.metadata.labels != after.metadata.labels
                || before.spec != after.spec
                || before.status != after.status
        })
    }

    /// The node that something awaited is about.
    #[must_use]
    pub fn node_of(&self, subject: &Subject) -> Option<String> {
        match subject {
            Subject::Version { source: Source::Nodes, key: (_, name), version: _ } => Some(name.clone()),
            Subject::Version { .. } => None,
            Subject::Going { key, uid: _ } => self.objects.pods.get(key)?.spec.as_ref()?.node_name.clone(),
        }
    }

    /// What is known of a watch: also what cannot be read, which ends like everything else.
    fn keys(&self, source: &Source) -> Vec<Key> {
        let unreadable = self.unreadable.keys().filter(|(of, _)| of == source);
        let mut keys = self.read_keys(source);
        keys.extend(unreadable.map(|(_, key)| key.clone()));
        keys
    }

    fn read_keys(&self, source: &Source) -> Vec<Key> {
        let cluster = |name: &String| (String::new(), name.clone());
        let objects = &self.objects;
        match source {
            Source::Nodes => objects.nodes.keys().chain(self.waiting.keys()).map(cluster).collect(),
            Source::Pods => objects.pods.keys().cloned().chain(self.pod_sums.keys()).collect(),
            Source::Namespaces => objects.namespaces.keys().map(cluster).collect(),
            Source::PriorityClasses => objects.priority_classes.keys().map(cluster).collect(),
            Source::Policies => objects.policies.keys().map(cluster).collect(),
            Source::GpuNodes => objects.gpu_nodes.keys().map(cluster).collect(),
            Source::Definitions => self.definitions.iter().map(cluster).collect(),
            Source::VolumeClaims => objects.volumes.claims.keys().cloned().collect(),
            Source::Volumes => objects.volumes.places.keys().map(cluster).collect(),
            Source::Map(map) => {
                let key = (map.namespace.clone(), map.name.clone());
                objects.config_maps.contains_key(&key).then_some(key).into_iter().collect()
            }
            Source::Foreign(Foreign::ClusterPolicy) => objects.cluster_policies.keys().map(cluster).collect(),
            Source::Foreign(Foreign::GpuCluster) => self.gpu_clusters.iter().cloned().collect(),
            Source::Foreign(Foreign::Notebook) => objects.notebooks.keys().cloned().collect(),
            Source::Foreign(Foreign::HardwareProfile) => objects.hardware_profiles.keys().cloned().collect(),
            Source::Foreign(Foreign::Workload) => objects.workloads.keys().cloned().collect(),
            Source::Foreign(Foreign::DscInitialization) => {
                objects.installations.keys().map(cluster).collect()
            }
            Source::Foreign(foreign @ (Foreign::InferenceService | Foreign::LlmInferenceService)) => {
                let of_kind = objects.model_servers.keys().filter(|(kind, _)| kind == foreign.names().1);
                of_kind.map(|(_, key)| key.clone()).collect()
            }
            Source::Foreign(Foreign::AdmissionCheck) => {
                objects.admission_checks.keys().map(cluster).collect()
            }
            Source::Foreign(Foreign::ResourceFlavor) => {
                objects.resource_flavors.keys().map(cluster).collect()
            }
            Source::Foreign(Foreign::ClusterQueue) => objects.cluster_queues.keys().map(cluster).collect(),
            Source::Foreign(Foreign::LocalQueue) => objects.local_queues.keys().cloned().collect(),
        }
    }

    /// The version of an object that is known.
    #[must_use]
    pub fn version(&self, source: &Source, key: &Key) -> Option<String> {
        let objects = &self.objects;
        if *source == Source::Pods && self.pod_sums.contains(key) {
            return self.pod_sums.version(key);
        }
        let meta = match source {
            Source::Nodes => &objects.nodes.get(&key.1).or_else(|| self.waiting.get(&key.1))?.metadata,
            Source::Pods => &objects.pods.get(key)?.metadata,
            Source::Namespaces => &objects.namespaces.get(&key.1)?.metadata,
            Source::PriorityClasses => &objects.priority_classes.get(&key.1)?.metadata,
            Source::Policies => &objects.policies.get(&key.1)?.metadata,
            Source::GpuNodes => &objects.gpu_nodes.get(&key.1)?.metadata,
            Source::Map(_) => &objects.config_maps.get(key)?.metadata,
            Source::Foreign(Foreign::ClusterPolicy) => &objects.cluster_policies.get(&key.1)?.metadata,
            Source::Foreign(Foreign::Notebook) => {
                return objects.notebooks.get(key)?.metadata.resource_version.clone();
            }
            Source::Foreign(Foreign::HardwareProfile) => &objects.hardware_profiles.get(key)?.metadata,
            Source::Foreign(Foreign::DscInitialization) => &objects.installations.get(&key.1)?.metadata,
            Source::Foreign(foreign @ (Foreign::InferenceService | Foreign::LlmInferenceService)) => {
                let at = (foreign.names().1.to_owned(), key.clone());
                return objects.model_servers.get(&at)?.metadata.resource_version.clone();
            }
            Source::Foreign(Foreign::Workload) => {
                return objects.workloads.get(key)?.metadata.resource_version.clone();
            }
            Source::Foreign(Foreign::AdmissionCheck) => &objects.admission_checks.get(&key.1)?.metadata,
            Source::Foreign(Foreign::ResourceFlavor) => &objects.resource_flavors.get(&key.1)?.metadata,
            Source::Foreign(Foreign::ClusterQueue) => &objects.cluster_queues.get(&key.1)?.metadata,
            Source::Foreign(Foreign::LocalQueue) => &objects.local_queues.get(key)?.metadata,
            // Of these too little is kept for a version.
            Source::Definitions
            | Source::VolumeClaims
            | Source::Volumes
            | Source::Foreign(Foreign::GpuCluster) => return None,
        };
        meta.resource_version.clone()
    }

    fn remove(&mut self, source: &Source, key: &Key) -> bool {
        let cost = self.cost_of(source, key);
        self.costs.remove(&key.0, cost);
        let (objects, name) = (&mut self.objects, &key.1);
        self.unreadable.remove(&(source.clone(), key.clone()));
        if let Source::Foreign(foreign) = source {
            let of = (foreign.names().1.to_owned(), key.clone());
            objects.owners.remove(&of.0, key);
            objects.unread_users.remove(&of);
        }
        match source {
            Source::Nodes => {
                self.waiting.remove(name);
                if let Some(shared_labels) = &mut self.shared_labels {
                    shared_labels.forget(name);
                }
                objects.nodes.remove(name).is_some()
            }
            Source::Pods => {
                objects.owners.remove("Pod", key);
                objects.pods.remove(key).is_some() | self.pod_sums.remove(key, &mut objects.room_taken)
            }
            Source::Namespaces => objects.namespaces.remove(name).is_some(),
            Source::PriorityClasses => objects.priority_classes.remove(name).is_some(),
            Source::Policies => objects.policies.remove(name).is_some(),
            Source::GpuNodes => objects.gpu_nodes.remove(name).is_some(),
            Source::Definitions => self.definitions.remove(name),
            Source::VolumeClaims => objects.volumes.claims.remove(key).is_some(),
            Source::Volumes => objects.volumes.places.remove(name).is_some(),
            Source::Map(_) => objects.config_maps.remove(key).is_some(),
            Source::Foreign(Foreign::ClusterPolicy) => objects.cluster_policies.remove(name).is_some(),
            Source::Foreign(Foreign::GpuCluster) => {
                let was_there = self.gpu_clusters.remove(key);
                objects.gpu_cluster = !self.gpu_clusters.is_empty();
                was_there
            }
            Source::Foreign(Foreign::Notebook) => objects.notebooks.remove(key).is_some(),
            Source::Foreign(Foreign::HardwareProfile) => objects.hardware_profiles.remove(key).is_some(),
            Source::Foreign(Foreign::DscInitialization) => objects.installations.remove(name).is_some(),
            Source::Foreign(foreign @ (Foreign::InferenceService | Foreign::LlmInferenceService)) => {
                objects.model_servers.remove(&(foreign.names().1.to_owned(), key.clone())).is_some()
            }
            Source::Foreign(Foreign::Workload) => objects.workloads.remove(key).is_some(),
            Source::Foreign(Foreign::AdmissionCheck) => objects.admission_checks.remove(name).is_some(),
            Source::Foreign(Foreign::ResourceFlavor) => objects.resource_flavors.remove(name).is_some(),
            Source::Foreign(Foreign::ClusterQueue) => objects.cluster_queues.remove(name).is_some(),
            Source::Foreign(Foreign::LocalQueue) => objects.local_queues.remove(key).is_some(),
        }
    }

    /// Waits until this version of an object is seen, unless it is already.
    pub fn wait_for(&mut self, subject: Subject, now: std::time::Instant) {
        let seen = match &subject {
            Subject::Version { source, key, version } => {
                let known = self.version(source, key);
                known.as_deref() == Some(version.as_str())
                    || is_older(Some(version), known.as_deref())
                    || (known.is_none() && self.was_told(source, version))
            }
            Subject::Going { key, uid } => self.objects.pods.get(key).is_none_or(|pod| {
                pod.metadata.uid.as_deref() != Some(uid) || pod.metadata.deletion_timestamp.is_some()
            }),
        };
        if !seen {
            self.awaited.add(subject, now);
        }
    }
}
