//! The keys of the device plugin's map that nodes use now, whatever became of the policies that they are from: a device
//! plugin that starts anew ends on a key that is not in the map, and starts nowhere while the map itself is gone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use observe::key_by_labels;
use rollout::names::ENTRY_PREFIX;

use crate::answers::plural;
use crate::input::{Input, MapRef};

type Data = BTreeMap<String, String>;

/// How many keys people are told of that are gone.
const MOST_TOLD: usize = 5;

/// The keys that the labels of nodes with GPUs name, and those nodes.
pub(crate) struct KeysInUse<'a>(BTreeMap<&'a str, Vec<(&'a str, &'a Node)>>);

impl<'a> KeysInUse<'a> {
    pub(crate) fn read(input: &Input<'a>) -> Self {
        let mut keys: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (name, node) in &input.objects.nodes {
            if let Some(key) = key_by_labels::key_of(node) {
                keys.entry(key).or_default().push((name.as_str(), node.as_ref()));
            }
        }
        Self(keys)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// What keys of ours said that are in none of these and that nobody remembers, as far as the labels of their nodes
    /// lead to it.
    pub(crate) fn found_by_labels(&self, map: &Data, remembered: &Data) -> Data {
        let unknown = self.0.iter().filter(|(key, _)| {
            key.starts_with(ENTRY_PREFIX) && !map.contains_key(**key) && !remembered.contains_key(**key)
        });
        let found = unknown.filter_map(|(key, nodes)| {
            let config = nodes.iter().find_map(|(_, node)| key_by_labels::config_of(node, key))?;
            Some(((*key).to_owned(), config.render()))
        });
        found.collect()
    }

    /// What is lost, in words: keys in use that the map, as it is to be, does not have.
    pub(crate) fn lost(&self, input: &Input<'_>, ours: &MapRef, data: &Data) -> Option<String> {
        let policy = input.objects.cluster_policies.iter().next();
        let default = policy.and_then(|(name, policy)| {
            let config = policy.spec.device_plugin.config.as_ref()?;
            let key = Some(&config.default).filter(|key| !key.is_empty() && !data.contains_key(*key))?;
            Some(format!("`{key}` (the default of ClusterPolicy {name})"))
        });
        let of_nodes = self.0.iter().filter(|(key, _)| !data.contains_key(**key)).map(|(key, nodes)| {
            let more = nodes.len() - 1;
            let first = nodes.first().map_or("", |(name, _)| name);
            match more {
                0 => format!("`{key}` (node {first})"),
                _ => format!("`{key}` (node {first} and {})", plural(more, "other")),
            }
        });
        let mut keys: Vec<String> = default.into_iter().chain(of_nodes).collect();
        if keys.is_empty() {
            return None;
        }
        let more = keys.len().saturating_sub(MOST_TOLD);
        keys.truncate(MOST_TOLD);
        if more > 0 {
            keys.push(format!("{more} more"));
        }
        let MapRef { namespace, name } = ours;
        Some(format!(
            "ConfigMap {namespace}/{name} does not have keys that are in use, and their texts are not known, so that the device plugin does not start again where they are named: {}; write keys of your own into it again, and remove the label {} of a node whose key begins with `{ENTRY_PREFIX}`",
            keys.join(", "),
            key_by_labels::NAMED_BY,
        ))
    }
}
