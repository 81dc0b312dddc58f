//! A node that its agent changed is given back to MIG manager: the agent only reports from now on, or is uninstalled.
//!
//! MIG manager gets an entry that describes what the GPUs have, compares, and changes nothing. So the node is not
//! cordoned, and pods go on. It must not be given another entry: it would cut the GPUs anew under running pods. What the
//! GPUs have is known by an agent's report of this boot, and only where the node offers exactly that.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mig::ProfileName;

use crate::action::Action;
use crate::layout::{GpuLayout, NodeLayout};
use crate::names;
use crate::outlook::{Outlook, StartBlocker};
use crate::progress::{Mapped, Verified};

use super::{Flow, Run};

impl Run<'_> {
    /// Notes whether an agent is there that has reported.
    pub(super) fn note_agent(&mut self) {
        if !self.seen.report.as_ref().is_some_and(|report| report.has_left) {
            self.next.agent_left_since = None;
            self.next.agent_gone = false;
            return;
        }
        let since = *self.next.agent_left_since.get_or_insert(self.now);
        // What it has claimed and not ended, nobody else ends.
        let has_begun = self.slices().is_some();
        self.next.agent_gone = !has_begun && self.now >= since + self.rules.settings.agent_gone_after;
    }

    /// A node of which no agent changes anything any more is given back; `None`
    /// where MIG manager has it.
    pub(super) fn hand_back(&mut self) -> Option<Flow> {
        if !self.seen.operands.held.is_empty() {
            return Some(self.resume_or(|run| run.hold(StartBlocker::HandingBack)));
        }
        if self.seen.label() != Some(names::HANDED_TO_AGENT) {
            self.next.stood_down &= !self.seen.operands.has_manager;
            if !self.next.stood_down {
                self.next.hands_back = None;
                return None;
            }
            if let Some(flow) = self.stand_up() {
                return Some(flow);
            }
        }
        if let Some(hold) = self.not_to_be_given_back() {
            return Some(self.hold(hold));
        }
        let layout = match self.to_give_back() {
            Ok(layout) => layout,
            Err(hold) => return Some(self.hold(hold)),
        };
        match self.mapped(&layout) {
            Err(None) => Some(self.hold(StartBlocker::HandingBack)),
            Err(settled) => Some(Flow::Rest(Outlook::Holding(StartBlocker::HandingBack), settled)),
            Ok(entry) => {
                self.give_back(layout, entry);
                Some(self.hold(StartBlocker::HandingBack))
            }
        }
    }

    /// MIG manager was switched off for an agent that has not taken the node over: so its label says what the node has,
    /// or, after a reboot, what it is to have again, and MIG manager is switched on with it. `None` if neither is so.
    fn stand_up(&mut self) -> Option<Flow> {
        let label = self.seen.label()?.to_owned();
        if !self.has_what_its_label_says() && !self.lost_all_by_a_reboot() {
            return None;
        }
        if let Some(hold) = self.not_to_be_touched() {
            return Some(self.hold(hold));
        }
        let (with_manager, if_version) = (true, self.version());
        self.actions.push(Action::HandBack { value: label, with_manager, if_version });
        Some(self.hold(StartBlocker::HandingBack))
    }

    /// Whether the node has booted since it was verified, offers no slice, and no pod holds anything: nobody can lose
    /// anything.
    fn lost_all_by_a_reboot(&self) -> bool {
        let is_of_another = |verified: &Verified| verified.boot_id != self.seen.boot_id;
        let rebooted =
            !self.seen.boot_id.is_empty() && self.next.verified.as_ref().is_some_and(is_of_another);
        let has_slices = self.seen.offers().keys().any(|name| name.starts_with(ProfileName::RESOURCE_PREFIX));
        rebooted && !has_slices && !self.seen.pods.iter().any(crate::observed::Pod::holds_gpu)
    }

    /// The entry for this layout, once MIG manager can know it; before that,
    /// until when it is waited for, if that is known.
    pub(super) fn mapped(&mut self, layout: &NodeLayout) -> Result<String, Option<Timestamp>> {
        let entry = layout.entry_name();
        if !self.seen.map.entries.contains(&entry) {
            let (layout, if_map_version) = (layout.clone(), self.seen.map.resource_version.clone());
            self.actions.push(Action::EnsureMapEntry { layout, entry, if_map_version });
            self.next.hands_back = None;
            return Err(None);
        }
        // A MIG manager that does not find its entry says that it failed.
        let mapped = self.next.hands_back.take().filter(|mapped| mapped.entry == entry);
        let mapped = mapped.unwrap_or(Mapped { entry: entry.clone(), at: self.now });
        let settled = mapped.at + self.rules.settings.map_settle;
        self.next.hands_back = Some(mapped);
        if self.now < settled { Err(Some(settled)) } else { Ok(entry) }
    }

    /// Gives MIG manager the node under an entry for this layout.
    pub(super) fn give_back(&mut self, layout: NodeLayout, entry: String) {
        let (at, boot_id, label) = (self.now, self.seen.boot_id.clone(), entry.clone());
        self.next.verified = Some(Verified { layout, label, at, boot_id, slices: BTreeMap::new() });
        self.next.applied = Some(entry.clone());
        let (with_manager, if_version) = (self.next.stood_down, self.version());
        self.actions.push(Action::HandBack { value: entry, with_manager, if_version });
    }

    /// What keeps MIG manager from knowing its entry, or us from the node.
    pub(super) fn not_to_be_given_back(&self) -> Option<StartBlocker> {
        let seen = self.seen;
        let is_in_hands_of_others = self.not_to_be_touched();
        if matches!(is_in_hands_of_others, Some(StartBlocker::HandsOff { .. })) {
            return is_in_hands_of_others;
        }
        if !seen.operator.cluster_policy {
            return Some(StartBlocker::NoClusterPolicy);
        }
        if !seen.operator.uses_our_map {
            return Some(StartBlocker::MapNotOurs);
        }
        is_in_hands_of_others
    }

    /// What keeps us from the node.
    fn not_to_be_touched(&self) -> Option<StartBlocker> {
        let seen = self.seen;
        if let Some(who) = seen.manager {
            return Some(StartBlocker::HandsOff { who: who.to_string() });
        }
        if !seen.ready {
            return Some(StartBlocker::NotReady);
        }
        seen.work.as_ref().map(|work| StartBlocker::ForeignWork { who: work.to_string() })
    }

    /// What the GPUs have. After a reboot without an agent they have nothing, so
    /// that nothing can be lost: then it is what they had.
    fn to_give_back(&self) -> Result<NodeLayout, StartBlocker> {
        let strategy = self.seen.operator.strategy;
        let report = self.seen.report.as_ref();
        // A reboot took all that was there: then it is made again.
        let verified = self.next.verified.as_ref().filter(|verified| {
            self.lost_all_by_a_reboot() && verified.layout.0.values().any(GpuLayout::is_mig)
        });
        if let Some(verified) = verified {
            return Ok(verified.layout.clone());
        }
        // Whole GPUs are left out: not all of them are offered.
        let slices = |mut resources: BTreeMap<String, u64>| {
            resources.retain(|resource, _| resource.starts_with(ProfileName::RESOURCE_PREFIX));
            resources
        };
        let found = slices(self.seen.offers());
        let reported = report.and_then(|report| report.layout.clone());
        if let Some(layout) = &reported
            && layout.check(strategy).is_ok()
        {
            let expected = slices(layout.offers(strategy));
            return match expected == found {
                true => Ok(layout.clone()),
                false => Err(StartBlocker::NotAsVerified { expected, found }),
            };
        }
        let had = self.next.verified.as_ref().filter(|verified| verified.boot_id != self.seen.boot_id);
        let nothing_is_there =
            self.seen.offers().is_empty() && !self.seen.pods.iter().any(crate::observed::Pod::holds_gpu);
        match (had, reported.map(|layout| layout.check(strategy))) {
            (Some(verified), _) if nothing_is_there => Ok(verified.layout.clone()),
            (_, Some(Err(why))) => Err(StartBlocker::LayoutRefused(why)),
            _ => Err(StartBlocker::AgentAway),
        }
    }
}
