//! What policies say of rollouts, in the rollout's own terms.

use std::collections::BTreeMap;

use api::units::NodeCount;
use planner::names::PolicyName;
use planner::policy::{Mode, Policy};
use rollout::fleet::PolicyRollout;
use rollout::window::Window;
use rollout::{MaxUnavailable, RolloutRules};

use crate::policy::RolloutSpec;

/// The rollout rules of every policy. A window that makes no sense was
/// reported where the policy was read, and its policy is not in force; it is
/// left out here.
#[must_use]
pub fn rollouts(
    policies: &[Policy],
    specs: &BTreeMap<PolicyName, RolloutSpec>,
) -> BTreeMap<PolicyName, PolicyRollout> {
    policies
        .iter()
        .map(|policy| {
            let rules = specs.get(&policy.name).map_or_else(RolloutRules::default, rules);
            (policy.name.clone(), PolicyRollout { rules, enforce: policy.mode == Mode::Enforce })
        })
        .collect()
}

fn rules(spec: &RolloutSpec) -> RolloutRules {
    let RolloutSpec { max_unavailable, drain, cooldown, windows } = spec;
    RolloutRules {
        max_unavailable: match max_unavailable {
            NodeCount::Number(n) => MaxUnavailable::Nodes(*n),
            NodeCount::Percent(n) => MaxUnavailable::Percent(*n),
        },
        drain: *drain,
        cooldown: *cooldown,
        windows: windows
            .iter()
            .filter_map(|window| {
                let duration = format!("{:#}", window.duration);
                Window::new(&window.schedule, &duration, &window.time_zone).ok()
            })
            .collect(),
    }
}
