//! What the commands that read a cluster know of the admission policy of the agents: the operator believes no agent where
//! it is missing, so a command that believed one would promise what nobody does. The API server is a table of answers.

use std::collections::BTreeMap;

use cli::exit::Status;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const BINDING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/slicewright-agent";
const POLICY: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/slicewright-agent";

const GPU_NODES: &str = "/apis/slicewright.io/v1alpha1/gpunodes";

/// Three nodes with eight GPUs, each cut into halves by its agent. On each, one notebook computes.
fn fleet() -> BTreeMap<String, Value> {
    let nodes = ["a1", "a2", "a3"];
    let kinds = |of: &str, names: &[(&str, &str)]| {
        let kind = |(name, kind): &(&str, &str)| json!({"name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["list"]});
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": of, "resources": names.iter().map(kind).collect::<Vec<_>>()})
    };
    let ours = "/apis/slicewright.io/v1alpha1";
    let answers = [
        (
            "/version",
            json!({
                "major": "1", "minor": "33", "gitVersion": "v1.33.5", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            }),
        ),
        (
            ours,
            kinds(
                "slicewright.io/v1alpha1",
                &[("gpunodes", "GpuNode"), ("gpupartitionpolicies", "GpuPartitionPolicy")],
            ),
        ),
        (GPU_NODES, list("GpuNodeList", nodes.map(reported).into())),
        (&format!("{ours}/gpupartitionpolicies"), list("GpuPartitionPolicyList", vec![policy()])),
        ("/api/v1/nodes", list("NodeList", nodes.map(node).into())),
        (
            "/api/v1/pods",
            list(
                "PodList",
                nodes.iter().flat_map(|node| [notebook(node), agent(node)]).chain([waits()]).collect(),
            ),
        ),
        ("/api/v1/namespaces", list("PartialObjectMetadataList", Vec::new())),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", list("PriorityClassList", Vec::new())),
        ("/api/v1/persistentvolumeclaims", list("PersistentVolumeClaimList", Vec::new())),
        ("/api/v1/persistentvolumes", list("PersistentVolumeList", Vec::new())),
        ("/api/v1/namespaces/nvidia-gpu-operator/configmaps", list("ConfigMapList", Vec::new())),
        (
            POLICY,
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": "slicewright-agent"}, "spec": {"validations": [{"expression": "false"}]},
            }),
        ),
        (
            BINDING,
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": "slicewright-agent"},
                "spec": {"policyName": "slicewright-agent", "validationActions": ["Deny"]},
            }),
        ),
    ];
    answers.map(|(path, answer)| (path.to_owned(), answer)).into()
}

fn list(kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items})
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {
            "kubernetes.io/hostname": name, "pool": "research", "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "8",
            "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.config": rollout::names::HANDED_TO_AGENT,
        }},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/mig-3g.40gb": "16"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": "b-1"},
        },
    })
}

/// What the agent of a node wrote: sixteen halves, of which the first is held.
fn reported(node: &str) -> Value {
    let half = |gpu: u8, start: u8| {
        let is_held = (gpu, start) == (0, 0);
        let holders = if is_held {
            json!([{"uid": format!("uid-train-{node}"), "container": "main"}])
        } else {
            json!([])
        };
        json!({
            "profile": "3g.40gb", "start": start, "used": if is_held { "InUse" } else { "Idle" },
            "devices": [format!("MIG-{node}-{gpu}-{start}")], "holders": holders,
        })
    };
    let gpu = |gpu: u8| {
        json!({
            "index": gpu, "model": "A100-80GB", "uuid": format!("GPU-{node}-{gpu}"), "migEnabled": true,
            "slices": [half(gpu, 0), half(gpu, 4)],
        })
    };
    let at = "2026-11-21T08:59:00Z";
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": node}, "spec": {},
        "status": {
            "observed": {"by": "Agent", "at": at, "bootId": "b-1", "gpus": (0..8).map(gpu).collect::<Vec<_>>()},
            "agent": {
                "podUid": format!("uid-agent-{node}"), "bootId": "b-1", "version": "9.8.7", "mode": "Change", "report": 7,
                "at": at,
            },
        },
    })
}

