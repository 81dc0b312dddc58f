//! The content of our map: the administrators' entries, the default names of every existing model, an entry
//! for each layout that a node has, gets, or may return to, and older entries while there is room.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use mig::Model;
use observe::facts::{self, map_text, our_map};
use planner::names::NodeName;
use planner::policy::Mode;
use rollout::map::{Item, MAX_BYTES, MapError, MigMap, assemble};
use rollout::{Action, Advance, NodeLayout, Progress, names};

use crate::input::{Input, MapRef};
use crate::planned_round::PlannedRound;

/// A write of our map that is due. It is done before the actions of nodes: an
/// `EnsureMapEntry` among them is fulfilled by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapWrite {
    /// Which map.
    pub map: MapRef,
    /// The text of its key `config.yaml`.
    pub text: String,
    /// How many entries that has.
    pub entries: usize,
    /// Its resource version, which the write carries; none when it has to be
    /// created.
    pub if_version: Option<String>,
    /// The map is ours, so that a text that somebody else wrote there gives way.
    pub is_ours: bool,
}

/// The label by which a map of ours is known, with its value. It is written with the first text.
const MADE_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "slicewright");

/// Whether a map that is there was made by us. One that only has the name of ours is somebody else's.
pub(crate) fn is_ours(map: Option<&ConfigMap>) -> bool {
    let labels = map.and_then(|map| map.metadata.labels.as_ref());
    labels.and_then(|labels| labels.get(MADE_BY.0)).is_some_and(|value| value == MADE_BY.1)
}

/// What a round makes of our map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapRound {
    /// The write that is due; none when the map is as it should be.
    pub write: Option<MapWrite>,
    /// What keeps it from being as it should, for a condition.
    pub problem: Option<String>,
}

/// Our map as it should be. Nothing is wanted of it where there is no GPU, no
/// `ClusterPolicy`, or DRA in its place, and while every policy only previews
/// or is paused.
pub(crate) fn map(
    input: &Input<'_>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
) -> MapRound {
    let objects = input.objects;
    let models = models(planned);
    let ensures =
        |advance: &Advance| advance.actions.iter().any(|a| matches!(a, Action::EnsureMapEntry { .. }));
    let asked = advances.values().any(ensures);
    let in_force = planned.view.policies.iter().any(|policy| policy.mode == Mode::Enforce);
    let needed = asked || in_force;
    if !needed || models.is_empty() || objects.cluster_policies.is_empty() || objects.gpu_cluster {
        return MapRound::default();
    }
    let config_map = objects.config_maps.get(&input.settings.observe.map.key());
    let old = our_map(config_map);
    let (theirs, mut problem) = administrators(input, &old);
    let layouts = layouts(planned, advances);
    let assembled = match assemble(Some(&theirs), &models, &layouts) {
        Ok(assembled) => assembled,
        Err(error) => return cannot_write(input, &error),
    };
    let mut map = assembled.map;
    for entry in kept(input, &old) {
        if let Some(items) = old.entries.get(&entry) {
            map.entries.entry(entry).or_insert_with(|| items.clone());
        }
    }
    if !assembled.without_defaults.is_empty() {
        problem.get_or_insert_with(|| {
            format!(
                "the default names (all-1g.10gb and so on) are missing for {}: its PCI ids are not known, and other models are there; write the entries that you need into a map of your own, and name it with --administrators-map",
                assembled.without_defaults.join(", ")
            )
        });
    }
    let text = map.render();
    if text.len() > MAX_BYTES {
        return cannot_write(input, &MapError::TooLarge { bytes: text.len(), max: MAX_BYTES });
    }
    let write = is_worth_a_write(config_map.is_some(), asked, &map, &old).then(|| MapWrite {
        map: input.settings.observe.map.clone(),
        text,
        entries: map.entries.len(),
        if_version: config_map.and_then(|m| m.metadata.resource_version.clone()),
        is_ours: is_ours(config_map),
    });
    MapRound { write, problem }
}

/// Whether the map lacks something. What is too much in it goes with the next
/// write, and not by one of its own: kubelet takes a minute or two to bring
/// any change to the nodes.
fn is_worth_a_write(is_there: bool, asked: bool, wanted: &MigMap, now: &MigMap) -> bool {
    let differs = |(name, items): (&String, &Vec<Item>)| now.entries.get(name) != Some(items);
    let ours = |name: &String| name.starts_with(names::ENTRY_PREFIX);
    let gone = |name: &String| !ours(name) && !wanted.entries.contains_key(name);
    !is_there
        || wanted.entries.iter().filter(|(name, _)| asked || !ours(name)).any(differs)
        || now.entries.keys().any(gone)
}

