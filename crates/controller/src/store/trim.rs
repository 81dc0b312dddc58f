//! The fields of watched objects that are kept: those that `observe` and `rollout` read, and no others.
//! With 150,000 pods the rest is most of the memory.

use std::collections::BTreeMap;

use api::foreign::notebook::{self, NotebookSpec, NotebookTemplate};
use api::foreign::workload::{PodSet, PodTemplate, REPLACES, WorkloadSpec, WorkloadStatus};
use api::foreign::{
    ClusterQueue, HardwareProfile, LocalQueue, ModelServer, Notebook, TemplateSpec, Workload,
    hardware_profile,
};
use k8s_openapi::api::core::v1::{
    Affinity, Container, Node, NodeSpec, NodeStatus, NodeSystemInfo, Pod, PodSpec, PodStatus,
    ResourceRequirements,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};

use super::bounds;

mod map;
mod turn;

pub use map::config_map;
pub use turn::only_its_turn;

/// Annotations of nodes that are read: where the Machine Config Operator is.
const NODE_ANNOTATIONS: &[&str] = &["machineconfiguration.openshift.io/", "slicewright.io/"];

/// Labels of pods that are read: which operand it is, who stands behind it,
/// and which of its owner's pods it is.
const POD_LABELS: &[&str] = &[
    "app",
    "notebook-name",
    "statefulset",
    "serving.kserve.io/inferenceservice",
    "app.kubernetes.io/component",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    observe::requests::POD_SET,
    observe::requests::POD_GROUP,
    observe::surge::LABELS[0],
    observe::surge::LABELS[1],
];

/// How the `app` labels of the GPU Operator's operands begin.
const OPERANDS: &[&str] = &["nvidia-", "gpu-feature-discovery"];

/// How long the kind and the name of an owner may be together.
const LONGEST_OWNER: usize = 512;

/// Conditions of workloads that are read.
const WORKLOAD_CONDITIONS: &[&str] = &["QuotaReserved", "Admitted", "Evicted", "Requeued", "Finished"];

/// Conditions of pods that are read.
const POD_CONDITIONS: &[&str] = &["PodScheduled", "Ready"];

/// Whether a resource is a GPU's, or of the slicer that we stay away from.
#[must_use]
pub fn is_gpu(resource: &str) -> bool {
    mig::GpuResource::is_one(resource) || resource.starts_with(rollout::names::DAS_PREFIX)
}

/// Whether an owner has a name that an object may have: the API server takes
/// longer ones here.
const fn is_named(owner: &OwnerReference) -> bool {
    owner.name.len() + owner.kind.len() <= LONGEST_OWNER
}

/// Identity, age and version; owners only where they control.
fn metadata(full: ObjectMeta) -> ObjectMeta {
    let ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        generation,
        creation_timestamp,
        deletion_timestamp,
        labels,
        annotations,
        owner_references,
        ..
    } = full;
    let owner_references = owner_references
        .map(|all| all.into_iter().filter(|o| o.controller == Some(true) && is_named(o)).collect::<Vec<_>>())
        .filter(|all| !all.is_empty());
    ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        generation,
        creation_timestamp,
        deletion_timestamp,
        labels,
        annotations,
        owner_references,
        ..ObjectMeta::default()
    }
}

fn keep(
    map: Option<BTreeMap<String, String>>,
    wanted: impl Fn(&str) -> bool,
) -> Option<BTreeMap<String, String>> {
    let kept: BTreeMap<_, _> = map?.into_iter().filter(|(key, _)| wanted(key)).collect();
    (!kept.is_empty()).then_some(kept)
}

