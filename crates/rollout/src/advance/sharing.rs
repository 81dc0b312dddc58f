//! The third walk: how the GPUs of a node are shared (`docs/adr/0020-sharing.md`). The steps up to the label, and what
//! protects running pods on the way, are those of the first walk; what is here is what differs: when it starts, who
//! is in the way, and the label. Where layout and sharing change both, the layout comes first, and the sharing follows
//! under the same cordon.
//!
//! To kubelet a shared device has other ids than the same device for one pod. So a pod that holds a GPU for itself
//! gets neighbours when sharing goes on, and who gets a GPU "for itself" when it goes off has those who share it.
//! Neither happens to a pod: both wait until no pod of the node holds that resource. Whatever changes about MPS starts
//! its server anew, which ends who runs through it: that waits until no pod holds any GPU.

use planner::names::PodRef;

use crate::action::Action;
use crate::observed::Pod;
use crate::outlook::{FailureReason, Outlook, StartBlocker, Trouble, Unproven, WaitsFor};
use crate::progress::{Phase, SharingSetBack, Target};
use crate::rules::Admission;
use crate::sharing::{PluginConfig, Resources, SharingChange, SharingWanted, unrenamed};

use super::{Flow, Run};

impl Run<'_> {
    pub(super) fn sharing(&self) -> Option<&SharingChange> {
        self.next.target.as_ref()?.sharing.as_ref()
    }

    /// A node whose layout is at rest: whether its sharing is to change.
    pub(super) fn sharing_idle(&mut self) -> Flow {
        let config = match self.sharing_wanted {
            None => return Flow::Rest(Outlook::Idle, None),
            Some(SharingWanted::Unknown) => return self.hold(StartBlocker::SharingUnknown),
            Some(SharingWanted::Refused(why)) => {
                return self.hold(StartBlocker::SharingRefused { why: why.clone() });
            }
            Some(SharingWanted::As(config)) => config.clone(),
        };
        if let Some(hold) = self.foreign_key(&config) {
            return self.hold(hold);
        }
        let offers = self.seen.offers();
        if self.is_told(&config) {
            self.next.shared_as = Some(config.clone());
        }
        if self.has_sharing(&config) {
            let devices = self.seen.devices(self.seen.operator.strategy);
            return match devices.map(|devices| config.offers(&devices)) {
                Some(expected) if expected != offers => {
                    self.hold(StartBlocker::NotAsVerified { expected, found: offers })
                }
                _ => Flow::Rest(Outlook::Idle, None),
            };
        }
        if let Some(hold) = self.sharing_rests(&config) {
            return self.hold(hold);
        }
        if let Some(until) = self.next.cooldown_until {
            return self.hold(StartBlocker::Cooldown { until });
        }
        if let Some(hold) = self.sharing_preflight(&config).or_else(|| self.miscounted(&config)) {
            return self.hold(hold);
        }
        if self.rules.admission == Admission::Held(StartBlocker::NotEnforced) {
            return self.hold(StartBlocker::NotEnforced);
        }
        let Some(devices) = self.devices_to_come(&config) else { return Flow::Rest(Outlook::Idle, None) };
        // The layout stays as it is, and so do the slices that are held.
        let layout = self.seen.sharing.layout.clone();
        self.next.target = Some(self.sharing_target(config, devices, layout));
        self.enter(Phase::Mapping)
    }

    /// A change of how these devices are shared.
    fn sharing_target(
        &self,
        config: PluginConfig,
        devices: Resources,
        layout: Option<crate::NodeLayout>,
    ) -> Target {
        let before = self.seen.shared_as();
        // A map that somebody cleared has no text under the key that the label names.
        let is_key = |known: &&PluginConfig| self.seen.sharing.key.as_ref() == Some(&known.key());
        let told = self.seen.sharing.config.as_ref().or(self.next.shared_as.as_ref().filter(is_key));
        let told_before = told.filter(|_| before.is_none()).cloned();
        let key = config.key();
        Target {
            label_before: self.seen.sharing.key.clone(),
            from: layout.clone(),
            sharing: Some(SharingChange { config, before, told_before, devices, goes_back: false }),
            ..Target::new(layout.unwrap_or_default(), key, &self.seen.boot_id)
        }
    }

    /// The devices of the node once it has a configuration, without sharing.
    fn devices_to_come(&self, config: &PluginConfig) -> Option<Resources> {
        self.seen.devices(config.strategy.unwrap_or(self.seen.operator.strategy))
    }

    fn is_told(&self, config: &PluginConfig) -> bool {
        self.seen.sharing.key.as_deref() == Some(config.key().as_str())
    }

    /// Where nobody shares anything, and nothing is to be shared, the label is
    /// not needed.
    fn has_sharing(&self, config: &PluginConfig) -> bool {
        self.is_told(config)
            || self.seen.sharing.key.is_none() && self.seen.shared_as().as_ref() == Some(config)
    }

    /// It failed lately.
    fn sharing_rests(&self, config: &PluginConfig) -> Option<StartBlocker> {
        let back = self.next.sharing_set_back.clone()?;
        (back.config == *config && self.now < back.until)
            .then_some(StartBlocker::BackedOff { until: back.until, why: back.why })
    }

    /// No layout can be proved before: the node gets its MIG strategy with its
    /// configuration, and has none yet, or it shares through MPS, beside which
    /// the device plugin serves nothing that is cut.
    pub(super) fn sharing_comes_first(&self) -> bool {
        let Some(SharingWanted::As(config)) = self.sharing_wanted else { return false };
        let lacks = config.strategy.is_some_and(|strategy| strategy != self.seen.operator.strategy);
        let is_by_mps = self.seen.sharing.config.as_ref().is_some_and(PluginConfig::is_by_mps);
        (lacks || is_by_mps && !config.is_by_mps()) && !self.is_told(config)
    }

    /// The sharing that changes with the layout of the node, under one cordon.
    pub(super) fn sharing_due(&self) -> Option<PluginConfig> {
        let Some(SharingWanted::As(config)) = self.sharing_wanted else { return None };
        let due = !self.has_sharing(config)
            && self.foreign_key(config).is_none()
            && self.sharing_rests(config).is_none();
        due.then(|| config.clone())
    }

    /// The layout is proved, and the node is still closed: its sharing changes
    /// now, if the key is mounted and nobody is in the way.
    pub(super) fn sharing_follows(&mut self) -> Option<Flow> {
        let config = self.sharing_due()?;
        let of = self.next.target.clone()?;
        let is_mounted = self.can_be_known(&config.key())
            && of.followed_by.as_ref() == Some(&config)
            && of.key_mapped_at.is_some_and(|at| self.now >= at + self.rules.settings.map_settle);
        if !is_mounted || !self.cordoned_by_us() {
            return None;
        }
        let strategy = config.strategy.unwrap_or(self.seen.operator.strategy);
        let devices = of.layout.allocatable(strategy).ok()?;
        let next = Target {
            mapped_at: of.key_mapped_at,
            cordoned_at: of.cordoned_at,
            ..self.sharing_target(config, devices, Some(of.layout))
        };
        if !self.not_evictable(&next).is_empty() {
            return None;
        }
        self.next.target = Some(next);
        Some(self.enter(Phase::Quiescing))
    }

    /// The sharing of what the node has now, while its layout cannot begin: a layout that waits holds up no sharing that
    /// waits for nothing and nobody, and evicts nobody. It follows later, under a cordon of its own. Otherwise people are
    /// told what the layout waits for, which comes first.
    pub(super) fn sharing_meanwhile(&self) -> Option<Target> {
        let config = self.sharing_due()?;
        // Where devices are ill, or the plugin starts, nothing could be proved.
        self.seen.shared_as()?;
        let devices = self.devices_to_come(&config)?;
        let is_held = self.next.cooldown_until.is_some()
            || self.rules.admission == Admission::Held(StartBlocker::NotEnforced)
            || self.sharing_preflight(&config).is_some()
            || !self.is_mounted();
        // Without the layout there may be nothing that is to be shared.
        if is_held || config.offers(&devices) == self.seen.offers() {
            return None;
        }
        let target = self.sharing_target(config, devices, self.seen.sharing.layout.clone());
        let is_in_nobodys_way =
            target.sharing.as_ref().is_some_and(|change| self.would_share(change).is_empty());
        is_in_nobodys_way.then_some(target)
    }

    /// The label has a value that we did not write.
    fn foreign_key(&self, wanted: &PluginConfig) -> Option<StartBlocker> {
        let remembered = self.next.shared_as.as_ref();
        self.seen.sharing.is_somebody_elses(remembered, wanted).then(|| StartBlocker::ForeignSharing {
            found: self.seen.sharing.key.clone(),
            ours: remembered.map(PluginConfig::key),
        })
    }

    /// Everything that must be right before a change, the heaviest first.
    pub(super) fn sharing_preflight(&self, config: &PluginConfig) -> Option<StartBlocker> {
        let seen = self.seen;
        if let Some(who) = seen.manager {
            return Some(StartBlocker::HandsOff { who: who.to_string() });
        }
        if !seen.operator.cluster_policy {
            return Some(StartBlocker::NoClusterPolicy);
        }
        if self.devices_to_come(config).is_none_or(|devices| devices.values().all(|n| *n == 0)) {
            return Some(StartBlocker::SharingUnknown);
        }
        self.at_work()
    }

    /// Nobody shares anything, and the node offers another number of devices than feature discovery counts: one is ill, or
    /// the cards are of several models, of which discovery labels one. What would be shared could never be proved.
    fn miscounted(&self, config: &PluginConfig) -> Option<StartBlocker> {
        let (seen, strategy) = (&self.seen.sharing, self.seen.operator.strategy);
        // Without a strategy the plugin may see no slices at all.
        let is_comparable = seen.key.is_none() && config.strategy.is_none_or(|to_be| to_be == strategy);
        let now = seen.told().filter(|_| is_comparable)?;
        let expected = now.offers(&self.seen.devices(strategy)?);
        let found = self.seen.offers();
        (expected != found).then_some(StartBlocker::SharingMiscounted { expected, found })
    }

    /// The pods that would get neighbours, or be neighbours of a pod that
    /// believes to be alone, or whose server would be started anew. Where it is
    /// not known how the devices are shared now, that is every pod that holds one.
    pub(super) fn would_share(&self, change: &SharingChange) -> Vec<Pod> {
        let mut holders: Vec<Pod> = self.seen.pods.iter().filter(|pod| pod.holds_gpu()).cloned().collect();
        let Some(now) = self.seen.shared_as() else { return holders };
        let to = &change.config;
        let starts_a_server = (now.is_by_mps() || to.is_by_mps()) && now.sharing != to.sharing;
        if starts_a_server || now.strategy != to.strategy {
            return holders;
        }
        let mut held = Resources::new();
        for pod in &holders {
            for resource in pod.resources() {
                let all = held.entry(unrenamed(resource).to_owned()).or_insert(0);
                *all = all.saturating_add(pod.requests.get(resource).copied().unwrap_or(0));
            }
        }
        let disturbs = |(resource, n): (&String, &u64)| {
            let Some(devices) = change.devices.get(resource) else { return true };
            let (from, to) = (now.seats_of(resource), to.seats_of(resource));
            from.is_shared() != to.is_shared()
                || from.resource != to.resource
                || *n > devices.saturating_mul(u64::from(to.replicas))
        };
        let disturbed: Vec<&String> =
            held.iter().filter(|held| disturbs(*held)).map(|(resource, _)| resource).collect();
        let is_disturbed = |resource: &String| disturbed.iter().any(|name| *name == unrenamed(resource));
        holders.retain(|pod| pod.resources().any(is_disturbed));
        holders
    }

    /// What the node's label should be now: the key, or what was there before.
    pub(super) fn key_to_be(target: &Target, change: &SharingChange) -> Option<String> {
        if change.goes_back { target.label_before.clone() } else { Some(target.label.clone()) }
    }

    /// What holds in every step between the label and the proof.
    fn sharing_underway(&mut self, target: &Target, change: &SharingChange) -> Option<Flow> {
        let ours = Self::key_to_be(target, change);
        if self.seen.sharing.key != ours {
            let found = self.seen.sharing.key.clone();
            return Some(self.fail(FailureReason::ForeignSharing { found, ours }));
        }
        if target.boot_id != self.seen.boot_id {
            let boot_id = self.seen.boot_id.clone();
            if let Some(target) = self.target() {
                target.boot_id = boot_id;
            }
            self.restart_clock();
        }
        if !self.seen.unschedulable {
            self.cordon();
        }
        self.keep_mark();
        self.keep_key(target, change);
        None
    }

    /// The key is there: whether the device plugin does what it says.
    pub(super) fn sharing_verifying(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        let Some(change) = target.sharing.clone() else { return self.enter(Phase::Idle) };
        if let Some(flow) = self.sharing_underway(&target, &change) {
            return flow;
        }
        let settings = self.rules.settings;
        // What was there before and is not known cannot be proved: then a plugin that offers GPUs has to do.
        let config = if change.goes_back { change.before.clone() } else { Some(change.config.clone()) };
        let missing = match &config {
            Some(config) => self.not_shared(config, &change.devices),
            None if self.seen.offers().is_empty() => Some(Unproven::Allocatable {
                expected: change.config.offers(&change.devices),
                found: self.seen.offers(),
            }),
            None => None,
        };
        if let Some(missing) = missing {
            self.next.matched_since = None;
            // Writing to a node that is down helps nobody.
            if missing == Unproven::NotReady {
                if self.late(settings.change_limit) {
                    return self.fail(FailureReason::SharingFailed(Trouble::NotBack));
                }
                return self.wait(WaitsFor::Reboot, settings.change_limit);
            }
            if self.late(settings.verify_limit) {
                return self.sharing_trouble(&change, Trouble::NotShared { missing });
            }
            return self.wait(WaitsFor::SharingProof(missing), settings.verify_limit);
        }
        let stable = *self.next.matched_since.get_or_insert(self.now) + settings.stable_for;
        if self.now < stable {
            return self.wait_until(WaitsFor::SharingProof(Unproven::Stability), stable);
        }
        if change.goes_back {
            self.next.shared_as = change.text_before().filter(|_| target.label_before.is_some()).cloned();
        } else {
            self.next.shared_as = Some(change.config);
            self.next.sharing_set_back = None;
            self.next.last_error = None;
        }
        self.rest_after_sharing();
        self.enter(Phase::Releasing)
    }

    /// It did not work: back to the key of before, once.
    fn sharing_trouble(&mut self, change: &SharingChange, what: Trouble) -> Flow {
        if change.goes_back {
            return self.fail(FailureReason::SharingFailed(what));
        }
        self.set_back(what, true);
        if let Some(change) = self.target().and_then(|target| target.sharing.as_mut()) {
            change.goes_back = true;
        }
        if let Some(target) = self.target() {
            target.written_at = None;
        }
        self.enter(Phase::Relabelling)
    }

    /// The key of before is written again, on a fresh list: a pod that came past
    /// the cordon is not given neighbours.
    pub(super) fn sharing_goes_back(&mut self) -> Flow {
        let Some(target) = self.next.target.clone() else { return self.enter(Phase::Idle) };
        if self.seen.sharing.key == target.label_before {
            return self.enter(Phase::Verifying);
        }
        let settings = self.rules.settings;
        if self.seen.sharing.key.as_deref() != Some(target.label.as_str()) {
            let (found, ours) = (self.seen.sharing.key.clone(), Some(target.label));
            return self.fail(FailureReason::ForeignSharing { found, ours });
        }
        if !self.seen.unschedulable {
            self.cordon();
            return self.wait(WaitsFor::Cordon, settings.write_limit);
        }
        self.keep_mark();
        let harmed = self.harmed_by_going_back(&target);
        if !harmed.is_empty() {
            if self.late(settings.quiesce_limit) {
                let (pods, refused) = (harmed, Vec::new());
                return self.fail(FailureReason::SharingFailed(Trouble::GpusHeld { pods, refused }));
            }
            // The write that is due when they have gone has its own time.
            if let Some(target) = self.target() {
                target.written_at = None;
            }
            self.list_pods();
            let waits_for = WaitsFor::PodsGoing { pods: harmed, refused: Vec::new() };
            return self.wait(waits_for, settings.quiesce_limit);
        }
        if !self.listed(self.since()) {
            self.list_pods();
            return self.wait(WaitsFor::PodList, settings.quiesce_limit);
        }
        let now = self.now;
        let written_at = self.target().map_or(now, |target| *target.written_at.get_or_insert(now));
        if now >= written_at + settings.write_limit {
            return self.fail(FailureReason::SharingFailed(Trouble::WriteNotSeen));
        }
        if let Some(change) = &target.sharing {
            self.keep_key(&target, change);
        }
        let if_version = self.version();
        self.actions.push(Action::SetPluginConfigLabel { value: target.label_before, if_version });
        self.wait_until(WaitsFor::Label, written_at + settings.write_limit)
    }

    /// Pods that came past the cordon since the label was written, and would share a GPU unawares under the key of before.
    /// Who was there before that is as well off under it as they were.
    fn harmed_by_going_back(&self, target: &Target) -> Vec<PodRef> {
        let newcomers = self.newcomers(target);
        let back = target.sharing.as_ref().and_then(|change| {
            let devices = change.devices.clone();
            let (config, before) = (change.before.clone()?, None);
            Some(SharingChange { config, before, told_before: None, devices, goes_back: true })
        });
        // Of what it was, nothing is known: whoever came is in the way.
        let Some(back) = back else { return newcomers };
        let would_share: Vec<PodRef> = self.would_share(&back).into_iter().map(|pod| pod.pod).collect();
        newcomers.into_iter().filter(|pod| would_share.contains(pod)).collect()
    }

    /// Waits for a human, and sees it when the node offers again what the key
    /// says that it has.
    pub(super) fn sharing_failed(&mut self) -> Flow {
        let failure = self.failure();
        let minute = self.now + jiff::SignedDuration::from_mins(1);
        self.keep_mark();
        if self.seen.marked() && !self.cordoned_by_us() {
            let if_version = self.version();
            self.actions.push(Action::RemoveCordonedBy { if_version });
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        let in_effect = self.seen.shared_as();
        // What it has now: a GPU may have been taken out while it waited.
        let devices = self.seen.devices(self.seen.operator.strategy);
        let right = in_effect
            .as_ref()
            .zip(devices)
            .is_some_and(|(config, devices)| self.not_shared(config, &devices).is_none());
        if !right {
            self.next.matched_since = None;
            return Flow::Rest(Outlook::Failed(failure), Some(minute));
        }
        let stable = *self.next.matched_since.get_or_insert(self.now) + self.rules.settings.stable_for;
        if self.now < stable {
            return Flow::Rest(Outlook::Failed(failure), Some(stable));
        }
        let ours = self.seen.sharing.key.is_some();
        self.next.shared_as = in_effect.filter(|_| ours);
        self.next.failed = None;
        self.rest_after_sharing();
        self.enter(Phase::Releasing)
    }

    /// The node was away for seconds. Of a layout that changed under the same cordon, it rests as long as ever.
    fn rest_after_sharing(&mut self) {
        self.next.shared_at = Some(self.now);
        self.next.cooldown_until = self.cooldown();
    }

    pub(super) fn set_back_sharing(&mut self, config: PluginConfig, why: Trouble, rolled_back: bool) {
        let times = match &self.next.sharing_set_back {
            Some(back) if back.config == config => back.times.saturating_add(1),
            _ => 1,
        };
        let until = self.now + self.backoff(times, rolled_back);
        self.next.last_error = Some(why.clone());
        self.next.sharing_set_back = Some(SharingSetBack { config, why, times, until, rolled_back });
    }
}
