//! Conditions that must hold after every event, and when the fleet is at rest.

use std::time::Duration;

use crate::expect::paused_by_us;
use crate::weather::Weather;
use crate::{Scene, policy, wait};
use anyhow::ensure;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use mig::resource::GpuResource;

use super::state::{POLICY, Soak};

/// Coming to rest takes some rollouts one after another, each with its
/// retries and roll-backs.
pub(super) const PATIENCE: Duration = Duration::from_secs(240);

impl Soak {
    /// Invariants 1 and 5, at any moment (section "Invariants" of `docs/architecture.md`).
    pub(crate) async fn nothing_is_broken(&self, scene: &Scene) -> anyhow::Result<()> {
        let breaches = scene.simulator().breaches();
        ensure!(breaches.is_empty(), "slices were taken from pods that had them: {breaches:#?}");
        let nodes = scene.nodes().list(&ListParams::default()).await?;
        let gpu_nodes = scene.gpu_nodes().list(&ListParams::default()).await?;
        // A node that lost its slices by a reboot is away already: what it had
        // is brought back behind our cordon, whatever the budget.
        let is_restored = |node: &&Node| {
            let rollout = gpu_nodes.iter().find(|g| g.name_any() == node.name_any());
            let rollout = rollout.and_then(|g| g.status.as_ref()?.rollout.as_ref()?.progress.as_ref());
            rollout.is_some_and(|progress| progress["target"]["restore"] == true)
        };
        let ours = nodes.iter().filter(|node| node.labels().contains_key("slicewright.io/cordoned-by"));
        let away: Vec<String> = ours.filter(|node| !is_restored(node)).map(ResourceExt::name_any).collect();
        // The policy of the T4s has a budget of its own.
        let most = self.most_away + usize::from(self.shares);
        ensure!(away.len() <= most, "{away:?} are cordoned by us, and at most {most} may be away");
        Ok(())
    }

    /// Faults end, the policy is in force, and everything comes to rest;
    /// whoever waits has an answer then. Says what was found.
    pub(crate) async fn settle(&mut self, scene: &mut Scene) -> anyhow::Result<String> {
        for name in self.fleet.keys() {
            scene.simulator().clear(name)?;
        }
        scene.operators().iter().for_each(|operator| operator.wire().turns(Weather::Fair));
        // Nodes may be replaced from here on: a copy of before would bring the old ones back.
        self.copy = None;
        self.sharers_go(scene).await?;
        scene.apply(policy(POLICY, "research")).await?;
        self.agents_are_up(scene).await?;
        let failed = self.at_rest(scene).await?;
        for name in &failed {
            // What a human does who has no time: the node is replaced.
            let Some(spec) = self.fleet.get(name.as_str()).cloned() else { continue };
            self.agent_goes_with_its_node(scene, name).await?;
            scene.simulator().delete_node(name).await?;
            // The old one has to be gone first.
            wait::asking("the node can be made again", PATIENCE, async || {
                Ok(scene.simulator().add_node(spec.clone()).map_err(|error| error.to_string()))
            })
            .await?;
            self.replaced += 1;
        }
        if !failed.is_empty() {
            self.agents_are_up(scene).await?;
            let left = self.at_rest(scene).await?;
            ensure!(left.is_empty(), "{left:?} were replaced and failed again");
        }
        let waiting = self.everybody_has_an_answer(scene).await?;
        self.nothing_is_broken(scene).await?;
        let evictions =
            scene.audit()?.writes()?.into_iter().filter(|w| w.object_ref.subresource == "eviction").count();
        ensure!(evictions == 0, "a demand-driven policy evicted {evictions} pods");
        let mut found = format!(
            "at rest: {} run, {waiting} wait and know why, {} failed nodes replaced",
            scene.running().await?.len(),
            failed.len()
        );
        for node in &scene.nodes().list(&ListParams::default()).await? {
            found.push_str("\n    ");
            found.push_str(&offers(node));
        }
        Ok(found)
    }