/// A node: its labels (any may be selected by), taints and cordon (and who set
/// it), what it offers, whether it is ready, and which boot this is.
#[must_use]
pub fn node(full: Node) -> Node {
    let Node { metadata: mut meta, spec, status } = full;
    let cordoned = spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let managers = meta.managed_fields.take().filter(|_| cordoned).map(observe::cordon::kept);
    let mut meta = metadata(meta);
    meta.managed_fields = managers.filter(|all| !all.is_empty());
    meta.annotations =
        keep(meta.annotations, |key| NODE_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix)));
    meta.owner_references = None;
    let spec = spec.map(|spec| NodeSpec {
        unschedulable: spec.unschedulable,
        taints: spec.taints,
        ..NodeSpec::default()
    });
    let status = status.map(|status| NodeStatus {
        // Of what else there is, such as huge pages, most nodes have none.
        allocatable: status.allocatable.map(|all| {
            all.into_iter().filter(|(resource, n)| n.0 != "0" || !observe::pods::is_other(resource)).collect()
        }),
        capacity: status.capacity.map(|all| all.into_iter().filter(|(r, _)| is_gpu(r)).collect()),
        conditions: status.conditions.map(|all| {
            let ready = all.into_iter().filter(|c| c.type_ == "Ready");
            // The heartbeat moves every few seconds and says nothing.
            ready
                .map(|c| k8s_openapi::api::core::v1::NodeCondition {
                    type_: c.type_,
                    status: c.status,
                    ..Default::default()
                })
                .collect()
        }),
        node_info: status
            .node_info
            .map(|info| NodeSystemInfo { boot_id: info.boot_id, ..NodeSystemInfo::default() }),
        ..NodeStatus::default()
    });
    Node { metadata: meta, spec, status }
}

/// Whether a node has, or may have, GPUs: by what node feature discovery, the
/// GPU Operator or kubelet say of it.
#[must_use]
pub fn may_have_gpus(node: &Node) -> bool {
    let labels = node.metadata.labels.iter().flatten();
    let pci = |key: &str| {
        key.strip_prefix("feature.node.kubernetes.io/pci-").is_some_and(|rest| rest.contains("10de"))
    };
    let by_label =
        labels.into_iter().any(|(key, _)| key.starts_with(rollout::names::NVIDIA_PREFIX) || pci(key));
    let status = node.status.as_ref();
    let capacity = status.and_then(|status| status.capacity.as_ref()).into_iter().flatten();
    let allocatable = status.and_then(|status| status.allocatable.as_ref()).into_iter().flatten();
    by_label || capacity.chain(allocatable).any(|(resource, _)| is_gpu(resource))
}

fn container(full: Container) -> Container {
    let Container { name, resources, restart_policy, .. } = full;
    Container { name, resources: resources.map(read_resources), restart_policy, ..Container::default() }
}

fn read_resources(full: ResourceRequirements) -> ResourceRequirements {
    let ResourceRequirements { limits, requests, .. } = full;
    ResourceRequirements {
        limits: limits.map(bounded_resources),
        requests: requests.map(bounded_resources),
        claims: None,
    }
}

/// Resources, of which many others must not hide those that we plan with.
fn bounded_resources<T>(all: BTreeMap<String, T>) -> BTreeMap<String, T> {
    let is_other = |resource: &String| observe::pods::is_other(resource);
    let (others, ours): (BTreeMap<_, _>, BTreeMap<_, _>) =
        all.into_iter().partition(|(resource, _)| is_other(resource));
    ours.into_iter()
        .take(bounds::MOST_RESOURCES)
        .chain(others.into_iter().take(bounds::MOST_OTHER_RESOURCES))
        .collect()
}

/// What the containers of a pod take together.
fn sum(full: &PodSpec) -> Option<BTreeMap<String, Quantity>> {
    let all = observe::pods::all_that_it_takes(full).into_iter();
    let asked = bounded_resources(all.filter(|(_, n)| *n > 0).collect());
    let sum: BTreeMap<String, Quantity> = asked
        .into_iter()
        .map(|(resource, n)| {
            // CPU is counted in thousandths.
            let text = if resource == "cpu" { format!("{n}m") } else { n.to_string() };
            (resource, Quantity(text))
        })
        .collect();
    (!sum.is_empty()).then_some(sum)
}

/// The containers that ask for GPUs, and of them that.
fn of_gpus(containers: &[Container]) -> Vec<Container> {
    let asks = |all: &Option<BTreeMap<String, Quantity>>| {
        let gpus =
            all.iter().flatten().filter(|(resource, n)| mig::GpuResource::is_one(resource) && n.0 != "0");
        let gpus = gpus.take(bounds::MOST_RESOURCES);
        let gpus: BTreeMap<_, _> = gpus.map(|(name, n)| (name.clone(), n.clone())).collect();
        (!gpus.is_empty()).then_some(gpus)
    };
    let container = |full: &Container| {
        let resources = full.resources.as_ref()?;
        let limits = asks(&resources.limits);
        // The API server wants both the same, and a limit is a request where there is no other: a map is half a kilobyte.
        let requests = asks(&resources.requests).filter(|requests| limits.as_ref() != Some(requests));
        (limits.is_some() || requests.is_some()).then(|| Container {
            name: full.name.clone(),
            restart_policy: full.restart_policy.clone(),
            resources: Some(ResourceRequirements { limits, requests, claims: None }),
            ..Container::default()
        })
    };
    let mut kept: Vec<_> = containers.iter().filter_map(container).take(bounds::MOST_CONTAINERS).collect();
    kept.shrink_to_fit();
    kept
}

