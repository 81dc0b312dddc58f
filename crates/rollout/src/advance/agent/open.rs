//! Opening the gate: the pause is lifted, and the node is uncordoned once kubelet offers what the GPUs have.

use agent::{ChangeId, Gate, GpuState, Outcome, Stage};

use mig::ProfileName;

use crate::layout::NodeLayout;
use crate::names;
use crate::outlook::{FailureReason, Outlook, StartBlocker, Trouble, Unproven, WaitsFor};
use crate::progress::{Phase, Verified};
use crate::sharing::are_shares_of;

use super::super::{Flow, Run};

impl Run<'_> {
    pub(super) fn agent_opening(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        if let Some(lost) = self.lost_by_reboot().filter(|_| !self.tried_in_this_boot()) {
            return self.bring_back(&lost);
        }
        let limit = self.rules.settings.verify_limit;
        if self.late(limit) {
            let missing = self.not_open().unwrap_or(Unproven::OperandsPaused);
            return self.fail(FailureReason::ChangeFailed(Trouble::NotOffered { missing }));
        }
        self.keep_mark();
        self.resume_or(|run| {
            if let Some(missing) = run.not_open() {
                return run.wait(WaitsFor::Proof(missing), limit);
            }
            run.verified_by_agent(&target.layout);
            if run.outcome() == Some(&Outcome::Done) {
                run.next.set_back = None;
                run.next.last_error = None;
            }
            run.begin_cooldown();
            run.enter(Phase::Releasing)
        })
    }

    /// What the node has now is schedulable, and what an agent brings back when
    /// the node reboots.
    pub(super) fn verified_by_agent(&mut self, otherwise: &NodeLayout) {
        let layout = self.counts(&[]).map_or_else(|| otherwise.clone(), |(present, _)| present);
        let (at, boot_id) = (self.now, self.seen.boot_id.clone());
        let (label, slices) = (names::HANDED_TO_AGENT.to_owned(), self.places());
        self.next.verified = Some(Verified { layout, label, at, boot_id, slices });
    }

    /// What is missing before pods can use what the GPUs have now. Labels of
    /// GPU feature discovery are no condition.
    pub(super) fn not_open(&self) -> Option<Unproven> {
        if !self.seen.ready {
            return Some(Unproven::NotReady);
        }
        let agent = self.seen.agent.as_ref()?;
        let id = self.slices().map(|change| ChangeId(change.id.clone()));
        let told = |id: ChangeId| agent.account.gate_for(&id) == Some(Gate::Open);
        let asked = agent.wish.is_some() && agent.alive && self.stage().is_some();
        if asked && !id.is_some_and(told) {
            return Some(Unproven::Offered);
        }
        let layout = &agent.account.known.layout;
        let is_any_silent = layout.gpus.iter().any(|gpu| matches!(gpu.state, GpuState::Silent { .. }));
        let mut expected = self.known_counts()?.offers(self.seen.operator.strategy);
        let mut found = self.seen.offers();
        // Whole GPUs did not change, and not all of them are offered.
        expected.retain(|resource, _| resource.starts_with(ProfileName::RESOURCE_PREFIX));
        found.retain(|resource, _| resource.starts_with(ProfileName::RESOURCE_PREFIX));
        // Somebody shares the slices by a configuration of his own. What the GPUs have is known from the agent all the
        // same, and nothing that is tried makes the plugin offer it one for one.
        let is_shared_by_others = self.seen.operands.shared.is_some() && self.seen.sharing.config.is_none();
        if is_shared_by_others && are_shares_of(&found, &expected) {
            return None;
        }
        // What a GPU has about which the driver does not answer may be offered beside it, or not: it did not change, and
        // nobody could say when that is right.
        let is_offered = |(resource, n): (&String, &u64)| found.get(resource).is_some_and(|has| has >= n);
        let is_open = expected == found || is_any_silent && expected.iter().all(is_offered);
        (!is_open).then_some(Unproven::Allocatable { expected, found })
    }

    /// Takes the hold back. A withdrawal and a claim exclude each other: where
    /// the claim came first, the change goes on.
    pub(super) fn agent_retreating(&mut self) -> Flow {
        if matches!(self.stage(), Some(Stage::Claimed | Stage::Restoring { .. })) {
            return self.enter(Phase::Changing);
        }
        let limit = self.rules.settings.verify_limit;
        if self.seen.agent.as_ref().is_some_and(|agent| agent.wish.is_some()) {
            return self.wait(WaitsFor::Withdrawal, limit);
        }
        if !self.seen.marked() && !self.cordoned_by_us() && self.seen.operands.held.is_empty() {
            return self.enter(Phase::Idle);
        }
        if let Some(lost) = self.lost_by_reboot().filter(|_| !self.tried_in_this_boot()) {
            return self.bring_back(&lost);
        }
        self.resume_or(|run| {
            let Some(missing) = run.not_open().filter(|_| run.cordoned_by_us()) else {
                return run.lift_cordon();
            };
            // An upgrade of the driver takes the plugin away, for longer than a plugin takes to start.
            match run.seen.work_under_way() {
                Some(who) => run.stands_still(who),
                None if run.late(limit) => {
                    run.fail(FailureReason::ChangeFailed(Trouble::NotOffered { missing }))
                }
                None => run.wait(WaitsFor::Proof(missing), limit),
            }
        })
    }

    /// A node at rest that offers something else than its agent reports: somebody has cut its GPUs anew, or a device is
    /// unhealthy. It is reported, and nothing is begun that would fight it. The plugin's restart and kubelet's status
    /// are waited for first, if nothing is wanted.
    pub(super) fn agent_offers_otherwise(&mut self) -> Option<Flow> {
        let handed = self.seen.label() == Some(names::HANDED_TO_AGENT);
        let alive = self.seen.agent.as_ref().is_some_and(|agent| agent.alive);
        let found = self.not_open().filter(|_| handed && alive);
        let Some(Unproven::Allocatable { expected, found }) = found else {
            self.next.offers_otherwise_since = None;
            return None;
        };
        let since = *self.next.offers_otherwise_since.get_or_insert(self.now);
        let until = since + self.rules.settings.stable_for;
        let is_at_rest = self.slice_changes().is_ok_and(|changes| changes.is_empty());
        Some(match self.now < until && is_at_rest {
            true => Flow::Rest(Outlook::Idle, Some(until)),
            false => self.hold(StartBlocker::NotAsReported { expected, found }),
        })
    }
}
