//! One node between its engine and the API server: the observed state of the API, the engine's changes
//! since then, and the resulting writes. Pure: the shell passes its observations and does the writes, one
//! after the other.
//!
//! Two parties write a node's labels: the operands in this engine, and all other clients. A change of the
//! engine is pending until the API server has it; until then, other clients' values of that key are
//! ignored, since ours is later. Every other difference between the API's labels and the engine's was made
//! by other clients, and is passed to the engine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use operands::faults;
use operands::{Change, NodeFault, Operand, OperandPhase, PodName, What};
use serde_json::{Map, Value, json};

use crate::annotations::{FAULT, NODE, REBOOT};
use crate::fleet::NodeSpec;
use crate::resource_version::version;
use crate::users::Users;
use crate::write::{Answer, Write};
use crate::{node_object, pod_object};

/// One node.
pub(crate) struct Host {
    pub(crate) node: operands::Node,
    pub(crate) spec: NodeSpec,
    /// The namespace of the operands.
    pub(crate) namespace: String,
    /// Whether MIG manager generates its layouts, and publishes them.
    pub(crate) generates: bool,
    /// The UIDs of the stand-ins for DaemonSets.
    pub(crate) owners: BTreeMap<String, String>,
    pub(crate) users: Users,
    /// What happened, for whoever listens.
    pub(crate) told: Vec<Change>,
    /// The map of the device plugin's configurations that new pods mount; empty where none is named.
    pub(crate) plugin_map: String,
    /// The map's content that a new pod of MIG manager would mount.
    pub(crate) latest_map: Option<String>,
    seen: Option<core::Node>,
    /// Whether the Node object was there, and is not any more.
    gone: bool,
    /// Whether the machine stays when its Node object is deleted, and its
    /// kubelet registers it anew.
    stays: bool,
    /// The UID of the Node object that was deleted last, of which there may be
    /// late news.
    deleted: Option<String>,
    pending: BTreeMap<String, Option<String>>,
    sent: BTreeMap<String, Option<String>>,
    /// Keys of which a write got no answer: the API server may have it.
    unsure: BTreeSet<String>,
    cordon: Option<bool>,
    cordon_sent: Option<bool>,
    operand_pods: BTreeMap<String, core::Pod>,
    created: BTreeSet<String>,
    fault: String,
    reboot: String,
    /// The UID of the pod whose generated map was published.
    published: Option<String>,
}

impl Host {
    pub(crate) fn new(node: operands::Node, spec: NodeSpec, namespace: &str) -> Self {
        Self {
            node,
            spec,
            namespace: namespace.to_owned(),
            generates: true,
            owners: BTreeMap::new(),
            users: Users::default(),
            told: Vec::new(),
            plugin_map: String::new(),
            latest_map: None,
            seen: None,
            gone: false,
            stays: false,
            deleted: None,
            pending: BTreeMap::new(),
            sent: BTreeMap::new(),
            unsure: BTreeSet::new(),
            cordon: None,
            cordon_sent: None,
            operand_pods: BTreeMap::new(),
            created: BTreeSet::new(),
            fault: String::new(),
            reboot: String::new(),
            published: None,
        }
    }

    /// Whether somebody deleted the node.
    pub(crate) const fn is_gone(&self) -> bool {
        self.gone
    }

    /// The UID of the Node object.
    pub(crate) fn uid(&self) -> Option<String> {
        self.seen.as_ref().and_then(|node| node.metadata.uid.clone())
    }

