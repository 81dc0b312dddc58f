//! Failures of MIG manager: the resulting state, and the ways to recover a node. The failures come from the
//! driver: the simulated library answers as NVML does in these cases.

use anyhow::ensure;

use super::stage::Stage;

impl Stage<'_> {
    /// A new pod of MIG manager does what the label says, and un-parks.
    fn is_healed_by_a_new_manager(&self, node: &str) -> anyhow::Result<()> {
        self.restart_operand(node, "nvidia-mig-manager")?;
        self.until("the state success", || {
            let now = self.label(node, "nvidia.com/mig.config.state")?;
            Ok(if now == "success" { Ok(()) } else { Err(now) })
        })?;
        self.nothing_is_parked(node)
    }
}

/// A slice that a program has open is not destroyed; what idles beside it is.
pub(super) fn busy_slice(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    // A full run in this process of MIG manager comes first: the next failure leaves the operands parked.
    stage.starts_as("all-disabled", ("gpu", 1))?;
    let (node, gpus) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    let given = stage.holds(&node, "trainer", "mig-1g.10gb", "at-once")?;
    stage.says("trainer", "open: ")?;

    stage.ask_for(&node, "all-3g.40gb")?;
    stage.ends(&node, "failed")?;
    let left = stage.slices(&node)?;
    ensure!(left.contains(&given[0]), "the slice of a program that runs was destroyed: {left:?}");
    ensure!(!stage.logs("trainer")?.contains("lost"), "the program says that its slice is gone");
    let plugin = stage.label(&node, "nvidia.com/gpu.deploy.device-plugin")?;
    ensure!(
        plugin == "paused-for-mig-change",
        "after a full run a failure leaves the plugin parked, and it is {plugin}"
    );

    stage.ends_work("trainer")?;
    stage.is_healed_by_a_new_manager(&node)?;
    stage.offers(&node, &[("mig-3g.40gb", 2 * gpus)])
}

/// Allocation is not use: NVML protects only what a process has open.
pub(super) fn idle_notebook(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, _) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    let given = stage.holds(&node, "idle", "mig-1g.10gb", "never")?;
    stage.ask_for(&node, "all-3g.40gb")?;
    stage.ends(&node, "success")?;
    let left = stage.slices(&node)?;
    ensure!(!left.contains(&given[0]), "{} is still there", given[0]);
    let phase = stage.get("pod", "idle")?["status"]["phase"].clone();
    ensure!(phase == "Running", "the pod that lost its slice is {phase}");
    Ok(())
}

/// An A100 changes its mode by a reset. One that fails leaves it pending.
pub(super) fn failed_reset(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-disabled", ("gpu", 1))?;
    stage.sim(&node, &["node", "fault", "failed-reset", "--gpu", "0", "--until-cleared"])?;
    stage.ask_for(&node, "all-1g.10gb")?;
    stage.ends(&node, "failed")?;
    let query = "nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending --format=csv,noheader -i 0";
    let mode = stage.in_driver(&node, query)?;
    ensure!(mode.trim() == "Disabled, Enabled", "the mode is {mode}");
    ensure!(stage.slices(&node)?.is_empty(), "there are slices without MIG");

    stage.sim(&node, &["node", "fault", "clear"])?;
    stage.is_healed_by_a_new_manager(&node)?;
    stage.offers(&node, &[("mig-1g.10gb", 7 * gpus)])
}
