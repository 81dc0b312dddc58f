//! The agents of nodes: the agent's own core (`slicewright-agent`) over the simulated GPUs, kubelet's books
//! and its healthy devices. Each slice takes the driver its time; looks and writes are done at once. The
//! plugin, kubelet and the operator take their time as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{
    Account, Act, Books, BootId, Device, DeviceId, Gate, GpuLayout, GpuState, GpuUuid, Listed, Look,
    NodeLayout, ObjectVersion, Observation, Place, PodUid, Recorded, Seen, Slice, SliceName, Step, Wish,
};
use api::node_agent::{self, AgentMode, Card, Identity};
use api::{GpuNode, GpuNodeSpec};
use gpu::{Caller, Nvml, NvmlError, Placement, Target};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::entry::Who;
use crate::host::Host;
use crate::store::path;
use crate::world::World;

/// Steps of one agent in one moment: more is a loop, not work.
const STEPS: usize = 100;
/// Where the agents' pods are.
const NAMESPACE: &str = "slicewright-agent";

/// The uid of an agent's pod.
fn pod_uid(node: &str) -> String {
    format!("uid-agent-{node}")
}

/// The pods of the agents.
pub(crate) fn pods(world: &World) -> Vec<Pod> {
    let with_agent = world.hosts.iter().filter(|(_, host)| host.agent.is_some() && host.node.ready());
    let pod = |name: &String| {
        let ready = if rests(world, name) { "False" } else { "True" };
        serde_json::from_value(json!({
            "metadata": {"namespace": NAMESPACE, "name": format!("agent-{name}"), "uid": pod_uid(name),
                "labels": {"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent",
                    "controller": true}]},
            "spec": {"nodeName": name, "containers": [{"name": "agent"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .expect("a pod is built from the parts of one")
    };
    with_agent.map(|(name, _)| pod(name)).collect()
}

/// Whether the agent leaves the driver closed: somebody else works on it, and no change of ours is under way.
fn rests(world: &World, name: &str) -> bool {
    let spec = world.gpu_nodes.get(name).map(|node| &node.spec);
    spec.is_some_and(|spec| spec.driver_in_use_by.is_some() && spec.change.is_none())
}

/// Every agent does what it has to do now.
pub(crate) fn act(world: &mut World) {
    let names: Vec<String> = world
        .hosts
        .iter()
        .filter(|(name, host)| host.agent.is_some() && host.node.ready() && !rests(world, name))
        .map(|(name, _)| name.clone())
        .collect();
    for name in names {
        for _ in 0..STEPS {
            let is_busy =
                world.hosts.get(&name).is_some_and(|host| host.process.busy_until(world.now).is_some());
            if is_busy || !step(world, &name) {
                break;
            }
        }
    }
}

/// One step of one agent; whether it did something.
fn step(world: &mut World, name: &str) -> bool {
    let Some(observation) = look(world, name) else { return false };
    let now = world.now;
    let Some(host) = world.hosts.get_mut(name) else { return false };
    match agent::next(&observation, &host.process.remembered) {
        Step::Rest | Step::Wait(_) | Step::Look => false,
        Step::Write { what: _, account, if_version: _ } => {
            host.process.remembered.wrote(&account);
            if observation.account.as_ref().and_then(|told| told.change.clone()) != account.change
                && let Some(change) = &account.change
            {
                let text = format!("the agent: {}", in_words(&change.stage));
                world.say(Who::Does(name.to_owned()), text);
            }
            write(world, name, &account);
            true
        }
        Step::Drive { act, slice } => {
            let turn = host.process.turn();
            let result = drive(host, act, &slice);
            host.process.waits_for_driver(now);
            let did = match act {
                Act::Destroy => "destroys",
                Act::Create => "creates",
            };
            let gpu = host.node.machine().gpus().iter().position(|gpu| gpu.uuid == slice.gpu.0).unwrap_or(0);
            let text = match &result {
                Ok(()) => format!("the agent {did} {} on gpu{gpu}", slice.place),
                Err(error) => format!("the agent cannot {act:?} {} on gpu{gpu}: {error}", slice.place),
            };
            match result {
                Ok(()) => host.process.remembered.did(act, &slice, turn),
                Err(error) => host.process.remembered.failed(act, &slice, &error, turn),
            }
            world.say(Who::Does(name.to_owned()), text);
            world.revision.0 += 1;
            true
        }
    }
}

fn in_words(stage: &agent::Stage) -> String {
    match stage {
        agent::Stage::Claimed => "takes the change over".to_owned(),
        agent::Stage::Restoring { why } => format!("puts back what it destroyed: {why}"),
        agent::Stage::Ended(agent::Outcome::Done) => "is done".to_owned(),
        agent::Stage::Ended(agent::Outcome::Restored { why }) => format!("has restored what was: {why}"),
        agent::Stage::Ended(agent::Outcome::Refused { why }) => format!("changes nothing: {why}"),
        agent::Stage::Ended(agent::Outcome::Left { why }) => format!("stops half-way: {why}"),
    }
}

/// What the agent of a node sees, in the order in which it has to look.
fn look(world: &mut World, name: &str) -> Option<Observation> {
    let World { hosts, gpu_nodes, pods, .. } = world;
    let host = hosts.get_mut(name)?;
    let (gate_turn, books_turn, layout_turn) =
        (host.process.turn(), host.process.turn(), host.process.turn());
    let layout = layout(host);
    let healthy: Vec<_> = host.node.healthy_devices().map(device).collect();
    host.node.list();
    let (mut listed, mut recorded) = (Vec::new(), Vec::new());
    for pod in host.node.pods().filter(|pod| pod.is_entered()) {
        let operands::PodName { namespace, name } = &pod.spec.name;
        let object = pods.get(&path(namespace, name))?;
        let uid = PodUid(object.metadata.uid.clone().unwrap_or_default());
        for (container, devices) in by_container(object, &pod.devices) {
            // `List` leaves out init containers that end before the others start; the checkpoint has them.
            if !ends_before_the_others(object, &container) {
                listed.push(Listed {
                    namespace: namespace.clone(),
                    pod: name.clone(),
                    container: container.clone(),
                    devices: devices.clone(),
                });
            }
            recorded.push(Recorded { pod: uid.clone(), container, devices });
        }
    }
    let object = gpu_nodes.get(name);
    let account = object.and_then(|node| node_agent::account(node.status.as_ref()?).ok().flatten());
    let wish = object.and_then(|node| node_agent::wish(node.spec.change.as_ref()?).ok());
    let has_begun = |wish: &Wish| account.as_ref().is_some_and(|told| told.stage(&wish.id).is_some());
    let wish = wish.filter(|wish| host.agent == Some(AgentMode::Change) || has_begun(wish));
    let version = object.and_then(|node| node.metadata.resource_version.clone()).unwrap_or_default();
    Some(Observation {
        me: PodUid(pod_uid(name)),
        boot: BootId(host.node.boot_id()),
        version: ObjectVersion(version),
        wish,
        account,
        look: Look {
            gate: Seen { turn: gate_turn, is: Gate::from_devices(Some(&healthy), &layout) },
            books: Seen { turn: books_turn, is: Books::join(Ok(&listed), Ok(&recorded)) },
            layout: Seen { turn: layout_turn, is: layout },
        },
    })
}

fn device((resource, id): (&String, &String)) -> Device {
    Device { resource: resource.clone(), id: DeviceId(id.clone()) }
}

/// Whether it is an init container that is no sidecar.
fn ends_before_the_others(pod: &Pod, container: &str) -> bool {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    inits.filter(|init| init.restart_policy.as_deref() != Some("Always")).any(|init| init.name == container)
}

/// The devices of a pod, handed out to its containers in their order.
fn by_container(pod: &Pod, devices: &BTreeMap<String, Vec<String>>) -> Vec<(String, Vec<Device>)> {
    let mut left: BTreeMap<&String, std::slice::Iter<'_, String>> =
        devices.iter().map(|(resource, ids)| (resource, ids.iter())).collect();
    let asked = pod.spec.as_ref().map(observe::pods::containers).unwrap_or_default();
    asked
        .into_iter()
        .map(|(container, asks)| {
            let mut mine = Vec::new();
            for (resource, n) in &asks {
                let ids = left.get_mut(resource).into_iter().flatten();
                mine.extend(ids.take(usize::try_from(*n).unwrap_or(0)).map(|id| device((resource, id))));
            }
            (container, mine)
        })
        .collect()
}

/// What the driver says.
fn layout(host: &Host) -> NodeLayout {
    let truth = host.node.truth();
    let gpu = |(gpu, truth): (&gpu::Gpu, &operands::GpuTruth)| {
        // A monitor's handle is no process that the driver lists.
        let is_busy = |id: u8| {
            let processes = host.node.machine().clients().filter(|(_, client)| client.activity.has_context());
            let mut targets = processes.map(|(_, client)| client.target);
            targets.any(|target| match target {
                Target::Gpu(_) => false,
                Target::GpuInstance(gpu, gi) | Target::ComputeInstance(gpu, gi, _) => {
                    (gpu, gi) == (truth.index, id)
                }
            })
        };
        let slice = |slice: &operands::SliceTruth| Slice {
            place: Place { profile: slice.profile, start: slice.start },
            devices: slice.uuid.iter().cloned().map(DeviceId).collect(),
            busy: is_busy(slice.gpu_instance),
        };
        let state = if truth.lost {
            GpuState::Silent { why: "GPU is lost".to_owned() }
        } else if truth.mig {
            GpuState::Cut(truth.slices.iter().map(slice).collect())
        } else {
            GpuState::Whole
        };
        GpuLayout { uuid: GpuUuid(gpu.uuid.clone()), state }
    };
    let mut gpus: Vec<_> = host.node.machine().gpus().iter().zip(&truth).map(gpu).collect();
    gpus.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    NodeLayout { gpus }
}

/// What the agent writes: `status.observed` and `status.agent`.
fn write(world: &mut World, name: &str, account: &Account) {
    let World { hosts, gpu_nodes, revision, now, .. } = world;
    let Some(host) = hosts.get(name) else { return };
    let truth = host.node.truth();
    let cards = host.node.machine().gpus().iter().zip(&truth).map(|(gpu, truth)| {
        let unhealthy = truth.lost.then(|| "it does not answer".to_owned());
        let index = u8::try_from(truth.index).unwrap_or(u8::MAX);
        (GpuUuid(gpu.uuid.clone()), Card { index, model: truth.model.clone(), unhealthy })
    });
    let mode = host.agent.unwrap_or(AgentMode::Report);
    let identity = Identity { version: "story".to_owned(), driver: None, mode };
    let Ok(observed) = node_agent::observed(account, &cards.collect(), *now) else { return };
    if gpu_nodes.get(name).is_none() {
        gpu_nodes.put(GpuNode::new(name, GpuNodeSpec::default()), *now, revision);
    }
    let agent = node_agent::agent_status(account, &identity, *now);
    gpu_nodes.edit(name, revision, |node| {
        let status = node.status.get_or_insert_default();
        let labels = status.observed.take().map(|seen| seen.labels).unwrap_or_default();
        status.observed = Some(api::gpu_node::Observed { labels, ..observed });
        status.agent = Some(agent);
    });
}

/// Asks the driver, through NVML on the simulated GPUs.
fn drive(host: &mut Host, act: Act, name: &SliceName) -> Result<(), String> {
    let SliceName { gpu: uuid, place: Place { profile, start } } = name;
    let found = host.node.machine().gpus().iter().position(|gpu| gpu.uuid == uuid.0);
    let index = found.and_then(|at| u16::try_from(at).ok()).ok_or_else(|| format!("there is no {uuid}"))?;
    let model = host.node.machine().gpu(index).map(|gpu| Arc::clone(&gpu.model));
    let facts = model.and_then(|model| model.mig.clone()).ok_or_else(|| format!("{uuid} cannot be cut"))?;
    let mut nvml = host.node.machine_mut().nvml(Caller::Root);
    let result = match act {
        Act::Destroy => destroy(&mut nvml, index, *start),
        Act::Create => {
            let id = facts.named(*profile).ok_or_else(|| format!("{uuid} has no {profile}"))?;
            let size = facts.geometry.profiles().iter().find(|p| p.name == *profile).map_or(0, |p| p.size);
            create(&mut nvml, index, id.id, Placement { start: *start, size })
        }
    };
    result.map_err(|error| error.to_string())
}

fn destroy(nvml: &mut Nvml<'_>, gpu: u16, start: u8) -> Result<(), NvmlError> {
    let device = nvml.device_handle_by_index(gpu)?;
    let instance = instance_at(nvml, device, start).ok_or(NvmlError::NotFound)?;
    for compute in nvml.compute_instances(instance)? {
        nvml.destroy_compute_instance(compute)?;
    }
    nvml.destroy_gpu_instance(instance)
}

/// The GPU instance that starts here.
fn instance_at(nvml: &mut Nvml<'_>, device: gpu::Device, start: u8) -> Option<gpu::InstanceHandle> {
    (0..=u8::MAX).find_map(|id| {
        let instance = nvml.gpu_instance_by_id(device, id).ok()?;
        let info = nvml.gpu_instance_info(instance).ok()?;
        (info.placement.start == start).then_some(instance)
    })
}

fn create(nvml: &mut Nvml<'_>, gpu: u16, profile: u32, at: Placement) -> Result<(), NvmlError> {
    let device = nvml.device_handle_by_index(gpu)?;
    let instance = match instance_at(nvml, device, at.start) {
        // What could not be destroyed has lost its compute instance, and gets it back.
        Some(there) if nvml.compute_instances(there)?.is_empty() => there,
        _ => nvml.create_gpu_instance_with_placement(device, profile, at)?,
    };
    // The compute instance that spans all of it is the last of its profiles.
    let (whole, _) = nvml
        .compute_instance_profiles(instance)?
        .into_iter()
        .max_by_key(|(p, _)| p.slices)
        .ok_or(NvmlError::NotSupported)?;
    nvml.create_compute_instance(instance, whole.id).map(|_| ())
}
