//! Our map of layouts, and whether `ClusterPolicy` points to it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta};
use kube::core::gvk::GroupVersionKind;
use serde_json::{Value, json};

use crate::calls::{CallError, Calls, Target, managers};
use crate::settings::MapRef;
use crate::store::awaited::Subject;
use crate::store::{Foreign, Source};

/// The annotation of our map with the moment at which its text last changed:
/// kubelet brings it to the nodes some time after that.
pub const CHANGED_AT: &str = "slicewright.io/changed-at";

/// When our map last changed, as it says itself.
#[must_use]
pub fn changed_at(map: Option<&ConfigMap>) -> Option<Timestamp> {
    map?.metadata.annotations.as_ref()?.get(CHANGED_AT)?.parse().ok()
}

/// A map that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which.
    pub map: MapRef,
    /// The version that it must still have; none where there must still be none.
    pub if_version: Option<String>,
    /// We have made it. Then what we write there is ours, and who edited it
    /// meanwhile owns it no longer. In a map of another hand, fields of others
    /// are not taken over: that is a conflict, which is said.
    pub is_ours: bool,
}

/// Writes our map, if it still has this version or, without one, if there
/// still is none.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn write(calls: &Calls, place: &Place, text: &str, now: Timestamp) -> Result<Subject, CallError> {
    let annotations = json!({
        CHANGED_AT: now.to_string(),
        "slicewright.io/about": "Written by Slicewright: do not edit. Your own entries belong into the map that the flag --administrators-map names.",
    });
    apply(calls, place, &annotations, &json!({rollout::names::MAP_KEY: text})).await
}

/// Writes our map of the device plugin's configurations, in the same way.
///
/// # Errors
/// When it was not, or may not have been, written.
pub async fn write_plugin_map(
    calls: &Calls,
    place: &Place,
    data: &BTreeMap<String, String>,
) -> Result<Subject, CallError> {
    let annotations = json!({
        "slicewright.io/about": "Written by Slicewright: keys that begin with slicewright- are its own, and nodes use them; do not edit or remove them. Other keys are yours.",
    });
    apply(calls, place, &annotations, &json!(data)).await
}

async fn apply(
    calls: &Calls,
    Place { map, if_version, is_ours }: &Place,
    annotations: &Value,
    data: &Value,
) -> Result<Subject, CallError> {
    let MapRef { namespace, name } = map;
    let api: Api<ConfigMap> = Api::namespaced(calls.client(), namespace);
    let title = format!("ConfigMap {namespace}/{name}");
    let version = match if_version {
        Some(version) => Some(version.clone()),
        None => make(calls, &api, &title, map).await?.metadata.resource_version,
    };
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": namespace, "resourceVersion": version,
            "labels": {"app.kubernetes.io/managed-by": "slicewright"},
            "annotations": annotations,
        },
        "data": data,
    });
    let manager = if *is_ours { &managers::OUR_MAP } else { &managers::MAP };
    let written: ConfigMap = calls.apply(&api, &title, manager, Target::Object, name, &body).await?;
    Ok(Subject::Version {
        source: Source::Map(map.clone()),
        key: (namespace.clone(), name.clone()),
        version: written.metadata.resource_version.unwrap_or_default(),
    })
}

/// An empty map, for its version. Applying one makes it too, but has no way to
/// ask that there be none: a replica that was stopped while it asked for the
/// first one would write its old text over what another has written since.
async fn make(
    calls: &Calls,
    api: &Api<ConfigMap>,
    title: &str,
    map: &MapRef,
) -> Result<ConfigMap, CallError> {
    let MapRef { namespace, name } = map.clone();
    let metadata = ObjectMeta { namespace: Some(namespace), name: Some(name), ..ObjectMeta::default() };
    let empty = ConfigMap { metadata, ..ConfigMap::default() };
    calls.create(api, title, managers::MAP.name, &empty).await
}

/// A field of `ClusterPolicy` that names a map of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// MIG manager's map of layouts.
    Layouts,
    /// The device plugin's map of configurations.
    PluginConfigs,
}

/// Points `ClusterPolicy` to a map of ours, if it still has this version.
///
/// # Errors
/// When it was not, or may not have been, patched.
pub async fn point_to(
    calls: &Calls,
    cluster_policy: &str,
    field: Names,
    map_name: &str,
    if_version: &str,
) -> Result<Subject, CallError> {
    let (group, kind, plural, versions) = Foreign::ClusterPolicy.names();
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, versions[0], kind), plural);
    let api: Api<DynamicObject> = Api::all_with(calls.client(), &resource);
    let operand = match field {
        Names::Layouts => "migManager",
        Names::PluginConfigs => "devicePlugin",
    };
    let body = json!({
        "metadata": {"resourceVersion": if_version},
        "spec": {operand: {"config": {"name": map_name}}},
    });
    let title = format!("ClusterPolicy {cluster_policy}");
    let written =
        calls.merge(&api, &title, &managers::CLUSTER_POLICY, Target::Object, cluster_policy, &body).await?;
    Ok(Subject::Version {
        source: Source::Foreign(Foreign::ClusterPolicy),
        key: (String::new(), cluster_policy.to_owned()),
        version: written.metadata.resource_version.unwrap_or_default(),
    })
}
