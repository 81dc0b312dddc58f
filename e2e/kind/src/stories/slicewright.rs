//! Slicewright in the cluster: its image, its chart, its permissions, together with NVIDIA's MIG manager.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::stage::{POOL, Stage, TEAM};
use crate::call::call;
use crate::gpus::NAMESPACE;
use crate::operator;

/// A policy over the pool, with this layout.
pub(super) fn policy(layout: &Value, drain: &str) -> Value {
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuPartitionPolicy", "metadata": {"name": TEAM},
        "spec": {
            "nodeSelector": {"matchLabels": {POOL: TEAM}},
            "layout": layout,
            "rollout": {"drain": drain, "cooldown": "0s", "maxUnavailable": 1},
        },
    })
}

/// A policy that gives every GPU of the pool these slices.
fn always(profile: &str, count: u64, drain: &str) -> Value {
    let slices = json!([{"profile": profile, "count": count}]);
    policy(&json!({"type": "Static", "static": {"gpus": [{"slices": slices}]}}), drain)
}

/// A policy that follows what people ask for, and takes nothing from anybody.
pub(super) fn on_demand() -> Value {
    policy(&json!({"type": "DemandDriven"}), "Never")
}

impl Stage<'_> {
    /// Waits until the policy, as it is now, has a condition of this status.
    pub(super) fn policy_is(&self, condition: &str, status: &str) -> anyhow::Result<()> {
        self.until(&format!("the policy is {condition}={status}"), || {
            let policy = self.get("gpupartitionpolicy", TEAM)?;
            let current = policy["status"]["observedGeneration"] == policy["metadata"]["generation"];
            let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|one| one["type"] == condition);
            let is = current && found.is_some_and(|one| one["status"] == status);
            Ok(if is { Ok(()) } else { Err(format!("{}", policy["status"]["conditions"])) })
        })
    }

    /// Waits until a node takes pods again.
    pub(super) fn is_uncordoned(&self, node: &str) -> anyhow::Result<()> {
        self.until(&format!("{node} is uncordoned"), || {
            let there = self.get("node", node)?;
            let cordoned = there["spec"]["unschedulable"] == json!(true);
            Ok(if cordoned { Err("it is cordoned".to_owned()) } else { Ok(()) })
        })
    }

    /// Slicewright is installed and has this worker in its pool, under a policy.
    pub(super) fn governs(&self, node: &str, policy: &Value) -> anyhow::Result<()> {
        operator::install(self.cluster, self.place)?;
        self.kubectl(&["label", "node", node, "--overwrite", &format!("{POOL}={TEAM}")])?;
        self.apply(policy)?;
        self.policy_is("Ready", "True")
    }

    /// A worker with A100s that a policy has cut into seven slices a GPU.
    fn governed_in_sevenths(&self) -> anyhow::Result<(String, u64)> {
        let (node, gpus) = self.worker("A100-80GB")?;
        self.governs(&node, &always("1g.10gb", 7, "Never"))?;
        self.offers(&node, &[("mig-1g.10gb", 7 * gpus)])?;
        Ok((node, gpus))
    }

    /// A policy changes, and the worker is on its way: another layout is asked
    /// for, and MIG manager has only now been told.
    fn sets_out(&self, node: &str, policy: &Value) -> anyhow::Result<()> {
        let before = self.label(node, "nvidia.com/mig.config")?;
        self.apply(policy)?;
        self.until("the new layout is asked for", || {
            let now = self.label(node, "nvidia.com/mig.config")?;
            Ok(if now == before { Err(format!("the layout is {now}")) } else { Ok(()) })
        })
    }

    /// The policy is carried out on the worker, which takes pods again.
    fn arrives(&self, node: &str, offers: (&str, u64)) -> anyhow::Result<()> {
        self.policy_is("Ready", "True")?;
        self.offers(node, &[offers])?;
        self.is_uncordoned(node)
    }

    /// Other pods of the operator take the place of those that are there, as
    /// in an upgrade.
    fn rolls_over(&self) -> anyhow::Result<()> {
        let of_ours = ["deployment", "--namespace", operator::NAMESPACE, operator::RELEASE];
        self.kubectl(&[&["rollout", "restart"], &of_ours[..]].concat())?;
        self.to_its_end(&[&["rollout", "status"], &of_ours[..]].concat())
    }

    /// Nobody may evict this pod.
    fn has_a_budget(&self, pod: &str) -> anyhow::Result<()> {
        self.apply(&json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": pod, "namespace": TEAM},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": pod}}},
        }))
    }

    /// The budget of a pod holds its eviction up: the worker waits, cordoned,
    /// and says for whom.
    fn waits_for(&self, pod: &str, node: &str) -> anyhow::Result<()> {
        self.until("the budget holds the eviction up", || {
            let there = self.get("node", node)?;
            let said = self.get("gpunode", node)?["status"].to_string();
            let cordoned = there["spec"]["unschedulable"] == json!(true);
            let named = said.contains(pod);
            Ok(if cordoned && named { Ok(()) } else { Err(format!("cordoned: {cordoned}; {said}")) })
        })
    }

    /// A pod is there, nobody deletes it, and it has its slice.
    fn is_unharmed(&self, pod: &str, node: &str, slice: &str) -> anyhow::Result<()> {
        let there = self.get("pod", pod).with_context(|| format!("the pod {pod} is gone"))?;
        ensure!(there["metadata"]["deletionTimestamp"].is_null(), "the pod {pod} is being deleted");
        ensure!(self.slices(node)?.iter().any(|one| one == slice), "the slice of {pod} is gone");
        Ok(())
    }

    /// It was Slicewright's layout that MIG manager applied last.
    pub(super) fn was_cut_by_mig_manager(&self, node: &str) -> anyhow::Result<()> {
        let layout = self.label(node, "nvidia.com/mig.config")?;
        ensure!(layout.starts_with("slicewright-"), "the layout's name is {layout}");
        let manager = self.operand(node, "nvidia-mig-manager")?;
        let said = self.kubectl(&["logs", "--namespace", NAMESPACE, &manager, "--tail=200"])?;
        let done = format!("Successfully updated to MIG config: {layout}");
        ensure!(said.contains(&done), "MIG manager says\n{said}");
        Ok(())
    }
}

