//! What the agent of a node says, and how far it is believed: its layout in the boot in which it was seen;
//! who holds what only while the agent lives. The API server decides whether a pod has ended: a slice of a
//! uid that is gone is idle, whatever kubelet's books still say.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Account, ChangeId, Container, DeviceId, GpuUuid, PodLife, PodUid, Stage};
use api::GpuNode;
use api::gpu_node::{Observed, ObservedBy, ObservedGpu, ObservedSlice, PodName, SliceUse};
use api::node_agent::{self, AgentMode, AgentStatus, Holder, NodeChange};
use k8s_openapi::api::core::v1::Node;
use planner::names::{GpuIndex, PodRef};
use rollout::observed::PodPhase;
use rollout::{AgentSeen, GpuLayout, NodeLayout, Progress, Report, SliceChange};

use crate::on_node::Bound;
use crate::{layouts, names, node_labels};

/// What is seen of the agent of a node.
#[derive(Clone, Debug)]
pub(crate) struct Agent<'a> {
    observed: &'a Observed,
    account: Account,
    /// Whether the pod that wrote it is there and ready, in the present boot, and
    /// is an agent of ours. Where the admission policy is missing, the agent of any
    /// node can have written it, so that none counts as alive.
    pub alive: bool,
    /// Whether nothing keeps another node's agent from having written it.
    unguarded: bool,
    /// Whether it changes slices.
    pub changes: bool,
    /// Whether somebody wants MIG manager to have the node: the agent begins
    /// nothing there any more, and ends what it has begun.
    pub gives_back: bool,
    change: Option<&'a NodeChange>,
}

/// The agent of a node; `None` where none ever wrote, or where what it wrote
/// cannot be read: then nothing of it is believed.
pub(crate) fn read<'a>(
    node: &Node,
    gpu_node: Option<&'a GpuNode>,
    pods: &[Bound<'_>],
    unguarded: bool,
) -> Option<Agent<'a>> {
    let gpu_node = gpu_node?;
    let status = gpu_node.status.as_ref()?;
    let AgentStatus { pod_uid, boot_id, mode, .. } = status.agent.as_ref()?;
    let observed = status.observed.as_ref()?;
    let account = node_agent::account(status).ok().flatten()?;
    let boot = layouts::boot(node);
    let is_its_pod = |pod: &Bound<'_>| {
        pod.is_agent
            && pod.seen.uid == *pod_uid
            && pod.seen.ready
            && !pod.seen.terminating
            && pod.seen.phase != PodPhase::Ended
    };
    let alive = !unguarded
        && observed.by == ObservedBy::Agent
        && boot == Some(boot_id.as_str())
        && observed.boot_id.as_ref() == Some(boot_id)
        && pods.iter().any(is_its_pod);
    Some(Agent {
        observed,
        account,
        alive,
        unguarded,
        changes: *mode == AgentMode::Change,
        gives_back: node.metadata.labels.as_ref().is_some_and(node_labels::is_wanted_back),
        change: gpu_node.spec.change.as_ref(),
    })
}

