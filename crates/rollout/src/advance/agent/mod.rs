//! The second, shorter walk: single slices that the agent of the node changes beside running ones
//! (`docs/adr/0013-node-agent.md`). The phases are those of the first walk: `Cordoning` is the hold,
//! and before it the drain where the policy allows one, `Quiescing` the proof and the permit, `Changing` the agent's work,
//! `Verifying` the opening of the gate.
//!
//! Up to the claim everything can be taken back. After it only the agent's outcome ends the change.

mod change;
mod drain;
mod open;
mod prove;
mod reboot;
mod start;

use agent::{GpuUuid, Outcome, Stage, Wish};
use planner::names::GpuIndex;

use crate::action::Action;
use crate::agent_seen::{AgentSeen, GpuSlices, SliceChange};
use crate::layout::{GpuLayout, NodeLayout};
use crate::names;
use crate::outlook::{FailureReason, StartBlocker, Trouble};
use crate::progress::{Phase, Target};

use super::{Flow, Run};

impl Run<'_> {
    /// The agent that takes this step: the node's, unless MIG manager is in the
    /// midst of a change, which ends as it began.
    pub(super) fn agent(&self) -> Option<&AgentSeen> {
        let of_operands = self.next.target.as_ref().is_some_and(|target| target.slices.is_none());
        self.seen.agent.as_ref().filter(|_| !of_operands)
    }

    /// Whether the agent begins nothing any more. What it has not claimed is taken
    /// back, the slices that a reboot took included.
    pub(super) fn agent_only_reports(&self) -> bool {
        self.seen.agent.as_ref().is_some_and(|agent| !agent.begins)
    }

    pub(super) fn agent_step(&mut self) -> Flow {
        match self.next.phase {
            Phase::Idle | Phase::Mapping => self.agent_idle(),
            Phase::Cordoning => self.agent_holding(),
            Phase::Quiescing => self.agent_proving(),
            Phase::Changing => self.agent_changing(),
            Phase::Verifying => self.agent_opening(),
            Phase::Releasing => self.lift_cordon(),
            Phase::Retreating => self.agent_retreating(),
            Phase::Failed => self.agent_failed(),
            // Steps that only MIG manager has; a target of ours is never in one.
            Phase::Healing | Phase::Relabelling => self.enter(Phase::Changing),
            Phase::Released => self.hold(StartBlocker::Released),
        }
    }

    /// A change of single slices of which no agent says anything any more:
    /// somebody deleted its status.
    pub(super) fn lost_agent(&mut self) -> Option<Flow> {
        let slices = self.next.target.as_ref().is_some_and(|target| target.slices.is_some());
        if !slices || self.seen.agent.is_some() {
            return None;
        }
        match self.next.phase {
            Phase::Changing => Some(self.fail(FailureReason::ChangeFailed(Trouble::AgentAway))),
            Phase::Cordoning | Phase::Quiescing => Some(self.retreat(Trouble::AgentAway)),
            Phase::Retreating => Some(self.resume_or(Self::lift_cordon)),
            Phase::Releasing => Some(self.lift_cordon()),
            Phase::Failed => Some(self.resume_or(|run| {
                let minute = run.now + jiff::SignedDuration::from_mins(1);
                Flow::Rest(crate::outlook::Outlook::Failed(run.failure()), Some(minute))
            })),
            _ => None,
        }
    }

    /// The id of a change that begins now. By the time alone, a clock that was put
    /// back could give it the id of an earlier one, whose outcome would be taken for
    /// its own. Whatever the agent says of a change, it says with a later report
    /// than the one with which the change began, and their numbers never go back.
    pub(super) fn new_id(&self, kind: &str) -> String {
        let report = self.seen.agent.as_ref().map_or(0, |agent| agent.account.report.0);
        format!("{kind}-{report:x}-{:x}", self.now.as_millisecond())
    }

    pub(super) fn slices(&self) -> Option<&SliceChange> {
        self.next.target.as_ref()?.slices.as_ref()
    }

    /// How far the change is, for the agent.
    pub(super) fn stage(&self) -> Option<&Stage> {
        let id = agent::ChangeId(self.slices()?.id.clone());
        self.seen.agent.as_ref()?.account.stage(&id)
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match self.stage()? {
            Stage::Ended(outcome) => Some(outcome),
            Stage::Claimed | Stage::Restoring { .. } => None,
        }
    }

    /// The order of this change, as the API server has it.
    pub(super) fn ordered(&self) -> Option<Wish> {
        let id = agent::ChangeId(self.slices()?.id.clone());
        self.seen.agent.as_ref()?.wish.clone().filter(|wish| wish.id == id)
    }

    /// What `spec.change` should be after this step. Whatever the agent may have
    /// claimed stays there as it is.
    pub(super) fn spec_change(&self) -> Option<Wish> {
        let slices = self.slices();
        let ours = || self.ordered();
        match self.next.phase {
            Phase::Quiescing => {
                // After a reboot it is not known yet what is to be brought back: nothing would be done at once.
                let mut wish = slices.filter(|change| !change.gpus.is_empty())?.wish();
                wish.permit = self.permit.clone().or_else(|| ours()?.permit);
                Some(wish)
            }
            Phase::Changing => {
                let mut wish = ours().or_else(|| Some(slices?.wish()))?;
                wish.permit = self.permit.clone().or(wish.permit);
                Some(wish)
            }
            Phase::Verifying => ours(),
            Phase::Failed => {
                let mut wish = ours()?;
                wish.permit = self.permit.clone().or(wish.permit);
                Some(wish)
            }
            Phase::Idle
            | Phase::Mapping
            | Phase::Cordoning
            | Phase::Healing
            | Phase::Relabelling
            | Phase::Releasing
            | Phase::Retreating
            | Phase::Released => None,
        }
    }

    /// The layout of the node by the agent's account, in counts. A GPU about which
    /// the driver does not answer is not in it.
    pub(super) fn known_counts(&self) -> Option<NodeLayout> {
        let agent = self.seen.agent.as_ref()?;
        let known = &agent.account.known.layout;
        let cut = |state: &agent::GpuState| match state {
            agent::GpuState::Cut(slices) => {
                Some(GpuLayout::from_profiles(slices.iter().map(|slice| slice.place.profile)))
            }
            agent::GpuState::Whole => Some(GpuLayout::Off),
            agent::GpuState::Silent { .. } => None,
        };
        let gpu = |(index, uuid): (&GpuIndex, &GpuUuid)| Some((*index, cut(&known.gpu(uuid)?.state)?));
        Some(NodeLayout(agent.gpus.iter().filter_map(gpu).collect()))
    }

    /// The same with what was last verified of the GPUs about which nothing is
    /// known now, and as it will be after these changes.
    pub(super) fn counts(&self, changes: &[GpuSlices]) -> Option<(NodeLayout, NodeLayout)> {
        let mut now = self.known_counts()?;
        let agent = self.seen.agent.as_ref()?;
        if let Some(verified) = &self.next.verified {
            let is_of_this_boot = verified.boot_id == self.seen.boot_id;
            for (index, layout) in &verified.layout.0 {
                if is_of_this_boot || agent.gpus.contains_key(index) {
                    now.0.entry(*index).or_insert_with(|| layout.clone());
                }
            }
        }
        let mut then = now.clone();
        for GpuSlices { gpu, after, .. } in changes {
            then.0.insert(*gpu, GpuLayout::from_profiles(after.iter().map(|place| place.profile)));
        }
        Some((now, then))
    }

    /// Cordon, mark and pause in one patch.
    pub(super) fn hold_node(&mut self) {
        if !self.actions.iter().any(|action| matches!(action, Action::HoldForAgent { .. })) {
            let (labels, if_version) = (self.seen.operands.pausable.clone(), self.version());
            self.actions.push(Action::HoldForAgent { labels, if_version });
        }
    }

    /// Lifts the pause; once it is lifted, goes on with `then`.
    pub(super) fn resume_or(&mut self, then: impl FnOnce(&mut Self) -> Flow) -> Flow {
        if self.seen.operands.held.is_empty() {
            return then(self);
        }
        let (labels, if_version) = (self.seen.operands.held.clone(), self.version());
        self.actions.push(Action::ResumeOperands { labels, if_version });
        self.wait(
            crate::outlook::WaitsFor::Proof(crate::outlook::Unproven::OperandsPaused),
            self.rules.settings.write_limit,
        )
    }
}

/// The target of a change of single slices.
pub(super) fn target(run: &Run<'_>, change: SliceChange) -> Option<Target> {
    let (from, layout) = run.counts(&change.gpus)?;
    Some(Target {
        from: Some(from),
        label_before: Some(names::HANDED_TO_AGENT.to_owned()),
        attempt: 1,
        slices: Some(change),
        ..Target::new(layout, names::HANDED_TO_AGENT.to_owned(), &run.seen.boot_id)
    })
}
