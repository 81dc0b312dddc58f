//! The node agent, installed by its chart, beside a real kubelet and NVIDIA's unmodified device plugin: it knows which
//! pod has which slice, and cuts the rest of a GPU anew while pods compute on it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use serde_json::{Value, json};

use super::by_hand::named;
use super::slicewright::on_demand;
use super::stage::{Stage, TEAM};
use crate::operator::{self, AGENT_NAMESPACE};

/// What MIG manager's label says where the agent changes the slices: the name of no layout.
const HANDED_OVER: &str = "slicewright-agent-changes-this-node";

const LAYOUT: &str = "nvidia.com/mig.config";

/// Whether MIG manager runs on a node.
const MANAGER: &str = "nvidia.com/gpu.deploy.mig-manager";

impl Stage<'_> {
    /// The agent is installed, or told otherwise what it may do; its pods are
    /// ready, so their reports are there.
    pub(super) fn has_agents(&self, mode: &str) -> anyhow::Result<()> {
        operator::install_with_agents(self.cluster, self.place, mode)?;
        // What the driver's installation would be: the simulated GPUs are a folder of the node.
        let pod = json!({
            "volumes": [{"name": "gpus", "hostPath": {"path": "/var/lib/slicewright-sim"}}],
            "containers": [{"name": "agent", "volumeMounts": [{"name": "gpus", "mountPath": "/run/slicewright-sim"}]}],
        });
        let patch = json!({"spec": {"template": {"spec": pod}}}).to_string();
        let set = ["daemonset", "--namespace", AGENT_NAMESPACE, operator::AGENT];
        self.kubectl(&[&["patch"], &set[..], &["--type=strategic", "--patch", &patch]].concat())?;
        self.to_its_end(&[&["rollout", "status"], &set[..]].concat())
    }

    /// Waits until an agent that may do this reports from a node, and what it
    /// reports is so; by the UUID of each slice its profile and the pod that
    /// has it.
    pub(super) fn agent_reports(
        &self,
        node: &str,
        mode: &str,
        is_so: impl Fn(&BTreeMap<String, (String, Option<String>)>) -> bool,
    ) -> anyhow::Result<BTreeMap<String, (String, Option<String>)>> {
        let mut found = BTreeMap::new();
        self.until(&format!("the agent of {node} reports ({mode})"), || {
            let status = self.get("gpunode", node)?["status"].clone();
            found = reported(&status["observed"]);
            let by = status["observed"]["by"] == "Agent" && status["agent"]["mode"] == mode;
            let is = by && !doubts(&status["observed"], &self.uids_of_pods()?) && is_so(&found);
            Ok(if is { Ok(()) } else { Err(format!("{} and {}", status["agent"], status["observed"])) })
        })?;
        Ok(found)
    }

    /// The uids of the pods that the cluster has.
    fn uids_of_pods(&self) -> anyhow::Result<BTreeSet<String>> {
        let uids = "--output=jsonpath={.items[*].metadata.uid}";
        let listed = self.kubectl(&["get", "pods", "--all-namespaces", uids])?;
        Ok(listed.split_whitespace().map(str::to_owned).collect())
    }
}

/// Whether a report doubts anything that matters, by the uids of the pods that there are: a kubelet forgets what an
/// ended pod had only when it gives the next pod something, and the slices of an earlier story may be gone by now.
fn doubts(observed: &Value, live: &BTreeSet<String>) -> bool {
    let Some(doubts) = observed["doubts"].as_object() else { return false };
    let is_live = |holder: &Value| holder["uid"].as_str().is_none_or(|uid| live.contains(uid));
    let is_held = |device: &Value| device["holders"].as_array().into_iter().flatten().any(is_live);
    doubts.iter().any(|(name, found)| match found.as_array().filter(|_| name == "unknownDevices") {
        Some(devices) => devices.iter().any(is_held),
        None => true,
    })
}

/// The slices of a report: profile and holder by UUID.
fn reported(observed: &Value) -> BTreeMap<String, (String, Option<String>)> {
    let gpus = observed["gpus"].as_array().into_iter().flatten();
    let slices = gpus.flat_map(|gpu| gpu["slices"].as_array().into_iter().flatten());
    let one = |slice: &Value| {
        let uuid = slice["devices"][0].as_str()?.to_owned();
        let mut holders = slice["holders"].as_array().into_iter().flatten();
        let holder = holders.find_map(|holder| holder["pod"].as_str()).map(str::to_owned);
        Some((uuid, (slice["profile"].as_str()?.to_owned(), holder)))
    };
    slices.filter_map(one).collect()
}