/// From a policy to a pod that runs on its slice.
pub(super) fn follows(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    stage.starts_as("all-disabled", ("gpu", 1))?;
    let (node, _) = stage.governed_in_sevenths()?;
    stage.is_uncordoned(&node)?;
    stage.was_cut_by_mig_manager(&node)?;
    let policy = stage.get("clusterpolicy", "cluster-policy")?;
    let map = &policy["spec"]["migManager"]["config"]["name"];
    ensure!(map == "slicewright-mig-config", "ClusterPolicy names the map {map}");

    let given = stage.holds(&node, "worker", "mig-1g.10gb", "at-once")?;
    stage.says("worker", &format!("open: {}", given[0]))?;

    // The operator is replaced: nothing of what it did changes.
    let labels = |stage: &Stage<'_>| -> anyhow::Result<Value> {
        let mut labels = stage.get("node", &node)?["metadata"]["labels"].clone();
        labels["nvidia.com/gfd.timestamp"].take();
        Ok(labels)
    };
    let before = labels(stage)?;
    stage.rolls_over()?;
    stage.policy_is("Ready", "True")?;
    let after = labels(stage)?;
    ensure!(before == after, "a new operator changed the node's labels from {before} to {after}");
    ensure!(stage.slices(&node)?.contains(&given[0]), "the pod's slice is gone");
    let fleet = stage.get("gpunode", &node)?;
    ensure!(fleet["status"]["rollout"]["lastError"].is_null(), "the GpuNode says {}", fleet["status"]);
    Ok(())
}

