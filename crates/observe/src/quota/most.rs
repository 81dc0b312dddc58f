//! The most slices that the nodes of a flavor could have if nobody held any: what a quota can promise at
//! most.
//!
//! What is free or in use now has no part in it. A quota that no layout could ever fill is wrong; one that
//! cannot be filled at present only means that people wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use mig::{Geometry, GpuResource, Layout, ProfileName};
use planner::assign;
use planner::inventory::{Gpu, Hold, Inventory, Node};
use planner::names::{NodeName, PolicyName};
use planner::policy::{LayoutPolicy, Policy, StaticCut, rule_for};

use crate::objects::Objects;
use crate::pods::amount;

type Slices = BTreeMap<ProfileName, u64>;

/// The most that each node could have.
pub(super) struct Most<'a> {
    objects: &'a Objects,
    inventory: &'a Inventory,
    policies: BTreeMap<&'a PolicyName, &'a Policy>,
    policy_of: BTreeMap<NodeName, PolicyName>,
    /// Of each node, as its policy cuts it, and as it is cut.
    by_node: BTreeMap<&'a NodeName, OfNode>,
    /// What was counted already: many queues have quota of a few flavors.
    known: BTreeMap<(&'a str, &'a str), Offered>,
}

/// The slices of one node.
#[derive(Default)]
struct OfNode {
    /// What its policy could make of it.
    could: Slices,
    /// What is there.
    present: Slices,
    /// GPUs that its static policy wants whole, and those with MIG off that no rule of it is about; or those that
    /// requests can make whole; `None` where no policy says so: then the node has the whole GPUs that it says it has.
    whole: Option<u64>,
}

/// What the nodes of a flavor could have of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// So many at most.
    pub most: u64,
    /// How many nodes the flavor selects.
    pub nodes: usize,
    /// Policies whose `maxCount` is what limits it.
    pub capped_by: Vec<PolicyName>,
}

impl<'a> Most<'a> {
    pub(super) fn new(objects: &'a Objects, inventory: &'a Inventory, policies: &'a [Policy]) -> Self {
        let policy_of = assign::policy_of(inventory, policies).policy_of;
        let policies: BTreeMap<&PolicyName, &Policy> = policies.iter().map(|p| (&p.name, p)).collect();
        let mut empty = EmptyGpus::default();
        let of_node = |(name, node): (&'a NodeName, &'a Node)| {
            let policy = policy_of.get(name).and_then(|policy| policies.get(policy).copied());
            (name, empty.of_node(node, policy))
        };
        let by_node = inventory.nodes.iter().map(of_node).collect();
        Self { objects, inventory, policies, policy_of, by_node, known: BTreeMap::new() }
    }

    /// What the nodes of a flavor could have of a resource; `None` where there
    /// is no such flavor.
    pub(super) fn offered(&mut self, flavor: &'a str, resource: &'a str) -> Option<Offered> {
        if let Some(known) = self.known.get(&(flavor, resource)) {
            return Some(known.clone());
        }
        let labels = &self.objects.resource_flavors.get(flavor)?.spec.node_labels;
        let offered = self.count(labels, resource);
        self.known.insert((flavor, resource), offered.clone());
        Some(offered)
    }

    fn count(&self, labels: &BTreeMap<String, String>, resource: &str) -> Offered {
        let selected = self.objects.nodes.iter().filter(|(name, node)| {
            let known = self.inventory.nodes.get(&NodeName((*name).clone())).map(|node| &node.labels);
            let has = known.or(node.metadata.labels.as_ref());
            labels.iter().all(|(key, value)| has.and_then(|has| has.get(key)) == Some(value))
        });
        let selected: Vec<_> = selected.collect();
        let mut offered = Offered { nodes: selected.len(), ..Offered::default() };
        let Some(profile) = ProfileName::from_resource_name(resource) else {
            let whole_of = |name: &str| self.by_node.get(&NodeName(name.to_owned()))?.whole;
            for (name, node) in selected {
                offered.most += match whole_of(name) {
                    Some(whole) if resource == GpuResource::GPU => whole,
                    // Whole GPUs and shared devices are what the node says that it has.
                    _ => says(node, resource),
                };
            }
            return offered;
        };
        let mut of_policy: BTreeMap<&PolicyName, OfNode> = BTreeMap::new();
        for name in selected.into_iter().map(|(name, _)| NodeName(name.clone())) {
            let Some(node) = self.by_node.get(&name) else { continue };
            let of = |slices: &Slices| slices.get(&profile).copied().unwrap_or(0);
            let (could, present) = (of(&node.could), of(&node.present));
            let Some(policy) = self.policy_of.get(&name) else {
                offered.most += could;
                continue;
            };
            let sum = of_policy.entry(policy).or_default();
            *sum.could.entry(profile).or_default() += could;
            *sum.present.entry(profile).or_default() += present;
        }
        for (name, sum) in of_policy {
            let (could, present) = (sum.could[&profile], sum.present[&profile]);
            let cap = self.policies.get(name).and_then(|policy| most_allowed(policy, profile));
            // What is there although the policy allows less is there.
            let most = cap.map_or(could, |cap| could.min(cap.max(present)));
            if most < could {
                offered.capped_by.push(name.clone());
            }
            offered.most += most;
        }
        offered
    }
}

