//! The agent of a node as the API server shows it, and what single slices a node should have.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Account, GpuUuid, Place, Wish};
use jiff::Timestamp;
use mig::ProfileName;
use planner::names::GpuIndex;
use serde::{Deserialize, Serialize};

use crate::layout::NodeLayout;

/// What the agent of a node says, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSeen {
    /// Whether it lives: the pod that wrote the account is there and ready, in
    /// the present boot of the node.
    pub alive: bool,
    /// Whether nothing is known to keep another node's agent from having written the account: then this one does not
    /// count as alive, whoever wrote it.
    pub unguarded: bool,
    /// Whether it begins changes. One that only reports ends what it has claimed,
    /// and begins nothing any more.
    pub begins: bool,
    /// What it wrote last.
    pub account: Account,
    /// `spec.change`, as the API server has it.
    pub wish: Option<Wish>,
    /// The GPUs that it knows.
    pub gpus: BTreeMap<GpuIndex, GpuUuid>,
}

impl AgentSeen {
    /// Why what it says counts for nothing but the layout, where it does not count as alive.
    #[must_use]
    pub const fn why_away(&self) -> &'static str {
        if self.unguarded {
            "the report of the agent that changes its slices is not acted upon, since the admission policy of the agents is not seen"
        } else {
            "the agent that changes its slices is not there"
        }
    }
}

/// What an agent has reported of a node, whether or not it lives, and whether
/// or not it changes slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the GPUs have by it; `None` where it is of another boot, or does
    /// not know.
    pub layout: Option<NodeLayout>,
    /// No pod of an agent is on the node, not even one that starts or fails.
    pub has_left: bool,
}

/// The slices that GPUs should have, at their places.
pub type WantedSlices = BTreeMap<GpuIndex, BTreeSet<Place>>;

/// A change of single slices on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceChange {
    /// Its id. Another attempt has another.
    pub id: String,
    /// The GPUs that change.
    pub gpus: Vec<GpuSlices>,
    /// For which of the agent's reports the pods were listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<ListAsked>,
    /// Who had a slice that goes was evicted under our cordon, and is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
}

/// The change of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuSlices {
    /// Its index.
    pub gpu: GpuIndex,
    /// Its UUID.
    pub uuid: String,
    /// What it has.
    pub before: Vec<SlicePlace>,
    /// What it shall have.
    pub after: Vec<SlicePlace>,
}

/// A slice at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicePlace {
    /// Its profile.
    pub profile: ProfileName,
    /// Where it starts.
    pub start: u8,
}

/// A list of pods that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListAsked {
    /// The report that was known then.
    pub report: u64,
    /// When.
    pub at: Timestamp,
    /// When the list began that was there already: it may have the same date,
    /// and is older all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<Timestamp>,
}

impl From<Place> for SlicePlace {
    fn from(place: Place) -> Self {
        let Place { profile, start } = place;
        Self { profile, start }
    }
}

impl From<SlicePlace> for Place {
    fn from(place: SlicePlace) -> Self {
        let SlicePlace { profile, start } = place;
        Self { profile, start }
    }
}

impl SliceChange {
    /// What the agent is told, without a permit.
    #[must_use]
    pub fn wish(&self) -> Wish {
        let places = |slices: &[SlicePlace]| slices.iter().copied().map(Place::from).collect();
        let gpu = |gpu: &GpuSlices| agent::GpuChange {
            gpu: GpuUuid(gpu.uuid.clone()),
            before: places(&gpu.before),
            after: places(&gpu.after),
        };
        Wish { id: agent::ChangeId(self.id.clone()), permit: None, gpus: self.gpus.iter().map(gpu).collect() }
    }
}