/// All halves but one are computed on; the last one is cut anew for a small slice, beside its neighbour.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-3g.40gb", ("mig-3g.40gb", 2))?;
    stage.governs(&node, &on_demand())?;
    let pods = named("train", 2 * gpus - 1);
    let given = stage.hold_one_each(&node, &pods, "mig-3g.40gb")?;
    for (pod, slice) in &given {
        stage.says(pod, &format!("open: {slice}"))?;
    }
    let before = stage.containers(&pods)?;

    // Without an agent nobody knows which half is free.
    stage.apply(&stage.pod(&node, "lab", "mig-1g.10gb", 1, "at-once"))?;
    let (reason, message) = stage.is_unserved("lab")?;
    ensure!(reason == "IdlenessNotProvable", "the answer is {reason}: {message}");

    // An agent that reports knows it, as kubelet and driver do; it changes nothing, and the GPU is not idle as a whole.
    stage.has_agents("report")?;
    let halves = stage.agent_reports(&node, "Report", |slices| slices.len() as u64 == 2 * gpus)?;
    for (pod, slice) in &given {
        let known = halves.get(slice);
        ensure!(
            known == Some(&("3g.40gb".to_owned(), Some(pod.clone()))),
            "{pod} has {slice}, and {halves:?}"
        );
    }
    ensure!(halves.values().filter(|(_, holder)| holder.is_none()).count() == 1, "{halves:?}");
    ensure!(stage.get("pod", "lab")?["status"]["phase"] == "Pending", "the workbench runs without a slice");

    // One that may change slices cuts the free half; nobody else notices.
    let start = crate::progress::clock();
    stage.has_agents("change")?;
    let slice = stage.runs("lab")?;
    let took = start.elapsed().as_secs();
    stage.says("lab", &format!("open: {}", slice[0]))?;
    stage.notes.push(format!("{took} s from the agent's new mode to a pod on a slice that it made"));
    ensure!(stage.containers(&pods)? == before, "a pod that computed is another container");
    for (pod, slice) in &given {
        ensure!(!stage.logs(pod)?.contains("lost"), "{pod} lost {slice}");
        ensure!(stage.slices(&node)?.contains(slice), "the slice of {pod} is gone");
    }
    let now = stage.agent_reports(&node, "Change", |slices| {
        slices
            .get(&slice[0])
            .is_some_and(|(profile, pod)| profile == "1g.10gb" && pod.as_deref() == Some("lab"))
    })?;
    ensure!(
        given.iter().all(|(pod, slice)| now.get(slice).and_then(|one| one.1.as_ref()) == Some(pod)),
        "{now:?}"
    );
    ensure!(stage.label(&node, LAYOUT)? == HANDED_OVER, "the node was not handed over to its agent");
    stage.policy_is("Ready", "True")?;
    stage.is_uncordoned(&node)?;
    stage.nothing_is_paused(&node)?;

    // A foreign hand switches MIG manager on. It finds the name of no layout, says that it failed, and touches nothing.
    let there = stage.slices(&node)?;
    stage.a_hand_switches_mig_manager_on(&node)?;
    ensure!(stage.slices(&node)? == there, "MIG manager changed slices: {there:?} were there");
    ensure!(
        stage.containers(&pods)? == before,
        "a pod that computed is another container beside MIG manager"
    );

    // Back to MIG manager, under the same pods: it finds what it is told, and touches nothing.
    stage.hands_over_to_mig_manager(&node)?;
    ensure!(
        stage.containers(&pods)? == before,
        "a pod that computed is another container after the handover"
    );
    ensure!(stage.slices(&node)?.contains(&slice[0]), "the slice of lab is gone after the handover");
    stage.policy_is("Ready", "True")?;
    operator::install(stage.cluster, stage.place)?;
    ensure!(!stage.has_an_agent()?, "the chart left an agent in {AGENT_NAMESPACE}");
    ensure!(stage.get("namespace", TEAM)?["status"]["phase"] == "Active", "the pods' namespace is gone");
    Ok(())
}

impl Stage<'_> {
    /// Whether agents are installed.
    pub(super) fn has_an_agent(&self) -> anyhow::Result<bool> {
        let there =
            ["get", "daemonset", "--namespace", AGENT_NAMESPACE, "--ignore-not-found", "--output=name"];
        Ok(!self.kubectl(&there)?.trim().is_empty())
    }

    /// Somebody switches MIG manager on where the agent changes the slices, and it has said how that ended.
    fn a_hand_switches_mig_manager_on(&self, node: &str) -> anyhow::Result<()> {
        let labels = json!({MANAGER: "true", format!("{LAYOUT}.state"): Value::Null});
        let patch = json!({"metadata": {"labels": labels}}).to_string();
        self.kubectl(&["patch", "node", node, "--type=merge", "--patch", &patch])?;
        self.ends(node, "failed")
    }

    /// The agent of a node may only report: MIG manager has the node again, and finds what it is told.
    pub(super) fn hands_over_to_mig_manager(&self, node: &str) -> anyhow::Result<()> {
        self.has_agents("report")?;
        self.until("the node is MIG manager's again", || {
            let now = (self.label(node, LAYOUT)?, self.label(node, &format!("{LAYOUT}.state"))?);
            Ok(if now.0 != HANDED_OVER && now.1 == "success" { Ok(()) } else { Err(format!("{now:?}")) })
        })
    }

    /// No operand of a node waits for a change of ours.
    pub(super) fn nothing_is_paused(&self, node: &str) -> anyhow::Result<()> {
        let labels = self.get("node", node)?["metadata"]["labels"].clone();
        let labels = labels.as_object().cloned().unwrap_or_default();
        let paused: Vec<_> = labels.iter().filter(|(_, value)| *value == "paused-for-slicewright").collect();
        ensure!(paused.is_empty(), "{paused:?} are left on {node}");
        Ok(())
    }
}
