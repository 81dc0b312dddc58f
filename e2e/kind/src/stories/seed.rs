//! The story of the seeds, as a person carries it out.

use anyhow::{Context, ensure};
use serde_json::json;

use super::stage::{Stage, TEAM};
use super::workbench::profile;

/// Label the node, seven slices a GPU, look around in a debug pod, a workbench
/// on a slice; one more than there are waits.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    // From whole GPUs, so that the mode is switched and the GPUs are reset.
    let (node, gpus) = stage.starts_as("all-disabled", ("gpu", 1))?;
    stage.ask_for(&node, "all-1g.10gb")?;
    stage.ends(&node, "success")?;
    let slices = 7 * gpus;
    stage.offers(&node, &[("mig-1g.10gb", slices)])?;
    for (key, value) in [
        ("nvidia.com/mig-1g.10gb.count", slices.to_string()),
        ("nvidia.com/mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb".to_owned()),
        ("nvidia.com/gpu.replicas", "0".to_owned()),
    ] {
        stage.until(&format!("GFD's label {key}={value}"), || {
            let now = stage.label(&node, key)?;
            Ok(if now == value { Ok(()) } else { Err(format!("it is {now:?}")) })
        })?;
    }

    let listed = debug(stage, &node, &["nvidia-smi", "-L"])?;
    let count = listed.lines().filter(|line| line.trim_start().starts_with("MIG 1g.10gb")).count();
    ensure!(u64::try_from(count)? == slices, "nvidia-smi -L lists {count} slices:\n{listed}");
    let instances = debug(stage, &node, &["nvidia-smi", "mig", "-lgi"])?;
    let count = instances.lines().filter(|line| line.contains("MIG 1g.10gb")).count();
    ensure!(u64::try_from(count)? == slices, "nvidia-smi mig -lgi lists {count} slices:\n{instances}");

    // As the dashboard makes one: a hardware profile for the slice, and a Notebook that names it.
    stage.apply(&profile("seventh", "1g.10gb", ("kubernetes.io/hostname", &node)))?;
    stage.apply(&stage.workbench("lab", "seventh", "at-once"))?;
    let given = stage.runs("lab-0")?;
    let [uuid] = given.as_slice() else { anyhow::bail!("one slice was asked for, and {given:?} given") };
    ensure!(
        listed.contains(uuid.as_str()),
        "the kubelet gave {uuid}, which nvidia-smi does not list:\n{listed}"
    );
    stage.says("lab-0", &format!("open: {uuid}"))?;
    stage.shows_running("lab")?;
    let inside = stage.kubectl(&["exec", "--namespace", TEAM, "lab-0", "--", "nvidia-smi"])?;
    ensure!(inside.contains("slicewright-sim"), "nvidia-smi does not show who computes:\n{inside}");

    // All of them would be one too many.
    stage.apply(&stage.pod(&node, "greedy", "mig-1g.10gb", slices, "at-once"))?;
    stage.until("the scheduler says that a slice lacks", || {
        let pod = stage.get("pod", "greedy")?;
        let said = pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        Ok(if said.contains("Insufficient nvidia.com/mig-1g.10gb") { Ok(()) } else { Err(said) })
    })?;
    stage.ends_work("greedy")?;
    stage.apply(&stage.pod(&node, "modest", "mig-1g.10gb", slices - 1, "at-once"))?;
    let rest = stage.runs("modest")?;
    ensure!(!rest.contains(uuid), "{uuid} was given twice");
    ensure!(u64::try_from(rest.len())? == slices - 1, "{} slices were given", rest.len());
    Ok(())
}

/// A pod that looks at the GPUs of a node and asks for none; what it says.
fn debug(stage: &Stage<'_>, node: &str, command: &[&str]) -> anyhow::Result<String> {
    let mut pod = stage.pod(node, "debug", "gpu", 1, "never");
    pod["spec"]["containers"][0]["command"] = json!(command);
    pod["spec"]["containers"][0]["resources"] = json!({});
    pod["spec"]["nodeName"] = json!(node);
    stage.apply(&pod)?;
    stage.until("the debug pod has looked", || {
        let phase = stage.get("pod", "debug")?["status"]["phase"].as_str().unwrap_or_default().to_owned();
        ensure!(phase != "Failed", "{}", stage.logs("debug")?);
        Ok(if phase == "Succeeded" { Ok(()) } else { Err(phase) })
    })?;
    let said = stage.logs("debug").context("what the debug pod saw")?;
    stage.ends_work("debug")?;
    Ok(said)
}
