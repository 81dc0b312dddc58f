//! GPUs shared by hand, by NVIDIA's device plugin and a label: what a real kubelet does to pods that run. The rules of
//! `docs/adr/0020-sharing.md` rest on what is asserted here.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::percentile;
use super::stage::Stage;
use crate::call::call;
use crate::gpus::NAMESPACE;
use crate::progress::clock;
use crate::waiting::pause;

/// The administrators' map of configurations.
pub(super) const MAP: &str = "configurations-by-hand";

/// The label that names one of them for a node.
pub(super) const LABEL: &str = "nvidia.com/device-plugin.config";

const PLUGIN: &str = "nvidia-device-plugin-daemonset";

/// A configuration by which so many pods share each GPU.
fn shared_by(replicas: u64, rename: bool) -> String {
    format!(
        "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: {rename}\n    failRequestsGreaterThanOne: true\n    \
         resources:\n    - {{name: nvidia.com/gpu, replicas: {replicas}}}\n"
    )
}

/// The administrators' configurations, by their keys.
pub(super) fn configurations() -> BTreeMap<String, String> {
    let slices = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/mig-1g.10gb, replicas: 2}\n";
    let mps = "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 8}\n";
    let texts = [
        ("default", "version: v1\n".to_owned()),
        ("by-4", shared_by(4, true)),
        ("by-6", shared_by(6, true)),
        ("by-4-unnamed", shared_by(4, false)),
        ("slices-by-2", slices.to_owned()),
        ("by-1", shared_by(1, true)),
        ("mps-by-8", mps.to_owned()),
    ];
    texts.map(|(key, text)| (key.to_owned(), text)).into()
}

impl Stage<'_> {
    /// An administrator's map of configurations is there, and ClusterPolicy
    /// names it.
    pub(super) fn has_configurations(&self) -> anyhow::Result<()> {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP, "namespace": NAMESPACE},
            "data": configurations(),
        }))?;
        self.plugin_reads(MAP, "default")
    }

    /// Points ClusterPolicy to a map of the device plugin's configurations; to
    /// the shipped one, if there is no name. Waits until plugin and discovery
    /// of all nodes run with it.
    pub(super) fn plugin_reads(&self, map: &str, default: &str) -> anyhow::Result<()> {
        let config = if map.is_empty() { Value::Null } else { json!({"name": map, "default": default}) };
        let patch = json!({"spec": {"devicePlugin": {"config": config}}}).to_string();
        self.kubectl(&["patch", "clusterpolicy", "cluster-policy", "--type=merge", "--patch", &patch])?;
        let wanted = if map.is_empty() { "device-plugin-config" } else { map };
        for app in [PLUGIN, "gpu-feature-discovery"] {
            let format =
                "--output=jsonpath={.spec.template.spec.volumes[?(@.name==\"available\")].configMap.name}";
            self.until(&format!("{app} reads {wanted}"), || {
                let now = self.kubectl(&["get", "daemonset", "--namespace", NAMESPACE, app, format])?;
                Ok(if now == wanted { Ok(()) } else { Err(format!("it reads {now}")) })
            })?;
            self.to_its_end(&["rollout", "status", "daemonset", app, "--namespace", NAMESPACE])?;
        }
        Ok(())
    }

    /// Names a configuration for a node, as an administrator does; none, if it
    /// is empty.
    pub(super) fn configured(&self, node: &str, key: &str) -> anyhow::Result<()> {
        let word = if key.is_empty() { format!("{LABEL}-") } else { format!("{LABEL}={key}") };
        self.kubectl(&["label", "node", node, "--overwrite", &word]).map(drop)
    }

    /// The devices that kubelet has given to a pod's container, by its own
    /// book: ids, and not what the container is told.
    pub(super) fn devices(&self, node: &str, pod: &str) -> anyhow::Result<BTreeSet<String>> {
        let uid = self.get("pod", pod)?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let file = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
        let book = call(self.cluster.engine().command().args(["exec", node, "cat", file]))?;
        let book: Value = serde_json::from_str(&book).context("kubelet's checkpoint is no JSON")?;
        let mut found = BTreeSet::new();
        for entry in book["Data"]["PodDeviceEntries"].as_array().into_iter().flatten() {
            if entry["PodUID"] == uid.as_str() {
                let nodes = entry["DeviceIDs"].as_object().into_iter().flatten();
                let ids = nodes.flat_map(|(_, ids)| ids.as_array().into_iter().flatten());
                found.extend(ids.filter_map(Value::as_str).map(str::to_owned));
            }
        }
        ensure!(!found.is_empty(), "kubelet's checkpoint has no device of {pod}");
        Ok(found)
    }

    /// The container of each of these pods.
    pub(super) fn containers(&self, pods: &[String]) -> anyhow::Result<Vec<String>> {
        pods.iter().map(|pod| self.container(pod)).collect()
    }

    /// Pods that each ask for one of a resource, all at once; the GPU that each
    /// got.
    pub(super) fn hold_one_each(
        &self,
        node: &str,
        names: &[String],
        resource: &str,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        for name in names {
            self.apply(&self.pod(node, name, resource, 1, "at-once"))?;
        }
        let mut given = BTreeMap::new();
        for name in names {
            let gpus = self.runs(name)?;
            ensure!(gpus.len() == 1, "{name} asked for one, and got {gpus:?}");
            given.insert(name.clone(), gpus[0].clone());
        }
        Ok(given)
    }

    /// Waits until a pod has ended for this reason, before it ran.
    pub(super) fn is_refused(&self, pod: &str, reason: &str) -> anyhow::Result<String> {
        let mut message = String::new();
        self.until(&format!("{pod} is refused with {reason}"), || {
            let status = self.get("pod", pod)?["status"].clone();
            message = status["message"].as_str().unwrap_or_default().to_owned();
            let is = status["phase"] == "Failed" && status["reason"] == reason;
            Ok(if is { Ok(()) } else { Err(status.to_string()) })
        })?;
        Ok(message)
    }

    /// Waits until the scheduler has said why a pod waits; what it says.
    pub(super) fn waits(&self, pod: &str) -> anyhow::Result<String> {
        let mut said = String::new();
        self.until(&format!("the scheduler says why {pod} waits"), || {
            let status = self.get("pod", pod)?["status"].clone();
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let scheduled =
                conditions.clone().find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
            said = scheduled.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned();
            Ok(if said.is_empty() { Err(status.to_string()) } else { Ok(()) })
        })?;
        Ok(said)
    }

    /// Waits until GFD's labels of a node are these.
    pub(super) fn is_labelled(&self, node: &str, wanted: &[(&str, &str)]) -> anyhow::Result<()> {
        self.until(&format!("GFD says {wanted:?} of {node}"), || {
            let labels = self.get("node", node)?["metadata"]["labels"].clone();
            let other = wanted.iter().find(|(key, value)| {
                labels[format!("nvidia.com/{key}")].as_str().unwrap_or_default() != *value
            });
            Ok(other
                .map_or(Ok(()), |(key, _)| Err(format!("{key} is {}", labels[format!("nvidia.com/{key}")]))))
        })
    }
}

