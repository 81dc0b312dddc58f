//! The chart and the bundle install the same objects. This test reads the bundle in the repository and does
//! what OLM does with it, independently of its generation.

use std::collections::BTreeSet;

use packaging::Render;
use packaging::bundle::{Files, Image, read_folder};
use serde_json::{Value, json};

use super::{csv_of, helm, manifests_of};

pub(super) fn chart(set: &[&str]) -> Vec<Value> {
    let Image { repository, digest } = Image::unreleased();
    let image = format!("image={}", json!({"repository": repository, "digest": digest}));
    let set = set.iter().map(|s| (*s).to_owned()).chain([image]).collect();
    let apis = vec!["monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"];
    let values = vec![packaging::root().join("packaging/olm/values.yaml")];
    helm().objects(&packaging::chart(), &Render { values, set, apis }).unwrap()
}

fn bundle() -> Files {
    read_folder(&packaging::root().join("olm-bundle")).unwrap()
}

/// One thing that may be done: group, resource, name (or any), verb.
pub(super) type Right = (String, String, String, String);

pub(super) fn rights<'a>(rules: impl IntoIterator<Item = &'a Value>) -> BTreeSet<Right> {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for rule in rules {
        let mut names = words(&rule["resourceNames"]);
        if names.is_empty() {
            names.push("*".to_owned());
        }
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for name in &names {
                    for verb in words(&rule["verbs"]) {
                        all.insert((group.clone(), resource.clone(), name.clone(), verb));
                    }
                }
            }
        }
    }
    all
}

/// What the chart lets a service account do: in the cluster, and in namespaces.
fn chart_rights(objects: &[Value], account: &str) -> (BTreeSet<Right>, BTreeSet<Right>) {
    let (mut cluster, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for binding in objects {
        let kind = binding["kind"].as_str().unwrap();
        let bound =
            binding["subjects"].as_array().is_some_and(|all| all.iter().any(|s| s["name"] == account));
        if !kind.ends_with("RoleBinding") || !bound {
            continue;
        }
        let role = objects.iter().find(|role| {
            role["kind"] == binding["roleRef"]["kind"]
                && role["metadata"]["name"] == binding["roleRef"]["name"]
                && (role["kind"] == "ClusterRole"
                    || role["metadata"]["namespace"] == binding["metadata"]["namespace"])
        });
        let rules = rights(role.unwrap()["rules"].as_array().unwrap());
        if kind == "ClusterRoleBinding" { cluster.extend(rules) } else { namespaces.extend(rules) }
    }
    (cluster, namespaces)
}

fn right(group: &str, resource: &str, name: &str, verb: &str) -> Right {
    (group.to_owned(), resource.to_owned(), name.to_owned(), verb.to_owned())
}

#[test]
fn the_operator_may_do_the_same_and_what_olm_makes_wider_is_listed() {
    let files = bundle();
    let csv = csv_of(&files);
    let install = &csv["spec"]["install"]["spec"];
    let (mut olm, mut accounts) = (BTreeSet::new(), BTreeSet::new());
    for part in ["permissions", "clusterPermissions"] {
        for permission in install[part].as_array().unwrap() {
            accounts.insert(permission["serviceAccountName"].as_str().unwrap().to_owned());
            olm.extend(rights(permission["rules"].as_array().unwrap()));
        }
    }
    assert_eq!(accounts, ["slicewright".to_owned()].into());
    let (cluster, namespaces) = chart_rights(&chart(&[]), "slicewright");
    assert_eq!(olm, cluster.union(&namespaces).cloned().collect());
    // OLM gives these in every namespace, the chart in one each. The guide says so.
    let wider: BTreeSet<Right> = namespaces.difference(&cluster).cloned().collect();
    let (maps, lease) = ("slicewright-mig-config", "slicewright-operator");
    let expected = [
        right("", "configmaps", "*", "create"),
        right("", "configmaps", "*", "list"),
        right("", "configmaps", "*", "watch"),
        right("", "configmaps", maps, "patch"),
        right("", "configmaps", "slicewright-plugin-config", "patch"),
        right("", "pods", "*", "delete"),
        right("coordination.k8s.io", "leases", "*", "create"),
        right("coordination.k8s.io", "leases", lease, "get"),
        right("coordination.k8s.io", "leases", lease, "update"),
    ];
    assert_eq!(wider, expected.into());
    // Nobody else gets any right from a manifest.
    assert!(manifests_of(&files).iter().all(|o| !o["kind"].as_str().unwrap().ends_with("RoleBinding")));
}

/// What is Helm's own and of no account to what runs.
fn without_helm(mut object: Value) -> Value {
    for at in ["/metadata", "/spec/template/metadata"] {
        if let Some(metadata) = object.pointer_mut(at).and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            for kind in ["labels", "annotations"] {
                if let Some(map) = metadata.get_mut(kind).and_then(Value::as_object_mut) {
                    map.retain(|key, value| !key.starts_with("helm.sh/") && value != "Helm");
                }
                if metadata
                    .get(kind)
                    .is_some_and(|map| map.as_object().is_some_and(serde_json::Map::is_empty))
                {
                    metadata.remove(kind);
                }
            }
        }
    }
    object
}

