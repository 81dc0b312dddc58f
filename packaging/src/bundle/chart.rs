//! The chart's objects, sorted by what installs them under OLM: the ClusterServiceVersion, a manifest
//! beside it, or OLM itself.

use serde_json::{Map, Value, json};

use super::Error;
use crate::{Helm, Render};

/// The release's namespace while the chart is rendered; OLM puts its own in.
pub(super) const NAMESPACE: &str = "slicewright-system";

/// The kinds that OLM takes beside the ClusterServiceVersion, of those that
/// the chart makes.
const MANIFESTS: [&str; 8] = [
    "ClusterRole",
    "ConfigMap",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PrometheusRule",
    "Service",
    "ServiceMonitor",
];

/// What the chart installs.
#[derive(Clone, Debug, Default)]
pub(super) struct Installed {
    /// Its Deployments.
    pub(super) deployments: Vec<Value>,
    /// Rules that the operator has in the whole cluster, and those of other
    /// namespaces than its own: OLM knows no third place.
    pub(super) cluster_rules: Vec<Value>,
    /// Rules in the operator's own namespace.
    pub(super) own_rules: Vec<Value>,
    /// Its CRDs.
    pub(super) crds: Vec<Value>,
    /// Everything else.
    pub(super) others: Vec<Value>,
}

/// Renders the chart with the values of the bundle and this image, and sorts
/// what comes of it.
///
/// # Errors
/// When Helm refuses, or the chart makes something that OLM does not take.
pub(super) fn installed(helm: &Helm, repository: &str, digest: &str) -> Result<Installed, Error> {
    let render = Render {
        values: vec![super::base::folder().join("values.yaml")],
        set: vec![format!("image={}", json!({"repository": repository, "digest": digest}))],
        apis: vec!["monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"],
    };
    sort(helm.objects(&crate::chart(), &render)?)
}

fn sort(objects: Vec<Value>) -> Result<Installed, Error> {
    let rules_of = |kind: &str, name: &Value, namespace: &Value| -> Vec<Value> {
        let role = objects.iter().find(|role| {
            role["kind"] == kind
                && role["metadata"]["name"] == *name
                && role["metadata"]["namespace"] == *namespace
        });
        role.and_then(|role| role["rules"].as_array()).cloned().unwrap_or_default()
    };
    let bound: Vec<&Value> = objects
        .iter()
        .filter(|object| object["kind"] == "ClusterRoleBinding")
        .map(|binding| &binding["roleRef"]["name"])
        .collect();
    let mut installed = Installed::default();
    for object in &objects {
        let metadata = &object["metadata"];
        match object["kind"].as_str().unwrap_or_default() {
            "Deployment" => installed.deployments.push(clean(object)),
            // OLM makes it of the rights below.
            "ServiceAccount" => {}
            "ClusterRoleBinding" | "RoleBinding" => {
                let role = &object["roleRef"];
                let namespace = if role["kind"] == "Role" { &metadata["namespace"] } else { &Value::Null };
                let rules = rules_of(role["kind"].as_str().unwrap_or_default(), &role["name"], namespace);
                if metadata["namespace"] == NAMESPACE {
                    installed.own_rules.extend(rules);
                } else {
                    installed.cluster_rules.extend(rules);
                }
            }
            "Role" => {}
            "ClusterRole" if bound.contains(&&metadata["name"]) => {}
            "CustomResourceDefinition" => installed.crds.push(clean(object)),
            kind if MANIFESTS.contains(&kind) => installed.others.push(clean(object)),
            kind => {
                let name = metadata["name"].as_str().unwrap_or_default().to_owned();
                return Err(Error::Unsupported { kind: kind.to_owned(), name });
            }
        }
    }
    Ok(installed)
}

/// Without what only Helm is to be told, and without a namespace: OLM puts in
/// the one that it installs into.
fn clean(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
        without_helm(metadata);
    }
    if let Some(pods) = object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
        without_helm(pods);
    }
    object
}

fn without_helm(metadata: &mut Map<String, Value>) {
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !key.starts_with("helm.sh/") && key != "app.kubernetes.io/managed-by");
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with("helm.sh/"));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_olm_does_not_take_is_an_error_and_is_named() {
        let job = json!({"kind": "Job", "metadata": {"name": "hook"}});
        let error = sort(vec![job]).unwrap_err();
        assert!(error.to_string().contains("Job hook"), "{error}");
    }

    #[test]
    fn rights_in_a_third_namespace_become_rights_in_the_cluster_and_own_ones_stay() {
        let role = |name: &str, namespace: &str, verb: &str| json!({"kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": [{"verbs": [verb]}]});
        let binding = |name: &str, namespace: &str| {
            json!({
                "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
                "roleRef": {"kind": "Role", "name": name},
            })
        };
        let objects = vec![
            role("own", NAMESPACE, "get"),
            binding("own", NAMESPACE),
            role("maps", "elsewhere", "list"),
            binding("maps", "elsewhere"),
            json!({"kind": "ClusterRole", "metadata": {"name": "view"}, "rules": []}),
        ];
        let installed = sort(objects).unwrap();
        assert_eq!(installed.own_rules, [json!({"verbs": ["get"]})]);
        assert_eq!(installed.cluster_rules, [json!({"verbs": ["list"]})]);
        assert_eq!(installed.others.len(), 1);
    }
}
