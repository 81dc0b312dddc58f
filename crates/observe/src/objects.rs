//! The given objects, by kind and name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::foreign::{
    AdmissionCheck, ClusterPolicy, ClusterQueue, DscInitialization, HardwareProfile, LocalQueue, ModelServer,
    Named, Notebook, ResourceFlavor, Workload, hardware_profile, legacy,
};
use api::located::{Located, Node as Tree};
use api::{GpuNode, GpuPartitionPolicy, strict};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::inventory::Room;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::controllers::Controllers;
use crate::copy_on_write::CopyOnWrite;
use crate::placed_alone;
use crate::policy_rules;
use crate::problem::{Location, Problem, Severity, Source};
use crate::volumes::{self, Volumes};

/// Namespace (empty for cluster-scoped kinds) and name.
pub type Key = (String, String);

/// Everything that was handed in. Later objects of the same kind and name
/// replace earlier ones. Kinds of which there are many are shared with whoever
/// holds them, so that a copy with a few of them replaced costs little.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Nodes, by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// Pods.
    pub pods: CopyOnWrite<BTreeMap<Key, Arc<Pod>>>,
    /// What pods that do nothing but take room take of each node, summed up:
    /// whoever has very many of them need not keep each. Pods that are in
    /// [`Objects::pods`] are not in here.
    pub room_taken: BTreeMap<String, Room>,
    /// Namespaces, by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Where volumes are.
    pub volumes: CopyOnWrite<Volumes>,
    /// Config maps.
    pub config_maps: BTreeMap<Key, ConfigMap>,
    /// Priority classes, by name.
    pub priority_classes: BTreeMap<String, PriorityClass>,
    /// Workbenches.
    pub notebooks: CopyOnWrite<BTreeMap<Key, Arc<Notebook>>>,
    /// Hardware profiles.
    pub hardware_profiles: BTreeMap<Key, HardwareProfile>,
    /// Model servers, by kind.
    pub model_servers: CopyOnWrite<BTreeMap<(String, Key), Arc<ModelServer>>>,
    /// Workbenches and model servers that cannot be read, by kind, with the hardware
    /// profile that each names: it is in use, whatever else they say.
    pub unread_users: BTreeMap<(String, Key), Key>,
    /// How OpenShift AI is installed, by name.
    pub installations: BTreeMap<String, DscInitialization>,
    /// Kueue's workloads.
    pub workloads: CopyOnWrite<BTreeMap<Key, Arc<Workload>>>,
    /// Kueue's admission checks, by name.
    pub admission_checks: BTreeMap<String, AdmissionCheck>,
    /// Kueue's flavors, by name.
    pub resource_flavors: BTreeMap<String, ResourceFlavor>,
    /// Kueue's cluster queues, by name.
    pub cluster_queues: BTreeMap<String, ClusterQueue>,
    /// Kueue's local queues.
    pub local_queues: BTreeMap<Key, LocalQueue>,
    /// Kinds of Kueue that are served in no version that is read here, such as `workloads.kueue.x-k8s.io`, each with the
    /// versions that are served. While there are any, nothing is known of queues, and what was promised in them is kept.
    pub unread_queues: BTreeMap<String, Vec<String>>,
    /// The GPU Operator's settings, by name.
    pub cluster_policies: BTreeMap<String, ClusterPolicy>,
    /// Whether a `GPUCluster` exists: DRA manages the GPUs then.
    pub gpu_cluster: bool,
    /// Our policies, by name.
    pub policies: BTreeMap<String, GpuPartitionPolicy>,
    /// What we know of nodes, by name.
    pub gpu_nodes: BTreeMap<String, Arc<GpuNode>>,
    /// The controlling owner of every other object.
    pub owners: Controllers,
    /// JobSets and LeaderWorkerSets whose jobs or groups are placed exclusively, by kind: the label of nodes that makes the
    /// parts of the cluster of which each of them has one to itself.
    pub placed_alone: BTreeMap<(String, Key), String>,
    /// Objects above pods of which it could not be found out who controls them: whoever stands above these pods may be
    /// somebody else than [`Objects::owners`] says. Empty where all that can be asked was asked.
    pub unknown_owners: BTreeSet<(String, Key)>,
    /// Kinds that OpenShift AI has removed, with what replaces them.
    pub legacy: BTreeMap<String, &'static str>,
    /// Since when each workbench that should run has been without a pod, as far
    /// as whoever holds the objects remembers ([`crate::ClusterView::starting`] of
    /// the round before). One that is not named begins now.
    pub starting_since: BTreeMap<Key, Timestamp>,
    /// Since when each published hardware profile is not as it should be, as far
    /// as whoever holds the objects remembers. One that is not named begins now.
    pub menu_differs_since: BTreeMap<String, Timestamp>,
    /// Published hardware profiles that were there in the round before or were written by it, and those that have been
    /// missing since, as far as whoever holds the objects remembers: who deletes one gets it back only after a while.
    pub menu_was_there: BTreeSet<String>,
    /// Workloads that hold quota and are not served, as far as whoever holds the
    /// objects remembers them.
    pub unserved_quota: UnservedQuota,
    /// What the StatefulSets of such workbenches say of why they make no pod.
    pub unmade: BTreeMap<Key, String>,
    /// Why nothing is known to keep an agent from reporting for the node of another one, as far as whoever holds the
    /// objects has looked: then no report of an agent is acted upon. Empty where each is kept to its own node.
    pub unguarded_agents: Option<String>,
    /// Where each policy stands, for messages.
    pub sources: BTreeMap<String, Source>,
}

