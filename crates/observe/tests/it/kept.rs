//! What was read of a node is kept for the next round, and is read again as soon as anything changes that it rests
//! on. Each step is compared with a reading for which nothing was kept.

use std::sync::Arc;

use api::GpuNode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use mig::Catalog;
use observe::{ClusterView, Objects, Readings, Settings, manifest};
use planner::inventory::{Hold, Room};
use serde_json::{Value, json};

use crate::words::{cut, node, now, pod, policy};

/// What an operator that runs all the time has.
struct Running {
    objects: Objects,
    settings: Settings,
    now: Timestamp,
    readings: Readings,
}

impl Running {
    /// Three nodes, each with a pod that holds a slice.
    fn new() -> Self {
        let mut running = Self {
            objects: Objects::default(),
            settings: Settings::default(),
            now: now(),
            readings: Readings::default(),
        };
        running.put(&policy("research"));
        for name in ["n1", "n2", "n3"] {
            running.put(&cut(node(name), "all-1g.10gb", &[("mig-1g.10gb", 14)]));
            running.put(&pod("a", &format!("on-{name}"), &[("mig-1g.10gb", 1)], Some(name)));
        }
        assert_eq!(running.read(), 3, "at first, each node is read");
        assert_eq!(running.read(), 0, "and then none, since nothing has changed");
        running
    }

    fn put(&mut self, object: &Value) {
        let mut problems = Vec::new();
        manifest::read(&mut self.objects, "test.yaml", &object.to_string(), &mut problems);
        assert_eq!(problems, [], "the object can be read");
    }

    /// How many nodes were read to know what is there now.
    #[track_caller]
    fn read(&mut self) -> u64 {
        let before = self.readings.made();
        self.seen();
        self.readings.made() - before
    }

    /// What is there now.
    #[track_caller]
    fn seen(&mut self) -> ClusterView {
        let Self { objects, settings, now, readings } = self;
        let kept = observe::observe_next(objects, Catalog::builtin(), settings, *now, readings);
        let anew = observe::observe(objects, Catalog::builtin(), settings, *now);
        assert_eq!(format!("{kept:?}"), format!("{anew:?}"), "what was kept changes nothing");
        kept
    }

    /// Who asks now: the requests, and the workloads that wait for a check of ours or have passed it.
    #[track_caller]
    fn who_asks(&mut self) -> (Vec<String>, usize) {
        let seen = self.seen();
        (seen.requests.iter().map(|request| request.id.to_string()).collect(), seen.queued.len())
    }

    fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Node)) {
        edit(Arc::make_mut(self.objects.nodes.get_mut(name).expect("the node")));
    }

    fn edit_pod(&mut self, name: &str, edit: impl FnOnce(&mut Pod)) {
        edit(Arc::make_mut(self.objects.pods.get_mut(&("a".to_owned(), name.to_owned())).expect("the pod")));
    }

    fn hold_of(&self, name: &str) -> Option<Hold> {
        let seen = observe::observe(&self.objects, Catalog::builtin(), &self.settings, self.now);
        crate::words::node_of(&seen, name).hold.clone()
    }
}

fn gpu_node(name: &str, progress: Value) -> Value {
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": name}, "spec": {},
        "status": {"rollout": {"phase": "Idle", "progress": progress}},
    })
}

#[test]
fn a_node_is_read_again_when_one_of_its_own_objects_changes() {
    let mut running = Running::new();
    running.edit_node("n2", |node| node.spec.get_or_insert_default().unschedulable = Some(true));
    assert_eq!(running.read(), 1, "the node");
    running
        .edit_pod("on-n3", |pod| pod.metadata.deletion_timestamp = pod.metadata.creation_timestamp.clone());
    assert_eq!(running.read(), 1, "its pod");
    running.put(&pod("a", "another", &[("mig-1g.10gb", 2)], Some("n1")));
    assert_eq!(running.read(), 1, "a pod that came");
    running.objects.pods.remove(&("a".to_owned(), "another".to_owned()));
    assert_eq!(running.read(), 1, "a pod that went");
    running.put(&pod("a", "another", &[("mig-1g.10gb", 2)], None));
    assert_eq!(running.read(), 0, "a pod that has no node");
    running.put(&gpu_node("n1", json!({"phase": "Idle"})));
    assert_eq!(running.read(), 1, "a GpuNode that came");
    running.put(&gpu_node("n1", json!({"phase": "Failed"})));
    assert_eq!(running.read(), 1, "and changed");
    running.objects.gpu_nodes.clear();
    assert_eq!(running.read(), 1, "and went");
    running.objects.room_taken.insert("n2".to_owned(), Room { cpu_milli: 1000, ..Room::ZERO });
    assert_eq!(running.read(), 1, "the sum of pods that are not kept one by one");
    assert_eq!(running.read(), 0);
}

