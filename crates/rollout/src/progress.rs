//! The record of a node's rollout, in `GpuNode.status.rollout`. It is stored before the writes that it
//! announces are done.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::agent_seen::{SliceChange, SlicePlace};
use crate::layout::NodeLayout;
use crate::outlook::{FailureReason, Trouble};
use crate::sharing::{PluginConfig, SharingChange};

/// Where a node is on its way. The default is a node that we never touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// The step.
    pub phase: Phase,
    /// When the step began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Where it goes; `None` when it rests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The last value of the label that we wrote and saw there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// The layout that was last proved schedulable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// No new change before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    /// When the last change ended. How long the node rests after it is the
    /// policy's that is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// When the last change ended in which only the device plugin was told how
    /// devices are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_at: Option<Timestamp>,
    /// When the mark of our cordon, which somebody had removed, was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_again_at: Option<Timestamp>,
    /// A layout that could not be reached, and when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_back: Option<SetBack>,
    /// Why the last attempt went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Trouble>,
    /// Why the node waits for a human.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailureReason>,
    /// Since when everything that verification asks for is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_since: Option<Timestamp>,
    /// Since when somebody else works on a node that we have not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted_since: Option<Timestamp>,
    /// Since when a node at rest offers something else than its agent reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offers_otherwise_since: Option<Timestamp>,
    /// Since when no pod of an agent is on a node of which one has reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_left_since: Option<Timestamp>,
    /// That is so long ago that the agent counts as uninstalled there: nothing
    /// that it has reported is believed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agent_gone: bool,
    /// MIG manager was switched off by us, for the agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stood_down: bool,
    /// The device plugin's configuration that we last gave to the node and saw
    /// there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_as: Option<PluginConfig>,
    /// A sharing that could not be reached, and when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing_set_back: Option<SharingSetBack>,
    /// The entry by which the node is to be given back to MIG manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hands_back: Option<Mapped>,
}

/// An entry of the map, and since when it is known to be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapped {
    /// Its name.
    pub entry: String,
    /// Since when.
    pub at: Timestamp,
}

impl Progress {
    /// Whether something was found, since `before`, not to have come in time
    /// or to have come wrong: a retry, a new pod of MIG manager, going back, or
    /// a human. Whoever calls us makes sure first that it saw what is there.
    #[must_use]
    pub fn finds_fault_after(&self, before: &Self) -> bool {
        let desperate = matches!(self.phase, Phase::Healing | Phase::Relabelling | Phase::Failed);
        let found = |now: bool, same: bool| now && !same;
        desperate && self.phase != before.phase
            || found(self.last_error.is_some(), self.last_error == before.last_error)
            || found(self.set_back.is_some(), self.set_back == before.set_back)
            || found(self.sharing_set_back.is_some(), self.sharing_set_back == before.sharing_set_back)
            || found(self.failed.is_some(), self.failed == before.failed)
    }
}

/// When the clock by which it is dated is set.
impl Progress {
    /// As it is after the clock was put forward by so much: each step has taken
    /// as long as before.
    #[must_use]
    pub fn put_forward(mut self, by: SignedDuration, now: Timestamp) -> Self {
        if !by.is_positive() {
            return self;
        }
        let moved = |at: Timestamp| at.saturating_add(by).unwrap_or(Timestamp::MAX);
        for passed in self.passed() {
            *passed = passed.map(|at| moved(at).min(now));
        }
        for coming in [&mut self.cooldown_until].into_iter().flatten() {
            *coming = moved(*coming);
        }
        for at in self.always_dated() {
            *at = moved(*at).min(now);
        }
        if let Some(set_back) = &mut self.set_back {
            set_back.until = moved(set_back.until);
        }
        if let Some(set_back) = &mut self.sharing_set_back {
            set_back.until = moved(set_back.until);
        }
        self
    }

    /// As it is by a clock that says `now`: what is dated in the future, by a
    /// clock that was put back since or by that of another machine, counts from
    /// now on. Without it a step would have its time once more, and as much as
    /// the clocks differ.
    #[must_use]
    pub fn no_later_than(mut self, now: Timestamp) -> Self {
        for passed in self.passed() {
            *passed = passed.map(|at| at.min(now));
        }
        for at in self.always_dated() {
            *at = (*at).min(now);
        }
        self
    }

