//! The methods that decide the layouts of GPUs.

use std::collections::BTreeMap;

use planner::check::JudgedPlan;
use planner::decide::decide_while;
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::{NodeName, RequestId};
use planner::plan::UnderWay;
use planner::policy::Policy;
use planner::report::Outcome;

use crate::pick::{self, Best};
use crate::target::{Cut, Wanted};

/// Who decides what GPUs are cut into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Player {
    /// The planner.
    Slicewright,
    /// Nobody: the GPUs stay as they are cut at the beginning.
    Static,
    /// Request by request, oldest first, the first GPU that will do.
    FirstFit,
    /// Request by request, oldest first, the GPU that has the least to spare.
    BestFit,
}

/// The planner's plan breaks a rule: a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan is not safe; please report this: {}", notes.join("; "))]
pub struct Unsafe {
    /// What the checker says.
    pub notes: Vec<String>,
}

impl Player {
    /// Whether it decides at all.
    pub(crate) const fn decides(&self) -> bool {
        match self {
            Self::Slicewright | Self::FirstFit | Self::BestFit => true,
            Self::Static => false,
        }
    }

    /// What it decides about the fleet now.
    pub(crate) fn wants(
        &self,
        inventory: &Inventory,
        requests: &[Request],
        policy: &Policy,
        under_way: &UnderWay,
    ) -> Result<Decided, Unsafe> {
        let wants = |wanted| Ok(Decided { wanted, serves: None });
        match self {
            Self::Slicewright => planned(inventory, requests, policy, under_way),
            Self::Static => wants(Wanted::new()),
            Self::FirstFit => wants(pick::pick(inventory, requests, Best::First)),
            Self::BestFit => wants(pick::pick(inventory, requests, Best::Tightest)),
        }
    }
}

/// What was decided.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    /// What becomes of the fleet.
    pub(crate) wanted: Wanted,
    /// Who is served. Nothing, where nobody plans for anybody, or the planner gave up.
    pub(crate) serves: Option<BTreeMap<RequestId, Served>>,
}

/// Where somebody is served.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) node: NodeName,
    /// By slices that are there, or that the node is changing to.
    pub(crate) is_now: bool,
}

fn planned(
    inventory: &Inventory,
    requests: &[Request],
    policy: &Policy,
    under_way: &UnderWay,
) -> Result<Decided, Unsafe> {
    let policies = std::slice::from_ref(policy);
    let decision = decide_while(inventory, requests, policies, under_way);
    let judged = JudgedPlan::new(decision.plan, inventory, requests, policies);
    let Some(plan) = judged.checked() else {
        return Err(Unsafe { notes: judged.notes().iter().map(ToString::to_string).collect() });
    };
    let steps = plan.in_order().map(|step| {
        let gpus: BTreeMap<usize, Cut> =
            step.gpus.iter().map(|change| (usize::from(change.gpu.0), change.after.clone())).collect();
        (step.node.clone(), gpus)
    });
    let serves = decision.report.requests.iter().filter_map(|report| {
        let served = match &report.outcome {
            Outcome::ServedNow { node, .. } => Served { node: node.clone(), is_now: true },
            Outcome::ServedByPlan { node, .. } => Served { node: node.clone(), is_now: false },
            Outcome::Unserved { .. } => return None,
        };
        Some((report.id.clone(), served))
    });
    let serves = decision.report.gave_up.is_none().then(|| serves.collect());
    Ok(Decided { wanted: steps.collect(), serves })
}
