//! Whether a step really serves its requests: each request once, on a node that it may use, with slices
//! that will exist and be free, each assigned once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mig::ProfileName;

use super::bounds::count;
use super::note::{Note, Problem};
use crate::demand::Request;
use crate::eligible::{Eligibility, judge};
use crate::inventory::{ChangeScope, Gpu, Node, Slices, Use};
use crate::names::{PodRef, RequestId};
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
        let (mut cpu, mut memory, mut storage, mut pods) = (0_i64, 0_i64, 0_i64, 0_i64);
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
                notes.push(Problem::NotEligible { request: id.clone(), reason }.on(&step.node));
            }
            let is_created = |offered| unit(node, offered).is_some_and(|(of, _)| created.contains(&of));
            if !wants(request).any(|(offered, count)| count > 0 && is_created(offered)) {
                notes.push(say(|request| Problem::NotByNewSlices { request }));
            }
            for (offered, count) in wants(request) {
                *needed.entry(offered).or_default() += count;
            }
            cpu = cpu.saturating_add(request.takes.cpu_milli);
            memory = memory.saturating_add(request.takes.memory_bytes);
            storage = storage.saturating_add(request.takes.storage_bytes);
            pods = pods.saturating_add(request.takes.pods);
        }
        for (profile, needed) in needed {
            let free = free_after(step, node, profile);
            if needed > free {
                notes.push(Problem::SupplyExceeded { profile, needed, free }.on(&step.node));
            }
        }
        let over = |takes: i64, free: i64| takes > 0 && takes > free;
        if over(cpu, node.room.cpu_milli)
            || over(memory, node.room.memory_bytes)
            || over(storage, node.room.storage_bytes)
            || over(pods, node.room.pods)
        {
            notes.push(Problem::RoomExceeded.on(&step.node));
        }
    }
}

/// What a request asks for.
pub(super) fn wants(request: &Request) -> impl Iterator<Item = (Offered, u32)> {
    let slices = request.slices.iter().map(|(profile, count)| (Offered::Slice(*profile), *count));
    let seats = request.shared.iter().map(|(offered, count)| (*offered, *count));
    slices
        .chain([(Offered::WholeGpu, request.whole_gpus)].into_iter().filter(|(_, count)| *count > 0))
        .chain(seats)
}