/// A pod in the place of another on the same node is another one, and so is a node of the same name.
#[test]
fn what_takes_the_place_of_another_is_read() {
    let mut running = Running::new();
    let key = |name: &str| ("a".to_owned(), name.to_owned());
    running.objects.pods.remove(&key("on-n1"));
    running.put(&pod("a", "on-n1", &[("mig-1g.10gb", 3)], Some("n1")));
    assert_eq!(running.read(), 1);
    running.edit_pod("on-n1", |pod| pod.spec.get_or_insert_default().node_name = Some("n2".to_owned()));
    assert_eq!(running.read(), 2, "the node that it left, and the one that it is on");
    running.objects.nodes.remove("n3");
    assert_eq!(running.read(), 0);
    running.put(&cut(node("n3"), "all-1g.10gb", &[("mig-1g.10gb", 13)]));
    assert_eq!(running.read(), 1, "nothing is kept of a node that was gone");
}

#[test]
fn every_node_is_read_again_when_what_is_common_to_all_changes() {
    let mut running = Running::new();
    let mut other = policy("research");
    other["spec"]["layout"] =
        json!({"type": "Static", "static": {"gpus": [{"slices": [{"profile": "3g.40gb", "count": 2}]}]}});
    running.put(&other);
    assert_eq!(running.read(), 3, "a policy");
    running.put(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-mig-config", "namespace": "nvidia-gpu-operator"},
        "data": {"config.yaml": "version: v1\nmig-configs:\n  all-1g.10gb:\n    - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}\n"},
    }));
    assert_eq!(running.read(), 3, "a map of layouts");
    running.put(&json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": {"mig": {"strategy": "single"}}}));
    assert_eq!(running.read(), 3, "the GPU Operator's settings");
    running.put(&json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": {"mig": {"strategy": ""}}}));
    assert_eq!(running.read(), 3, "which leave it to the nodes now");
    running.edit_node("n1", |node| {
        node.metadata
            .labels
            .get_or_insert_default()
            .insert("nvidia.com/mig.strategy".to_owned(), "single".to_owned());
    });
    assert_eq!(running.read(), 3, "what those say stands for one that says nothing");
    running.objects.gpu_cluster = true;
    assert_eq!(running.read(), 3, "who manages the devices");
    running.objects.unguarded_agents = Some("nobody keeps agents from it".to_owned());
    assert_eq!(running.read(), 3, "whether agents are believed");
    running.settings.gpu_operator_namespace = "gpu-operator".to_owned();
    assert_eq!(running.read(), 3, "where the GPU Operator is");
    assert_eq!(running.read(), 0);
}

#[test]
fn what_is_so_until_a_moment_is_read_again_when_that_moment_has_come() {
    let mut running = Running::new();
    let minute = SignedDuration::from_mins(1);
    running.put(&gpu_node("n1", json!({"phase": "Idle", "cooldownUntil": now() + minute})));
    assert_eq!(running.read(), 1);
    running.now += minute / 2;
    assert_eq!(running.read(), 0, "it cools down still");
    assert!(matches!(running.hold_of("n1"), Some(Hold::CoolingDown { .. })));
    running.now += minute / 2;
    assert_eq!(running.read(), 1, "it has cooled down");
    assert_eq!(running.hold_of("n1"), None);
    running.now += minute;
    assert_eq!(running.read(), 0, "nothing else comes by time alone");
    running.now -= minute * 2;
    assert_eq!(running.read(), 3, "a clock that was put back says nothing of what was read by it");
    assert!(matches!(running.hold_of("n1"), Some(Hold::CoolingDown { .. })));
}

/// A device plugin that restarts is given a while. After that, what the agent reports is doubted.
#[test]
fn what_is_so_from_a_moment_on_is_read_again_when_that_moment_has_come() {
    let mut running = Running::new();
    running.put(&gpu_node("n2", json!({"phase": "Idle", "offersOtherwiseSince": now()})));
    assert_eq!(running.read(), 1);
    let soon = rollout::Settings::default().stable_for;
    running.now += soon / 2;
    assert_eq!(running.read(), 0);
    running.now += soon / 2;
    assert_eq!(running.read(), 1);
    running.now += soon;
    assert_eq!(running.read(), 0);
}

/// They may be very many in the life of a cluster that grows and shrinks.
#[test]
fn nothing_is_kept_of_nodes_that_are_gone() {
    let mut running = Running::new();
    running.objects.nodes.remove("n3");
    assert_eq!(running.read(), 0);
    assert_eq!(running.readings.kept(), 2);
}

/// What is read of a `GpuNode` is its record, which is in its status.
#[test]
fn the_objects_that_readings_are_kept_of_are_let_go_with_them() {
    let mut running = Running::new();
    running.put(&gpu_node("n1", json!({"phase": "Idle"})));
    let before: Arc<GpuNode> = Arc::clone(&running.objects.gpu_nodes["n1"]);
    running.read();
    running.put(&gpu_node("n1", json!({"phase": "Idle"})));
    running.read();
    assert_eq!(Arc::strong_count(&before), 1, "nobody else has it");
}

/// A job's workload in a queue, with these conditions, and with a check of ours that says so.
fn workload(name: &str, conditions: &[&str], check: &str) -> Value {
    let is = |kind: &&str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "",
        "lastTransitionTime": "2026-11-21T08:59:30Z"})
    };
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"namespace": "a", "name": name, "creationTimestamp": "2026-11-21T08:59:00Z"},
        "spec": {"queueName": "research", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}}]},
        "status": {
            "conditions": conditions.iter().map(is).collect::<Vec<_>>(),
            "admission": {"clusterQueue": "research", "podSetAssignments": [{"name": "main", "count": 1}]},
            "admissionChecks": [{"name": "gpu-slices", "state": check, "message": "",
                "lastTransitionTime": "2026-11-21T08:59:20Z"}],
        },
    })
}

