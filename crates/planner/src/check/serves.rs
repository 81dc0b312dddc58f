//! Whether a step really serves its requests: each request once, on a node that it may use, with slices
//! that will exist and be free, each assigned once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mig::ProfileName;

use super::note::{Note, Problem};
use super::supply::{free_after, unit};
use crate::demand::Request;
use crate::eligible::{Eligibility, judge};
use crate::inventory::{ChangeScope, Node, Room, Slices};
use crate::names::RequestId;
use crate::offered::Offered;
use crate::plan::{GpuChange, NodeStep};
use crate::policy::{LayoutPolicy, Policy, StaticCut};
use crate::predicted_labels::LabelsAfter;
use crate::selector;

pub(super) struct Served<'a> {
    requests: HashMap<&'a RequestId, &'a Request>,
    done: BTreeSet<&'a RequestId>,
}

impl<'a> Served<'a> {
    pub(super) fn new(requests: &'a [Request]) -> Self {
        Self { requests: requests.iter().map(|r| (&r.id, r)).collect(), done: BTreeSet::new() }
    }

    pub(super) fn check(&mut self, step: &NodeStep, node: &Node, policy: &Policy, notes: &mut Vec<Note>) {
        if step.serves.is_empty() {
            return;
        }
        let labels = LabelsAfter::predict(node);
        let created = created(step, node);
        let mut needed: BTreeMap<Offered, u32> = BTreeMap::new();
        let mut takes = Room::ZERO;
        for id in &step.serves {
            let Some(request) = self.requests.get(id).copied() else {
                notes.push(Problem::UnknownRequest { request: id.clone() }.on(&step.node));
                continue;
            };
            let say = |problem: fn(RequestId) -> Problem| problem(id.clone()).on(&step.node);
            if !self.done.insert(&request.id) {
                notes.push(say(|request| Problem::ServedTwice { request }));
            }
            if request.whole_gpus > 0 && !may_have_whole(request, policy) {
                notes.push(say(|request| Problem::WholeGpu { request }));
            }
            if request.refused.is_some() {
                notes.push(say(|request| Problem::Refused { request }));
            }
            if request.blocked_elsewhere.is_some() {
                notes.push(Problem::BlockedElsewhere { request: id.clone() }.warn_on(&step.node));
            }
            if let LayoutPolicy::DemandDriven { namespaces, .. } = &policy.layout
                && !selector::matches(namespaces, &request.namespace_labels)
            {
                notes.push(say(|request| Problem::NotCounted { request }));
            }
            if !node.schedulable {
                notes.push(say(|request| Problem::Unschedulable { request }));
            }
            if let Eligibility::No { reason } = judge(request, &step.node, node, &labels) {
                notes.push(
                    Problem::NotEligible { request: id.clone(), reason: Arc::unwrap_or_clone(reason) }
                        .on(&step.node),
                );
            }
            let is_created = |offered| unit(node, offered).is_some_and(|(of, _)| created.contains(&of));
            if !wants(request).any(|(offered, count)| count > 0 && is_created(offered)) {
                notes.push(say(|request| Problem::NotByNewSlices { request }));
            }
            for (offered, count) in wants(request) {
                *needed.entry(offered).or_default() += count;
            }
            takes = takes.plus(request.takes, 1);
        }
        for (profile, needed) in needed {
            let free = free_after(step, node, profile);
            if needed > free {
                notes.push(Problem::SupplyExceeded { profile, needed, free }.on(&step.node));
            }
        }
        if exceeds(&takes, &node.room) {
            notes.push(Problem::RoomExceeded.on(&step.node));
        }
    }
}

/// Whether pods take more together than is free of something that they take at all: what others took
/// beyond what there is, is no matter to who asks for none of it.
pub(super) fn exceeds(takes: &Room, free: &Room) -> bool {
    let over = |takes: i64, free: i64| takes > 0 && takes > free;
    over(takes.cpu_milli, free.cpu_milli)
        || over(takes.memory_bytes, free.memory_bytes)
        || over(takes.storage_bytes, free.storage_bytes)
        || over(takes.pods, free.pods)
}

/// What a request asks for.
pub(super) fn wants(request: &Request) -> impl Iterator<Item = (Offered, u32)> {
    let slices = request.slices.iter().map(|(profile, count)| (Offered::Slice(*profile), *count));
    let seats = request.shared.iter().map(|(offered, count)| (*offered, *count));
    slices
        .chain([(Offered::WholeGpu, request.whole_gpus)].into_iter().filter(|(_, count)| *count > 0))
        .chain(seats)
}

/// Whether a request may have whole GPUs of this policy: it asks for nothing
/// else, and finds none where nothing has to change for it.
fn may_have_whole(request: &Request, policy: &Policy) -> bool {
    let offers = match &policy.layout {
        LayoutPolicy::DemandDriven { whole_gpus, .. } => whole_gpus.is_some(),
        LayoutPolicy::Static { gpus } => gpus.iter().any(|rule| matches!(rule.cut, StaticCut::MigOff)),
    };
    offers
        && request.finds.is_none()
        && request.slices.values().all(|count| *count == 0)
        && request.shared.values().all(|count| *count == 0)
}

/// The profiles of which the step adds slices to a GPU, or puts them elsewhere; and whole GPUs. Where slices are not
/// changed one by one, a GPU is emptied first, so all that it has afterwards is new.
fn created(step: &NodeStep, node: &Node) -> BTreeSet<Offered> {
    let mut created = BTreeSet::new();
    for GpuChange { gpu, after, .. } in &step.gpus {
        let kept: BTreeSet<(ProfileName, u8)> = match (node.gpus.get(gpu).map(|gpu| &gpu.slices), node.scope)
        {
            (Some(Slices::Placed(slices)), ChangeScope::SliceBySlice) => {
                slices.iter().map(|s| (s.profile, s.start)).collect()
            }
            _ => BTreeSet::new(),
        };
        created
            .extend(after.iter().filter(|s| !kept.contains(s)).map(|(profile, _)| Offered::Slice(*profile)));
        created.extend(after.is_empty().then_some(Offered::WholeGpu));
    }
    created
}