/// What stands behind a resource on a node, and how many pods have one of it;
/// nothing, where the node does not offer it by that name.
pub(super) fn unit(node: &Node, offered: Offered) -> Option<(Offered, u32)> {
    let sharing = offered.profile().and_then(|profile| node.shared.get(&profile));
    match (offered, sharing) {
        (Offered::WholeGpu, _) | (Offered::Slice(_), None) => Some((offered, 1)),
        (Offered::Slice(_), Some(sharing)) => (!sharing.renamed).then_some((offered, sharing.replicas)),
        (Offered::SharedSlice(profile), Some(sharing)) => {
            sharing.renamed.then_some((Offered::Slice(profile), sharing.replicas))
        }
        (Offered::SharedSlice(_), None) | (Offered::SharedGpu, _) => None,
    }
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

/// Slices of a profile on a GPU as it is, with their use; or the use of the GPU where MIG is off.
pub(super) fn uses_of(gpu: &Gpu, offered: Offered) -> Vec<&Use> {
    match offered {
        Offered::Slice(profile) | Offered::SharedSlice(profile) => {
            gpu.slices.iter().filter(|slice| slice.profile == profile).map(|slice| slice.used).collect()
        }
        Offered::WholeGpu | Offered::SharedGpu => gpu.slices.whole().into_iter().collect(),
    }
}

/// How many its pods hold, as the node counts them; none where it does not say.
fn counted(node: &Node, offered: Offered) -> Option<u32> {
    match offered {
        Offered::Slice(profile) | Offered::SharedSlice(profile) => node.allocated.get(&profile).copied(),
        Offered::WholeGpu | Offered::SharedGpu => Some(node.whole_held),
    }
}

/// How many slices of a profile, seats of them, or whole GPUs, are there, and held by nobody.
pub(super) fn free_now(node: &Node, offered: Offered) -> u32 {
    let Some((offered, seats)) = unit(node, offered) else { return 0 };
    let seats = seats as usize;
    let all: Vec<&Use> = node.gpus.values().flat_map(|gpu| uses_of(gpu, offered)).collect();
    let busy = all.iter().filter(|used| !used.is_idle()).count();
    let sure = all.iter().filter(|used| matches!(used, Use::InUse { .. })).count();
    let held = counted(node, offered).map_or(busy * seats, |n| (n as usize).clamp(sure, busy * seats));
    u32::try_from(all.len() * seats - held).unwrap_or(u32::MAX)
}

/// How many slices of a profile, seats of them, or whole GPUs, the node will have free after
/// the step: all that it will have, less those that its pods hold and keep.
pub(super) fn free_after(step: &NodeStep, node: &Node, offered: Offered) -> u32 {
    let Some((offered, seats)) = unit(node, offered) else { return 0 };
    let evicted: BTreeSet<&PodRef> = step.evicts.iter().collect();
    let (mut total, mut in_use, mut given_back, mut still) = (0_u32, 0_u32, 0_u32, 0_u32);
    let (mut sure, mut maybe) = (BTreeSet::new(), BTreeSet::new());
    for (index, gpu) in &node.gpus {
        let now = uses_of(gpu, offered);
        for used in &now {
            match used {
                Use::Idle => {}
                Use::InUse { by } => {
                    in_use += 1;
                    if evicted.contains(by) {
                        given_back += 1;
                        sure.insert(by);
                    } else {
                        still += 1;
                    }
                }
                Use::MaybeInUse { by } => {
                    maybe.extend(by.iter().filter(|pod| evicted.contains(pod)));
                    still += u32::from(by.is_empty() || by.iter().any(|pod| !evicted.contains(pod)));
                }
            }
        }
        let change = step.gpus.iter().find(|change| change.gpu == *index);
        let here = u32::try_from(now.len()).unwrap_or(u32::MAX);
        total += change.map_or(here, |change| count(change, offered));
    }
    let total = total.saturating_mul(seats);
    let held = counted(node, offered).unwrap_or(0).max(in_use);
    // Whoever may hold one gives one back, unless it is counted already.
    let given_back = given_back + u32::try_from(maybe.difference(&sure).count()).unwrap_or(u32::MAX);
    if given_back == 0 {
        return total.saturating_sub(held);
    }
    // No more are held than somebody who stays may hold.
    total.saturating_sub(held.saturating_sub(given_back).min(still.saturating_mul(seats)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GpuIndex;
    use crate::testing::{GpuBuilder, NodeBuilder, a100, node, pod, profile};

    fn step(evicts: &[&str], gpus: Vec<GpuChange>) -> NodeStep {
        NodeStep {
            node: "ridge".into(),
            policy: "research".into(),
            gpus,
            enable_mig: false,
            evicts: evicts.iter().map(|name| pod(name)).collect(),
            serves: vec![],
        }
    }

    /// A GPU that is cut into these, wherever the driver puts them.
    fn cut(gpu: u16, before: GpuBuilder, after: &[&str]) -> GpuChange {
        let before = before.build();
        GpuChange {
            gpu: GpuIndex(gpu),
            model: before.model,
            before: before.slices,
            after: after.iter().zip(0..).map(|(name, start)| (profile(name), start)).collect(),
            creation_order: None,
        }
    }

    #[track_caller]
    fn check(node: NodeBuilder, step: &NodeStep, expect: u32) {
        assert_eq!(free_after(step, &node.build(), Offered::Slice(profile("1g.10gb"))), expect);
    }

    #[test]
    fn what_pods_hold_and_keep_is_not_free() {
        let nothing = step(&[], vec![]);
        let held =
            || a100().counted("1g.10gb", 4).counted_used("1g.10gb", "ada").counted_used("1g.10gb", "bob");
        check(node().gpu(held()), &nothing, 4);
        check(node().gpu(held()).gpu(held()), &nothing, 8);
        // The node counts more as held than its slices say, or fewer: the greater counts.
        check(node().gpu(held()).allocated("1g.10gb", 5), &nothing, 1);
        check(node().gpu(held()).allocated("1g.10gb", 0), &nothing, 4);
        check(node().gpu(held()).allocated("1g.10gb", 9), &nothing, 0);
        // Another profile's holders hold none of these.
        check(node().gpu(held()).gpu(a100().counted_used("3g.40gb", "eve")), &nothing, 4);
    }

    #[test]
    fn what_is_cut_anew_counts_as_it_will_be() {
        let idle = || a100().counted("3g.40gb", 2);
        let held = || a100().counted("1g.10gb", 1).counted_used("1g.10gb", "ada");
        let to_five = step(&[], vec![cut(0, idle(), &["1g.10gb"; 5])]);
        check(node().gpu(idle()).gpu(held()), &to_five, 6);
        let to_none = step(&[], vec![cut(1, held(), &["3g.40gb"])]);
        check(node().gpu(idle()).gpu(held()), &to_none, 0);
    }

    #[test]
    fn who_is_evicted_gives_back_what_it_holds_for_certain() {
        let held = || {
            let gpu = a100().counted("1g.10gb", 1);
            gpu.counted_used("1g.10gb", "ada").counted_used("1g.10gb", "ada").counted_used("1g.10gb", "bob")
        };
        check(node().gpu(held()), &step(&["ada"], vec![]), 3);
        check(node().gpu(held()), &step(&["bob"], vec![]), 2);
        check(node().gpu(held()), &step(&["ada", "bob"], vec![]), 4);
        check(node().gpu(held()), &step(&["eve"], vec![]), 1);
        // On two GPUs, two of each.
        check(node().gpu(held()).gpu(held()), &step(&["ada"], vec![]), 6);
        // Of those that the node counts and no slice names, none is given back,
        // unless nobody who stays could hold it.
        check(node().gpu(held()).allocated("1g.10gb", 4), &step(&["bob"], vec![]), 2);
    }

    #[test]
    fn who_may_hold_one_gives_back_one_at_least() {
        // Two of three are held, nobody knows which: one by ada, one by bob.
        let maybe = || a100().counted_maybe("1g.10gb", 3, &["ada", "bob"]);
        check(node().gpu(maybe()), &step(&[], vec![]), 1);
        check(node().gpu(maybe()), &step(&["ada"], vec![]), 2);
        check(node().gpu(maybe()), &step(&["ada", "bob"], vec![]), 3);
        // Whoever holds one for certain and may hold another is counted once.
        let both = || a100().counted_used("1g.10gb", "ada").counted_maybe("1g.10gb", 3, &["ada", "bob"]);
        check(node().gpu(both()).allocated("1g.10gb", 3), &step(&["ada"], vec![]), 2);
        // One that may be held, nobody can say by whom, stays held.
        let nobody = || a100().counted_used("1g.10gb", "ada").counted_maybe("1g.10gb", 1, &[]);
        check(node().gpu(nobody()).allocated("1g.10gb", 2), &step(&["ada"], vec![]), 1);
        // No more are held than somebody who stays may hold: what the node counts
        // beyond that was of those who go.
        let all = || a100().counted_maybe("1g.10gb", 2, &["ada"]);
        check(node().gpu(all()).allocated("1g.10gb", 2), &step(&["ada"], vec![]), 2);
    }
}
