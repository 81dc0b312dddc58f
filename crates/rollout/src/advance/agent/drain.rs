//! Where the policy allows it, who has a slice that goes is evicted. That is before the hold: evictions may take an hour,
//! and until they are through the device plugin stays and only the cordon keeps others away. What is proved under the
//! hold does not rest on it.

use agent::PodUid;
use agent::prove::{have_what_goes, may_get_what_goes};
use planner::policy::Drain;

use crate::agent_seen::SliceChange;
use crate::observed::{Pod, PodPhase};
use crate::outlook::{StartBlocker, Trouble, WaitsFor};
use crate::progress::{Phase, Target};

use super::super::quiesce::refs;
use super::super::{Flow, Run};
use super::prove::for_proof;

impl Run<'_> {
    /// Pods that have a slice that goes, by the agent's account.
    pub(in crate::advance) fn have_what_goes(&self, change: &SliceChange) -> Vec<Pod> {
        let Some(agent) = &self.seen.agent else { return Vec::new() };
        let uids = have_what_goes(&change.wish(), &agent.account);
        let live = || self.seen.pods.iter().filter(|pod| pod.phase != PodPhase::Ended);
        // What a static pod says to be, kubelet's name for it, takes the place of no other pod.
        let is_own = |uid: &PodUid| live().any(|pod| pod.uid == uid.0);
        let has =
            |pod: &&Pod| uids.iter().any(|uid| pod.uid == uid.0 || pod.kubelet_uid == uid.0 && !is_own(uid));
        live().filter(has).cloned().collect()
    }

    /// Pods that may be about to get such a slice.
    fn may_get_what_goes(&self, change: &SliceChange) -> Vec<Pod> {
        let Some(agent) = &self.seen.agent else { return Vec::new() };
        let wish = change.wish();
        let may = |pod: &&Pod| !pod.terminating && may_get_what_goes(&for_proof(pod), &wish, &agent.account);
        self.seen.pods.iter().filter(may).cloned().collect()
    }

    /// Who is in the way and would come back: then the node is not even cordoned.
    pub(super) fn never_goes(&self, target: &Target) -> Option<StartBlocker> {
        let pods = match self.rules.drain {
            Drain::Evict => self.not_evictable(target),
            Drain::Never => Vec::new(),
        };
        (!pods.is_empty()).then_some(StartBlocker::PodsInTheWay { pods })
    }

    /// Cordons the node and evicts who is in the way; `None` where nobody is, or nobody may be evicted.
    pub(super) fn agent_draining(&mut self, target: &Target) -> Option<Flow> {
        let change = target.slices.as_ref()?;
        let is_held = !self.seen.operands.held.is_empty();
        if self.rules.drain != Drain::Evict || target.restore || change.drained || is_held {
            return None;
        }
        let way = self.have_what_goes(change);
        let starting: Vec<_> =
            self.may_get_what_goes(change).into_iter().filter(|pod| !way.contains(pod)).collect();
        if way.is_empty() && starting.is_empty() && target.cordoned_at.is_none() {
            return None;
        }
        let settings = self.rules.settings;
        if !self.cordoned_by_us() {
            return Some(if target.cordoned_at.is_some() {
                self.retreat(Trouble::Uncordoned)
            } else if self.late(settings.write_limit) {
                self.retreat(Trouble::WriteNotSeen)
            } else {
                self.cordon();
                self.wait(WaitsFor::Cordon, settings.write_limit)
            });
        }
        self.keep_mark();
        let now = self.now;
        let cordoned_at = self.target().map_or(now, |target| *target.cordoned_at.get_or_insert(now));
        let settled = cordoned_at + settings.cordon_settle;
        if now < settled {
            return Some(self.wait_until(WaitsFor::Cordon, settled));
        }
        if !starting.is_empty() {
            let pods = refs(&starting);
            return Some(if self.late(settings.quiesce_limit) {
                self.retreat(Trouble::PodsNotStarting { pods })
            } else {
                self.wait(WaitsFor::PodsStarting { pods }, settings.quiesce_limit)
            });
        }
        if !way.is_empty() {
            return Some(self.clear_the_way(target, &way, true));
        }
        // The hold is a write of its own, with a limit of its own.
        if let Some(change) = self.target().and_then(|target| target.slices.as_mut()) {
            change.drained = true;
        }
        Some(self.enter(Phase::Cordoning))
    }
}
