//! Success means schedulable: the observations that are required before a node is open again.

use mig::ProfileName;

use crate::layout::NodeLayout;
use crate::names;
use crate::observed::{Listing, ManagerState, Pod, PodPhase};
use crate::operand::Operand;
use crate::outlook::Unproven;
use crate::progress::Target;
use crate::sharing::{PluginConfig, Resources};

use super::Run;

/// What GPU feature discovery says of a resource that is not shared.
const NOT_SHARED: &str = "none";

impl Run<'_> {
    /// What is missing before the target is proved schedulable.
    pub(super) fn unproven(&self, target: &Target) -> Option<Unproven> {
        if let Some(missing) = self.not_at_rest() {
            return Some(missing);
        }
        let plugin = self.seen.operand(Operand::DevicePlugin).filter(|pod| pod.ready);
        let Some(plugin) = plugin else {
            return Some(self.not_told_ours().unwrap_or(Unproven::PluginPod));
        };
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
            return Some(self.not_told_ours().unwrap_or(Unproven::PluginPod));
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
            if let Some(missing) = self.not_told_ours() {
                return Some(missing);
            }
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

    /// What is missing before pods can use the devices as they are to be shared.
    pub(super) fn not_shared(&self, config: &PluginConfig, devices: &Resources) -> Option<Unproven> {
        if !self.seen.ready {
            return Some(Unproven::NotReady);
        }
        if let Some(missing) = self.not_told() {
            return Some(missing);
        }
        let daemon = self.seen.operand(Operand::MpsControlDaemon);
        if config.is_by_mps() && !daemon.is_some_and(|pod| pod.ready) {
            return Some(Unproven::MpsDaemon);
        }
        // The plugin offers GPUs at once, and the daemon, which has claimed them, goes seconds later.
        let is_daemon = |pod: &Pod| pod.operand == Some(Operand::MpsControlDaemon);
        let is_there = |pod: &Pod| is_daemon(pod) && pod.phase != PodPhase::Ended;
        if !config.is_by_mps() && self.seen.pods.iter().any(is_there) {
            return Some(Unproven::MpsDaemonLeft);
        }
        if !self.seen.operand(Operand::DevicePlugin).is_some_and(|pod| pod.ready) {
            return Some(Unproven::PluginPod);
        }
        // Labels of one that ends, again and again, are those of before.
        if self.seen.operand(Operand::FeatureDiscovery).is_some_and(|pod| !pod.ready) {
            return Some(Unproven::DiscoveryPod);
        }
        let (expected, found) = (config.offers(devices), self.seen.offers());
        if expected != found {
            return Some(Unproven::Allocatable { expected, found });
        }
        if config.strategy.is_some_and(|strategy| strategy != self.seen.operator.strategy) {
            return Some(Unproven::CountLabels);
        }
        devices.iter().filter(|(_, n)| **n > 0).find_map(|(resource, _)| self.not_labelled(config, resource))
    }

    /// The label of a resource that does not say yet how it is shared. One that
    /// is not shared has one replica, or no such label: of what is not shared
    /// the operator keeps none.
    fn not_labelled(&self, config: &PluginConfig, resource: &str) -> Option<Unproven> {
        let seen = &self.seen.sharing;
        let seats = config.seats_of(resource);
        let by = config.sharing.as_ref().filter(|_| seats.is_shared()).map(|sharing| sharing.by.label());
        let counted = seen.replicas.get(resource).copied().unwrap_or(1).max(1);
        let said = seen.by.get(resource).map(String::as_str).filter(|said| *said != NOT_SHARED);
        // The resource is named in the labels as if it were not renamed.
        let keeps_name = seats.is_shared() && seats.resource == resource;
        let (end, expected) = if counted != u64::from(seats.replicas) {
            (names::REPLICAS, seats.replicas.to_string())
        } else if said != by {
            (names::SHARED_BY, by.unwrap_or(NOT_SHARED).to_owned())
        } else if seen.shared_products.contains(resource) != keeps_name {
            let with = if keeps_name { "with" } else { "without" };
            (names::PRODUCTS, format!("a product {with} {} at its end", names::SHARED_PRODUCT))
        } else {
            return None;
        };
        Some(Unproven::SharingLabel { label: format!("{resource}{end}"), expected })
    }
}
