//! The operator in process: observe, decide, check, advance, apply, publish, over the simulated cluster.
//! Its records are in the `GpuNode`s.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mig::Catalog;
use observe::Objects;
use planner::names::{NodeName, PodRef};
use planner::plan::GpuChange;
use reconcile::seen::NodeReader;
use reconcile::{Input, LocalState, MapRef, NodeRound, PlannedRound, Round, Session, Settings};
use rollout::map::{MigMap, assemble, entry};
use rollout::observed::{Observed, Refusal};
use rollout::{Action, Advance, Outlook, Phase, Progress, StartBlocker, WaitsFor, names};

use crate::config_maps::{ADMINISTRATORS_MAP, MAP_NAMESPACE, config_map, plugin_map};
use crate::counters::Counters;
use crate::entry::Who;
use crate::objects::objects;
use crate::store::{Revision, path};
use crate::world::World;

/// The operator. Everything in it is memory, which a crash loses.
#[derive(Default)]
pub(crate) struct Operator {
    local: BTreeMap<NodeName, LocalState>,
    /// Since when workbenches have been without a pod.
    starting: BTreeMap<observe::objects::Key, Timestamp>,
    settings: Settings,
    map_changed: Option<Timestamp>,
    /// What the planner keeps of the rounds before.
    session: Session,
    /// How each node stood when it was last looked at.
    pub(crate) outlooks: BTreeMap<NodeName, Outlook>,
    /// The plan that was last written into the log.
    pub(crate) announced: Vec<String>,
    /// Waits that were last written into the log, by node.
    waits: BTreeMap<NodeName, String>,
    /// When to look again, even if nothing changes.
    pub(crate) wake: Option<Timestamp>,
    /// What the objects were when it looked last.
    looked: Option<Revision>,
}

impl Operator {
    /// One round, if anything changed since the last or its time has come.
    pub(crate) fn reconcile(&mut self, world: &mut World, counters: &mut Counters) {
        crate::agent::act(world);
        if self.looked == Some(world.revision) && self.wake.is_none_or(|at| at > world.now) {
            return;
        }
        self.looked = Some(world.revision);
        let mut objects = objects(world);
        objects.starting_since.clone_from(&self.starting);
        let theirs = world.hosts.values().any(|host| host.begins_with.is_some());
        self.settings.administrators_map = theirs
            .then(|| MapRef { namespace: MAP_NAMESPACE.to_owned(), name: ADMINISTRATORS_MAP.to_owned() });
        let mut session = std::mem::take(&mut self.session);
        let round = reconcile::next_round(&self.input(world, &objects), &mut session);
        self.session = session;
        let planned = &round.planned;
        self.starting.clone_from(&planned.view.starting);
        for note in planned.plan.fatal() {
            let text = format!("{} {note}", crate::entry::clock(world.now));
            if !counters.fatal.contains(&text) {
                counters.fatal.push(text);
            }
        }
        if planned.plan.checked().is_some() {
            self.announce(world, planned);
        }
        self.apply(world, &round, counters);
        crate::tell::publish(world, &round);
    }

    fn announce(&mut self, world: &mut World, planned: &PlannedRound) {
        let mut lines = Vec::new();
        for step in &planned.plan.steps {
            let changes: Vec<String> = step.gpus.iter().map(ToString::to_string).collect();
            let serves: Vec<String> = step.serves.iter().map(ToString::to_string).collect();
            let why = if serves.is_empty() { format!("policy {}", step.policy) } else { serves.join(", ") };
            let goes_off = step.gpus.iter().any(GpuChange::switches_mig_off);
            let mode = match (step.enable_mig, goes_off) {
                (false, false) => "",
                (true, false) => "MIG goes on; ",
                (false, true) => "MIG goes off; ",
                (true, true) => "MIG goes on and off; ",
            };
            let what = format!("{}: {mode}{}", step.node, changes.join("; "));
            if !self.announced.contains(&what) {
                world.say(Who::Plan, format!("{what}, for {why}"));
            }
            lines.push(what);
        }
        self.announced = lines;
    }

    /// What a round is decided on.
    pub(crate) fn input<'a>(&'a self, world: &World, objects: &'a Objects) -> Input<'a> {
        Input {
            objects,
            local: &self.local,
            map_changed: self.map_changed,
            obstacles: &reconcile::Obstacles::NONE,
            settings: &self.settings,
            now: world.now,
        }
    }

