//! The content of our map of the device plugin's configurations: the administrators' keys as they are, and a key of
//! ours for each configuration that a node has, gets, or may return to.

use std::collections::{BTreeMap, BTreeSet};

use planner::names::NodeName;
use rollout::map::MAX_BYTES;
use rollout::names::ENTRY_PREFIX;
use rollout::{Action, Advance, PluginConfig, Progress};

use crate::input::{Input, MapRef};
use crate::keys_in_use::KeysInUse;
use crate::map::is_ours;
use crate::planned_round::PlannedRound;
use crate::plugin_pointer::{Repoint, who_shares};

/// A write of our map that is due. It is done before the actions of nodes: an
/// `EnsurePluginConfig` among them is fulfilled by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginMapWrite {
    /// Which map.
    pub map: MapRef,
    /// Its keys and their texts.
    pub data: BTreeMap<String, String>,
    /// Its resource version, which the write carries; none when it has to be
    /// created.
    pub if_version: Option<String>,
    /// The map is ours, so that a text that somebody else wrote under a key of
    /// ours gives way.
    pub is_ours: bool,
}

/// What a round makes of that map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginMapRound {
    /// The write that is due; none when the map is as it should be.
    pub write: Option<PluginMapWrite>,
    /// What keeps it from being as it should, for a condition.
    pub problem: Option<String>,
    /// The keys in use whose texts are lost, for a condition: somebody took them out, and nobody remembers them.
    pub lost: Option<String>,
    /// That `ClusterPolicy` is to name it, if that is for us to do, now. It is done after the policies' conditions have
    /// said so.
    pub repoint: Option<Repoint>,
}

type Data = BTreeMap<String, String>;

/// Our map as it should be. Nothing is wanted of it while no policy that is in force shares GPUs, no node has a
/// configuration of ours, and `ClusterPolicy` names another map. While it names ours, the keys in use are in it, also
/// those of nodes that no policy has any more: without its key a device plugin does not start again.
pub(crate) fn plugin_map(
    input: &Input<'_>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
) -> PluginMapRound {
    let objects = input.objects;
    if objects.cluster_policies.is_empty() || objects.gpu_cluster {
        return PluginMapRound::default();
    }
    let ours = input.settings.observe.plugin_map();
    let is_used = map_in_use(input) == Some(ours.name.as_str());
    let asks =
        |advance: &Advance| advance.actions.iter().any(|a| matches!(a, Action::EnsurePluginConfig { .. }));
    let is_wanted = advances.values().any(asks) || who_shares(planned).next().is_some();
    let in_use = KeysInUse::read(input);
    let mut needed: Data =
        needed(planned, advances).iter().map(|config| (config.key(), config.render())).collect();
    if !is_wanted {
        // Nobody shares any more: what only memory has is of use to nobody.
        needed.retain(|key, _| is_used && in_use.has(key));
    }
    if needed.is_empty() && !is_used {
        return PluginMapRound::default();
    }
    let there = objects.config_maps.get(&ours.key());
    let old = there.and_then(|map| map.data.clone()).unwrap_or_default();
    if is_used {
        needed.extend(in_use.found_by_labels(&old, &needed));
    }
    let theirs = match administrators(input, &ours, &old) {
        Ok(theirs) => theirs,
        Err(problem) => return PluginMapRound { problem: Some(problem), ..PluginMapRound::default() },
    };
    // Where the map is gone that `ClusterPolicy` names, no device plugin starts, whatever key its node has.
    let lacks = there.is_none() && is_used
        || needed.iter().any(|(key, text)| old.get(key) != Some(text))
        || theirs.iter().any(|(key, text)| old.get(key) != Some(text));
    let lost = |data: &Data| in_use.lost(&ours, data).filter(|_| is_used);
    if !lacks {
        return PluginMapRound { lost: lost(&old), ..PluginMapRound::default() };
    }
    let labels = observe::shared::named_keys(objects);
    let is_named = |key: &str| labels.contains(key) || in_use.is_default(key);
    let is_reserved = |key: &str| key.starts_with(ENTRY_PREFIX);
    let mut data: Data = old
        .iter()
        .filter(|(key, _)| is_reserved(key) && is_named(key))
        .map(|(key, text)| (key.clone(), text.clone()))
        .collect();
    data.extend(theirs);
    data.extend(needed);
    let bytes: usize = data.iter().map(|(key, text)| key.len() + text.len()).sum();
    if bytes > MAX_BYTES {
        let MapRef { namespace, name } = &ours;
        let problem = format!(
            "ConfigMap {namespace}/{name} stays as it is, and no sharing can be changed: with the administrators' keys it would have {bytes} bytes, and {MAX_BYTES} are allowed; remove keys that no node uses"
        );
        return PluginMapRound { problem: Some(problem), ..PluginMapRound::default() };
    }
    let if_version = there.and_then(|map| map.metadata.resource_version.clone());
    let (lost, is_ours) = (lost(&data), is_ours(there));
    PluginMapRound {
        write: Some(PluginMapWrite { map: ours, data, if_version, is_ours }),
        lost,
        ..PluginMapRound::default()
    }
}

