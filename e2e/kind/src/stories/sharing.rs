//! GPUs that several pods share because a policy says so, on a worker with cards that know no MIG: the operator writes
//! configurations and labels, NVIDIA's device plugin and config-manager follow, and a real kubelet allocates.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::by_hand::{LABEL, MAP, named, sharers};
use super::slicewright::policy;
use super::stage::{POOL, Stage, TEAM};
use crate::gpus::NAMESPACE;
use crate::operator;

/// A policy that shares each T4 of its pool between so many pods; between none, if there is no number.
fn sharing(replicas: Option<u64>) -> Value {
    let mut policy = policy(&json!({"type": "None"}), "Never");
    policy["spec"]["sharing"] = match replicas {
        Some(many) => json!({"type": "TimeSlicing",
            "rules": [{"model": "T4", "resource": "nvidia.com/gpu", "replicas": many}]}),
        None => json!({"type": "None"}),
    };
    policy
}

impl Stage<'_> {
    /// Waits until a condition of the policy says this; the whole message.
    pub(super) fn policy_says(&self, condition: &str, part: &str) -> anyhow::Result<String> {
        let mut message = String::new();
        self.until(&format!("the policy's {condition} says {part:?}"), || {
            let status = self.get("gpupartitionpolicy", TEAM)?["status"].clone();
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.clone().find(|one| one["type"] == condition);
            message = found.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned();
            Ok(if message.contains(part) { Ok(()) } else { Err(status["conditions"].to_string()) })
        })?;
        Ok(message)
    }

    /// Each of these pods runs as the container that it was, and has lost nothing.
    pub(super) fn are_unharmed(&self, pods: &[String], containers: &[String]) -> anyhow::Result<()> {
        for (pod, container) in pods.iter().zip(containers) {
            ensure!(self.container(pod)? == *container, "{pod} is another container");
            ensure!(!self.logs(pod)?.contains("lost"), "{pod} lost its GPU");
        }
        Ok(())
    }
}

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.worker("T4")?;
    ensure!(gpus >= 2, "{node} has {gpus} T4: bring the cluster up with --worker 2xT4");
    let told = by_policy(stage, &node, gpus);
    // Whatever came of it: the next story finds the node and its plugin as they were.
    stage.to_its_end(&["delete", "gpupartitionpolicies.slicewright.io", "--all"])?;
    stage.configured(&node, "")?;
    stage.plugin_reads("", "")?;
    for map in [MAP, operator::PLUGIN_MAP] {
        stage.kubectl(&["delete", "configmap", "--namespace", NAMESPACE, map, "--ignore-not-found"])?;
    }
    told.and_then(|()| stage.offers(&node, &[("gpu", gpus)]))
}

fn by_policy(stage: &Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    stage.has_configurations()?;
    stage.offers(node, &[("gpu", gpus)])?;
    let alone = stage.holds(node, "alone", "gpu", "at-once")?;
    let first = [stage.container("alone")?];
    operator::install(stage.cluster, stage.place)?;
    stage.kubectl(&["label", "node", node, "--overwrite", &format!("{POOL}={TEAM}")])?;
    stage.apply(&sharing(Some(4)))?;

    // The map is there first, with the administrators' keys; the command is printed, and an administrator runs it.
    let said = stage.policy_says("Degraded", operator::PLUGIN_MAP)?;
    ensure!(
        said.contains("kubectl patch clusterpolicies.nvidia.com cluster-policy --type merge"),
        "it says {said}"
    );
    let map = stage.kubectl(&[
        "get",
        "configmap",
        "--namespace",
        NAMESPACE,
        operator::PLUGIN_MAP,
        "--output=json",
    ])?;
    let map: Value = serde_json::from_str(&map).context("kubectl does not answer in JSON")?;
    ensure!(map["data"]["by-6"].is_string(), "an administrators' key is missing in {map}");
    stage.plugin_reads(operator::PLUGIN_MAP, "default")?;

    // Who has a GPU alone gets no neighbours: the node waits for it, and nothing of it changes.
    stage.policy_says("Ready", "alone")?;
    stage.offers(node, &[("gpu", gpus)])?;
    ensure!(stage.label(node, LABEL)?.is_empty(), "the label was written under a pod that has a GPU alone");
    stage.are_unharmed(&["alone".to_owned()], &first)?;
    ensure!(alone.len() == 1, "{alone:?}");
    stage.ends_work("alone")?;
    stage.offers(node, &[("gpu.shared", 4 * gpus)])?;
    stage.is_labelled(node, &[("gpu.replicas", "4"), ("gpu.sharing-strategy", "time-slicing")])?;
    stage.policy_is("Ready", "True")?;
    stage.is_uncordoned(node)?;

    // Four for each T4, and one more is told why.
    let labs = named("lab", 4 * gpus);
    let given = stage.hold_one_each(node, &labs, "gpu.shared")?;
    let each = sharers(&given);
    ensure!(each.len() as u64 == gpus && each.values().all(|many| *many == 4), "shares are {each:?}");
    let containers = stage.containers(&labs)?;
    stage.apply(&stage.pod(node, "fifth", "gpu.shared", 1, "at-once"))?;
    let why = stage.waits("fifth")?;
    ensure!(why.contains("Insufficient nvidia.com/gpu.shared"), "the scheduler says {why}");

    // Up, with work on the node: at once, and the one that waited runs.
    stage.apply(&sharing(Some(6)))?;
    stage.offers(node, &[("gpu.shared", 6 * gpus)])?;
    stage.runs("fifth")?;
    stage.policy_is("Ready", "True")?;
    stage.are_unharmed(&labs, &containers)?;

    // Down: one too many is there, and the node waits until it has gone.
    stage.apply(&sharing(Some(4)))?;
    stage.policy_says("Ready", "fifth")?;
    stage.offers(node, &[("gpu.shared", 6 * gpus)])?;
    stage.ends_work("fifth")?;
    stage.offers(node, &[("gpu.shared", 4 * gpus)])?;
    stage.policy_is("Ready", "True")?;
    stage.are_unharmed(&labs, &containers)?;

    // Off: nobody gets a GPU for itself as long as anybody has a share.
    stage.apply(&sharing(None))?;
    stage.policy_says("Ready", &labs[0])?;
    stage.offers(node, &[("gpu.shared", 4 * gpus)])?;
    stage.are_unharmed(&labs, &containers)?;
    for pod in &labs {
        stage.ends_work(pod)?;
    }
    stage.offers(node, &[("gpu", gpus)])?;
    stage.policy_is("Ready", "True")?;
    stage.is_uncordoned(node)
}
