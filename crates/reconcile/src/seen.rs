//! The rollout's view of nodes: the facts from `observe`, with the caller's own knowledge.

use jiff::{SignedDuration, Timestamp};
use observe::Reading;
use observe::hardware::Models;
use planner::names::NodeName;
use rollout::Progress;
use rollout::observed::{MapSeen, Observed};

use crate::input::{Input, LocalState};
use crate::planned_round::PlannedRound;

/// Reads nodes for the rollout.
pub struct NodeReader<'a> {
    input: &'a Input<'a>,
    planned: &'a PlannedRound,
}

impl<'a> NodeReader<'a> {
    /// The nodes of a round.
    #[must_use]
    pub const fn new(input: &'a Input<'a>, planned: &'a PlannedRound) -> Self {
        Self { input, planned }
    }

    /// One node; `None` when there is none of this name, or nothing is to be
    /// said of it.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<Observed> {
        let view = self.planned.view.nodes.get(name)?;
        let never = LocalState::default();
        let local = self.input.local.get(name).unwrap_or(&never);
        Some(view.as_read(Reading {
            listing: local.listing(),
            refusals: local.refusals.clone(),
            map: MapSeen { changed_at: self.input.map_changed, ..self.planned.view.our_map.clone() },
        }))
    }

    /// Whether a write for a node is refused, or undone by somebody else.
    #[must_use]
    pub fn is_refused(&self, name: &NodeName) -> bool {
        self.input.local.get(name).is_some_and(|local| local.refused.is_some() || local.undone.is_some())
    }

    /// What is remembered of a node, by the clock as it goes now.
    #[must_use]
    pub fn by_the_clock(&self, name: &NodeName, progress: Progress) -> Progress {
        let put_forward = self.input.local.get(name).map_or(SignedDuration::ZERO, |b| b.put_forward);
        progress.put_forward(put_forward, self.input.now)
    }

    /// The time of this round.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.input.now
    }

    /// The GPUs of a node.
    #[must_use]
    pub fn models(&self, name: &NodeName) -> Models {
        self.planned.view.nodes.get(name).map(|node| node.models.clone()).unwrap_or_default()
    }
}
