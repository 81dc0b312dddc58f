//! Measures the memory of the trimmed caches: fills a store as the watches do, with objects like those of a
//! large cluster, and prints the resident memory of the process. `cargo bench -p slicewright-controller
//! --bench caches -- NODES PODS PERCENT`.
//!
//! With `reflector` after the numbers the stores are kube's, one for each kind, with the same trimmed
//! objects; with `whole`, they have untrimmed objects. With `rounds`, our store is filled with pods of workbenches,
//! some of which wait, and rounds are played over it; with `queues` as well, the store also has workbenches,
//! Kueue's workloads and model servers; with `unlike` as well, each of these asks for another amount of memory. With
//! `agents`, each node has a node agent, which reports who holds its slices.
//!
//! With `goals`, rounds are played without and with queues, each in processes of their own, and it is said of each goal
//! whether it holds; with `--goals`, the exit status says so, too.
#![expect(clippy::print_stdout, reason = "a bench prints its table")]

mod agents;
#[path = "../../../planner/benches/clock/mod.rs"]
mod clock;
mod goals;
mod queues;
mod rounds;

use std::collections::BTreeMap;
use std::process::ExitCode;

use controller::store::{Change, Item, Source, Store, trim};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use serde_json::{Map, Value, json};

/// How many namespaces have the pods.
const TEAMS: usize = 400;

/// What a node is called, by its number.
fn host(n: usize) -> String {
    format!("worker-{n}.cluster.example.com")
}

fn resident() -> f64 {
    memory("VmRSS:")
}

/// What the kernel says of this process, in MiB.
fn memory(what: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(what));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

fn managed_fields() -> Value {
    let one = json!({"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-11-22T08:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:annotations": {"f:a": {}, "f:b": {}}}}});
    json!([one, one, one])
}