/// What any agent has reported of a node, for the one who takes it back.
pub(crate) fn report(node: &Node, gpu_node: Option<&GpuNode>, pods: &[Bound<'_>]) -> Option<Report> {
    let status = gpu_node?.status.as_ref()?;
    let observed = status.observed.as_ref().filter(|observed| observed.by == ObservedBy::Agent);
    let has_reported = status.agent.is_some() || observed.is_some();
    let boot = layouts::boot(node);
    let of_this_boot = observed.filter(|seen| boot.is_some() && seen.boot_id.as_deref() == boot);
    has_reported.then(|| Report {
        layout: of_this_boot.and_then(in_counts),
        has_left: !pods.iter().any(|pod| pod.is_agent && pod.seen.phase != PodPhase::Ended),
    })
}

/// Whether MIG manager has cut the GPUs anew since an agent that is away now has seen them: the node's label names a
/// layout that was verified in this boot after the report, and the report says otherwise. (Where both say the same, the
/// report is as good as it was: it has the places, too.)
pub(crate) fn is_outdated(
    node: &Node,
    report: Option<&Report>,
    agent: &Agent<'_>,
    progress: &Progress,
) -> bool {
    let Some(verified) = &progress.verified else { return false };
    let observed = agent.observed;
    let boot = layouts::boot(node);
    // What an agent was told to change, only an agent knows.
    let is_of_manager = verified.slices.is_empty()
        && progress.target.as_ref().is_none_or(|target| target.slices.is_none())
        && layouts::label(node, names::MIG_CONFIG) == Some(verified.label.as_str());
    let is_newer = verified.at > observed.at && boot == Some(verified.boot_id.as_str());
    let reported = report.and_then(|report| report.layout.as_ref());
    let says_otherwise = reported.is_some_and(|layout| *layout != verified.layout);
    !agent.alive && is_of_manager && is_newer && says_otherwise
}

/// What is reported, in counts; `None` where that is not all.
fn in_counts(observed: &Observed) -> Option<NodeLayout> {
    let gpu = |gpu: &ObservedGpu| {
        let cut = match gpu.mig_enabled {
            false => GpuLayout::Off,
            true => {
                let profiles = gpu.slices.iter().map(|slice| slice.profile.parse().ok());
                GpuLayout::from_profiles(profiles.collect::<Option<Vec<_>>>()?)
            }
        };
        let known = gpu.driver_error.is_none();
        Some((GpuIndex(u16::try_from(gpu.index).ok()?), cut)).filter(|_| known)
    };
    observed.gpus.iter().map(gpu).collect::<Option<_>>().map(NodeLayout)
}

impl Agent<'_> {
    /// Why nothing can be said about who holds what, if that is so.
    pub(crate) fn doubt(&self) -> Option<String> {
        let unreadable = self.account.known.books.unreadable()?;
        Some(format!("the agent of the node cannot say who holds which slice: {unreadable}"))
    }

    /// What kubelet gave to two pods that both live, in words. Nobody takes it from either.
    pub(crate) fn given_twice(&self, pods: &[Bound<'_>]) -> Vec<String> {
        let live = Live::new(pods);
        let doubts = self.observed.doubts.iter();
        let twice: BTreeSet<_> = doubts.flat_map(|doubts| &doubts.held_twice).map(|id| device(id)).collect();
        let whole = |gpu: &ObservedGpu| {
            let is_twice = gpu.uuid.as_deref().is_some_and(|uuid| twice.contains(&DeviceId(uuid.to_owned())));
            is_twice.then(|| (format!("GPU {}", gpu.index), live.all(&gpu.holders)))
        };
        let slice = |slice: &ObservedSlice, gpu: &ObservedGpu| {
            let is_twice = slice.devices.iter().any(|id| twice.contains(&device(id)));
            let at = slice.start.map(|start| format!(" at {start}")).unwrap_or_default();
            let what = || format!("the slice {}{at} of GPU {}", slice.profile, gpu.index);
            is_twice.then(|| (what(), live.all(&slice.holders)))
        };
        let of = |gpu| whole(gpu).into_iter().chain(gpu.slices.iter().filter_map(move |one| slice(one, gpu)));
        let found = self.observed.gpus.iter().flat_map(of).filter(|(_, pods)| pods.len() > 1);
        let in_words = |(what, pods): (String, BTreeSet<PodRef>)| {
            let pods: Vec<_> = pods.iter().map(ToString::to_string).collect();
            format!(
                "kubelet has given {what} to more than one pod, to {}. Nobody takes it from them: delete all of them \
                 but one, so that each gets its own (kubernetes#137534)",
                pods.join(" and to ")
            )
        };
        found.map(in_words).collect()
    }

    /// The GPUs with who holds them now, by these pods.
    pub(crate) fn gpus(&self, pods: &[Bound<'_>]) -> BTreeMap<i32, ObservedGpu> {
        let live = Live::new(pods);
        let unknown = self.observed.doubts.iter().flat_map(|doubts| &doubts.unknown_devices);
        let strangers: BTreeSet<PodRef> =
            unknown.flat_map(|device| live.all(&device.holders).into_iter()).collect();
        let gpu = |gpu: &ObservedGpu| ObservedGpu {
            held_by: live.all(&gpu.holders).iter().map(pod_name).collect(),
            unhealthy: gpu.driver_error.clone().or_else(|| gpu.unhealthy.clone()),
            slices: gpu.slices.iter().map(|slice| live.slice(slice, gpu, &strangers)).collect(),
            ..gpu.clone()
        };
        self.observed.gpus.iter().map(|seen| (seen.index, gpu(seen))).collect()
    }

    /// The GPUs that the slices of a pod are on, where the books have all that
    /// it asked for. A pod keeps its slices as long as it lives.
    pub(crate) fn gpus_of(&self, pod: &Bound<'_>) -> Option<BTreeSet<GpuIndex>> {
        let container = |(name, asks): &(String, BTreeMap<String, u64>)| Container {
            name: name.clone(),
            asks: asks.clone(),
        };
        let asked = agent::Pod {
            uid: PodUid(pod.seen.kubelet_uid.clone()),
            name: pod.seen.pod.to_string(),
            life: PodLife::Live,
            is_plugin: false,
            containers: pod.seen.containers.iter().map(container).collect(),
        };
        if asked.containers.is_empty() {
            return None;
        }
        let uuids = agent::prove::gpus_of(&asked, &self.account)?;
        let known = self.indices();
        let index = |uuid: &GpuUuid| known.iter().find(|(_, known)| *known == uuid).map(|(index, _)| *index);
        uuids.iter().map(index).collect()
    }

    fn indices(&self) -> BTreeMap<GpuIndex, GpuUuid> {
        let gpu =
            |gpu: &ObservedGpu| Some((GpuIndex(u16::try_from(gpu.index).ok()?), GpuUuid(gpu.uuid.clone()?)));
        self.observed.gpus.iter().filter_map(gpu).collect()
    }

    /// Whether it has ended this change, however.
    pub(crate) fn has_ended(&self, change: &SliceChange) -> bool {
        matches!(self.account.stage(&ChangeId(change.id.clone())), Some(Stage::Ended(_)))
    }

    /// Whether it has claimed what it is told to do, and has not ended it.
    pub(crate) fn is_at_work(&self) -> bool {
        let stage = self.change.and_then(|change| self.account.stage(&ChangeId(change.id.clone())));
        matches!(stage, Some(Stage::Claimed | Stage::Restoring { .. }))
    }

    /// The agent as the rollout takes it.
    pub(crate) fn seen(&self) -> AgentSeen {
        AgentSeen {
            alive: self.alive,
            unguarded: self.unguarded,
            begins: self.changes,
            account: self.account.clone(),
            wish: self.change.and_then(|change| node_agent::wish(change).ok()),
            gpus: self.indices(),
        }
    }
}

/// The device of which this is the id, or the id of a share.
fn device(id: &str) -> DeviceId {
    DeviceId(id.to_owned()).unshared()
}

/// The pods of a node that can still have something.
struct Live<'a> {
    by_uid: BTreeMap<&'a str, BTreeSet<&'a PodRef>>,
    names: BTreeSet<&'a PodRef>,
}

impl<'a> Live<'a> {
    fn new(pods: &'a [Bound<'_>]) -> Self {
        let live = || pods.iter().filter(|pod| pod.seen.phase != PodPhase::Ended);
        let mut by_uid: BTreeMap<&str, BTreeSet<&PodRef>> = BTreeMap::new();
        for pod in live() {
            by_uid.entry(pod.seen.kubelet_uid.as_str()).or_default().insert(&pod.seen.pod);
        }
        // The API server's own uids come last: what a pod says to mirror takes the place of no other pod.
        for pod in live() {
            by_uid.insert(pod.seen.uid.as_str(), BTreeSet::from([&pod.seen.pod]));
        }
        by_uid.remove("");
        Self { by_uid, names: live().map(|pod| &pod.seen.pod).collect() }
    }

    fn by_uid(&self, holders: &[Holder]) -> BTreeSet<PodRef> {
        let pods = |holder: &Holder| self.by_uid.get(holder.uid.as_deref()?);
        holders.iter().filter_map(pods).flatten().map(|pod| (*pod).clone()).collect()
    }

    /// Whom the books name: a pod of that name may be another one by now, and
    /// counts all the same.
    fn all(&self, holders: &[Holder]) -> BTreeSet<PodRef> {
        let pod = |holder: &Holder| {
            let pod = PodRef { namespace: holder.namespace.clone()?, name: holder.pod.clone()? };
            self.names.contains(&pod).then_some(pod)
        };
        let mut pods = self.by_uid(holders);
        pods.extend(holders.iter().filter_map(pod));
        pods
    }

    fn slice(&self, slice: &ObservedSlice, gpu: &ObservedGpu, strangers: &BTreeSet<PodRef>) -> ObservedSlice {
        let holders = || slice.holders.iter().chain(&gpu.holders).cloned().collect::<Vec<_>>();
        let (sure, all) = (self.by_uid(&holders()), self.all(&holders()));
        let (used, by) = if !sure.is_empty() {
            (SliceUse::InUse, sure)
        } else if !all.is_empty() || slice.unexplained {
            (SliceUse::MaybeInUse, all)
        } else if !strangers.is_empty() {
            (SliceUse::MaybeInUse, strangers.clone())
        } else {
            (SliceUse::Idle, BTreeSet::new())
        };
        ObservedSlice { used, by: by.iter().map(pod_name).collect(), ..slice.clone() }
    }
}

fn pod_name(pod: &PodRef) -> PodName {
    PodName { namespace: pod.namespace.clone(), name: pod.name.clone() }
}