/// What is kept of a pod that has a node: where, and what it takes there. The
/// sum stands in `overhead`, since containers are large. Which container takes
/// which GPU is kept: before an agent destroys a slice, kubelet's books must have
/// the devices of each.
fn bound(full: PodSpec) -> PodSpec {
    let init = full.init_containers.as_deref().map(of_gpus).filter(|all| !all.is_empty());
    let kept = PodSpec { containers: of_gpus(&full.containers), init_containers: init, ..PodSpec::default() };
    let mut overhead = sum(&full);
    let by_container = observe::pods::all_that_it_takes(&kept);
    for (resource, n) in by_container.iter().filter(|(_, n)| **n > 0) {
        let Some(sum) = overhead.as_mut().and_then(|all| all.get_mut(resource)) else { continue };
        let rest = sum.0.parse::<u64>().unwrap_or_default().saturating_sub(*n);
        *sum = Quantity(rest.to_string());
    }
    if let Some(all) = &mut overhead {
        all.retain(|_, sum| sum.0 != "0");
    }
    let overhead = overhead.filter(|all| !all.is_empty());
    let PodSpec { node_name, priority, priority_class_name, .. } = full;
    PodSpec {
        node_name,
        overhead,
        containers: kept.containers,
        init_containers: kept.init_containers,
        // The class says nothing that the number does not.
        priority_class_name: priority_class_name.filter(|_| priority.is_none()),
        priority,
        ..PodSpec::default()
    }
}

/// What is kept of a pod that has no node: what it asks for, and where it may
/// go. Of that a digest where it is too long, or was cut while it was read.
fn waiting(mut full: PodSpec, was_cut: bool) -> PodSpec {
    if full.containers.len() + full.init_containers.as_ref().map_or(0, Vec::len) > bounds::MOST_CONTAINERS {
        full.overhead = sum(&full);
        full.containers = Vec::new();
        full.init_containers = None;
        full.resources = None;
    }
    if was_cut || bounds::cost(&full) > bounds::MOST_OF_A_POD {
        bounds::shorten(&mut full);
    }
    let PodSpec {
        containers,
        init_containers,
        node_name,
        node_selector,
        affinity,
        tolerations,
        overhead,
        priority,
        priority_class_name,
        scheduling_gates,
        resources,
        resource_claims,
        ..
    } = full;
    // A container is large, and a list that was read has room for more of them.
    let trimmed = |all: Vec<Container>| {
        let mut all: Vec<Container> = all.into_iter().map(container).collect();
        all.shrink_to_fit();
        all
    };
    PodSpec {
        containers: trimmed(containers),
        init_containers: init_containers.map(trimmed),
        node_selector,
        affinity: affinity.map(|all| Affinity { node_affinity: all.node_affinity, ..Affinity::default() }),
        tolerations,
        node_name,
        overhead,
        priority,
        priority_class_name,
        // That there is one is read, and not which.
        scheduling_gates: scheduling_gates.map(|gates| gates.into_iter().take(1).collect()),
        resources: resources.map(read_resources),
        resource_claims: resource_claims.map(|claims| claims.into_iter().take(1).collect()),
        ..PodSpec::default()
    }
}

/// The claims of a pod's volumes, to be noted on it.
fn claims(
    spec: &PodSpec,
    annotations: Option<&BTreeMap<String, String>>,
    pod: Option<&str>,
) -> Option<(String, String)> {
    let noted = observe::volumes::noted_on(annotations);
    observe::volumes::noted(&observe::volumes::claims(spec, noted, pod))
}