    /// Every moment that has passed, and from which something is counted.
    fn passed(&mut self) -> impl Iterator<Item = &mut Option<Timestamp>> {
        let own = [
            &mut self.since,
            &mut self.changed_at,
            &mut self.shared_at,
            &mut self.marked_again_at,
            &mut self.matched_since,
            &mut self.interrupted_since,
            &mut self.offers_otherwise_since,
            &mut self.agent_left_since,
        ];
        let of_target = self.target.as_mut().map(|target| {
            let Target { mapped_at, key_mapped_at, cordoned_at, written_at, .. } = target;
            [mapped_at, key_mapped_at, cordoned_at, written_at]
        });
        own.into_iter().chain(of_target.into_iter().flatten())
    }

    /// The same of what is never there without its moment.
    fn always_dated(&mut self) -> impl Iterator<Item = &mut Timestamp> {
        let hands_back = self.hands_back.as_mut().map(|mapped| &mut mapped.at);
        let slices = self.target.as_mut().and_then(|target| target.slices.as_mut());
        let listed = slices.and_then(|change| change.listed.as_mut()).map(|asked| &mut asked.at);
        hands_back.into_iter().chain(listed)
    }
}

/// The steps, in their order. `docs/reference/rollout.md` explains each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The map has, or gets, the entry, and MIG manager's mount has to follow.
    Mapping,
    /// The node is being cordoned.
    Cordoning,
    /// Pods start or go, until nobody can lose a slice; then the label is written.
    Quiescing,
    /// The label is ours; MIG manager works.
    Changing,
    /// MIG manager says success; whether pods can use it is being proved.
    Verifying,
    /// MIG manager's pod is being replaced.
    Healing,
    /// Another label is being written: an alias, or the last verified layout.
    Relabelling,
    /// Proved; our cordon is being lifted.
    Releasing,
    /// Taken back before anything changed; our cordon is being lifted.
    Retreating,
    /// A human has to look.
    Failed,
    /// A human ended the rollout; we do nothing until told.
    Released,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Idle,
        Self::Mapping,
        Self::Cordoning,
        Self::Quiescing,
        Self::Changing,
        Self::Verifying,
        Self::Healing,
        Self::Relabelling,
        Self::Releasing,
        Self::Retreating,
        Self::Failed,
        Self::Released,
    ];

    /// Its name: in `GpuNode.status.rollout.phase`, in metrics and for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Mapping => "Mapping",
            Self::Cordoning => "Cordoning",
            Self::Quiescing => "Quiescing",
            Self::Changing => "Changing",
            Self::Verifying => "Verifying",
            Self::Healing => "Healing",
            Self::Relabelling => "Relabelling",
            Self::Releasing => "Releasing",
            Self::Retreating => "Retreating",
            Self::Failed => "Failed",
            Self::Released => "Released",
        }
    }

    /// The node may still be taken back: for the planner it is as if nothing
    /// had begun.
    #[must_use]
    pub const fn can_return(self) -> bool {
        match self {
            Self::Idle | Self::Mapping | Self::Cordoning | Self::Quiescing | Self::Retreating => true,
            Self::Changing
            | Self::Verifying
            | Self::Healing
            | Self::Relabelling
            | Self::Releasing
            | Self::Failed
            | Self::Released => false,
        }
    }

    /// The label may have been written: the node is finished, whatever else happens.
    #[must_use]
    pub const fn past_return(self) -> bool {
        matches!(self, Self::Changing | Self::Verifying | Self::Healing | Self::Relabelling | Self::Failed)
    }

    /// The node is cordoned, or about to be, or about to be uncordoned, by us.
    #[must_use]
    pub const fn disrupts(self) -> bool {
        match self {
            Self::Idle | Self::Mapping | Self::Released => false,
            Self::Cordoning
            | Self::Quiescing
            | Self::Changing
            | Self::Verifying
            | Self::Healing
            | Self::Relabelling
            | Self::Releasing
            | Self::Retreating
            | Self::Failed => true,
        }
    }
}

