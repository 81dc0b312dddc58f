//! What was promised: slices of a node that are kept for somebody until its pod has a node.
//!
//! A promise comes before everything that is planned. The slices of it count as taken, and nothing on its
//! node changes: the pod can bind at any moment, and must find the node as it was told. So what is planned
//! is planned for the fleet without these slices and without these requests.
//!
//! A promise is broken by what is not as it was (the node takes no pods, the slice is gone), and by a higher
//! priority: if somebody of a higher priority could not be served otherwise. Of several promises those are
//! kept first that were made to a higher priority, then to the older request: each that can be kept beside
//! them without anybody of a higher priority getting less, or where the contrary is not proved (`yields`). The
//! report says which was broken, and why.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;

use super::choose::choose;
use super::evict::Evictions;
use super::group::{counts, is_planned};
use super::memo::Memo;
use super::world::{free_seats, whole_somewhere};
use super::yields::{Gets, Promised, yielding};
use crate::assign;
use crate::demand::Request;
use crate::eligible::{Eligibility, judge};
use crate::inventory::{Hold, Inventory, Node, Slices, Use};
use crate::names::{GpuId, GpuIndex, NodeName, PodRef, RequestId};
use crate::offered::Offered;
use crate::plan::UnderWay;
use crate::policy::{Drain, LayoutPolicy, Policy, StaticCut, rule_for};
use crate::predicted_labels::LabelsAfter;
use crate::report::{Broken, BrokenPromise, Outcome, Report, RequestReport};
use crate::solver::SolveError;

/// What is kept, and what is left to plan with.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    /// The fleet without the slices that are kept.
    pub(super) inventory: Inventory,
    /// The requests without those for whom they are kept.
    pub(super) requests: Vec<Request>,
    kept: Vec<Kept>,
    broken: BTreeMap<RequestId, BrokenPromise>,
}

/// A promise that is kept.
#[derive(Clone, Debug)]
struct Kept {
    request: Request,
    node: NodeName,
    gpus: Vec<(GpuId, String, Offered)>,
}

/// Whether anything is promised to anybody.
pub(super) fn are_made(requests: &[Request]) -> bool {
    requests.iter().any(|request| request.promised.is_some() && is_planned(request))
}

impl Promises {
    /// Keeps every promise that can be kept, and that a higher priority does not need.
    ///
    /// # Errors
    /// If there is no plan at all.
    pub(super) fn new(
        inventory: &Inventory,
        requests: &[Request],
        policies: &[Policy],
        under_way: &UnderWay,
        memo: &mut Memo,
    ) -> Result<Self, SolveError> {
        let keep = |given_up: &BTreeSet<&RequestId>| Self::keep(inventory, requests, policies, given_up);
        let all = keep(&BTreeSet::new());
        if !all.may_yield() {
            return Ok(all);
        }
        let could_be_kept: Vec<Promised<'_>> = all
            .kept
            .iter()
            .map(|kept| Promised { to: &kept.request.id, priority: kept.request.priority })
            .collect();
        let given_up = yielding(&could_be_kept, |given_up| {
            let Self { inventory, requests, .. } = &keep(given_up);
            Ok(Gets::from_chosen(&choose(inventory, requests, policies, under_way, memo)?))
        })?;
        Ok(keep(&given_up))
    }

