//! How nodes are changed: which part of a GPU can change, what is known of its slices, and how long a
//! change takes.

use jiff::SignedDuration;
use planner::inventory::ChangeScope;
use planner::names::{NodeName, PolicyName};
use rollout::Settings;
use rollout::fleet::{CUT, OFFER, PlannedChange, node_time};

/// How long it takes at most until kubelet says of a plugin that went that
/// nothing is left: it writes its status every 10 s.
const NOTICE: SignedDuration = SignedDuration::from_secs(10);

/// Who changes nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actuator {
    /// NVIDIA's MIG manager, and nobody on the node says which pod holds which
    /// slice: a GPU is idle where no pod of the node holds any profile that it has.
    ProvablyIdle,
    /// The same, with an agent that only looks: every idle GPU is known to be one.
    IdleGpus,
    /// An agent that creates and destroys single slices beside those in use.
    SingleSlices,
}

impl Actuator {
    /// All of them, the least able first.
    pub const ALL: [Self; 3] = [Self::ProvablyIdle, Self::IdleGpus, Self::SingleSlices];

    /// Its name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProvablyIdle => "provably-idle",
            Self::IdleGpus => "idle-gpus",
            Self::SingleSlices => "single-slices",
        }
    }

    pub(crate) const fn scope(self) -> ChangeScope {
        match self {
            Self::ProvablyIdle | Self::IdleGpus => ChangeScope::IdleGpus,
            Self::SingleSlices => ChangeScope::SliceBySlice,
        }
    }

    /// Whether an agent changes the node, after which it rests for a shorter time.
    pub(crate) const fn is_agent(self) -> bool {
        matches!(self, Self::SingleSlices)
    }

    /// Whether somebody on the node says where slices are and who holds them.
    pub(crate) const fn sees_places(self) -> bool {
        match self {
            Self::ProvablyIdle => false,
            Self::IdleGpus | Self::SingleSlices => true,
        }
    }

    /// How long nobody can bind to a node that changes, from its cordon until
    /// it is open again.
    ///
    /// Of MIG manager it is what the product estimates, the slow end of what
    /// is seen. Of an agent that changes single slices it is a cautious
    /// assumption: nothing is parked and no label is waited for, so what is
    /// left is the cordon, kubelet that notices, the cut, and the plugin that
    /// offers anew. On kind, over simulated GPUs, a third of it was seen
    /// (`docs/e2e.md`, the story `agent`); on real GPUs, nothing.
    #[must_use]
    pub fn away(self, settings: &Settings) -> SignedDuration {
        match self {
            Self::ProvablyIdle | Self::IdleGpus => {
                let (node, policy) = (NodeName(String::new()), PolicyName(String::new()));
                node_time(&PlannedChange { node, policy, mode_change: false, evicts: 0 }, settings)
            }
            Self::SingleSlices => settings.cordon_settle + NOTICE + CUT + OFFER,
        }
    }

    /// How long a layout that is not in the map yet takes to come to the node.
    #[must_use]
    pub const fn map_settle(self, settings: &Settings) -> SignedDuration {
        match self {
            Self::ProvablyIdle | Self::IdleGpus => settings.map_settle,
            Self::SingleSlices => SignedDuration::ZERO,
        }
    }
}
