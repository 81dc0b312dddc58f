//! From the cordon to the label: until the label is written, every step here can be reverted.

use jiff::SignedDuration;
use planner::names::PodRef;
use planner::policy::Drain;

use crate::action::Action;
use crate::observed::{ManagerState, Pod, PodPhase};
use crate::operand::Operand;
use crate::outlook::{StartBlocker, Trouble, WaitsFor};
use crate::progress::{Phase, SetBack, Target};
use crate::rules::Admission;

use super::{Flow, Run};

pub(super) fn refs<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<PodRef> {
    pods.into_iter().map(|pod| pod.pod.clone()).collect()
}

impl Run<'_> {
    /// Pods that hold, or may hold, a slice that goes.
    fn in_the_way(&self, target: &Target) -> Vec<Pod> {
        if let Some(change) = &target.sharing {
            return self.would_share(change);
        }
        if let Some(change) = &target.slices {
            return self.have_what_goes(change);
        }
        let strategy = self.seen.operator.strategy;
        let loses = |pod: &&Pod| pod.may_lose(target.from.as_ref(), &target.layout, strategy);
        self.seen.pods.iter().filter(loses).cloned().collect()
    }

    /// Those of them that nothing will remove.
    pub(super) fn not_evictable(&self, target: &Target) -> Vec<PodRef> {
        let evict = self.rules.drain == Drain::Evict;
        let stays = |pod: &&Pod| !pod.terminating && (!evict || pod.comes_back());
        refs(self.in_the_way(target).iter().filter(stays))
    }

    /// Why a change that has not become irrevocable should be taken back. A
    /// budget that is used up meanwhile is no reason: this node is part of it.
    fn should_return(&self, target: &Target) -> bool {
        let refused = match &self.rules.admission {
            Admission::Admitted | Admission::Held(StartBlocker::Budget { .. }) => false,
            Admission::Held(_) => true,
        };
        let label = self.told(target);
        refused
            || !self.is_wanted(target)
            || label != target.label_before.as_deref()
            || !self.has_key(target)
            || target.sharing.is_none() && self.key_is_unknown().is_some()
            || !self.seen.ready
            || self.seen.work_under_way().is_some()
            || self.seen.manager.is_some()
            || !self.seen.paused().is_empty()
            || !matches!(
                self.seen.state(),
                ManagerState::Absent | ManagerState::Success | ManagerState::Failed
            )
    }

    pub(super) fn cordoning(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        if self.should_return(&target) {
            return self.enter(Phase::Retreating);
        }
        if self.cordoned_by_others() {
            return self.enter(Phase::Idle);
        }
        let settings = self.rules.settings;
        if !self.cordoned_by_us() {
            if target.cordoned_at.is_some() || self.seen.marked() {
                return self.retreat(Trouble::Uncordoned);
            }
            if self.late(settings.write_limit) {
                return self.retreat(Trouble::WriteNotSeen);
            }
            self.cordon();
            return self.wait(WaitsFor::Cordon, settings.write_limit);
        }
        self.keep_mark();
        let now = self.now;
        let cordoned_at = self.target().map_or(now, |target| *target.cordoned_at.get_or_insert(now));
        let settled = cordoned_at + settings.cordon_settle;
        if now < settled {
            return self.wait_until(WaitsFor::Cordon, settled);
        }
        self.enter(Phase::Quiescing)
    }

    /// A consistent list of after the cordon, not older than a moment.
    fn list_is_fresh(&self, cordoned: jiff::Timestamp) -> bool {
        self.listed(cordoned + self.rules.settings.cordon_settle)
    }

    pub(super) fn quiescing(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        if self.told(&target) == Some(target.label.as_str()) {
            return self.label_seen();
        }
        if self.should_return(&target) {
            return self.enter(Phase::Retreating);
        }
        if !self.cordoned_by_us() {
            return self.retreat(Trouble::Uncordoned);
        }
        self.keep_mark();
        let settings = self.rules.settings;
        let evict = self.rules.drain == Drain::Evict;
        let way = self.in_the_way(&target);
        let starting: Vec<_> = self
            .seen
            .pods
            .iter()
            .filter(|pod| pod.holds_gpu() && pod.phase == PodPhase::Pending && !pod.terminating)
            .filter(|pod| !(evict && way.contains(pod)))
            .cloned()
            .collect();
        let clear = way.is_empty() && starting.is_empty();
        let fresh = self.list_is_fresh(target.cordoned_at.unwrap_or(self.now));
        if !fresh && (clear || !evict) {
            self.list_pods();
            if clear {
                let limit = if evict { settings.drain_limit } else { settings.quiesce_limit };
                if self.late(limit) {
                    return self.retreat(Trouble::WriteNotSeen);
                }
                return self.wait(WaitsFor::PodList, limit);
            }
        }
        if !starting.is_empty() {
            let pods = refs(&starting);
            if self.late(settings.quiesce_limit) {
                return self.retreat(Trouble::PodsNotStarting { pods });
            }
            return self.wait(WaitsFor::PodsStarting { pods }, settings.quiesce_limit);
        }
        if !way.is_empty() {
            return self.clear_the_way(&target, &way, fresh);
        }
        self.write_label(&target, &settings.write_limit)
    }

    pub(super) fn clear_the_way(&mut self, target: &Target, way: &[Pod], fresh: bool) -> Flow {
        let settings = self.rules.settings;
        let evict = self.rules.drain == Drain::Evict;
        let limit = if evict { settings.drain_limit } else { settings.quiesce_limit };
        let stay = self.not_evictable(target);
        let is_in_way = |pod: &PodRef| way.iter().any(|other| other.pod == *pod);
        let refused: Vec<_> = self
            .seen
            .refusals
            .iter()
            .filter(|refusal| is_in_way(&refusal.pod))
            .map(|refusal| (refusal.pod.clone(), refusal.message.clone()))
            .collect();
        if self.late(limit) || !stay.is_empty() && (fresh || evict) {
            let pods = if stay.is_empty() { refs(way) } else { stay };
            let refused = refused.into_iter().map(|(pod, said)| format!("{pod}: {said}")).collect();
            return self.retreat(match &target.sharing {
                Some(_) => Trouble::GpusHeld { pods, refused },
                None => Trouble::PodsInTheWay { pods, refused },
            });
        }
        if evict {
            for pod in way.iter().filter(|pod| !pod.terminating) {
                self.actions.push(Action::Evict { pod: pod.pod.clone(), if_uid: pod.uid.clone() });
            }
        }
        self.wait(WaitsFor::PodsGoing { pods: refs(way), refused }, limit)
    }

    /// The last moment: everything above held in one observation, and the
    /// write carries its version.
    fn write_label(&mut self, target: &Target, limit: &SignedDuration) -> Flow {
        let written_at = target.written_at.unwrap_or(self.now);
        if self.now >= written_at + *limit {
            return self.retreat(Trouble::WriteNotSeen);
        }
        self.announce_label(written_at);
        self.wait_until(WaitsFor::Label, written_at + *limit)
    }

    /// Records what the label will be judged by, and writes it.
    pub(super) fn announce_label(&mut self, written_at: jiff::Timestamp) {
        let plugin = self.seen.operand(Operand::DevicePlugin).map(|pod| pod.uid.clone());
        let bystanders: Vec<_> =
            self.seen.pods.iter().filter(|pod| pod.holds_gpu()).map(|pod| pod.uid.clone()).collect();
        let boot_id = self.seen.boot_id.clone();
        let if_version = self.version();
        let Some(target) = self.target() else { return };
        target.plugin_before = plugin;
        target.bystanders = bystanders;
        target.boot_id = boot_id;
        target.written_at = Some(written_at);
        let value = target.label.clone();
        let shares = target.sharing.is_some();
        self.actions.push(match shares {
            true => Action::SetPluginConfigLabel { value: Some(value), if_version },
            false => Action::SetConfigLabel { value, clear_state: true, if_version },
        });
    }

    /// The label is there: the node is finished now, whatever else happens.
    pub(super) fn label_seen(&mut self) -> Flow {
        let now = self.now;
        if let Some(target) = self.target() {
            target.attempt += 1;
            target.written_at = Some(now);
            let (label, sharing) = (target.label.clone(), target.sharing.clone());
            match sharing {
                Some(change) => self.next.shared_as = Some(change.config),
                None => self.next.applied = Some(label),
            }
        }
        self.enter(Phase::Changing)
    }

    /// Takes everything back, and does not try again for a while.
    pub(super) fn retreat(&mut self, why: Trouble) -> Flow {
        self.set_back(why, false);
        self.enter(Phase::Retreating)
    }

    /// The same where nothing was done that has to be taken back; past the
    /// point of return it is a failure.
    pub(super) fn back_off(&mut self, why: Trouble) -> Flow {
        if self.next.phase.past_return() {
            return self.give_up(why);
        }
        self.set_back(why, false);
        self.enter(Phase::Idle)
    }

    pub(super) fn set_back(&mut self, why: Trouble, rolled_back: bool) {
        let Some(target) = self.next.target.clone() else { return };
        if let Some(change) = target.sharing {
            return self.set_back_sharing(change.config, why, rolled_back);
        }
        let layout = target.layout;
        let times = match &self.next.set_back {
            Some(back) if back.layout == layout => back.times.saturating_add(1),
            _ => 1,
        };
        let until = self.now + self.backoff(times, rolled_back);
        self.next.last_error = Some(why.clone());
        self.next.set_back = Some(SetBack { layout, why, times, until, rolled_back });
    }

    /// Nothing rests for longer from now on than it would if it had failed just now. A clock that was put back since, or
    /// that of another machine, may have said a much later hour.
    pub(super) fn rest_no_longer(&mut self) {
        if let Some(back) = self.next.set_back.as_ref() {
            let latest = self.now + self.backoff(back.times, back.rolled_back);
            self.next.set_back.iter_mut().for_each(|back| back.until = back.until.min(latest));
        }
        if let Some(back) = self.next.sharing_set_back.as_ref() {
            let latest = self.now + self.backoff(back.times, back.rolled_back);
            self.next.sharing_set_back.iter_mut().for_each(|back| back.until = back.until.min(latest));
        }
    }

    /// How long a target rests that could not be reached so often in a row.
    pub(super) fn backoff(&self, times: u32, rolled_back: bool) -> SignedDuration {
        let settings = &self.rules.settings;
        let first = if rolled_back { settings.roll_back_backoff } else { settings.retreat_backoff };
        first.saturating_mul(1 << times.saturating_sub(1).min(16)).min(settings.longest_backoff)
    }
}
