//! An independent planner for tiny fleets: it tries everything. Slow, obvious,
//! and sharing no code with the planner beyond the vocabulary.
//!
//! What a GPU contributes is how many slices of each relevant profile it has,
//! and four costs (not whole, changed, stranded, operations). So of all layouts of a
//! GPU with equal counts only the cheapest matters; the same holds for nodes.

pub(crate) mod apply;
pub(crate) mod grid;
pub(crate) mod values;
pub(crate) mod world;

use std::collections::BTreeMap;

use mig::ProfileName;
use planner::demand::Request;
use planner::inventory::{ChangeScope, Gpu, Inventory, Node, Slices, Use};
use planner::names::{GpuIndex, NodeName};
use planner::plan::{GpuChange, NodeStep, Plan};
use planner::policy::{Drain, LayoutPolicy, Mode, Policy, StaticRule, Unrequested};

use grid::Slice;
use values::{Demand, Values};

/// What one GPU, or several, can have, and at what cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Slices of each relevant profile.
    counts: Vec<u32>,
    /// GPUs not whole, GPUs changed, compute slices stranded, slices created
    /// and destroyed.
    cost: [u32; 4],
    /// The GPUs that change, and to what.
    targets: Vec<(GpuIndex, Vec<Slice>)>,
}

/// The best plan, and the value of each level of the objective.
pub(crate) fn best(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> (Plan, Values) {
    let demand = Demand::new(inventory, requests, policies);
    let nodes: Vec<(&NodeName, &Node)> = inventory.nodes.iter().collect();
    let mut options: Vec<Vec<Choice>> = Vec::new();
    for (name, node) in &nodes {
        let policy = demand.policy_of(name);
        let mut of_node =
            vec![Choice { counts: vec![0; demand.profiles.len()], cost: [0; 4], targets: vec![] }];
        for (index, gpu) in &node.gpus {
            let of_gpu = gpu_choices(&demand, node, *index, gpu, policy);
            let mut merged: BTreeMap<Vec<u32>, Choice> = BTreeMap::new();
            for a in &of_node {
                for b in &of_gpu {
                    keep_cheapest(&mut merged, join(a, b));
                }
            }
            of_node = demand.undominated(merged);
        }
        options.push(of_node);
    }
    let mut search = Search { demand: &demand, options: &options, best: None, cap: 0 };
    search.run(&mut Vec::new());
    let (values, chosen) = search.best.expect("changing nothing is always possible");
    let steps = nodes.iter().zip(chosen).filter(|(_, choice)| !choice.targets.is_empty()).map(
        |((name, node), choice)| NodeStep {
            node: (*name).clone(),
            policy: demand.policy_of(name).expect("it changes").name.clone(),
            gpus: choice.targets.iter().map(|(index, after)| change(node, *index, after)).collect(),
            enable_mig: false,
            evicts: evicts(node, &choice, demand.policy_of(name).expect("it changes")),
            serves: vec![],
        },
    );
    (Plan { steps: steps.collect() }, values)
}

fn change(node: &Node, index: GpuIndex, after: &[Slice]) -> GpuChange {
    let gpu = &node.gpus[&index];
    let mut after = after.to_vec();
    after.sort_by_key(|(profile, start)| (*start, *profile));
    GpuChange {
        gpu: index,
        model: gpu.model.clone(),
        before: gpu.slices.clone(),
        after,
        creation_order: None,
    }
}

fn join(a: &Choice, b: &Choice) -> Choice {
    let add = |a: &[u32], b: &[u32]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
    let cost = add(&a.cost, &b.cost).try_into().expect("four costs");
    let targets = a.targets.iter().chain(&b.targets).cloned().collect();
    Choice { counts: add(&a.counts, &b.counts), cost, targets }
}

fn keep_cheapest(choices: &mut BTreeMap<Vec<u32>, Choice>, choice: Choice) {
    match choices.get_mut(&choice.counts) {
        Some(known) if known.cost <= choice.cost => {}
        Some(known) => *known = choice,
        None => {
            choices.insert(choice.counts.clone(), choice);
        }
    }
}

struct Search<'a> {
    demand: &'a Demand<'a>,
    options: &'a [Vec<Choice>],
    best: Option<(Values, Vec<Choice>)>,
    cap: u64,
}

