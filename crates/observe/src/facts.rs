//! The typed facts of a node that the rollout uses.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use planner::names::PodRef;
use rollout::map::{MigMap, NodeGpu};
use rollout::observed::{Listing, MapSeen, Observed, Operator};
use rollout::{GpuLayout, NodeLayout, Strategy};

use crate::hardware::Models;
use crate::objects::Objects;
use crate::on_node::Bound;
use crate::shared::OurPluginMap;
use crate::{MapRef, cordon, holds, layouts, names, node_labels};

/// Our map as the API server has it.
pub(crate) struct OurMap {
    pub seen: MapSeen,
    map: MigMap,
    /// `ClusterPolicy` uses it.
    is_used: bool,
    /// Our map of the device plugin's configurations.
    plugin: OurPluginMap,
}

/// The text of a map.
#[must_use]
pub fn map_text(config_map: &ConfigMap) -> Option<&String> {
    config_map.data.as_ref()?.get(names::MAP_KEY)
}

/// The entries of our map; none when it is not there or not a map.
#[must_use]
pub fn our_map(config_map: Option<&ConfigMap>) -> MigMap {
    config_map.and_then(map_text).and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl OurMap {
    pub(crate) fn read(objects: &Objects, settings: &crate::Settings) -> Self {
        let ours: &MapRef = &settings.map;
        let config_map = objects.config_maps.get(&ours.key());
        let map = our_map(config_map);
        let policy = objects.cluster_policies.values().next();
        let used = policy.and_then(|policy| policy.spec.mig_manager.config.as_ref());
        let seen = MapSeen {
            resource_version: config_map.and_then(|map| map.metadata.resource_version.clone()),
            entries: map.entries.keys().cloned().collect(),
            changed_at: None,
        };
        let plugin = OurPluginMap::read(objects, &settings.plugin_map());
        Self { seen, map, is_used: used.is_some_and(|config| config.name == ours.name), plugin }
    }

    /// How the devices of a node are shared, by its labels and our map.
    pub(crate) fn sharing_of(&self, node: &Node) -> rollout::SharingSeen {
        self.plugin.of_node(node, &layouts::offered(node))
    }

    /// The first of these pods that reads keys of the map that `ClusterPolicy` named before ours.
    fn pod_of_before(&self, pods: &[Bound<'_>]) -> Option<PodRef> {
        let map = self.plugin.used()?;
        pods.iter().find(|pod| pod.reads_another(map)).map(|pod| pod.seen.pod.clone())
    }

    /// What an entry means for the GPUs of a node, if they know its profiles.
    /// An entry may be for others: GPUs are swapped, and the label stays.
    fn layout(&self, entry: &str, models: &Models) -> Option<NodeLayout> {
        let gpus: Vec<NodeGpu<'_>> =
            models.iter().map(|(index, model)| NodeGpu { index: *index, model: *model }).collect();
        let layout = self.map.layout_for(entry, &gpus).ok()?;
        let is_possible = gpus.iter().all(|gpu| match (layout.0.get(&gpu.index), gpu.model) {
            (Some(GpuLayout::Mig(slices)), Some(model)) => {
                slices.keys().all(|profile| model.profiles.iter().any(|known| known.name == *profile))
            }
            (Some(GpuLayout::Mig(_)), None) => false,
            (Some(GpuLayout::Off) | None, _) => true,
        });
        is_possible.then_some(layout)
    }
}

/// Reads a node, whose devices are shared so. How the caller came by it is not known here.
pub(crate) fn read(
    node: &Node,
    pods: &[Bound<'_>],
    models: &Models,
    strategy: Strategy,
    ours: &OurMap,
    sharing: rollout::SharingSeen,
    objects: &Objects,
) -> Observed {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let annotations = node.metadata.annotations.as_ref().unwrap_or(&none);
    let status = node.status.as_ref();
    let operands = node_labels::operands(labels);
    let label_layout = operands.config.as_deref().and_then(|label| ours.layout(label, models));
    let manager = objects.cluster_policies.values().next().map(|policy| &policy.spec.mig_manager);
    Observed {
        resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
        is_marked: node_labels::is_marked(labels),
        work: node_labels::work(labels, annotations),
        manager: holds::manager(node, objects),
        unschedulable: cordon::is_cordoned(node),
        cordon_owner: cordon::owner(node),
        ready: holds::is_ready(node),
        boot_id: status.and_then(|s| s.node_info.as_ref()).map(|i| i.boot_id.clone()).unwrap_or_default(),
        allocatable: layouts::offered(node),
        pods: pods.iter().map(|bound| bound.seen.clone()).collect(),
        listing: Listing::Cached,
        refusals: Vec::new(),
        map: MapSeen::default(),
        label_layout,
        operator: Operator {
            cluster_policy: manager.is_some(),
            mig_manager: manager.is_some_and(|m| m.enabled.unwrap_or(true)),
            uses_our_map: ours.is_used,
            strategy,
        },
        operands,
        agent: None,
        report: None,
        sharing: rollout::SharingSeen { pod_of_before: ours.pod_of_before(pods), ..sharing },
    }
}

/// A node as far as it tells by itself whose its cordon is and what its
/// operands are told.
#[must_use]
pub fn of_node_alone(node: &Node) -> Observed {
    let nothing = Objects::default();
    let ours = OurMap::read(&nothing, &crate::Settings::default());
    read(node, &[], &Models::new(), Strategy::default(), &ours, ours.sharing_of(node), &nothing)
}

/// The entries that the labels of nodes name.
#[must_use]
pub fn named_entries(objects: &Objects) -> BTreeSet<&str> {
    let labels = objects.nodes.values().filter_map(|node| node.metadata.labels.as_ref());
    labels.filter_map(|labels| labels.get(names::MIG_CONFIG)).map(String::as_str).collect()
}
