//! The permissions to record a fleet, which are read-only.

use serde_json::{Value, json};

use super::{Installation, Right, Scope, right, rules};

const RECORD: &str = "to record it";

/// What `slicewright snapshot` needs: to read what the operator reads, and
/// nothing else. Kinds that a cluster does not have are not asked for.
pub const SNAPSHOT: &[Right] = &[
    right(Scope::Cluster, "", "nodes", &[("list", RECORD)]),
    right(Scope::Cluster, "", "pods", &[("list", RECORD)]),
    right(Scope::Cluster, "", "namespaces", &[("list", "to record their labels")]),
    right(Scope::Cluster, "scheduling.k8s.io", "priorityclasses", &[("list", RECORD)]),
    right(
        Scope::Cluster,
        "",
        "persistentvolumeclaims",
        &[("list", "to record the volumes of pods that wait, and nothing else of them")],
    ),
    right(
        Scope::Cluster,
        "",
        "persistentvolumes",
        &[("list", "to record which nodes can have these volumes")],
    ),
    right(Scope::Cluster, api::GROUP, "gpupartitionpolicies", &[("list", RECORD)]),
    right(Scope::Cluster, api::GROUP, "gpunodes", &[("list", RECORD)]),
    right(Scope::Cluster, "nvidia.com", "clusterpolicies", &[("list", RECORD)]),
    right(Scope::Cluster, "nvidia.com", "gpuclusters", &[("list", RECORD)]),
    right(Scope::Cluster, "kubeflow.org", "notebooks", &[("list", RECORD)]),
    right(Scope::Cluster, "infrastructure.opendatahub.io", "hardwareprofiles", &[("list", RECORD)]),
    right(
        Scope::Cluster,
        "serving.kserve.io",
        "inferenceservices",
        &[("list", "to record which hardware profile each names")],
    ),
    right(
        Scope::Cluster,
        "serving.kserve.io",
        "llminferenceservices",
        &[("list", "to record which hardware profile each names")],
    ),
    right(
        Scope::Cluster,
        "kueue.x-k8s.io",
        "workloads",
        &[("list", "to record what waits in Kueue's queues")],
    ),
    right(Scope::Cluster, "kueue.x-k8s.io", "admissionchecks", &[("list", RECORD)]),
    right(Scope::Cluster, "kueue.x-k8s.io", "resourceflavors", &[("list", RECORD)]),
    right(
        Scope::Cluster,
        "kueue.x-k8s.io",
        "clusterqueues",
        &[("list", "to record which quota there is, and what of it is taken")],
    ),
    right(Scope::Cluster, "kueue.x-k8s.io", "localqueues", &[("list", RECORD)]),
    right(
        Scope::Cluster,
        "apps",
        "replicasets",
        &[("get", "to record who stands behind a pod (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "apps",
        "statefulsets",
        &[("get", "to record who stands behind a pod (metadata only)")],
    ),
    right(Scope::Cluster, "batch", "jobs", &[("get", "to record who stands behind a pod (metadata only)")]),
    right(
        Scope::Cluster,
        "jobset.x-k8s.io",
        "jobsets",
        &[("get", "to record who stands behind a pod (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &[("get", "to record who stands behind a pod (metadata only)")],
    ),
    right(
        Scope::Cluster,
        "ray.io",
        "rayclusters",
        &[("get", "to record who stands behind a pod (metadata only)")],
    ),
    right(Scope::GpuOperator, "", "configmaps", &[("list", "to record the maps of layouts")]),
];

/// An account of this name may record fleets, and do nothing else.
const ACCOUNT: &str = "slicewright-snapshot";

/// The service account, the roles and the bindings, in the namespaces of an
/// installation.
#[must_use]
pub fn snapshot_manifests(installation: &Installation) -> Vec<Value> {
    let Installation { namespace, gpu_operator_namespace, .. } = installation;
    let rbac = "rbac.authorization.k8s.io/v1";
    let labels = json!({"app.kubernetes.io/name": "slicewright", "app.kubernetes.io/component": "snapshot"});
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]);
    let mut manifests = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace, "labels": labels},
    })];
    let scopes =
        [(Scope::Cluster, "ClusterRole", None), (Scope::GpuOperator, "Role", Some(gpu_operator_namespace))];
    for (scope, role, within) in scopes {
        let mut metadata = json!({"name": ACCOUNT, "labels": labels});
        if let Some(within) = within {
            metadata["namespace"] = json!(within);
        }
        let granted = rules(SNAPSHOT.iter().filter(|right| right.scope == scope));
        manifests.push(json!({"apiVersion": rbac, "kind": role, "metadata": metadata, "rules": granted}));
        manifests.push(json!({
            "apiVersion": rbac, "kind": format!("{role}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": ACCOUNT},
            "subjects": subjects,
        }));
    }
    manifests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::RIGHTS;

    #[test]
    fn who_records_reads_what_the_operator_reads_and_no_more() {
        let may = |rights: &[Right]| {
            let all = rights
                .iter()
                .flat_map(|r| r.verbs.iter().map(move |(verb, _)| (r.scope, r.group, r.resource, *verb)));
            all.collect::<std::collections::BTreeSet<_>>()
        };
        let (records, operates) = (may(SNAPSHOT), may(RIGHTS));
        assert!(records.iter().all(|(.., verb)| ["get", "list"].contains(verb)));
        let beyond: Vec<_> = records.difference(&operates).collect();
        assert!(beyond.is_empty(), "{beyond:?}");
        let reads = operates
            .into_iter()
            .filter(|(_, group, _, verb)| ["get", "list"].contains(verb) && *group != "coordination.k8s.io");
        // Discovery tells which kinds there are, without any right on CRDs; what a
        // StatefulSet says of why it makes no pod is no part of a fleet, nor is where
        // hardware profiles may be published. Nothing is done upon a recording, so that
        // nobody needs to know whether reports of agents may be acted upon.
        let passed_over: Vec<_> =
            reads.filter(|right| !records.contains(right)).map(|(_, _, resource, _)| resource).collect();
        let agents_policy = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        let others = ["customresourcedefinitions", "dscinitializations", "events"];
        assert_eq!(passed_over, [&agents_policy[..], &others[..]].concat());
    }
}