/// Invariant 1, with a real scheduler, a real kubelet and real evictions.
pub(super) fn drains(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.governed_in_sevenths()?;
    // It has opened nothing: NVML would let its slice go.
    let given = stage.holds(&node, "notebook", "mig-1g.10gb", "never")?;
    stage.has_a_budget("notebook")?;

    stage.apply(&always("3g.40gb", 2, "Never"))?;
    stage.policy_is("Ready", "False")?;
    stage.is_unharmed("notebook", &node, &given[0])?;

    // Eviction is allowed, and the budget is not: the node waits, cordoned.
    stage.apply(&always("3g.40gb", 2, "Evict"))?;
    stage.waits_for("notebook", &node)?;
    stage.is_unharmed("notebook", &node, &given[0])?;

    stage.kubectl(&["delete", "poddisruptionbudget", "--namespace", TEAM, "notebook"])?;
    stage.arrives(&node, ("mig-3g.40gb", 2 * gpus))?;
    let gone = stage.kubectl(&[
        "get",
        "pod",
        "--namespace",
        TEAM,
        "notebook",
        "--ignore-not-found",
        "--output=name",
    ])?;
    ensure!(gone.trim().is_empty(), "the notebook's pod is still there");
    stage.was_cut_by_mig_manager(&node)
}

/// The power fails while MIG manager is at work: what was cut is lost, and the
/// rollout ends all the same.
pub(super) fn survives(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.governed_in_sevenths()?;
    stage.sets_out(&node, &always("2g.20gb", 3, "Never"))?;
    stage.cluster.restart(&node)?;
    stage.arrives(&node, ("mig-2g.20gb", 3 * gpus))?;
    stage.nothing_is_parked(&node)?;
    stage.holds(&node, "worker", "mig-2g.20gb", "at-once").map(drop)
}

/// Operators go while MIG manager is at work: first as an upgrade replaces
/// them, then killed, with no time to say anything. The one that gets the lease
/// ends what the last one began.
pub(super) fn outlives_its_operators(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.governed_in_sevenths()?;
    stage.sets_out(&node, &always("2g.20gb", 3, "Never"))?;
    stage.rolls_over()?;
    stage.arrives(&node, ("mig-2g.20gb", 3 * gpus))?;

    stage.sets_out(&node, &always("3g.40gb", 2, "Never"))?;
    let all = ["--namespace", operator::NAMESPACE, "--all", "--force", "--grace-period=0"];
    stage.kubectl(&[&["delete", "pods"], &all[..]].concat())?;
    stage.arrives(&node, ("mig-3g.40gb", 2 * gpus))?;
    stage.was_cut_by_mig_manager(&node)?;
    stage.nothing_is_parked(&node)?;
    stage.holds(&node, "worker", "mig-3g.40gb", "at-once").map(drop)
}

/// The chart goes while a node waits for a budget: its hook frees the node.
/// Policies stay, and what comes back goes on with them.
pub(super) fn leaves(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.governed_in_sevenths()?;
    let given = stage.holds(&node, "notebook", "mig-1g.10gb", "never")?;
    stage.has_a_budget("notebook")?;
    stage.apply(&always("3g.40gb", 2, "Evict"))?;
    stage.waits_for("notebook", &node)?;

    operator::uninstall(stage.cluster)?;
    // Helm does not wait for what it did not make itself; the hook was over before it began.
    stage.is_uncordoned(&node)?;
    stage.is_unharmed("notebook", &node, &given[0])?;
    stage.get("gpupartitionpolicy", TEAM).context("the policy is gone")?;
    let left = stage.kubectl(&[
        "get",
        "deployments,jobs,serviceaccounts,services,configmaps",
        "--namespace",
        operator::NAMESPACE,
        "--selector=app.kubernetes.io/name=slicewright",
        "--output=name",
    ])?;
    ensure!(left.trim().is_empty(), "helm left {left}");

    // What a person took from Slicewright's hands is that person's to give back.
    operator::install(stage.cluster, stage.place)?;
    stage.until("the node is known as released", || {
        let said = stage.get("gpunode", &node)?["status"]["conditions"].to_string();
        Ok(if said.contains("slicewright release") && said.contains("--resume") { Ok(()) } else { Err(said) })
    })?;
    stage.is_uncordoned(&node)?;
    let mut slicewright = stage.cluster.inside(tools::find("slicewright")?);
    call(slicewright.args(["release", "--resume", &node, "--operator-namespace", operator::NAMESPACE]))?;
    stage.waits_for("notebook", &node)?;
    stage.is_unharmed("notebook", &node, &given[0])?;
    stage.kubectl(&["delete", "poddisruptionbudget", "--namespace", TEAM, "notebook"])?;
    stage.arrives(&node, ("mig-3g.40gb", 2 * gpus))
}
