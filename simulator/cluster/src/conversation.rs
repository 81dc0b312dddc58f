//! One node and an API server that is a map: which writes happen when, and the effect of the writes of
//! others. The real API server is tested in `e2e`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use operands::{Operand, PodName};
use serde_json::{Value, json};

use crate::annotations::{FAILS_AFTER, FAULT, OPENS, REBOOT, STARTS_AFTER, SUCCEEDS_AFTER};
use crate::fleet::{Fleet, NodeSpec};
use crate::host::Host;
use crate::write::{Answer, Write};

const NAMESPACE: &str = "nvidia-gpu-operator";
const SLICE: &str = "nvidia.com/mig-1g.10gb";

fn start() -> Timestamp {
    "2026-11-22T08:00:00Z".parse().expect("a time")
}

/// A node, and the API server as far as it is about it.
struct World {
    host: Host,
    now: Timestamp,
    node: Value,
    pods: BTreeMap<PodName, Value>,
    version: u64,
    /// Every write, in one line each.
    writes: Vec<String>,
    /// How many writes fail before one succeeds.
    failures: u32,
    /// How many writes of the node are done and get no answer.
    unanswered: u32,
}

impl World {
    fn new(layout: Option<&str>) -> Self {
        let mut spec = NodeSpec::new("gpu-1", 1, "A100-80GB");
        spec.layout = layout.map(str::to_owned);
        let node = Fleet::default().node(&spec, None, start()).expect("it is possible");
        let mut world = Self {
            host: Host::new(node, spec, NAMESPACE),
            now: start(),
            node: Value::Null,
            pods: BTreeMap::new(),
            version: 0,
            writes: Vec::new(),
            failures: 0,
            unanswered: 0,
        };
        world.settle();
        world.writes.clear();
        world
    }

    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
    }

    fn node_answer(&self) -> Answer {
        Answer::Node(Box::new(serde_json::from_value(self.node.clone()).expect("a node")))
    }

    /// Somebody else patches the node; the watch tells it at once.
    fn patch_node(&mut self, patch: &Value) {
        let mut node = self.node.take();
        merge(&mut node, patch);
        self.stamp(&mut node);
        self.node = node;
        self.watch_node();
    }

    fn watch_node(&mut self) {
        self.host.advance(self.now);
        self.host.saw_node(serde_json::from_value(self.node.clone()).expect("a node"), self.now);
    }

    /// The scheduler binds a pod to the node.
    fn bind(&mut self, name: &str, annotations: &Value) -> PodName {
        let full = PodName::new("a", name);
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "a", "annotations": annotations},
            "spec": {"nodeName": "gpu-1",
                "containers": [{"name": "c", "resources": {"limits": {SLICE: "1"}}}]},
            "status": {"phase": "Pending"},
        });
        self.stamp(&mut pod);
        self.pods.insert(full.clone(), pod);
        self.watch_pod(&full);
        full
    }

    fn watch_pod(&mut self, name: &PodName) {
        self.host.advance(self.now);
        self.host.saw_pod(self.pod(name));
    }

    fn pod(&self, name: &PodName) -> core::Pod {
        serde_json::from_value(self.pods[name].clone()).expect("a pod")
    }

    fn phase(&self, name: &PodName) -> String {
        crate::pod_object::phase(&self.pod(name)).to_owned()
    }

    /// Somebody deletes a pod with grace.
    fn delete(&mut self, name: &PodName) {
        let mut pod = self.pods[name].clone();
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T08:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        self.stamp(&mut pod);
        self.pods.insert(name.clone(), pod);
        self.watch_pod(name);
    }

    /// Does all writes that are due now.
    fn write(&mut self) -> bool {
        self.host.advance(self.now);
        let due = self.host.due(self.now);
        let any = !due.is_empty();
        for write in due {
            let answer = if self.failures > 0 {
                self.failures -= 1;
                Answer::Failed
            } else if self.unanswered > 0 && matches!(write, Write::PatchNode { .. }) {
                self.unanswered -= 1;
                let _ = self.perform(&write);
                Answer::Failed
            } else {
                self.perform(&write)
            };
            self.host.wrote(&write, answer, self.now);
        }
        any
    }

    fn perform(&mut self, write: &Write) -> Answer {
        match write {
            Write::CreateNode(node) => {
                let mut node = serde_json::to_value(node).expect("it is data");
                self.stamp(&mut node);
                self.node = node;
                self.node_answer()
            }
            Write::PatchNode { patch, .. } => {
                self.writes.push(format!("node {patch}"));
                let mut node = self.node.take();
                merge(&mut node, patch);
                self.stamp(&mut node);
                self.node = node;
                self.node_answer()
            }
            Write::PatchNodeStatus { patch, .. } => {
                self.writes.push(format!("status {patch}"));
                let mut node = self.node.take();
                merge(&mut node, patch);
                self.stamp(&mut node);
                self.node = node;
                self.node_answer()
            }
            Write::CreatePod(pod) => {
                let name = crate::pod_object::name_of(pod);
                self.writes.push(format!("create {}", name.name));
                let mut pod = serde_json::to_value(pod).expect("it is data");
                // As if the owners were there.
                pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "sim.slicewright.io/v1",
                    "kind": "DaemonSet", "name": "x", "uid": "x"}]);
                self.stamp(&mut pod);
                self.pods.insert(name.clone(), pod);
                Answer::Pod(Box::new(self.pod(&name)))
            }
            Write::PatchPodStatus(name, patch) => {
                let Some(mut pod) = self.pods.get(name).cloned() else { return Answer::Gone };
                merge(&mut pod, patch);
                self.stamp(&mut pod);
                self.pods.insert(name.clone(), pod);
                self.writes.push(format!("{name} is {}", self.phase(name)));
                Answer::Pod(Box::new(self.pod(name)))
            }
            Write::DeletePod { name, grace, .. } => {
                if *grace == Some(0) {
                    self.writes.push(format!("{} is gone", name.name));
                    self.pods.remove(name);
                    return Answer::Gone;
                }
                self.delete(name);
                Answer::Pod(Box::new(self.pod(name)))
            }
            Write::ApplyMap(map) => {
                self.writes.push(format!("map {}", map.metadata.name.as_deref().unwrap_or_default()));
                Answer::Done
            }
            Write::CreateEvent(event) => {
                self.writes.push(format!("event {}", event.reason.as_deref().unwrap_or_default()));
                Answer::Done
            }
        }
    }

    /// Writes what is due, lets time pass until the next event, and so on
    /// until nothing happens by itself any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.write() {
                continue;
            }
            match self.host.next_event() {
                Some(at) => self.now = self.now.max(at),
                None => return,
            }
        }
        panic!("it never settles; the last writes: {:#?}", self.writes.iter().rev().take(5));
    }

    /// The same, for so long.
    fn pass(&mut self, time: SignedDuration) {
        let end = self.now + time;
        loop {
            while self.write() {}
            match self.host.next_event().filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = end;
        while self.write() {}
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.node["metadata"]["labels"][key].as_str()
    }

    fn allocatable(&self, resource: &str) -> Option<&str> {
        self.node["status"]["allocatable"][resource].as_str()
    }

    fn set_config(&mut self, name: &str) {
        self.patch_node(&json!({"metadata": {"labels": {operands::MIG_CONFIG: name}}}));
    }

    /// The API's pods of an operand.
    fn pods_of(&self, operand: Operand) -> Vec<PodName> {
        let app = |pod: &Value| pod["metadata"]["labels"]["app"] == operand.app();
        self.pods.iter().filter(|(_, pod)| app(pod)).map(|(name, _)| name.clone()).collect()
    }
}

