//! The resources that pods take, and whether they are bound, pending or gone.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::template::Asks;
use api::foreign::{TemplateSpec, Workload};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use mig::resource::Unit;
use mig::{GpuResource, ProfileName};
use planner::inventory::Room;
use planner::report::Offered;

use crate::names;

/// What a pod takes of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Slices by profile.
    pub slices: BTreeMap<ProfileName, u32>,
    /// `nvidia.com/gpu`.
    pub whole_gpus: u32,
    /// Seats of GPUs and slices that several pods share under a name of its own.
    pub shared: BTreeMap<Offered, u32>,
    /// CPU, memory, and one pod slot.
    pub room: Room,
    /// Resources that are neither GPUs nor in `room`, such as huge pages and
    /// network interfaces.
    pub other_resources: BTreeMap<String, i64>,
    /// Every resource of NVIDIA's, those that are no GPU's included.
    pub extended: BTreeMap<String, u64>,
    /// `nvidia.com/mig-…` resources whose names no profile has.
    pub unreadable: Vec<String>,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has a node, and holds what it asked for; terminating and not yet
    /// started pods included.
    Bound,
    /// It waits, and the scheduler has said that it cannot be placed.
    Unschedulable,
    /// It waits for something else: the scheduler's first look, a gate, or a
    /// node that is being freed for it.
    Waiting,
    /// It has ended.
    Ended,
}

/// Whether a resource is neither a GPU's, nor one of those of a [`Room`].
#[must_use]
pub fn is_other(resource: &str) -> bool {
    let is_of_room = ["cpu", "memory", "pods", names::RESOURCE_STORAGE].contains(&resource);
    !is_of_room && !GpuResource::is_one(resource) && !resource.starts_with(names::DAS_PREFIX)
}

/// Where a pod is in its life.
#[must_use]
pub fn life(pod: &Pod) -> Life {
    let status = pod.status.as_ref();
    let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        return Life::Ended;
    }
    let spec = pod.spec.as_ref();
    if spec.and_then(|s| s.node_name.as_deref()).is_some_and(|node| !node.is_empty()) {
        return Life::Bound;
    }
    if waits_for(pod).is_some() { Life::Waiting } else { Life::Unschedulable }
}

/// What keeps the scheduler from saying of a pod without a node that it cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// It is being deleted.
    Deletion,
    /// It has scheduling gates.
    Gates,
    /// A node is being freed for it.
    Nominated,
    /// The scheduler has not looked at it, or found it a node a moment ago.
    Scheduler,
}

/// What a pod without a node waits for, if it is anything but a place.
#[must_use]
pub fn waits_for(pod: &Pod) -> Option<WaitsFor> {
    let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
    let is_gated = spec.and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
    if pod.metadata.deletion_timestamp.is_some() {
        Some(WaitsFor::Deletion)
    } else if is_gated {
        Some(WaitsFor::Gates)
    } else if status.and_then(|s| s.nominated_node_name.as_deref()).is_some_and(|n| !n.is_empty()) {
        Some(WaitsFor::Nominated)
    } else {
        scheduler_says(pod).is_none().then_some(WaitsFor::Scheduler)
    }
}

/// What the scheduler says of a pod that it cannot place.
#[must_use]
pub fn scheduler_says(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|c| {
            // It says `SchedulerError` where something went wrong in it, and tries again as well.
            let is_tried_again = matches!(c.reason.as_deref(), Some("Unschedulable" | "SchedulerError"));
            c.type_ == "PodScheduled" && c.status == "False" && is_tried_again
        })
        .map(|c| c.message.as_deref().unwrap_or_default())
}

/// When a pod last became ready, or ceased to be; kubelet says so at its end, too.
#[must_use]
pub fn ready_changed(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|at| at.0)
}

/// What a pod takes: the sum over its containers, or what its largest init
/// container takes if that is more; init containers that keep running count
/// as containers (and beside the init containers after them).
#[must_use]
pub fn takes(spec: &PodSpec) -> Takes {
    sort_out(&totals(spec))
}

/// Whether a pod takes anything of GPUs, or something that is called like it.
#[must_use]
pub fn asks_for_gpus(spec: &PodSpec) -> bool {
    totals(spec).into_iter().any(|(resource, n)| n > 0 && GpuResource::is_one(&resource))
}

/// What a pod of a template takes of GPUs, by resource.
#[must_use]
pub fn gpus_of_template(template: &TemplateSpec) -> BTreeMap<String, u64> {
    let asks = |asks: Asks<'_>| {
        let all = asks.amounts().filter(|(resource, _)| GpuResource::is_one(resource));
        (asks.keeps_running, amounts(all.collect()))
    };
    let containers = template.containers().map(|container| asks(container).1);
    let all = sum(containers, template.init_containers().map(asks), template.shape()).into_iter();
    let gpus = all.filter(|(resource, n)| *n > 0 && GpuResource::is_one(resource));
    gpus.map(|(resource, n)| (resource, in_units(n))).collect()
}

