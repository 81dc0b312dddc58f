//! A workbench that waits in a queue: real Kueue reserves its quota and asks our check, NVIDIA's own MIG manager cuts the
//! slice, and a real scheduler and kubelet start the pod, on a node that it was given before it could look for one.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::slicewright::on_demand;
use super::stage::{POOL, Stage, TEAM};
use crate::{operator, queues};

/// Our check, as the queue names it.
const CHECK: &str = "gpu-slices";
/// The queues.
const QUEUE: &str = "research";

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, _) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    queues::bring(stage.cluster, stage.place)?;
    let told = waits_in_a_queue(stage, &node);
    // Whatever came of it: other stories know no Kueue.
    let gone = leaves(stage);
    told.and(gone)
}

/// Nobody waits in the queue any more, and Kueue goes.
fn leaves(stage: &Stage<'_>) -> anyhow::Result<()> {
    stage.to_its_end(&["delete", "notebooks", "--namespace", TEAM, "--all"])?;
    stage.until("nobody's pod is left", || {
        let left = stage.kubectl(&["get", "pods", "--namespace", TEAM, "--output=name"])?;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })?;
    queues::remove(stage.cluster, stage.place)
}

fn waits_in_a_queue(stage: &Stage<'_>, node: &str) -> anyhow::Result<()> {
    operator::install_for_queues(stage.cluster, stage.place)?;
    stage.kubectl(&["label", "node", node, "--overwrite", &format!("{POOL}={TEAM}")])?;
    stage.apply(&on_demand())?;
    stage.policy_is("Ready", "True")?;
    for object in one_queue(&[("nvidia.com/mig-3g.40gb", 1), ("nvidia.com/mig-7g.80gb", 1)]) {
        // Its webhooks begin to answer some moments after its pod is ready.
        stage.until("Kueue takes what it is told", || {
            Ok(stage.apply(&object).map_err(|error| format!("{error:#}")))
        })?;
    }
    stage.until("the queue is open", || {
        let status = stage.get("clusterqueue", QUEUE)?["status"].clone();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let is_open = conditions.clone().any(|one| one["type"] == "Active" && one["status"] == "True");
        Ok(if is_open { Ok(()) } else { Err(status.to_string()) })
    })?;
    for (name, slice) in [("half", "3g.40gb"), ("whole", "7g.80gb")] {
        stage.apply(&profile(name, slice))?;
    }

    // No node has such a slice: it is cut while the scheduler may not look at the pod.
    let first = comes_from_the_queue(stage, node, "lab", ("half", "3g.40gb"))?;
    // The GPU beside it is cut anew for the next in the queue while it works.
    comes_from_the_queue(stage, node, "model", ("whole", "7g.80gb"))?;
    ensure!(stage.slices(node)?.contains(&first), "the slice of a workbench that runs is gone");
    ensure!(!stage.logs("lab-0")?.contains("lost"), "the workbench says that its slice is gone");

    // The quota is for one. The second has none, so our check is not asked and nothing is cut for it.
    stage.apply(&stage.workbench("late", "half", "at-once"))?;
    stage.has_no_quota("late")?;
    let before = stage.slices(node)?;
    stage.kubectl(&["delete", "notebook", "--namespace", TEAM, "lab"])?;
    stage.check_says("late", "Ready", "")?;
    let last = stage.runs("late-0")?;
    // The GPU may have two such slices, and the kubelet gives either.
    ensure!(
        last.iter().all(|slice| before.contains(slice)) && stage.slices(node)? == before,
        "something was cut although a slice was given back: {last:?}, and there was {before:?}"
    );
    Ok(())
}

/// A workbench whose slice no node has waits, gated, until it is cut, and runs where it was planned. Its slice.
fn comes_from_the_queue(
    stage: &Stage<'_>,
    node: &str,
    name: &str,
    (profile, slice): (&str, &str),
) -> anyhow::Result<String> {
    stage.apply(&stage.workbench(name, profile, "at-once"))?;
    let gates = stage.check_says(name, "Pending", slice)?;
    ensure!(gates > 0, "the pod of a workbench that waits has no scheduling gate");
    stage.check_says(name, "Ready", "")?;
    let pod = format!("{name}-0");
    let given = stage.runs(&pod)?;
    stage.says(&pod, &format!("open: {}", given[0]))?;
    stage.shows_running(name)?;
    stage.was_cut_by_mig_manager(node)?;
    ensure!(stage.slices(node)?.contains(&given[0]), "nvidia-smi does not list {given:?}");
    let there = stage.get("pod", &pod)?;
    ensure!(
        there["spec"]["nodeSelector"]["kubernetes.io/hostname"] == node,
        "it was not pinned: {}",
        there["spec"]
    );
    let about = format!("--field-selector=involvedObject.name={pod},reason=FailedScheduling");
    let refused = stage.kubectl(&["get", "events", "--namespace", TEAM, &about, "--output=name"])?;
    ensure!(refused.is_empty(), "the scheduler could not place it once: {refused}");
    Ok(given[0].clone())
}