/// The configurations of all rollouts, as they will be remembered: what a label
/// of ours names, what it may name next, and what it may go back to.
fn needed(planned: &PlannedRound, advances: &BTreeMap<NodeName, Advance>) -> BTreeSet<PluginConfig> {
    let there = planned.view.nodes.iter().map(|(name, node)| (name, &node.memory));
    let stored = there.chain(&planned.view.gone).filter(|(name, _)| !advances.contains_key(*name));
    let next = advances.values().map(|advance| &advance.progress);
    let mut all = BTreeSet::new();
    for progress in stored.map(|(_, memory)| &memory.progress).chain(next) {
        let Progress { target, shared_as, .. } = progress;
        all.extend(shared_as.clone());
        let change = target.as_ref().and_then(|target| target.sharing.as_ref());
        all.extend(change.map(|change| change.config.clone()));
        all.extend(target.as_ref().and_then(|target| target.followed_by.clone()));
        // What was there without a label has no key.
        let had_key = target.as_ref().is_some_and(|target| target.label_before.is_some());
        all.extend(change.and_then(|change| change.text_before().cloned()).filter(|_| had_key));
    }
    all
}

/// The map that `ClusterPolicy` names.
fn map_in_use<'a>(input: &Input<'a>) -> Option<&'a str> {
    let policy = input.objects.cluster_policies.values().next();
    let named = policy.and_then(|policy| policy.spec.device_plugin.config.as_ref());
    named.map(|config| config.name.as_str()).filter(|name| !name.is_empty())
}

/// The administrators' keys: of the map that `ClusterPolicy` names, until it
/// names ours; from then on those that ours has.
fn administrators(input: &Input<'_>, ours: &MapRef, old: &Data) -> Result<Data, String> {
    let objects = input.objects;
    let Some(named) = map_in_use(input).filter(|name| *name != ours.name) else {
        let theirs = old.iter().filter(|(key, _)| !key.starts_with(ENTRY_PREFIX));
        return Ok(theirs.map(|(key, text)| (key.clone(), text.clone())).collect());
    };
    let namespace = &ours.namespace;
    let Some(map) = objects.config_maps.get(&(namespace.clone(), named.to_owned())) else {
        return Err(format!(
            "ClusterPolicy points the device plugin to ConfigMap {namespace}/{named}, which is not there, so that its keys cannot be taken over: create it, or remove spec.devicePlugin.config.name"
        ));
    };
    // A node whose key is not taken over has no device plugin from the moment on at which ours is used.
    if let Some(key) = map.binary_data.iter().flat_map(BTreeMap::keys).next() {
        return Err(format!(
            "ConfigMap {namespace}/{named} has the key `{key}` in `binaryData`, which is not text, so that it cannot be taken over: write it under `data`, or remove it"
        ));
    }
    let theirs = map.data.clone().unwrap_or_default();
    if let Some(key) = theirs.keys().find(|key| key.starts_with(ENTRY_PREFIX)) {
        return Err(format!(
            "ConfigMap {namespace}/{named} has the key `{key}`, and keys that begin with `{ENTRY_PREFIX}` are the operator's: rename it there and in the labels of nodes"
        ));
    }
    Ok(theirs)
}