    /// Waits until no node is on its way; says which ended `Failed`.
    async fn at_rest(&self, scene: &Scene) -> anyhow::Result<Vec<String>> {
        // Quiet for a while: what one rollout frees may start the next.
        let mut quiet = 0;
        wait::asking("no node is on its way", PATIENCE, async || {
            for operator in scene.operators() {
                operator.is_well()?;
            }
            let nodes = scene.gpu_nodes().list(&ListParams::default()).await?;
            let phase = |node: &api::GpuNode| {
                let rollout = node.status.as_ref().and_then(|status| status.rollout.as_ref());
                rollout.map(|rollout| rollout.phase.clone()).unwrap_or_default()
            };
            // A failed node is away and uses up the budget: who has not begun waits until it is replaced.
            let any_failed = nodes.iter().any(|node| phase(node) == "Failed");
            let busy = nodes.iter().find(|node| match phase(node).as_str() {
                "" | "Idle" | "Failed" => false,
                "Mapping" => !any_failed,
                _ => true,
            });
            let nodes_now = scene.nodes().list(&ListParams::default()).await?;
            // A failed node is what it is, whoever uncordoned it.
            let has_failed =
                |node: &&Node| nodes.iter().any(|n| n.name_any() == node.name_any() && phase(n) == "Failed");
            let away = nodes_now.iter().find(|node| !has_failed(node) && !is_back(node)).map(offers);
            let away =
                away.or_else(|| nodes_now.iter().find(|node| !has_failed(node) && is_held(node)).map(held));
            quiet = if busy.is_none() && away.is_none() { quiet + 1 } else { 0 };
            if quiet < 60 {
                let what = busy.map(|node| format!("{} is {}", node.name_any(), phase(node))).or(away);
                return Ok(Err(what.unwrap_or_else(|| "it is quiet only just".to_owned())));
            }
            let failed = nodes.iter().filter(|node| phase(node) == "Failed").map(ResourceExt::name_any);
            Ok(Ok(failed.collect()))
        })
        .await
    }

    /// Invariant 8: who waits for a slice is among the unserved of the policy.
    async fn everybody_has_an_answer(&self, scene: &Scene) -> anyhow::Result<usize> {
        wait::asking("everybody who waits has an answer", PATIENCE, async || {
            let pods = scene.pods_of_tenants().await?;
            let is_waiting = |pod: &&Pod| {
                let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                // Where older data of etcd were put back, a pod may have ended without ever having been bound.
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let has_ended = matches!(phase, Some("Failed" | "Succeeded"));
                !bound && !has_ended && pod.metadata.deletion_timestamp.is_none()
            };
            let waiting: Vec<String> = pods.iter().filter(is_waiting).map(ResourceExt::name_any).collect();
            let policy = scene.policies().get(POLICY).await?;
            let unserved = policy.status.and_then(|status| status.unserved).unwrap_or_default();
            let answered = |name: &String| {
                unserved.requests.iter().any(|r| name == &r.name || name == &format!("{}-0", r.name))
            };
            Ok(match waiting.iter().find(|name| !answered(name)) {
                None => Ok(waiting.len()),
                Some(name) => Err(format!("{name} waits, and the policy does not say why")),
            })
        })
        .await
    }
}

/// Ready, and offering something: back from a reboot.
fn is_back(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True");
    ready && !offers(node).ends_with("nothing")
}

/// Closed or paused by us.
fn is_held(node: &Node) -> bool {
    node.labels().contains_key("slicewright.io/cordoned-by") || !paused_by_us(node).is_empty()
}

fn held(node: &Node) -> String {
    format!("{} is closed by us, with {:?} paused", node.name_any(), paused_by_us(node))
}

/// A node in one line: what its label says, and what it offers.
fn offers(node: &Node) -> String {
    let label = node.labels().get("nvidia.com/mig.config").map_or("no label", String::as_str);
    let allocatable = node.status.iter().flat_map(|status| status.allocatable.iter().flatten());
    let slices: Vec<String> = allocatable
        .filter(|(resource, count)| GpuResource::is_one(resource) && count.0 != "0")
        .map(|(resource, count)| format!("{} {resource}", count.0))
        .collect();
    format!(
        "{}: {label}, offers {}",
        node.name_any(),
        if slices.is_empty() { "nothing".to_owned() } else { slices.join(", ") }
    )
}
