//! Observe, decide, check: from the objects to a plan, a report, and the checker's result for the plan.

use std::collections::BTreeMap;

use mig::Catalog;
use observe::ClusterView;
use observe::memory::Memory;
use planner::check::JudgedPlan;
use planner::decide::{Decision, decide_next};
use planner::names::{NodeName, PolicyName};
use planner::report::Report;
use rollout::Progress;

use crate::gangs::{MOST_PLANS, keep_apart};
use crate::input::Input;
use crate::session::Session;
use crate::surge;

/// What is known of the cluster at one moment, and what is planned for it.
#[derive(Clone, Debug)]
pub struct PlannedRound {
    /// What was observed, of which everything else follows.
    pub view: ClusterView,
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
        self.view.nodes.get(node).map(|node| &node.memory).or_else(|| self.view.gone.get(node))
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
    plan_next_round(input, &mut Session::default())
}

/// The same, with what is kept of the rounds before: it saves time and changes nothing.
#[must_use]
pub fn plan_next_round(input: &Input<'_>, session: &mut Session) -> PlannedRound {
    let Session { readings, planner } = session;
    let mut view = observe::observe_next(
        input.objects,
        Catalog::builtin(),
        &input.settings.observe,
        input.now,
        readings,
    );
    let mut plans = 1;
    let Decision { plan, mut report } = loop {
        let ClusterView { inventory, requests, policies, under_way, .. } = &view;
        let decision = decide_next(planner, inventory, requests, policies, under_way);
        if plans == MOST_PLANS || !keep_apart(&mut view, &decision.report) {
            break decision;
        }
        plans += 1;
    };
    let ClusterView { inventory, requests, policies, .. } = &view;
    surge::explain(input.objects, &view, &mut report);
    let plan = JudgedPlan::new(plan, inventory, requests, policies);
    let policy_of = planner::assign::policy_of(inventory, policies).policy_of;
    PlannedRound { view, policy_of, plan, report }
}