/// What is remembered of workloads that hold quota and are not served. If it is
/// lost, their time begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnservedQuota {
    /// Since when each of them is not served, without interruption.
    pub since: BTreeMap<Key, Timestamp>,
    /// When it was last planned whether somebody could use what they hold.
    pub asked: Option<Timestamp>,
}

/// The kind and name of an object, for messages: `Pod vision/mnist-0`.
#[must_use]
pub fn title(kind: &str, metadata: &impl Named) -> String {
    let name = metadata.name().unwrap_or("(without a name)");
    match metadata.namespace().filter(|ns| !ns.is_empty()) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Whether objects of this kind say something about GPUs, slices or who wants
/// them: whether [`Objects::add`] does more with one than to remember its owner.
#[must_use]
pub fn is_read(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group == api::GROUP
        || legacy::replacement(api_version, kind).is_some()
        || matches!(
            (group, kind),
            ("", "Node" | "Pod" | "Namespace" | "ConfigMap" | "PersistentVolumeClaim" | "PersistentVolume")
                | ("scheduling.k8s.io", "PriorityClass")
                | ("kubeflow.org", "Notebook")
                | ("infrastructure.opendatahub.io", "HardwareProfile")
                | ("serving.kserve.io", "InferenceService" | "LLMInferenceService")
                | ("dscinitialization.opendatahub.io", "DSCInitialization")
                | (
                    "kueue.x-k8s.io",
                    "Workload" | "AdmissionCheck" | "ResourceFlavor" | "ClusterQueue" | "LocalQueue"
                )
                | ("nvidia.com", "ClusterPolicy" | "GPUCluster")
        )
}

impl Objects {
    /// Whether any node agent has reported.
    #[must_use]
    pub fn agents_report(&self) -> bool {
        let mut statuses = self.gpu_nodes.values().filter_map(|node| node.status.as_ref());
        statuses.any(|status| status.agent.is_some())
    }

    /// Takes one object in. A list (`kind: List` or `…List`) is taken apart.
    /// Kinds that say nothing about GPUs are kept only as owners.
    pub fn add(&mut self, document: Located, file: &str, problems: &mut Vec<Problem>) {
        let kind = document.get("kind").and_then(Located::as_str).unwrap_or_default().to_owned();
        if kind.ends_with("List")
            && let Tree::Map(entries) = document.node
        {
            let items = entries.into_iter().find(|(key, ..)| key == "items");
            if let Some((_, _, Located { node: Tree::List(items), .. })) = items {
                for item in items {
                    self.add(item, file, problems);
                }
            }
            return;
        }
        let api_version = document.get("apiVersion").and_then(Located::as_str).unwrap_or_default().to_owned();
        if kind.is_empty() || api_version.is_empty() {
            let what = if kind.is_empty() { "kind" } else { "apiVersion" };
            problems.push(Problem {
                place: Some(Location::new(file, document.place)),
                ..Problem::new(
                    Severity::Error,
                    "",
                    format!("this is not a Kubernetes object: `{what}` is missing"),
                )
            });
            return;
        }
        if api_version.split('/').next() == Some(api::GROUP) {
            self.add_ours(&kind, document, file, problems);
        } else {
            self.add_value(&api_version, &kind, document.to_value(), &mut |problem| {
                problems.push(Problem { place: Some(Location::new(file, document.place)), ..problem });
            });
        }
    }

    fn add_ours(&mut self, kind: &str, document: Located, file: &str, problems: &mut Vec<Problem>) {
        let name = document.get("metadata").and_then(|m| m.get("name")).and_then(Located::as_str);
        let name = name.unwrap_or("(without a name)").to_owned();
        let object = format!("{kind} {name}");
        let findings = match kind {
            "GpuPartitionPolicy" => match strict::policy(&document) {
                Ok(policy) => {
                    self.sources.insert(name.clone(), Source { file: file.to_owned(), document });
                    self.policies.insert(name, policy);
                    return;
                }
                Err(strict::Refused { mut findings, read }) => {
                    // One who mends the first mistakes should not find others afterwards.
                    let source = Source { file: file.to_owned(), document };
                    let others = read.map(|read| policy_rules::beside(&read, &name, &mut findings, &source));
                    problems.extend(others.into_iter().flatten());
                    findings
                }
            },
            "GpuNode" => match strict::gpu_node(&document) {
                Ok(node) => {
                    self.gpu_nodes.insert(name, Arc::new(node));
                    return;
                }
                Err(refused) => refused.findings,
            },
            other => {
                let known = ["GpuPartitionPolicy", "GpuNode"];
                let meant = api::spelling::nearest(other, known)
                    .map(|right| format!("; did you mean `{right}`?"))
                    .unwrap_or_default();
                vec![api::schema::Finding {
                    path: "kind".to_owned(),
                    place: Some(document.place_of("kind")),
                    message: format!(
                        "{} has no kind `{other}`{meant} The kinds are {}",
                        api::GROUP,
                        known.join(", ")
                    ),
                }]
            }
        };
        problems.extend(findings.into_iter().map(|finding| Problem::of_finding(finding, &object, file)));
    }

    /// Takes one foreign object in, as the API server returns it. What cannot
    /// be read goes to `complain`.
    pub fn add_value(
        &mut self,
        api_version: &str,
        kind: &str,
        value: Value,
        complain: &mut dyn FnMut(Problem),
    ) {
        let metadata = value.get("metadata").cloned().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let unread = Unread::of(group, kind);
        let metadata: ObjectMeta = match serde_json::from_value(metadata) {
            Ok(metadata) => metadata,
            Err(error) => {
                let text = |field: &str| value.get("metadata")?.get(field)?.as_str().map(str::to_owned);
                let named =
                    ObjectMeta { name: text("name"), namespace: text("namespace"), ..Default::default() };
                complain(unread.problem(title(kind, &named), &error).field("metadata"));
                return;
            }
        };
        let object = title(kind, &metadata);
        let Some(name) = metadata.name.clone().filter(|name| !name.is_empty()) else {
            complain(
                Problem::new(Severity::Warning, object, "has no name, and is ignored").field("metadata.name"),
            );
            return;
        };
        if let Some(replacement) = legacy::replacement(api_version, kind) {
            let message = format!(
                "has a kind that OpenShift AI has removed ({api_version}), so it is neither read nor written; use {replacement}"
            );
            complain(Problem::new(Severity::Note, object.clone(), message));
            self.legacy.insert(object, replacement);
            return;
        }
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let key = (namespace, name.clone());
        let owner = metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        if let Some(owner) = owner {
            self.owners.insert(kind, key.clone(), owner.clone());
        }
        if let Some(topology) = placed_alone::label_of(kind, metadata.annotations.as_ref()) {
            self.placed_alone.insert((kind.to_owned(), key.clone()), topology);
        }
        let user = Some((kind.to_owned(), key.clone())).filter(|_| uses_profiles(group, kind));
        let profile = user.as_ref().and_then(|_| hardware_profile::named_by(&metadata.into()));
        let mut is_unread = false;
        let mut complain = |problem| {
            is_unread = true;
            complain(problem);
        };
        let mut reader = Reader { object: &object, unread, complain: &mut complain };
        match (group, kind) {
            ("", "Node") => reader.read(value, |node| self.nodes.insert(name, Arc::new(node))),
            ("", "Pod") => reader.read(value, |pod| self.pods.insert(key, Arc::new(pod))),
            ("", "Namespace") => reader.read(value, |namespace| self.namespaces.insert(name, namespace)),
            ("", "PersistentVolumeClaim") => reader.read(value, |claim| {
                self.volumes.claims.extend(volumes::bound_to(claim).map(|volume| (key, volume)));
            }),
            ("", "PersistentVolume") => reader.read(value, |volume| {
                self.volumes.places.extend(volumes::place(volume).map(|nodes| (name, nodes)));
            }),
            ("", "ConfigMap") => reader.read(value, |map| self.config_maps.insert(key, map)),
            ("scheduling.k8s.io", "PriorityClass") => {
                reader.read(value, |class| self.priority_classes.insert(name, class));
            }
            ("kubeflow.org", "Notebook") => {
                reader.read(value, |notebook| self.notebooks.insert(key, Arc::new(notebook)));
            }
            ("infrastructure.opendatahub.io", "HardwareProfile") => {
                reader.read(value, |profile| self.hardware_profiles.insert(key, profile));
            }
            ("serving.kserve.io", "InferenceService" | "LLMInferenceService") => {
                let key = (kind.to_owned(), key);
                reader.read(value, |server| self.model_servers.insert(key, Arc::new(server)));
            }
            ("dscinitialization.opendatahub.io", "DSCInitialization") => {
                reader.read(value, |found| self.installations.insert(name, found));
            }
            ("kueue.x-k8s.io", "Workload") => {
                reader.read(value, |workload| self.workloads.insert(key, Arc::new(workload)));
            }
            ("kueue.x-k8s.io", "AdmissionCheck") => {
                reader.read(value, |check| self.admission_checks.insert(name, check));
            }
            ("kueue.x-k8s.io", "ResourceFlavor") => {
                reader.read(value, |flavor| self.resource_flavors.insert(name, flavor));
            }
            ("kueue.x-k8s.io", "ClusterQueue") => {
                reader.read(value, |queue| self.cluster_queues.insert(name, queue));
            }
            ("kueue.x-k8s.io", "LocalQueue") => {
                reader.read(value, |queue| self.local_queues.insert(key, queue));
            }
            ("nvidia.com", "ClusterPolicy") => {
                reader.read(value, |policy| self.cluster_policies.insert(name, policy));
            }
            ("nvidia.com", "GPUCluster") => self.gpu_cluster = true,
            _ => {}
        }
        if let Some(user) = user {
            match profile.filter(|_| is_unread) {
                Some(profile) => drop(self.unread_users.insert(user, profile)),
                None => drop(self.unread_users.remove(&user)),
            }
        }
    }
}

/// Whether objects of this kind name hardware profiles, which are kept as long as one does.
fn uses_profiles(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("kubeflow.org", "Notebook") | ("serving.kserve.io", "InferenceService" | "LLMInferenceService")
    )
}

