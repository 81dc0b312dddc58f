//! Rounds of the operator over a filled store: how long each takes, its copy of the objects included, and how much
//! memory the process has needed at most.

use std::sync::Arc;
use std::time::Duration;

use controller::store::{Change, Foreign, Item, Source, Store};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use reconcile::{Input, MapRef, Obstacles, Session, Settings, next_round};
use serde_json::{Value, json};

use super::{clock, host, queues};

/// How often each round is played; the shortest counts.
const TIMES: usize = 2;

/// What else a round reads: the layout of the nodes, and a policy that follows requests.
fn put_settings(store: &mut Store) {
    let map = Settings::default().observe.map;
    let layouts = "version: v1\nmig-configs:\n  slicewright-3074d2073e:\n    - devices: all\n      mig-enabled: true\n      \
                   mig-devices: {\"1g.10gb\": 2, \"3g.40gb\": 1}\n";
    let config: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": map.name, "namespace": map.namespace},
        "data": {"config.yaml": layouts}}))
        .expect("a map is built from the parts of one");
    let map = MapRef { namespace: map.namespace, name: map.name };
    fill(store, &Source::Map(map), [Item::config_map(config)]);
    let policy = json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy",
        "metadata": {"name": "research", "uid": "research", "generation": 1, "resourceVersion": "1"},
        "spec": {"nodeSelector": {"matchLabels": {"slicewright.io/pool": "research"}}, "layout": {"type": "DemandDriven"}}});
    fill(store, &Source::Policies, [dynamic(policy)]);
    let operator = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
        "metadata": {"name": "gpu-cluster-policy", "resourceVersion": "1"},
        "spec": {"mig": {"strategy": "mixed"}, "migManager": {"enabled": true, "config": {"name": "slicewright-mig-parted-config"}}}});
    fill(store, &Source::Foreign(Foreign::ClusterPolicy), [dynamic(operator)]);
}

/// An object as it comes through a watch: read within bounds.
fn dynamic(object: Value) -> Item {
    Item::bounded(serde_json::from_value(object).expect("an object of others has a kind and metadata"))
}

fn fill(store: &mut Store, source: &Source, items: impl IntoIterator<Item = Item>) {
    store.expect(source.clone());
    store.take(source, Change::Begin(None));
    for item in items {
        store.take(source, Change::Put(item));
    }
    store.take(source, Change::End);
}

/// Workbenches, workloads and model servers, as their watches bring them.
pub(crate) fn put_queues(store: &mut Store, nodes: usize, alike: queues::Alike) {
    for (foreign, object) in queues::queues() {
        let source = Source::Foreign(foreign);
        store.expect(source.clone());
        store.take(&source, Change::Put(dynamic(object)));
    }
    let pods = || (0..queues::WORKBENCHES).map(|n| n * queues::ONE_IN);
    let workbenches = pods().map(|pod| dynamic(queues::workbench(pod, alike)));
    fill(store, &Source::Foreign(Foreign::Notebook), workbenches);
    let workloads =
        pods().map(|pod| dynamic(queues::workload(pod, &host(pod / queues::ONE_IN % nodes), alike)));
    fill(store, &Source::Foreign(Foreign::Workload), workloads);
    let servers = (0..queues::MODEL_SERVERS).map(|n| dynamic(queues::model_server(n)));
    fill(store, &Source::Foreign(Foreign::InferenceService), servers);
}

/// The n-th pod of a workbench, that waits: in a queue it is gated, and without one the scheduler has found no node.
pub(crate) fn waits(mut pod: Pod, n: usize, in_queue: bool, alike: queues::Alike) -> Pod {
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = None;
    for container in &mut spec.containers {
        for amounts in container.resources.iter_mut().flat_map(|r| [&mut r.requests, &mut r.limits]).flatten()
        {
            if let Some(gpus) = amounts.remove("nvidia.com/mig-1g.10gb") {
                amounts.insert(queues::WAITED_FOR.to_owned(), gpus);
                amounts.insert("memory".to_owned(), Quantity(queues::memory(n, alike)));
            }
        }
    }
    let (gates, reason) = match in_queue {
        true => (json!([{"name": "kueue.x-k8s.io/admission"}]), "SchedulingGated"),
        false => (Value::Null, "Unschedulable"),
    };
    spec.scheduling_gates = serde_json::from_value(gates).expect("gates of a pod");
    pod.status = serde_json::from_value(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
        "status": "False", "reason": reason, "message": "0/1000 nodes are available: 1000 Insufficient nvidia.com/mig-7g.80gb."}]}))
    .expect("the status of a pod");
    pod
}

/// Another version of a pod with a node, in which nothing is different that a round reads.
fn write_a_pod(store: &mut Store) {
    let has_node = |pod: &&mut Arc<Pod>| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let pod = store.objects.pods.values_mut().find(has_node).expect("a pod has a node");
    *pod = Arc::new(Pod::clone(pod));
}

/// What rounds take.
pub(crate) struct Rounds {
    pub(crate) requests: usize,
    /// How many nodes are changed by their agents.
    pub(crate) by_agents: usize,
    pub(crate) first: Duration,
    /// Of the same objects, by an operator that has had the first.
    pub(crate) next: Duration,
    /// After that, when a pod on a node has been written.
    pub(crate) written: Duration,
}

/// Plays rounds as the operator does: over a copy of the objects.
pub(crate) fn play(store: &mut Store, answers_checks: bool) -> Rounds {
    put_settings(store);
    let settings = Settings { answers_checks, ..Settings::default() };
    let now: Timestamp = "2026-11-20T09:00:00Z".parse().expect("a time");
    let (local, mut requests, mut by_agents) = (std::collections::BTreeMap::new(), 0, 0);
    let mut round = |store: &Store, session: &mut Session| {
        let (took, count) = clock::timed(|| {
            let objects = store.objects.clone();
            let input = Input {
                objects: &objects,
                local: &local,
                map_changed: None,
                obstacles: &Obstacles::NONE,
                settings: &settings,
                now,
            };
            let planned = next_round(&input, session).planned;
            let is_agent = |node: &&Arc<observe::NodeView>| node.actuator == observe::Actuator::Agent;
            (planned.report.requests.len(), planned.view.nodes.values().filter(is_agent).count())
        });
        (requests, by_agents) = count;
        took
    };
    let (mut first, mut next, mut written) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..TIMES {
        let mut session = Session::default();
        first = first.min(round(store, &mut session));
        next = next.min(round(store, &mut session));
        write_a_pod(store);
        written = written.min(round(store, &mut session));
    }
    Rounds { requests, by_agents, first, next, written }
}
