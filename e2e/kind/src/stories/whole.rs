//! Whole GPUs beside slices on one worker, for whoever asks: MIG goes off on two of its GPUs and stays on on the
//! others, and NVIDIA's device plugin offers both.

use anyhow::ensure;
use serde_json::{Value, json};

use super::slicewright::policy;
use super::stage::{Stage, TEAM};

const MODEL: &str = "H100-80GB";

/// The policy: two whole GPUs at most, and slices of any size.
fn two_at_most() -> Value {
    policy(&json!({"type": "DemandDriven", "demandDriven": {"wholeGpus": {"maxCount": 2}}}), "Never")
}

impl Stage<'_> {
    /// The id of a pod's container: another one after every start.
    pub(super) fn container(&self, pod: &str) -> anyhow::Result<String> {
        let id = self.get("pod", pod)?["status"]["containerStatuses"][0]["containerID"].clone();
        let id = id.as_str().unwrap_or_default().to_owned();
        ensure!(!id.is_empty(), "the pod {pod} has no container");
        Ok(id)
    }

    /// Waits until the policy answers why it does not serve a pod; the answer.
    pub(super) fn is_unserved(&self, pod: &str) -> anyhow::Result<(String, String)> {
        let mut answer = (String::new(), String::new());
        self.until(&format!("the policy says why {pod} is not served"), || {
            let status = self.get("gpupartitionpolicy", TEAM)?["status"].clone();
            let mut requests = status["unserved"]["requests"].as_array().into_iter().flatten();
            let Some(found) = requests.find(|request| request["name"] == pod) else {
                return Ok(Err(format!("unserved are {}", status["unserved"])));
            };
            let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
            answer = (text("reason"), text("message"));
            Ok(Ok(()))
        })?;
        Ok(answer)
    }

    /// A worker with this many whole GPUs, and how many slices it has of each
    /// profile; waits until that is so.
    fn has_whole(&self, node: &str, whole: u64) -> anyhow::Result<()> {
        self.until(&format!("{whole} whole GPUs on {node}"), || {
            let now = self.allocatable(node)?;
            let is = now.get("gpu").copied().unwrap_or(0) == whole && (whole == 0 || now.len() > 1);
            Ok(if is { Ok(()) } else { Err(format!("there is {now:?}")) })
        })
    }
}

/// A pod works on what it was given as long as it is the same container, has
/// opened its devices, and lost none.
fn works_on(stage: &Stage<'_>, pod: &str, container: &str) -> anyhow::Result<()> {
    let now = stage.container(pod)?;
    ensure!(now == container, "{pod} is another container: {now} instead of {container}");
    ensure!(!stage.logs(pod)?.contains("lost"), "{pod} lost a device");
    Ok(())
}

/// Cut, then two of its GPUs whole for a pod of two, slices beside it for
/// others, and cut again.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.worker(MODEL)?;
    ensure!(gpus >= 4, "{node} has {gpus} GPUs: bring the cluster up with --worker 4x{MODEL}");
    stage.cut(&node, "all-1g.10gb", &[("mig-1g.10gb", 7 * gpus)])?;
    stage.governs(&node, &two_at_most())?;

    // Nobody is there: MIG goes off on as many GPUs as the pod asks for, and on no other.
    stage.apply(&stage.pod(&node, "train", "gpu", 2, "at-once"))?;
    let whole = stage.runs("train")?;
    ensure!(whole.len() == 2 && whole[0] != whole[1], "two GPUs were asked for, and {whole:?} given");
    for uuid in &whole {
        ensure!(uuid.starts_with("GPU-"), "{uuid} is no whole GPU");
        stage.says("train", &format!("open: {uuid}"))?;
    }
    stage.offers(&node, &[("gpu", 2), ("mig-1g.10gb", 7 * (gpus - 2))])?;
    stage.was_cut_by_mig_manager(&node)?;
    stage.policy_is("Ready", "True")?;
    let train = stage.container("train")?;

    // One of the others is cut anew for a notebook, and the last one for a large slice beside it, while the pod works
    // on its two. Without an agent only a profile that nobody has is known to be idle, so the three differ.
    let slice = stage.holds(&node, "lab", "mig-3g.40gb", "at-once")?;
    stage.says("lab", &format!("open: {}", slice[0]))?;
    let lab = stage.container("lab")?;
    let large = stage.holds(&node, "large", "mig-7g.80gb", "at-once")?;
    stage.says("large", &format!("open: {}", large[0]))?;
    stage.has_whole(&node, 2)?;
    stage.policy_is("Ready", "True")?;
    let unharmed = |stage: &Stage<'_>| -> anyhow::Result<()> {
        works_on(stage, "lab", &lab)?;
        ensure!(stage.slices(&node)?.contains(&slice[0]), "the notebook's slice is gone");
        Ok(())
    };
    unharmed(stage)?;
    works_on(stage, "train", &train)?;

    // Who needs the whole ones cut waits: MIG goes on again on no GPU of a node with somebody on it.
    stage.ends_work("train")?;
    stage.ends_work("large")?;
    stage.apply(&stage.pod(&node, "wide", "mig-7g.80gb", gpus - 1, "at-once"))?;
    let (reason, message) = stage.is_unserved("wide")?;
    ensure!(message.contains("lab"), "the answer is {reason}: {message}");
    stage.has_whole(&node, 2)?;
    unharmed(stage)?;

    // The notebook ends, and the node is cut as a whole.
    stage.ends_work("lab")?;
    let wide = stage.runs("wide")?;
    ensure!(wide.len() as u64 == gpus - 1, "{} slices were asked for, and {wide:?} given", gpus - 1);
    stage.policy_is("Ready", "True")?;
    stage.is_uncordoned(&node)?;
    stage.nothing_is_parked(&node)
}
