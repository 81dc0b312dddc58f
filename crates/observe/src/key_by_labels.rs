//! What a key of our map of the device plugin's configurations said, once the map is gone and nobody remembers it: GPU
//! feature discovery's labels say by how many pods the devices of a node are shared, and the digest in the key proves
//! what they do not say. A guess that is not proved is none.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use mig::GpuResource;
use rollout::{Method, PluginConfig, Shared, Strategy};

use crate::names;

/// The label by which a node names its key.
pub const NAMED_BY: &str = names::PLUGIN_CONFIG;

/// The key that a node with GPUs names.
#[must_use]
pub fn key_of(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref()?;
    let has_gpus = labels.get(names::PRESENT).is_some_and(|value| value == "true");
    labels.get(NAMED_BY).map(String::as_str).filter(|key| has_gpus && !key.is_empty())
}

/// The configuration of ours that has this key, if the labels of the node lead to it.
#[must_use]
pub fn config_of(node: &Node, key: &str) -> Option<PluginConfig> {
    let labels = node.metadata.labels.iter().flatten();
    let counted = labels.filter_map(|(label, n)| Some((label.strip_suffix(names::REPLICAS)?, n)));
    let of_gpus = counted.filter(|(resource, _)| GpuResource::is_one(resource));
    let replicas: BTreeMap<String, u32> = of_gpus
        .filter_map(|(resource, n)| Some((resource.to_owned(), n.parse().ok().filter(|n| *n > 1)?)))
        .collect();
    let mut sharing: Vec<Option<Shared>> = vec![None];
    if !replicas.is_empty() {
        let ways = [Method::TimeSlicing, Method::Mps].into_iter().flat_map(|by| {
            [(true, true), (true, false), (false, true), (false, false)]
                .map(|(rename, one_each)| (by, rename, one_each))
        });
        let shared = |(by, rename, one_each)| Shared { by, rename, one_each, replicas: replicas.clone() };
        sharing = ways.map(shared).map(Some).collect();
    }
    let strategies = [None, Some(Strategy::Mixed)];
    let mut guesses = sharing
        .into_iter()
        .flat_map(|sharing| strategies.map(|strategy| PluginConfig { strategy, sharing: sharing.clone() }));
    guesses.find(|config| config.key() == key)
}
