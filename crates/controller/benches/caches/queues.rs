//! What people ask for on a large OpenShift AI: workbenches, the workloads of Kueue behind them, and model
//! servers, each as large as its controllers and the dashboard make it.

use controller::store::Foreign;
use serde_json::{Value, json};

use super::{TEAMS, managed_fields};

/// How many of each there are.
pub(crate) const WORKBENCHES: usize = 10_000;
pub(crate) const MODEL_SERVERS: usize = 2_000;
/// Workloads that have their quota and wait for slices. The pods of all others run.
pub(crate) const WAITING: usize = 500;
/// Every so many pods one is a workbench's.
pub(crate) const ONE_IN: usize = 5;
/// What those ask for that wait: nobody has an idle GPU for it.
pub(crate) const WAITED_FOR: &str = "nvidia.com/mig-7g.80gb";

/// How much of what pods are made from is the same.
#[derive(Clone, Copy)]
pub(crate) enum Alike {
    /// As where all come from one hardware profile.
    InAllButNames,
    /// Each asks for another amount of memory.
    InNothing,
}

fn namespace(pod: usize) -> String {
    format!("team-{}", pod % TEAMS)
}

/// The workbench of a pod, and its StatefulSet.
fn name(pod: usize) -> String {
    format!("some-workload-{pod}")
}

/// What a pod asks for of memory.
pub(crate) fn memory(pod: usize, alike: Alike) -> String {
    match alike {
        Alike::InAllButNames => "8Gi".to_owned(),
        Alike::InNothing => format!("{}Ki", (8 << 20) + pod),
    }
}

/// What the pod of a workbench is made from.
fn template(pod: usize, waits: bool, alike: Alike) -> Value {
    let name = name(pod);
    let slice = if waits { WAITED_FOR } else { "nvidia.com/mig-1g.10gb" };
    let amounts = json!({"cpu": "2", "memory": memory(pod, alike), slice: "1"});
    let mut env: Vec<Value> = (0..20)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "https://some.value.example/x"}))
        .collect();
    env.push(json!({"name": "NOTEBOOK_ARGS", "value": "--ServerApp.port=8888 --ServerApp.token='' --ServerApp.password=''"}));
    let probe = |port: u32| {
        json!({"httpGet": {"path": "/api", "port": port, "scheme": "HTTP"},
        "initialDelaySeconds": 10, "periodSeconds": 5, "failureThreshold": 3})
    };
    json!({
        "containers": [
            {"name": name, "image": "registry.example/workbench@sha256:0123456789abcdef0123456789abcdef", "env": env,
                "envFrom": [{"secretRef": {"name": "storage"}}], "ports": [{"containerPort": 8888, "name": "notebook-port"}],
                "resources": {"requests": amounts, "limits": amounts}, "workingDir": "/opt/app-root/src",
                "livenessProbe": probe(8888), "readinessProbe": probe(8888),
                "volumeMounts": [{"name": "home", "mountPath": "/opt/app-root/src"}, {"name": "shm", "mountPath": "/dev/shm"}]},
            {"name": "oauth-proxy", "image": "registry.example/proxy@sha256:0123456789abcdef0123456789abcdef",
                "args": ["--provider=openshift", "--https-address=:8443", "--upstream=http://localhost:8888"],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
                "livenessProbe": probe(8443), "readinessProbe": probe(8443),
                "volumeMounts": [{"name": "tls", "mountPath": "/etc/tls/private"}]},
        ],
        "serviceAccountName": name, "enableServiceLinks": false,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": name}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "tls", "secret": {"secretName": "tls"}}],
    })
}

fn metadata(name: &str, pod: usize, kind: u32) -> Value {
    json!({"name": name, "namespace": namespace(pod), "uid": format!("3000000{kind}-0000-4000-8000-{pod:012}"),
        "resourceVersion": "1234567890", "generation": 3, "creationTimestamp": "2026-11-19T08:00:00Z",
        "managedFields": managed_fields()})
}

/// The workbench of a pod, as the dashboard makes it.
pub(crate) fn workbench(pod: usize, alike: Alike) -> Value {
    let name = name(pod);
    let mut metadata = metadata(&name, pod, 0);
    metadata["labels"] = json!({"app": name, "opendatahub.io/dashboard": "true", "opendatahub.io/odh-managed": "true",
        "opendatahub.io/user": "somebody", "kueue.x-k8s.io/queue-name": "team"});
    metadata["annotations"] = json!({
        "notebooks.kubeflow.org/last-activity": "2026-11-20T08:11:12Z",
        "notebooks.kubeflow.org/last_activity_check_timestamp": "2026-11-20T08:12:12Z",
        "notebooks.opendatahub.io/inject-oauth": "true",
        "notebooks.opendatahub.io/last-image-selection": "jupyter-pytorch-notebook:2026.2",
        "notebooks.opendatahub.io/last-size-selection": "Small",
        "opendatahub.io/hardware-profile-name": "slice-1g-10gb",
        "opendatahub.io/hardware-profile-namespace": "redhat-ods-applications",
        "opendatahub.io/image-display-name": "Jupyter | PyTorch | CUDA | Python 3.12",
        "opendatahub.io/username": "somebody", "openshift.io/display-name": "Some work", "openshift.io/description": "",
    });
    json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": metadata,
        "spec": {"template": {"spec": template(pod, waits(pod), alike)}},
        "status": {"readyReplicas": 1, "conditions": [
            {"type": "Running", "status": "True", "lastProbeTime": "2026-11-20T08:00:00Z", "lastTransitionTime": "2026-11-20T08:00:00Z"},
            {"type": "ContainersReady", "status": "True", "lastProbeTime": "2026-11-20T08:00:00Z"}],
            "containerState": {"running": {"startedAt": "2026-11-20T08:00:00Z"}}}})
}

