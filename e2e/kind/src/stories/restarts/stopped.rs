//! The device plugin stands still between kubelet's choice of a slice and the answer. No book has that choice yet, so the
//! slice looks free to everybody.

use anyhow::ensure;
use serde_json::json;

use super::Witness;
use crate::call::call;
use crate::operator;
use crate::stories::by_hand::named;
use crate::stories::slicewright::on_demand;
use crate::stories::stage::Stage;
use crate::waiting::pause;

/// How long, in tenths of a second, it is looked whether a change begins. Without a choice on its way it takes two seconds
/// or three to destroy the first slice.
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
    let waited = waits_while_it_stands_still(stage, &node, &witness);
    // Also if the story ends here: a kubelet that waits for its plugin does nothing else.
    stage.signals_plugin(&node, "CONT")?;
    waited?;
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

/// Kubelet chooses a slice for a pod and waits for the plugin's answer, and somebody asks for what is cut of it.
fn waits_while_it_stands_still(stage: &Stage<'_>, node: &str, witness: &Witness) -> anyhow::Result<()> {
    // Bound by hand: nothing that the scheduler knows keeps it away.
    let mut chosen = stage.pod(node, "chosen", "mig-3g.40gb", 1, "at-once");
    chosen["spec"]["nodeName"] = json!(node);
    stage.apply(&chosen)?;
    pause(20);
    stage.apply(&stage.pod(node, "lab", "mig-1g.10gb", 1, "at-once"))?;
    let (reason, message) = stage.is_unserved("lab")?;
    ensure!(reason == "IdlenessNotProvable", "the answer is {reason}: {message}");
    // The pod is bound and no book accounts for it, so that each free half may be the one: nothing begins.
    for _ in 0..LOOKED_AT {
        let step = stage.step_of(node)?;
        ensure!(step.is_none(), "while the choice is on its way the node's change is at {step:?}");
        ensure!(witness.seen().destroyed.is_empty(), "while the choice is on its way a slice was destroyed");
        pause(1);
    }
    let waits = stage.get("pod", "chosen")?["status"].clone();
    ensure!(waits["phase"] == "Pending", "the plugin has stopped, and the pod is {waits}");
    Ok(())
}

impl Stage<'_> {
    /// Sends a signal to the device plugin of a node.
    fn signals_plugin(&self, node: &str, signal: &str) -> anyhow::Result<()> {
        let send = format!("-{signal}");
        call(self.on(node).args(["pkill", &send, "-f", "^(/usr/bin/)?nvidia-device-plugin"])).map(drop)
    }
}
