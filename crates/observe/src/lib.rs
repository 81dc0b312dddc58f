//! Turns Kubernetes objects into one [`ClusterView`], which the planner, the
//! rollout and all messages to users are based on. This crate is the only
//! reader: no other code parses a label.
//!
//! Pure and total: objects and `now` are arguments, and an invalid object becomes a [`problem::Problem`],
//! never a panic and never a guess. Nodes with facts that cannot be established are not changed, and this
//! is reported.
//!
//! - [`objects`] holds the objects, [`manifest`] and [`snapshot`] read them from texts;
//! - [`node_labels`] interprets labels and annotations, [`memory`] reads the record in a `GpuNode`, [`layouts`]
//!   and [`usage`] determine the slices of GPUs and their holders; [`fleet`] makes a view and a node of the
//!   inventory from these;
//! - [`requests`] makes the demand, `promised` marks what was promised, [`policy`] the policies, which
//!   `policy_rules` checks, and [`menu`] checks whether the offers of hardware profiles are attainable.

mod agent;
pub mod apart;
mod by_identity;
mod cards;
pub mod controllers;
pub mod copy_on_write;
pub mod cordon;
pub mod facts;
pub mod fleet;
pub mod free;
pub mod hardware;
mod holds;
pub mod host;
pub mod idle;
mod in_step;
pub mod key_by_labels;
mod known_labels;
pub mod labels;
pub mod layouts;
pub mod manifest;
pub mod memory;
pub mod menu;
pub mod node_labels;
pub mod objects;
pub mod on_node;
pub mod operands;
mod other_resources;
pub mod owners;
pub mod placed_alone;
pub mod pods;
pub mod policy;
mod policy_rules;
pub mod problem;
mod promised;
pub mod quota;
pub mod read_labels;
mod readings;
pub mod requests;
pub(crate) mod seating;
pub mod shared;
pub mod sharing;
pub mod snapshot;
pub mod surge;
pub mod under_way;
pub mod usage;
pub mod view;
pub mod volumes;

use jiff::{SignedDuration, Timestamp};
use mig::Catalog;
use planner::inventory::Hold;
use planner::names::NodeName;

use memory::Memory;
use objects::Key;

pub use objects::Objects;
pub use problem::{Problem, Severity};
pub use readings::Readings;
pub use rollout::names;
pub use view::{Actuator, ClusterView, NodeView, Reading};

/// What the operator's own flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the GPU Operator: the pods there are its own.
    pub gpu_operator_namespace: String,
    /// The namespace of the node agents: a pod elsewhere is none of them. `None`
    /// where it is not known, as to who reads what others recorded: nothing is
    /// done by that.
    pub agent_namespace: Option<String>,
    /// A request that still waits this long after its slice became
    /// schedulable is blocked by something else.
    pub blocked_after: SignedDuration,
    /// Our map: its namespace (the GPU Operator's) and its name.
    pub map: MapRef,
}

impl Settings {
    /// Our map of the device plugin's configurations, beside that of layouts.
    #[must_use]
    pub fn plugin_map(&self) -> MapRef {
        MapRef { namespace: self.map.namespace.clone(), name: names::PLUGIN_MAP_NAME.to_owned() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gpu_operator_namespace: "nvidia-gpu-operator".to_owned(),
            agent_namespace: Some("slicewright-agent".to_owned()),
            blocked_after: SignedDuration::from_mins(2),
            map: MapRef { namespace: "nvidia-gpu-operator".to_owned(), name: names::MAP_NAME.to_owned() },
        }
    }
}

/// Looks at all objects at one moment.
#[must_use]
pub fn observe(objects: &Objects, catalog: &Catalog, settings: &Settings, now: Timestamp) -> ClusterView {
    observe_next(objects, catalog, settings, now, &mut Readings::default())
}

/// The same, in less time where most objects are those of the time before: what was read of
/// each is kept in `readings`, which are of one catalog.
#[must_use]
pub fn observe_next(
    objects: &Objects,
    catalog: &Catalog,
    settings: &Settings,
    now: Timestamp,
    readings: &mut Readings,
) -> ClusterView {
    let mut problems = Vec::new();
    let (policies, rollouts) = policy::all(objects, catalog, &mut problems);
    let fleet::Fleet { nodes, mut inventory, our_map } =
        fleet::read(objects, catalog, &policies, settings, now, &mut readings.nodes, &mut problems);
    let requests::Demand { requests, starting, queued, unheard, speakers } =
        requests::all(objects, &mut readings.requests, &inventory, settings, now, &mut problems);
    let briefs = &readings.requests.briefs;
    // What they ask for is not known, so that the whole node stays as it is.
    for (name, to) in &unheard {
        if let Some(node) = inventory.nodes.get_mut(name) {
            node.hold.get_or_insert_with(|| Hold::Promised { to: to.clone() });
        }
    }
    other_resources::forget_unrequested(&mut inventory, &requests);
    menu::check(objects, &nodes, &inventory, &policies, &mut problems);
    let drifts = quota::drifts(objects, briefs, &inventory, &policies);
    policy::contradictions(&inventory, &policies, &mut problems);
    policy::absent_indices(&inventory, &policies, &mut problems);
    let sharing = shared::policies(objects, catalog);
    shared::absent_resources(&inventory, &policies, &sharing, &mut problems);
    problems.sort();
    problems.dedup();
    let is_gone = |name: &&String| !objects.nodes.contains_key(*name);
    let gone = objects.gpu_nodes.iter().filter(|(name, _)| is_gone(name));
    let gone = gone.map(|(name, node)| (NodeName(name.clone()), Memory::from_gpu_node(Some(node)))).collect();
    let mut under_way = under_way::under_way(&inventory, &objects.gpu_nodes);
    // What was wanted of other GPUs is wanted of none.
    under_way.gpus.retain(|(node, _), _| !nodes.get(node).is_some_and(|node| node.memory.swapped));
    ClusterView {
        hosts: host::all(objects),
        nodes,
        gone,
        our_map,
        inventory,
        requests,
        starting,
        queued,
        unheard,
        drifts,
        policies,
        rollouts,
        idle: idle::idle_holders(objects, briefs, &speakers, now),
        under_way,
        problems,
    }
}

/// A `ConfigMap` with layouts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl MapRef {
    /// The key of the `ConfigMap` among [`Objects::config_maps`].
    #[must_use]
    pub fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }
}
