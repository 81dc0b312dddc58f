//! NVIDIA's DRA driver beside the device plugin: what it publishes of a worker is every placement that our rules
//! know, and a pod that claims a profile gets a slice that was not there before.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use gpu::Model;
use serde_json::{Value, json};

use super::cdi::{WITH_CUDA, WITHOUT_CUDA};
use super::stage::{Stage, TEAM};
use crate::gpus::{self, NAMESPACE};

/// The label of the worker on which it runs.
const HERE: &str = "sim.slicewright.io/dra";

const MODEL: &str = "H100-80GB";

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.worker(MODEL)?;
    stage.cut(&node, "all-disabled", &[("gpu", gpus)])?;
    stage.in_driver(&node, WITH_CUDA)?;
    let manifest = gpus::manifest("dra.yaml", &stage.tag)?;
    gpus::apply(stage.cluster, &manifest)?;
    stage.kubectl(&["label", "node", &node, "--overwrite", &format!("{HERE}=true")])?;
    let told = claims(stage, &node, gpus);
    // The next story finds the worker without it.
    stage.in_driver(&node, WITHOUT_CUDA)?;
    stage.kubectl(&["label", "node", &node, &format!("{HERE}-")])?;
    let gone = stage.to_its_end(&["delete", "daemonset", "--namespace", NAMESPACE, "dra-driver"]);
    stage.to_its_end(&["delete", "resourceslices", "--all"])?;
    stage.to_its_end(&["delete", "deviceclass", "mig.nvidia.com"])?;
    told.and(gone)
}

fn claims(stage: &Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    let wanted = devices_of_our_rules(gpus)?;
    stage.until(&format!("the ResourceSlices of {node} have every placement"), || {
        let offered = offered(stage, node)?;
        let lacks: Vec<_> = wanted.difference(&offered).collect();
        let more: Vec<_> = offered.difference(&wanted).collect();
        Ok(if lacks.is_empty() && more.is_empty() {
            Ok(())
        } else {
            Err(format!("{} are offered; lacking: {lacks:?}; not expected: {more:?}", offered.len()))
        })
    })?;

    ensure!(stage.slices(node)?.is_empty(), "there are slices before anybody claimed one");
    let profile = "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'";
    let exactly =
        json!({"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression": profile}}]});
    stage.apply(&json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "slice", "namespace": TEAM},
        "spec": {"spec": {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}},
    }))?;
    stage.apply(&pod(stage, node))?;
    stage.until("the pod with the claim runs", || {
        let pod = stage.get("pod", "claims")?;
        let phase = pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
        ensure!(phase != "Failed", "it failed: {}", pod["status"]);
        Ok(if phase == "Running" { Ok(()) } else { Err(pod["status"].to_string()) })
    })?;
    let slices = stage.slices(node)?;
    ensure!(slices.len() == 1, "one slice was claimed, and there are {slices:?}");
    let line =
        "LD_LIBRARY_PATH=/usr/lib64 nvidia-smi -L; for file in /dev/nvidia-caps/*; do echo $file; done";
    let seen = stage.kubectl(&["exec", "--namespace", TEAM, "claims", "--", "sh", "-c", line])?;
    ensure!(seen.contains("MIG 3g.40gb") && seen.contains(&slices[0]), "the pod sees {seen}");
    ensure!(seen.contains("/dev/nvidia-caps/nvidia-cap"), "the pod has no capability: {seen}");
    stage.ends_work("claims")?;
    stage.until("the slice ends with its claim", || {
        let left = stage.slices(node)?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are left")) })
    })
}

/// What our rules say a worker can offer: each GPU whole, and every placement of every profile. The driver calls
/// a placement by the GPU, the profile with its id, and the start.
fn devices_of_our_rules(gpus: u64) -> anyhow::Result<BTreeSet<String>> {
    let model = Model::find(MODEL).context("the catalogue has the model")?;
    let facts = model.mig.as_ref().context("the model has MIG")?;
    let mut wanted = BTreeSet::new();
    for index in 0..gpus {
        wanted.insert(format!("gpu-{index}"));
        for profile in &facts.profiles {
            let name = profile.name.to_string().replace('.', "").replace('+', "-");
            for start in &facts.geometry.profile(profile.index).starts {
                wanted.insert(format!("gpu-{index}-mig-{name}-{}-{start}", profile.id));
            }
        }
    }
    Ok(wanted)
}

/// The devices in the ResourceSlices of a node.
fn offered(stage: &Stage<'_>, node: &str) -> anyhow::Result<BTreeSet<String>> {
    let field = format!("spec.nodeName={node}");
    let said = stage.kubectl(&["get", "resourceslices", "--field-selector", &field, "--output=json"])?;
    let listed: Value = serde_json::from_str(&said).context("kubectl does not answer in JSON")?;
    let slices = listed["items"].as_array().into_iter().flatten();
    let devices = slices.flat_map(|slice| slice["spec"]["devices"].as_array().into_iter().flatten());
    Ok(devices.filter_map(|device| device["name"].as_str()).map(str::to_owned).collect())
}

/// A pod of an image without a driver's library, which the claim brings.
fn pod(stage: &Stage<'_>, node: &str) -> Value {
    let mut pod = stage.pod(node, "claims", "gpu", 1, "never");
    pod["spec"]["resourceClaims"] = json!([{"name": "slice", "resourceClaimTemplateName": "slice"}]);
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(format!("slicewright.local/device-plugin:{}", stage.tag));
    container["command"] = json!(["/usr/bin/sleep", "infinity"]);
    container["resources"] = json!({"claims": [{"name": "slice"}]});
    pod
}