/// How many pods each GPU has.
pub(super) fn sharers(given: &BTreeMap<String, String>) -> BTreeMap<&str, u64> {
    let mut many = BTreeMap::new();
    for gpu in given.values() {
        *many.entry(gpu.as_str()).or_default() += 1;
    }
    many
}

pub(super) fn named(what: &str, many: u64) -> Vec<String> {
    (1..=many).map(|n| format!("{what}-{n}")).collect()
}

/// On, off, up and down, with pods on the node; and afterwards as it was.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (cards, many) = stage.worker("T4")?;
    let (servers, gpus) = stage.starts_as("all-disabled", ("gpu", 1))?;
    let told = on_t4s(stage, &cards, many).and_then(|()| on_a100s(stage, &servers, gpus));
    as_before(stage, &[&cards, &servers], told)
}

/// Fewer share each GPU, as soon as they fit in sum.
pub(super) fn tell_of_fewer(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.worker("T4")?;
    let told = fewer(stage, &node, gpus);
    as_before(stage, &[&node], told)
}

/// Whatever came of it: the next story finds the nodes as they were.
pub(super) fn as_before(stage: &Stage<'_>, nodes: &[&str], told: anyhow::Result<()>) -> anyhow::Result<()> {
    for node in nodes {
        stage.configured(node, "")?;
    }
    stage.plugin_reads("", "")?;
    stage.kubectl(&["delete", "configmap", "--namespace", NAMESPACE, MAP, "--ignore-not-found"])?;
    told
}

