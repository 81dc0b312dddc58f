//! Converts objects to a snapshot's text: one line for each object, in the order of kinds and names, so
//! that two recordings of one fleet differ only where the fleet does. Fields that the API server sets for
//! each object (uids, versions) and unused fields are omitted, but for the uids by which node agents name pods.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::placed::waited_for;
use super::{API_VERSION, KIND, Provenance};
use crate::objects::Objects;
use crate::placed_alone;

/// What is said of a recording beside its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// When it was made. It is written as the second that follows, so that everything in the recording is from
    /// before.
    pub taken_at: Timestamp,
    /// A name of the cluster, for people.
    pub cluster: Option<String>,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// The text of a snapshot, which [`super::read`] reads.
#[must_use]
pub fn text(recording: &Recording, objects: &Objects) -> String {
    let Recording { taken_at, cluster, provenance } = recording;
    let taken_at = second_after(*taken_at);
    let mut text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\ntakenAt: {taken_at}\n");
    if let Some(cluster) = cluster {
        let _ = writeln!(text, "cluster: {}", json!(cluster));
    }
    if *provenance != Provenance::default() {
        let _ = writeln!(text, "provenance: {}", without_nothing(json!(provenance)));
    }
    let documents = documents(objects);
    text.push_str(if documents.is_empty() { "objects: []\n" } else { "objects:\n" });
    for document in documents {
        let _ = writeln!(text, "  - {document}");
    }
    text
}

/// The first whole second that is not before this moment.
fn second_after(at: Timestamp) -> Timestamp {
    let up = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Ceil);
    at.round(up).unwrap_or(at)
}

