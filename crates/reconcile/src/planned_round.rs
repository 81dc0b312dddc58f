//! Observe, decide, check: from the objects to a plan, a report, and what the
//! checker says of the plan.

use std::collections::BTreeMap;

use mig::Catalog;
use observe::memory::Memory;
use observe::{ClusterView, NodeView, Problem};
use planner::check::JudgedPlan;
use planner::decide::{Decision, decide_while};
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::{NodeName, PolicyName};
use planner::policy::Policy;
use planner::report::Report;
use rollout::Progress;
use rollout::fleet::PolicyRollout;
use rollout::observed::MapSeen;

use crate::input::Input;

/// What the operator thinks at one moment.
#[derive(Clone, Debug)]
pub struct PlannedRound {
    /// The nodes that have GPUs, or of which something is remembered.
    pub nodes: BTreeMap<NodeName, NodeView>,
    /// What is remembered of nodes that are not there.
    pub gone: BTreeMap<NodeName, Memory>,
    /// Our map of layouts, as the API server has it.
    pub our_map: MapSeen,
    /// What the fleet has. A node on its way is there as it will be.
    pub inventory: Inventory,
    /// What is asked for and not bound.
    pub requests: Vec<Request>,
    /// The workbenches that should run and have no pod, since when: to be
    /// handed in with the objects of the next round.
    pub starting: BTreeMap<observe::objects::Key, jiff::Timestamp>,
    /// The policies.
    pub policies: Vec<Policy>,
    /// How they roll out.
    pub rollouts: BTreeMap<PolicyName, PolicyRollout>,
    /// What is wrong with the objects, or worth knowing.
    pub problems: Vec<Problem>,
    /// The policy of each node that has one.
    pub policy_of: BTreeMap<NodeName, PolicyName>,
    /// What is to be done, and what the checker says of it.
    pub plan: JudgedPlan,
    /// Why, and why not more.
    pub report: Report,
}

impl PlannedRound {
    /// What is remembered of a node, whether it is there or not.
    #[must_use]
    pub fn memory_of(&self, node: &NodeName) -> Option<&Memory> {
        self.nodes.get(node).map(|node| &node.memory).or_else(|| self.gone.get(node))
    }

    /// What is remembered of a node's rollout.
    #[must_use]
    pub fn progress_of(&self, node: &NodeName) -> Progress {
        self.memory_of(node).map(|memory| memory.progress.clone()).unwrap_or_default()
    }
}

/// Observes. A preview sees a recorded fleet through this too, so that what is
/// planned from a file is what is planned on the cluster.
#[must_use]
pub fn see(input: &Input<'_>) -> ClusterView {
    observe::observe(input.objects, Catalog::builtin(), &input.settings.observe, input.now)
}

/// Observes, decides and checks.
#[must_use]
pub fn plan_round(input: &Input<'_>) -> PlannedRound {
    let ClusterView {
        nodes,
        gone,
        our_map,
        inventory,
        requests,
        starting,
        policies,
        rollouts,
        under_way,
        problems,
    } = see(input);
    let Decision { plan, report } = decide_while(&inventory, &requests, &policies, &under_way, input.now);
    let plan = JudgedPlan::new(plan, &inventory, &requests, &policies);
    let policy_of = planner::assign::policy_of(&inventory, &policies).policy_of;
    PlannedRound {
        nodes,
        gone,
        our_map,
        inventory,
        requests,
        starting,
        policies,
        rollouts,
        problems,
        policy_of,
        plan,
        report,
    }
}
