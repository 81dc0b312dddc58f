//! All possible layouts of a node's GPUs, and their consequences.

use std::collections::{BTreeMap, BTreeSet};

use mig::ProfileName;
use planner::inventory::{ChangeScope, Gpu, Node, Slices, Use};
use planner::names::{GpuIndex, PodRef};
use planner::policy::{Drain, LayoutPolicy, Mode, Policy, StaticCut, StaticRule, Unrequested};

use super::apply;
use super::evict::{by_slice, everybody, for_certain, holders, is_off, without};
use super::grid::{self, Slice};
use super::values::{self, Demand};

/// What a node can have, and at what cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Slices of each relevant profile; at last, GPUs with MIG off.
    pub(crate) counts: Vec<u32>,
    /// Of those, how many are free for sure; at last, of each profile, the
    /// seats that are asked for by the name of shared slices.
    pub(crate) free: Vec<u32>,
    /// GPUs not whole, GPUs changed, compute slices stranded, slices created
    /// and destroyed.
    pub(crate) cost: [u32; 4],
    /// The GPUs that change, and to what.
    pub(crate) targets: Vec<(GpuIndex, Vec<Slice>)>,
    /// Who is evicted.
    pub(crate) evicts: BTreeSet<PodRef>,
}

/// The same of one GPU, or of some. Who is evicted follows from the targets.
#[derive(Clone, Debug)]
struct Part {
    counts: Vec<u32>,
    /// Provably free slices.
    fresh: Vec<u32>,
    /// Slices that somebody may hold.
    perhaps: Vec<u32>,
    cost: [u32; 4],
    targets: Vec<(GpuIndex, Vec<Slice>)>,
}

/// A node with its policy, and without those who go for certain.
struct Site<'a> {
    demand: &'a Demand<'a>,
    seen: &'a Node,
    left: Node,
    policy: Option<&'a Policy>,
}

impl<'a> Site<'a> {
    fn new(demand: &'a Demand<'a>, node: &'a Node, policy: Option<&'a Policy>) -> Self {
        let gone = policy.map(|policy| for_certain(node, policy)).unwrap_or_default();
        Self { demand, seen: node, left: without(node, &gone), policy }
    }

    fn evicts_in_part(&self, gpu: &Gpu) -> bool {
        let evicts = |policy: &Policy| {
            policy.drain == Drain::Evict && matches!(policy.layout, LayoutPolicy::Static { .. })
        };
        by_slice(self.seen, gpu) && self.policy.is_some_and(evicts)
    }

    /// What comes of one GPU that changes to `after`, or stays.
    fn part(&self, index: GpuIndex, after: Option<&[Slice]>) -> Part {
        let gpu = &self.left.gpus[&index];
        let now = apply::profiles(gpu);
        let stays = |slice: &Slice| match &gpu.slices {
            Slices::Placed(slices) if by_slice(self.seen, gpu) => {
                slices.iter().find(|s| (s.profile, s.start) == *slice).map(|s| &s.used)
            }
            _ => None,
        };
        let all: Vec<(ProfileName, Option<&Use>)> = match after {
            None => now.iter().copied().zip(apply::uses(gpu).into_iter().map(Some)).collect(),
            Some(after) => after.iter().map(|slice| (slice.0, stays(slice))).collect(),
        };
        // MIG is off: as it is with its user, or switched off and free.
        let whole: Option<Option<&Use>> = match (after, &gpu.slices) {
            (None, Slices::MigOff { used }) => Some(Some(used)),
            (Some([]), _) => Some(None),
            _ => None,
        };
        let tally = |counts: &dyn Fn(Option<&Use>) -> bool| -> Vec<u32> {
            let of =
                |p: &ProfileName| all.iter().filter(|(profile, used)| profile == p && counts(*used)).count();
            let slices = self.demand.profiles.iter().map(|p| u32::try_from(of(p)).expect("few"));
            slices.chain([u32::from(whole.is_some_and(counts))]).collect()
        };
        // Of what evicted pods leave beside, nobody knows in advance who holds it.
        let unknown = after.is_some() && self.evicts_in_part(gpu);
        let profiles: Vec<ProfileName> = all.iter().map(|(profile, _)| *profile).collect();
        let whole_wanted = self.policy.is_some_and(|policy| {
            matches!(policy.layout, LayoutPolicy::DemandDriven { unrequested: Unrequested::Whole, .. })
        });
        let not_whole = u32::from(whole_wanted && !is_full(gpu, &profiles));
        let cost = match after {
            None => [not_whole, 0, 0, 0],
            Some(after) => [
                not_whole,
                1,
                apply::stranded(self.seen, gpu, after) + 2 * apply::tied(self.seen, index, after),
                apply::operations(gpu, after),
            ],
        };
        Part {
            counts: tally(&|_| true),
            fresh: tally(&|used| used.is_none_or(Use::is_idle)),
            perhaps: tally(&|used| matches!(used, Some(Use::MaybeInUse { .. })) && !unknown),
            cost,
            targets: after.map(|after| (index, after.to_vec())).into_iter().collect(),
        }
    }

