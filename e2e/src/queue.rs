//! A queue of Kueue that asks our admission check, and jobs that wait in it.

use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use crate::manifests::{POOL, TEAM, pod};
use crate::objects;
use crate::scene::Scene;

/// The label by which something says in which queue it waits.
pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// The check of this queue.
pub const CHECK: &str = "gpu-slices";

/// Who answers it.
pub const CONTROLLER: &str = "slicewright.io/slices";

/// A queue, `research`, that gives so much of each resource and asks our check.
///
/// # Errors
/// When the API server takes no part of it.
pub async fn one_queue(scene: &Scene, quota: &[(&str, u32)]) -> anyhow::Result<()> {
    one_queue_for(scene, json!({"nodeLabels": {POOL: "research"}}), quota).await
}

/// The same, for a flavor like this.
///
/// # Errors
/// When the API server takes no part of it.
pub async fn one_queue_for(scene: &Scene, flavor: Value, quota: &[(&str, u32)]) -> anyhow::Result<()> {
    scene.apply(kueue("AdmissionCheck", CHECK, json!({"controllerName": CONTROLLER}))).await?;
    scene.apply(kueue("ResourceFlavor", "pool", flavor)).await?;
    let mut resources = vec![
        json!({"name": "cpu", "nominalQuota": "1000"}),
        json!({"name": "memory", "nominalQuota": "5000Gi"}),
    ];
    resources
        .extend(quota.iter().map(|(resource, n)| json!({"name": resource, "nominalQuota": n.to_string()})));
    let covered: Vec<Value> = resources.iter().map(|resource| resource["name"].clone()).collect();
    let queue = json!({
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": covered, "flavors": [{"name": "pool", "resources": resources}]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
    });
    scene.apply(kueue("ClusterQueue", "research", queue)).await?;
    let mut local = kueue("LocalQueue", "research", json!({"clusterQueue": "research"}));
    local["metadata"]["namespace"] = json!(TEAM);
    scene.apply(local).await
}

/// The workloads that Kueue makes of what waits there.
///
/// # Errors
/// When the API server does not know them.
pub async fn workloads(scene: &Scene) -> anyhow::Result<Api<DynamicObject>> {
    let mut like = kueue("Workload", "any", json!({}));
    like["metadata"]["namespace"] = json!(TEAM);
    Ok(objects::api_of(&scene.client(), &like).await?.0)
}

/// An object of Kueue.
#[must_use]
pub fn kueue(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A job in that queue, of so many pods that all run at the same time.
#[must_use]
pub fn job(name: &str, resource: &str, pods: u32) -> Value {
    let template = Value::from(pod("unused", resource, 1))["spec"].clone();
    let mut template = json!({"spec": template});
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": TEAM, "labels": {QUEUE: "research"}},
        "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template},
    })
}
