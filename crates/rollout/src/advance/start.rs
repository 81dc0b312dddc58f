//! Whether a change is wanted, and whether it may start: the ladder of reasons against it, and the map's
//! entry.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::action::Action;
use crate::layout::{GpuLayout, LayoutRefused, NodeLayout};
use crate::names;
use crate::observed::ManagerState;
use crate::operand::Operand;
use crate::outlook::{Outlook, StartBlocker, Trouble, WaitsFor};
use crate::progress::{Phase, Target, Verified};
use crate::rules::Admission;
use crate::sharing::{PluginConfig, SharingWanted};

use super::{Flow, Run};

/// The label's values that stand for one entry; a retry takes the next, since
/// only a changed value makes MIG manager run.
pub(super) fn next_label(entry: &str, current: Option<&str>) -> String {
    let values = [entry.to_owned(), format!("{entry}-a"), format!("{entry}-b")];
    let at = values.iter().position(|value| Some(value.as_str()) == current);
    values[at.map_or(0, |at| (at + 1) % values.len())].clone()
}

impl Run<'_> {
    pub(super) fn idle(&mut self) -> Flow {
        self.next.target = None;
        self.next.failed = None;
        self.next.cooldown_until = self.cooldown().filter(|until| self.now < *until);
        if self.seen.marked() || self.cordoned_by_us() {
            return self.recover();
        }
        if let Some(flow) = self.hand_back() {
            return flow;
        }
        if let Some(hold) = self.foreign_layout() {
            return self.hold(hold);
        }
        // Where nothing is cut, nothing has to be brought back.
        if !self.seen.sharing.never_cut
            && let Some(flow) = self.disturbed()
        {
            return flow;
        }
        let Some(wanted) = self.wanted.cloned() else { return self.sharing_idle() };
        if self.sharing_comes_first() {
            return self.sharing_idle();
        }
        let has = self.has();
        if has.as_ref() == Some(&wanted) {
            self.adopt(wanted);
            return self.sharing_idle();
        }
        if let Some(hold) = self.layout_hold(&wanted) {
            let Some(sharing) = self.sharing_meanwhile() else { return self.hold(hold) };
            self.next.target = Some(sharing);
            return self.enter(Phase::Mapping);
        }
        self.next.target = Some(self.layout_target(wanted));
        self.enter(Phase::Mapping)
    }

    /// Why a layout that the node should have does not start.
    fn layout_hold(&self, wanted: &NodeLayout) -> Option<StartBlocker> {
        if let Some(hold) = self.key_is_unknown() {
            return Some(hold);
        }
        if let Some(hold) = self.not_as_verified() {
            return Some(hold);
        }
        if let Some(back) = self.next.set_back.clone()
            && back.layout == *wanted
            && self.now < back.until
        {
            return Some(StartBlocker::BackedOff { until: back.until, why: back.why });
        }
        if let Some(until) = self.next.cooldown_until {
            return Some(StartBlocker::Cooldown { until });
        }
        if let Some(hold) = self.preflight(wanted) {
            return Some(hold);
        }
        let enforced = self.rules.admission != Admission::Held(StartBlocker::NotEnforced);
        (!enforced).then_some(StartBlocker::NotEnforced)
    }

    /// A change to a layout, of which nothing has been done yet.
    fn layout_target(&self, wanted: NodeLayout) -> Target {
        let label_before = self.seen.label().map(str::to_owned);
        let label = next_label(&wanted.entry_name(), label_before.as_deref());
        Target { from: self.has(), label_before, ..Target::new(wanted, label, &self.seen.boot_id) }
    }

    /// The layout that came to be wanted while a change of sharing waited, if nothing and nobody is in its way: it
    /// comes first, and the sharing follows it under the same cordon. A layout that has to wait holds up no sharing.
    fn layout_that_comes_first(&self, target: &Target) -> Option<Target> {
        let sharing = target.sharing.as_ref()?;
        let wanted = self.wanted.filter(|wanted| self.has().as_ref() != Some(*wanted))?;
        if self.sharing_comes_first() || self.foreign_layout().is_some() || self.layout_hold(wanted).is_some()
        {
            return None;
        }
        let layout = Target {
            followed_by: Some(sharing.config.clone()),
            key_mapped_at: target.mapped_at,
            ..self.layout_target(wanted.clone())
        };
        self.not_evictable(&layout).is_empty().then_some(layout)
    }

    /// Until when the node rests: as long as the policy in force says, whichever
    /// policy changed the node. (Of a change that an older version made, only
    /// the moment is known.)
    pub(super) fn cooldown(&self) -> Option<Timestamp> {
        let of_layout = self.next.changed_at.map(|at| at + self.rules.cooldown);
        let of_sharing = self.next.shared_at.map(|at| at + self.rules.cooldown_of_sharing);
        of_layout.max(of_sharing).or(self.next.cooldown_until)
    }

    /// Whether what the node has can be established.
    pub(super) fn has_what_its_label_says(&self) -> bool {
        self.has().is_some()
    }

    /// What the node has, when that can be established: the layout that the
    /// label names, if the node offers exactly that.
    fn has(&self) -> Option<NodeLayout> {
        let layout = self.seen.label_layout.as_ref()?;
        let settled = matches!(self.seen.state(), ManagerState::Success | ManagerState::Absent);
        let expected = layout.allocatable(self.seen.operator.strategy).ok()?;
        (settled && self.seen.offered_with(expected) == self.seen.offers()).then(|| layout.clone())
    }

    /// The node has what is wanted, under a label of ours, and we do not know
    /// of it: our memory was lost.
    fn adopt(&mut self, layout: NodeLayout) {
        if let Some(label) = self.seen.label().filter(|label| label.starts_with(names::ENTRY_PREFIX))
            && self.next.applied.is_none()
        {
            let (at, boot_id) = (self.now, self.seen.boot_id.clone());
            self.next.verified =
                Some(Verified { layout, label: label.to_owned(), at, boot_id, slices: BTreeMap::new() });
            self.next.applied = Some(label.to_owned());
        }
    }

    /// Our cordon is on a node of which we remember nothing: the memory was
    /// lost, or the write came late. Prove and uncordon, or just uncordon.
    fn recover(&mut self) -> Flow {
        let ours = self.seen.label().filter(|label| label.starts_with(names::ENTRY_PREFIX));
        match (ours.map(str::to_owned), self.seen.label_layout.clone()) {
            (Some(label), Some(layout)) if self.cordoned_by_us() && !self.seen.sharing.never_cut => {
                self.next.applied = Some(label.clone());
                self.restore(layout, label)
            }
            _ => self.enter(Phase::Retreating),
        }
    }

    /// Brings back what a layout should offer, without changing it.
    pub(super) fn restore(&mut self, layout: NodeLayout, label: String) -> Flow {
        self.next.target = Some(Target {
            from: Some(layout.clone()),
            label_before: Some(label.clone()),
            restore: true,
            written_at: Some(self.now),
            ..Target::new(layout, label, &self.seen.boot_id)
        });
        self.enter(Phase::Changing)
    }

    pub(super) fn foreign_layout(&self) -> Option<StartBlocker> {
        let ours = self.next.applied.clone()?;
        let found = self.seen.label().map(str::to_owned);
        (found.as_deref() != Some(ours.as_str())).then_some(StartBlocker::ForeignLayout { found, ours })
    }

    /// A node that we finished was rebooted, or MIG manager ran without us.
    fn disturbed(&mut self) -> Option<Flow> {
        let verified = self.next.verified.clone().or_else(|| self.remembered_by_the_node())?;
        let ran = matches!(
            self.seen.state(),
            ManagerState::Failed | ManagerState::Pending | ManagerState::Rebooting
        );
        let booted = verified.boot_id != self.seen.boot_id;
        if !(booted || ran || !self.seen.paused().is_empty()) {
            return None;
        }
        if let Some(who) = self.seen.manager {
            return Some(self.hold(StartBlocker::HandsOff { who: who.to_string() }));
        }
        if let Some(who) = self.seen.work_under_way() {
            return Some(self.hold(StartBlocker::ForeignWork { who }));
        }
        if !self.seen.ready {
            return Some(self.hold(StartBlocker::NotReady));
        }
        self.next.applied = Some(verified.label.clone());
        Some(self.restore(verified.layout, verified.label))
    }

    /// A node with a label of ours, of which we remember nothing.
    fn remembered_by_the_node(&self) -> Option<Verified> {
        let label = self.seen.label().filter(|label| label.starts_with(names::ENTRY_PREFIX))?.to_owned();
        let layout = self.seen.label_layout.clone().filter(|_| self.next.applied.is_none())?;
        Some(Verified {
            layout,
            label,
            at: self.now,
            boot_id: self.seen.boot_id.clone(),
            slices: BTreeMap::new(),
        })
    }

    /// The node offers something else than was proved, in the same boot: a
    /// device that became unhealthy, or a plugin that restarts. Pods run
    /// there; a change would not be based on anything known.
    fn not_as_verified(&self) -> Option<StartBlocker> {
        let verified = self.next.verified.as_ref()?;
        let devices = verified.layout.allocatable(self.seen.operator.strategy).ok()?;
        let (expected, found) = (self.seen.offered_with(devices), self.seen.offers());
        (expected != found).then_some(StartBlocker::NotAsVerified { expected, found })
    }

    /// Everything that must be right before a change, the heaviest first.
    pub(super) fn preflight(&self, wanted: &NodeLayout) -> Option<StartBlocker> {
        let seen = self.seen;
        if let Some(who) = seen.manager {
            return Some(StartBlocker::HandsOff { who: who.to_string() });
        }
        if !seen.operator.cluster_policy {
            return Some(StartBlocker::NoClusterPolicy);
        }
        if !seen.operator.mig_manager || !seen.operands.has_manager {
            return Some(StartBlocker::ManagerDisabled);
        }
        if !seen.operator.uses_our_map {
            return Some(StartBlocker::MapNotOurs);
        }
        if let Err(why) = wanted.check(seen.operator.strategy) {
            return Some(StartBlocker::LayoutRefused(why));
        }
        if seen.sharing.config.as_ref().is_some_and(PluginConfig::is_by_mps)
            && wanted.0.values().any(GpuLayout::is_mig)
        {
            return Some(StartBlocker::LayoutRefused(LayoutRefused::SharedByMps));
        }
        if let Some(hold) = self.at_work() {
            return Some(hold);
        }
        if !seen.operand(Operand::MigManager).is_some_and(|pod| pod.ready) {
            return Some(StartBlocker::ManagerNotReady);
        }
        None
    }

    /// The node is not ready, or somebody works on it: whatever is to change there waits.
    pub(super) fn at_work(&self) -> Option<StartBlocker> {
        let seen = self.seen;
        if !seen.ready {
            return Some(StartBlocker::NotReady);
        }
        if let Some(work) = &seen.work {
            return Some(StartBlocker::ForeignWork { who: work.to_string() });
        }
        if self.cordoned_by_others() {
            return Some(StartBlocker::CordonedByOthers);
        }
        let state = match seen.state() {
            ManagerState::Pending => Some("pending".to_owned()),
            ManagerState::Rebooting => Some("rebooting".to_owned()),
            ManagerState::Other(other) => Some(other),
            ManagerState::Absent | ManagerState::Success | ManagerState::Failed => None,
        };
        let paused = || (!seen.paused().is_empty()).then(|| names::PAUSED_FOR_MIG.to_owned());
        state.or_else(paused).map(|state| StartBlocker::RunInProgress { state })
    }

    /// The entry goes into the map before anything disruptive, and does not
    /// wait for budget or windows: when those allow it, the node can start.
    pub(super) fn mapping(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        let preflight = match &target.sharing {
            Some(change) => self.sharing_preflight(&change.config),
            None => self.key_is_unknown().or_else(|| self.preflight(&target.layout)),
        };
        let unchanged = self.is_wanted(&target)
            && self.told(&target).map(str::to_owned) == target.label_before
            && !self.seen.marked()
            && !self.cordoned_by_us()
            && preflight.is_none()
            && self.rules.admission != Admission::Held(StartBlocker::NotEnforced);
        if !unchanged {
            return self.enter(Phase::Idle);
        }
        if let Some(layout) = self.layout_that_comes_first(&target) {
            self.next.target = Some(layout);
            return self.enter(Phase::Mapping);
        }
        let unsettled = match &target.sharing {
            Some(change) => self.key_settled(&target, change),
            // Both maps are written, and mounted, at the same time.
            None => {
                let (layout, key) = (self.map_settled(&target), self.key_ahead());
                layout.or(key)
            }
        };
        if let Some(flow) = unsettled {
            return flow;
        }
        let pods = self.not_evictable(&target);
        if !pods.is_empty() {
            if target.sharing.is_none()
                && let Some(sharing) = self.sharing_meanwhile()
            {
                self.next.target = Some(sharing);
                return self.enter(Phase::Mapping);
            }
            return self.hold(match &target.sharing {
                Some(_) => StartBlocker::GpusHeld { pods },
                None => StartBlocker::PodsInTheWay { pods },
            });
        }
        // Last: a node that asks for its turn is held back by nothing else.
        if let Admission::Held(hold) = self.rules.admission.clone() {
            return self.hold(hold);
        }
        self.enter(Phase::Cordoning)
    }

    /// Whether a target is still what is wanted.
    pub(super) fn is_wanted(&self, target: &Target) -> bool {
        match &target.sharing {
            Some(change) => match self.sharing_wanted {
                Some(SharingWanted::As(config)) => *config == change.config,
                Some(SharingWanted::Unknown) => true,
                Some(SharingWanted::Refused(_)) | None => false,
            },
            None => self.wanted == Some(&target.layout),
        }
    }

    /// What the label says that a target changes.
    pub(super) fn told(&self, target: &Target) -> Option<&str> {
        match &target.sharing {
            Some(_) => self.seen.sharing.key.as_deref(),
            None => self.seen.label(),
        }
    }

    /// What was in a map and is not any more, somebody removed. The node may have
    /// waited for days for other things since it was written, so that the write
    /// which is due now has its own time. A node that is cordoned waits for nothing
    /// else, and its step keeps its limit.
    pub(super) fn write_has_its_time_again(
        &mut self,
        mapped_at: impl FnOnce(&mut Target) -> &mut Option<Timestamp>,
    ) {
        let was_there = self.target().is_some_and(|target| mapped_at(target).take().is_some());
        if was_there && self.next.phase == Phase::Mapping {
            self.next.since = Some(self.now);
        }
    }

    /// Waits until MIG manager can know the target's entry; `None` when it can.
    pub(super) fn map_settled(&mut self, target: &Target) -> Option<Flow> {
        let entry = target.layout.entry_name();
        let there =
            ["", "-a", "-b"].iter().all(|suffix| self.seen.map.entries.contains(&format!("{entry}{suffix}")));
        if !there {
            self.write_has_its_time_again(|target| &mut target.mapped_at);
            if self.late(self.rules.settings.write_limit) {
                return Some(self.back_off(Trouble::WriteNotSeen));
            }
            self.actions.push(Action::EnsureMapEntry {
                layout: target.layout.clone(),
                entry,
                if_map_version: self.seen.map.resource_version.clone(),
            });
            return Some(self.wait(WaitsFor::MapWrite, self.rules.settings.write_limit));
        }
        let now = self.now;
        let mapped_at = self.target().map_or(now, |target| *target.mapped_at.get_or_insert(now));
        // Whichever is earlier: both are at or after the moment the entry came.
        let known_since = self.seen.map.changed_at.map_or(mapped_at, |changed| changed.min(mapped_at));
        let settled = known_since + self.rules.settings.map_settle;
        (now < settled).then_some(Flow::Rest(
            Outlook::Working { waits_for: WaitsFor::MapMount, until: settled },
            Some(settled),
        ))
    }
}
