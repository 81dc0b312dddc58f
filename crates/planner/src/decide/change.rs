//! The world with one change: a field of a policy, a pod that ends, a hold that ends, more GPUs. Trials
//! plan with it (`trial`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mig::ProfileName;

use super::evict;
use super::group::Group;
use crate::inventory::{Gpu, Hold, Inventory, Node, Room, Slices, Use};
use crate::names::{GpuIndex, NodeName, PodRef, PolicyName};
use crate::offered::Offered;
use crate::policy::{Bounds, LayoutPolicy, Order, Policy, Share, Unrequested};
use crate::selector;

/// What to change in a policy.
#[derive(Clone, Debug)]
pub(super) struct PolicyChange {
    /// The policy.
    pub(super) policy: PolicyName,
    /// The field.
    pub(super) field: String,
    /// To what at least.
    pub(super) to: String,
    /// How many of those who are not served it serves, those who come first.
    pub(super) serves: usize,
}

/// A field of a policy that may stand in the way.
pub(super) struct Relaxation {
    /// The field.
    pub(super) field: String,
    /// What kind of field.
    pub(super) kind: Kind,
    policy: Policy,
    /// Of the slices, or whole GPUs, that it bounds.
    offered: Option<Offered>,
    share: Option<usize>,
}

/// What kind of field it is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A maximum.
    Max {
        /// Its value.
        now: u32,
    },
    /// A minimum.
    Min {
        /// Its value.
        now: u32,
    },
    /// A static layout.
    Layout,
}

impl Relaxation {
    /// The policy's layout with another value in the field; with `None`, as
    /// if the field were not there.
    pub(super) fn layout(&self, value: Option<u32>) -> LayoutPolicy {
        let mut layout = self.policy.layout.clone();
        match &mut layout {
            LayoutPolicy::DemandDriven { slices, shares, whole_gpus, .. } => {
                if let Some(share) = self.share.and_then(|share| shares.get_mut(share)) {
                    match self.kind {
                        Kind::Max { .. } => share.max = value,
                        Kind::Min { .. } => share.min = value.unwrap_or(0),
                        Kind::Layout => {}
                    }
                }
                let bounds = match self.offered {
                    Some(Offered::Slice(profile) | Offered::SharedSlice(profile)) => slices.get_mut(&profile),
                    Some(Offered::WholeGpu | Offered::SharedGpu) => whole_gpus.as_mut(),
                    None => None,
                };
                if let Some(bounds) = bounds {
                    match self.kind {
                        Kind::Max { .. } => bounds.max = value,
                        Kind::Min { .. } => bounds.min = value.unwrap_or(0),
                        Kind::Layout => {}
                    }
                }
                layout
            }
            LayoutPolicy::Static { .. } => LayoutPolicy::DemandDriven {
                namespaces: vec![],
                slices: BTreeMap::new(),
                unrequested: Unrequested::Keep,
                order: Order::MostServed,
                shares: vec![],
                whole_gpus: None,
            },
        }
    }
}

/// Ways to relax a policy for a group.
pub(super) fn relaxations(policy: &Policy, group: &Group<'_>) -> Vec<Relaxation> {
    let relaxation = |field: String, kind: Kind, offered: Option<Offered>| Relaxation {
        field,
        kind,
        policy: policy.clone(),
        offered,
        share: None,
    };
    let LayoutPolicy::DemandDriven { slices, shares, whole_gpus, .. } = &policy.layout else {
        // Without its rules a policy would offer no whole GPU at all.
        if group.whole > 0 {
            return vec![];
        }
        return vec![relaxation("spec.layout.static.gpus".to_owned(), Kind::Layout, None)];
    };
    let slices = slices.iter().map(|(profile, bounds)| (Offered::Slice(*profile), bounds));
    let all = slices.chain(whole_gpus.iter().map(|bounds| (Offered::WholeGpu, bounds)));
    let all: Vec<(Offered, &Bounds)> = all.collect();
    let is_asked = |offered: Offered| {
        group.wants().any(|(asked, _)| {
            asked == offered || asked.profile().is_some_and(|of| offered.slice() == Some(of))
        })
    };
    let asked = all.iter().filter(|(offered, _)| is_asked(*offered));
    let maxima = asked.filter_map(|(offered, bounds)| {
        let kind = Kind::Max { now: bounds.max? };
        Some(relaxation(offered.bound("maxCount"), kind, Some(*offered)))
    });
    let minima = all.iter().filter(|(_, bounds)| bounds.min > 0).map(|(offered, bounds)| {
        relaxation(offered.bound("minCount"), Kind::Min { now: bounds.min }, Some(*offered))
    });
    let bound = |position: usize, name: &str, kind: Kind| Relaxation {
        share: Some(position),
        ..relaxation(format!("spec.layout.demandDriven.shares[{position}].{name}"), kind, None)
    };
    // Of shares, the maximum of one's own is in the way, and the minimum of anybody's.
    let labels = group.requests.first().map(|request| &request.namespace_labels);
    let is_own = |share: &Share| labels.is_some_and(|labels| selector::matches(&share.namespaces, labels));
    let own = shares.iter().enumerate().filter(|(_, share)| is_own(share));
    let own = own.filter_map(|(i, share)| Some(bound(i, "maxComputeSlices", Kind::Max { now: share.max? })));
    let others = shares.iter().enumerate().filter(|(_, share)| share.min > 0);
    let others = others.map(|(i, share)| bound(i, "minComputeSlices", Kind::Min { now: share.min }));
    maxima.chain(own).chain(minima).chain(others).collect()
}

