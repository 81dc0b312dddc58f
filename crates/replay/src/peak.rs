//! A layout in hindsight: the one that the planner would give an idle fleet for the requests at the busiest
//! second. It is the choice of an administrator who knew the trace and could partition the GPUs once.

use std::collections::BTreeMap;

use crate::actuator::Actuator;
use crate::fleet::Fleet;
use crate::player::{Decided, Player, Unsafe};
use crate::run::{Rules, everywhere, whole};
use crate::see;
use crate::target::Cut;
use crate::trace::Trace;
use crate::world::World;

/// What each GPU (node and index) is cut into for the busiest second; a GPU
/// that nobody needs then is not named.
///
/// # Errors
/// If the plan breaks a rule, which is a bug.
pub fn peak_layouts(
    trace: &Trace,
    fleet: &Fleet,
    rules: &Rules,
) -> Result<BTreeMap<(usize, usize), Cut>, Unsafe> {
    let (_, at) = trace.peak();
    let there = |request: &usize| {
        let asked = &trace.requests[*request];
        asked.from <= at && at < asked.until
    };
    let there: Vec<usize> = (0..trace.requests.len()).filter(there).collect();
    let idle = World::cut(fleet.nodes.iter().map(|node| node.gpus.iter().map(whole).collect()));
    let inventory = see::inventory(&idle, fleet, &trace.requests, Actuator::SingleSlices, at);
    let requests = see::requests(&there, &trace.requests, &BTreeMap::new());
    let policy = everywhere(rules.policy.clone());
    let under_way = planner::plan::UnderWay::default();
    let Decided { wanted, .. } = Player::Slicewright.wants(&inventory, &requests, &policy, &under_way)?;
    let node = |name: &planner::names::NodeName| fleet.nodes.iter().position(|node| node.name == *name);
    let cuts = wanted.into_iter().filter_map(|(name, target)| Some((node(&name)?, target)));
    Ok(cuts.flat_map(|(node, target)| target.into_iter().map(move |(gpu, cut)| ((node, gpu), cut))).collect())
}