#[test]
fn whoever_asks_is_read_again_when_it_changes() {
    let mut running = Running::new();
    running.put(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}}));
    running.put(&workload("m", &["QuotaReserved"], "Pending"));
    assert_eq!(running.who_asks(), (vec!["Workload a/m".to_owned()], 1), "it has quota");
    running.put(&workload("m", &["QuotaReserved", "Evicted"], "Pending"));
    assert_eq!(running.who_asks(), (vec![], 0), "and is evicted");
    running.put(&workload("m", &["QuotaReserved"], "Retry"));
    assert_eq!(running.who_asks(), (vec![], 0), "its check has said its last word");
    running.put(&workload("m", &["QuotaReserved"], "Ready"));
    let seen = running.seen();
    assert!(seen.queued.values().all(|of| of.checks[0].is_ready && !of.is_admitted), "{:?}", seen.queued);
    running.put(&workload("m", &["QuotaReserved", "Admitted"], "Ready"));
    assert!(running.seen().queued.values().all(|of| of.is_admitted));
    running.put(&workload("c", &["QuotaReserved"], "Pending"));
    running.put(&workload("x", &["QuotaReserved"], "Pending"));
    assert_eq!(running.who_asks().1, 3, "those beside it came: one before it, one behind it");
    running.objects.workloads.remove(&("a".to_owned(), "c".to_owned()));
    assert_eq!(running.who_asks().1, 2, "one went, and the others stand elsewhere");
    running.put(&workload("x", &["QuotaReserved", "Finished"], "Ready"));
    assert_eq!(running.who_asks().1, 1, "one has ended");

    let lab = |annotations: Value| {
        json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"namespace": "a", "name": "lab", "annotations": annotations},
            "spec": {"template": {"spec": {"containers": [{"name": "lab",
                "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}}})
    };
    running.put(&lab(json!({})));
    assert!(running.seen().starting.contains_key(&("a".to_owned(), "lab".to_owned())));
    running.put(&lab(json!({"kubeflow-resource-stopped": "2026-11-21T08:00:00Z"})));
    assert!(running.seen().starting.is_empty(), "it is stopped");
}

/// How many namespaces were read again.
#[track_caller]
fn again(running: &mut Running) -> u64 {
    let before = running.readings.made_of_namespaces();
    running.seen();
    running.readings.made_of_namespaces() - before
}

/// A fleet with two namespaces in which somebody waits, beside the one of the pods that run.
fn with_tenants() -> Running {
    let mut running = Running::new();
    running.put(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}}));
    running.put(&pod("b", "waits", &[("mig-3g.40gb", 1)], None));
    running.put(&workload("w", &["QuotaReserved"], "Pending"));
    running.put(&pod("c", "waits", &[("mig-3g.40gb", 1)], None));
    again(&mut running);
    assert_eq!(again(&mut running), 0, "nothing has changed");
    running
}