/// What follows from it that an object cannot be read.
#[derive(Clone, Copy, Debug)]
enum Unread {
    /// Nobody knows what it has or holds, so nothing may be planned.
    Refused,
    /// It is as if it were not there.
    Ignored,
}

impl Unread {
    fn of(group: &str, kind: &str) -> Self {
        if matches!((group, kind), ("", "Node" | "Pod")) { Self::Refused } else { Self::Ignored }
    }

    fn problem(self, object: impl Into<String>, error: &serde_json::Error) -> Problem {
        let (severity, message) = match self {
            Self::Refused => (
                Severity::Error,
                format!("cannot be read, so that nobody knows which slices it has or holds: {error}"),
            ),
            Self::Ignored => (Severity::Warning, format!("cannot be read, and is ignored: {error}")),
        };
        Problem::new(severity, object, message)
    }
}

struct Reader<'a> {
    object: &'a str,
    unread: Unread,
    complain: &'a mut dyn FnMut(Problem),
}

impl Reader<'_> {
    fn read<T: DeserializeOwned, R>(&mut self, value: Value, keep: impl FnOnce(T) -> R) {
        match serde_json::from_value(value) {
            Ok(object) => {
                keep(object);
            }
            Err(error) => (self.complain)(self.unread.problem(self.object, &error)),
        }
    }
}
