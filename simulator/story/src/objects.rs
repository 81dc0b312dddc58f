//! The simulated cluster as the operator reads it.

use std::sync::Arc;

use observe::Objects;
use rollout::names;
use serde_json::json;

use crate::config_maps::{ADMINISTRATORS_MAP, MAP_NAMESPACE, config_map};
use crate::world::World;

/// The objects as `observe` takes them.
pub(crate) fn objects(world: &World) -> Objects {
    let mut objects = Objects::default();
    let read = |value| serde_json::from_value(value).ok();
    for (name, node) in world.nodes.iter() {
        objects.nodes.insert(name.to_owned(), Arc::new(node.clone()));
    }
    for pod in world.pods.values() {
        let r = observe::on_node::pod_ref(pod);
        if let Some(owner) =
            pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true))
        {
            objects.owners.insert("Pod", (r.namespace.clone(), r.name.clone()), owner.clone());
        }
        objects.pods.insert((r.namespace, r.name), Arc::new(pod.clone()));
    }
    for pod in crate::agent::pods(world) {
        let r = observe::on_node::pod_ref(&pod);
        objects.pods.insert((r.namespace, r.name), Arc::new(pod));
    }
    for (name, namespace) in world.namespaces.iter() {
        objects.namespaces.insert(name.to_owned(), namespace.clone());
    }
    for map in world.maps.values() {
        let key = (
            map.metadata.namespace.clone().unwrap_or_default(),
            map.metadata.name.clone().unwrap_or_default(),
        );
        objects.config_maps.insert(key, map.clone());
    }
    let theirs = world.administrators_map();
    if !theirs.entries.is_empty() {
        let map = config_map(ADMINISTRATORS_MAP, &theirs.render());
        objects.config_maps.insert((MAP_NAMESPACE.to_owned(), ADMINISTRATORS_MAP.to_owned()), map);
    }
    for (name, class) in world.priorities.iter() {
        objects.priority_classes.insert(name.to_owned(), class.clone());
    }
    for object in world.notebooks.values() {
        let key = (
            object.metadata.namespace.clone().unwrap_or_default(),
            object.metadata.name.clone().unwrap_or_default(),
        );
        let owner = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "name": key.1, "controller": true,
            "uid": object.metadata.uid.clone().unwrap_or_default()});
        if let Some(owner) = read(owner) {
            objects.owners.insert("StatefulSet", key.clone(), owner);
        }
        if let Some(notebook) = serde_json::to_value(object).ok().and_then(|v| serde_json::from_value(v).ok())
        {
            objects.notebooks.insert(key, Arc::new(notebook));
        }
    }
    for object in world.profiles.values() {
        let key = (
            object.metadata.namespace.clone().unwrap_or_default(),
            object.metadata.name.clone().unwrap_or_default(),
        );
        if let Some(profile) = serde_json::to_value(object).ok().and_then(|v| serde_json::from_value(v).ok())
        {
            objects.hardware_profiles.insert(key, profile);
        }
    }
    let strategy = if world.single == Some(true) { "single" } else { "mixed" };
    let plugin_map = if world.plugin_map().is_some() { names::PLUGIN_MAP_NAME } else { "" };
    let cluster_policy = json!({"metadata": {"name": "gpu-cluster-policy"}, "spec": {
        "mig": {"strategy": strategy},
        "migManager": {"enabled": true, "config": {"name": names::MAP_NAME, "default": ""}},
        "devicePlugin": {"config": {"name": plugin_map, "default": ""}},
    }});
    if let Some(policy) = serde_json::from_value(cluster_policy).ok().filter(|_| !world.hosts.is_empty()) {
        objects.cluster_policies.insert("gpu-cluster-policy".to_owned(), policy);
    }
    for (name, policy) in world.policies.iter() {
        objects.policies.insert(name.to_owned(), policy.clone());
    }
    for (name, gpu_node) in world.gpu_nodes.iter() {
        objects.gpu_nodes.insert(name.to_owned(), Arc::new(gpu_node.clone()));
    }
    objects
}