    /// Lets virtual time pass.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.collect(now);
        self.users.advance(&mut self.node, now);
        self.collect(now);
    }

    fn collect(&mut self, now: Timestamp) {
        for change in self.node.tick(now) {
            match &change.what {
                What::Label { key, value } => {
                    self.pending.insert(key.clone(), value.clone());
                }
                What::Unschedulable(cordoned) => self.cordon = Some(*cordoned),
                What::Operand {
                    operand: Operand::MigManager, phase: Some(OperandPhase::Starting), ..
                } => {
                    // A new pod mounts what the map says now.
                    if let Some(map) = &self.latest_map {
                        self.node.mount_map(map);
                    }
                }
                What::Ready(_)
                | What::Booted { .. }
                | What::Allocatable { .. }
                | What::Capacity { .. }
                | What::Operand { .. }
                | What::Pod { .. }
                | What::ManagerLog { .. } => {}
            }
            self.told.push(change);
        }
    }

    /// When something happens by itself next, in virtual time.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        self.node.next_event().into_iter().chain(self.users.next_event()).min()
    }

    /// The pods on the node, those of the operands included.
    pub(crate) fn pod_names(&self) -> BTreeSet<PodName> {
        let operands = self.operand_pods.keys().map(|name| PodName::new(&self.namespace, name));
        operands.chain(self.users.names()).collect()
    }

    /// The map that MIG manager generates for itself from the hardware.
    pub(crate) fn generated_map(&self) -> String {
        let gpus = self.node.machine().gpus();
        operands::MigConfigs::generated(gpus.iter().map(|gpu| &*gpu.model)).to_yaml()
    }

    /// The map that MIG manager reads has this content now, or does not exist.
    pub(crate) fn set_map(&mut self, content: Option<String>) {
        match &content {
            None => self.node.lose_map(),
            Some(text) if content != self.latest_map => self.node.update_map(text),
            Some(_) => {}
        }
        self.latest_map = content;
    }

    /// The Node object was seen.
    pub(crate) fn saw_node(&mut self, node: core::Node, now: Timestamp) {
        if self.deleted.is_some() && node.metadata.uid == self.deleted {
            return;
        }
        let newer = self.seen.as_ref().is_none_or(|seen| version(&node.metadata) > version(&seen.metadata));
        if newer {
            self.seen = Some(node);
        }
        self.absorb(now);
    }

    /// Nothing that was seen is later than what will be.
    pub(crate) fn api_went_back(&mut self) {
        if let Some(node) = &mut self.seen {
            node.metadata.resource_version = None;
        }
        for pod in self.operand_pods.values_mut() {
            pod.metadata.resource_version = None;
        }
        self.users.api_went_back();
    }

    /// The Node object is no longer there.
    pub(crate) fn lost_node(&mut self, uid: Option<&str>) {
        if self.seen.is_some() && self.uid().as_deref() == uid {
            self.object_is_gone();
        }
    }

    /// The next time that the Node object is deleted, the machine stays.
    pub(crate) const fn stay(&mut self) {
        self.stays = true;
    }

    /// The machine was taken away; or somebody deleted the object only, and the
    /// kubelet registers the node anew, as it does when it starts.
    fn object_is_gone(&mut self) {
        // It is to be registered anew already: this is an answer to a write of before.
        if self.seen.is_none() {
            return;
        }
        if !std::mem::take(&mut self.stays) {
            self.gone = true;
            return;
        }
        self.deleted = self.uid();
        self.seen = None;
        self.pending.clear();
        self.unsure.clear();
        self.cordon = None;
        self.fault.clear();
        self.reboot.clear();
        self.node.register_anew(self.spec.labels.clone());
    }

    /// Takes in what others wrote.
    fn absorb(&mut self, now: Timestamp) {
        let Some(seen) = &self.seen else { return };
        let empty = BTreeMap::new();
        let labels = seen.metadata.labels.as_ref().unwrap_or(&empty);
        let is_ours = |key: &String| self.pending.contains_key(key) || self.sent.contains_key(key);
        let mut foreign: Vec<(String, Option<String>)> = Vec::new();
        let keys: BTreeSet<&String> = labels.keys().chain(self.node.labels().keys()).collect();
        for key in keys {
            if *key != NODE && !is_ours(key) && labels.get(key) != self.node.labels().get(key) {
                foreign.push((key.clone(), labels.get(key).cloned()));
            }
        }
        let spec = seen.spec.as_ref();
        let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
        let cordon = (self.cordon.is_none() && self.cordon_sent.is_none()).then_some(cordoned);
        let tainted = spec.and_then(|s| s.taints.as_ref()).into_iter().flatten().any(node_object::is_foreign);
        let annotation = |key: &str| {
            let annotations = seen.metadata.annotations.as_ref();
            annotations.and_then(|a| a.get(key)).cloned().unwrap_or_default()
        };
        let (fault, reboot) = (annotation(FAULT), annotation(REBOOT));

        if !foreign.is_empty() {
            self.node.patch_labels(foreign.clone());
        }
        if let Some(cordoned) = cordon {
            self.node.set_unschedulable(cordoned);
        }
        self.node.set_foreign_taint(tainted);
        self.collect(now);
        // What was taken in came back as the engine's own change.
        for (key, value) in foreign {
            if self.pending.get(&key) == Some(&value) {
                self.pending.remove(&key);
            }
        }
        if cordon.is_some() && self.cordon == cordon {
            self.cordon = None;
        }
        if fault != self.fault {
            self.fault = fault;
            self.turn_as_annotated(now);
        }
        if reboot != self.reboot {
            if !reboot.is_empty() {
                self.node.reboot();
            }
            self.reboot = reboot;
        }
    }

    fn turn_as_annotated(&mut self, now: Timestamp) {
        self.node.turn(NodeFault::Hardware(gpu::Fault::Clear));
        self.node.turn(NodeFault::Clear);
        match faults::parse(&self.fault) {
            Ok(faults) => faults.into_iter().for_each(|fault| self.node.turn(fault)),
            Err(error) => {
                let text = format!("the annotation {FAULT} is not understood: {error}");
                self.told.push(Change { at: now, what: What::ManagerLog { text } });
            }
        }
    }

    /// A pod on this node was seen.
    pub(crate) fn saw_pod(&mut self, pod: core::Pod) {
        if !pod_object::is_operand(&pod, &self.namespace) {
            self.users.saw(pod);
            return;
        }
        let Some(name) = pod.metadata.name.clone() else { return };
        if self.operand_pods.get(&name).is_some_and(|old| version(&old.metadata) >= version(&pod.metadata)) {
            return;
        }
        if pod.metadata.deletion_timestamp.is_some() {
            self.delete_operand(&name);
        }
        self.operand_pods.insert(name, pod);
    }

    /// A pod on this node is no longer there.
    pub(crate) fn lost_pod(&mut self, name: &PodName, uid: Option<&str>) {
        let ours = self.operand_pods.get(&name.name);
        if name.namespace == self.namespace && ours.is_some_and(|pod| pod.metadata.uid.as_deref() == uid) {
            self.operand_pods.remove(&name.name);
            self.delete_operand(&name.name);
        } else {
            self.users.lost(&mut self.node, name, uid);
        }
    }

    /// Somebody deleted an operand's pod.
    fn delete_operand(&mut self, name: &str) {
        let node = self.node.name().to_owned();
        let found = self.node.operand_pods().find(|pod| pod_object::operand_pod_name(pod, &node) == name);
        if let Some(operand) = found.map(|pod| pod.operand) {
            self.node.delete_operand(operand);
        }
    }

    /// The writes that are due, in the order in which they have to be done.
    /// The caller does them and tells each [`Host::wrote`].
    pub(crate) fn due(&mut self, real_now: Timestamp) -> Vec<Write> {
        let Some(seen) = &self.seen else {
            let object = node_object::registration(&self.node, &self.spec, real_now);
            // All that the engine did so far is in it.
            self.pending.clear();
            self.cordon = None;
            return vec![Write::CreateNode(Box::new(object))];
        };
        let mut due = Vec::new();
        let labels = seen.metadata.labels.as_ref();
        let unsure = &self.unsure;
        self.pending
            .retain(|key, value| unsure.contains(key) || labels.and_then(|l| l.get(key)) != value.as_ref());
        let mut patch = Map::new();
        if !self.pending.is_empty() {
            patch.insert("metadata".to_owned(), json!({"labels": self.pending}));
            self.sent.append(&mut self.pending);
        }
        if let Some(cordoned) = self.cordon.take() {
            patch.insert("spec".to_owned(), json!({"unschedulable": cordoned.then_some(true)}));
            self.cordon_sent = Some(cordoned);
        }
        if !patch.is_empty() {
            let node = self.node.name().to_owned();
            due.push(Write::PatchNode { node, patch: Value::Object(patch) });
        }
        self.operands_due(&mut due, real_now);
        due.extend(self.map_due());
        if let Some(seen) = &self.seen
            && let Some(patch) = node_object::status_patch(seen, &self.node, real_now)
        {
            let node = self.node.name().to_owned();
            due.push(Write::PatchNodeStatus { node, patch });
        }
        self.users.due(&self.node, &mut due, real_now);
        due
    }

    fn operands_due(&mut self, due: &mut Vec<Write>, real_now: Timestamp) {
        let mut wanted = BTreeSet::new();
        for pod in self.node.operand_pods() {
            let name = pod_object::operand_pod_name(pod, self.node.name());
            let full = PodName::new(&self.namespace, &name);
            match self.operand_pods.get(&name) {
                None if pod.phase != OperandPhase::Terminating && !self.created.contains(&name) => {
                    let object = pod_object::operand_pod(
                        pod,
                        self.node.name(),
                        &self.namespace,
                        &self.owners,
                        &self.plugin_map,
                    );
                    due.push(Write::CreatePod(Box::new(object)));
                }
                None => {}
                Some(seen) => {
                    let stops = seen.metadata.deletion_timestamp.is_some();
                    if pod.phase == OperandPhase::Terminating && !stops {
                        let uid = seen.metadata.uid.clone().unwrap_or_default();
                        due.push(Write::DeletePod { name: full, uid, grace: None });
                    } else if let Some(life) = pod_object::operand_life(pod)
                        && let Some(patch) = pod_object::status_patch(seen, &life, real_now)
                    {
                        due.push(Write::PatchPodStatus(full, patch));
                    }
                }
            }
            wanted.insert(name);
        }
        for (name, pod) in self.operand_pods.iter().filter(|(name, _)| !wanted.contains(*name)) {
            let full = PodName::new(&self.namespace, name);
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            due.push(Write::DeletePod { name: full, uid, grace: Some(0) });
        }
    }

    /// The map that MIG manager generates when it starts and no other is named.
    fn map_due(&self) -> Option<Write> {
        let pod =
            self.node.operand_pod(Operand::MigManager).filter(|pod| self.generates && pod.is_ready())?;
        let name = pod_object::operand_pod_name(pod, self.node.name());
        let uid = self.operand_pods.get(&name)?.metadata.uid.clone();
        if uid == self.published {
            return None;
        }
        let node = self.node.name();
        let map = serde_json::from_value(json!({
            "metadata": {
                "name": format!("{node}-mig-config"), "namespace": self.namespace,
                "labels": {"app.kubernetes.io/component": "nvidia-mig-manager", "nvidia.com/node-name": node},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}],
            },
            "data": {"config.yaml": self.generated_map()},
        }));
        Some(Write::ApplyMap(Box::new(map.expect("a map is built from the parts of one"))))
    }

    /// What came of a write.
    pub(crate) fn wrote(&mut self, write: &Write, answer: Answer, now: Timestamp) {
        if let Write::PatchNode { .. } = write {
            let (sent, cordon) = (std::mem::take(&mut self.sent), self.cordon_sent.take());
            if matches!(answer, Answer::Failed) {
                // It may have been done: what was seen before says nothing of these keys any more.
                self.unsure.extend(sent.keys().cloned());
                for (key, value) in sent {
                    self.pending.entry(key).or_insert(value);
                }
                self.cordon = self.cordon.or(cordon);
            } else {
                self.unsure.retain(|key| !sent.contains_key(key));
            }
        }
        match (write, answer) {
            (_, Answer::Node(node)) => self.saw_node(*node, now),
            (Write::CreatePod(_), Answer::Pod(pod)) => {
                self.created.insert(pod.metadata.name.clone().unwrap_or_default());
                self.saw_pod(*pod);
            }
            (_, Answer::Pod(pod)) => self.saw_pod(*pod),
            (Write::PatchNode { .. } | Write::PatchNodeStatus { .. }, Answer::Gone) => {
                self.object_is_gone();
            }
            (Write::PatchPodStatus(name, _) | Write::DeletePod { name, .. }, Answer::Gone) => {
                if name.namespace == self.namespace && self.operand_pods.remove(&name.name).is_some() {
                    self.delete_operand(&name.name);
                } else {
                    self.users.gone(&mut self.node, name);
                }
            }
            (Write::ApplyMap(map), Answer::Done) => {
                let owner = map.metadata.owner_references.iter().flatten().next();
                self.published = owner.map(|owner| owner.uid.clone());
            }
            (Write::CreateEvent(event), Answer::Done | Answer::Gone) => self.users.told(event),
            _ => {}
        }
        let node = self.node.name().to_owned();
        let names: BTreeSet<String> =
            self.node.operand_pods().map(|pod| pod_object::operand_pod_name(pod, &node)).collect();
        self.created.retain(|name| names.contains(name));
    }
}
