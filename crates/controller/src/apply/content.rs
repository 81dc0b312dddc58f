//! What our map should contain, and whether that is worth a write: kubelet
//! takes a minute or two to bring any change to the nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use observe::Objects;
use planner::policy::Mode;
use reconcile::Round;
use rollout::map::{Assembled, Item, MapError, MigMap, assemble};
use rollout::{Action, NodeLayout, names};

use crate::settings::MapRef;

/// The map as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The value of its key.
    pub text: String,
    /// How many entries it has.
    pub entries: usize,
}

/// Why the map cannot be what it should be.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The administrators' map is named, and not there.
    #[error(
        "the administrators' map {namespace}/{name} is not there: create it, or leave the flag --administrators-map out"
    )]
    Missing {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// It is there, and cannot be read.
    #[error("the administrators' map {namespace}/{name} cannot be read, so ours is left as it is")]
    Unreadable {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: Box<MapError>,
    },
    /// What is asked for cannot be written.
    #[error("our map of layouts cannot be written")]
    Impossible(#[source] Box<MapError>),
}

fn read(map: Option<&ConfigMap>) -> Option<Result<MigMap, MapError>> {
    let text = map?.data.as_ref()?.get(observe::names::MAP_KEY)?;
    Some(text.parse())
}

/// What our map should be; `None` when it need not be written.
///
/// # Errors
/// When that cannot be said; the map is left as it is then.
pub fn content(
    objects: &Objects,
    round: &Round,
    ours: &MapRef,
    administrators: Option<&MapRef>,
) -> Result<Option<Content>, ContentError> {
    let find = |map: &MapRef| objects.config_maps.get(&(map.namespace.clone(), map.name.clone()));
    let asked = round
        .nodes
        .values()
        .flat_map(|node| &node.advance.actions)
        .any(|action| matches!(action, Action::EnsureMapEntry { .. }));
    let in_force = round.thought.policies.iter().any(|policy| policy.mode == Mode::Enforce);
    if !asked && !in_force {
        return Ok(None);
    }
    let theirs = match administrators {
        None => None,
        Some(map) => {
            let MapRef { namespace, name } = map.clone();
            match read(find(map)) {
                None => return Err(ContentError::Missing { namespace, name }),
                Some(Err(error)) => {
                    return Err(ContentError::Unreadable { namespace, name, source: Box::new(error) });
                }
                Some(Ok(theirs)) => Some(theirs),
            }
        }
    };
    // One of ours that cannot be read is one that somebody broke: it is written anew.
    let now = read(find(ours)).and_then(Result::ok).unwrap_or_default();
    let Assembled { mut map, .. } = assemble(theirs.as_ref(), &models(objects, round), layouts(round))
        .map_err(|error| ContentError::Impossible(Box::new(error)))?;
    // What a node's label names stays, whoever made it.
    for (name, items) in named_by_labels(objects, &now) {
        map.entries.entry(name).or_insert(items);
    }
    let general = |map: &MigMap| -> BTreeMap<String, Vec<Item>> {
        let ours = |name: &String| name.starts_with(names::ENTRY_PREFIX);
        map.entries.iter().filter(|(name, _)| !ours(name)).map(|(n, i)| (n.clone(), i.clone())).collect()
    };
    // Entries that nobody needs any more go with the next write, not by one of their own.
    let lacks = map.entries.iter().any(|(name, items)| now.entries.get(name) != Some(items));
    let wanted = if asked { lacks } else { general(&map) != general(&now) };
    if !wanted && find(ours).is_some() {
        return Ok(None);
    }
    let text = map.render();
    if text.len() > rollout::map::MAX_BYTES {
        let too_large = MapError::TooLarge { bytes: text.len(), max: rollout::map::MAX_BYTES };
        return Err(ContentError::Impossible(Box::new(too_large)));
    }
    Ok(Some(Content { text, entries: map.entries.len() }))
}

/// Every model that is there, each once, by name.
fn models(objects: &Objects, round: &Round) -> Vec<&'static mig::Model> {
    let mut models = BTreeMap::new();
    for name in round.gpu_nodes.keys() {
        let gpu_node = objects.gpu_nodes.get(&name.0).map(AsRef::as_ref);
        let found = reconcile::hardware::models(round.thought.inventory.nodes.get(name), gpu_node);
        models.extend(found.into_values().flatten().map(|model| (model.id.clone(), model)));
    }
    models.into_values().collect()
}

/// The layouts whose entries some node needs.
fn layouts(round: &Round) -> Vec<&NodeLayout> {
    let mut layouts: BTreeMap<String, &NodeLayout> = BTreeMap::new();
    for node in round.nodes.values() {
        let asked = node.advance.actions.iter().filter_map(|action| match action {
            Action::EnsureMapEntry { layout, .. } => Some(layout),
            _ => None,
        });
        for layout in asked.chain(node.advance.progress.layouts_in_use()).chain(node.before.layouts_in_use())
        {
            layouts.insert(layout.entry_name(), layout);
        }
    }
    layouts.into_values().collect()
}

/// Entries of ours as they are that a node's label names.
fn named_by_labels(objects: &Objects, now: &MigMap) -> Vec<(String, Vec<Item>)> {
    let labels =
        objects.nodes.values().filter_map(|node| node.metadata.labels.as_ref()?.get(names::MIG_CONFIG));
    let ours = labels.filter(|label| label.starts_with(names::ENTRY_PREFIX));
    ours.filter_map(|label| Some((label.clone(), now.entries.get(label)?.clone()))).collect()
}
