//! Whether the device plugin of a node can know the key that the node's label names, or is to name: a plugin ends, again
//! and again, on a key that it does not find. The key has to be in our map, `ClusterPolicy` has to point the plugin to that
//! map, the pods of the node have to mount it, and kubelet needs a minute or two to bring a new key into a mount.

use jiff::Timestamp;

use crate::action::Action;
use crate::names::ENTRY_PREFIX;
use crate::outlook::{Outlook, StartBlocker, Trouble, Unproven, WaitsFor};
use crate::progress::{Phase, Target};
use crate::sharing::{PluginConfig, SharingChange};

use super::{Flow, Run};

impl Run<'_> {
    /// The layout will be followed by a sharing: its key comes into the map at
    /// the same time as the layout's entry. A write that does not come through
    /// holds no layout up: then the sharing changes by itself, later.
    pub(super) fn key_ahead(&mut self) -> Option<Flow> {
        let config = self.sharing_due()?;
        let settings = self.rules.settings;
        let is_there = self.seen.sharing.keys.contains(&config.key());
        if let Some(target) = self.target()
            && target.followed_by.as_ref() != Some(&config)
        {
            target.followed_by = Some(config.clone());
            target.key_mapped_at = None;
        }
        if !is_there {
            self.write_has_its_time_again(|target| &mut target.key_mapped_at);
            if self.late(settings.write_limit) {
                return None;
            }
            self.actions.push(Action::EnsurePluginConfig { key: config.key(), config });
            return Some(self.wait(WaitsFor::PluginMapWrite, settings.write_limit));
        }
        // Somebody has to point ClusterPolicy to the map, and may take his time; then the pods come anew, node by node.
        if !self.is_mounted() {
            self.mounts_count_anew(|target| &mut target.key_mapped_at);
            return None;
        }
        let now = self.now;
        let settled = *self.target()?.key_mapped_at.get_or_insert(now) + settings.map_settle;
        (now < settled).then_some(Flow::Rest(
            Outlook::Working { waits_for: WaitsFor::PluginMapMount, until: settled },
            Some(settled),
        ))
    }

    /// Waits until the device plugin can know the key; `None` when it can. The
    /// map comes before `ClusterPolicy` names it: a plugin whose map is not
    /// there does not start.
    pub(super) fn key_settled(&mut self, target: &Target, change: &SharingChange) -> Option<Flow> {
        let settings = self.rules.settings;
        if !self.seen.sharing.keys.contains(&target.label) {
            self.write_has_its_time_again(|target| &mut target.mapped_at);
            if self.late(settings.write_limit) {
                return Some(self.back_off(Trouble::WriteNotSeen));
            }
            let config = change.config.clone();
            self.actions.push(Action::EnsurePluginConfig { key: target.label.clone(), config });
            return Some(self.wait(WaitsFor::PluginMapWrite, settings.write_limit));
        }
        if !self.seen.sharing.uses_our_map {
            self.mounts_count_anew(|target| &mut target.mapped_at);
            return Some(self.hold(StartBlocker::PluginMapNotOurs));
        }
        if let Some(pod) = self.seen.sharing.pod_of_before.clone() {
            self.mounts_count_anew(|target| &mut target.mapped_at);
            return Some(self.hold(StartBlocker::PluginPodOfBefore { pod }));
        }
        let now = self.now;
        let known_since = self.target().map_or(now, |target| *target.mapped_at.get_or_insert(now));
        let settled = known_since + settings.map_settle;
        (now < settled).then_some(Flow::Rest(
            Outlook::Working { waits_for: WaitsFor::PluginMapMount, until: settled },
            Some(settled),
        ))
    }

    /// The sharing that follows a layout: since when its key can be mounted. While the layout changes, which takes minutes,
    /// somebody may point `ClusterPolicy` elsewhere and back, or take the key out of the map. A key that comes in time is
    /// as good as one that was there before.
    pub(super) fn follow_key(&mut self) {
        let follows = |target: &Target| target.followed_by.as_ref().map(PluginConfig::key);
        let Some(key) = self.next.target.as_ref().and_then(follows) else { return };
        // Before, the key is waited for.
        if matches!(self.next.phase, Phase::Idle | Phase::Mapping) {
            return;
        }
        let (now, can_be_known) = (self.now, self.can_be_known(&key));
        if let Some(target) = self.target() {
            let since = target.key_mapped_at.unwrap_or(now);
            target.key_mapped_at = can_be_known.then_some(since);
        }
    }

    /// `ClusterPolicy` names another map, and whenever it names ours (again), pods of the device plugin are made anew that
    /// mount it.
    fn mounts_count_anew(&mut self, mapped_at: impl FnOnce(&mut Target) -> &mut Option<Timestamp>) {
        if let Some(target) = self.target() {
            *mapped_at(target) = None;
        }
    }

    /// The pods of the node mount our map, as far as it shows.
    pub(super) fn is_mounted(&self) -> bool {
        let seen = &self.seen.sharing;
        seen.uses_our_map && seen.pod_of_before.is_none()
    }

    /// The device plugin finds this key, once kubelet has brought it.
    pub(super) fn can_be_known(&self, key: &str) -> bool {
        self.is_mounted() && self.seen.sharing.keys.contains(key)
    }

    /// The device plugin has the key that it is to be told, as far as it shows.
    pub(super) fn has_key(&self, target: &Target) -> bool {
        target.sharing.is_none() || self.can_be_known(&target.label)
    }

    /// Why no layout begins on a node that has a key of ours: its device plugin starts anew with every layout, and would
    /// not find the key. What the node offers could not be proved.
    pub(super) fn key_is_unknown(&self) -> Option<StartBlocker> {
        let seen = &self.seen.sharing;
        let is_ours = |key: &&String| key.starts_with(ENTRY_PREFIX) && self.seen.operator.cluster_policy;
        seen.key.as_ref().filter(is_ours)?;
        let pod = || seen.pod_of_before.clone().map(|pod| StartBlocker::PluginPodOfBefore { pod });
        if seen.uses_our_map { pod() } else { Some(StartBlocker::PluginMapNotOurs) }
    }

    /// A device plugin ends on a key that is not there: one that somebody removed is written again.
    pub(super) fn keep_key(&mut self, target: &Target, change: &SharingChange) {
        let config = if change.goes_back { change.text_before() } else { Some(&change.config) };
        if let (Some(key), Some(config)) = (Self::key_to_be(target, change), config.cloned())
            && self.seen.sharing.uses_our_map
            && !self.seen.sharing.keys.contains(&key)
        {
            self.actions.push(Action::EnsurePluginConfig { key, config });
        }
    }

    /// Why the device plugin cannot know the key that the node's label names.
    pub(super) fn not_told(&self) -> Option<Unproven> {
        let seen = &self.seen.sharing;
        let key = seen.key.as_ref()?;
        if !seen.uses_our_map {
            return Some(Unproven::PluginMapElsewhere);
        }
        if let Some(pod) = seen.pod_of_before.clone() {
            return Some(Unproven::PluginPodOfBefore { pod });
        }
        (!seen.keys.contains(key)).then(|| Unproven::PluginKeyGone { key: key.clone() })
    }

    /// The same of a key of ours: what other keys say is known to those who wrote them.
    pub(super) fn not_told_ours(&self) -> Option<Unproven> {
        let key = self.seen.sharing.key.as_ref();
        key.filter(|key| key.starts_with(ENTRY_PREFIX)).and_then(|_| self.not_told())
    }
}