fn agent(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "slicewright-agent", "name": format!("agent-{node}"), "uid": format!("uid-agent-{node}"),
            "labels": {"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "uid-agents", "controller": true,
            }],
        },
        "spec": {"nodeName": node, "containers": [{"name": "agent"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn pod(name: &str, profile: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "vision", "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-11-21T08:00:00Z",
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": {profile: "1"}}}]},
    })
}

fn notebook(node: &str) -> Value {
    let mut pod = pod(&format!("train-{node}"), "nvidia.com/mig-3g.40gb");
    pod["spec"]["nodeName"] = node.into();
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn waits() -> Value {
    let mut pod = pod("lab", "nvidia.com/mig-1g.10gb");
    pod["status"] = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb.",
    }]});
    pod
}

fn policy() -> Value {
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy", "metadata": {"name": "research"},
        "spec": {"nodeSelector": {"matchLabels": {"pool": "research"}}, "layout": {"type": "DemandDriven"}},
    })
}

fn refused(code: u16, reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no",
    }))
}

/// A cluster that a command reads as people do: by a kubeconfig.
struct Cluster {
    server: MockServer,
    runtime: Runtime,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// `says` is what it answers of the admission policy where that is not what the chart installs.
    fn new(says: impl Fn(&str) -> Option<ResponseTemplate> + Send + Sync + 'static) -> Self {
        let runtime = Runtime::new().unwrap();
        let fleet = fleet();
        let answer = move |request: &Request| {
            let path = request.url.path();
            says(path).unwrap_or_else(|| match fleet.get(path) {
                Some(found) => ResponseTemplate::new(200).set_body_json(found),
                None => refused(404, "NotFound"),
            })
        };
        let server = runtime.block_on(async {
            let server = MockServer::start().await;
            Mock::given(method("GET")).respond_with(answer).mount(&server).await;
            server
        });
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [
                {"name": "lab", "cluster": {"server": server.uri()}},
                {"name": "attic", "cluster": {"server": "http://127.0.0.1:1"}},
            ],
            "users": [{"name": "me", "user": {}}],
            // The other one answers nothing: its port is of no server.
            "contexts": [
                {"name": "lab", "context": {"cluster": "lab", "user": "me"}},
                {"name": "attic", "context": {"cluster": "attic", "user": "me"}},
            ],
        });
        std::fs::write(folder.path().join("config"), kubeconfig.to_string()).unwrap();
        Self { server, runtime, folder }
    }

    /// What a command says.
    #[track_caller]
    fn says(&self, command: &[&str]) -> String {
        let (status, out, err) = self.run(command);
        assert!(matches!(status, Status::Success | Status::Changes), "{command:?}: {err}\n{out}");
        out + &err
    }

    fn run(&self, command: &[&str]) -> (Status, String, String) {
        let kubeconfig = self.folder.path().join("config").display().to_string();
        let words = ["slicewright"].into_iter().chain(command.iter().copied());
        let words = words.chain(["--kubeconfig", &kubeconfig]).map(Into::into);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = cli::run(words, &mut out, &mut err);
        (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    /// The picture of the fleet as it is given to programs.
    #[track_caller]
    fn fleet(&self) -> Value {
        serde_json::from_str(&self.says(&["fleet", "-o", "json"])).unwrap()
    }

    /// Whether anybody asked about the admission policy.
    fn is_asked_for_it(&self) -> bool {
        let asked = self.runtime.block_on(self.server.received_requests()).unwrap();
        asked.iter().any(|request| request.url.path().starts_with(ADMISSION))
    }
}

/// Why each node is held, and how many of its slices are idle.
fn held_and_idle(fleet: &Value) -> Vec<(Option<&str>, usize)> {
    let idle = |node: &Value| {
        let slices =
            node["gpus"].as_array().unwrap().iter().flat_map(|gpu| gpu["slices"].as_array().unwrap());
        slices.filter(|slice| slice["state"] == "idle").count()
    };
    fleet["nodes"].as_array().unwrap().iter().map(|node| (node["held"].as_str(), idle(node))).collect()
}

#[test]
fn a_command_that_reads_a_cluster_believes_its_agents_where_the_operator_does() {
    let cluster = Cluster::new(|_| None);
    let fleet = cluster.fleet();
    assert_eq!(held_and_idle(&fleet), [(None, 15); 3], "{fleet:#}");
    assert_eq!(fleet["problems"], json!([]));
}

#[test]
fn where_the_operator_believes_no_agent_no_slice_is_shown_as_idle_and_every_node_is_held() {
    let audits = || {
        ResponseTemplate::new(200).set_body_json(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "slicewright-agent"},
            "spec": {"policyName": "slicewright-agent", "validationActions": ["Audit"]},
        }))
    };
    for cluster in [
        Cluster::new(|path| (path == POLICY).then(|| refused(404, "NotFound"))),
        Cluster::new(|path| (path == BINDING).then(|| refused(404, "NotFound"))),
        Cluster::new(move |path| (path == BINDING).then(audits)),
    ] {
        let fleet = cluster.fleet();
        let seen = held_and_idle(&fleet);
        assert_eq!(seen.len(), 3);
        for (held, idle) in seen {
            let held = held.unwrap_or_default();
            assert!(held.ends_with("since the admission policy of the agents is not seen"), "{held}");
            assert_eq!(idle, 0, "{fleet:#}");
        }
    }
}