fn cannot_write(input: &Input<'_>, error: &MapError) -> MapRound {
    let MapRef { namespace, name } = &input.settings.observe.map;
    let problem =
        format!("ConfigMap {namespace}/{name} stays as it is, and no new layout can be applied: {error}");
    MapRound { write: None, problem: Some(problem) }
}

/// Every model that is there, once.
fn models(planned: &PlannedRound) -> Vec<&'static Model> {
    let mut models: BTreeMap<&str, &'static Model> = BTreeMap::new();
    for model in planned.view.nodes.values().flat_map(|node| node.models.values().flatten()) {
        models.insert(&model.id, model);
    }
    models.into_values().collect()
}

/// The layouts of all rollouts, as they will be remembered: what a label of
/// ours names, what it may name next, and what it may go back to. What a node
/// had before its first change has a name of somebody else's.
fn layouts(planned: &PlannedRound, advances: &BTreeMap<NodeName, Advance>) -> Vec<NodeLayout> {
    let mut all = BTreeSet::new();
    let there = planned.view.nodes.iter().map(|(name, node)| (name, &node.memory));
    let stored = there.chain(&planned.view.gone).filter(|(name, _)| !advances.contains_key(*name));
    let next = advances.values().map(|advance| &advance.progress);
    for progress in stored.map(|(_, memory)| &memory.progress).chain(next) {
        let Progress { target, verified, set_back, .. } = progress;
        let layouts = target.iter().filter(|target| target.sharing.is_none());
        all.extend(layouts.map(|target| target.layout.clone()));
        all.extend(verified.iter().map(|verified| verified.layout.clone()));
        all.extend(set_back.iter().map(|back| back.layout.clone()));
    }
    // MIG on without any slice cannot be written, and no node can come to have it.
    all.into_iter().filter(|layout| rollout::map::entry(layout).is_ok()).collect()
}

/// How many entries of ours are kept although nobody needs them: a layout that
/// comes back finds its entry mounted and saves two minutes. With three names
/// for each layout these are 100 layouts, far from the 1 MiB of a `ConfigMap`;
/// above that only what is needed stays.
const MOST_KEPT: usize = 300;

/// Entries of ours that stay: those that some node's label names, whatever we
/// remember, since MIG manager fails on a name that is gone; and the others
/// while there is room.
fn kept(input: &Input<'_>, old: &MigMap) -> BTreeSet<String> {
    let ours: BTreeSet<String> =
        old.entries.keys().filter(|entry| entry.starts_with(names::ENTRY_PREFIX)).cloned().collect();
    if ours.len() <= MOST_KEPT {
        return ours;
    }
    let labels = facts::named_entries(input.objects).into_iter();
    let labels =
        labels.map(|label| label.strip_suffix("-a").or_else(|| label.strip_suffix("-b")).unwrap_or(label));
    let named: BTreeSet<String> =
        labels.flat_map(|stem| ["", "-a", "-b"].map(|suffix| format!("{stem}{suffix}"))).collect();
    ours.intersection(&named).cloned().collect()
}

/// The administrators' entries. When their map cannot be used, those that were
/// carried over before stay, so that nodes that use them keep working.
fn administrators(input: &Input<'_>, old: &MigMap) -> (MigMap, Option<String>) {
    let Some(at @ MapRef { namespace, name }) = &input.settings.administrators_map else {
        return (MigMap::default(), None);
    };
    let carried = || {
        let theirs = old.entries.iter().filter(|(name, _)| !name.starts_with(names::ENTRY_PREFIX));
        MigMap { entries: theirs.map(|(name, items)| (name.clone(), items.clone())).collect() }
    };
    let object = input.objects.config_maps.get(&at.key());
    let wrong = |what: String| {
        let text = format!(
            "the administrators' map, ConfigMap {namespace}/{name}, {what}; the entries that it had stay as they were"
        );
        (carried(), Some(text))
    };
    let Some(object) = object else {
        return wrong("is not there: create it, or drop the flag --administrators-map".to_owned());
    };
    let Some(text) = map_text(object) else {
        return wrong(format!("has no key `{}`", names::MAP_KEY));
    };
    match text.parse::<MigMap>() {
        Err(error) => wrong(format!("cannot be used: {error}")),
        Ok(mut map) => {
            let reserved = map.entries.keys().find(|name| name.starts_with(names::ENTRY_PREFIX)).cloned();
            map.entries.retain(|name, _| !name.starts_with(names::ENTRY_PREFIX));
            let problem = reserved.map(|entry| {
                let error = MapError::Reserved { entry };
                format!("ConfigMap {namespace}/{name}: {error}; that entry is left out")
            });
            (map, problem)
        }
    }
}