/// A node with the labels that NFD, the GPU Operator and GFD write: some
/// eighty, and with the images and conditions of a kubelet.
fn node(n: usize, has_gpus: bool) -> Node {
    let name = host(n);
    let mut labels = Map::new();
    let mut put = |key: String, value: &str| labels.insert(key, json!(value));
    for (key, value) in [
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node-role.kubernetes.io/worker", ""),
        ("node.openshift.io/os_id", "rhcos"),
        ("topology.kubernetes.io/zone", "zone-a"),
        ("topology.kubernetes.io/region", "region-1"),
        ("node.kubernetes.io/instance-type", "gpu.8xlarge"),
        ("slicewright.io/pool", "research"),
    ] {
        put(key.to_owned(), value);
    }
    put("kubernetes.io/hostname".to_owned(), &name);
    if has_gpus {
        for feature in 0..40 {
            put(format!("feature.node.kubernetes.io/cpu-cpuid.FEATURE{feature}"), "true");
        }
        put("feature.node.kubernetes.io/pci-10de.present".to_owned(), "true");
        for operand in [
            "driver",
            "container-toolkit",
            "device-plugin",
            "gpu-feature-discovery",
            "dcgm",
            "dcgm-exporter",
            "mig-manager",
            "node-status-exporter",
            "operator-validator",
        ] {
            put(format!("nvidia.com/gpu.deploy.{operand}"), "true");
        }
        for (key, value) in [
            ("gpu.present", "true"),
            ("gpu.product", "NVIDIA-A100-SXM4-80GB"),
            ("gpu.count", "8"),
            ("gpu.memory", "81920"),
            ("gpu.family", "ampere"),
            ("gpu.replicas", "0"),
            ("gpu.mode", "compute"),
            ("gpu.sharing-strategy", "none"),
            ("gpu.compute.major", "8"),
            ("gpu.compute.minor", "0"),
            ("mig.capable", "true"),
            ("mig.strategy", "mixed"),
            ("mig.config", "slicewright-3074d2073e"),
            ("mig.config.state", "success"),
            ("cuda.driver-version.full", "595.91.07"),
            ("cuda.driver-version.major", "595"),
            ("cuda.driver-version.minor", "91"),
            ("gfd.timestamp", "1790000000"),
            ("gpu.machine", "DGX-A100"),
        ] {
            put(format!("nvidia.com/{key}"), value);
        }
        for profile in ["1g.10gb", "3g.40gb"] {
            for (key, value) in [
                ("count", "16"),
                ("product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
                ("memory", "9728"),
                ("replicas", "1"),
                ("sharing-strategy", "none"),
                ("multiprocessors", "14"),
                ("slices.gi", "1"),
                ("slices.ci", "1"),
                ("engines.copy", "1"),
                ("engines.decoder", "0"),
                ("engines.encoder", "0"),
                ("engines.jpeg", "0"),
                ("engines.ofa", "0"),
            ] {
                put(format!("nvidia.com/mig-{profile}.{key}"), value);
            }
        }
    }
    let mut has = json!({"cpu": "127500m", "memory": "1031871744Ki", "pods": "250", "ephemeral-storage": "900Gi",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    if has_gpus {
        for (resource, count) in
            [("nvidia.com/gpu", "0"), ("nvidia.com/mig-1g.10gb", "16"), ("nvidia.com/mig-3g.40gb", "8")]
        {
            has[resource] = json!(count);
        }
    }
    let image =
        json!({"names": [format!("registry/image@sha256:{:064}", n), "registry/image:v1"], "sizeBytes": 1});
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "KubeletReady",
        "message": "kubelet is posting ready status", "lastHeartbeatTime": "2026-11-22T08:00:00Z",
        "lastTransitionTime": "2026-11-20T08:00:00Z"})
    };
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition);
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("00000000-0000-4000-8000-{n:012}"), "resourceVersion": "1234567890",
            "creationTimestamp": "2026-11-01T08:00:00Z", "labels": labels, "managedFields": managed_fields(),
            "annotations": {
                "machineconfiguration.openshift.io/currentConfig": "rendered-worker-0123456789abcdef0123456789abcdef",
                "machineconfiguration.openshift.io/desiredConfig": "rendered-worker-0123456789abcdef0123456789abcdef",
                "machineconfiguration.openshift.io/state": "Done",
                "nfd.node.kubernetes.io/feature-labels": "a,b,c", "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            }},
        "spec": {"podCIDR": "10.128.0.0/23", "providerID": "x:///y"},
        "status": {"capacity": has, "allocatable": has, "images": vec![image; 50],
            "conditions": conditions,
            "nodeInfo": {"architecture": "amd64", "bootID": format!("{n:032}"), "containerRuntimeVersion": "cri-o://1.33",
                "kernelVersion": "5.14.0", "kubeProxyVersion": "", "kubeletVersion": "v1.33.5", "machineID": "m",
                "operatingSystem": "linux", "osImage": "rhcos", "systemUUID": "s"}},
    }))
    .expect("a node is built from the parts of one")
}

/// A pod with two containers, of which every fifth one asks for a slice.
fn pod(n: usize, on: usize) -> Pod {
    let asks = n.is_multiple_of(5);
    let owner = if asks { "StatefulSet" } else { "DaemonSet" };
    let container = |name: &str, slice: bool| {
        let mut amounts = json!({"cpu": "500m", "memory": "1Gi"});
        if slice {
            amounts["nvidia.com/mig-1g.10gb"] = json!("1");
        }
        let env: Vec<Value> =
            (0..20).map(|i| json!({"name": format!("VARIABLE_{i}"), "value": "some value"})).collect();
        json!({"name": name, "image": "registry/repository/image@sha256:0123456789abcdef", "env": env,
            "resources": {"requests": amounts, "limits": amounts},
            "volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]})
    };
    let status = |name: &str| {
        json!({"name": name, "ready": true, "restartCount": 0, "image": "i",
        "imageID": "registry/repository/image@sha256:0123456789abcdef", "containerID": "cri-o://0123456789abcdef"})
    };
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-11-20T08:00:00Z"});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    serde_json::from_value(json!({
        "metadata": {"name": format!("some-workload-{n}-0"), "namespace": format!("team-{}", n % TEAMS),
            "uid": format!("10000000-0000-4000-8000-{n:012}"), "resourceVersion": "1234567890",
            "creationTimestamp": "2026-11-20T08:00:00Z", "managedFields": managed_fields(),
            "labels": {"app": "some-workload", "pod-template-hash": "5d4f8c7b9", "controller-revision-hash": "5d4f8c7b9",
                "statefulset": "some-workload", "team": "vision"},
            "annotations": {"k8s.ovn.org/pod-networks": "{\"default\":{\"ip_addresses\":[\"10.128.0.1/23\"]}}",
                "openshift.io/scc": "restricted-v2"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": format!("some-workload-{n}"),
                "uid": format!("20000000-0000-4000-8000-{n:012}"), "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": host(on), "priority": 0,
            "containers": [container("main", asks), container("side", false)],
            "initContainers": [container("init", false)],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]},
        "status": {"phase": "Running", "podIP": "10.128.0.1", "startTime": "2026-11-20T08:00:00Z",
            "conditions": conditions,
            "containerStatuses": [status("main"), status("side")]},
    }))
    .expect("a pod is built from the parts of one")
}

