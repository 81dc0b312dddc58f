//! MIG manager's run, the proof that its result is schedulable, and lifting
//! our cordon.

use std::collections::BTreeMap;

use crate::action::Action;
use crate::observed::ManagerState;
use crate::operand::Operand;
use crate::outlook::{FailureReason, Outlook, Trouble, Unproven, WaitsFor};
use crate::progress::{Phase, Rung, Verified};

use super::{Flow, Run};

impl Run<'_> {
    /// What holds in every step between the label and the proof: the label is
    /// ours, the cordon is in place, a reboot starts the clock anew. `Some`
    /// when the step has to wait or the rollout is over.
    pub(super) fn underway(&mut self) -> Option<Flow> {
        let target = self.next.target.clone()?;
        if self.seen.label() != Some(target.label.as_str()) {
            let (found, ours) = (self.seen.label().map(str::to_owned), target.label);
            return Some(self.fail(FailureReason::ForeignLayout { found, ours }));
        }
        if target.boot_id != self.seen.boot_id {
            let boot_id = self.seen.boot_id.clone();
            if let Some(target) = self.target() {
                target.boot_id = boot_id;
                target.plugin_before = None;
            }
            self.restart_clock();
        }
        // After a reboot a node that is as it should be is left open.
        let needs_cordon = !target.restore || self.unproven(&target).is_some();
        if needs_cordon && !self.seen.unschedulable {
            self.cordon();
        }
        if self.cordoned_by_us() {
            let now = self.now;
            if let Some(target) = self.target() {
                target.cordoned_at.get_or_insert(now);
            }
            self.keep_mark();
        }
        None
    }

    pub(super) fn begin_cooldown(&mut self) {
        self.next.changed_at = Some(self.now);
        self.next.cooldown_until = Some(self.now + self.rules.cooldown);
    }

    /// All runs and proofs of one label together took too long: they alternate.
    fn goes_round(&self) -> bool {
        let settings = &self.rules.settings;
        let started = self.next.target.as_ref().and_then(|target| target.written_at);
        started.is_some_and(|at| self.now >= at + settings.change_limit + settings.verify_limit)
    }

    pub(super) fn changing(&mut self) -> Flow {
        if self.next.target.is_none() {
            return self.enter(Phase::Idle);
        }
        if let Some(flow) = self.underway() {
            return flow;
        }
        let settings = self.rules.settings;
        let parked = !self.seen.paused().is_empty();
        if self.goes_round() {
            return self.trouble(Trouble::TooSlow);
        }
        if !self.seen.ready {
            if self.late(settings.change_limit) {
                return self.trouble(Trouble::NotBack);
            }
            return self.wait(WaitsFor::Reboot, settings.change_limit);
        }
        match self.seen.state() {
            ManagerState::Success if !parked => self.enter(Phase::Verifying),
            ManagerState::Success => self.trouble(Trouble::ManagerWedged),
            ManagerState::Failed if parked => self.trouble(Trouble::ManagerWedged),
            ManagerState::Failed => self.trouble(Trouble::ManagerFailed),
            ManagerState::Absent if self.late(settings.pickup_limit) => self.trouble(Trouble::NotPickedUp),
            ManagerState::Absent => self.wait(WaitsFor::Pickup, settings.pickup_limit),
            ManagerState::Pending if parked && self.late(settings.wedged_after) => {
                self.trouble(Trouble::ManagerWedged)
            }
            ManagerState::Rebooting if self.late(settings.change_limit) => self.trouble(Trouble::NotBack),
            ManagerState::Pending | ManagerState::Other(_) if self.late(settings.change_limit) => {
                self.trouble(Trouble::TooSlow)
            }
            ManagerState::Rebooting => self.wait(WaitsFor::Reboot, settings.change_limit),
            ManagerState::Pending | ManagerState::Other(_) => {
                let limit = if parked { settings.wedged_after } else { settings.change_limit };
                self.wait(WaitsFor::Change, limit)
            }
        }
    }

    pub(super) fn verifying(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        if let Some(flow) = self.underway() {
            return flow;
        }
        let settings = self.rules.settings;
        if self.seen.state() != ManagerState::Success {
            return self.enter(Phase::Changing);
        }
        if !self.seen.paused().is_empty() {
            return self.trouble(Trouble::ManagerWedged);
        }
        if let Some(missing) = self.unproven(&target) {
            self.next.matched_since = None;
            if self.late(settings.verify_limit) {
                // Another run of MIG manager would end the same way.
                let in_vain = matches!(
                    missing,
                    Unproven::Shared { .. }
                        | Unproven::PluginMapElsewhere
                        | Unproven::PluginPodOfBefore { .. }
                        | Unproven::PluginKeyGone { .. }
                );
                let trouble = Trouble::NotSchedulable { missing };
                return if in_vain { self.give_up(trouble) } else { self.trouble(trouble) };
            }
            if missing == Unproven::PluginPod && self.old_plugin_needs_list(&target) {
                self.list_pods();
            }
            return self.wait(WaitsFor::Proof(missing), settings.verify_limit);
        }
        let stable = *self.next.matched_since.get_or_insert(self.now) + settings.stable_for;
        if self.now < stable {
            return self.wait_until(WaitsFor::Proof(Unproven::Stability), stable);
        }
        self.next.verified = Some(Verified {
            layout: target.layout,
            label: target.label,
            at: self.now,
            boot_id: self.seen.boot_id.clone(),
            slices: BTreeMap::new(),
        });
        if !target.restore {
            self.begin_cooldown();
            if target.rung != Rung::RollBack {
                self.next.set_back = None;
                self.next.last_error = None;
                if let Some(flow) = self.sharing_follows() {
                    return flow;
                }
            }
        }
        self.enter(Phase::Releasing)
    }

    /// Lifts our cordon after the proof. Never somebody else's.
    pub(super) fn releasing(&mut self) -> Flow {
        self.lift_cordon()
    }

    /// Lifts our cordon before anything changed. A label that came through
    /// after all (its answer was lost) leads on to the change.
    pub(super) fn retreating(&mut self) -> Flow {
        let written = self.next.target.as_ref().filter(|target| target.written_at.is_some());
        if written.is_some_and(|target| self.told(target) == Some(target.label.as_str())) {
            return self.label_seen();
        }
        self.lift_cordon()
    }

    /// Somebody else who began to work on the node meanwhile counts on its
    /// being closed: their cordon lies on ours and cannot be told from it, so
    /// ours stays until they are done.
    pub(super) fn lift_cordon(&mut self) -> Flow {
        // Somebody opened the node, or removed our mark, just before the step before this one ended: a cordon that it asked
        // for would be of no step any more.
        self.actions.retain(|action| !matches!(action, Action::Cordon { .. }));
        let ours = self.cordoned_by_us();
        if !ours && !self.seen.marked() {
            return self.enter(Phase::Idle);
        }
        if let Some(who) = self.seen.work_under_way().filter(|_| ours) {
            return self.wait(WaitsFor::ForeignWork { who }, self.rules.settings.interruption_limit);
        }
        let if_version = self.version();
        self.actions.push(if ours {
            Action::Uncordon { if_version }
        } else {
            Action::RemoveCordonedBy { if_version }
        });
        self.wait(WaitsFor::Uncordon, self.rules.settings.write_limit)
    }

    /// Waits for a human, and sees it when the node becomes right again.
    pub(super) fn failed(&mut self) -> Flow {
        let failure = self.failure();
        let settings = self.rules.settings;
        let minute = self.now + jiff::SignedDuration::from_mins(1);
        self.keep_mark();
        if self.seen.marked() && !self.cordoned_by_us() {
            let if_version = self.version();
            self.actions.push(Action::RemoveCordonedBy { if_version });
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        let label = self.seen.label().map(str::to_owned);
        let ours = label.is_some() && label == self.next.applied;
        let paused = self.seen.paused().to_vec();
        let at_rest = match self.seen.state() {
            ManagerState::Failed | ManagerState::Success => true,
            ManagerState::Absent | ManagerState::Pending => !self.late(settings.write_limit),
            ManagerState::Rebooting | ManagerState::Other(_) => false,
        };
        let alone = self.seen.work_under_way().is_none();
        if ours && at_rest && alone && !paused.is_empty() {
            let if_version = self.version();
            self.actions.push(Action::UnpauseOperands { labels: paused, if_version });
            return Flow::Rest(Outlook::Failed(failure), Some(self.now + settings.poll));
        }
        let Some(layout) = self.seen.label_layout.clone() else {
            self.next.matched_since = None;
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        };
        if self.unoffered(&layout).is_some() {
            self.next.matched_since = None;
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        let stable = *self.next.matched_since.get_or_insert(self.now) + settings.stable_for;
        if self.now < stable {
            return Flow::Rest(Outlook::Failed(failure), Some(stable));
        }
        if let Some(label) = label.filter(|_| ours) {
            let (at, boot_id) = (self.now, self.seen.boot_id.clone());
            self.next.verified = Some(Verified { layout, label, at, boot_id, slices: BTreeMap::new() });
        }
        self.next.failed = None;
        self.begin_cooldown();
        self.enter(Phase::Releasing)
    }

    /// MIG manager's pod is replaced: it forgets what wedged it, and runs again.
    pub(super) fn healing(&mut self) -> Flow {
        if self.next.target.is_none() {
            return self.enter(Phase::Idle);
        }
        if let Some(flow) = self.underway() {
            return flow;
        }
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        // A new pod cuts the GPUs anew: whoever got a slice past the cordon goes first.
        // (What is only brought back, MIG manager would bring back by itself.)
        let newcomers = if target.restore { Vec::new() } else { self.newcomers(&target) };
        if !newcomers.is_empty() {
            let limit = self.rules.settings.quiesce_limit;
            if self.late(limit) {
                return self.give_up(Trouble::PodsInTheWay { pods: newcomers, refused: Vec::new() });
            }
            self.list_pods();
            return self.wait(WaitsFor::PodsGoing { pods: newcomers, refused: Vec::new() }, limit);
        }
        let manager = self.seen.operand(Operand::MigManager).cloned();
        let fresh = manager.as_ref().filter(|pod| Some(&pod.uid) != target.manager_before.as_ref());
        if fresh.is_some_and(|pod| pod.ready) {
            let now = self.now;
            if let Some(target) = self.target() {
                target.written_at = Some(now);
            }
            return self.enter(Phase::Changing);
        }
        if self.late(self.rules.settings.write_limit) {
            return self.trouble(Trouble::ManagerGone);
        }
        // The stale state goes first: what is seen afterwards is of the new pod.
        let stale = !matches!(self.seen.state(), ManagerState::Absent | ManagerState::Rebooting);
        if stale && !target.cleared {
            let if_version = self.version();
            let value = target.label;
            self.actions.push(Action::SetConfigLabel { value, clear_state: true, if_version });
        } else {
            if let Some(target) = self.target() {
                target.cleared = true;
            }
            if let Some(pod) = manager.filter(|pod| Some(&pod.uid) == target.manager_before.as_ref()) {
                self.actions.push(Action::DeletePod { pod: pod.pod, if_uid: pod.uid });
            }
        }
        self.wait(WaitsFor::ManagerPod, self.rules.settings.write_limit)
    }
}