#[test]
fn the_same_pods_run() {
    let csv = csv_of(&bundle());
    let deployments = csv["spec"]["install"]["spec"]["deployments"].as_array().unwrap();
    let objects = chart(&[]);
    let charts: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Deployment").collect();
    assert_eq!((deployments.len(), charts.len()), (1, 1));
    let expected = without_helm(charts[0].clone());
    assert_eq!(deployments[0]["name"], expected["metadata"]["name"]);
    assert_eq!(deployments[0]["label"], expected["metadata"]["labels"]);
    let mut spec = deployments[0]["spec"].clone();
    let env = spec["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    // For those who mirror; the operator does not read it.
    let related = env.pop().unwrap();
    assert_eq!(related["name"], "RELATED_IMAGE_OPERATOR");
    // Replicas, selector, arguments, environment, ports, probes, contexts, resources, spread: everything.
    assert_eq!(spec, expected["spec"]);
    // Nothing is a flag that is the default anyway: the Subscription's environment says the rest.
    assert!(spec["template"]["spec"]["containers"][0].get("args").is_none());
    for (what, at) in [
        ("environment", "env"),
        ("ports", "ports"),
        ("a startup probe", "startupProbe"),
        ("a security context", "securityContext"),
    ] {
        assert!(spec["template"]["spec"]["containers"][0].get(at).is_some(), "there are {what}");
    }
}

#[test]
fn the_same_objects_lie_around_them() {
    let files = bundle();
    let account = "ServiceAccount";
    let of_the_csv = ["Deployment", account, "Role", "RoleBinding", "ClusterRoleBinding"];
    let bound =
        |object: &Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == "slicewright";
    let key = |object: &Value| {
        format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
    };
    let mut expected: Vec<Value> = chart(&[])
        .into_iter()
        .filter(|object| !of_the_csv.contains(&object["kind"].as_str().unwrap()) && !bound(object))
        .map(without_helm)
        .collect();
    let mut found: Vec<Value> =
        manifests_of(&files).into_iter().filter(|o| o["kind"] != "ClusterServiceVersion").collect();
    // What only OpenShift's console has is of the bundle alone.
    found.retain(|object| object["apiVersion"] != "console.openshift.io/v1");
    expected.sort_by_key(key);
    found.sort_by_key(key);
    assert_eq!(found.iter().map(key).collect::<Vec<_>>(), expected.iter().map(key).collect::<Vec<_>>());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    // The bundle's values leave out nothing but the hook, which OLM cannot run.
    let keys = |objects: Vec<Value>| objects.iter().map(key).collect::<BTreeSet<_>>();
    let with_hook = keys(chart(&["uninstall.release=true"]));
    let left_out: Vec<String> = with_hook.difference(&keys(chart(&[]))).cloned().collect();
    assert!(left_out.iter().all(|key| key.ends_with(" slicewright-release")), "{left_out:?}");
}