    /// The node once its GPUs are as they will be.
    fn choice(&self, part: Part) -> Choice {
        let Part { counts, fresh, perhaps, cost, targets } = part;
        let sure_whole = || {
            let off = self.left.gpus.values().filter(|gpu| is_off(gpu)).flat_map(apply::uses);
            u32::try_from(off.filter(|used| matches!(used, Use::InUse { .. })).count()).expect("few")
        };
        let sure = |profile: &ProfileName| -> u32 {
            let uses = |gpu| apply::profiles(gpu).into_iter().zip(apply::uses(gpu));
            let all = self.left.gpus.values().flat_map(uses);
            let sure = all.filter(|(p, used)| p == profile && matches!(used, Use::InUse { .. }));
            u32::try_from(sure.count()).expect("few")
        };
        // Of slices that several share, where evicted pods leave others: what is cut anew.
        let unknown = |profile: &ProfileName| {
            targets.iter().any(|(index, _)| {
                let gpu = &self.left.gpus[index];
                let mut slices = apply::profiles(gpu).into_iter().zip(apply::uses(gpu));
                self.evicts_in_part(gpu) && slices.any(|(p, used)| p == *profile && !used.is_idle())
            })
        };
        let seats = |i: usize, profile: &ProfileName, each: u32| {
            let all = self
                .left
                .gpus
                .values()
                .flat_map(|gpu| apply::profiles(gpu).into_iter().zip(apply::uses(gpu)));
            let busy = all.filter(|(p, used)| p == profile && !used.is_idle()).count();
            let busy = u32::try_from(busy).expect("few");
            let held = self
                .left
                .allocated
                .get(profile)
                .map_or(busy * each, |n| (*n).clamp(sure(profile), busy * each));
            let beside = if unknown(profile) { 0 } else { busy * each - held };
            fresh[i] * each + beside
        };
        let mut by_shared_name = vec![0; self.demand.profiles.len()];
        let mut free: Vec<u32> = (0..counts.len())
            .map(|i| {
                if let Some(profile) = self.demand.profiles.get(i)
                    && let Some(sharing) = self.left.shared.get(profile)
                {
                    let n = seats(i, profile, sharing.replicas);
                    if sharing.renamed {
                        by_shared_name[i] = n;
                    }
                    return if sharing.renamed { 0 } else { n };
                }
                let (held, sure) = match self.demand.profiles.get(i) {
                    Some(profile) => (self.left.allocated.get(profile).copied().unwrap_or(0), sure(profile)),
                    None => (self.left.whole_held, sure_whole()),
                };
                fresh[i] + perhaps[i].saturating_sub(held.saturating_sub(sure))
            })
            .collect();
        free.extend(by_shared_name);
        let evicts = self.evicts(&targets);
        Choice { counts, free, cost, targets, evicts }
    }

    fn evicts(&self, targets: &[(GpuIndex, Vec<Slice>)]) -> BTreeSet<PodRef> {
        let drains = self.policy.is_some_and(|policy| policy.drain == Drain::Evict);
        if !drains || targets.is_empty() {
            return BTreeSet::new();
        }
        let switches =
            targets.iter().any(|(index, after)| after.is_empty() || is_off(&self.seen.gpus[index]));
        if switches || self.seen.scope == ChangeScope::EmptyNode {
            return everybody(self.seen);
        }
        let of_gpu = |(index, after): &(GpuIndex, Vec<Slice>)| -> Vec<PodRef> {
            let gpu = &self.seen.gpus[index];
            match &gpu.slices {
                Slices::Placed(slices) if by_slice(self.seen, gpu) => {
                    let goes = slices.iter().filter(|s| !after.contains(&(s.profile, s.start)));
                    goes.flat_map(|s| holders(&s.used)).collect()
                }
                _ => apply::uses(gpu).into_iter().flat_map(holders).collect(),
            }
        };
        targets.iter().flat_map(of_gpu).collect()
    }