/// The resources of GPUs that the pods of a workload ask for.
#[must_use]
pub fn resources_of_workload(workload: &Workload) -> BTreeSet<String> {
    let all = workload.spec.pod_sets.iter().map(|set| gpus_of_template(&set.template.spec));
    all.flat_map(BTreeMap::into_keys).collect()
}

/// Everything that a pod takes, by resource.
#[must_use]
pub fn all_that_it_takes(spec: &PodSpec) -> BTreeMap<String, u64> {
    totals(spec).into_iter().map(|(resource, n)| (resource, in_units(n))).collect()
}

/// What each container asks of GPUs, init containers included. What the pod
/// takes beyond that is the last one's, which has no name: the store keeps a few
/// containers of a pod, and of the others the sum as its overhead. No book
/// accounts for it, so that nobody takes it for idle.
#[must_use]
pub fn containers(spec: &PodSpec) -> Vec<(String, BTreeMap<String, u64>)> {
    let asks = |container: &Container| {
        let gpus = requests(container).into_iter().filter(|(resource, _)| mig::GpuResource::is_one(resource));
        let gpus = gpus.map(|(resource, n)| (resource, in_units(n))).filter(|(_, n)| *n > 0);
        (container.name.clone(), gpus.collect::<BTreeMap<_, _>>())
    };
    let all = spec.init_containers.iter().flatten().chain(&spec.containers).map(asks);
    let rest = spec.overhead.iter().flatten().filter(|(resource, _)| mig::GpuResource::is_one(resource));
    let rest =
        rest.map(|(resource, n)| (resource.clone(), in_units(amount(resource, n).unwrap_or_default())));
    let rest = (String::new(), rest.filter(|(_, n)| *n > 0).collect());
    all.chain([rest]).filter(|(_, asks)| !asks.is_empty()).collect()
}

/// The resources of GPUs for which several containers ask that run at the same
/// time, each with the names of these: the pod then needs the sum.
#[must_use]
pub fn asked_by_several(spec: &PodSpec) -> BTreeMap<String, Vec<String>> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let mut asked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for container in spec.containers.iter().chain(sidecars) {
        for (resource, n) in requests(container) {
            if n > 0 && mig::GpuResource::is_one(&resource) {
                asked.entry(resource).or_default().push(container.name.clone());
            }
        }
    }
    asked.retain(|_, containers| containers.len() > 1);
    asked
}

fn in_units(n: i128) -> u64 {
    u64::try_from(n.max(0)).unwrap_or(u64::MAX)
}

fn totals(spec: &PodSpec) -> BTreeMap<String, i128> {
    let init = spec.init_containers.iter().flatten();
    let init =
        init.map(|container| (container.restart_policy.as_deref() == Some("Always"), requests(container)));
    sum(spec.containers.iter().map(requests), init, spec)
}

