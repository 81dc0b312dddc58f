//! Policies as the planner sees them: parsed, validated, and without the fields that only the rollout needs
//! (windows, budget, cooldown).

use std::collections::BTreeMap;

use mig::ProfileName;
use serde::{Deserialize, Serialize};

use crate::demand::Expression;
use crate::names::{GpuIndex, PolicyName};

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Its name.
    pub name: PolicyName,
    /// Which nodes; all must match. Never empty.
    pub nodes: Vec<Expression>,
    /// A node has one policy: the highest priority, then the first name.
    pub priority: i32,
    /// What it does.
    pub mode: Mode,
    /// The layout it wants.
    pub layout: LayoutPolicy,
    /// Whether pods in the way of a static layout may be evicted.
    pub drain: Drain,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Plans, reports and changes.
    Enforce,
    /// Plans and reports.
    Preview,
    /// Starts nothing new.
    Paused,
    /// What it says makes no sense. It starts nothing either.
    Invalid,
}

impl Mode {
    /// Whether nothing is changed for it, nor planned to be.
    #[must_use]
    pub const fn starts_nothing(self) -> bool {
        matches!(self, Self::Paused | Self::Invalid)
    }
}

/// Whether pods that hold, or may hold, a slice that goes are evicted. Static
/// layouts and onboarding only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drain {
    /// Never: the change waits for them to end.
    Never,
    /// By the eviction API, honouring disruption budgets.
    Evict,
}

/// The layout that a policy wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutPolicy {
    /// What is asked for, within bounds.
    DemandDriven {
        /// Namespaces whose requests count; all expressions must match.
        namespaces: Vec<Expression>,
        /// Bounds by profile; totals over the policy's nodes. A profile that
        /// is not listed has none.
        slices: BTreeMap<ProfileName, Bounds>,
        /// What becomes of capacity that nobody asked for.
        unrequested: Unrequested,
        /// Who comes first among requests of one priority.
        #[serde(default, skip_serializing_if = "Order::is_most_served")]
        order: Order,
        /// How many compute slices namespaces have at least, and at most.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shares: Vec<Share>,
        /// Bounds of whole GPUs; totals over the policy's nodes. Without them MIG
        /// is never switched off, and every GPU on which it is off is cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole_gpus: Option<Bounds>,
    },
    /// Always the same. Of several rules that match a GPU, the first is used.
    Static {
        /// The rules.
        gpus: Vec<StaticRule>,
    },
}

impl LayoutPolicy {
    /// The bounds of whole GPUs, where requests decide which GPUs are whole.
    #[must_use]
    pub const fn whole_gpus(&self) -> Option<&Bounds> {
        match self {
            Self::DemandDriven { whole_gpus, .. } => whole_gpus.as_ref(),
            Self::Static { .. } => None,
        }
    }

    /// Whether it leaves a GPU whole, or makes it whole for who asks: by the rule for this GPU, or where requests decide
    /// and a bound of none does not forbid it. What the GPU is now does not matter.
    #[must_use]
    pub fn may_be_whole(&self, model: &str, index: GpuIndex) -> bool {
        match self {
            Self::DemandDriven { whole_gpus, .. } => whole_gpus.is_some_and(|bounds| bounds.max != Some(0)),
            Self::Static { gpus } => {
                rule_for(gpus, model, index).is_some_and(|rule| rule.cut == StaticCut::MigOff)
            }
        }
    }

    /// Whether some of its GPUs are, or may become, whole, so that it answers
    /// who asks for whole GPUs.
    #[must_use]
    pub fn offers_whole_gpus(&self) -> bool {
        match self {
            Self::DemandDriven { whole_gpus, .. } => whole_gpus.is_some(),
            Self::Static { gpus } => gpus.iter().any(|rule| rule.cut == StaticCut::MigOff),
        }
    }

    /// Whether requests of one priority are served in turn, the oldest first.
    #[must_use]
    pub fn serves_in_turn(&self) -> bool {
        matches!(self, Self::DemandDriven { order: Order::OldestFirst, .. })
    }
}

/// Who comes first among requests of one priority that want the same nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Whoever it takes to serve as many compute slices as possible.
    #[default]
    MostServed,
    /// The oldest that can be served, then the next oldest that can be served
    /// beside it, and so on.
    OldestFirst,
}

impl Order {
    /// Whether the sum of what is served decides.
    #[must_use]
    pub fn is_most_served(&self) -> bool {
        *self == Self::MostServed
    }
}