/// The plugin spreads shares by the ids that it offers now. Of a pod whose id ends beyond the new number it knows
/// nothing, so that a GPU can get more sharers than the new number, although all of them fit in sum.
fn fewer(stage: &Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    ensure!(gpus >= 2, "{node} has {gpus} T4: bring the cluster up with --worker 2xT4");
    stage.has_configurations()?;
    stage.configured(node, "by-6")?;
    stage.offers(node, &[("gpu.shared", 6 * gpus)])?;
    let given = stage.hold_one_each(node, &named("six", 6 * gpus), "gpu.shared")?;
    let crowded = given["six-1"].clone();
    let mut stay = BTreeMap::new();
    for (pod, gpu) in &given {
        let devices = stage.devices(node, pod)?;
        let number = devices.first().and_then(|id| id.rsplit_once("::")?.1.parse::<u32>().ok());
        let number = number.with_context(|| format!("{pod} has {devices:?}"))?;
        // Four of each GPU stay; two of one of them have ids that there will not be.
        if if *gpu == crowded { !(2..4).contains(&number) } else { number < 4 } {
            stay.insert(pod.clone(), gpu.clone());
        } else {
            stage.ends_work(pod)?;
        }
    }
    ensure!(sharers(&stay).values().all(|many| *many == 4), "{stay:?}");
    stage.configured(node, "by-4")?;
    stage.offers(node, &[("gpu.shared", 4 * gpus)])?;

    // Somebody goes from another GPU, and who comes next does not get that place.
    let goes = stay.iter().find(|(_, gpu)| **gpu != crowded).map(|(pod, _)| pod.clone());
    let goes = goes.context("somebody is on another GPU")?;
    stage.ends_work(&goes)?;
    stay.remove(&goes);
    let next = stage.holds(node, "next", "gpu.shared", "at-once")?;
    stay.insert("next".to_owned(), next[0].clone());
    let each = sharers(&stay);
    ensure!(each.get(crowded.as_str()) == Some(&5), "the plugin knows of all sharers: {each:?}");
    for pod in stay.keys() {
        stage.ends_work(pod)?;
    }
    Ok(())
}

fn on_t4s(stage: &mut Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    ensure!(gpus >= 2, "{node} has {gpus} T4: bring the cluster up with --worker 2xT4");
    // Somebody has a T4 while plugin and discovery start anew with the administrators' map.
    let alone = stage.holds(node, "alone", "gpu", "at-once")?;
    let first = stage.container("alone")?;
    stage.has_configurations()?;
    stage.offers(node, &[("gpu", gpus)])?;
    ensure!(stage.container("alone")? == first, "the pod is another container after its plugin's restart");

    // On, under another name: kubelet and plugin know nothing of the holder, and its GPU is given as often as any.
    stage.configured(node, "by-4")?;
    stage.offers(node, &[("gpu.shared", 4 * gpus)])?;
    stage.is_labelled(
        node,
        &[("gpu.replicas", "4"), ("gpu.sharing-strategy", "time-slicing"), ("gpu.product", "Tesla-T4")],
    )?;
    let names = named("lab", 4 * gpus);
    let given = stage.hold_one_each(node, &names, "gpu.shared")?;
    ensure!(
        sharers(&given).values().all(|many| *many == 4),
        "the plugin spreads shares otherwise: {given:?}"
    );
    ensure!(
        given.values().any(|gpu| *gpu == alone[0]),
        "the GPU of a pod that had one alone got no neighbours"
    );
    ensure!(
        stage.devices(node, "alone")? == BTreeSet::from([alone[0].clone()]),
        "the holder's device has another id"
    );
    for (pod, gpu) in &given {
        let devices = stage.devices(node, pod)?;
        ensure!(
            devices.iter().all(|id| id.starts_with(&format!("{gpu}::"))),
            "{pod} on {gpu} has {devices:?}"
        );
    }
    ensure!(stage.container("alone")? == first, "the pod that had a GPU alone was killed");
    // One share more is no second GPU, and there are no more.
    stage.apply(&stage.pod(node, "late", "gpu.shared", 1, "at-once"))?;
    let why = stage.waits("late")?;
    ensure!(why.contains("Insufficient nvidia.com/gpu.shared"), "the scheduler says {why}");

    // Up: who runs goes on with the device that it has.
    let before = stage.containers(&names)?;
    let ids = stage.devices(node, &names[0])?;
    stage.configured(node, "by-6")?;
    stage.offers(node, &[("gpu.shared", 6 * gpus)])?;
    let last = stage.runs("late")?;
    ensure!(stage.containers(&names)? == before, "a pod is another container after the number went up");
    ensure!(stage.devices(node, &names[0])? == ids, "a pod's device has another id after the number went up");
    ensure!(last.len() == 1, "{last:?}");

    // Down with too many of them: nobody is killed, and nobody new comes.
    stage.configured(node, "by-4")?;
    stage.offers(node, &[("gpu.shared", 4 * gpus)])?;
    ensure!(stage.containers(&names)? == before, "a pod was killed when the number went down");
    stage.runs("late")?;
    stage.apply(&stage.pod(node, "later", "gpu.shared", 1, "at-once"))?;
    stage.waits("later")?;
    stage.ends_work("later")?;

    // Off, with everybody there: a newcomer gets a GPU "for itself" that others share.
    stage.ends_work("alone")?;
    stage.configured(node, "default")?;
    stage.offers(node, &[("gpu", gpus)])?;
    stage.is_labelled(
        node,
        &[("gpu.replicas", "1"), ("gpu.sharing-strategy", "none"), ("gpu.product", "Tesla-T4")],
    )?;
    let newcomer = stage.holds(node, "newcomer", "gpu", "at-once")?;
    ensure!(given.values().any(|gpu| *gpu == newcomer[0]), "the newcomer's GPU has no sharers");
    ensure!(stage.containers(&names)? == before, "a pod was killed when sharing went off");
    ensure!(
        stage.devices(node, "newcomer")? == BTreeSet::from([newcomer[0].clone()]),
        "the newcomer has a share"
    );
    for pod in names.iter().map(String::as_str).chain(["late", "newcomer"]) {
        ensure!(!stage.logs(pod)?.contains("lost"), "{pod} lost its GPU");
        stage.ends_work(pod)?;
    }

    // Under the old name the product's label says it.
    stage.configured(node, "by-4-unnamed")?;
    stage.offers(node, &[("gpu", 4 * gpus)])?;
    stage.is_labelled(node, &[("gpu.replicas", "4"), ("gpu.product", "Tesla-T4-SHARED")])?;
    stage.apply(&stage.pod(node, "two", "gpu", 2, "at-once"))?;
    let why = stage.is_refused("two", "UnexpectedAdmissionError")?;
    ensure!(why.contains("maximum request size for shared resources is 1"), "the plugin says {why}");
    measure(stage, node, gpus)
}

