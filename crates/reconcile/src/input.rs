//! The input of a round.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
pub use observe::MapRef;
use observe::Objects;
use planner::names::NodeName;
use rollout::observed::{Listing, Refusal};

use crate::menu::MenuSettings;

/// Everything that a round is decided on. The same input gives the same round.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The objects of the cluster. What is remembered of nodes is in its
    /// `GpuNode`s.
    pub objects: &'a Objects,
    /// What the caller knows of nodes beside the objects; a node that is not
    /// named was never listed, and nothing was refused.
    pub local: &'a BTreeMap<NodeName, LocalState>,
    /// When we last changed our map, if that is known. After a restart it is
    /// not, and each node waits from the moment at which it saw its entry.
    pub map_changed: Option<Timestamp>,
    /// What keeps the caller from doing what a round asks for.
    pub obstacles: &'a Obstacles,
    /// The operator's own settings.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
}

/// What the caller knows of one node beside the objects. All of it may be
/// lost in a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalState {
    /// When the consistent read began whose pods of this node are among the
    /// objects; none when they come from a watch only.
    pub listed: Option<Timestamp>,
    /// Evictions that the API server refused since the last round.
    pub refusals: Vec<Refusal>,
    /// The write for this node that the API server refuses to take.
    pub refused: Option<RefusedWrite>,
    /// Somebody else changes what is remembered of the node, so often in a row
    /// that the caller writes it less often.
    pub undone: Option<u32>,
    /// By how much the caller's clock was put forward since what is remembered
    /// of the node was stored; zero as a rule.
    pub put_forward: SignedDuration,
}

/// What keeps the caller from doing what a round asks for, whatever the node.
/// All of it may be lost in a crash, and is found again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Until when nothing is done to nodes, since the API's data went back in
    /// time: everybody else in the cluster has to come to terms with it, too.
    pub settles_until: Option<Timestamp>,
    /// The API server refuses to take our map.
    pub map: Option<RefusedWrite>,
    /// The same for our map of the device plugin's configurations.
    pub plugin_map: Option<RefusedWrite>,
    /// The API server refuses to have `ClusterPolicy` point the device plugin to that map.
    pub plugin_pointer: Option<RefusedWrite>,
    /// We have pointed `ClusterPolicy` there lately, and somebody has pointed it elsewhere since: until when it is left so.
    pub pointer_rests_until: Option<Timestamp>,
    /// The same of MIG manager, which starts anew on every node by that.
    pub map_pointer_rests_until: Option<Timestamp>,
}

impl Obstacles {
    /// There are none.
    pub const NONE: Self = Self {
        settles_until: None,
        map: None,
        plugin_map: None,
        plugin_pointer: None,
        pointer_rests_until: None,
        map_pointer_rests_until: None,
    };

    /// Until when nothing is done to nodes, if that is still to come.
    #[must_use]
    pub fn settling(&self, now: Timestamp) -> Option<Timestamp> {
        self.settles_until.filter(|until| *until > now)
    }
}

/// A write that the API server refuses until a human allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrite {
    /// What was to be written, such as `patch Node a1`.
    pub write: String,
    /// The refuser's own words, cut.
    pub words: String,
}

impl LocalState {
    pub(crate) fn listing(&self) -> Listing {
        self.listed.map_or(Listing::Cached, |at| Listing::Consistent { at })
    }
}

/// The operator's own settings: flags, not policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How objects are read, and which map is ours.
    pub observe: observe::Settings,
    /// The times of the rollout.
    pub rollout: rollout::Settings,
    /// The administrators' own map, if they have one: its entries are carried
    /// over into ours.
    pub administrators_map: Option<MapRef>,
    /// Whether we point `ClusterPolicy` to our map of the device plugin's configurations ourselves.
    pub points_device_plugin: bool,
    /// Whether we answer the admission checks that Kueue's queues ask.
    pub answers_checks: bool,
    /// How long a workload has to hold quota without being served before it is
    /// sent back into its queue for one that can use the quota.
    pub quota_hold: SignedDuration,
    /// What is published for OpenShift AI, if anything.
    pub menu: Option<MenuSettings>,
}

impl Settings {
    /// For who reads a cluster, or what was recorded of one, and does nothing to it. Where its agents are is not known
    /// then, so that their labels and their DaemonSet alone say which pods they are.
    #[must_use]
    pub fn of_a_reader() -> Self {
        let observe = observe::Settings { agent_namespace: None, ..observe::Settings::default() };
        Self { observe, ..Self::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            points_device_plugin: false,
            observe: observe::Settings::default(),
            rollout: rollout::Settings::default(),
            administrators_map: None,
            answers_checks: false,
            quota_hold: SignedDuration::from_mins(5),
            menu: None,
        }
    }
}
