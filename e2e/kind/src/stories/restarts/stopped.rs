//! The device plugin stands still between kubelet's choice of a slice and the answer. No book has that choice yet, so the
//! slice looks free to everybody.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Witness;
use super::change::Step;
use crate::call::call;
use crate::operator;
use crate::stories::by_hand::named;
use crate::stories::slicewright::on_demand;
use crate::stories::stage::Stage;
use crate::waiting::pause;

/// How long, in tenths of a second, it is looked whether the change goes on. Without a choice on its way it takes two
/// seconds or three to destroy the first slice.
const LOOKED_AT: u32 = 100;

pub(in crate::stories) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-3g.40gb", ("mig-3g.40gb", 2))?;
    stage.governs(&node, &on_demand())?;
    stage.has_agents("change")?;
    stage.agent_reports(&node, "Change", |there| there.len() as u64 == 2 * gpus)?;
    let witness = Witness::begins(stage.on(&node))?;
    // Two halves are free: one that kubelet chooses, and one that can be cut anew.
    let pods = named("train", 2 * gpus - 2);
    let slices = stage.hold_one_each(&node, &pods, "mig-3g.40gb")?;
    let before = stage.containers(&pods)?;

    stage.signals_plugin(&node, "STOP")?;
    // Bound by hand: nothing that the scheduler knows keeps it away.
    let mut chosen = stage.pod(&node, "chosen", "mig-3g.40gb", 1, "at-once");
    chosen["spec"]["nodeName"] = json!(node);
    stage.apply(&chosen)?;
    pause(20);
    stage.apply(&stage.pod(&node, "lab", "mig-1g.10gb", 1, "at-once"))?;
    stage.until("the node is held", || {
        let step = stage.step_of(&node)?;
        Ok(if step >= Some(Step::Held) { Ok(()) } else { Err(format!("it is {step:?}")) })
    })?;
    let mut furthest = None;
    for _ in 0..LOOKED_AT {
        furthest = furthest.max(stage.step_of(&node)?);
        let permit: Value = stage.get("gpunode", &node)?["spec"]["change"]["permit"].clone();
        ensure!(permit.is_null(), "while the choice is on its way there is a permit: {permit}");
        ensure!(witness.seen().destroyed.is_empty(), "while the choice is on its way a slice was destroyed");
        pause(1);
    }
    let waits = stage.get("pod", "chosen")?["status"].clone();
    ensure!(waits["phase"] == "Pending", "the plugin has stopped, and the pod is {waits}");
    stage.notes.push(format!("while the plugin stood still, the change came to {furthest:?} and no further"));

    stage.signals_plugin(&node, "CONT")?;
    let has = stage.runs("chosen")?;
    let given = stage.runs("lab")?;
    stage.comes_to_rest(&node)?;
    let there = stage.slices(&node)?;
    ensure!(there.contains(&has[0]), "the slice of chosen, {has:?}, is gone: {there:?}");
    ensure!(there.contains(&given[0]), "the slice of lab, {given:?}, is not there: {there:?}");
    ensure!(slices.values().all(|slice| there.contains(slice)), "{slices:?} were there: {there:?}");
    ensure!(stage.containers(&pods)? == before, "a pod that computed is another container");
    witness.is_awake()?;
    ensure!(witness.seen().lost.is_empty(), "slices were lost: {:?}", witness.seen().lost);
    drop(witness);
    stage.hands_over_to_mig_manager(&node)?;
    operator::install(stage.cluster, stage.place)
}

impl Stage<'_> {
    /// Sends a signal to the device plugin of a node.
    fn signals_plugin(&self, node: &str, signal: &str) -> anyhow::Result<()> {
        let send = format!("-{signal}");
        call(self.on(node).args(["pkill", &send, "-f", "^(/usr/bin/)?nvidia-device-plugin"])).map(drop)
    }
}
