//! After a reboot. The slices of a GPU are gone, and on Hopper MIG mode as well; MIG manager, which would bring them
//! back, is off. The node is cordoned as soon as its new boot is seen, and the agent makes the slices that were verified
//! last, at their places: there they have the UUIDs that they had, and pods that are still bound get them again.
//!
//! No budget and no window holds this back: it takes nothing from anybody. A GPU on which somebody has made other slices
//! meanwhile stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use agent::{GpuState, GpuUuid, Place};

use crate::agent_seen::{GpuSlices, SliceChange, SlicePlace};
use crate::names;
use crate::outlook::{FailureReason, Outlook, StartBlocker, Trouble, WaitsFor};
use crate::progress::{Phase, Verified};

use super::super::{Flow, Run};

impl Run<'_> {
    /// What the node had when it went down, where its agent has to bring it back.
    pub(super) fn lost_by_reboot(&self) -> Option<Verified> {
        let handed = self.seen.label() == Some(names::HANDED_TO_AGENT);
        let verified =
            self.next.verified.as_ref().filter(|verified| handed && !verified.slices.is_empty())?;
        let booted = !self.seen.boot_id.is_empty() && verified.boot_id != self.seen.boot_id;
        booted.then(|| verified.clone())
    }

    /// Whether what is under way brings slices back.
    pub(super) fn restores(&self) -> bool {
        self.next.target.as_ref().is_some_and(|target| target.restore)
    }

    /// Whether they have been brought back, or have not, since this boot.
    pub(super) fn tried_in_this_boot(&self) -> bool {
        self.restores() && self.next.target.as_ref().is_some_and(|target| target.boot_id == self.seen.boot_id)
    }

    /// The slices that the agent knows, as they are remembered, and those that are
    /// remembered of GPUs about which it knows nothing: a GPU that was lost is
    /// mostly cured by a reboot.
    pub(super) fn places(&self) -> BTreeMap<String, Vec<SlicePlace>> {
        let known = self.seen.agent.iter().flat_map(|agent| &agent.account.known.layout.gpus);
        let cut = known.filter(|gpu| !gpu.slices().is_empty());
        let cut = cut.map(|gpu| {
            let places: BTreeSet<SlicePlace> = gpu.slices().iter().map(|slice| slice.place.into()).collect();
            (gpu.uuid.0.clone(), places.into_iter().collect())
        });
        let remembered = self.next.verified.iter().flat_map(|verified| {
            let is_of_this_boot = verified.boot_id == self.seen.boot_id;
            verified.slices.iter().filter(move |(uuid, _)| match self.state(uuid) {
                Some(GpuState::Silent { .. }) => true,
                Some(GpuState::Cut(_) | GpuState::Whole) => false,
                // A card that another boot does not have, however long one waits, was taken out.
                None => is_of_this_boot,
            })
        });
        remembered.map(|(uuid, places)| (uuid.clone(), places.clone())).chain(cut).collect()
    }

    fn state(&self, uuid: &str) -> Option<&GpuState> {
        let known = self.seen.agent.iter().flat_map(|agent| &agent.account.known.layout.gpus);
        known.filter(|gpu| gpu.uuid.0 == uuid).map(|gpu| &gpu.state).next()
    }

    /// A GPU that had slices, and about which nothing is known in this boot. The
    /// driver may get to it later than to the others.
    fn unanswered(&self, lost: &Verified) -> Option<String> {
        let unknown = |uuid: &&String| matches!(self.state(uuid), None | Some(GpuState::Silent { .. }));
        lost.slices.keys().find(unknown).cloned()
    }

    /// A node at rest: what it has and offers is what a reboot would take.
    pub(super) fn remember_slices(&mut self) {
        let alive = self.seen.agent.as_ref().is_some_and(|agent| agent.alive);
        let handed = self.seen.label() == Some(names::HANDED_TO_AGENT);
        let same = self.next.verified.as_ref().is_some_and(|verified| verified.slices == self.places());
        if alive && handed && !same && self.seen.ready && self.not_open().is_none() {
            self.verified_by_agent(&crate::layout::NodeLayout::default());
        }
    }

    /// A node at rest that was rebooted.
    pub(super) fn agent_rebooted(&mut self) -> Option<Flow> {
        let lost = self.lost_by_reboot()?;
        if let Some(who) = self.seen.manager {
            return Some(self.hold(StartBlocker::HandsOff { who: who.to_string() }));
        }
        if let Some(who) = self.seen.work_under_way() {
            return Some(self.hold(StartBlocker::ForeignWork { who }));
        }
        if self.cordoned_by_others() {
            return Some(self.hold(StartBlocker::CordonedByOthers));
        }
        Some(self.bring_back(&lost))
    }

    /// Closes the node. What is to be made is known when the agent has reported.
    pub(super) fn bring_back(&mut self, lost: &Verified) -> Flow {
        let id = self.new_id("restore");
        let change = SliceChange { id, gpus: Vec::new(), listed: None, drained: false };
        let Some(mut target) = super::target(self, change) else { return self.enter(Phase::Idle) };
        target.restore = true;
        target.layout = lost.layout.clone();
        self.next.target = Some(target);
        self.enter(Phase::Cordoning)
    }

    /// Waits for the agent, and says what it is to make; `None` where that is
    /// said, or nothing is to be brought back.
    pub(super) fn agent_restoring(&mut self) -> Option<Flow> {
        if !self.restores() {
            return None;
        }
        let lost = self.lost_by_reboot()?;
        if !self.tried_in_this_boot() {
            return Some(self.bring_back(&lost));
        }
        let limit = self.rules.settings.change_limit;
        let alive = self.seen.agent.as_ref().is_some_and(|agent| agent.alive);
        if !self.seen.ready || !alive {
            if self.late(limit) {
                let trouble = if self.seen.ready { Trouble::AgentAway } else { Trouble::NotBack };
                return Some(self.fail(FailureReason::RestoreFailed(trouble)));
            }
            return Some(self.wait(WaitsFor::Reboot, limit));
        }
        // What it is to make is said once. Then the hold has its time.
        let is_said = self.slices().is_some_and(|change| !change.gpus.is_empty());
        if let Some(gpu) = self.unanswered(&lost).filter(|_| !is_said && !self.late(limit)) {
            return Some(self.wait(WaitsFor::Driver { gpu }, limit));
        }
        if self.is_mig_off(&lost) {
            return Some(self.switch_on(&lost));
        }
        let gpus = self.to_bring_back(&lost);
        if gpus.is_empty() {
            return Some(self.enter(Phase::Verifying));
        }
        if let Some(change) = self.target().and_then(|target| target.slices.as_mut())
            && change.gpus != gpus
        {
            change.gpus = gpus;
            self.next.since = Some(self.now);
        }
        None
    }

    /// A node that waited too long for its agent, or for pods, after a reboot.
    pub(super) fn agent_is_back(&mut self) -> Option<Flow> {
        let waited = matches!(self.next.failed, Some(FailureReason::RestoreFailed(_)));
        if !waited || !self.restores() || self.lost_by_reboot().is_none() {
            return None;
        }
        let alive = self.seen.agent.as_ref().is_some_and(|agent| agent.alive);
        if alive && self.seen.ready && !self.seen.pods.iter().any(crate::observed::Pod::holds_gpu) {
            self.next.failed = None;
            return Some(self.enter(Phase::Quiescing));
        }
        self.keep_mark();
        let minute = self.now + jiff::SignedDuration::from_mins(1);
        Some(Flow::Rest(Outlook::Failed(self.failure()), Some(minute)))
    }

    /// Whether a GPU that had slices has lost MIG mode, as Hopper does.
    fn is_mig_off(&self, lost: &Verified) -> bool {
        let known = self.seen.agent.iter().flat_map(|agent| &agent.account.known.layout.gpus);
        known.filter(|gpu| lost.slices.contains_key(&gpu.uuid.0)).any(|gpu| gpu.state == GpuState::Whole)
    }

    /// The agent does not switch MIG mode on; MIG manager does, and makes the
    /// slices with it. Whoever got a whole GPU first keeps it: it is said, and
    /// the node stays closed until they are gone.
    fn switch_on(&mut self, lost: &Verified) -> Flow {
        let limit = self.rules.settings.change_limit;
        let holders = self.seen.pods.iter().filter(|pod| pod.holds_gpu());
        let pods: Vec<_> = holders.map(|pod| pod.pod.clone()).collect();
        if !pods.is_empty() {
            if self.late(limit) {
                let trouble = Trouble::PodsInTheWay { pods, refused: Vec::new() };
                return self.fail(FailureReason::RestoreFailed(trouble));
            }
            return self.wait(WaitsFor::PodsGoing { pods, refused: Vec::new() }, limit);
        }
        if let Some(hold) = self.not_to_be_given_back() {
            return self.hold(hold);
        }
        let entry = match self.mapped(&lost.layout) {
            Err(None) => return self.wait(WaitsFor::MapWrite, limit),
            Err(Some(settled)) => {
                let outlook = Outlook::Working { waits_for: WaitsFor::MapMount, until: settled };
                return Flow::Rest(outlook, Some(settled));
            }
            Ok(entry) => entry,
        };
        // Whoever was bound before the cordon was noticed is in this list.
        if !self.listed(self.since()) {
            self.list_pods();
            return self.wait(WaitsFor::PodList, limit);
        }
        self.give_back(lost.layout.clone(), entry);
        // MIG manager ends what is begun here.
        self.next.target = None;
        self.next.phase = Phase::Idle;
        self.wait(WaitsFor::Label, self.rules.settings.write_limit)
    }

    fn to_bring_back(&self, lost: &Verified) -> Vec<GpuSlices> {
        let Some(agent) = &self.seen.agent else { return Vec::new() };
        let mut gpus = Vec::new();
        for (gpu, uuid) in &agent.gpus {
            let Some(had) = lost.slices.get(&uuid.0) else { continue };
            let Some(GpuState::Cut(_)) = agent.account.known.layout.gpu(uuid).map(|gpu| &gpu.state) else {
                continue;
            };
            let before = self.present(uuid);
            let after: BTreeSet<SlicePlace> = had.iter().copied().collect();
            if before.is_subset(&after) && before != after {
                let (before, after) = (before.into_iter().collect(), after.into_iter().collect());
                gpus.push(GpuSlices { gpu: *gpu, uuid: uuid.0.clone(), before, after });
            }
        }
        gpus
    }

    fn present(&self, uuid: &GpuUuid) -> BTreeSet<SlicePlace> {
        let gpu = self.seen.agent.as_ref().and_then(|agent| agent.account.known.layout.gpu(uuid));
        gpu.into_iter()
            .flat_map(agent::GpuLayout::slices)
            .map(|slice: &agent::Slice| Place::into(slice.place))
            .collect()
    }
}