/// Many who may plan may not read what is admitted. They get the plan of an operator that believes its agents.
#[test]
fn who_may_not_read_the_admission_policy_is_told_that_the_operator_may_see_it_otherwise() {
    let cluster = Cluster::new(|path| path.starts_with(ADMISSION).then(|| refused(403, "Forbidden")));
    let fleet = cluster.fleet();
    assert_eq!(held_and_idle(&fleet), [(None, 15); 3], "{fleet:#}");
    let [problem] = fleet["problems"].as_array().unwrap().as_slice() else { panic!("{fleet:#}") };
    let problem = problem.as_str().unwrap();
    assert!(
        problem.contains("it is not known whether the operator acts upon what node agents report"),
        "{problem}"
    );
}

#[test]
fn each_command_that_plans_for_a_cluster_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("research.yaml");
    std::fs::write(&file, policy().to_string()).unwrap();
    let file = file.display().to_string();
    for command in [
        &["fleet"][..],
        &["plan", "-f", &file],
        &["explain", "node", "a2"],
        &["explain", "pod", "vision/lab"],
        &["profiles", "export"],
    ] {
        let cluster = Cluster::new(|_| None);
        cluster.says(command);
        assert!(cluster.is_asked_for_it(), "{command:?}");
    }
}

#[test]
fn where_no_agent_reports_nobody_asks_for_it() {
    let cluster = Cluster::new(|path| {
        (path == GPU_NODES).then(|| ResponseTemplate::new(200).set_body_json(list("GpuNodeList", Vec::new())))
    });
    cluster.says(&["fleet"]);
    assert!(!cluster.is_asked_for_it());
}

/// Whoever has several clusters names one, and reads no other.
#[test]
fn a_context_names_the_cluster_that_is_read() {
    let cluster = Cluster::new(|_| None);
    // The kubeconfig's own choice is "lab".
    let current = cluster.says(&["fleet"]);
    assert_eq!(cluster.says(&["fleet", "--context", "lab"]), current);
    let asked = || cluster.runtime.block_on(cluster.server.received_requests()).unwrap().len();
    let before = asked();
    let (status, out, err) = cluster.run(&["fleet", "--context", "attic", "--timeout", "1"]);
    assert!(status == Status::Negative && out.is_empty(), "{status:?}: {out}");
    assert!(err.starts_with("error: failed to read the cluster: "), "{err}");
    assert_eq!(asked(), before, "the other cluster was asked");
    let (status, _, err) = cluster.run(&["fleet", "--context", "cellar"]);
    assert!(status == Status::Data && err.contains("cellar"), "{status:?}: {err}");
    assert_eq!(asked(), before);
}
