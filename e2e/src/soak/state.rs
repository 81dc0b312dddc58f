//! The state of a soak test: its counts, the workloads, the active faults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::etcd::Copy;
use crate::settable::Settable;
use crate::{NodeSpec, POOL, Scene, TEAM, pod, policy};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::json;

use super::Plan;
use super::node_agent::NodeAgent;

/// The policy of the fleet.
pub(crate) const POLICY: &str = "soak";

/// What a network card is.
const NIC: &str = "nvidia.com/hostdev";
/// By this a pod goes to one node.
const HOST: &str = "/spec/nodeSelector/kubernetes.io~1hostname";

/// A soak that is going on.
pub(crate) struct Soak {
    numbers: u64,
    /// How to make each node again.
    pub(crate) fleet: BTreeMap<&'static str, NodeSpec>,
    /// Bare pods, by name.
    pub(crate) pods: BTreeSet<String>,
    /// Workbenches, and whether they are stopped.
    pub(crate) workbenches: BTreeMap<String, bool>,
    /// How many names were given.
    pub(crate) named: usize,
    /// The most nodes that any policy so far allowed to be away.
    pub(crate) most_away: usize,
    /// How often each kind of event happened.
    pub(crate) counts: BTreeMap<&'static str, usize>,
    /// Nodes that ended `Failed` and were replaced.
    pub(crate) replaced: usize,
    /// By which the operator goes.
    pub(crate) clock: Settable,
    /// etcd's data as they were some events ago.
    pub(crate) copy: Option<Copy>,
    /// What the operands of the nodes were told then.
    pub(super) layouts: BTreeMap<String, [Option<String>; 2]>,
    /// How many copies were made.
    pub(crate) copies: usize,
    /// Whether there are T4s that pods share.
    pub(super) shares: bool,
    /// Bare pods that have, or wait for, a T4 or a share of one, by name.
    pub(super) sharers: BTreeSet<String>,
    /// The agents, by node.
    pub(super) agents: BTreeMap<&'static str, NodeAgent>,
}

/// The nodes of the pool whose T4s are shared.
pub(super) fn shared() -> [(&'static str, NodeSpec); 2] {
    ["t1", "t2"].map(|name| (name, NodeSpec::new(name, 2, "T4").label(POOL, "notebooks").devices(NIC, 8)))
}

impl Soak {
    /// A fleet of three models, a policy, and an operator.
    pub(crate) async fn begin(scene: &mut Scene, plan: Plan) -> anyhow::Result<Self> {
        let node = |name: &'static str, gpus: u16, model: &str| {
            // Beside the GPU Operator runs a Network Operator, as on most such machines.
            (name, NodeSpec::new(name, gpus, model).label(POOL, "research").devices(NIC, 8))
        };
        let mut fleet = BTreeMap::from([
            node("a1", 2, "A100-80GB"),
            node("a2", 1, "A100-80GB"),
            node("a3", 1, "A30"),
            node("h1", 2, "H100-80GB"),
        ]);
        fleet.extend(shared().into_iter().filter(|_| plan.sharing));
        scene.nodes_are(fleet.values().cloned()).await?;
        scene
            .apply(policy(POLICY, "research").bounds("1g.10gb", &json!({"minCount": 2, "spareCount": 1})))
            .await?;
        let clock = Settable::default();
        let told = clock.clock();
        scene.operator_with(|settings| settings.clock = told).await?;
        for name in fleet.keys() {
            // Somebody who has a network card of the node and nothing else of it.
            scene.apply(pod(&format!("nic-{name}"), NIC, 1).with(HOST, *name)).await?;
        }
        Ok(Self {
            numbers: plan.seed,
            fleet,
            pods: BTreeSet::new(),
            workbenches: BTreeMap::new(),
            named: 0,
            most_away: 1,
            counts: BTreeMap::new(),
            replaced: 0,
            clock,
            copy: None,
            layouts: BTreeMap::new(),
            copies: 0,
            shares: false,
            sharers: BTreeSet::new(),
            agents: BTreeMap::new(),
        })
    }

    /// Who is there, after an older copy of etcd was put back.
    pub(crate) async fn look_who_is_there(&mut self, scene: &Scene) -> anyhow::Result<()> {
        let pods = scene.pods_of_tenants().await?;
        let called = |start: &str| -> BTreeSet<String> {
            pods.iter().map(ResourceExt::name_any).filter(|name| name.starts_with(start)).collect()
        };
        (self.pods, self.sharers) = (called("pod-"), called("seat-"));
        let kind = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": "any", "namespace": TEAM}});
        let (notebooks, _) = crate::objects::api_of(&scene.client(), &kind).await?;
        let stopped =
            |notebook: &DynamicObject| notebook.annotations().contains_key("kubeflow-resource-stopped");
        let notebooks = notebooks.list(&ListParams::default()).await?;
        self.workbenches = notebooks.iter().map(|n| (n.name_any(), stopped(n))).collect();
        Ok(())
    }

    /// A number below `end` (splitmix64).
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.numbers = self.numbers.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.numbers;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from((x ^ (x >> 31)) % end).unwrap_or_default()
    }

    /// One of some things, if there are any.
    pub(crate) fn one_of<T: Clone>(&mut self, things: &[T]) -> Option<T> {
        let at = self.below(things.len());
        things.get(at).cloned()
    }

    /// Lets a random while pass.
    pub(crate) async fn pause(&mut self, most_ms: u64) {
        let most = usize::try_from(most_ms).unwrap_or_default();
        let millis = self.below(most + 1);
        tokio::time::sleep(Duration::from_millis(u64::try_from(millis).unwrap_or_default())).await;
    }

    /// What happened, in one line.
    pub(crate) fn summary(&self) -> String {
        let counts: Vec<String> = self.counts.iter().map(|(what, n)| format!("{n} x {what}")).collect();
        format!("{}; {} nodes ended Failed and were replaced", counts.join(", "), self.replaced)
    }
}
