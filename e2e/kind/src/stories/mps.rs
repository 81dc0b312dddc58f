//! What NVIDIA's device plugin makes of configurations that it does not serve, and that the operator never writes one:
//! MPS while the MIG strategy of all nodes is `mixed`, and one pod for each GPU. What MPS's control daemon starts is part
//! of the driver, and not to be had here; serving by MPS is shown on virtual nodes.

use anyhow::ensure;
use serde_json::{Value, json};

use super::by_hand::{LABEL, MAP, as_before};
use super::slicewright::policy;
use super::stage::{POOL, Stage, TEAM};
use crate::gpus::NAMESPACE;
use crate::operator;

const PLUGIN: &str = "nvidia-device-plugin-daemonset";

/// A policy that shares each T4 of its pool beside a layout.
fn shares(type_: &str, replicas: u64, layout: &str) -> Value {
    let mut policy = policy(&json!({"type": layout}), "Never");
    policy["spec"]["sharing"] = json!({"type": type_,
        "rules": [{"model": "T4", "resource": "nvidia.com/gpu", "replicas": replicas}]});
    policy
}

impl Stage<'_> {
    /// Waits until the device plugin of a node has ended with these words; its pod is another one after each start of the
    /// DaemonSet, and the same one after each start of the plugin.
    fn plugin_ended(&self, node: &str, word: &str) -> anyhow::Result<()> {
        self.until(&format!("the device plugin of {node} ends with {word:?}"), || {
            let pod = self.operand(node, PLUGIN)?;
            let logs = ["logs", "--namespace", NAMESPACE, &pod, "--container=nvidia-device-plugin"];
            // Between two starts it is the last one that has said something.
            let said = [self.kubectl(&logs), self.kubectl(&[&logs[..], &["--previous"]].concat())];
            let has_said = said.iter().flatten().any(|said| said.contains(word));
            Ok(if has_said { Ok(()) } else { Err(format!("it says {said:?}")) })
        })
    }

    /// The API server does not take an object, and says why in these words.
    fn is_not_taken(&self, object: &Value, word: &str) -> anyhow::Result<()> {
        let Err(why) = self.apply(object) else { anyhow::bail!("the API server takes {object}") };
        ensure!(format!("{why:#}").contains(word), "the API server says {why:#}");
        Ok(())
    }
}

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.worker("T4")?;
    let told = by_hand(stage, &node, gpus);
    let told = as_before(stage, &[&node], told).and_then(|()| by_policy(stage, &node, gpus));
    // Whatever came of it: the next story finds the node as it was.
    stage.to_its_end(&["delete", "gpupartitionpolicies.slicewright.io", "--all", "--ignore-not-found"])?;
    for map in [MAP, operator::PLUGIN_MAP] {
        stage.kubectl(&["delete", "configmap", "--namespace", NAMESPACE, map, "--ignore-not-found"])?;
    }
    told.and_then(|()| stage.offers(&node, &[("gpu", gpus)]))
}

/// An administrator names such a configuration: the node offers nothing until it has another one.
fn by_hand(stage: &Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    stage.has_configurations()?;
    stage.offers(node, &[("gpu", gpus)])?;
    let alone = ["alone".to_owned()];
    stage.holds(node, &alone[0], "gpu", "at-once")?;
    let container = stage.containers(&alone)?;
    for (key, why) in [
        ("mps-by-8", "using --mig-strategy=mixed is not supported with MPS"),
        ("by-1", "number of replicas must be >= 2"),
    ] {
        stage.configured(node, key)?;
        stage.plugin_ended(node, why)?;
        stage.offers(node, &[])?;
        stage.are_unharmed(&alone, &container)?;
        stage.configured(node, "default")?;
        stage.offers(node, &[("gpu", gpus)])?;
    }
    stage.ends_work(&alone[0])
}

/// The same by policy: it is refused with what to write, and nothing is done to the node.
fn by_policy(stage: &Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    let alone = ["alone".to_owned()];
    stage.offers(node, &[("gpu", gpus)])?;
    stage.holds(node, &alone[0], "gpu", "at-once")?;
    let container = stage.containers(&alone)?;
    operator::install(stage.cluster, stage.place)?;
    stage.kubectl(&["label", "node", node, "--overwrite", &format!("{POOL}={TEAM}")])?;
    stage.is_not_taken(&shares("TimeSlicing", 1, "None"), "leave the rule out")?;
    stage.is_not_taken(&shares("MPS", 8, "DemandDriven"), "MPS serves whole GPUs with MIG off only")?;
    stage.apply(&shares("MPS", 8, "None"))?;
    let said = stage.policy_says("Accepted", "the device plugin exits on every node that shares by MPS")?;
    let command = "kubectl patch clusterpolicies.nvidia.com cluster-policy --type merge -p '{\"spec\":{\"mig\":{\"strategy\":null}}}'";
    ensure!(said.contains(command), "it says {said}");
    stage.policy_is("Accepted", "False")?;
    ensure!(stage.label(node, LABEL)?.is_empty(), "the label was written");
    stage.offers(node, &[("gpu", gpus)])?;
    stage.are_unharmed(&alone, &container)?;
    stage.is_uncordoned(node)?;
    stage.ends_work(&alone[0])
}
