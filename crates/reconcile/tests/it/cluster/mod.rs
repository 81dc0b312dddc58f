//! A cluster of objects that does everything that a round requests at once, and may lose any part of it.
//! MIG manager always succeeds here; its failures are in the stories.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

mod cut;
mod uncut;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{GpuNode, GpuPartitionPolicy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use observe::Objects;
use planner::names::NodeName;
use reconcile::{Input, LocalState, MapRef, Round, Settings, round};
use rollout::{Action, names};
use serde_json::{Value, json};

pub const OPERATOR: &str = "nvidia-gpu-operator";
pub const MANAGER: &str = "nvidia-mig-manager";
pub const PLUGIN: &str = "nvidia-device-plugin-daemonset";

/// Which part of a round is done before the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Everything.
    End,
    /// The map is written, and no more.
    Map,
    /// What is to be remembered is stored, and nothing is done.
    Stored,
    /// So many actions are done; those after the last of them are not.
    Actions(usize),
}

pub struct Cluster {
    pub objects: Objects,
    pub local: BTreeMap<NodeName, LocalState>,
    pub map_changed: Option<Timestamp>,
    /// What keeps the operator from doing what is due.
    pub obstacles: reconcile::Obstacles,
    pub settings: Settings,
    pub now: Timestamp,
    /// How often anything was written.
    pub writes: usize,
    /// Whether every MIG manager says `failed`, and changes nothing.
    pub managers_fail: bool,
    failed_runs: BTreeSet<String>,
    version: u64,
    /// What the operator's process keeps of its rounds.
    session: reconcile::Session,
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object is built from the parts of one")
}

impl Cluster {
    /// One ClusterPolicy that points to our map, and one policy over
    /// `pool=research`.
    pub fn new() -> Self {
        let mut cluster = Self {
            objects: Objects::default(),
            local: BTreeMap::new(),
            map_changed: None,
            obstacles: reconcile::Obstacles::default(),
            settings: Settings::default(),
            now: "2026-11-21T09:00:00Z".parse().expect("a time"),
            writes: 0,
            managers_fail: false,
            failed_runs: BTreeSet::new(),
            version: 100,
            session: reconcile::Session::default(),
        };
        cluster.cluster_policy(names::MAP_NAME);
        cluster.policy(json!({"type": "DemandDriven"}));
        cluster
    }

    pub fn cluster_policy(&mut self, map: &str) {
        let policy = read(json!({"metadata": {"name": "gpu-cluster-policy"}, "spec": {
            "mig": {"strategy": "mixed"},
            "migManager": {"enabled": true, "config": {"name": map}},
        }}));
        self.objects.cluster_policies.insert("gpu-cluster-policy".to_owned(), policy);
    }

    pub fn strategy(&mut self, strategy: &str) {
        let policy = self.objects.cluster_policies.get_mut("gpu-cluster-policy").expect("there is one");
        policy.spec.mig.strategy = strategy.to_owned();
    }

    pub fn policy(&mut self, layout: Value) {
        let policy: GpuPartitionPolicy = read(json!({
            "apiVersion": api::API_VERSION, "kind": "GpuPartitionPolicy",
            "metadata": {"name": "research", "generation": 1, "uid": "u-research"},
            "spec": {"nodeSelector": {"matchLabels": {"pool": "research"}}, "layout": layout},
        }));
        self.objects.policies.insert("research".to_owned(), policy);
    }

    pub fn edit_policy(&mut self, edit: impl FnOnce(&mut GpuPartitionPolicy)) {
        edit(self.objects.policies.get_mut("research").expect("there is one"));
    }

