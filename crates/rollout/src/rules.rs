//! What a policy allows, and the operator's own settings.

use jiff::SignedDuration;
use planner::policy::Drain;

use crate::outlook::StartBlocker;

/// `spec.rollout` of a policy, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutRules {
    /// How many of the policy's nodes may be unavailable, whatever the reason.
    pub max_unavailable: MaxUnavailable,
    /// Whether pods in the way may be evicted (static layouts and onboarding only).
    pub drain: Drain,
    /// How long a node rests after a change. Unset, that depends on what a change
    /// costs it: see [`RolloutRules::cooldown`].
    pub cooldown: Option<SignedDuration>,
    /// When nodes may start; empty means always.
    pub windows: Vec<crate::window::Window>,
}

impl Default for RolloutRules {
    fn default() -> Self {
        Self {
            max_unavailable: MaxUnavailable::Nodes(1),
            drain: Drain::Never,
            cooldown: None,
            windows: Vec::new(),
        }
    }
}

/// How long a node rests after whole GPUs were changed, if the policy says nothing.
pub const COOLDOWN_OF_GPUS: SignedDuration = SignedDuration::from_mins(10);
/// How long a node rests after its agent changed single slices, if the policy
/// says nothing: the node was away for seconds, and nobody lost anything.
pub const COOLDOWN_OF_SLICES: SignedDuration = SignedDuration::from_secs(30);
/// How long a node rests after its device plugin was told how devices are
/// shared, if the policy says nothing: as long as after single slices, and for
/// the same reasons.
pub const COOLDOWN_OF_SHARING: SignedDuration = SignedDuration::from_secs(30);

impl RolloutRules {
    /// How long a node rests after its layout changed.
    #[must_use]
    pub fn cooldown(&self, by_agent: bool) -> SignedDuration {
        self.cooldown.unwrap_or(if by_agent { COOLDOWN_OF_SLICES } else { COOLDOWN_OF_GPUS })
    }

    /// How long a node rests after only its sharing changed.
    #[must_use]
    pub fn cooldown_of_sharing(&self) -> SignedDuration {
        self.cooldown.unwrap_or(COOLDOWN_OF_SHARING)
    }
}

/// `spec.rollout.maxUnavailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxUnavailable {
    /// So many nodes.
    Nodes(u32),
    /// So many per cent of the policy's nodes.
    Percent(u8),
}

impl MaxUnavailable {
    /// How many of `nodes` nodes may be unavailable. A percentage is rounded
    /// down, as a Deployment does it, but to at least one, as the Machine
    /// Config Operator does it: a small pool would otherwise never change,
    /// and say nothing. `0` and `0%` mean that nothing starts.
    #[must_use]
    pub fn scaled_to(self, nodes: usize) -> usize {
        match self {
            Self::Nodes(n) => n as usize,
            Self::Percent(0) => 0,
            Self::Percent(percent) => (nodes * usize::from(percent) / 100).max(1),
        }
    }
}

/// Whether a node may start now; decided over all nodes by [`crate::fleet::admit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Admitted,
    /// Not now.
    Held(StartBlocker),
}

/// What holds for one node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRules {
    /// Whether it may start.
    pub admission: Admission,
    /// Whether pods in the way may be evicted. The caller passes `Evict` for
    /// static layouts and onboarding only.
    pub drain: Drain,
    /// How long the node rests after a change of its layout.
    pub cooldown: SignedDuration,
    /// How long it rests after a change of its sharing alone.
    pub cooldown_of_sharing: SignedDuration,
    /// The operator's settings.
    pub settings: Settings,
}

/// Times of the protocol. Each limit ends in something that is said, never in
/// a longer silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long kubelet may take to bring a map entry into MIG manager's pod
    /// (a flag). Cannot be observed; kubelet syncs every 60 to 90 s.
    pub map_settle: SignedDuration,
    /// How long the scheduler may take to notice a cordon (a flag).
    pub cordon_settle: SignedDuration,
    /// A consistent list older than this is read again before a label is written.
    pub list_fresh: SignedDuration,
    /// How long a write or a read may take to be seen before it is called trouble.
    pub write_limit: SignedDuration,
    /// How long bound pods may take to start, or to end when they are ending.
    pub quiesce_limit: SignedDuration,
    /// How long evicted pods may take to go.
    pub drain_limit: SignedDuration,
    /// How long MIG manager may take to say anything after the label changed.
    pub pickup_limit: SignedDuration,
    /// Pending and paused for longer is taken as its known wedge: one of its
    /// own waits ends after 5 minutes, and the change itself takes a minute.
    pub wedged_after: SignedDuration,
    /// How long a change or a reboot may take as a whole (five waits of five
    /// minutes, the change, a boot).
    pub change_limit: SignedDuration,
    /// How long after success the slices may take to be schedulable.
    pub verify_limit: SignedDuration,
    /// How long the expected picture must hold: two status updates of kubelet.
    pub stable_for: SignedDuration,
    /// How long somebody else's work on an unfinished node may take.
    pub interruption_limit: SignedDuration,
    /// How long to wait before an attempt that was taken back is repeated; it
    /// doubles each time.
    pub retreat_backoff: SignedDuration,
    /// How long to wait before a layout that was rolled back is tried again;
    /// it doubles each time.
    pub roll_back_backoff: SignedDuration,
    /// The longest of these.
    pub longest_backoff: SignedDuration,
    /// How long a node is held for its agent before the agent has claimed the
    /// change. Nothing is lost by taking the hold back, and pods wait for it.
    pub hold_limit: SignedDuration,
    /// How long an agent may take for a change that it has claimed.
    pub agent_limit: SignedDuration,
    /// How long no pod of an agent is on a node before it counts as uninstalled
    /// there. The update of a DaemonSet replaces a pod within seconds, and the
    /// pull of its image takes minutes. Nothing that runs depends on it: a node
    /// that is given back too early is handed over again when the agent comes,
    /// and neither costs a slice.
    pub agent_gone_after: SignedDuration,
    /// How often something that is waited for is looked at.
    pub poll: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            map_settle: SignedDuration::from_secs(120),
            cordon_settle: SignedDuration::from_secs(5),
            list_fresh: SignedDuration::from_secs(10),
            write_limit: SignedDuration::from_mins(5),
            quiesce_limit: SignedDuration::from_mins(10),
            drain_limit: SignedDuration::from_hours(1),
            pickup_limit: SignedDuration::from_mins(3),
            wedged_after: SignedDuration::from_mins(10),
            change_limit: SignedDuration::from_mins(30),
            verify_limit: SignedDuration::from_mins(10),
            stable_for: SignedDuration::from_secs(20),
            interruption_limit: SignedDuration::from_hours(4),
            retreat_backoff: SignedDuration::from_mins(5),
            roll_back_backoff: SignedDuration::from_hours(1),
            longest_backoff: SignedDuration::from_hours(24),
            hold_limit: SignedDuration::from_mins(2),
            agent_limit: SignedDuration::from_mins(10),
            agent_gone_after: SignedDuration::from_mins(10),
            poll: SignedDuration::from_secs(10),
        }
    }
}