impl<'a> Search<'a> {
    fn run(&mut self, chosen: &mut Vec<&'a Choice>) {
        if let Some(of_node) = self.options.get(chosen.len()) {
            for choice in of_node {
                chosen.push(choice);
                self.run(chosen);
                chosen.pop();
            }
            return;
        }
        self.cap += 1;
        assert!(self.cap < 5_000_000, "the fleet is too large for brute force");
        let counts: Vec<&[u32]> = chosen.iter().map(|choice| choice.counts.as_slice()).collect();
        let cost = chosen.iter().fold([0; 4], |mut sum, choice| {
            sum.iter_mut().zip(choice.cost).for_each(|(sum, cost)| *sum += cost);
            sum
        });
        let limit = self.best.as_ref().map(|(values, _)| values);
        if let Some(values) = self.demand.values(&counts, cost, limit) {
            self.best = Some((values, chosen.iter().map(|choice| (*choice).clone()).collect()));
        }
    }
}

/// Whether every slice of a node is provably idle.
fn is_idle(gpu: &Gpu) -> bool {
    apply::uses(gpu).iter().all(|used| used.is_idle())
}

/// Everything that a GPU can become, unchanged included.
fn gpu_choices(
    demand: &Demand<'_>,
    node: &Node,
    index: GpuIndex,
    gpu: &Gpu,
    policy: Option<&Policy>,
) -> Vec<Choice> {
    let profiles = &demand.profiles;
    let whole_wanted = policy.is_some_and(|policy| {
        matches!(policy.layout, LayoutPolicy::DemandDriven { unrequested: Unrequested::Whole, .. })
    });
    let full = |slices: &[ProfileName]| slices.len() == 1 && slices[0].compute == gpu.geometry.compute();
    let choice = |slices: Vec<ProfileName>, changed: u32, stranded: u32, operations: u32| Choice {
        counts: profiles.iter().map(|p| count(&slices, *p)).collect(),
        cost: [u32::from(whole_wanted && !full(&slices)), changed, stranded, operations],
        targets: vec![],
    };
    let now = apply::profiles(gpu);
    let stay = choice(now.clone(), 0, 0, 0);
    let Some(policy) = policy.filter(|p| p.mode != Mode::Paused) else { return vec![stay] };
    if node.hold.is_some() || gpu.hold.is_some() {
        return vec![stay];
    }
    let may_evict = policy.drain == Drain::Evict && matches!(policy.layout, LayoutPolicy::Static { .. });
    let reach = match node.scope {
        ChangeScope::EmptyNode => node.gpus.values().all(is_idle),
        ChangeScope::IdleGpus => is_idle(gpu),
        ChangeScope::SliceBySlice => matches!(gpu.slices, Slices::Placed(_)) || is_idle(gpu),
    };
    if !reach && !may_evict {
        return vec![stay];
    }
    let menu = demand.menu(policy);
    let by_slice = node.scope == ChangeScope::SliceBySlice;
    let fixed = match &policy.layout {
        LayoutPolicy::DemandDriven { .. } => None,
        LayoutPolicy::Static { gpus } => match rule(gpus, index, gpu) {
            Some(wanted) if !same(&wanted, &now) => Some(wanted),
            _ => return vec![stay],
        },
    };
    let mut cheapest: BTreeMap<Vec<u32>, Choice> = BTreeMap::new();
    let mut with_eviction: BTreeMap<Vec<u32>, Choice> = BTreeMap::new();
    for state in grid::states(&gpu.geometry).iter() {
        let slices: Vec<ProfileName> = state.iter().map(|(profile, _)| *profile).collect();
        let (kept, operations) = match &gpu.slices {
            Slices::Placed(before) => {
                let stays = |s: &&planner::inventory::PlacedSlice| state.contains(&(s.profile, s.start));
                let kept = before.iter().filter(stays).count();
                let all = before.iter().filter(|s| !s.used.is_idle()).all(|s| stays(&s));
                (all, before.len() + state.len() - 2 * kept)
            }
            Slices::Counted(before) => {
                let common: u32 =
                    values::distinct(&slices).iter().map(|p| count(&slices, *p).min(count(&now, *p))).sum();
                (before.iter().all(|s| s.used.is_idle()), before.len() + state.len() - 2 * common as usize)
            }
            Slices::MigOff { .. } => (false, state.len()),
        };
        let is_same = match &gpu.slices {
            Slices::Placed(_) if by_slice => operations == 0,
            _ => same(&slices, &now),
        };
        let worth_creating = |(profile, start): &Slice| {
            let there = match &gpu.slices {
                Slices::Placed(slices) => slices.iter().any(|s| (s.profile, s.start) == (*profile, *start)),
                Slices::Counted(_) => count(&slices, *profile) <= count(&now, *profile),
                Slices::MigOff { .. } => false,
            };
            there || fixed.is_some() || menu.contains(profile) || full(&[*profile])
        };
        if !state.iter().all(worth_creating) {
            continue;
        }
        if state.is_empty() || is_same || fixed.as_ref().is_some_and(|wanted| !same(wanted, &slices)) {
            continue;
        }
        let stranded = apply::stranded(node, gpu, state);
        let mut choice = choice(slices, 1, stranded, u32::try_from(operations).expect("few"));
        choice.targets = vec![(index, state.clone())];
        if reach && kept {
            keep_cheapest(&mut cheapest, choice);
        } else if may_evict {
            keep_cheapest(&mut with_eviction, choice);
        }
    }
    if fixed.is_some() {
        // A static layout is not weighed: it comes where it can, and evicts only where it must.
        let forced = if cheapest.is_empty() { with_eviction } else { cheapest };
        return if forced.is_empty() { vec![stay] } else { forced.into_values().collect() };
    }
    // A GPU that has no slice gets one when it can.
    if cheapest.is_empty() || !now.is_empty() {
        keep_cheapest(&mut cheapest, stay);
    }
    cheapest.into_values().collect()
}