/// How many compute slices some namespaces have on the nodes of a policy: those
/// that their pods hold, and those that their requests get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which namespaces; all expressions must match.
    pub namespaces: Vec<Expression>,
    /// Whether it is the share of each of them, and not of all together.
    pub per_namespace: bool,
    /// At least so many, as long as they ask for them.
    pub min: u32,
    /// No more than so many; what is held beyond is not taken away.
    pub max: Option<u32>,
}

/// Bounds of one profile. `min` and `max` count slices that exist, in use or
/// not; `spare` counts those free once every served request has its slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// At least so many exist, where that is feasible.
    pub min: u32,
    /// So many should be free.
    pub spare: u32,
    /// No more than so many exist; slices in use are never destroyed for it.
    pub max: Option<u32>,
}

/// Capacity that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unrequested {
    /// Stays as it is.
    Keep,
    /// One full-size slice on each GPU that is idle.
    Whole,
}

/// What becomes of some GPUs under a static layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticRule {
    /// GPUs of this model; any when absent.
    pub model: Option<String>,
    /// GPUs with these indices on their node; any when absent.
    pub indices: Option<Vec<GpuIndex>>,
    /// What they are cut into, if they are.
    #[serde(flatten)]
    pub cut: StaticCut,
}

impl StaticRule {
    /// Whether it matches a GPU; of several such rules, the first is used.
    fn is_for(&self, model: &str, index: GpuIndex) -> bool {
        self.model.as_deref().is_none_or(|wanted| wanted == model)
            && self.indices.as_deref().is_none_or(|indices| indices.contains(&index))
    }

    /// Whether its GPUs are cut into slices of this profile, among others.
    #[must_use]
    pub fn cuts_into(&self, profile: ProfileName) -> bool {
        self.cut.slices().any(|(cut, _)| cut == profile)
    }
}

/// The rule of a static layout for a GPU: the first that matches.
#[must_use]
pub fn rule_for<'p>(rules: &'p [StaticRule], model: &str, index: GpuIndex) -> Option<&'p StaticRule> {
    rules.iter().find(|rule| rule.is_for(model, index))
}

/// What a GPU is cut into under a static layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StaticCut {
    /// So many slices of each profile.
    #[serde(rename = "slices")]
    Slices(BTreeMap<ProfileName, u8>),
    /// Nothing: MIG is off, and pods get the GPU as a whole.
    #[serde(rename = "migOff")]
    MigOff,
}

impl StaticCut {
    /// How many slices of each profile, those of which there are some; none where MIG is off.
    pub fn slices(&self) -> impl Iterator<Item = (ProfileName, u8)> {
        let slices = match self {
            Self::Slices(slices) => Some(slices),
            Self::MigOff => None,
        };
        slices.into_iter().flatten().filter(|(_, n)| **n > 0).map(|(profile, n)| (*profile, *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_may_be_whole_by_its_own_rule_or_where_requests_decide_and_no_bound_forbids_it() {
        let rule = |model: Option<&str>, indices: &[u16], cut| StaticRule {
            model: model.map(str::to_owned),
            indices: (!indices.is_empty()).then(|| indices.iter().map(|i| GpuIndex(*i)).collect()),
            cut,
        };
        let sevenths = StaticCut::Slices(BTreeMap::new());
        let fixed = LayoutPolicy::Static {
            gpus: vec![
                rule(Some("A30"), &[], StaticCut::MigOff),
                rule(None, &[0], StaticCut::MigOff),
                rule(None, &[], sevenths),
            ],
        };
        let on_demand = |whole_gpus| LayoutPolicy::DemandDriven {
            namespaces: vec![],
            slices: BTreeMap::new(),
            unrequested: Unrequested::Keep,
            order: Order::MostServed,
            shares: vec![],
            whole_gpus,
        };
        let at_most = |max| on_demand(Some(Bounds { max, ..Bounds::default() }));
        for (layout, model, index, may) in [
            (&fixed, "A30", 3, true),
            (&fixed, "A100-80GB", 0, true),
            (&fixed, "A100-80GB", 1, false),
            (&on_demand(None), "A100-80GB", 0, false),
            (&at_most(None), "A100-80GB", 0, true),
            (&at_most(Some(1)), "A100-80GB", 7, true),
            (&at_most(Some(0)), "A100-80GB", 0, false),
        ] {
            assert_eq!(layout.may_be_whole(model, GpuIndex(index)), may, "{model} {index} by {layout:?}");
        }
    }
}