/// How long it takes from a label until pods can have what it says.
fn measure(stage: &mut Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    let keys = [("by-4", "gpu.shared", 4), ("by-6", "gpu.shared", 6), ("default", "gpu", 1)];
    let switches = stage.often.switches;
    let mut took = Vec::new();
    for (number, (key, resource, replicas)) in (0..switches).zip(keys.into_iter().cycle()) {
        // Kubelet writes its node's status every ten seconds, and has just done so: at another moment each time.
        pause(number * 100 / switches);
        let start = clock();
        stage.configured(node, key)?;
        stage.offers(node, &[(resource, replicas * gpus)])?;
        took.push(start.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    let (Some(half), Some(nearly_all), Some(most)) =
        (percentile(&took, 50), percentile(&took, 99), took.last())
    else {
        return Ok(());
    };
    stage.notes.push(format!(
        "from the label to allocatable, {switches} switches: p50 {half:.1} s, p99 {nearly_all:.1} s, {most:.1} s at most"
    ));
    Ok(())
}

fn on_a100s(stage: &mut Stage<'_>, node: &str, gpus: u64) -> anyhow::Result<()> {
    // A card that knows MIG is shared as any other, as long as it is not cut.
    stage.configured(node, "by-4-unnamed")?;
    stage.offers(node, &[("gpu", 4 * gpus)])?;
    stage.is_labelled(node, &[("gpu.replicas", "4"), ("gpu.product", "NVIDIA-A100-SXM4-80GB-SHARED")])?;
    stage.configured(node, "slices-by-2")?;
    stage.offers(node, &[("gpu", gpus)])?;
    stage.cut(node, "all-1g.10gb", &[("mig-1g.10gb", 2 * 7 * gpus)])?;
    stage.is_labelled(
        node,
        &[("mig-1g.10gb.replicas", "2"), ("mig-1g.10gb.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED")],
    )?;
    let given = stage.hold_one_each(node, &named("half", 2), "mig-1g.10gb")?;
    for (pod, slice) in &given {
        let devices = stage.devices(node, pod)?;
        ensure!(
            devices.iter().all(|id| id.starts_with(&format!("{slice}::"))),
            "{pod} on {slice} has {devices:?}"
        );
    }
    for pod in given.keys() {
        stage.ends_work(pod)?;
    }

    // With one pod each the plugin does not start: the node offers nothing.
    stage.configured(node, "by-1")?;
    stage.offers(node, &[])?;
    stage.configured(node, "")?;
    stage.offers(node, &[("mig-1g.10gb", 7 * gpus)])
}