    /// Keeps every promise that can be kept, whoever needs it.
    pub(super) fn all(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> Self {
        Self::keep(inventory, requests, policies, &BTreeSet::new())
    }

    /// For whom something is kept, and on which nodes.
    pub(super) fn kept(&self) -> impl Iterator<Item = (&RequestId, &NodeName)> {
        self.kept.iter().map(|kept| (&kept.request.id, &kept.node))
    }

    /// Keeps what can be kept, beside what is given up.
    fn keep(
        inventory: &Inventory,
        requests: &[Request],
        policies: &[Policy],
        given_up: &BTreeSet<&RequestId>,
    ) -> Self {
        let policy_of = assign::policy_of(inventory, policies).policy_of;
        let policy_of = |node| policy_of.get(node).and_then(|name| policies.iter().find(|p| p.name == *name));
        let mut promises = Self { inventory: inventory.clone(), ..Self::default() };
        let mut sorted: Vec<&Request> = requests.iter().collect();
        sorted.sort_by_key(|request| order(request));
        for request in sorted {
            let Some(name) = request.promised.as_ref().filter(|_| is_planned(request)) else {
                promises.requests.push(request.clone());
                continue;
            };
            let kept = match given_up.contains(&request.id) {
                // Nobody knows yet who it is that gets it.
                true => Err(Broken::HigherPriority { to: request.id.clone() }),
                false => promises.reserve(request, name, policy_of(name)),
            };
            match kept {
                Ok(gpus) => promises.kept.push(Kept { request: request.clone(), node: name.clone(), gpus }),
                Err(why) => {
                    promises.requests.push(request.clone());
                    promises.broken.insert(request.id.clone(), BrokenPromise { node: name.clone(), why });
                }
            }
        }
        promises
    }

    /// Takes the slices of a promise out of the fleet, and says which they are.
    fn reserve(
        &mut self,
        request: &Request,
        name: &NodeName,
        policy: Option<&Policy>,
    ) -> Result<Vec<(GpuId, String, Offered)>, Broken> {
        let node = self.inventory.nodes.get_mut(name).ok_or(Broken::NodeGone)?;
        if !node.schedulable {
            return Err(Broken::Unschedulable);
        }
        if let Eligibility::No { reason } = judge(request, name, node, &LabelsAfter::predict(node)) {
            return Err(Broken::NotEligible { reason: reason.to_string() });
        }
        if policy.is_some_and(|policy| !counts(policy, request)) {
            return Err(Broken::NoPolicy);
        }
        if let Some(policy) = policy.filter(|policy| evicts_for_its_layout(policy, node)) {
            return Err(Broken::Layout { policy: policy.name.clone() });
        }
        let somewhere = free_seats(name, node, &Evictions::default());
        let of_slices = |(offered, n): (Offered, u32)| Some((offered, offered.profile()?, n));
        let wanted = || request.wants().filter(|(_, n)| *n > 0).filter_map(of_slices);
        for (offered, profile, n) in wanted() {
            let (found, seats) = node.seats_of(profile);
            let idle = node.gpus.values().flat_map(|gpu| gpu.slices.iter());
            let idle = idle.filter(|slice| slice.profile == profile && slice.used.is_idle()).count();
            let free = somewhere.get(&offered).copied().unwrap_or(0);
            let idle = i64::try_from(idle).unwrap_or(i64::MAX).saturating_mul(i64::from(seats));
            if found != offered || idle.saturating_add(free) < i64::from(n) {
                return Err(Broken::NoSlice { profile: offered });
            }
        }
        let idle = node.gpus.values().filter_map(|gpu| gpu.slices.whole()).filter(|used| used.is_idle());
        let idle = i64::try_from(idle.count()).unwrap_or(i64::MAX);
        if idle.saturating_add(whole_somewhere(node)) < i64::from(request.whole_gpus) {
            return Err(Broken::NoSlice { profile: Offered::WholeGpu });
        }
        // No pod has it yet: what stands there is nobody to wait for.
        let by = PodRef { namespace: String::new(), name: request.id.to_string() };
        let mut gpus: Vec<_> =
            wanted().flat_map(|(_, profile, n)| take(name, node, profile, n, &by)).collect();
        gpus.extend(take_whole(name, node, request.whole_gpus, &by));
        node.room = node.room.plus(request.takes, -1);
        // It counts for shares as if it ran.
        let RequestId { kind, namespace, name: of, ordinal } = &request.id;
        let holder = PodRef { namespace: namespace.clone(), name: format!("{kind} {of} #{ordinal}") };
        let weight = wanted().map(|(_, profile, n)| u32::from(profile.compute) * n).sum::<u32>();
        *node.held.entry(holder).or_default() += weight;
        // What holds it anyway is told as ever.
        node.hold.get_or_insert_with(|| Hold::Promised { to: request.id.clone() });
        let labels = &request.namespace_labels;
        self.inventory.namespaces.entry(namespace.clone()).or_insert_with(|| labels.clone());
        Ok(gpus)
    }

    /// Adds the answers to those for whom something is kept, and says of others
    /// what is not kept. Slices that are kept are free, and asked for, as far as
    /// the policies of their nodes are concerned.
    pub(super) fn answer(&self, report: &mut Report, all: &[Request]) {
        let Report { requests: reports, policies, .. } = report;
        for Kept { request, node, .. } in &self.kept {
            let Some(policy) = policies.iter_mut().find(|policy| policy.nodes.contains(node)) else {
                continue;
            };
            for (offered, n) in request.wants() {
                if let Some(seats) = policy.seats.get_mut(&offered) {
                    seats.requested += n;
                    seats.held = seats.held.saturating_sub(n);
                }
            }
            for (profile, n) in &request.slices {
                let supply = policy.supply.entry(*profile).or_default();
                supply.requested += n;
                supply.allocated = supply.allocated.saturating_sub(*n);
            }
            if let Some(supply) = policy.whole_gpus.as_mut().filter(|_| request.whole_gpus > 0) {
                supply.requested += request.whole_gpus;
                supply.allocated = supply.allocated.saturating_sub(request.whole_gpus);
            }
        }
        let by_id: BTreeMap<&RequestId, &Request> =
            all.iter().map(|request| (&request.id, request)).collect();
        let is_above = |id: &RequestId, than: i32| by_id.get(id).is_some_and(|r| r.priority > than);
        // Who is served, the first first: who gets it instead is one of them.
        let served: Vec<(&RequestId, &NodeName)> = reports
            .iter()
            .filter_map(|report| match &report.outcome {
                Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => {
                    Some((&report.id, node))
                }
                Outcome::Unserved { .. } => None,
            })
            .collect();
        let mut broken = self.broken.clone();
        for (id, promise) in &mut broken {
            if let Broken::HigherPriority { to } = &mut promise.why {
                let than = by_id.get(id).map_or(i32::MAX, |request| request.priority);
                let above = || served.iter().filter(|(other, _)| is_above(other, than));
                let there = above().find(|(_, node)| **node == promise.node).or_else(|| above().next());
                to.clone_from(there.map_or(id, |(other, _)| *other));
            }
        }
        for report in reports.iter_mut() {
            report.broken = broken.remove(&report.id);
        }
        reports.extend(self.kept.iter().map(|Kept { request, node, gpus }| RequestReport {
            id: request.id.clone(),
            policy: policies.iter().find(|policy| policy.nodes.contains(node)).map(|p| p.policy.clone()),
            outcome: Outcome::ServedNow { node: node.clone(), gpus: gpus.clone() },
            broken: None,
        }));
        reports.sort_by_key(|report| by_id.get(&report.id).map(|request| order(request)));
    }

    /// Whether a promise is kept while somebody of a higher priority asks, whether or not that is served.
    pub(super) fn may_yield(&self) -> bool {
        let highest = self.requests.iter().filter(|r| is_planned(r)).map(|r| r.priority).max();
        self.kept.iter().any(|kept| highest.is_some_and(|highest| highest > kept.request.priority))
    }

    /// Whether somebody of a higher priority gets what was promised.
    pub(super) fn some_yield(&self) -> bool {
        self.broken.values().any(|promise| matches!(promise.why, Broken::HigherPriority { .. }))
    }
}

/// A fleet with its promises, some of which are kept only because a higher priority could do nothing with what was
/// promised. In a changed fleet it may.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtStake<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) requests: &'a [Request],
    pub(super) under_way: &'a UnderWay,
}

