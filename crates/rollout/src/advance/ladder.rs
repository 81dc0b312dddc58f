//! The measures when a change goes wrong, each once and in this order: heal a known hang of MIG manager;
//! the same layout under an alias, which starts a new run; MIG manager's pod replaced; the last verified
//! layout again. After that an administrator has to act.

use crate::observed::{ManagerState, Pod};
use crate::operand::Operand;
use crate::outlook::{FailureReason, Trouble, WaitsFor};
use crate::progress::{Phase, Rung, Target};
use planner::names::PodRef;

use super::start::next_label;
use super::{Flow, Run};

impl Run<'_> {
    pub(super) fn trouble(&mut self, what: Trouble) -> Flow {
        self.next.last_error = Some(what.clone());
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        // Writing to a node that is down helps nobody.
        if what == Trouble::NotBack {
            return self.give_up(what);
        }
        if what == Trouble::ManagerWedged && !target.healed {
            return self.heal(target.rung);
        }
        match target.rung {
            // The layout is the one that is there: a new run is all that can help.
            Rung::First | Rung::Alias if target.restore => {
                if target.healed {
                    self.give_up(what)
                } else {
                    self.heal(Rung::Restart)
                }
            }
            Rung::First => {
                let label = next_label(&target.layout.entry_name(), Some(&target.label));
                self.relabel(Rung::Alias, target.layout, label, true)
            }
            Rung::Alias => self.heal(Rung::Restart),
            Rung::Restart => match self.next.verified.clone() {
                Some(last) if !target.restore && last.layout != target.layout => {
                    self.set_back(what, true);
                    let label = next_label(&last.layout.entry_name(), Some(&target.label));
                    self.relabel(Rung::RollBack, last.layout, label, false)
                }
                _ => self.give_up(what),
            },
            Rung::RollBack if !target.healed => self.heal(Rung::RollBack),
            Rung::RollBack => self.give_up(what),
        }
    }

    pub(super) fn give_up(&mut self, what: Trouble) -> Flow {
        let (restore, rung) = match &self.next.target {
            Some(target) => (target.restore, target.rung),
            None => (false, Rung::First),
        };
        self.fail(match rung {
            _ if restore => FailureReason::RestoreFailed(what),
            Rung::RollBack => FailureReason::RollBackFailed(what),
            Rung::First | Rung::Alias | Rung::Restart => FailureReason::ChangeFailed(what),
        })
    }

    fn heal(&mut self, rung: Rung) -> Flow {
        let manager = self.seen.operand(Operand::MigManager).map(|pod| pod.uid.clone());
        if let Some(target) = self.target() {
            target.manager_before = manager;
            target.cleared = false;
            target.healed = true;
            target.rung = rung;
            target.attempt += 1;
        }
        self.enter(Phase::Healing)
    }

    fn relabel(&mut self, rung: Rung, layout: crate::NodeLayout, label: String, mapped: bool) -> Flow {
        if let Some(target) = self.target() {
            target.label_before = Some(std::mem::replace(&mut target.label, label));
            target.layout = layout;
            target.rung = rung;
            target.healed = false;
            target.written_at = None;
            target.mapped_at = target.mapped_at.filter(|_| mapped);
        }
        self.enter(Phase::Relabelling)
    }

    /// Pods that hold a slice and were not there when the label was written.
    pub(super) fn newcomers(&self, target: &Target) -> Vec<PodRef> {
        let new = |pod: &&Pod| pod.holds_gpu() && !target.bystanders.contains(&pod.uid);
        self.seen.pods.iter().filter(new).map(|pod| pod.pod.clone()).collect()
    }

    /// Writes another label on a node that is cordoned and unfinished. Pods
    /// that were there before were proved to lose nothing; any other that
    /// holds a slice got there past the cordon, and must go first.
    pub(super) fn relabelling(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        let label = self.seen.label().map(str::to_owned);
        if label.as_deref() == Some(target.label.as_str()) {
            return self.label_seen();
        }
        if label != target.label_before {
            return self.fail(FailureReason::ForeignLayout { found: label, ours: target.label });
        }
        let settings = self.rules.settings;
        if self.late(settings.change_limit) {
            return self.give_up(Trouble::WriteNotSeen);
        }
        if !self.seen.unschedulable {
            self.cordon();
            return self.wait(WaitsFor::Cordon, settings.change_limit);
        }
        self.keep_mark();
        if !self.seen.ready || self.seen.state() == ManagerState::Rebooting {
            return self.wait(WaitsFor::Reboot, settings.change_limit);
        }
        if let Some(flow) = self.map_settled(&target) {
            return flow;
        }
        let newcomers = self.newcomers(&target);
        if !newcomers.is_empty() {
            if self.late(settings.quiesce_limit) {
                return self.give_up(Trouble::PodsInTheWay { pods: newcomers, refused: Vec::new() });
            }
            self.list_pods();
            let waits_for = WaitsFor::PodsGoing { pods: newcomers, refused: Vec::new() };
            return self.wait(waits_for, settings.quiesce_limit);
        }
        if !self.listed(self.since()) {
            self.list_pods();
            return self.wait(WaitsFor::PodList, settings.change_limit);
        }
        let written_at = target.written_at.unwrap_or(self.now);
        self.announce_label(written_at);
        self.wait(WaitsFor::Label, settings.change_limit)
    }
}