/// What a pod takes, given what each container asks for and, of init containers, whether it keeps running.
fn sum(
    containers: impl Iterator<Item = BTreeMap<String, i128>>,
    init: impl Iterator<Item = (bool, BTreeMap<String, i128>)>,
    spec: &PodSpec,
) -> BTreeMap<String, i128> {
    let mut total: BTreeMap<String, i128> = BTreeMap::new();
    let add = |into: &mut BTreeMap<String, i128>, from: &BTreeMap<String, i128>| {
        for (resource, amount) in from {
            let sum = into.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    };
    for asks in containers {
        add(&mut total, &asks);
    }
    let mut sidecars = BTreeMap::new();
    let mut peak: BTreeMap<String, i128> = BTreeMap::new();
    for (keeps_running, mut at_once) in init {
        if keeps_running {
            add(&mut sidecars, &at_once);
            at_once = sidecars.clone();
        } else {
            add(&mut at_once, &sidecars);
        }
        for (resource, amount) in at_once {
            let most = peak.entry(resource).or_default();
            *most = (*most).max(amount);
        }
    }
    add(&mut total, &sidecars);
    for (resource, amount) in peak {
        let most = total.entry(resource).or_default();
        *most = (*most).max(amount);
    }
    // What the pod says for all its containers together goes before what they
    // say; the API server takes only CPU and memory there.
    for (resource, amount) in spec.resources.iter().flat_map(of_requirements) {
        total.insert(resource, amount);
    }
    for (resource, quantity) in spec.overhead.iter().flatten() {
        let sum = total.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(amount(resource, quantity).unwrap_or_default());
    }
    total
}

fn sort_out(total: &BTreeMap<String, i128>) -> Takes {
    let number = |resource: &str| total.get(resource).copied().unwrap_or_default();
    let clamp = |n: i128| i64::try_from(n).unwrap_or(i64::MAX);
    let whole = |n: i128| u32::try_from(n.max(0)).unwrap_or(u32::MAX);
    let mut slices = BTreeMap::new();
    let mut shared = BTreeMap::new();
    let mut unreadable = Vec::new();
    for (resource, amount) in total.iter().filter(|(_, amount)| **amount > 0) {
        let Some(GpuResource { unit, shared: is_shared }) = GpuResource::parse(resource) else { continue };
        match (unit, is_shared) {
            (Unit::Slice(profile), false) => {
                slices.insert(profile, whole(*amount));
            }
            (Unit::Slice(profile), true) => {
                shared.insert(Offered::SharedSlice(profile), whole(*amount));
            }
            (Unit::Gpu, true) => {
                shared.insert(Offered::SharedGpu, whole(*amount));
            }
            (Unit::Gpu, false) => {}
            (Unit::UnknownSlice, _) => unreadable.push(resource.clone()),
        }
    }
    let extended = total.iter().filter(|(resource, _)| resource.starts_with(names::NVIDIA_PREFIX));
    let others = total.iter().filter(|(resource, amount)| **amount > 0 && is_other(resource));
    Takes {
        other_resources: others.map(|(resource, n)| (resource.clone(), clamp(*n))).collect(),
        extended: extended.map(|(resource, n)| (resource.clone(), in_units(*n))).collect(),
        slices,
        shared,
        whole_gpus: whole(number(names::RESOURCE_GPU)),
        room: Room {
            cpu_milli: clamp(number("cpu")),
            memory_bytes: clamp(number("memory")),
            storage_bytes: clamp(number(names::RESOURCE_STORAGE)),
            pods: 1,
        },
        unreadable,
    }
}

/// What a container asks for, in thousandths for CPU and units for all else.
/// A limit without a request is a request.
fn requests(container: &Container) -> BTreeMap<String, i128> {
    container.resources.as_ref().map(of_requirements).unwrap_or_default()
}

fn of_requirements(resources: &ResourceRequirements) -> BTreeMap<String, i128> {
    let all = resources.limits.iter().flatten().chain(resources.requests.iter().flatten());
    amounts(all.map(|(resource, quantity)| (resource.as_str(), quantity.0.as_str())).collect())
}

/// Those that can be read.
fn amounts(texts: BTreeMap<&str, &str>) -> BTreeMap<String, i128> {
    let read = |(resource, text): (&str, &str)| Some((resource.to_owned(), amount_of(resource, text)?));
    texts.into_iter().filter_map(read).collect()
}

/// An amount of a resource: CPU in thousandths, all else in units, rounded up.
#[must_use]
pub fn amount(resource: &str, quantity: &Quantity) -> Option<i128> {
    amount_of(resource, &quantity.0)
}

fn amount_of(resource: &str, text: &str) -> Option<i128> {
    let milli = milli(text)?;
    Some(if resource == "cpu" {
        milli
    } else {
        milli.div_euclid(1000) + i128::from(milli.rem_euclid(1000) > 0)
    })
}

/// A Kubernetes quantity in thousandths, rounded up; `None` if it is none.
pub(crate) fn milli(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    // The value times 10^fraction digits.
    let mut scaled: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let mut divisor = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let factor: i128 = match unit {
        "" => 1000,
        "m" => 1,
        "u" => {
            divisor = divisor.checked_mul(1000)?;
            1
        }
        "n" => {
            divisor = divisor.checked_mul(1_000_000)?;
            1
        }
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        "Pi" => 1000 << 50,
        "Ei" => 1000 << 60,
        _ => {
            let exponent: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10i128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 {
                divisor = divisor.checked_mul(power)?;
            }
            if exponent < 0 { 1000 } else { power.checked_mul(1000)? }
        }
    };
    scaled = scaled.checked_mul(factor)?;
    let rounded = scaled / divisor + i128::from(scaled % divisor != 0);
    Some(if negative { -rounded } else { rounded })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<i128>) {
        assert_eq!(milli(text), expect, "{text}");
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        check("1", Some(1000));
        check("100m", Some(100));
        check("1.5", Some(1500));
        check(".5", Some(500));
        check("40500e-3", Some(40500));
        check("1E-1", Some(100));
        check("1e-40", None);
        check("2Gi", Some(2 * 1024 * 1024 * 1024 * 1000));
        check("1k", Some(1_000_000));
        check("1e3", Some(1_000_000));
        check("250u", Some(1));
        check("-1", Some(-1000));
        check("", None);
        check("one", None);
        check("1.2.3", None);
        check("8GB", None);
    }

    fn spec(value: serde_json::Value) -> PodSpec {
        serde_json::from_value(value).expect("a pod spec")
    }

    #[test]
    fn a_pod_takes_the_sum_of_its_containers_or_its_largest_init_container() {
        let takes = takes(&spec(serde_json::json!({
            "initContainers": [
                {"name": "large", "resources": {"requests": {"cpu": "4"}}},
                {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            ],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/mig-1g.10gb": "1"}}},
                {"name": "b", "resources": {
                    "requests": {"ephemeral-storage": "3Gi"},
                    "limits": {"nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-oops": "1", "ephemeral-storage": "9Gi"}}},
            ],
        })));
        let profile: ProfileName = "1g.10gb".parse().expect("a name");
        assert_eq!(takes.slices, BTreeMap::from([(profile, 3)]));
        let room = Room { cpu_milli: 4000, memory_bytes: 1 << 30, storage_bytes: 3 << 30, pods: 1 };
        assert_eq!(takes.room, room);
        assert_eq!(takes.unreadable, ["nvidia.com/mig-oops"]);
        assert_eq!(takes.shared, BTreeMap::new());
    }

    #[test]
    fn seats_are_resources_and_no_slip_of_the_pen() {
        let takes = takes(&spec(serde_json::json!({"containers": [
            {"name": "a", "resources": {"limits": {"nvidia.com/gpu.shared": "1", "nvidia.com/mig-1g.10gb.shared": "2"}}},
            {"name": "b", "resources": {"limits": {"nvidia.com/gpu.shared": "1", "nvidia.com/mig-oops.shared": "1"}}},
        ]})));
        let profile: ProfileName = "1g.10gb".parse().expect("a name");
        let seats = BTreeMap::from([(Offered::SharedSlice(profile), 2), (Offered::SharedGpu, 2)]);
        assert_eq!((takes.shared, takes.whole_gpus), (seats, 0));
        assert_eq!(takes.unreadable, ["nvidia.com/mig-oops.shared"]);
    }

    #[test]
    fn what_a_pod_says_for_all_its_containers_goes_before_what_they_say() {
        let takes = takes(&spec(serde_json::json!({
            "resources": {"requests": {"cpu": "8"}, "limits": {"cpu": "9", "memory": "4Gi"}},
            "overhead": {"cpu": "100m"},
            "initContainers": [{"name": "large", "resources": {"requests": {"cpu": "16"}}}],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/mig-1g.10gb": "1"}}},
                {"name": "b"},
            ],
        })));
        assert_eq!(takes.room, Room { cpu_milli: 8100, memory_bytes: 4 << 30, ..Room::NOTHING });
        assert_eq!(takes.slices.values().sum::<u32>(), 1);
    }

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).expect("a pod")
    }

    #[test]
    fn a_pod_counts_as_pending_only_when_the_scheduler_has_said_so() {
        let says = serde_json::json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]);
        let unschedulable = serde_json::json!({"phase": "Pending", "conditions": says});
        let of = |spec: serde_json::Value, status: &serde_json::Value| {
            let mut spec = spec;
            spec["containers"] = serde_json::json!([]);
            life(&pod(serde_json::json!({"spec": spec, "status": status})))
        };
        assert_eq!(of(serde_json::json!({}), &unschedulable), Life::Unschedulable);
        assert_eq!(of(serde_json::json!({}), &serde_json::json!({"phase": "Pending"})), Life::Waiting);
        assert_eq!(
            of(serde_json::json!({"schedulingGates": [{"name": "queue"}]}), &unschedulable),
            Life::Waiting
        );
        let mut nominated = unschedulable.clone();
        nominated["nominatedNodeName"] = "n1".into();
        assert_eq!(of(serde_json::json!({}), &nominated), Life::Waiting);
        let going = serde_json::json!({"metadata": {"deletionTimestamp": "2026-11-02T22:00:00Z"},
            "spec": {"containers": []}, "status": unschedulable});
        assert_eq!(life(&pod(going)), Life::Waiting, "it asks for nothing any more");
        assert_eq!(of(serde_json::json!({"nodeName": ""}), &unschedulable), Life::Unschedulable);
        assert_eq!(of(serde_json::json!({"nodeName": "n1"}), &serde_json::json!({})), Life::Bound);
        assert_eq!(
            of(serde_json::json!({"nodeName": "n1"}), &serde_json::json!({"phase": "Failed"})),
            Life::Ended
        );
    }
}