impl AtStake<'_> {
    /// What is planned with in a changed fleet, where a promise yields there; nothing, where all of them are kept.
    pub(super) fn yielding(
        &self,
        inventory: &Inventory,
        policies: &[Policy],
        memo: &mut Memo,
    ) -> Option<Promises> {
        let promises = Promises::new(inventory, self.requests, policies, self.under_way, memo).ok()?;
        promises.some_yield().then_some(promises)
    }
}

/// The order in which promises are kept, and requests reported: the highest
/// priority first, then the oldest.
fn order(request: &Request) -> (Reverse<i32>, jiff::Timestamp, RequestId) {
    (Reverse(request.priority), request.since, request.id.clone())
}

/// Whether a node gets another layout for which its policy evicts even those who run.
fn evicts_for_its_layout(policy: &Policy, node: &Node) -> bool {
    let LayoutPolicy::Static { gpus: rules } = &policy.layout else { return false };
    let misses = |(index, gpu): (&GpuIndex, &crate::inventory::Gpu)| {
        rule_for(rules, &gpu.model, *index).is_some_and(|rule| {
            let mut has: BTreeMap<ProfileName, u8> = BTreeMap::new();
            gpu.slices.profiles().for_each(|profile| *has.entry(profile).or_insert(0) += 1);
            let is_so = match rule.cut {
                StaticCut::MigOff => gpu.slices.is_mig_off(),
                StaticCut::Slices(_) => has == rule.cut.slices().collect(),
            };
            gpu.hold.is_none() && !is_so
        })
    };
    policy.drain == Drain::Evict
        && !policy.mode.starts_nothing()
        && node.hold.is_none()
        && node.gpus.iter().any(misses)
}