    /// A node with one A100-80GB that has one full-size slice.
    pub fn node(&mut self, name: &str) {
        let version = self.next_version();
        let node: Node = read(json!({
            "metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": version, "labels": {
                "pool": "research",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
                "nvidia.com/gpu.count": "1",
                "nvidia.com/mig.capable": "true",
                "nvidia.com/mig.strategy": "mixed",
                "nvidia.com/gpu.deploy.mig-manager": "true",
                "nvidia.com/mig.config": "all-7g.80gb",
                "nvidia.com/mig.config.state": "success",
                "nvidia.com/mig-7g.80gb.count": "1",
            }},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/mig-7g.80gb": "1"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {
                    "bootID": "b-1", "architecture": "amd64", "containerRuntimeVersion": "", "kernelVersion": "",
                    "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "linux",
                    "osImage": "", "systemUUID": "",
                },
            },
        }));
        self.objects.nodes.insert(name.to_owned(), Arc::new(node));
        self.operand(name, MANAGER);
        self.operand(name, PLUGIN);
    }

    /// A node with eight of them, each with one full-size slice, and with eight
    /// network cards, of which a pod of another team has one.
    pub fn hgx(&mut self, name: &str) {
        self.node(name);
        self.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("nvidia.com/gpu.count".to_owned(), "8".to_owned());
            labels.insert("nvidia.com/mig-7g.80gb.count".to_owned(), "8".to_owned());
            let status = node.status.get_or_insert_default();
            for resources in [&mut status.allocatable, &mut status.capacity] {
                let resources = resources.get_or_insert_default();
                for resource in ["nvidia.com/mig-7g.80gb", "nvidia.com/hostdev"] {
                    resources.insert(resource.to_owned(), Quantity("8".to_owned()));
                }
            }
        });
        self.add_pod(json!({
            "metadata": {"name": format!("mpi-{name}"), "namespace": "network", "uid": format!("u-mpi-{name}")},
            "spec": {"nodeName": name, "containers": [{"name": "main", "resources": {
                "limits": {"nvidia.com/hostdev": "1"}}}]},
            "status": {"phase": "Running"},
        }));
    }

    /// A pod as it is written here.
    pub fn add_pod(&mut self, pod: Value) {
        let pod: Pod = read(pod);
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let key = (part(&pod.metadata.namespace), part(&pod.metadata.name));
        self.objects.pods.insert(key, Arc::new(pod));
    }

    fn operand(&mut self, node: &str, app: &str) {
        let version = self.next_version();
        let pod: Pod = read(json!({
            "metadata": {"name": format!("{app}-{node}"), "namespace": OPERATOR, "uid": format!("{app}-{version}"),
                "labels": {"app": app},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": app, "uid": app,
                    "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        self.objects.pods.insert((OPERATOR.to_owned(), format!("{app}-{node}")), Arc::new(pod));
    }

    /// A pod that the scheduler cannot place, or that runs on a node.
    pub fn pod(&mut self, name: &str, profile: &str, on: Option<&str>) {
        let status = match on {
            Some(_) => json!({"phase": "Running"}),
            None => json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/1 nodes are available"}]}),
        };
        let pod: Pod = read(json!({
            "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"),
                "creationTimestamp": self.now},
            "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {
                "limits": {format!("nvidia.com/mig-{profile}"): "1"}}}]},
            "status": status,
        }));
        self.objects.pods.insert(("team".to_owned(), name.to_owned()), Arc::new(pod));
    }

    /// A workbench without a pod, and without slices of its own, that names a
    /// hardware profile.
    pub fn workbench(&mut self, name: &str, profile: &str) {
        let notebook = read(json!({
            "metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"),
                "creationTimestamp": self.now,
                "annotations": {"opendatahub.io/hardware-profile-name": profile}},
            "spec": {"template": {"spec": {"containers": [{"name": name}]}}},
        }));
        self.objects.notebooks.insert(("team".to_owned(), name.to_owned()), Arc::new(notebook));
    }

    /// Rounds until a node is in a phase; time passes as the rounds say. Each
    /// round is shown, with the objects that it saw.
    #[track_caller]
    pub fn until(
        &mut self,
        node: &str,
        phase: rollout::Phase,
        mut shown: impl FnMut(&Objects, &Round, Timestamp),
    ) {
        for _ in 0..200 {
            let (before, seen) = (self.writes, self.objects.clone());
            let round = self.step(Until::End);
            shown(&seen, &round, self.now);
            let name = NodeName(node.to_owned());
            if round.nodes.get(&name).is_some_and(|n| n.advance.progress.phase == phase) {
                return;
            }
            if self.writes == before {
                self.now = round.wake_at.unwrap_or(self.now).max(self.now + SignedDuration::from_secs(1));
            }
        }
        let stands: Vec<_> = self.round().nodes.into_iter().map(|(n, r)| (n, r.advance.outlook)).collect();
        panic!("{node} is never {phase:?}: {stands:?}");
    }

    pub fn administrators_map(&mut self, text: &str) {
        let at = MapRef { namespace: OPERATOR.to_owned(), name: "theirs".to_owned() };
        let map: ConfigMap = read(json!({"metadata": {"name": at.name, "namespace": at.namespace},
            "data": {"config.yaml": text}}));
        self.objects.config_maps.insert((at.namespace.clone(), at.name.clone()), map);
        self.settings.administrators_map = Some(at);
    }

    pub fn our_map(&self) -> String {
        let map = self.objects.config_maps.get(&(OPERATOR.to_owned(), names::MAP_NAME.to_owned()));
        map.and_then(|m| m.data.as_ref()?.get("config.yaml")).cloned().unwrap_or_default()
    }

    fn input(&self) -> Input<'_> {
        Input {
            objects: &self.objects,
            local: &self.local,
            map_changed: self.map_changed,
            obstacles: &self.obstacles,
            settings: &self.settings,
            now: self.now,
        }
    }

    pub fn round(&self) -> Round {
        round(&self.input())
    }

    /// The round of an operator that has run all the time, which is that of one that has just begun.
    pub fn next_round(&mut self) -> Round {
        let mut session = std::mem::take(&mut self.session);
        let round = reconcile::next_round(&self.input(), &mut session);
        self.session = session;
        let anew = self.round();
        let (kept, anew) = (|| format!("{round:?}"), || format!("{anew:?}"));
        // A model works out its lattice for all tests when the first of them asks: that may come in between.
        if kept() != anew() {
            assert_eq!(kept(), anew());
        }
        round
    }

    /// What the planner has searched for since its session began.
    pub fn searched(&self) -> u64 {
        self.session.searched()
    }

    /// A node as the rollout sees it.
    pub fn seen(&self, node: &str) -> rollout::Observed {
        let input = self.input();
        let planned = reconcile::plan_round(&input);
        reconcile::seen::NodeReader::new(&input, &planned).node(&node.into()).unwrap()
    }

    /// The GPUs of a node, as the rollout is told of them.
    pub fn models(&self, node: &str) -> observe::hardware::Models {
        let input = self.input();
        let planned = reconcile::plan_round(&input);
        reconcile::seen::NodeReader::new(&input, &planned).models(&node.into())
    }

    /// A round whose plan the checker objects to.
    pub fn round_with(&self, note: planner::check::Note) -> Round {
        self.round_that_thinks(|planned| planned.plan.object(note))
    }

    /// A round that thinks something else than it would.
    pub fn round_that_thinks(&self, different: impl FnOnce(&mut reconcile::PlannedRound)) -> Round {
        let input = self.input();
        let mut planned = reconcile::plan_round(&input);
        different(&mut planned);
        reconcile::round::follow(&input, planned)
    }

    /// One round and what follows from it, up to where the process dies.
    pub fn step(&mut self, until: Until) -> Round {
        let round = self.next_round();
        self.follow(&round, until);
        round
    }

    /// What follows from a round, up to where the process dies.
    pub fn follow(&mut self, round: &Round, until: Until) {
        self.write_map(round);
        if until != Until::Map {
            self.store(round);
        }
        let most = match until {
            Until::End => usize::MAX,
            Until::Map | Until::Stored => 0,
            Until::Actions(n) => n,
        };
        for (name, node) in &round.nodes {
            for action in node.advance.actions.iter().take(most) {
                self.act(name, action);
            }
        }
        if until == Until::End {
            self.publish(round);
        } else {
            // Another process knows nothing beside the objects.
            self.local.clear();
            self.map_changed = None;
            self.session = reconcile::Session::default();
        }
        self.mig_managers();
    }

    fn write_map(&mut self, round: &Round) {
        let Some(write) = &round.map.write else { return };
        let (version, key) = (self.next_version(), (write.map.namespace.clone(), write.map.name.clone()));
        let found = self.objects.config_maps.get(&key).and_then(|m| m.metadata.resource_version.clone());
        assert_eq!(found, write.if_version, "the write carries what it was decided on");
        let map = read(json!({"metadata": {"name": key.1, "namespace": key.0, "resourceVersion": version},
            "data": {"config.yaml": write.text}}));
        self.objects.config_maps.insert(key, map);
        self.map_changed = Some(self.now);
        self.writes += 1;
    }

    /// Writes the `GpuNode`s, as the API server keeps them: the generation
    /// follows the spec.
    fn store(&mut self, round: &Round) {
        for (name, wanted) in &round.gpu_nodes {
            let old = self.objects.gpu_nodes.get(&name.0).map(AsRef::as_ref);
            let mut new = old.cloned().unwrap_or_else(|| GpuNode::new(&name.0, wanted.spec.clone()));
            let generation = new.metadata.generation.unwrap_or(1);
            let edited = old.is_some_and(|old| old.spec != wanted.spec);
            new.metadata.generation = Some(generation + i64::from(edited));
            new.spec = wanted.spec.clone();
            new.status = Some(wanted.status.clone());
            // What the API server keeps is JSON.
            let new: GpuNode = read(serde_json::to_value(&new).expect("plain data"));
            if old != Some(&new) {
                self.writes += 1;
                self.objects.gpu_nodes.insert(name.0.clone(), Arc::new(new));
            }
        }
    }

    fn publish(&mut self, round: &Round) {
        self.objects.unserved_quota.clone_from(&round.unserved_quota);
        for (name, status) in &round.policies {
            let policy = self.objects.policies.get_mut(&name.0).expect("it is there");
            if policy.status.as_ref() != Some(status) {
                policy.status = Some(status.clone());
                self.writes += 1;
            }
        }
    }

    pub fn edit_node(&mut self, name: &str, edit: impl FnOnce(&mut Node)) {
        let version = self.next_version();
        let node = Arc::make_mut(self.objects.nodes.get_mut(name).expect("the node is there"));
        edit(node);
        node.metadata.resource_version = Some(version);
    }

    pub fn label(&mut self, node: &str, key: &str, value: Option<&str>) {
        self.edit_node(node, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            match value {
                Some(value) => labels.insert(key.to_owned(), value.to_owned()),
                None => labels.remove(key),
            };
        });
    }

    fn act(&mut self, name: &NodeName, action: &Action) {
        let node = name.0.as_str();
        let cordon = |node: &mut Node, on: bool| {
            node.spec.get_or_insert_default().unschedulable = on.then_some(true);
        };
        self.writes += usize::from(!matches!(action, Action::ListPods | Action::EnsureMapEntry { .. }));
        match action {
            Action::EnsureMapEntry { entry, .. } => {
                assert!(self.our_map().contains(entry), "the round's map has what is asked for");
            }
            Action::Cordon { .. } => {
                self.edit_node(node, |node| cordon(node, true));
                self.label(node, names::CORDONED_BY, Some(names::CORDONED_BY_US));
            }
            Action::Uncordon { .. } => {
                self.edit_node(node, |node| cordon(node, false));
                self.label(node, names::CORDONED_BY, None);
            }
            Action::RemoveCordonedBy { .. } => self.label(node, names::CORDONED_BY, None),
            Action::ListPods => {
                self.local.entry(name.clone()).or_default().listed = Some(self.now);
            }
            Action::SetConfigLabel { value, clear_state, .. } => {
                self.label(node, names::MIG_CONFIG, Some(value));
                if *clear_state {
                    self.label(node, names::MIG_CONFIG_STATE, None);
                }
            }
            Action::Evict { pod, .. } => {
                self.objects.pods.remove(&(pod.namespace.clone(), pod.name.clone()));
            }
            Action::DeletePod { .. } => self.operand(node, MANAGER),
            Action::UnpauseOperands { .. } => panic!("nothing is parked here"),
            Action::EnsurePluginConfig { .. } | Action::SetPluginConfigLabel { .. } => {
                panic!("no policy shares GPUs here")
            }
            Action::HoldForAgent { .. }
            | Action::ResumeOperands { .. }
            | Action::StandDownManager { .. }
            | Action::HandBack { .. } => {
                panic!("no agent changes a node here")
            }
        }
    }

    /// Where a label of ours has no state yet, MIG manager takes it up, and is
    /// done the next time.
    fn mig_managers(&mut self) {
        let map: rollout::map::MigMap = self.our_map().parse().unwrap_or_default();
        let a100 = mig::Catalog::builtin().get("A100-80GB");
        let due: Vec<(String, String, bool)> = self
            .objects
            .nodes
            .iter()
            .filter_map(|(name, node)| {
                let labels = node.metadata.labels.as_ref()?;
                let label = labels.get(names::MIG_CONFIG)?.clone();
                match labels.get(names::MIG_CONFIG_STATE).map(String::as_str) {
                    None => Some((name.clone(), label, false)),
                    Some("pending") => Some((name.clone(), label, true)),
                    Some(_) => None,
                }
            })
            .collect();
        for (name, label, taken_up) in due {
            // One run for each label and pod: that the state is taken away is no reason for another.
            let pod = &self.objects.pods[&(OPERATOR.to_owned(), format!("{MANAGER}-{name}"))];
            let run = format!("{name} {label} {}", pod.metadata.uid.as_deref().unwrap_or_default());
            if !taken_up {
                if !self.failed_runs.contains(&run) {
                    self.label(&name, names::MIG_CONFIG_STATE, Some("pending"));
                }
                continue;
            }
            if self.managers_fail {
                self.failed_runs.insert(run);
                self.label(&name, names::MIG_CONFIG_STATE, Some("failed"));
                continue;
            }
            let count =
                self.objects.nodes[&name].metadata.labels.as_ref().expect("labels")["nvidia.com/gpu.count"]
                    .parse::<u16>()
                    .expect("a number");
            let gpus: Vec<_> = (0..count)
                .map(|index| rollout::map::NodeGpu { index: planner::names::GpuIndex(index), model: a100 })
                .collect();
            let layout = map.layout_for(&label, &gpus).expect("the entry is there before the label");
            let strategy = self.strategy_of(&name);
            let offers = layout.allocatable(strategy).expect("it can be applied");
            let counts = layout.counted(strategy);
            self.edit_node(&name, |node| {
                let labels = node.metadata.labels.get_or_insert_default();
                labels.retain(|key, _| !(key.starts_with("nvidia.com/mig-") && key.ends_with(".count")));
                labels
                    .extend(counts.iter().map(|(resource, n)| (format!("{resource}.count"), n.to_string())));
                labels.insert(names::MIG_CONFIG_STATE.to_owned(), "success".to_owned());
                let allocatable = node.status.get_or_insert_default().allocatable.get_or_insert_default();
                allocatable.retain(|resource, _| !mig::GpuResource::is_one(resource));
                for (resource, n) in offers {
                    let n = Quantity(n.to_string());
                    allocatable.insert(resource, n);
                }
            });
            self.operand(&name, PLUGIN);
        }
    }

    /// How the device plugin of a node offers slices, as the node says itself.
    fn strategy_of(&self, node: &str) -> rollout::Strategy {
        let labels = self.objects.nodes[node].metadata.labels.as_ref().expect("labels");
        match labels.get("nvidia.com/mig.strategy").map(String::as_str) {
            Some("single") => rollout::Strategy::Single,
            _ => rollout::Strategy::Mixed,
        }
    }

    /// Gives the device plugin of a node a configuration of its own, in which
    /// the strategy is `single`.
    pub fn single(&mut self, name: &str) {
        self.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("nvidia.com/mig.strategy".to_owned(), "single".to_owned());
            labels.insert("nvidia.com/device-plugin.config".to_owned(), "single".to_owned());
            labels
                .insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-A100-SXM4-80GB-MIG-7g.80gb".to_owned());
            labels.retain(|key, _| !key.starts_with("nvidia.com/mig-"));
            let status = node.status.get_or_insert_default();
            let allocatable = status.allocatable.get_or_insert_default();
            if let Some(n) = allocatable.remove("nvidia.com/mig-7g.80gb") {
                allocatable.insert("nvidia.com/gpu".to_owned(), n);
            }
        });
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Rounds until one asks for nothing and writes nothing; time passes as
    /// the rounds say. Says how many there were.
    #[track_caller]
    pub fn settle(&mut self) -> usize {
        for n in 0..200 {
            let before = self.writes;
            let round = self.step(Until::End);
            let quiet = self.writes == before && round.nodes.values().all(|n| n.advance.actions.is_empty());
            let resting = round.nodes.values().all(|n| n.advance.progress.phase == rollout::Phase::Idle);
            if quiet && resting {
                return n;
            }
            if quiet {
                self.now = round.wake_at.unwrap_or(self.now).max(self.now + SignedDuration::from_secs(1));
            }
        }
        let stands: Vec<_> = self.round().nodes.into_iter().map(|(n, r)| (n, r.advance.outlook)).collect();
        panic!("it does not settle: {stands:?}");
    }

    /// What a node offers of a profile.
    pub fn offers(&self, node: &str, profile: &str) -> String {
        self.offers_resource(node, &format!("nvidia.com/mig-{profile}"))
    }

    /// What a node offers of a resource.
    pub fn offers_resource(&self, node: &str, resource: &str) -> String {
        let allocatable = self.objects.nodes[node].status.as_ref().and_then(|s| s.allocatable.as_ref());
        let quantity = allocatable.and_then(|a| a.get(resource));
        quantity.map_or_else(|| "0".to_owned(), |q| q.0.clone())
    }

    pub fn is_cordoned(&self, node: &str) -> bool {
        self.objects.nodes[node].spec.as_ref().and_then(|s| s.unschedulable) == Some(true)
    }

    /// A condition of the policy: status, reason and message.
    #[track_caller]
    pub fn condition(round: &Round, kind: &str) -> Option<(String, String, String)> {
        let status = round.policies.values().next().expect("there is a policy");
        let found = status.conditions.iter().find(|c| c.type_ == kind)?;
        Some((found.status.clone(), found.reason.clone(), found.message.clone()))
    }

    /// A condition of a node.
    #[track_caller]
    pub fn node_condition(round: &Round, node: &str, kind: &str) -> Option<(String, String, String)> {
        let wanted = &round.gpu_nodes[&NodeName(node.to_owned())];
        let found = wanted.status.conditions.iter().find(|c| c.type_ == kind)?;
        Some((found.status.clone(), found.reason.clone(), found.message.clone()))
    }
}