/// A workbench, for a recording: what it asks for and whether it should run.
/// The environment of its containers, which may hold secrets, is none of it.
#[must_use]
pub fn notebook(full: Notebook) -> Notebook {
    let Notebook { metadata: meta, spec, status } = full;
    let mut meta = metadata(meta.into());
    let spec = PodSpec::from(spec.template.spec);
    let was_cut = bounds::was_cut(meta.annotations.as_ref());
    let active_in = meta.annotations.as_ref().and_then(|all| hour(all.get(notebook::LAST_ACTIVITY)?));
    let noted = claims(&spec, meta.annotations.as_ref(), None);
    let read = [notebook::STOPPED, notebook::PROFILE_NAME, notebook::PROFILE_NAMESPACE];
    meta.annotations = keep(meta.annotations, |key| read.contains(&key));
    for value in meta.annotations.iter_mut().flat_map(BTreeMap::values_mut) {
        *value = bounds::cut(std::mem::take(value), LONGEST_OWNER);
    }
    if let Some(noted) = noted {
        meta.annotations.get_or_insert_default().extend([noted]);
    }
    if let Some(hour) = active_in {
        meta.annotations.get_or_insert_default().insert(notebook::LAST_ACTIVITY.to_owned(), hour);
    }
    meta.labels = keep(meta.labels, |key| key == notebook::QUEUE);
    let spec = NotebookSpec { template: NotebookTemplate { spec: waiting(spec, was_cut).into() } };
    Notebook { metadata: meta.into(), spec, status }
}

/// The hour of a time. Culling writes the last activity of each workbench that
/// is used every minute, which would be news for nobody.
fn hour(time: &str) -> Option<String> {
    let time: jiff::Timestamp = time.parse().ok()?;
    let down = jiff::TimestampRound::new().smallest(jiff::Unit::Hour).mode(jiff::RoundMode::Trunc);
    Some(time.round(down).ok()?.to_string())
}

/// Whether a workload may wait for something that we answer or explain: it has
/// checks, or asks for slices and has no quota for them. Of all others their pods
/// say what there is to know.
#[must_use]
pub fn may_wait(workload: &Workload) -> bool {
    let has_ended = workload.is("Finished") || workload.is("QuotaReserved");
    !workload.status.admission_checks.is_empty() || !has_ended && asks_for_gpus(workload)
}

/// Whether a pod of a workload asks for anything of GPUs.
#[must_use]
pub fn asks_for_gpus(workload: &Workload) -> bool {
    workload.spec.pod_sets.iter().any(|set| template_asks(&set.template.spec, is_gpu))
}

/// A workload of a queue: the pods that it wants, its quota, and what checks
/// say of it. Its owners are kept whether they control it or not: those of a
/// group of pods do not.
#[must_use]
pub fn workload(full: Workload) -> Workload {
    let is_admitted = full.is("Admitted");
    let Workload { metadata: meta, spec, status } = full;
    let mut meta = ObjectMeta::from(meta);
    let owners = meta.owner_references.take().map(|owners| owners.into_iter().filter(is_named).collect());
    let mut meta = metadata(meta);
    let was_cut = bounds::was_cut(meta.annotations.as_ref());
    meta.owner_references = owners;
    meta.annotations =
        keep(meta.annotations, |key| key == REPLACES).filter(|kept| kept[REPLACES].len() <= LONGEST_OWNER);
    meta.labels = None;
    // Of one that is admitted its pods say where they may go.
    let set = |set: PodSet| {
        let PodSet { name, count, template, topology_request } = set;
        let metadata = observe::apart::noted_on_template(&observe::apart::said_by_template(&template));
        let spec = PodSpec::from(template.spec);
        let claims = observe::volumes::claims(&spec, None, None);
        let claims = claims.into_iter().take(bounds::MOST_CLAIMS).collect();
        let volumes = observe::volumes::only_claims(claims).filter(|_| !is_admitted);
        let spec = PodSpec { volumes, ..waiting(spec, was_cut) }.into();
        PodSet { name, count, template: PodTemplate { metadata, spec }, topology_request }
    };
    let mut spec = WorkloadSpec { pod_sets: spec.pod_sets.into_iter().map(set).collect(), ..spec };
    let read = |condition: &Condition| WORKLOAD_CONDITIONS.contains(&condition.type_.as_str());
    let conditions = status.conditions.into_iter().filter(read);
    // Why it has no quota is said to who asks; the rest is what it says that counts.
    let is_why = |c: &Condition| c.type_ == "QuotaReserved" && c.status == "False";
    let said = |c: Condition| match is_why(&c) {
        true => Condition { message: bounds::cut(c.message, LONGEST_OWNER), reason: String::new(), ..c },
        false => Condition { message: String::new(), reason: String::new(), ..c },
    };
    let mut status = WorkloadStatus { conditions: conditions.map(said).collect(), ..status };
    for set in &mut status.resource_requests {
        // Which they are is read, and not how much of each.
        set.resources.retain(|resource, n| {
            *n = Quantity::default();
            is_gpu(resource)
        });
    }
    status.resource_requests.shrink_to_fit();
    // While they were read, lists had room for more than came, or is kept.
    spec.pod_sets.shrink_to_fit();
    status.conditions.shrink_to_fit();
    status.admission_checks.shrink_to_fit();
    for check in &mut status.admission_checks {
        check.pod_set_updates.shrink_to_fit();
    }
    Workload { metadata: meta.into(), spec, status }
}

