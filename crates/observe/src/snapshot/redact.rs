//! A recording without the names of users' objects: namespaces, and the objects in them, get
//! [`Pseudonyms`]; texts, labels and annotations on which no plan depends are removed. Facts on which a
//! plan depends stay as they are: nodes with their GPUs and the labels that are read or selected, profiles,
//! requests, policies. So the plan of the redacted fleet is the redacted plan of the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::GpuNode;
use api::foreign::notebook::{LAST_ACTIVITY, PROFILE_NAME, PROFILE_NAMESPACE, QUEUE, STOPPED};
use api::foreign::workload::{Admission, REPLACES};
use api::foreign::{
    AdmissionCheck, ClusterQueue, HardwareProfile, LocalQueue, ModelServer, Notebook, ResourceFlavor, Shared,
    Workload, hardware_profile,
};
use api::gpu_node::GpuNodeStatus;
use k8s_openapi::api::core::v1::{Affinity, Namespace, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::found_names::{NAMING, is_platform, pseudonyms};
use super::placed::waited_for;
use super::pseudonyms::Pseudonyms;
use super::selected::selected_by;
use super::stripped;
use rollout::names::{MCO_CURRENT_CONFIG, MCO_DESIRED_CONFIG, MCO_DESIRED_DRAIN, MCO_LAST_DRAIN, MCO_STATE};

use crate::apart;
use crate::copy_on_write::CopyOnWrite;
use crate::names::{CORDONED_BY, NAMESPACE_NAME, NVIDIA_PREFIX};
use crate::objects::{Key, Objects};
use crate::surge;
use crate::volumes::{self, Volumes};

/// What is kept beside what a plan depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Namespaces that keep their names: those that expectations speak of.
    /// (What is in them is renamed nevertheless.) Those that a policy names
    /// are kept anyway.
    pub namespaces: BTreeSet<String>,
    /// Keys of labels of nodes and namespaces that are kept with their values:
    /// those that policies to come may select by.
    pub labels: BTreeSet<String>,
}

/// Prefixes of labels of nodes that are kept: what is read of a node, and what
/// the platform writes.
const NODE_LABELS: [&str; 7] = [
    NVIDIA_PREFIX,
    "slicewright.io/",
    "feature.node.kubernetes.io/",
    "node-role.kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "kubernetes.io/",
];

/// Labels of pods whose value is a number, or a digest.
const NUMBERING: [&str; 3] =
    ["apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index", surge::LABELS[1]];
/// What stands for a text that was not kept.
const REDACTED: &str = "redacted";