fn evicts(node: &Node, choice: &Choice, policy: &Policy) -> Vec<planner::names::PodRef> {
    if policy.drain == Drain::Never {
        return vec![];
    }
    let mut pods = std::collections::BTreeSet::new();
    let mut add = |used: &Use| match used {
        Use::Idle => {}
        Use::InUse { by } => pods.extend([by.clone()]),
        Use::MaybeInUse { by } => pods.extend(by.iter().cloned()),
    };
    for (index, target) in &choice.targets {
        let gpu = &node.gpus[index];
        match &gpu.slices {
            Slices::Placed(slices) if node.scope == ChangeScope::SliceBySlice => {
                let goes = slices.iter().filter(|s| !target.contains(&(s.profile, s.start)));
                goes.for_each(|s| add(&s.used));
            }
            _ => apply::uses(gpu).into_iter().for_each(&mut add),
        }
    }
    if node.scope == ChangeScope::EmptyNode {
        node.gpus.values().flat_map(apply::uses).for_each(add);
    }
    pods.into_iter().collect()
}

fn rule(rules: &[StaticRule], index: GpuIndex, gpu: &Gpu) -> Option<Vec<ProfileName>> {
    let rule = rules.iter().find(|rule| {
        rule.model.as_ref().is_none_or(|model| *model == gpu.model)
            && rule.indices.as_ref().is_none_or(|indices| indices.contains(&index))
    })?;
    Some(rule.slices.iter().flat_map(|(p, n)| std::iter::repeat_n(*p, usize::from(*n))).collect())
}

fn count(slices: &[ProfileName], profile: ProfileName) -> u32 {
    u32::try_from(slices.iter().filter(|p| **p == profile).count()).expect("few")
}

fn same(a: &[ProfileName], b: &[ProfileName]) -> bool {
    let sorted = |list: &[ProfileName]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    sorted(a) == sorted(b)
}