/// A cluster queue: what it covers and gives of GPUs, and what of that is taken.
/// Of CPU and memory nothing is read, which Kueue counts there, too.
#[must_use]
pub fn cluster_queue(full: ClusterQueue) -> ClusterQueue {
    let ClusterQueue { metadata: meta, mut spec, mut status } = full;
    for group in &mut spec.resource_groups {
        group.covered_resources.retain(|resource| is_gpu(resource));
        for flavor in &mut group.flavors {
            flavor.resources.retain(|quota| is_gpu(&quota.name));
        }
    }
    for flavor in &mut status.flavors_reservation {
        flavor.resources.retain(|usage| is_gpu(&usage.name));
    }
    status.conditions.retain(|condition| condition.type_ == "Active" && condition.status == "False");
    for condition in &mut status.conditions {
        condition.message = bounds::cut(std::mem::take(&mut condition.message), bounds::LONGEST_WORDS);
    }
    ClusterQueue { metadata: named(meta), spec, status }
}

/// A local queue: where it leads.
#[must_use]
pub fn local_queue(full: LocalQueue) -> LocalQueue {
    LocalQueue { metadata: named(full.metadata), spec: full.spec }
}

/// Identity, and nothing of what anybody noted there.
fn named(full: ObjectMeta) -> ObjectMeta {
    ObjectMeta { labels: None, annotations: None, owner_references: None, ..metadata(full) }
}

/// A hardware profile: what it offers, and whether it is one of ours.
#[must_use]
pub fn hardware_profile(full: HardwareProfile) -> HardwareProfile {
    use hardware_profile::{DISABLED, MANAGED_BY, OFFERS, SPEC_DIGEST, WITHDRAWN};
    let HardwareProfile { metadata: meta, spec } = full;
    let mut meta = metadata(meta);
    let read = [DISABLED, OFFERS, SPEC_DIGEST, WITHDRAWN];
    meta.annotations = keep(meta.annotations, |key| read.contains(&key));
    meta.labels = keep(meta.labels, |key| key == MANAGED_BY);
    HardwareProfile { metadata: meta, spec }
}

/// A model server: the profile that it names.
#[must_use]
pub fn model_server(full: ModelServer) -> ModelServer {
    let mut meta = metadata(full.metadata.into());
    let read = [notebook::PROFILE_NAME, notebook::PROFILE_NAMESPACE];
    meta.annotations = keep(meta.annotations, |key| read.contains(&key));
    for value in meta.annotations.iter_mut().flat_map(BTreeMap::values_mut) {
        *value = bounds::cut(std::mem::take(value), LONGEST_OWNER);
    }
    meta.labels = None;
    ModelServer { metadata: meta.into() }
}

/// Whether a pod does nothing but take room on its node: it is bound, has
/// nothing of NVIDIA's nor of any other device, speaks for nobody, and is none
/// of the operands.
#[must_use]
pub fn only_takes_room(pod: &Pod) -> bool {
    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let app = pod.metadata.labels.as_ref().and_then(|labels| labels.get("app"));
    let is_operand = app.is_some_and(|app| OPERANDS.iter().any(|prefix| app.starts_with(prefix)));
    is_bound
        && !is_operand
        && !observe::on_node::has_labels_of_agent(pod)
        && !concerns_gpus(pod)
        && !pod.spec.as_ref().is_some_and(|spec| asks(spec, observe::pods::is_other))
}

