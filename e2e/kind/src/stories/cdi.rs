//! A container gets its slice by CDI: the device plugin names it by its UUID, and containerd brings in what the
//! plugin's specification says, the library included. The image of the container has neither library nor GPUs.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::stage::Stage;
use crate::call::call;
use crate::gpus::NAMESPACE;

const PLUGIN: &str = "nvidia-device-plugin-daemonset";

/// NVIDIA's toolkit looks for the folder of CUDA's library in the driver root; there is no CUDA here.
pub(super) const WITH_CUDA: &str = ": > /run/nvidia/driver/usr/lib64/libcuda.so.580.65.06";
pub(super) const WITHOUT_CUDA: &str = "rm -f /run/nvidia/driver/usr/lib64/libcuda.so.580.65.06";

/// Where the plugin writes its specification, on the node.
const SPECIFICATION: &str = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json";

/// The kind of its devices.
const KIND: &str = "k8s.device-plugin.nvidia.com/gpu";

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    // On every worker: the plugin of each is told the same.
    let workers: Vec<String> = stage.nodes()?.into_keys().collect();
    for worker in &workers {
        stage.in_driver(worker, WITH_CUDA)?;
    }
    let told = strategy(stage, "cdi-annotations").and_then(|()| by_cdi(stage, &node, 7 * gpus));
    // Whatever came of it: the next story finds the plugin as it was.
    let back = strategy(stage, "envvar").and_then(|()| stage.offers(&node, &[("mig-1g.10gb", 7 * gpus)]));
    for worker in &workers {
        stage.in_driver(worker, WITHOUT_CUDA)?;
    }
    told.and(back)
}

fn by_cdi(stage: &mut Stage<'_>, node: &str, slices: u64) -> anyhow::Result<()> {
    stage.offers(node, &[("mig-1g.10gb", slices)])?;
    stage.apply(&pod(stage, node, "by-cdi"))?;
    stage.to_its_end(&[
        "wait",
        "pod",
        "--namespace",
        super::stage::TEAM,
        "by-cdi",
        "--for=condition=Ready",
    ])?;
    let inside = |line: &str| {
        stage.kubectl(&["exec", "--namespace", super::stage::TEAM, "by-cdi", "--", "sh", "-c", line])
    };
    // Whose device files it has: those of one slice, which the specification calls by its UUID.
    let found = inside(
        "for file in /dev/nvidia[0-9]* /dev/nvidia-caps/*; do test -c $file && echo $file; done; true",
    )?;
    let found: BTreeSet<String> = found.lines().map(str::to_owned).collect();
    let specification = specification(stage, node)?;
    let devices = specification["devices"].as_array().context("the specification has no devices")?;
    let all = stage.slices(node)?;
    let names: BTreeSet<_> = devices.iter().filter_map(|device| device["name"].as_str()).collect();
    ensure!(all.iter().all(|uuid| names.contains(uuid.as_str())), "{all:?} are not all in {names:?}");
    let given: Vec<&str> = devices
        .iter()
        .filter(|device| files(device) == found)
        .filter_map(|device| device["name"].as_str())
        .filter(|name| all.iter().any(|uuid| uuid == name))
        .collect();
    ensure!(given.len() == 1, "the files {found:?} are those of {given:?}");
    // The library came with it under its file's name, and the name that programs load is a link to it.
    let link = inside("ls -l /usr/lib64/libnvidia-ml.so.1")?;
    ensure!(link.trim_end().ends_with("-> libnvidia-ml.so.580.65.06"), "the library is {link}");
    let listed = inside("LD_LIBRARY_PATH=/usr/lib64 nvidia-smi -L")?;
    ensure!(listed.contains(given[0]), "nvidia-smi over that library lists {listed}");
    stage.ends_work("by-cdi")?;

    // A person names a slice to the engine, without Kubernetes, as with `docker run --gpus device=MIG-…`.
    let wanted = all.last().context("there are slices")?;
    let device = devices.iter().find(|device| device["name"] == json!(wanted)).context("it has a device")?;
    let image = format!("slicewright.local/device-plugin:{}", stage.tag);
    let name = format!("{KIND}={wanted}");
    let seen = on_node(
        stage,
        node,
        &[
            "ctr",
            "--namespace",
            "k8s.io",
            "run",
            "--rm",
            "--device",
            &name,
            &image,
            "by-uuid",
            "sh",
            "-c",
            "for file in /dev/nvidia[0-9]* /dev/nvidia-caps/*; do test -c $file && echo $file; done; true",
        ],
    )?;
    let seen: BTreeSet<String> = seen.lines().map(|line| line.trim_end().to_owned()).collect();
    ensure!(seen == files(device), "{wanted} was asked for, and {seen:?} given");
    Ok(())
}

/// Lets the plugin hand out devices in another way, on every worker.
fn strategy(stage: &Stage<'_>, list: &str) -> anyhow::Result<()> {
    let set = format!("DEVICE_LIST_STRATEGY={list}");
    let daemonset = format!("daemonset/{PLUGIN}");
    stage.kubectl(&[
        "set",
        "env",
        "--namespace",
        NAMESPACE,
        &daemonset,
        "--containers=nvidia-device-plugin",
        &set,
    ])?;
    stage.to_its_end(&["rollout", "status", "--namespace", NAMESPACE, &daemonset])
}

/// Runs a program on a node.
fn on_node(stage: &Stage<'_>, node: &str, line: &[&str]) -> anyhow::Result<String> {
    call(stage.cluster.engine().command().args(["exec", node]).args(line))
}

fn specification(stage: &Stage<'_>, node: &str) -> anyhow::Result<Value> {
    let text = on_node(stage, node, &["cat", SPECIFICATION])?;
    serde_json::from_str(&text).with_context(|| format!("{SPECIFICATION} of {node}: {text}"))
}

/// The GPUs and capabilities among the files of a device.
fn files(device: &Value) -> BTreeSet<String> {
    let nodes = device["containerEdits"]["deviceNodes"].as_array().into_iter().flatten();
    let paths = nodes.filter_map(|node| node["path"].as_str());
    let is_its = |path: &&str| {
        let gpu = path
            .strip_prefix("/dev/nvidia")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        gpu || path.starts_with("/dev/nvidia-caps/")
    };
    paths.filter(is_its).map(str::to_owned).collect()
}

/// A pod of an image that has a shell, and nothing of a driver's library.
fn pod(stage: &Stage<'_>, node: &str, name: &str) -> Value {
    let mut pod = stage.pod(node, name, "mig-1g.10gb", 1, "never");
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(format!("slicewright.local/device-plugin:{}", stage.tag));
    container["command"] = json!(["/usr/bin/sleep", "infinity"]);
    pod
}
