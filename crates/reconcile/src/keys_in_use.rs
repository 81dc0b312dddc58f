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

/// The keys that somebody names.
pub(crate) struct KeysInUse<'a> {
    /// By the labels of nodes with GPUs, and those nodes.
    by_nodes: BTreeMap<&'a str, Vec<(&'a str, &'a Node)>>,
    /// By a `ClusterPolicy`, for every node without that label.
    by_default: Option<DefaultKey<'a>>,
}

/// The key that counts for nodes whose label names none.
struct DefaultKey<'a> {
    key: &'a str,
    cluster_policy: &'a str,
}

/// What `ClusterPolicy` names for nodes without a label.
fn default<'a>(input: &Input<'a>) -> Option<DefaultKey<'a>> {
    let (name, policy) = input.objects.cluster_policies.iter().next()?;
    let key = policy.spec.device_plugin.config.as_ref()?.default.as_str();
    (!key.is_empty()).then_some(DefaultKey { key, cluster_policy: name })
}

impl<'a> KeysInUse<'a> {
    pub(crate) fn read(input: &Input<'a>) -> Self {
        let mut keys: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (name, node) in &input.objects.nodes {
            if let Some(key) = key_by_labels::key_of(node) {
                keys.entry(key).or_default().push((name.as_str(), node.as_ref()));
            }
        }
        Self { by_nodes: keys, by_default: default(input) }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.by_nodes.contains_key(key) || self.is_default(key)
    }

    /// Whether nodes without a label get this key.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        self.by_default.as_ref().is_some_and(|default| default.key == key)
    }

    /// What keys of ours said that are in none of these and that nobody remembers, as far as the labels of their nodes
    /// lead to it.
    pub(crate) fn found_by_labels(&self, map: &Data, remembered: &Data) -> Data {
        let unknown = self.by_nodes.iter().filter(|(key, _)| {
            key.starts_with(ENTRY_PREFIX) && !map.contains_key(**key) && !remembered.contains_key(**key)
        });
        let found = unknown.filter_map(|(key, nodes)| {
            let config = nodes.iter().find_map(|(_, node)| key_by_labels::config_of(node, key))?;
            Some(((*key).to_owned(), config.render()))
        });
        found.collect()
    }

    /// What is lost, in words: keys in use that the map, as it is to be, does not have.
    pub(crate) fn lost(&self, ours: &MapRef, data: &Data) -> Option<String> {
        let default = self.by_default.iter().filter(|default| !data.contains_key(default.key)).map(
            |DefaultKey { key, cluster_policy }| {
                format!("`{key}` (the default of ClusterPolicy {cluster_policy})")
            },
        );
        let of_nodes =
            self.by_nodes.iter().filter(|(key, _)| !data.contains_key(**key)).map(|(key, nodes)| {
                let more = nodes.len() - 1;
                let first = nodes.first().map_or("", |(name, _)| name);
                match more {
                    0 => format!("`{key}` (node {first})"),
                    _ => format!("`{key}` (node {first} and {})", plural(more, "other")),
                }
            });
        let mut keys: Vec<String> = default.chain(of_nodes).collect();
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