/// Replaces the names, and says which stands for which.
#[must_use]
pub fn redact(objects: &Objects, keep: &Keep) -> (Objects, Pseudonyms) {
    // Those that nobody waits for are in no recording.
    let volumes = waited_for(objects);
    let names = pseudonyms(objects, &volumes, &keep.namespaces);
    let labels = keep.labels.iter().cloned().chain(selected_by(objects)).collect();
    let by = Redactor { names: &names, labels, volumes: &volumes, rules: apart::numbered(objects) };
    let of = |key: &Key| (names.namespace(&key.0), names.thing(&key.0, &key.1));
    let Objects {
        nodes,
        pods,
        namespaces,
        volumes: _,
        config_maps,
        priority_classes,
        notebooks,
        hardware_profiles,
        model_servers,
        // Where profiles are published for OpenShift AI is no part of a plan.
        installations: _,
        workloads,
        admission_checks,
        resource_flavors,
        cluster_queues,
        local_queues,
        cluster_policies,
        gpu_cluster,
        policies,
        gpu_nodes,
        owners,
        placed_alone,
        room_taken,
        // Of what cannot be read a recording has nothing, nor of the memory of a process.
        unread_users: _,
        unread_queues: _,
        starting_since: _,
        unserved_quota: _,
        unmade: _,
        menu_differs_since: _,
        menu_was_there: _,
        unknown_owners: _,
        unguarded_agents: _,
        legacy: _,
        sources: _,
    } = objects;
    let plain = |meta: &ObjectMeta| ObjectMeta { labels: None, annotations: None, ..meta.clone() };
    let redacted = Objects {
        nodes: nodes.iter().map(|(name, node)| (name.clone(), Arc::new(by.node(node)))).collect(),
        pods: pods.iter().map(|(key, pod)| (of(key), Arc::new(by.pod(pod)))).collect(),
        namespaces: namespaces
            .iter()
            .map(|(name, namespace)| (names.namespace(name), by.namespace(namespace)))
            .collect(),
        volumes: CopyOnWrite::new(Volumes {
            claims: volumes
                .claims
                .iter()
                .map(|(claim, volume)| (of(claim), names.of_cluster(volume)))
                .collect(),
            places: volumes
                .places
                .iter()
                .map(|(volume, nodes)| (names.of_cluster(volume), nodes.clone()))
                .collect(),
        }),
        config_maps: config_maps.iter().map(|(key, map)| (key.clone(), stripped::config_map(map))).collect(),
        priority_classes: priority_classes
            .iter()
            .map(|(name, class)| {
                let metadata = plain(&class.metadata);
                let description = None;
                (
                    name.clone(),
                    k8s_openapi::api::scheduling::v1::PriorityClass {
                        metadata,
                        description,
                        ..class.clone()
                    },
                )
            })
            .collect(),
        notebooks: notebooks
            .iter()
            .map(|(key, notebook)| (of(key), Arc::new(by.notebook(key, notebook))))
            .collect(),
        hardware_profiles: hardware_profiles
            .iter()
            .map(|(key, profile)| (of(key), by.profile(profile)))
            .collect(),
        model_servers: model_servers
            .iter()
            .map(|((kind, key), server)| ((kind.clone(), of(key)), Arc::new(by.model_server(server))))
            .collect(),
        workloads: workloads
            .iter()
            .map(|(key, workload)| (of(key), Arc::new(by.workload(key, workload))))
            .collect(),
        admission_checks: admission_checks
            .iter()
            .map(|(name, check)| {
                let metadata = plain(&check.metadata);
                let mut check = AdmissionCheck { metadata, ..check.clone() };
                // Whether it has parameters is read, and not which.
                check.spec.parameters = check.spec.parameters.map(|_| serde_json::Value::Bool(true));
                check.status.conditions.clear();
                (name.clone(), check)
            })
            .collect(),
        resource_flavors: resource_flavors
            .iter()
            .map(|(name, flavor)| {
                let metadata = plain(&flavor.metadata);
                (name.clone(), ResourceFlavor { metadata, ..flavor.clone() })
            })
            .collect(),
        cluster_queues: cluster_queues
            .iter()
            .map(|(name, queue)| (names.of_cluster(name), by.cluster_queue(queue)))
            .collect(),
        local_queues: local_queues.iter().map(|(key, queue)| (of(key), by.local_queue(queue))).collect(),
        cluster_policies: cluster_policies
            .iter()
            .map(|(name, policy)| {
                let metadata = plain(&policy.metadata);
                (name.clone(), api::foreign::ClusterPolicy { metadata, ..policy.clone() })
            })
            .collect(),
        gpu_cluster: *gpu_cluster,
        policies: policies.iter().map(|(name, policy)| (name.clone(), stripped::policy(policy))).collect(),
        gpu_nodes: gpu_nodes.iter().map(|(name, node)| (name.clone(), Arc::new(by.gpu_node(node)))).collect(),
        owners: owners
            .iter()
            .map(|((kind, namespace, name), owner)| {
                let key = (namespace.to_owned(), name.to_owned());
                (kind.to_owned(), of(&key), by.owner(namespace, owner))
            })
            .collect(),
        placed_alone: placed_alone
            .iter()
            .map(|((kind, key), topology)| ((kind.clone(), of(key)), topology.clone()))
            .collect(),
        room_taken: room_taken.clone(),
        ..Objects::default()
    };
    (redacted, names)
}

fn key(meta: &ObjectMeta) -> Key {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn retain(
    labels: &Option<BTreeMap<String, String>>,
    kept: impl Fn(&str) -> bool,
) -> Option<BTreeMap<String, String>> {
    let labels = labels.iter().flatten().filter(|(key, _)| kept(key));
    Some(labels.map(|(key, value)| (key.clone(), value.clone())).collect())
        .filter(|m: &BTreeMap<_, _>| !m.is_empty())
}

struct Redactor<'a> {
    names: &'a Pseudonyms,
    /// Keys of labels that somebody selects by.
    labels: BTreeSet<String>,
    /// The volumes that tell where somebody may go.
    volumes: &'a Volumes,
    /// A number for each rule by which pods keep apart.
    rules: BTreeMap<String, usize>,
}