    /// Everything that one GPU can become.
    fn parts(&self, index: GpuIndex) -> Vec<Part> {
        let gpu = &self.left.gpus[&index];
        let stay = || self.part(index, None);
        let Some(policy) = self.policy.filter(|p| p.mode != Mode::Paused) else { return vec![stay()] };
        let all_idle = || self.left.gpus.values().all(is_idle);
        let wanted = match &policy.layout {
            LayoutPolicy::DemandDriven { .. } => None,
            LayoutPolicy::Static { gpus } => match rule(gpus, index, gpu) {
                Some(wanted) if !has(&wanted, gpu) => Some(wanted),
                _ => return vec![stay()],
            },
        };
        let goes_off = wanted.as_ref().is_some_and(Vec::is_empty);
        let reach = match self.left.scope {
            _ if is_off(gpu) || goes_off => all_idle(),
            ChangeScope::EmptyNode => all_idle(),
            ChangeScope::IdleGpus => is_idle(gpu),
            ChangeScope::SliceBySlice => by_slice(self.seen, gpu) || is_idle(gpu),
        };
        if self.left.hold.is_some() || gpu.hold.is_some() || !reach {
            return vec![stay()];
        }
        if goes_off {
            return vec![self.part(index, Some(&[]))];
        }
        let now = apply::profiles(gpu);
        // A static layout is not weighed: it comes where it can, and as few
        // slices that are in use go as will do.
        let going = |state: &[Slice]| match &gpu.slices {
            Slices::Placed(before) => {
                let goes = before.iter().filter(|s| !state.contains(&(s.profile, s.start)));
                goes.filter(|s| !s.used.is_idle()).count()
            }
            Slices::Counted(_) | Slices::MigOff { .. } => 0,
        };
        let states = grid::states(&gpu.geometry);
        let possible: Vec<&Vec<Slice>> =
            states.iter().filter(|state| self.is_possible(index, state, wanted.as_deref())).collect();
        let fewest = match self.evicts_in_part(gpu) {
            true => possible.iter().map(|state| going(state)).min().unwrap_or(0),
            false => 0,
        };
        let mut cheapest = BTreeMap::new();
        for state in possible.into_iter().filter(|state| going(state) == fewest) {
            keep_cheapest(&mut cheapest, self.part(index, Some(state)));
        }
        let whole_gpus = policy.layout.whole_gpus();
        // A GPU that has no slice gets one when it can; where requests decide
        // which are whole, that one with MIG off may be one of them.
        let is_whole = is_off(gpu) && whole_gpus.is_some();
        if cheapest.is_empty() || wanted.is_none() && (!now.is_empty() || is_whole) {
            keep_cheapest(&mut cheapest, stay());
        }
        // Whoever switches MIG off clears the node; an agent does not do it.
        let may_go_off = whole_gpus.is_some_and(|bounds| bounds.max != Some(0))
            && self.left.scope != ChangeScope::SliceBySlice
            && all_idle();
        if may_go_off && !is_off(gpu) {
            keep_cheapest(&mut cheapest, self.part(index, Some(&[])));
        }
        cheapest.into_values().collect()
    }

    /// Whether a state is another one, and one that the policy may want.
    fn is_possible(&self, index: GpuIndex, state: &[Slice], wanted: Option<&[ProfileName]>) -> bool {
        let (gpu, policy) = (&self.left.gpus[&index], self.policy.expect("it has one"));
        let now = apply::profiles(gpu);
        let slices: Vec<ProfileName> = state.iter().map(|(profile, _)| *profile).collect();
        let is_same = match &gpu.slices {
            Slices::Placed(before) if by_slice(self.seen, gpu) => {
                before.len() == state.len() && before.iter().all(|s| state.contains(&(s.profile, s.start)))
            }
            _ => same(&slices, &now),
        };
        if state.is_empty() || is_same {
            return false;
        }
        if let Some(wanted) = wanted {
            return same(wanted, &slices);
        }
        let menu = self.demand.menu(policy);
        state.iter().all(|(profile, start)| {
            let there = match &gpu.slices {
                Slices::Placed(slices) => slices.iter().any(|s| (s.profile, s.start) == (*profile, *start)),
                Slices::Counted(_) => count(&slices, *profile) <= count(&now, *profile),
                Slices::MigOff { .. } => false,
            };
            there || menu.contains(profile) || is_full(gpu, &[*profile])
        })
    }
}