/// The objects of a snapshot, in its order.
fn documents(objects: &Objects) -> Vec<Value> {
    let Objects {
        nodes,
        pods,
        namespaces,
        // Of these, what somebody waits for.
        volumes: _,
        config_maps,
        priority_classes,
        notebooks,
        hardware_profiles,
        model_servers,
        // Of these there is nothing that could be written down.
        unread_users: _,
        unread_queues: _,
        // Where profiles are published for OpenShift AI is no part of a plan.
        installations: _,
        workloads,
        admission_checks,
        resource_flavors,
        cluster_queues,
        local_queues,
        cluster_policies,
        gpu_cluster,
        policies,
        gpu_nodes,
        owners,
        placed_alone,
        // Sums of pods that are not kept; who records keeps them (`gather`).
        room_taken: _,
        // The memory of a process.
        starting_since: _,
        unserved_quota: _,
        unmade: _,
        menu_differs_since: _,
        menu_was_there: _,
        unknown_owners: _,
        unguarded_agents: _,
        // Neither is planned with: what is told of the one needs no object, the
        // other says where a text stood.
        legacy: _,
        sources: _,
    } = objects;
    let mut all = All { documents: Vec::new(), agents_report: objects.agents_report() };
    all.extend("v1", "Node", nodes.values().map(AsRef::as_ref));
    all.extend("v1", "Namespace", namespaces.values());
    all.extend("scheduling.k8s.io/v1", "PriorityClass", priority_classes.values());
    let volumes = waited_for(objects);
    all.extend("v1", "PersistentVolume", volumes.documents().collect::<Vec<_>>().iter());
    all.extend("v1", "PersistentVolumeClaim", volumes.claim_documents().collect::<Vec<_>>().iter());
    all.extend("v1", "ConfigMap", config_maps.values());
    all.extend("nvidia.com/v1", "ClusterPolicy", cluster_policies.values());
    if *gpu_cluster {
        all.extend("nvidia.com/v1alpha1", "GPUCluster", [&json!({"metadata": {"name": "gpu-cluster"}})]);
    }
    all.extend("infrastructure.opendatahub.io/v1", "HardwareProfile", hardware_profiles.values());
    all.extend("kubeflow.org/v1", "Notebook", notebooks.values().map(AsRef::as_ref));
    for ((kind, _), server) in model_servers {
        let version = if kind == "InferenceService" { "v1beta1" } else { "v1alpha1" };
        all.extend(&format!("serving.kserve.io/{version}"), kind, [server.as_ref()]);
    }
    all.extend("kueue.x-k8s.io/v1beta1", "AdmissionCheck", admission_checks.values());
    all.extend("kueue.x-k8s.io/v1beta1", "ResourceFlavor", resource_flavors.values());
    all.extend("kueue.x-k8s.io/v1beta2", "ClusterQueue", cluster_queues.values());
    all.extend("kueue.x-k8s.io/v1beta2", "LocalQueue", local_queues.values());
    all.extend("kueue.x-k8s.io/v1beta1", "Workload", workloads.values().map(AsRef::as_ref));
    // Who controls a pod is in the pod; who controls that, and how it places its pods, here.
    let mut above: BTreeMap<(&str, &str, &str), Value> = BTreeMap::new();
    for ((kind, namespace, name), owner) in owners.iter() {
        above.insert((kind, namespace, name), json!({"ownerReferences": [owner]}));
    }
    for ((kind, (namespace, name)), topology) in placed_alone {
        let metadata = above.entry((kind, namespace, name)).or_insert_with(|| json!({}));
        metadata["annotations"] = placed_alone::as_annotations(kind, topology);
    }
    for ((kind, namespace, name), mut metadata) in above {
        let api_version = match kind {
            "ReplicaSet" | "StatefulSet" => "apps/v1",
            "Job" => "batch/v1",
            "JobSet" => "jobset.x-k8s.io/v1alpha2",
            "LeaderWorkerSet" => "leaderworkerset.x-k8s.io/v1",
            "RayCluster" => "ray.io/v1",
            _ => continue,
        };
        (metadata["namespace"], metadata["name"]) = (json!(namespace), json!(name));
        all.extend(api_version, kind, [&json!({"metadata": metadata})]);
    }
    all.extend("v1", "Pod", pods.values().map(AsRef::as_ref));
    let policies = policies.values().map(|policy| {
        // What the operator said of a policy follows from the rest.
        api::GpuPartitionPolicy { status: None, ..policy.clone() }
    });
    all.extend(api::API_VERSION, "GpuPartitionPolicy", policies.collect::<Vec<_>>().iter());
    all.extend(api::API_VERSION, "GpuNode", gpu_nodes.values().map(AsRef::as_ref));
    all.documents
}

struct All {
    documents: Vec<Value>,
    /// Then pods that are on a node keep their uids: by these an agent says who holds a slice, and which pod it is
    /// itself.
    agents_report: bool,
}

impl All {
    fn extend<'a, T: Serialize + 'a>(
        &mut self,
        api_version: &str,
        kind: &str,
        objects: impl IntoIterator<Item = &'a T>,
    ) {
        for object in objects {
            let mut value = serde_json::to_value(object).expect("objects are plain data");
            if let Some(fields) = value.as_object_mut() {
                fields.insert("apiVersion".to_owned(), json!(api_version));
                fields.insert("kind".to_owned(), json!(kind));
            }
            let is_named_by_uid = self.agents_report && kind == "Pod" && is_on_a_node(&value);
            self.documents.push(clean(value, is_named_by_uid));
        }
    }
}

fn is_on_a_node(pod: &Value) -> bool {
    pod.pointer("/spec/nodeName").is_some_and(Value::is_string)
}

/// Without what the API server makes anew for each object, without who wrote
/// which field, and without what is empty.
fn clean(mut value: Value, is_named_by_uid: bool) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "managedFields", "generation", "selfLink"] {
            metadata.remove(field);
        }
        if !is_named_by_uid {
            metadata.remove("uid");
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(owner) = owner.as_object_mut() {
                owner.insert("uid".to_owned(), json!(""));
            }
        }
    }
    without_nothing(value)
}

fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nothing(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nothing).collect()),
        other => other,
    }
}
