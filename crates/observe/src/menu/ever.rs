//! Whether anybody can ever have what a hardware profile offers: some GPU can have it, on a node that the profile
//! selects, by its policy, and under this name. What is taken now is no reason: people wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::foreign::HardwareProfile;
use mig::resource::Unit;
use mig::{GpuResource, ProfileName};
use planner::assign;
use planner::inventory::{Inventory, Node};
use planner::names::{NodeName, PolicyName};
use planner::policy::Policy;
use rollout::names::SHARED_PRODUCT;

use super::allows;
use crate::layouts;
use crate::names;
use crate::objects::Objects;
use crate::view::NodeView;

/// What there is, and who decides on it.
pub(super) struct Fleet<'a> {
    objects: &'a Objects,
    views: &'a BTreeMap<NodeName, Arc<NodeView>>,
    inventory: &'a Inventory,
    policies: &'a [Policy],
    policy_of: BTreeMap<NodeName, PolicyName>,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        views: &'a BTreeMap<NodeName, Arc<NodeView>>,
        inventory: &'a Inventory,
        policies: &'a [Policy],
    ) -> Self {
        let policy_of = assign::policy_of(inventory, policies).policy_of;
        Self { objects, views, inventory, policies, policy_of }
    }

    /// Why nobody can ever have a resource by this profile, to go on with after "which"; `None` if somebody can, and
    /// where that is not known.
    pub(super) fn never(&self, profile: &HardwareProfile, resource: &str) -> Option<String> {
        let GpuResource { unit, shared } = GpuResource::parse(resource)?;
        let slice = match unit {
            Unit::Slice(name) => Some(name),
            Unit::Gpu => None,
            Unit::UnknownSlice => return None,
        };
        let selector =
            profile.spec.scheduling.as_ref().and_then(|s| s.node.as_ref()).map(|n| &n.node_selector);
        let selects = |labels: &BTreeMap<String, String>| {
            let mut all = selector.into_iter().flatten();
            all.all(|(key, value)| labels.get(key).is_some_and(|found| is_same(key, found, value)))
        };
        // Whatever a node offers can be had, whoever made it so.
        let none = BTreeMap::new();
        let is_there = self.objects.nodes.values().any(|node| {
            selects(node.metadata.labels.as_ref().unwrap_or(&none))
                && layouts::offered(node).get(resource).is_some_and(|n| *n > 0)
        });
        if is_there || self.is_unknown_somewhere(slice) {
            return None;
        }
        let having: Vec<(&NodeName, &Node)> = self.having(slice);
        let (of_fleet, of_nodes) = match slice {
            Some(_) => ("no GPU of the fleet can have", "no node that its node selector allows can have"),
            None => ("no node of the fleet has", "no node that its node selector allows has"),
        };
        if having.is_empty() {
            return Some(of_fleet.to_owned());
        }
        let selected = having.into_iter().filter(|(_, node)| selects(&node.labels));
        let selected: Vec<(&NodeName, &Node)> = selected.collect();
        if selected.is_empty() {
            return Some(of_nodes.to_owned());
        }
        let allowed = selected.into_iter().filter(|(name, node)| self.is_allowed(name, node, slice));
        let allowed: Vec<(&NodeName, &Node)> = allowed.collect();
        if allowed.is_empty() {
            return Some(match slice {
                Some(_) => "no policy of its nodes allows".to_owned(),
                None => "no policy of its nodes leaves or makes: write `wholeGpus` in a demand-driven layout, or `mig: Disabled` for some GPUs of a static one".to_owned(),
            });
        }
        let plain = resource.strip_suffix(GpuResource::SHARED).unwrap_or(resource);
        if allowed.iter().any(|(name, _)| self.is_called(name, plain, resource)) {
            return None;
        }
        Some(match shared {
            true => format!(
                "no policy of its nodes makes of {plain}: write {plain}, or a rule of `spec.sharing` for it"
            ),
            false => format!(
                "is called {plain}{} on all of its nodes, where several pods share it: write that",
                GpuResource::SHARED
            ),
        })
    }

    /// What a node has whose GPUs are not known (yet) nobody can deny. Of one that its policy never cuts it is known that
    /// it has no slices.
    fn is_unknown_somewhere(&self, slice: Option<ProfileName>) -> bool {
        self.inventory.nodes.iter().filter(|(_, node)| node.gpus.is_empty()).any(|(name, _)| {
            let shared = self.views.get(name).and_then(|view| view.shared.as_ref());
            let is_uncut = shared.is_some_and(|shared| shared.never_cut);
            match slice {
                Some(_) => !is_uncut,
                None => !(is_uncut && self.inventory.seating.contains_key(name)),
            }
        })
    }

    /// The nodes whose GPUs can have a slice, or that have GPUs.
    fn having(&self, slice: Option<ProfileName>) -> Vec<(&'a NodeName, &'a Node)> {
        let cut = self.inventory.nodes.iter().filter(|(_, node)| match slice {
            Some(name) => node.gpus.values().any(|gpu| gpu.geometry.profile_named(name).is_some()),
            None => !node.gpus.is_empty(),
        });
        let uncut = self.inventory.seating.iter().filter(|_| slice.is_none());
        cut.chain(uncut.map(|(name, seating)| (name, &seating.node))).collect()
    }

    /// Whether somebody has cut a node so, or its policy may.
    fn is_allowed(&self, name: &NodeName, node: &Node, slice: Option<ProfileName>) -> bool {
        let policy = self.policy_of.get(name);
        let policy = policy.and_then(|policy| self.policies.iter().find(|known| known.name == *policy));
        let mut gpus = node.gpus.iter();
        match slice {
            Some(profile) => {
                gpus.any(|(_, gpu)| gpu.slices.profiles().any(|has| has == profile))
                    || policy.is_some_and(|policy| allows(policy, profile))
            }
            None => {
                // A node that nobody cuts has no GPUs here.
                node.gpus.is_empty()
                    || gpus.any(|(index, gpu)| {
                        gpu.slices.is_mig_off()
                            || policy.is_some_and(|policy| policy.layout.may_be_whole(&gpu.model, *index))
                    })
            }
        }
    }

    /// Whether a device of a node has this name for pods, now or once its policy is carried out; so too where nobody knows.
    fn is_called(&self, name: &NodeName, device: &str, resource: &str) -> bool {
        // What a node of no policy offers was looked at before.
        let Some(view) = self.views.get(name) else { return false };
        let known = [view.shared_as(), view.to_be_shared_as()];
        let is_unknown = known.iter().any(Option::is_none);
        is_unknown || known.iter().flatten().any(|config| config.seats_of(device).resource == resource)
    }
}

/// A product's label has `-SHARED` at its end while its GPUs are shared under the name of whole ones.
fn is_same(key: &str, found: &str, wanted: &str) -> bool {
    let plain = |value: &str| value.strip_suffix(SHARED_PRODUCT).unwrap_or(value).to_owned();
    found == wanted || key == names::PRODUCT && plain(found) == plain(wanted)
}