/// Where objects are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// In our store.
    Ours,
    /// In kube's, trimmed by the same functions.
    Reflector,
    /// In kube's, as they come.
    Whole,
}

/// What was kept, and what the process resided in after the nodes and after the
/// pods, in MiB.
struct Filled {
    nodes: usize,
    pods: usize,
    after_nodes: f64,
    after: f64,
}

fn ours(nodes: impl Iterator<Item = Node>, pods: impl Iterator<Item = Pod>) -> Filled {
    let mut store = Store::sparing();
    for source in [Source::Nodes, Source::Pods] {
        store.expect(source);
    }
    store.take(&Source::Nodes, Change::Begin(None));
    for node in nodes {
        store.take(&Source::Nodes, Change::Put(Item::Node(Box::new(trim::node(node)))));
    }
    store.take(&Source::Nodes, Change::End);
    let after_nodes = resident();
    store.take(&Source::Pods, Change::Begin(None));
    for pod in pods {
        store.take(&Source::Pods, Change::Put(Item::Pod(Box::new(trim::pod(pod)))));
    }
    store.take(&Source::Pods, Change::End);
    Filled { nodes: store.objects.nodes.len(), pods: store.pods_kept(), after_nodes, after: resident() }
}

fn reflected(nodes: impl Iterator<Item = Node>, pods: impl Iterator<Item = Pod>) -> Filled {
    let (mut all_nodes, mut all_pods) = (Writer::<Node>::default(), Writer::<Pod>::default());
    all_nodes.apply_watcher_event(&Event::Init);
    for node in nodes {
        all_nodes.apply_watcher_event(&Event::InitApply(node));
    }
    all_nodes.apply_watcher_event(&Event::InitDone);
    let after_nodes = resident();
    all_pods.apply_watcher_event(&Event::Init);
    for pod in pods {
        all_pods.apply_watcher_event(&Event::InitApply(pod));
    }
    all_pods.apply_watcher_event(&Event::InitDone);
    let (nodes, pods) = (all_nodes.as_reader().len(), all_pods.as_reader().len());
    Filled { nodes, pods, after_nodes, after: resident() }
}

/// What there is beside nodes and pods.
#[derive(Clone, Copy)]
struct Beside {
    queues: bool,
    agents: bool,
}

