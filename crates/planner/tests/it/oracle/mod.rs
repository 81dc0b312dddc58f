//! An independent planner for tiny fleets: it tries everything. It is slow and obvious, and shares only the
//! vocabulary with the planner.
//!
//! A node contributes the numbers of existing and of free slices of each relevant profile, and four costs
//! (not whole, changed, stranded, operations). So of all layouts of a node with equal counts only the
//! cheapest matters.

pub(crate) mod apply;
pub(crate) mod choices;
pub(crate) mod evict;
pub(crate) mod grid;
pub(crate) mod help;
pub(crate) mod may;
pub(crate) mod placing;
pub(crate) mod promises;
pub(crate) mod values;
pub(crate) mod world;

use planner::demand::Request;
use planner::inventory::{Inventory, Node};
use planner::names::{GpuIndex, NodeName};
use planner::plan::{GpuChange, NodeStep, Plan};
use planner::policy::Policy;

use choices::Choice;
use grid::Slice;
use values::{Demand, Values};

/// The best plan, and the value of each level of the objective.
pub(crate) fn best(inventory: &Inventory, requests: &[Request], policies: &[Policy]) -> (Plan, Values) {
    let demand = Demand::new(inventory, requests, policies);
    let nodes: Vec<(&NodeName, &Node)> = inventory.nodes.iter().collect();
    let of_node = |(name, node): &(&NodeName, &Node)| {
        choices::of_node(&demand, &demand.as_promised(name, node), demand.policy_of(name))
    };
    let options: Vec<Vec<Choice>> = nodes.iter().map(of_node).collect();
    let mut search = Search { demand: &demand, options: &options, best: None, cap: 0 };
    search.run(&mut Vec::new());
    let (values, chosen) = search.best.expect("changing nothing is always possible");
    let steps = nodes.iter().zip(chosen).filter(|(_, choice)| !choice.targets.is_empty()).map(
        |((name, node), choice)| NodeStep {
            node: (*name).clone(),
            policy: demand.policy_of(name).expect("it changes").name.clone(),
            gpus: choice.targets.iter().map(|(index, after)| change(node, *index, after)).collect(),
            enable_mig: choice
                .targets
                .iter()
                .any(|(index, after)| !after.is_empty() && evict::is_off(&node.gpus[index])),
            evicts: choice.evicts.into_iter().collect(),
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
        let limit = self.best.as_ref().map(|(values, _)| values);
        if let Some(values) = self.demand.values(chosen, limit) {
            self.best = Some((values, chosen.iter().map(|choice| (*choice).clone()).collect()));
        }
    }
}