/// Merges as the API server does: maps by key, conditions by type.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(key);
                } else if key == "conditions" {
                    let list = into.entry(key).or_insert_with(|| json!([]));
                    let list = list.as_array_mut().expect("a list");
                    for condition in value.as_array().into_iter().flatten() {
                        list.retain(|old| old["type"] != condition["type"]);
                        list.push(condition.clone());
                    }
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, patch) if patch.is_object() => {
            *into = json!({});
            merge(into, patch);
        }
        (into, patch) => *into = patch.clone(),
    }
}

#[test]
fn a_label_leads_to_slices_in_the_order_of_the_contract() {
    let mut world = World::new(None);
    world.set_config("all-1g.10gb");
    world.settle();
    assert_eq!(world.allocatable(SLICE), Some("7"));
    assert_eq!(world.allocatable("nvidia.com/gpu"), Some("0"), "keys stay");
    assert_eq!(world.label(operands::MIG_CONFIG_STATE), Some("success"));
    assert_eq!(world.label("nvidia.com/mig-1g.10gb.count"), Some("7"));
    let at = |needle: &str| {
        let found = world.writes.iter().position(|write| write.contains(needle));
        found.unwrap_or_else(|| panic!("{needle} was not written: {:#?}", world.writes))
    };
    let order = [
        at("\"nvidia.com/mig.config.state\":\"pending\""),
        at("nvidia-device-plugin-daemonset-"),
        at("\"allocatable\":{\"nvidia.com/gpu\":\"0\"}"),
        at("\"nvidia.com/mig.config.state\":\"success\""),
        at("create nvidia-device-plugin-daemonset-"),
        at("\"allocatable\":{\"nvidia.com/mig-1g.10gb\":\"7\"}"),
        at("\"nvidia.com/mig-1g.10gb.count\":\"7\""),
    ];
    assert!(order.is_sorted(), "{order:?} in {:#?}", world.writes);
}

