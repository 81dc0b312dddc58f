//! The device plugin and the hardware that a pod uses.

use anyhow::ensure;

use super::stage::Stage;
use crate::gpus::NAMESPACE;

/// Allocation is the kubelet's: it outlives the plugin that handed it out.
pub(super) fn plugin_restarts(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    let slices = 7 * gpus;
    let given = stage.holds(&node, "first", "mig-1g.10gb", "at-once")?;
    let before = stage.get("pod", "first")?["status"]["containerStatuses"][0]["containerID"].clone();
    stage.restart_operand(&node, "nvidia-device-plugin-daemonset")?;
    stage.offers(&node, &[("mig-1g.10gb", slices)])?;
    let after = stage.get("pod", "first")?["status"]["containerStatuses"][0]["containerID"].clone();
    ensure!(before == after, "the pod's container was made anew");
    stage.apply(&stage.pod(&node, "others", "mig-1g.10gb", slices - 1, "at-once"))?;
    let others = stage.runs("others")?;
    ensure!(!others.contains(&given[0]), "{} was given again", given[0]);
    ensure!(!stage.logs("first")?.contains("lost"), "the first pod lost its slice");
    Ok(())
}

/// Whole GPUs: the kubelet asks the plugin which two it prefers, and the plugin asks NVML where GPUs are.
pub(super) fn two_whole_gpus(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-disabled", ("gpu", 1))?;
    ensure!(gpus >= 2, "{node} has {gpus} GPU");
    stage.apply(&stage.pod(&node, "pair", "gpu", 2, "at-once"))?;
    let given = stage.runs("pair")?;
    ensure!(given.len() == 2 && given[0] != given[1], "two GPUs were asked for, and {given:?} given");
    ensure!(given.iter().all(|uuid| uuid.starts_with("GPU-")), "{given:?} are no whole GPUs");
    for uuid in &given {
        stage.says("pair", uuid)?;
    }
    let plugin = stage.operand(&node, "nvidia-device-plugin-daemonset")?;
    let said =
        stage.kubectl(&["logs", "--namespace", NAMESPACE, &plugin, "--container", "nvidia-device-plugin"])?;
    ensure!(!said.contains("unable to get device link information"), "the plugin finds no links:\n{said}");
    stage.ends_work("pair")
}

/// A power cycle: instances do not survive it, and the label does.
pub(super) fn reboot(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    let slices = 7 * gpus;
    let before = stage.slices(&node)?;
    ensure!(u64::try_from(before.len())? == slices, "nvidia-smi lists {before:?}");
    let boot = |stage: &Stage<'_>| -> anyhow::Result<String> { stage.sim(&node, &["node", "show"]) };
    let first = boot(stage)?;
    stage.cluster.restart(&node)?;
    stage.until("the driver runs again", || {
        let now = boot(stage)?;
        let line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        Ok(if line(&now) == line(&first) { Err(line(&now)) } else { Ok(()) })
    })?;
    stage.offers(&node, &[("mig-1g.10gb", slices)])?;
    let after = stage.slices(&node)?;
    ensure!(after.len() == before.len(), "there were {before:?}, and there are {after:?}");
    // A slice's UUID follows from its place, so that the new ones have the old ones' UUIDs; that they are new
    // is seen by what MIG manager did: it found them gone.
    let manager = stage.operand(&node, "nvidia-mig-manager")?;
    let said = stage.kubectl(&["logs", "--namespace", NAMESPACE, &manager])?;
    ensure!(
        said.contains("Applying the selected MIG config to the node"),
        "MIG manager found nothing to do:\n{said}"
    );
    ensure!(stage.label(&node, "nvidia.com/mig.config.state")? == "success", "MIG manager did not end well");
    Ok(())
}
