//! The planner's view of the fleet, limited to what the actuator makes known.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mig::ProfileName;
use planner::demand::{Constraints, Evidence, Request};
use planner::inventory::{CountedSlice, Gpu, Hold, Inventory, Node, PlacedSlice, Room, Slices, Use};
use planner::names::{GpuIndex, NodeName, PodRef, RequestId};
use planner::plan::UnderWay;

use crate::actuator::Actuator;
use crate::fleet::{Fleet, FleetNode};
use crate::stage::Stage;
use crate::trace::Asked;
use crate::world::{self, World};

/// The label of every node, by which the policy selects it.
pub(crate) const POOL: &str = "slicewright.io/replay";

/// The moment that second 0 of a trace stands for: a Monday, at midnight. Only
/// windows of a policy look at it.
pub(crate) fn moment(second: i64) -> Timestamp {
    /// 2026-01-05T00:00:00Z.
    const MONDAY: i64 = 1_767_571_200;
    Timestamp::from_second(MONDAY + second).expect("a trace is bounded (trace::LAST_SECOND)")
}

/// The fleet as it is seen. A node that is changing is there as it will be; one
/// that can be taken back is there as if nothing had begun, as the operator
/// hands it to the planner.
pub(crate) fn inventory(
    world: &World,
    fleet: &Fleet,
    trace: &[Asked],
    actuator: Actuator,
    now: i64,
) -> Inventory {
    let nodes = world.nodes.iter().zip(&fleet.nodes);
    let holders = world.holders().map(|(holder, _)| &trace[holder].asker);
    Inventory {
        nodes: nodes
            .map(|(state, spec)| (spec.name.clone(), node(state, spec, trace, actuator, now)))
            .collect(),
        namespaces: holders.map(|asker| (asker.namespace.clone(), asker.labels.clone())).collect(),
        ..Inventory::default()
    }
}

fn node(state: &world::Node, spec: &FleetNode, trace: &[Asked], actuator: Actuator, now: i64) -> Node {
    let will_be = match &state.stage {
        Stage::Changing { target, .. } => Some(target),
        Stage::Rest | Stage::Mapping { .. } | Stage::Cordoned { .. } => None,
    };
    let hold = match state.rests_until {
        _ if will_be.is_some() => Some(Hold::Changing),
        Some(until) if until > now => Some(Hold::CoolingDown { until: moment(until) }),
        Some(_) | None => None,
    };
    // What every GPU has, or will have: profile, start, holder.
    let cuts: Vec<Vec<world::Slice>> = state
        .gpus
        .iter()
        .enumerate()
        .map(|(index, gpu)| {
            let mut slices = gpu.slices.clone();
            for (profile, start) in will_be.and_then(|target| target.get(&index)).into_iter().flatten() {
                if !slices.iter().any(|s| (s.profile, s.start) == (*profile, *start)) {
                    slices.push(world::Slice { profile: *profile, start: *start, holder: None });
                }
            }
            slices.sort_by_key(|slice| (slice.start, slice.profile));
            slices
        })
        .collect();
    let mut known = Known::new(&cuts, trace);
    let gpus = cuts.iter().zip(&spec.gpus).enumerate().map(|(index, (cut, spec))| {
        let slices = if actuator.sees_places() {
            Slices::Placed(cut.iter().map(|slice| placed(slice, trace)).collect())
        } else {
            Slices::Counted(cut.iter().map(|slice| known.next(slice.profile)).collect())
        };
        let gpu = Gpu { model: spec.model.clone(), geometry: Arc::clone(&spec.geometry), slices, hold: None };
        (GpuIndex(u16::try_from(index).expect("a node has few GPUs")), gpu)
    });
    let gpus = gpus.collect();
    Node {
        labels: BTreeMap::from([(POOL.to_owned(), String::new())]),
        single_strategy: false,
        shared: BTreeMap::new(),
        whole_held: 0,
        whole_shared: None,
        taints: Vec::new(),
        room: Room::UNLIMITED,
        other_resources: BTreeMap::new(),
        scope: actuator.scope(),
        hold,
        schedulable: true,
        allocated: known.allocated(),
        held: held(state, trace),
        gpus,
    }
}