/// Marks so many slices of a node as taken: first
/// those that are provably idle, then those of which it is not known which are free.
fn take(
    name: &NodeName,
    node: &mut Node,
    profile: ProfileName,
    n: u32,
    by: &PodRef,
) -> Vec<(GpuId, String, Offered)> {
    let uses =
        || node.gpus.values().flat_map(|gpu| gpu.slices.iter()).filter(|slice| slice.profile == profile);
    let count = |counts: fn(&Use) -> bool| uses().filter(|slice| counts(slice.used)).count();
    let busy = u32::try_from(count(|used| !used.is_idle())).unwrap_or(u32::MAX);
    let sure = u32::try_from(count(|used| matches!(used, Use::InUse { .. }))).unwrap_or(u32::MAX);
    // No fewer are held than somebody holds for certain, whatever the node counts: what is
    // promised comes on top of that.
    let (offered, seats) = node.seats_of(profile);
    let there = busy.saturating_mul(seats);
    let held = node.allocated.get(&profile).map_or(there, |held| (*held).max(sure));
    // Of slices that others sit on, the seats that are left come first; then idle slices, as few as will do.
    let beside = if seats > 1 { there.saturating_sub(held).min(n) } else { 0 };
    let wanted = (n - beside).div_ceil(seats.max(1)) as usize;
    node.allocated.insert(profile, held.saturating_add(n));
    let mut taken = Vec::new();
    let mut perhaps = Vec::new();
    for (index, gpu) in &mut node.gpus {
        let found = (GpuId { node: name.clone(), gpu: *index }, gpu.model.clone(), offered);
        let profiles: Vec<ProfileName> = gpu.slices.profiles().collect();
        if matches!(gpu.slices, Slices::MigOff { .. }) {
            continue;
        }
        for (used, _) in gpu.slices.uses_mut().zip(profiles).filter(|(_, of)| *of == profile) {
            match used {
                Use::Idle if taken.len() < wanted => {
                    *used = Use::InUse { by: by.clone() };
                    taken.push(found.clone());
                }
                Use::MaybeInUse { .. } => perhaps.push(found.clone()),
                Use::InUse { .. } if seats > 1 => perhaps.push(found.clone()),
                Use::Idle | Use::InUse { .. } => {}
            }
        }
    }
    let missing = (n as usize).saturating_sub(taken.len());
    taken.extend(perhaps.into_iter().take(missing));
    taken
}

/// Marks so many GPUs with MIG off as taken, in the same order.
fn take_whole(name: &NodeName, node: &mut Node, n: u32, by: &PodRef) -> Vec<(GpuId, String, Offered)> {
    if n == 0 {
        return vec![];
    }
    let count = |counts: fn(&Use) -> bool| {
        let uses = node.gpus.values().filter_map(|gpu| gpu.slices.whole());
        u32::try_from(uses.filter(|used| counts(used)).count()).unwrap_or(u32::MAX)
    };
    let busy = count(|used| !used.is_idle());
    let sure = count(|used| matches!(used, Use::InUse { .. }));
    node.whole_held = node.whole_held.clamp(sure, busy).saturating_add(n);
    let (mut taken, mut perhaps) = (Vec::new(), Vec::new());
    for (index, gpu) in &mut node.gpus {
        let found = (GpuId { node: name.clone(), gpu: *index }, gpu.model.clone(), Offered::WholeGpu);
        let Slices::MigOff { used } = &mut gpu.slices else { continue };
        match used {
            Use::Idle if taken.len() < n as usize => {
                *used = Use::InUse { by: by.clone() };
                taken.push(found);
            }
            Use::MaybeInUse { .. } => perhaps.push(found),
            Use::Idle | Use::InUse { .. } => {}
        }
    }
    let missing = n as usize - taken.len();
    taken.extend(perhaps.into_iter().take(missing));
    taken
}
