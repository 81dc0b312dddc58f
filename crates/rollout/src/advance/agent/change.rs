//! The agent's work: nobody takes anything back now, and only its outcome ends the change.

use agent::{Outcome, Stage};
use jiff::SignedDuration;

use crate::action::Action;
use crate::outlook::{FailureReason, Outlook, Trouble, WaitsFor};
use crate::progress::Phase;

use super::super::{Flow, Run};

/// How often a node that waits for a human is looked at.
const A_WHILE: SignedDuration = SignedDuration::from_mins(1);

impl Run<'_> {
    pub(super) fn agent_changing(&mut self) -> Flow {
        if self.next.target.is_none() {
            return self.enter(Phase::Idle);
        }
        if let Some(outcome) = self.outcome().cloned() {
            return self.agent_ended(&outcome);
        }
        let settings = self.rules.settings;
        // Whoever lifts the hold meanwhile stops the agent; it goes on under the hold.
        if self.seen.unschedulable && self.seen.operands.pausable.is_empty() {
            self.keep_mark();
        } else {
            self.hold_node();
        }
        let alive = self.seen.agent.as_ref().is_some_and(|agent| agent.alive);
        if self.late(settings.agent_limit) {
            let trouble = if alive { Trouble::AgentSlow } else { Trouble::AgentAway };
            return self.fail(FailureReason::ChangeFailed(trouble));
        }
        let restoring = matches!(self.stage(), Some(Stage::Restoring { .. }));
        let waits_for = match self.proof() {
            Ok(()) => WaitsFor::AgentChange { restoring },
            Err(missing) => WaitsFor::AgentProof { missing },
        };
        self.wait(waits_for, settings.agent_limit)
    }

    fn agent_ended(&mut self, outcome: &Outcome) -> Flow {
        match outcome {
            Outcome::Done => {}
            Outcome::Restored { why } | Outcome::Refused { why } | Outcome::Left { why } => {
                self.set_back(Trouble::AgentEnded { said: why.to_string() }, false);
            }
        }
        self.enter(Phase::Verifying)
    }

    /// An agent that comes back reports anew, which voids the permit with which the
    /// change was claimed: without another one it would wait for ever. The proof
    /// asks for a closed gate, as ever. Since this may go on for days, the pods are
    /// listed for each report, and after that once in a while.
    fn prove_for_who_is_back(&mut self) {
        if !self.seen.agent.as_ref().is_some_and(|agent| agent.alive) {
            return;
        }
        // What is missing is no news: what it is failed for is told as ever.
        let missing = self.proof().is_err();
        if missing && self.is_listed_for_report() && self.listed_within(A_WHILE) {
            self.actions.retain(|action| *action != Action::ListPods);
        }
    }

    /// Waits for a human, and sees it when the agent says how it ended, or when
    /// the slices are schedulable after all.
    pub(super) fn agent_failed(&mut self) -> Flow {
        if let Some(flow) = self.agent_is_back() {
            return flow;
        }
        let failure = self.failure();
        let minute = self.now + A_WHILE;
        if matches!(self.stage(), Some(Stage::Claimed | Stage::Restoring { .. })) {
            self.keep_mark();
            self.prove_for_who_is_back();
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        if !self.seen.operands.held.is_empty() {
            // What it is failed for is told as ever.
            let _ = self.resume_or(|run| run.enter(Phase::Failed));
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        if self.not_open().is_some() {
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        self.next.failed = None;
        self.enter(Phase::Verifying)
    }
}
