//! Success means schedulable: the observations that are required before a node is open again.

use mig::ProfileName;

use crate::layout::NodeLayout;
use crate::observed::{Listing, ManagerState};
use crate::operand::Operand;
use crate::outlook::Unproven;
use crate::progress::Target;

use super::Run;

impl Run<'_> {
    /// What is missing before the target is proved schedulable.
    pub(super) fn unproven(&self, target: &Target) -> Option<Unproven> {
        if let Some(missing) = self.not_at_rest() {
            return Some(missing);
        }
        let plugin = self.seen.operand(Operand::DevicePlugin).filter(|pod| pod.ready);
        let Some(plugin) = plugin else { return Some(Unproven::PluginPod) };
        if target.plugin_before.as_ref() == Some(&plugin.uid) && !self.listed_since() {
            return Some(Unproven::PluginPod);
        }
        self.not_offered(&target.layout)
    }

    /// The same for a node that nobody has just changed.
    pub(super) fn unoffered(&self, layout: &NodeLayout) -> Option<Unproven> {
        if let Some(missing) = self.not_at_rest() {
            return Some(missing);
        }
        if !self.seen.operand(Operand::DevicePlugin).is_some_and(|pod| pod.ready) {
            return Some(Unproven::PluginPod);
        }
        self.not_offered(layout)
    }

    /// The plugin's pod is the one of before the change. When MIG manager
    /// found the layout in place it parks nothing, and the old pod is right;
    /// otherwise the old pod went before `success`, and only our cache still
    /// shows it. A consistent list of after `success` tells the two apart.
    pub(super) fn old_plugin_needs_list(&self, target: &Target) -> bool {
        let plugin = self.seen.operand(Operand::DevicePlugin).filter(|pod| pod.ready);
        plugin.is_some_and(|pod| target.plugin_before.as_ref() == Some(&pod.uid)) && !self.listed_since()
    }

    fn listed_since(&self) -> bool {
        matches!(self.seen.listing, Listing::Consistent { at } if at >= self.since() && at <= self.now)
    }

    fn not_at_rest(&self) -> Option<Unproven> {
        if !self.seen.ready {
            Some(Unproven::NotReady)
        } else if self.seen.state() != ManagerState::Success {
            Some(Unproven::State)
        } else if !self.seen.paused().is_empty() {
            Some(Unproven::OperandsPaused)
        } else {
            None
        }
    }

    fn not_offered(&self, layout: &NodeLayout) -> Option<Unproven> {
        let strategy = self.seen.operator.strategy;
        let found = self.seen.offers();
        let expected = self.seen.offered_with(layout.allocatable(strategy).unwrap_or_default());
        if expected != found {
            if let Some(label) = self.seen.operands.shared.clone()
                && self.seen.sharing.config.is_none()
            {
                return Some(Unproven::Shared { label });
            }
            return Some(Unproven::Allocatable { expected, found });
        }
        let (wanted, counts) = (layout.counted(strategy), &self.seen.operands.counts);
        let stale = |(resource, n): (&String, &Option<u64>)| {
            resource.starts_with(ProfileName::RESOURCE_PREFIX)
                && *n != Some(0)
                && !wanted.contains_key(resource)
        };
        let missing = |(resource, n): (&String, &u64)| counts.get(resource) != Some(&Some(*n));
        (wanted.iter().any(missing) || counts.iter().any(stale)).then_some(Unproven::CountLabels)
    }
}