/// Where a node goes, and how far it was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The layout.
    pub layout: NodeLayout,
    /// The label's value that stands for it: an entry's name or an alias.
    pub label: String,
    /// What was there before, as far as it is known: slices of it are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeLayout>,
    /// The label's value before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_before: Option<String>,
    /// How desperate we are.
    #[serde(default)]
    pub rung: Rung,
    /// Nothing is changed here: what a reboot or a wedge took is brought back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restore: bool,
    /// How often the label was written or MIG manager restarted.
    #[serde(default)]
    pub attempt: u32,
    /// Whether MIG manager was already restarted for this label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub healed: bool,
    /// Since when the entry is known to be in the map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_at: Option<Timestamp>,
    /// Since when the node is known to be cordoned by us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_at: Option<Timestamp>,
    /// When the label was (about to be) written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<Timestamp>,
    /// The boot before.
    #[serde(default)]
    pub boot_id: String,
    /// The device plugin's pod before the label was written (uid).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_before: Option<String>,
    /// MIG manager's pod before it was told to go (uid).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager_before: Option<String>,
    /// The stale state was cleared before MIG manager's pod was told to go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleared: bool,
    /// Pods that were proved not to lose anything when the label was written (uids).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bystanders: Vec<String>,
    /// The single slices that the agent of the node changes; `None` where MIG
    /// manager changes whole GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SliceChange>,
    /// How the GPUs are to be shared; `None` where the layout changes. `label`
    /// is the device plugin's key then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingChange>,
    /// The sharing that is to follow this change of the layout, under the same
    /// cordon: its key comes into the map ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed_by: Option<PluginConfig>,
    /// Since when the map is known to have that key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_mapped_at: Option<Timestamp>,
}

impl Target {
    /// A change to a layout under this label, of which nothing has been done yet, in the boot in which it begins.
    pub(crate) fn new(layout: NodeLayout, label: String, boot_id: &str) -> Self {
        Self {
            layout,
            label,
            from: None,
            label_before: None,
            rung: Rung::First,
            restore: false,
            attempt: 0,
            healed: false,
            mapped_at: None,
            followed_by: None,
            key_mapped_at: None,
            cordoned_at: None,
            written_at: None,
            boot_id: boot_id.to_owned(),
            plugin_before: None,
            manager_before: None,
            cleared: false,
            bystanders: Vec::new(),
            slices: None,
            sharing: None,
        }
    }
}

/// How desperate we are; each rung is tried once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rung {
    /// The first attempt.
    #[default]
    First,
    /// The same content under another name, so that the value changes.
    Alias,
    /// MIG manager's pod replaced.
    Restart,
    /// Back to the last verified layout.
    RollBack,
}

/// A layout that was proved schedulable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// The layout.
    pub layout: NodeLayout,
    /// The label's value.
    pub label: String,
    /// When.
    pub at: Timestamp,
    /// In which boot.
    pub boot_id: String,
    /// The slices by the UUIDs of their GPUs, at their places, where an agent
    /// said so: it brings them back after a reboot. At another place a slice has
    /// another UUID, and pods that had it are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<String, Vec<SlicePlace>>,
}

/// A layout that could not be reached, or could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetBack {
    /// The layout.
    pub layout: NodeLayout,
    /// Why.
    pub why: Trouble,
    /// How often in a row.
    pub times: u32,
    /// When it may be tried again.
    pub until: Timestamp,
    /// Whether the label had been written and was rolled back.
    #[serde(default)]
    pub rolled_back: bool,
}

/// A sharing that could not be reached, or could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharingSetBack {
    /// The configuration.
    pub config: PluginConfig,
    /// Why.
    pub why: Trouble,
    /// How often in a row.
    pub times: u32,
    /// When it may be tried again.
    pub until: Timestamp,
    /// Whether the label had been written and was put back.
    #[serde(default)]
    pub rolled_back: bool,
}