/// The compute slices that each pod has on a node: they count for shares.
fn held(state: &world::Node, trace: &[Asked]) -> BTreeMap<PodRef, u32> {
    let mut held = BTreeMap::new();
    for (holder, profile) in state.holders() {
        *held.entry(pod(holder, &trace[holder])).or_default() += u32::from(profile.compute);
    }
    held
}

fn placed(slice: &world::Slice, trace: &[Asked]) -> PlacedSlice {
    let used = slice.holder.map_or(Use::Idle, |holder| Use::InUse { by: pod(holder, &trace[holder]) });
    PlacedSlice { profile: slice.profile, start: slice.start, used }
}

/// What the pods of a node prove of its slices where nobody looks: the rule of
/// `observe::usage`. Where no pod holds a profile its slices are idle, where
/// as many are held as there are each is in use, and else each may be.
struct Known {
    profiles: BTreeMap<ProfileName, OfProfile>,
}

#[derive(Default)]
struct OfProfile {
    exist: usize,
    holders: Vec<PodRef>,
    handed: usize,
}

impl Known {
    fn new(cuts: &[Vec<world::Slice>], trace: &[Asked]) -> Self {
        let mut profiles: BTreeMap<ProfileName, OfProfile> = BTreeMap::new();
        for slice in cuts.iter().flatten() {
            let of = profiles.entry(slice.profile).or_default();
            of.exist += 1;
            of.holders.extend(slice.holder.map(|holder| pod(holder, &trace[holder])));
        }
        profiles.values_mut().for_each(|of| of.holders.sort());
        Self { profiles }
    }

    fn next(&mut self, profile: ProfileName) -> CountedSlice {
        let of = self.profiles.get_mut(&profile).expect("every slice was counted");
        let at = of.handed;
        of.handed += 1;
        let used = if of.holders.is_empty() {
            Use::Idle
        } else if of.holders.len() == of.exist {
            Use::InUse { by: of.holders[at].clone() }
        } else {
            let mut by = of.holders.clone();
            by.dedup();
            Use::MaybeInUse { by }
        };
        CountedSlice { profile, used }
    }

    fn allocated(&self) -> BTreeMap<ProfileName, u32> {
        let held = self.profiles.iter().filter(|(_, of)| !of.holders.is_empty());
        held.map(|(profile, of)| (*profile, u32::try_from(of.holders.len()).expect("a node has few slices")))
            .collect()
    }
}

/// A request's pod. The line makes it one of its own: traces name pods twice.
fn pod(request: usize, asked: &Asked) -> PodRef {
    PodRef { namespace: asked.asker.namespace.clone(), name: format!("{}-{request}", asked.pod) }
}

/// What those that wait ask for, and which node was promised to some of them.
pub(crate) fn requests(
    waiting: &[usize],
    trace: &[Asked],
    promised: &BTreeMap<usize, NodeName>,
) -> Vec<Request> {
    let request = |at: &usize| {
        let asked = &trace[*at];
        let PodRef { namespace, name } = pod(*at, asked);
        Request {
            id: RequestId { kind: "Pod".to_owned(), namespace, name, ordinal: 0 },
            slices: BTreeMap::from([(asked.profile, asked.count)]),
            whole_gpus: 0,
            shared: BTreeMap::new(),
            priority: asked.asker.priority,
            since: moment(asked.from),
            namespace_labels: asked.asker.labels.clone(),
            constraints: Constraints::default(),
            takes: Room::NOTHING,
            evidence: Evidence::PendingPod,
            blocked_elsewhere: None,
            promised: promised.get(at).cloned(),
            finds: None,
            keeps_apart: BTreeMap::new(),
            together: planner::demand::Together::default(),
            refused: None,
        }
    };
    waiting.iter().map(request).collect()
}

/// What nodes were told to come to and can still be told otherwise.
pub(crate) fn under_way(world: &World, fleet: &Fleet) -> UnderWay {
    let mut under_way = UnderWay::default();
    for (node, spec) in world.nodes.iter().zip(&fleet.nodes) {
        for (gpu, cut) in node.stage.can_return().into_iter().flatten() {
            let index = GpuIndex(u16::try_from(*gpu).expect("a node has few GPUs"));
            under_way.gpus.insert((spec.name.clone(), index), cut.clone());
        }
    }
    under_way
}
