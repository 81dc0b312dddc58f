//! Whether single slices are to be changed, and whether that may start; handing the node over to the
//! agent; and the hold.

use std::collections::BTreeSet;

use agent::{Place, Stage};

use crate::action::Action;
use crate::agent_seen::{GpuSlices, SliceChange, SlicePlace};
use crate::names;
use crate::observed::{ManagerState, PodPhase};
use crate::operand::Operand;
use crate::outlook::{Outlook, StartBlocker, Trouble, WaitsFor};
use crate::progress::Phase;
use crate::rules::Admission;

use super::super::{Flow, Run};

impl Run<'_> {
    pub(super) fn agent_idle(&mut self) -> Flow {
        self.next.phase = Phase::Idle;
        self.next.target = None;
        self.next.failed = None;
        self.next.cooldown_until = self.cooldown().filter(|until| self.now < *until);
        if self.seen.label() == Some(names::HANDED_TO_AGENT) {
            self.next.applied = Some(names::HANDED_TO_AGENT.to_owned());
        }
        if let Some(flow) = self.agent_goes_on() {
            return flow;
        }
        // It has ended what it had begun. From the next look on the node is MIG manager's.
        if self.agent_only_reports() {
            return self.hold(StartBlocker::HandingBack);
        }
        if let Some(flow) = self.agent_rebooted() {
            return flow;
        }
        if let Some(flow) = self.agent_recovers() {
            return flow;
        }
        if let Some(hold) = self.foreign_layout() {
            return self.hold(hold);
        }
        self.remember_slices();
        let handed = self.seen.label() == Some(names::HANDED_TO_AGENT);
        if let Some(hold) = self.agent_missing().filter(|_| handed) {
            return self.hold(hold);
        }
        if let Some(flow) = self.agent_offers_otherwise() {
            return flow;
        }
        let changes = match self.slice_changes() {
            Ok(changes) if changes.is_empty() => return Flow::Rest(Outlook::Idle, None),
            Ok(changes) => changes,
            Err(hold) => return self.hold(hold),
        };
        let Some((_, layout)) = self.counts(&changes) else { return Flow::Rest(Outlook::Idle, None) };
        if let Some(back) = self.next.set_back.clone()
            && back.layout == layout
            && self.now < back.until
        {
            return self.hold(StartBlocker::BackedOff { until: back.until, why: back.why });
        }
        if let Some(until) = self.next.cooldown_until {
            return self.hold(StartBlocker::Cooldown { until });
        }
        if let Some(hold) = self.agent_preflight() {
            return self.hold(hold);
        }
        if self.rules.admission == Admission::Held(StartBlocker::NotEnforced) {
            return self.hold(StartBlocker::NotEnforced);
        }
        if let Some(flow) = self.hand_over() {
            return flow;
        }
        let id = self.new_id("change");
        let target = super::target(self, SliceChange { id, gpus: changes, listed: None, drained: false });
        if let Some(hold) = target.as_ref().and_then(|target| self.never_goes(target)) {
            return self.hold(hold);
        }
        // Last: a node that asks for its turn is held back by nothing else.
        if let Admission::Held(hold) = self.rules.admission.clone() {
            return self.hold(hold);
        }
        self.next.target = target;
        self.enter(Phase::Cordoning)
    }

    /// A change of which we remember nothing and that the agent has claimed goes
    /// on, whether or not the agent begins another one.
    fn agent_goes_on(&mut self) -> Option<Flow> {
        let agent = self.seen.agent.as_ref()?;
        let wish = agent.wish.as_ref()?;
        if !matches!(agent.account.stage(&wish.id), Some(Stage::Claimed | Stage::Restoring { .. })) {
            return None;
        }
        let slices = |places: &BTreeSet<Place>| places.iter().copied().map(SlicePlace::from).collect();
        let index = |uuid| agent.gpus.iter().find(|(_, known)| *known == uuid).map(|(index, _)| *index);
        let gpus = wish.gpus.iter().filter_map(|gpu| {
            Some(GpuSlices {
                gpu: index(&gpu.gpu)?,
                uuid: gpu.gpu.0.clone(),
                before: slices(&gpu.before),
                after: slices(&gpu.after),
            })
        });
        let change =
            SliceChange { id: wish.id.0.clone(), gpus: gpus.collect(), listed: None, drained: false };
        self.next.target = super::target(self, change);
        Some(self.enter(Phase::Changing))
    }

    /// What is left of a change of which we remember nothing, and that nobody has
    /// claimed, is taken back.
    fn agent_recovers(&mut self) -> Option<Flow> {
        let is_ordered = self.seen.agent.as_ref()?.wish.is_some();
        let left = is_ordered || !self.seen.operands.held.is_empty();
        (left || self.seen.marked() || self.cordoned_by_us()).then(|| self.enter(Phase::Retreating))
    }

    /// What is to be changed, by the agent's account.
    pub(super) fn slice_changes(&self) -> Result<Vec<GpuSlices>, StartBlocker> {
        let (Some(agent), Some(wanted)) = (&self.seen.agent, self.slices_wanted) else {
            return Ok(Vec::new());
        };
        let mut changes = Vec::new();
        for (index, places) in wanted {
            let Some(uuid) = agent.gpus.get(index) else { continue };
            let gpu = agent.account.known.layout.gpu(uuid);
            let before: BTreeSet<_> =
                gpu.into_iter().flat_map(agent::GpuLayout::slices).map(|slice| slice.place).collect();
            let is_whole = matches!(gpu.map(|gpu| &gpu.state), Some(agent::GpuState::Whole));
            if before == *places && (!places.is_empty() || is_whole) {
                continue;
            }
            // Without a slice, MIG is to be off.
            if places.is_empty() || !matches!(gpu.map(|gpu| &gpu.state), Some(agent::GpuState::Cut(_))) {
                return Err(StartBlocker::AgentCannot { gpu: uuid.0.clone() });
            }
            let slices = |places: &BTreeSet<Place>| places.iter().copied().map(SlicePlace::from).collect();
            changes.push(GpuSlices {
                gpu: *index,
                uuid: uuid.0.clone(),
                before: slices(&before),
                after: slices(places),
            });
        }
        Ok(changes)
    }

    /// Why nothing that the agent says is acted upon, if that is so.
    fn agent_missing(&self) -> Option<StartBlocker> {
        match &self.seen.agent {
            Some(agent) if agent.alive => None,
            Some(agent) if agent.unguarded => Some(StartBlocker::AgentUnguarded),
            // An agent that leaves the driver to somebody else is not ready, and that is what people have to know.
            Some(_) | None => Some(match self.seen.work_under_way() {
                Some(who) => StartBlocker::ForeignWork { who },
                None => StartBlocker::AgentAway,
            }),
        }
    }

    /// Everything that must be right before a change, the heaviest first.
    fn agent_preflight(&self) -> Option<StartBlocker> {
        let seen = self.seen;
        if let Some(who) = seen.manager {
            return Some(StartBlocker::HandsOff { who: who.to_string() });
        }
        if let Some(hold) = self.agent_missing() {
            return Some(hold);
        }
        if !seen.ready {
            return Some(StartBlocker::NotReady);
        }
        if let Some(work) = &seen.work {
            return Some(StartBlocker::ForeignWork { who: work.to_string() });
        }
        if self.cordoned_by_others() {
            return Some(StartBlocker::CordonedByOthers);
        }
        if !seen.paused().is_empty() {
            return Some(StartBlocker::RunInProgress { state: names::PAUSED_FOR_MIG.to_owned() });
        }
        // The plugin is paused for the change, and would find no key when it is back.
        self.key_is_unknown()
    }

    /// MIG manager stands down before the agent changes anything: its label is
    /// set to `false`, and once its pod is gone, `mig.config` names an entry
    /// that no map has. A manager that comes back then fails before it touches
    /// a GPU. Neither costs a slice, so the node stays open.
    fn hand_over(&mut self) -> Option<Flow> {
        let seen = self.seen;
        let at_work = match seen.state() {
            ManagerState::Pending => Some("pending".to_owned()),
            ManagerState::Rebooting => Some("rebooting".to_owned()),
            ManagerState::Other(other) => Some(other),
            ManagerState::Absent | ManagerState::Success | ManagerState::Failed => None,
        };
        let pods = || seen.pods.iter().filter(|pod| pod.phase != PodPhase::Ended);
        let pod = pods().any(|pod| pod.operand == Some(Operand::MigManager));
        if let Some(state) = at_work.filter(|_| seen.operands.has_manager || pod) {
            return Some(self.hold(StartBlocker::RunInProgress { state }));
        }
        let if_version = self.version();
        if seen.operands.has_manager {
            self.next.stood_down = true;
            self.actions.push(Action::StandDownManager { if_version });
            return Some(self.hold(StartBlocker::HandingOver));
        }
        if pod {
            return Some(self.hold(StartBlocker::HandingOver));
        }
        if seen.label().is_some_and(|label| label != names::HANDED_TO_AGENT) {
            let value = names::HANDED_TO_AGENT.to_owned();
            self.actions.push(Action::SetConfigLabel { value, clear_state: true, if_version });
            return Some(self.hold(StartBlocker::HandingOver));
        }
        None
    }

    /// Why a change that the agent has not claimed should be taken back.
    pub(super) fn agent_should_return(&self) -> bool {
        let refused = match &self.rules.admission {
            Admission::Admitted | Admission::Held(StartBlocker::Budget { .. }) => false,
            Admission::Held(_) => true,
        };
        let same = self.slice_changes().is_ok_and(|now| self.slices().is_some_and(|then| then.gpus == now));
        let alive = self.seen.agent.as_ref().is_some_and(|agent| agent.alive);
        refused
            || !same
            || !alive
            || !self.seen.ready
            || self.seen.work_under_way().is_some()
            || self.seen.manager.is_some()
            || !self.seen.paused().is_empty()
            || self.seen.operands.has_manager
            || self.key_is_unknown().is_some()
    }

    /// One patch: cordon, our mark, and the pause.
    pub(super) fn agent_holding(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        if !target.restore && self.agent_should_return() {
            return self.enter(Phase::Retreating);
        }
        if self.cordoned_by_others() {
            return self.enter(Phase::Retreating);
        }
        if let Some(flow) = self.agent_draining(&target) {
            return flow;
        }
        if !self.cordoned_by_us() || !self.seen.operands.pausable.is_empty() {
            let drained = target.slices.as_ref().is_some_and(|change| change.drained);
            if target.cordoned_at.is_some() && !(drained && self.cordoned_by_us()) {
                return self.retreat(Trouble::HoldLifted);
            }
            if self.late(self.rules.settings.write_limit) {
                return self.retreat(Trouble::WriteNotSeen);
            }
            self.hold_node();
            return self.wait(WaitsFor::Cordon, self.rules.settings.write_limit);
        }
        self.keep_mark();
        let now = self.now;
        if let Some(target) = self.target() {
            target.cordoned_at = Some(now);
        }
        self.enter(Phase::Quiescing)
    }
}