    /// One node as the rollout sees it.
    pub(crate) fn look(&self, world: &World, name: &NodeName) -> Option<Observed> {
        let objects = objects(world);
        let input = self.input(world, &objects);
        NodeReader::new(&input, &reconcile::plan_round(&input)).node(name)
    }

    fn apply(&mut self, world: &mut World, round: &Round, counters: &mut Counters) {
        self.wake = round.wake_at;
        if let Some(write) = &round.map.write {
            world.put_map(&write.text);
            self.map_changed = Some(world.now);
        }
        if let Some(write) = &round.plugin_map.write {
            world.put_plugin_map(&write.data);
        }
        self.outlooks.clear();
        for (name, node) in &round.nodes {
            let NodeRound { before, advance } = node;
            let Advance { progress: next, actions, outlook, wake_at: _, change: _ } = advance;
            if before != next {
                crate::tell::store(world, &name.0, next);
                Self::narrate(world, name, before, next, counters);
            }
            self.local.entry(name.clone()).or_default().refusals.clear();
            let mut applied = true;
            for action in actions {
                applied = applied && self.act(world, name, action);
            }
            let waits = waits(outlook).filter(|_| is_worth_saying(outlook));
            if self.waits.get(name) != waits.as_ref() {
                let started =
                    round.planned.plan.steps.iter().any(|s| s.node == *name) || next.phase != Phase::Idle;
                if let Some(text) = waits.as_ref().filter(|_| started) {
                    world.say(Who::Does(name.0.clone()), text.clone());
                }
                match waits {
                    Some(text) => self.waits.insert(name.clone(), text),
                    None => self.waits.remove(name),
                };
            }
            self.outlooks.insert(name.clone(), outlook.clone());
        }
    }

    fn narrate(
        world: &mut World,
        name: &NodeName,
        before: &Progress,
        next: &Progress,
        counters: &mut Counters,
    ) {
        let Some(step) = reconcile::steps::step_taken(name, before, next) else { return };
        let text = step.text;
        if next.phase == Phase::Cordoning {
            counters.changes += 1;
        }
        world.say(Who::Does(name.0.clone()), text);
    }

    /// Does one action, if what it was decided on still holds.
    fn act(&mut self, world: &mut World, name: &NodeName, action: &Action) -> bool {
        if let Some(patch) = action.node_patch() {
            let version = world.nodes.get(&name.0).and_then(|n| n.metadata.resource_version.as_deref());
            let holds = version == Some(patch.if_version);
            if holds {
                world.patch_node(&name.0, patch.labels, patch.cordon);
            }
            return holds;
        }
        match action {
            Action::ListPods => {
                self.local.entry(name.clone()).or_default().listed = Some(world.now);
                true
            }
            Action::Evict { pod, if_uid } => self.evict(world, name, pod, if_uid),
            Action::DeletePod { pod, if_uid: _ } => {
                let key = path(&pod.namespace, &pod.name);
                world.hosts.get_mut(&name.0).is_some_and(|host| host.delete_operand(&key))
            }
            // The round's map has its entry, and was written before. All others patch the node.
            _ => true,
        }
    }

    fn evict(&mut self, world: &mut World, name: &NodeName, pod: &PodRef, if_uid: &str) -> bool {
        let key = path(&pod.namespace, &pod.name);
        let Some(found) = world.pods.get(&key).filter(|p| p.metadata.uid.as_deref() == Some(if_uid)) else {
            return false;
        };
        if found.metadata.deletion_timestamp.is_some() {
            return true;
        }
        if let Some(message) = crate::eviction::refusal(found, &world.pods, &world.budgets) {
            let text = format!("eviction of {key} is refused: {message}");
            if self.waits.get(&NodeName(key.clone())) != Some(&text) {
                self.waits.insert(NodeName(key.clone()), text.clone());
                world.say(Who::Cluster, text);
            }
            let refusal = Refusal { pod: pod.clone(), message };
            self.local.entry(name.clone()).or_default().refusals.push(refusal);
            return true;
        }
        world.say(Who::Does(name.0.clone()), format!("evicts {key}"));
        world.evictions += 1;
        world.delete_pod(&key);
        true
    }
}