#[test]
fn at_rest_nothing_is_written() {
    let mut world = World::new(Some("all-1g.10gb"));
    world.bind("lab-0", &json!({}));
    world.settle();
    world.writes.clear();
    world.watch_node();
    world.pass(SignedDuration::from_hours(24));
    assert_eq!(world.writes, Vec::<String>::new());
}

#[test]
fn what_the_operands_write_comes_after_what_others_wrote_meanwhile() {
    let mut world = World::new(Some("all-1g.10gb"));
    world.set_config("all-3g.40gb");
    // The manager has said `pending`, and the API server does not know yet.
    while !world.host.node.labels()[operands::MIG_CONFIG_STATE].starts_with("pending") {
        world.now = world.host.next_event().expect("it works");
        world.host.advance(world.now);
    }
    world.patch_node(&json!({"metadata": {"labels": {operands::MIG_CONFIG_STATE: null, "team": "vision"}}}));
    world.write();
    assert_eq!(world.label(operands::MIG_CONFIG_STATE), Some("pending"));
    assert_eq!(world.host.node.labels()["team"], "vision", "a key that nobody else writes is taken in");
    world.settle();
    assert_eq!(world.label(operands::MIG_CONFIG_STATE), Some("success"));
    assert_eq!(world.label("team"), Some("vision"));
}

#[test]
fn a_write_that_fails_is_done_again_with_what_is_true_then() {
    let mut world = World::new(None);
    world.set_config("all-1g.10gb");
    for _ in 0..200 {
        world.failures = 1;
        world.pass(SignedDuration::from_secs(1));
    }
    world.failures = 0;
    world.settle();
    assert_eq!(world.label(operands::MIG_CONFIG_STATE), Some("success"));
    assert_eq!(world.allocatable(SLICE), Some("7"));
    for operand in Operand::ALL.into_iter().filter(|operand| *operand != Operand::MpsControlDaemon) {
        assert_eq!(world.pods_of(operand).len(), 1, "{operand}");
    }
}

#[test]
fn a_write_that_was_done_and_got_no_answer_is_not_what_stays() {
    let mut world = World::new(Some("all-1g.10gb"));
    let plugin = Operand::DevicePlugin.deploy_label();
    world.set_config("all-3g.40gb");
    while world.host.node.labels()[plugin] == "true" {
        world.now = world.host.next_event().expect("it works");
        world.host.advance(world.now);
    }
    world.unanswered = 1;
    world.write();
    assert_ne!(world.label(plugin), Some("true"), "it was done");
    // The API server is away for longer than the run takes, and nothing was seen of it since.
    for _ in 0..1_000 {
        let Some(next) = world.host.next_event() else { break };
        world.now = world.now.max(next);
        world.host.advance(world.now);
    }
    world.settle();
    assert_eq!(world.label(operands::MIG_CONFIG_STATE), Some("success"));
    assert_eq!(world.label(plugin), Some("true"));
    assert_eq!(world.allocatable("nvidia.com/mig-3g.40gb"), Some("2"));
}

#[test]
fn a_node_whose_object_is_deleted_registers_anew_without_what_others_wrote_and_keeps_what_runs() {
    let mut world = World::new(Some("all-1g.10gb"));
    let lab = world.bind("lab-0", &json!({}));
    world.settle();
    world.patch_node(&json!({
        "metadata": {"labels": {"slicewright.io/cordoned-by": "slicewright"}}, "spec": {"unschedulable": true},
    }));
    let before = world.node["metadata"]["uid"].clone();
    let late = world.node.clone();
    world.host.stay();
    world.node = Value::Null;
    world.host.lost_node(before.as_str());
    // Late news of the object that is gone bring nothing back.
    world.host.saw_node(serde_json::from_value(late).expect("a node"), world.now);
    world.settle();
    assert!(!world.host.is_gone(), "the machine stays");
    assert_ne!(world.node["metadata"]["uid"], before);
    assert_eq!(world.node["spec"]["unschedulable"], Value::Null);
    assert_eq!(world.label(operands::MIG_CONFIG), None, "nobody knows what was wanted");
    assert_eq!(world.label("slicewright.io/cordoned-by"), None);
    assert_eq!(world.label("nvidia.com/mig-1g.10gb.count"), Some("7"), "GFD has written its labels again");
    assert_eq!(world.allocatable(SLICE), Some("7"));
    assert_eq!(world.phase(&lab), "Running");
    assert_eq!(held(&world), ["a/lab-0"]);
    // Deleted once more, and this time the machine is taken away.
    let uid = world.node["metadata"]["uid"].clone();
    world.host.lost_node(uid.as_str());
    assert!(world.host.is_gone());
}