/// A queue that gives so much of each kind of slice, to whoever our check lets in.
fn one_queue(slices: &[(&str, u64)]) -> [Value; 4] {
    let of = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let mut quota = vec![("cpu", "100".to_owned()), ("memory", "100Gi".to_owned())];
    quota.extend(slices.iter().map(|(slice, many)| (*slice, many.to_string())));
    let resources: Vec<_> = quota.iter().map(|(name, n)| json!({"name": name, "nominalQuota": n})).collect();
    let mut local = of("LocalQueue", QUEUE, json!({"clusterQueue": QUEUE}));
    local["metadata"]["namespace"] = json!(TEAM);
    [
        of("AdmissionCheck", CHECK, json!({"controllerName": "slicewright.io/slices"})),
        of("ResourceFlavor", "pool", json!({"nodeLabels": {POOL: TEAM}})),
        of(
            "ClusterQueue",
            QUEUE,
            json!({
                "namespaceSelector": {},
                "resourceGroups": [{
                    "coveredResources": quota.iter().map(|(name, _)| name).collect::<Vec<_>>(),
                    "flavors": [{"name": "pool", "resources": resources}],
                }],
                "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]},
            }),
        ),
        local,
    ]
}

/// A hardware profile whose workbenches wait in the queue.
fn profile(name: &str, slice: &str) -> Value {
    let mut profile = super::workbench::profile(name, slice, (POOL, TEAM));
    profile["spec"]["scheduling"] = json!({"type": "Queue", "kueue": {"localQueueName": QUEUE}});
    profile
}

impl Stage<'_> {
    /// The Workload that Kueue made of a workbench.
    fn workload_of(&self, workbench: &str) -> anyhow::Result<Option<Value>> {
        let said = self.kubectl(&["get", "workloads", "--namespace", TEAM, "--output=json"])?;
        let listed: Value = serde_json::from_str(&said).context("kubectl does not answer in JSON")?;
        let pod = format!("{workbench}-0");
        let is_of = |one: &&Value| {
            let owners = one["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.clone().any(|owner| owner["name"] == workbench || owner["name"] == *pod)
        };
        Ok(listed["items"].as_array().into_iter().flatten().find(is_of).cloned())
    }

    /// Waits until our check says so of a workbench; how many scheduling gates its pod had at that moment.
    fn check_says(&self, workbench: &str, state: &str, part: &str) -> anyhow::Result<usize> {
        let mut gates = 0;
        self.until(&format!("the check says {state} of {workbench}: {part:?}"), || {
            let pod = self.get("pod", &format!("{workbench}-0"))?;
            let Some(workload) = self.workload_of(workbench)? else {
                return Ok(Err("there is none".to_owned()));
            };
            let checks = workload["status"]["admissionChecks"].as_array().cloned().unwrap_or_default();
            let says = |one: &Value| {
                one["name"] == CHECK
                    && one["state"] == state
                    && one["message"].as_str().is_some_and(|message| message.contains(part))
            };
            gates = pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
            Ok(if checks.iter().any(says) { Ok(()) } else { Err(workload["status"].to_string()) })
        })?;
        Ok(gates)
    }

    /// Waits until Kueue says that there is no quota for a workbench, and our check has said nothing of it.
    fn has_no_quota(&self, workbench: &str) -> anyhow::Result<()> {
        let mut status = Value::Null;
        self.until(&format!("there is no quota for {workbench}"), || {
            let Some(workload) = self.workload_of(workbench)? else {
                return Ok(Err("there is none".to_owned()));
            };
            status = workload["status"].clone();
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let waits =
                conditions.clone().any(|one| one["type"] == "QuotaReserved" && one["status"] == "False");
            Ok(if waits { Ok(()) } else { Err(status.to_string()) })
        })?;
        let asked = status["admissionChecks"].as_array().into_iter().flatten();
        // Kueue writes the entry itself, Pending and without a message: a sentence in it would be ours.
        let is_kueue_s =
            |one: &Value| one["state"] == "Pending" && one["message"].as_str().is_none_or(str::is_empty);
        ensure!(asked.clone().all(is_kueue_s), "our check speaks without quota: {status}");
        Ok(())
    }
}