/// What a node waits for, as a sentence; nothing when it rests.
pub(crate) fn waits(outlook: &Outlook) -> Option<String> {
    match outlook {
        Outlook::Idle => None,
        Outlook::Holding(hold) => Some(format!("does not start: {hold}")),
        Outlook::Working { waits_for, until: _ } => Some(format!("waits for {waits_for}")),
        Outlook::Failed(failure) => Some(format!("failed: {}", failure.why)),
    }
}

/// Whether a wait is told as it comes: those for people, pods and other
/// programs. The steps of the protocol speak for themselves.
fn is_worth_saying(outlook: &Outlook) -> bool {
    match outlook {
        // Of those that wait for their turn, the policy's condition tells.
        Outlook::Idle | Outlook::Failed(_) | Outlook::Holding(StartBlocker::Budget { .. }) => false,
        Outlook::Holding(_) => true,
        Outlook::Working { waits_for, until: _ } => matches!(
            waits_for,
            WaitsFor::PodsStarting { .. }
                | WaitsFor::PodsGoing { .. }
                | WaitsFor::Reboot
                | WaitsFor::ForeignWork { .. }
        ),
    }
}

impl World {
    /// A merge patch of a node's labels and its cordon.
    pub(crate) fn patch_node(
        &mut self,
        name: &str,
        labels: Vec<(String, Option<String>)>,
        cordon: Option<bool>,
    ) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if let Some(cordon) = cordon {
            host.node.set_unschedulable(cordon);
        }
        host.node.patch_labels(labels);
        self.publish_hosts();
    }

    /// The map that a new node begins with: the default names of every model
    /// that is there, the entries that it has, and those of nodes that began
    /// with a layout of their own.
    pub(crate) fn begin_map(&mut self) {
        let key = path(MAP_NAMESPACE, names::MAP_NAME);
        let old = self.maps.get(&key).and_then(|m| m.data.as_ref()?.get("config.yaml"));
        let mut map: MigMap = old.and_then(|text| text.parse().ok()).unwrap_or_default();
        let mut models: Vec<&mig::Model> = Vec::new();
        for host in self.hosts.values() {
            models.extend(host.node.truth().iter().filter_map(|gpu| Catalog::builtin().get(&gpu.model)));
        }
        let Ok(assembled) = assemble(None, &models, []) else { return };
        map.entries.extend(assembled.map.entries);
        map.entries.extend(self.administrators_map().entries);
        self.put_map(&map.render());
    }

    /// What stands for the administrators' own map: the layouts that nodes
    /// began with and that no default name means.
    pub(crate) fn administrators_map(&self) -> MigMap {
        let begins = self.hosts.values().filter_map(|host| host.begins_with.as_ref());
        let entries = begins.filter_map(|(name, layout)| Some((name.clone(), entry(layout).ok()?)));
        MigMap { entries: entries.collect() }
    }

    /// Our map of the device plugin's configurations gets this content. As soon
    /// as it is there, an administrator points `ClusterPolicy` to it, as the
    /// policy's condition asks.
    fn put_plugin_map(&mut self, data: &BTreeMap<String, String>) {
        let is_new = self.plugin_map().is_none();
        let object = plugin_map(data);
        self.maps.put(object, self.now, &mut self.revision);
        for host in self.hosts.values_mut() {
            if is_new {
                host.node.set_plugin_config(Some(data.clone()), "");
            } else {
                host.node.update_plugin_config(data.clone());
            }
        }
        if is_new {
            let text = "points ClusterPolicy's device plugin to the map slicewright-plugin-config";
            self.say(Who::Person("administrator".to_owned()), text);
        }
        self.publish_hosts();
    }

    /// That map, once it is there.
    pub(crate) fn plugin_map(&self) -> Option<BTreeMap<String, String>> {
        self.maps
            .get(&path(MAP_NAMESPACE, names::PLUGIN_MAP_NAME))
            .map(|map| map.data.clone().unwrap_or_default())
    }

    /// Our map gets this text, if it has another.
    fn put_map(&mut self, text: &str) {
        let object = config_map(names::MAP_NAME, text);
        let there = self.maps.get(&path(MAP_NAMESPACE, names::MAP_NAME));
        if there.is_some_and(|there| there.data == object.data) {
            return;
        }
        self.maps.put(object, self.now, &mut self.revision);
        for host in self.hosts.values_mut() {
            host.node.update_map(text);
        }
    }
}