pub(super) fn profiles(group: &Group<'_>) -> String {
    let profiles = group.wants().filter_map(|(offered, _)| offered.profile());
    let profiles: Vec<String> = profiles.map(|profile| profile.to_string()).collect();
    profiles.join(" and ")
}

/// Whether something holds the node that may end by itself or by somebody's hand.
pub(super) fn is_liftable(node: &Node) -> bool {
    let holds = node.hold.iter().chain(node.gpus.values().filter_map(|gpu| gpu.hold.as_ref()));
    let liftable = |hold: &Hold| !matches!(hold, Hold::NoPolicy | Hold::HandsOff { .. });
    holds.clone().all(liftable) && (holds.count() > 0 || !node.schedulable)
}

pub(super) fn lift(node: &mut Node) {
    if is_liftable(node) {
        node.hold = None;
        node.schedulable = true;
        node.gpus.values_mut().for_each(|gpu| gpu.hold = None);
    }
}

pub(super) fn for_each_use(inventory: &mut Inventory, mut edit: impl FnMut(&mut Use)) {
    for gpu in inventory.nodes.values_mut().flat_map(|node| node.gpus.values_mut()) {
        gpu.slices.uses_mut().for_each(&mut edit);
    }
}

/// Slices of a GPU that pods hold, or may hold. What was promised is held by no
/// pod yet, so that there is none to wait for.
pub(super) fn held(gpu: &Gpu) -> Vec<(Option<ProfileName>, Vec<PodRef>)> {
    let slices = gpu.slices.iter().map(|slice| (Some(slice.profile), slice.used));
    let whole = gpu.slices.whole().map(|used| (None, used));
    let pods = |used: &Use| used.holders().iter().filter(|pod| !pod.namespace.is_empty()).cloned().collect();
    slices.chain(whole).map(|(profile, used)| (profile, pods(used))).collect()
}

/// The fleet once a pod has ended: what only it held is idle.
pub(super) fn without(inventory: &Inventory, pod: &PodRef) -> Inventory {
    let mut inventory = inventory.clone();
    let gone = BTreeSet::from([pod.clone()]);
    for node in inventory.nodes.values_mut() {
        let mut after = evict::without(node, &gone);
        forget_whose(node, &mut after, pod);
        *node = after;
    }
    inventory
}

/// Where slices are only counted, pods that hold equal ones are named in order: which of these slices is free when one of
/// the pods has ended is known of none of them.
fn forget_whose(before: &Node, after: &mut Node, gone: &PodRef) {
    let counted = |node: &Node| {
        let counted = node.gpus.values().filter(|gpu| matches!(gpu.slices, Slices::Counted(_)));
        let held = counted.flat_map(|gpu| gpu.slices.iter().map(|slice| (slice.profile, slice.used.clone())));
        held.collect::<Vec<_>>()
    };
    let is_gone = |used: &Use| matches!(used, Use::InUse { by } if by == gone);
    let given_back: BTreeSet<ProfileName> =
        counted(before).into_iter().filter(|(_, used)| is_gone(used)).map(|(profile, _)| profile).collect();
    let mut others: BTreeMap<ProfileName, BTreeSet<PodRef>> = BTreeMap::new();
    for (profile, used) in counted(after) {
        others.entry(profile).or_default().extend(used.holders().iter().cloned());
    }
    for gpu in after.gpus.values_mut() {
        let Slices::Counted(slices) = &mut gpu.slices else { continue };
        for slice in slices.iter_mut().filter(|slice| given_back.contains(&slice.profile)) {
            let by = others.get(&slice.profile).into_iter().flatten();
            let by: Vec<PodRef> = by.cloned().collect();
            slice.used = if by.is_empty() { Use::Idle } else { Use::MaybeInUse { by } };
        }
    }
}

/// The fleet and so many more GPUs, whole and idle, one on each of as many
/// nodes that are like a given one.
pub(super) fn with_gpus(inventory: &Inventory, like: &Node, gpu: &Gpu, count: usize) -> Inventory {
    let is_node = |value: &String| inventory.nodes.contains_key(&NodeName(value.clone()));
    let full = super::targets::full_size(&gpu.geometry);
    let slices = full.map(|profile| crate::inventory::PlacedSlice {
        profile: gpu.geometry.profile(profile).name,
        start: 0,
        used: Use::Idle,
    });
    let gpu = Gpu {
        model: gpu.model.clone(),
        geometry: Arc::clone(&gpu.geometry),
        slices: Slices::Placed(slices.into_iter().collect()),
        hold: None,
    };
    // A label whose value is the name of a node says which node it is (`kubernetes.io/hostname`): a new one is none of
    // these, and has none of their disks.
    let labels = like.labels.iter().filter(|(_, value)| !is_node(value));
    let labels: BTreeMap<_, _> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut inventory = inventory.clone();
    for i in 0..count {
        let node = Node {
            labels: labels.clone(),
            single_strategy: like.single_strategy,
            shared: like.shared.clone(),
            taints: like.taints.clone(),
            room: Room::UNLIMITED,
            other_resources: like.other_resources.clone(),
            scope: like.scope,
            hold: None,
            schedulable: true,
            allocated: BTreeMap::new(),
            whole_held: 0,
            whole_shared: like.whole_shared,
            held: BTreeMap::new(),
            gpus: BTreeMap::from([(GpuIndex(0), gpu.clone())]),
        };
        inventory.nodes.insert(new_node(i), node);
    }
    inventory
}

/// What the node of a GPU is called that is not there.
pub(super) fn new_node(i: usize) -> NodeName {
    NodeName(format!("~more-{i:05}"))
}