#[test]
fn deleting_mig_managers_pod_restarts_it() {
    let mut world = World::new(Some("all-1g.10gb"));
    let before = world.pods_of(Operand::MigManager);
    world.delete(&before[0]);
    world.settle();
    let after = world.pods_of(Operand::MigManager);
    assert_eq!(after.len(), 1);
    assert_ne!(after, before);
    assert_eq!(world.phase(&after[0]), "Running");
    assert!(world.writes.contains(&"map gpu-1-mig-config".to_owned()), "it publishes its layouts again");
}

#[test]
fn a_pod_is_admitted_starts_late_and_ends_as_it_says() {
    let mut world = World::new(Some("all-1g.10gb"));
    let job = world.bind("job", &json!({STARTS_AFTER: "10m", SUCCEEDS_AFTER: "1h", OPENS: "at-once"}));
    world.pass(SignedDuration::from_mins(9));
    assert_eq!(world.phase(&job), "Pending");
    assert_eq!(held(&world), ["a/job"], "it holds its slice before it starts");
    world.pass(SignedDuration::from_mins(2));
    assert_eq!(world.phase(&job), "Running");
    assert!(world.host.node.truth()[0].open);
    world.pass(SignedDuration::from_mins(60));
    assert_eq!(world.phase(&job), "Succeeded");
    assert_eq!(held(&world), Vec::<String>::new());

    let bad = world.bind("bad", &json!({FAILS_AFTER: "1s"}));
    world.settle();
    assert_eq!(world.phase(&bad), "Failed");
}

fn held(world: &World) -> Vec<String> {
    world.host.node.truth()[0].slices.iter().filter_map(|slice| slice.holder.clone()).collect()
}

#[test]
fn a_pod_that_is_deleted_keeps_its_slice_until_its_containers_have_stopped() {
    let mut world = World::new(Some("all-7g.80gb"));
    // All that the node has is one slice of another shape: no device for it.
    let refused = world.bind("refused", &json!({}));
    world.settle();
    assert_eq!(world.phase(&refused), "Failed");

    let mut world = World::new(Some("all-1g.10gb"));
    let lab = world.bind("lab-0", &json!({}));
    world.settle();
    world.delete(&lab);
    world.pass(SignedDuration::from_secs(1));
    assert_eq!(held(&world), ["a/lab-0"]);
    world.pass(SignedDuration::from_secs(2));
    assert_eq!(held(&world), Vec::<String>::new());
    assert!(!world.pods.contains_key(&lab));
}

#[test]
fn a_slice_that_is_taken_from_a_pod_is_told_by_an_event() {
    let mut world = World::new(Some("all-1g.10gb"));
    world.bind("lab-0", &json!({}));
    world.settle();
    world.set_config("all-7g.80gb");
    world.settle();
    assert_eq!(world.host.node.breaches().len(), 1);
    assert_eq!(world.writes.iter().filter(|write| *write == "event SliceTaken").count(), 1);
}

#[test]
fn an_annotation_begins_faults_and_its_absence_ends_them() {
    let mut world = World::new(None);
    let fault = |text: Value| json!({"metadata": {"annotations": {FAULT: text}}});
    world.patch_node(&fault(json!("does-not-start device-plugin")));
    world.set_config("all-1g.10gb");
    world.settle();
    assert_eq!(world.pods_of(Operand::DevicePlugin), Vec::<PodName>::new());
    assert_eq!(world.allocatable(SLICE), None);
    world.patch_node(&fault(Value::Null));
    world.settle();
    assert_eq!(world.allocatable(SLICE), Some("7"));
}

#[test]
fn while_a_node_is_down_its_kubelet_does_nothing() {
    let mut world = World::new(Some("all-1g.10gb"));
    let lab = world.bind("lab-0", &json!({}));
    world.settle();
    let boot = world.node["status"]["nodeInfo"]["bootID"].clone();
    world.patch_node(&json!({"metadata": {"annotations": {REBOOT: "1"}}}));
    world.pass(SignedDuration::from_secs(1));
    assert_eq!(world.node["status"]["conditions"][0]["status"], "False");
    let late = world.bind("late", &json!({}));
    world.delete(&lab);
    world.pass(SignedDuration::from_mins(1));
    assert_eq!(world.phase(&late), "Pending");
    assert!(world.pods.contains_key(&lab), "nobody is there to stop it");
    world.settle();
    assert_ne!(world.node["status"]["nodeInfo"]["bootID"], boot);
    assert!(!world.pods.contains_key(&lab));
    assert_eq!(world.phase(&late), "Failed", "no plugin serves it yet");
    assert_eq!(world.allocatable(SLICE), Some("7"));
}