#[test]
fn a_namespace_is_read_again_when_something_of_its_own_changes() {
    let mut running = with_tenants();
    let in_order = ["Pod b/waits", "Pod c/waits", "Workload a/w"].map(str::to_owned);
    assert_eq!(running.who_asks().0, in_order, "whatever their namespaces");
    running.put(&pod("b", "another", &[("mig-3g.40gb", 1)], None));
    assert_eq!(again(&mut running), 1, "a pod that came");
    running.put(&pod("b", "another", &[("mig-2g.20gb", 1)], None));
    assert_eq!(again(&mut running), 1, "another one of its name");
    running.objects.pods.remove(&("b".to_owned(), "another".to_owned()));
    assert_eq!(again(&mut running), 1, "and went");
    running.put(&workload("w", &["QuotaReserved"], "Ready"));
    assert_eq!(again(&mut running), 1, "a workload");
    running.put(&json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "metadata": {"namespace": "b", "name": "off",
        "annotations": {"kubeflow-resource-stopped": "2026-11-21T08:00:00Z"}}, "spec": {"template": {"spec": {"containers": []}}}}));
    assert_eq!(again(&mut running), 1, "a workbench that is stopped");
    running.put(&json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "c", "labels": {"team": "vision"}}}));
    assert_eq!(again(&mut running), 1, "labels of the namespace");
    running.put(&json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "c", "name": "rs",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": true}]}}));
    assert_eq!(again(&mut running), 1, "who controls whom");
    running.objects.owners.remove("ReplicaSet", &("c".to_owned(), "rs".to_owned()));
    assert_eq!(again(&mut running), 1, "and that nobody does any more");
    assert_eq!(again(&mut running), 0);
}

#[test]
fn every_namespace_is_read_again_when_what_is_common_to_all_changes() {
    let mut running = with_tenants();
    running.put(&json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 100, "globalDefault": true}));
    assert_eq!(again(&mut running), 3, "a priority class");
    running.put(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
        "metadata": {"name": "gpus"}, "spec": {}}));
    assert_eq!(again(&mut running), 3, "a flavor");
    running.objects.admission_checks.clear();
    assert_eq!(again(&mut running), 3, "a check");
    running.objects.volumes.claims.insert(("b".to_owned(), "data".to_owned()), "pv".to_owned());
    assert_eq!(again(&mut running), 3, "a claim");
    running.objects.unknown_owners.insert(("Job".to_owned(), ("b".to_owned(), "job".to_owned())));
    assert_eq!(again(&mut running), 3, "an owner of whom nobody could say who stands above");
    running.objects.unread_queues.insert("workloads.kueue.x-k8s.io".to_owned(), vec!["v9".to_owned()]);
    assert_eq!(again(&mut running), 3, "queues that cannot be read");
    running.settings.blocked_after += SignedDuration::from_secs(1);
    assert_eq!(again(&mut running), 3, "a setting");
    assert_eq!(again(&mut running), 0);
    running.put(&cut(node("n4"), "all-1g.10gb", &[("mig-1g.10gb", 14)]));
    assert_eq!(again(&mut running), 0, "as many requests fit by numbers as before: 64 at least");
    for n in 5..9 {
        running.put(&cut(node(&format!("n{n}")), "all-1g.10gb", &[("mig-1g.10gb", 14)]));
    }
    assert_eq!(again(&mut running), 3, "more fit");
    running.now -= SignedDuration::from_secs(1);
    assert_eq!(again(&mut running), 3, "a clock that is put back");
}