/// Fills our store as a fleet of OpenShift AI does, with or without what asks in it beside pods, and plays rounds.
fn rounds_over(nodes: usize, pods: usize, beside: Beside, alike: queues::Alike) -> goals::Figures {
    let before = resident();
    let has_queues = beside.queues;
    let mut store = Store::sparing();
    for source in [Source::Nodes, Source::Pods] {
        store.expect(source);
    }
    let mut agents = BTreeMap::new();
    store.take(&Source::Nodes, Change::Begin(None));
    for n in 0..nodes {
        let mut node = node(n, true);
        if beside.agents {
            let boot = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            agents.insert(host(n), (boot.map(|info| info.boot_id.clone()).unwrap_or_default(), Vec::new()));
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("nvidia.com/mig.config".to_owned(), rollout::names::HANDED_TO_AGENT.to_owned());
            labels.insert("nvidia.com/gpu.deploy.mig-manager".to_owned(), "false".to_owned());
        }
        store.take(&Source::Nodes, Change::Put(Item::node(node)));
    }
    store.take(&Source::Nodes, Change::End);
    store.take(&Source::Pods, Change::Begin(None));
    // The pods between them, of which only sums are kept, are left out.
    for n in (0..pods).step_by(queues::ONE_IN) {
        let mut pod = pod(n, n / queues::ONE_IN % nodes);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert("notebook-name".to_owned(), format!("some-workload-{n}"));
        let pod = if queues::waits(n) { rounds::waits(pod, n, has_queues, alike) } else { pod };
        let (node, uid) = (pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()), &pod.metadata.uid);
        if let (Some((_, holders)), Some(uid)) = (node.and_then(|node| agents.get_mut(node)), uid) {
            holders.push(uid.clone());
        }
        store.take(&Source::Pods, Change::Put(Item::pod(pod)));
    }
    store.take(&Source::Pods, Change::End);
    if beside.agents {
        agents::put(&mut store, &agents);
    }
    if has_queues {
        rounds::put_queues(&mut store, nodes, alike);
    }
    let filled = resident();
    println!("filled: {:.0} MiB", filled - before);
    let played = rounds::play(&mut store, has_queues);
    let most = memory("VmHWM:") - before;
    let objects = &store.objects;
    println!(
        "| nodes | pods | workbenches | workloads | model servers | agents | requests | filled, MiB | most, MiB | first round | next round | after a pod was written |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {:.0} | {:.0} | {:.2?} | {:.2?} | {:.2?} |",
        objects.nodes.len(),
        store.pods_kept(),
        objects.notebooks.len(),
        objects.workloads.len(),
        objects.model_servers.len(),
        played.by_agents,
        played.requests,
        filled - before,
        most,
        played.first,
        played.next,
        played.written,
    );
    goals::Figures { most, first: played.first, next: played.next, written: played.written }
}

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|arg| arg.parse().ok()).collect();
    let [nodes, pods, percent] = match numbers[..] {
        [nodes, pods, percent] => [nodes, pods, percent],
        [nodes, pods] => [nodes, pods, 100],
        _ => [15_000, 150_000, 100],
    };
    let is_said = |word: &str| arguments.iter().any(|argument| argument == word);
    if is_said("goals") || is_said("--goals") {
        let goals = goals::judge(&arguments);
        let all = goals.iter().all(goals::Goal::holds);
        goals.iter().for_each(|goal| println!("{goal}"));
        return if all || !is_said("--goals") { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if is_said("rounds") {
        let alike = if is_said("unlike") { queues::Alike::InNothing } else { queues::Alike::InAllButNames };
        let beside = Beside { queues: is_said("queues"), agents: is_said("agents") };
        let figures = rounds_over(nodes, pods, beside, alike);
        if is_said(goals::FIGURES) {
            println!("{}", figures.line());
        }
        return ExitCode::SUCCESS;
    }
    let kept = match (is_said("reflector"), is_said("whole")) {
        (true, _) => Kept::Reflector,
        (_, true) => Kept::Whole,
        _ => Kept::Ours,
    };
    let before = resident();
    let all_nodes = (0..nodes).map(|n| node(n, n % 100 < percent));
    let all_pods = (0..pods).map(|n| pod(n, n % nodes));
    let (store, filled) = match kept {
        Kept::Ours => ("ours", ours(all_nodes, all_pods)),
        Kept::Reflector => ("reflector", reflected(all_nodes.map(trim::node), all_pods.map(trim::pod))),
        Kept::Whole => ("reflector, whole objects", reflected(all_nodes, all_pods)),
    };
    let Filled { nodes: kept_nodes, pods: kept_pods, after_nodes, after } = filled;
    println!(
        "| store | nodes | with GPUs | pods | kept nodes | kept pods | before, MiB | nodes, MiB | pods, MiB | resident, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    println!(
        "| {store} | {nodes} | {percent} % | {pods} | {kept_nodes} | {kept_pods} | {before:.0} | {:.0} | {:.0} | {after:.0} |",
        after_nodes - before,
        after - after_nodes,
    );
    ExitCode::SUCCESS
}