/// A pod: what it takes, where it is or may go, who stands behind it, and how
/// far it is. Of one that only takes room on its node, that.
#[must_use]
pub fn pod(full: Pod) -> Pod {
    let plain = only_takes_room(&full);
    let about = [observe::apart::noted(&observe::apart::said_by(&full)), observe::operands::noted(&full)];
    let Pod { metadata: meta, spec, status } = full;
    let mut meta = metadata(meta);
    let was_cut = bounds::was_cut(meta.annotations.as_ref());
    let is_bound = spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let waits = spec.as_ref().filter(|_| !is_bound);
    let noted = waits.and_then(|spec| claims(spec, meta.annotations.as_ref(), meta.name.as_deref()));
    // The uid by which kubelet knows a static pod.
    meta.annotations = keep(meta.annotations, |key| !plain && key == observe::on_node::MIRROR);
    meta.labels = keep(meta.labels, |key| !plain && POD_LABELS.contains(&key));
    meta.owner_references = meta.owner_references.filter(|_| !plain);
    if plain {
        let status = status.map(|status| PodStatus { phase: status.phase, ..PodStatus::default() });
        return Pod { metadata: meta, spec: spec.map(bound), status };
    }
    let notes: Vec<_> = noted.into_iter().chain(about.into_iter().flatten()).collect();
    if !notes.is_empty() {
        meta.annotations.get_or_insert_default().extend(notes);
    }
    let spec = spec.map(|spec| if is_bound { bound(spec) } else { waiting(spec, was_cut) });
    let status = status.map(|status| PodStatus {
        phase: status.phase,
        reason: status.reason,
        nominated_node_name: status.nominated_node_name,
        conditions: status.conditions.map(|all| {
            // That it has been placed is said by its node.
            let read = all
                .into_iter()
                .filter(|c| POD_CONDITIONS.contains(&c.type_.as_str()) && (!is_bound || c.type_ == "Ready"));
            let read = read.map(|c| k8s_openapi::api::core::v1::PodCondition {
                type_: c.type_,
                status: c.status,
                reason: c.reason,
                message: c.message.map(|message| bounds::cut(message, bounds::LONGEST_WORDS)),
                last_transition_time: c.last_transition_time,
                ..Default::default()
            });
            // It is collected in the list's own place, which has room for all that were there.
            let mut read: Vec<_> = read.collect();
            read.shrink_to_fit();
            read
        }),
        ..PodStatus::default()
    });
    Pod { metadata: meta, spec, status }
}

/// Whether a pod is of interest wherever it is: it asks for something of
/// NVIDIA's, or it speaks for a workbench or a model server.
#[must_use]
pub fn concerns_gpus(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let labels = pod.metadata.labels.iter().flatten();
    let speaks =
        labels.into_iter().any(|(key, _)| key == "notebook-name" || key.starts_with("serving.kserve.io/"));
    speaks || asks(spec, is_gpu)
}

/// Whether a pod asks for a resource of some kind.
fn asks(spec: &PodSpec, is_one: impl Fn(&str) -> bool) -> bool {
    let in_sum = spec.overhead.iter().flatten();
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = containers.filter_map(|container| container.resources.as_ref());
    let asked = resources.flat_map(|all| all.requests.iter().chain(all.limits.iter()).flatten());
    in_sum.chain(asked).any(|(resource, _)| is_one(resource))
}

/// Whether a pod of a template asks for a resource of some kind.
fn template_asks(template: &TemplateSpec, is_one: impl Fn(&str) -> bool) -> bool {
    let mut containers = template.containers().chain(template.init_containers());
    let mut in_sum = template.shape().overhead.iter().flatten();
    in_sum.any(|(resource, _)| is_one(resource))
        || containers.any(|asks| asks.amounts().any(|(resource, _)| is_one(resource)))
}

/// A priority class.
#[must_use]
pub fn priority_class(full: PriorityClass) -> PriorityClass {
    let PriorityClass { metadata: meta, global_default, value, .. } = full;
    let mut meta = metadata(meta);
    (meta.annotations, meta.labels) = (None, None);
    PriorityClass { metadata: meta, global_default, value, ..PriorityClass::default() }
}

/// Identity and labels only.
#[must_use]
pub fn labels_only(full: ObjectMeta) -> ObjectMeta {
    let mut meta = metadata(full);
    (meta.annotations, meta.owner_references) = (None, None);
    meta
}