/// The pods of an admitted workload are made within moments. After that nothing is kept for them.
#[test]
fn a_namespace_is_read_again_when_time_changes_what_it_says() {
    let mut running = with_tenants();
    running.put(&workload("w", &["QuotaReserved", "Admitted"], "Ready"));
    assert_eq!(again(&mut running), 1);
    assert_eq!(running.seen().requests.len(), 3, "its pod is to come");
    let admitted: Timestamp = "2026-11-21T08:59:30Z".parse().unwrap();
    running.now = admitted + running.settings.blocked_after - SignedDuration::from_nanos(1);
    assert_eq!(again(&mut running), 0, "it may come still");
    running.now = admitted + running.settings.blocked_after;
    assert_eq!(again(&mut running), 1, "it has not come");
    assert_eq!(running.seen().requests.len(), 2);
    running.now += SignedDuration::from_hours(1);
    assert_eq!(again(&mut running), 0);
}

/// What is remembered of it, and its hardware profile, are not compared.
#[test]
fn a_namespace_in_which_a_workbench_starts_is_read_in_each_round() {
    let mut running = with_tenants();
    running.put(&json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"namespace": "b", "name": "lab", "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"template": {"spec": {"containers": [{"name": "lab",
            "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}}}}));
    assert_eq!(again(&mut running), 1);
    let key = ("b".to_owned(), "lab".to_owned());
    let since = running.now - SignedDuration::from_mins(5);
    running.objects.starting_since.insert(key.clone(), since);
    assert_eq!(running.seen().starting[&key], since);
    assert_eq!(again(&mut running), 1);
}

/// They may be very many in the life of a cluster.
#[test]
fn nothing_is_kept_of_namespaces_that_are_gone() {
    let mut running = with_tenants();
    let before = Arc::clone(&running.objects.pods[&("c".to_owned(), "waits".to_owned())]);
    running.objects.pods.remove(&("c".to_owned(), "waits".to_owned()));
    running.read();
    assert_eq!(Arc::strong_count(&before), 1, "nobody else has it");
}

/// Requests of pods that nobody has made yet are numbered. What was promised to one belongs to its number.
#[test]
fn a_younger_workload_of_the_same_owner_takes_no_number_of_an_older_one() {
    let mut running = with_tenants();
    let of_a_job = |name: &str, created: &str| {
        let mut workload = workload(name, &["QuotaReserved"], "Pending");
        workload["metadata"]["creationTimestamp"] = json!(created);
        workload["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": true}]);
        workload
    };
    let numbers = |seen: &ClusterView, name: &str| -> Vec<u32> {
        let found = seen.queued.get(&("a".to_owned(), name.to_owned())).expect("it has quota");
        found.sets[0].requests.iter().map(|id| id.ordinal).collect()
    };
    running.put(&of_a_job("older", "2026-11-21T08:00:00Z"));
    assert_eq!(numbers(&running.seen(), "older"), [0]);
    running.put(&of_a_job("a-younger-one", "2026-11-21T08:30:00Z"));
    let seen = running.seen();
    assert_eq!((numbers(&seen, "older"), numbers(&seen, "a-younger-one")), (vec![0], vec![1]));
}