/// Whether the workload of a pod waits for its slices.
pub(crate) const fn waits(pod: usize) -> bool {
    pod.is_multiple_of(ONE_IN) && pod / ONE_IN < WAITING
}

/// The workload of the StatefulSet of a pod, in Kueue's words.
pub(crate) fn workload(pod: usize, host: &str, alike: Alike) -> Value {
    let (waits, set) = (waits(pod), name(pod));
    let mut metadata = metadata(&format!("statefulset-{set}-0a1b2"), pod, 1);
    metadata["labels"] = json!({"kueue.x-k8s.io/job-uid": format!("20000000-0000-4000-8000-{pod:012}")});
    metadata["finalizers"] = json!(["kueue.x-k8s.io/resource-in-use"]);
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set,
        "uid": format!("20000000-0000-4000-8000-{pod:012}")}]);
    let slice = if waits { WAITED_FOR } else { "nvidia.com/mig-1g.10gb" };
    let condition = |kind: &str, status: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": kind,
        "message": message, "lastTransitionTime": "2026-11-20T08:00:00Z", "observedGeneration": 1})
    };
    let mut conditions = vec![condition("QuotaReserved", "True", "Quota reserved in ClusterQueue research")];
    let mut check = json!({"name": "gpu-slices", "state": "Pending", "lastTransitionTime": "2026-11-20T08:00:00Z",
        "message": "not served: all GPUs of the nodes that it may use are held by others; 8 more would be enough"});
    if !waits {
        conditions.push(condition("Admitted", "True", "The workload is admitted"));
        conditions.push(condition("PodsReady", "True", "All pods reached readiness"));
        check["state"] = "Ready".into();
        check["message"] = format!("its slices are free on {host}").into();
        check["podSetUpdates"] = json!([{"name": "main", "nodeSelector": {"kubernetes.io/hostname": host}}]);
    }
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata,
        "spec": {"active": true, "priority": 0, "queueName": "team", "podSets": [
            {"name": "main", "count": 1, "template": {
                "metadata": {"labels": {"app": set, "statefulset": set, "notebook-name": set}},
                "spec": template(pod, waits, alike)}}]},
        "status": {"conditions": conditions, "admissionChecks": [check], "admission": {"clusterQueue": "research",
            "podSetAssignments": [{"name": "main", "count": 1,
                "flavors": {"cpu": "pool", "memory": "pool", slice: "pool"},
                "resourceUsage": {"cpu": "2100m", "memory": "8256Mi", slice: "1"}}]}}})
}

/// A model server, as the dashboard makes it.
pub(crate) fn model_server(n: usize) -> Value {
    let mut metadata = metadata(&format!("model-{n}"), n, 2);
    metadata["annotations"] = json!({"openshift.io/display-name": "Some model", "security.opendatahub.io/enable-auth": "true",
        "serving.kserve.io/deploymentMode": "RawDeployment",
        "opendatahub.io/hardware-profile-name": "slice-1g-10gb",
        "opendatahub.io/hardware-profile-namespace": "redhat-ods-applications"});
    metadata["labels"] =
        json!({"opendatahub.io/dashboard": "true", "networking.kserve.io/visibility": "exposed"});
    let amounts = json!({"cpu": "2", "memory": "8Gi", "nvidia.com/mig-3g.40gb": "1"});
    json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": metadata,
        "spec": {"predictor": {"minReplicas": 1, "maxReplicas": 1, "model": {"name": "", "runtime": format!("model-{n}"),
            "modelFormat": {"name": "vLLM"}, "args": ["--max-model-len=8192"],
            "resources": {"requests": amounts, "limits": amounts},
            "storage": {"key": "storage", "path": "models/some-model"}}}},
        "status": {"url": "https://model.example", "modelStatus": {"states": {"activeModelState": "Loaded"}},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T08:00:00Z"}]}})
}

/// The queue of all, its check, its flavor, and the queue of each team.
pub(crate) fn queues() -> Vec<(Foreign, Value)> {
    let kueue = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec})
    };
    let covered = ["cpu", "memory", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", WAITED_FOR];
    let quota: Vec<Value> =
        covered.iter().map(|resource| json!({"name": resource, "nominalQuota": "100000000"})).collect();
    let mut all = vec![
        (
            Foreign::AdmissionCheck,
            kueue("AdmissionCheck", "gpu-slices", json!({"controllerName": "slicewright.io/slices"})),
        ),
        (
            Foreign::ResourceFlavor,
            kueue("ResourceFlavor", "pool", json!({"nodeLabels": {"slicewright.io/pool": "research"}})),
        ),
        (
            Foreign::ClusterQueue,
            kueue(
                "ClusterQueue",
                "research",
                json!({"namespaceSelector": {},
            "resourceGroups": [{"coveredResources": covered, "flavors": [{"name": "pool", "resources": quota}]}],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "gpu-slices"}]}}),
            ),
        ),
    ];
    all.extend((0..TEAMS).map(|team| {
        let mut queue = kueue("LocalQueue", "team", json!({"clusterQueue": "research"}));
        queue["metadata"]["namespace"] = format!("team-{team}").into();
        (Foreign::LocalQueue, queue)
    }));
    all
}