impl Redactor<'_> {
    fn node(&self, node: &Node) -> Node {
        let labels = retain(&node.metadata.labels, |key| {
            NODE_LABELS.iter().any(|prefix| key.starts_with(prefix)) || self.labels.contains(key)
        });
        // Of annotations, what is read: where the Machine Config Operator is.
        let read = [
            MCO_STATE,
            MCO_CURRENT_CONFIG,
            MCO_DESIRED_CONFIG,
            MCO_DESIRED_DRAIN,
            MCO_LAST_DRAIN,
            CORDONED_BY,
        ];
        let annotations = retain(&node.metadata.annotations, |key| read.contains(&key));
        Node { metadata: ObjectMeta { labels, annotations, ..node.metadata.clone() }, ..node.clone() }
    }

    fn namespace(&self, namespace: &Namespace) -> Namespace {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        let called = self.names.namespace(name);
        let mut labels =
            retain(&namespace.metadata.labels, |key| key == NAMESPACE_NAME || self.labels.contains(key));
        if let Some(label) = labels.as_mut().and_then(|labels| labels.get_mut(NAMESPACE_NAME)) {
            label.clone_from(&called);
        }
        let metadata =
            ObjectMeta { name: Some(called), labels, annotations: None, ..namespace.metadata.clone() };
        Namespace { metadata, spec: None, status: None }
    }

    fn owner(&self, namespace: &str, owner: &OwnerReference) -> OwnerReference {
        OwnerReference { name: self.names.thing(namespace, &owner.name), ..owner.clone() }
    }

    /// Name, namespace and owners; labels and annotations are the kind's own.
    fn metadata(&self, meta: &ObjectMeta) -> ObjectMeta {
        let (namespace, name) = key(meta);
        ObjectMeta {
            name: Some(self.names.thing(&namespace, &name)),
            namespace: Some(self.names.namespace(&namespace)),
            owner_references: meta
                .owner_references
                .as_ref()
                .map(|all| all.iter().map(|owner| self.owner(&namespace, owner)).collect()),
            labels: None,
            annotations: None,
            ..meta.clone()
        }
    }

    fn pod(&self, pod: &Pod) -> Pod {
        let (namespace, name) = key(&pod.metadata);
        let named = |key: &str, value: &str| match key {
            _ if NAMING.contains(&key) => Some(self.names.thing(&namespace, value)),
            _ if NUMBERING.contains(&key) => Some(value.to_owned()),
            _ if crate::on_node::AGENT.contains(&(key, value)) => Some(value.to_owned()),
            // Which operand it is.
            "app" if is_platform(&namespace) || rollout::Operand::named(value).is_some() => {
                Some(value.to_owned())
            }
            _ => None,
        };
        let labels = pod.metadata.labels.iter().flatten();
        let labels: BTreeMap<_, _> =
            labels.filter_map(|(key, value)| Some((key.clone(), named(key, value)?))).collect();
        let mut metadata = self.metadata(&pod.metadata);
        metadata.labels = Some(labels).filter(|labels| !labels.is_empty());
        if let Some(spec) = &pod.spec {
            let noted = volumes::noted_on(pod.metadata.annotations.as_ref());
            let claims = volumes::claims(spec, noted, Some(&name));
            let claims = volumes::noted(&self.claims(&namespace, claims));
            let rules = apart::rules(pod).into_iter().map(|rule| rule.renamed(&self.rules)).collect();
            let noted: BTreeMap<_, _> = claims.into_iter().chain(apart::noted(&rules)).collect();
            metadata.annotations = (!noted.is_empty()).then_some(noted);
        }
        let mut status = pod.status.clone();
        for condition in status.iter_mut().filter_map(|status| status.conditions.as_mut()).flatten() {
            // What the scheduler says names what is in the way.
            condition.message = condition.message.take().map(|_| REDACTED.to_owned());
        }
        let spec =
            pod.spec.as_ref().map(|spec| PodSpec { volumes: None, ..self.spec(&namespace, &name, spec) });
        Pod { metadata, spec, status }
    }

    /// The claims of volumes that tell where somebody may go.
    fn claims(&self, namespace: &str, claims: BTreeSet<String>) -> BTreeSet<String> {
        let placed =
            |claim: &String| self.volumes.claims.contains_key(&(namespace.to_owned(), claim.clone()));
        claims.iter().filter(|claim| placed(claim)).map(|claim| self.names.thing(namespace, claim)).collect()
    }

    /// Containers are called after what they do; only the one that is called
    /// after its workbench is found by its name.
    fn spec(&self, namespace: &str, of: &str, spec: &PodSpec) -> PodSpec {
        let mut spec = spec.clone();
        // A workload has its claims here; what else of volumes is read is noted on the object.
        spec.volumes = volumes::only_claims(self.claims(namespace, volumes::claims(&spec, None, None)));
        // Selectors of other pods are made of names; what is read of them is noted, too.
        spec.topology_spread_constraints = None;
        spec.affinity =
            spec.affinity.map(|all| Affinity { node_affinity: all.node_affinity, ..Affinity::default() });
        let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        for (number, container) in containers.enumerate() {
            container.name = match container.name == of {
                true => self.names.thing(namespace, of),
                false => format!("c{number}"),
            };
        }
        spec
    }

    fn notebook(&self, (namespace, name): &Key, notebook: &Notebook) -> Notebook {
        let before = notebook.metadata.whole();
        let mut metadata = self.metadata(&before);
        let mut annotations = retain(&before.annotations, |key| key == STOPPED).unwrap_or_default();
        // As we read it: what else stands there may be a name.
        if let Some(at) = notebook.last_activity() {
            annotations.insert(LAST_ACTIVITY.to_owned(), at.to_string());
        }
        let whole = notebook.spec.template.spec.whole();
        let claims = volumes::claims(&whole, volumes::noted_on(before.annotations.as_ref()), None);
        annotations.extend(volumes::noted(&self.claims(namespace, claims)));
        annotations.extend(notebook.hardware_profile().iter().flat_map(|key| self.profile_of(key)));
        metadata.annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
        let queue = notebook.queue().map(|queue| self.names.thing(namespace, queue));
        metadata.labels = queue.map(|queue| [(QUEUE.to_owned(), queue)].into());
        let mut notebook = Notebook { metadata: metadata.into(), ..notebook.clone() };
        let spec = self.spec(namespace, name, &whole);
        notebook.spec.template.spec = PodSpec { volumes: None, ..spec }.into();
        notebook
    }

    fn model_server(&self, server: &ModelServer) -> ModelServer {
        let mut metadata = self.metadata(&server.metadata.whole());
        metadata.annotations = server.hardware_profile().map(|key| self.profile_of(&key));
        ModelServer { metadata: metadata.into() }
    }

    /// The annotations by which something names its hardware profile.
    fn profile_of(&self, (namespace, name): &Key) -> BTreeMap<String, String> {
        BTreeMap::from([
            (PROFILE_NAME.to_owned(), self.names.thing(namespace, name)),
            (PROFILE_NAMESPACE.to_owned(), self.names.namespace(namespace)),
        ])
    }

    /// What checks and Kueue say names pods and queues.
    fn workload(&self, (namespace, name): &Key, workload: &Workload) -> Workload {
        let mut metadata = api::foreign::Metadata::from(self.metadata(&workload.metadata.whole()));
        if let Some((of, name)) = workload.replaces() {
            let before = format!("{}/{}", self.names.namespace(of), self.names.thing(of, name));
            metadata.annotations.insert(REPLACES.to_owned(), before);
        }
        let mut workload = Workload { metadata, ..workload.clone() };
        workload.spec.queue_name = self.names.thing(namespace, &workload.spec.queue_name);
        for set in &mut workload.spec.pod_sets {
            let rules = apart::of_template(&set.template).into_iter().map(|rule| rule.renamed(&self.rules));
            set.template.metadata = apart::noted_on_template(&rules.collect());
            set.template.spec = self.spec(namespace, name, &set.template.spec.whole()).into();
        }
        workload.status.admission = workload.status.admission.map(|admission| {
            let cluster_queue = self.names.of_cluster(&admission.cluster_queue);
            Shared::new(Admission { cluster_queue, ..admission.into_value() })
        });
        for check in &mut workload.status.admission_checks {
            check.message = self.names.in_text(&check.message);
        }
        for condition in &mut workload.status.conditions {
            // Why Kueue gives no quota is in words that name queues and flavors; elsewhere anybody may have written.
            let is_why = condition.type_ == "QuotaReserved" && condition.status == "False";
            condition.message = if is_why { self.names.in_text(&condition.message) } else { String::new() };
        }
        workload.status.cluster_name = workload.status.cluster_name.map(|_| REDACTED.to_owned());
        workload
    }

    fn profile(&self, profile: &HardwareProfile) -> HardwareProfile {
        let mut metadata = self.metadata(&profile.metadata);
        metadata.annotations = retain(&profile.metadata.annotations, |key| key == hardware_profile::DISABLED);
        let mut profile = HardwareProfile { metadata, ..profile.clone() };
        for identifier in &mut profile.spec.identifiers {
            identifier.display_name.clone_from(&identifier.identifier);
        }
        if let Some(queue) = profile.spec.scheduling.as_mut().and_then(|s| s.kueue.as_mut()) {
            // It is looked for in every namespace that the profile is offered to.
            queue.local_queue_name = self.names.of_cluster(&queue.local_queue_name);
        }
        profile
    }

    fn cluster_queue(&self, queue: &ClusterQueue) -> ClusterQueue {
        let name = queue.metadata.name.as_deref().unwrap_or_default();
        let metadata = ObjectMeta {
            name: Some(self.names.of_cluster(name)),
            labels: None,
            annotations: None,
            ..queue.metadata.clone()
        };
        let mut queue = ClusterQueue { metadata, ..queue.clone() };
        queue.spec.cohort_name = queue.spec.cohort_name.map(|cohort| self.names.of_cluster(&cohort));
        for condition in &mut queue.status.conditions {
            condition.message = self.names.in_text(&condition.message);
        }
        queue
    }

    fn local_queue(&self, queue: &LocalQueue) -> LocalQueue {
        let mut queue = LocalQueue { metadata: self.metadata(&queue.metadata), ..queue.clone() };
        queue.spec.cluster_queue = self.names.of_cluster(&queue.spec.cluster_queue);
        queue
    }

    fn gpu_node(&self, node: &GpuNode) -> GpuNode {
        let mut node = node.clone();
        node.metadata.annotations = None;
        node.metadata.labels = None;
        let Some(GpuNodeStatus { observed_generation: _, conditions, slices: _, observed, agent, rollout }) =
            &mut node.status
        else {
            return node;
        };
        for condition in conditions {
            condition.message = self.names.in_text(&condition.message);
        }
        for gpu in observed.iter_mut().flat_map(|observed| &mut observed.gpus) {
            for pod in gpu.held_by.iter_mut().chain(gpu.slices.iter_mut().flat_map(|slice| &mut slice.by)) {
                pod.name = self.names.thing(&pod.namespace, &pod.name);
                pod.namespace = self.names.namespace(&pod.namespace);
            }
        }
        for observed in observed.iter_mut() {
            let gpus = observed.gpus.iter_mut().flat_map(|gpu| {
                gpu.holders.iter_mut().chain(gpu.slices.iter_mut().flat_map(|slice| &mut slice.holders))
            });
            let unknown = observed.doubts.iter_mut().flat_map(|doubts| &mut doubts.unknown_devices);
            for holder in gpus.chain(unknown.flat_map(|device| &mut device.holders)) {
                if let (Some(namespace), Some(pod)) = (&mut holder.namespace, &mut holder.pod) {
                    *pod = self.names.thing(namespace, pod);
                    *namespace = self.names.namespace(namespace);
                }
                REDACTED.clone_into(&mut holder.container);
            }
        }
        if let Some(why) = agent.as_mut().and_then(|agent| agent.change.as_mut()?.why.as_mut()) {
            why.message = self.names.in_text(&why.message);
            why.detail = why.detail.as_deref().map(|detail| self.names.in_text(detail));
        }
        if let Some(error) = rollout.as_mut().and_then(|rollout| rollout.last_error.as_mut()) {
            *error = self.names.in_text(error);
        }
        for to in rollout.iter_mut().flat_map(|rollout| &mut rollout.promised) {
            to.name = self.names.thing(&to.namespace, &to.name);
            to.namespace = self.names.namespace(&to.namespace);
        }
        node
    }
}