/// Everything that a node can become.
pub(crate) fn of_node(demand: &Demand<'_>, node: &Node, policy: Option<&Policy>) -> Vec<Choice> {
    let site = Site::new(demand, node, policy);
    let none = vec![0; demand.profiles.len() + 1];
    let mut together = vec![Part {
        counts: none.clone(),
        fresh: none.clone(),
        perhaps: none,
        cost: [0; 4],
        targets: vec![],
    }];
    for index in node.gpus.keys() {
        let parts = site.parts(*index);
        let mut merged = BTreeMap::new();
        for a in &together {
            parts.iter().for_each(|b| keep_cheapest(&mut merged, join(a, b)));
        }
        together = merged.into_values().collect();
    }
    let choices: Vec<Choice> = together.into_iter().map(|part| site.choice(part)).collect();
    demand.undominated(&choices)
}

/// What comes of a node that changes so, whoever planned it.
pub(crate) fn planned(
    demand: &Demand<'_>,
    node: &Node,
    policy: Option<&Policy>,
    targets: &BTreeMap<GpuIndex, &[Slice]>,
) -> Choice {
    let site = Site::new(demand, node, policy);
    let parts = node.gpus.keys().map(|index| site.part(*index, targets.get(index).copied()));
    site.choice(parts.reduce(|a, b| join(&a, &b)).expect("a node has GPUs"))
}

fn join(a: &Part, b: &Part) -> Part {
    let add = |a: &[u32], b: &[u32]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
    Part {
        counts: add(&a.counts, &b.counts),
        fresh: add(&a.fresh, &b.fresh),
        perhaps: add(&a.perhaps, &b.perhaps),
        cost: add(&a.cost, &b.cost).try_into().expect("four costs"),
        targets: a.targets.iter().chain(&b.targets).cloned().collect(),
    }
}

type Parts = BTreeMap<[Vec<u32>; 3], Part>;

fn keep_cheapest(parts: &mut Parts, part: Part) {
    let key = [part.counts.clone(), part.fresh.clone(), part.perhaps.clone()];
    match parts.get_mut(&key) {
        Some(known) if known.cost <= part.cost => {}
        Some(known) => *known = part,
        None => {
            parts.insert(key, part);
        }
    }
}

/// Whether all of a GPU is provably idle.
fn is_idle(gpu: &Gpu) -> bool {
    apply::uses(gpu).iter().all(|used| used.is_idle())
}

fn is_full(gpu: &Gpu, slices: &[ProfileName]) -> bool {
    slices.len() == 1 && slices[0].compute == gpu.geometry.compute()
}

/// What the first rule that matches wants; no slice means that MIG is off.
pub(crate) fn rule(rules: &[StaticRule], index: GpuIndex, gpu: &Gpu) -> Option<Vec<ProfileName>> {
    let rule = rules.iter().find(|rule| {
        rule.model.as_ref().is_none_or(|model| *model == gpu.model)
            && rule.indices.as_ref().is_none_or(|indices| indices.contains(&index))
    })?;
    let StaticCut::Slices(slices) = &rule.cut else { return Some(vec![]) };
    Some(slices.iter().flat_map(|(p, n)| std::iter::repeat_n(*p, usize::from(*n))).collect())
}

/// Whether a GPU has what a rule wants.
pub(crate) fn has(wanted: &[ProfileName], gpu: &Gpu) -> bool {
    is_off(gpu) == wanted.is_empty() && same(wanted, &apply::profiles(gpu))
}

pub(crate) fn count(slices: &[ProfileName], profile: ProfileName) -> u32 {
    u32::try_from(slices.iter().filter(|p| **p == profile).count()).expect("few")
}

pub(crate) fn same(a: &[ProfileName], b: &[ProfileName]) -> bool {
    values::distinct(a) == values::distinct(b)
        && values::distinct(a).iter().all(|p| count(a, *p) == count(b, *p))
}