/// How many a node says that it has of a resource, whether they are healthy or
/// not.
fn says(node: &k8s_openapi::api::core::v1::Node, resource: &str) -> u64 {
    let Some(status) = &node.status else { return 0 };
    let of = |all: &Option<BTreeMap<String, _>>| amount(resource, all.as_ref()?.get(resource)?);
    let most = of(&status.capacity).max(of(&status.allocatable)).unwrap_or(0);
    u64::try_from(most.max(0)).unwrap_or(u64::MAX)
}

/// The `maxCount` of a profile.
fn most_allowed(policy: &Policy, profile: ProfileName) -> Option<u64> {
    match &policy.layout {
        LayoutPolicy::DemandDriven { slices, .. } => slices.get(&profile)?.max.map(u64::from),
        LayoutPolicy::Static { .. } => None,
    }
}

/// What empty GPUs could have, counted once for each geometry.
#[derive(Default)]
struct EmptyGpus(Vec<(Arc<Geometry>, Slices)>);

impl EmptyGpus {
    fn of_node(&mut self, node: &Node, policy: Option<&Policy>) -> OfNode {
        let mut of_node = OfNode::default();
        // Under strategy `single` no profile has a resource of its own.
        if node.single_strategy {
            return of_node;
        }
        for (index, gpu) in &node.gpus {
            let mut present = Slices::new();
            for profile in gpu.slices.profiles() {
                *present.entry(profile).or_default() += 1;
            }
            let could = match policy {
                Some(policy) if !stays(node, gpu) => match &policy.layout {
                    LayoutPolicy::DemandDriven { .. } => self.most(&gpu.geometry).clone(),
                    LayoutPolicy::Static { gpus } => rule_for(gpus, &gpu.model, *index)
                        .map_or_else(|| present.clone(), |rule| counts(&rule.cut)),
                },
                _ => present.clone(),
            };
            let is_whole = match policy.map(|policy| &policy.layout) {
                Some(LayoutPolicy::Static { gpus }) => {
                    let wanted = rule_for(gpus, &gpu.model, *index).filter(|_| !stays(node, gpu));
                    Some(wanted.map_or(gpu.slices.is_mig_off(), |rule| matches!(rule.cut, StaticCut::MigOff)))
                }
                Some(LayoutPolicy::DemandDriven { whole_gpus: Some(bounds), .. }) => {
                    Some(gpu.slices.is_mig_off() || bounds.max != Some(0) && !stays(node, gpu))
                }
                _ => None,
            };
            if let Some(is_whole) = is_whole {
                *of_node.whole.get_or_insert(0) += u64::from(is_whole);
            }
            add(&mut of_node.could, &could);
            add(&mut of_node.present, &present);
        }
        of_node
    }

    /// The most of each profile on an empty GPU. Slices of one profile stand in
    /// each other's way only where they overlap, so taking them from the lowest
    /// start is the most.
    fn most(&mut self, geometry: &Arc<Geometry>) -> &Slices {
        let known = self.0.iter().position(|(of, _)| Arc::ptr_eq(of, geometry));
        let at = known.unwrap_or_else(|| {
            let mut most = Slices::new();
            for profile in geometry.profiles() {
                let mut layout = Layout::EMPTY;
                for placement in geometry.placements().filter(|p| geometry.describe(*p).0 == profile.name) {
                    if geometry.free(layout).contains(placement) {
                        layout = layout.with(placement);
                    }
                }
                most.insert(profile.name, u64::from(layout.len()));
            }
            self.0.push((Arc::clone(geometry), most));
            self.0.len() - 1
        });
        &self.0[at].1
    }
}

/// Whether a GPU is left as it is until a human does something. Other holds
/// pass by themselves.
fn stays(node: &Node, gpu: &Gpu) -> bool {
    match node.hold.as_ref().or(gpu.hold.as_ref()) {
        Some(
            Hold::HandsOff { .. }
            | Hold::ForeignLayout { .. }
            | Hold::Failed { .. }
            | Hold::NotEstablished { .. }
            | Hold::NoPolicy,
        ) => true,
        Some(
            Hold::CoolingDown { .. }
            | Hold::Changing
            | Hold::Cordoned { .. }
            | Hold::NotReady
            | Hold::Unhealthy { .. }
            | Hold::ForeignWork { .. }
            | Hold::Promised { .. },
        )
        | None => false,
    }
}

fn counts(cut: &StaticCut) -> Slices {
    cut.slices().map(|(profile, n)| (profile, u64::from(n))).collect()
}

fn add(to: &mut Slices, more: &Slices) {
    for (profile, n) in more {
        *to.entry(*profile).or_default() += n;
    }
}
