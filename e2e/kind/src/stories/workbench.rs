//! Workbenches, as users of OpenShift AI have them: a hardware profile, a Notebook that names it, and a
//! slice that did not exist before.

use anyhow::ensure;
use serde_json::{Value, json};

use super::slicewright::on_demand;
use super::stage::{POOL, Stage, TEAM};

/// The annotation by which a user, or the culler, stops a workbench.
const STOPPED: &str = "kubeflow-resource-stopped";

/// A hardware profile that gives one slice, of a node that has this label:
/// other workers may be cut in any way.
pub(super) fn profile(name: &str, slice: &str, (key, value): (&str, &str)) -> Value {
    let one = |what: String, count: Value| json!({"displayName": what, "identifier": what, "minCount": count, "defaultCount": count, "maxCount": count});
    json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"scheduling": {"type": "Node", "node": {"nodeSelector": {key: value}}}, "identifiers": [
            one("cpu".to_owned(), json!("10m")), one("memory".to_owned(), json!("64Mi")),
            one(format!("nvidia.com/mig-{slice}"), json!(1)),
        ]},
    })
}

impl Stage<'_> {
    /// A workbench that asks for what its hardware profile says, as the
    /// dashboard makes one.
    pub(super) fn workbench(&self, name: &str, profile: &str, opens: &str) -> Value {
        let mut spec = self.works(name, opens);
        spec["terminationGracePeriodSeconds"] = json!(5);
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": name, "namespace": TEAM, "annotations": {
                "opendatahub.io/hardware-profile-name": profile,
                "opendatahub.io/hardware-profile-namespace": TEAM,
            }},
            "spec": {"template": {"spec": spec}},
        })
    }

    /// Waits until the Notebook's status is like this.
    fn shows(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        self.until(&format!("the Notebook {name} shows {what}"), || {
            let status = self.get("notebook", name)?["status"].clone();
            Ok(if is_so(&status) { Ok(()) } else { Err(format!("it shows {status}")) })
        })
    }

    /// Waits until the Notebook shows that its pod runs and is ready.
    pub(super) fn shows_running(&self, name: &str) -> anyhow::Result<()> {
        self.shows(name, "that it runs", |status| {
            let conditions = status["conditions"].as_array();
            let ready = conditions.into_iter().flatten().find(|one| one["type"] == "Ready");
            ready.is_some_and(|one| one["status"] == "True")
                && status["readyReplicas"] == 1
                && status["containerState"]["running"]["startedAt"].is_string()
        })
    }

    /// Waits until the Notebook shows that it has no pod.
    fn shows_nothing(&self, name: &str) -> anyhow::Result<()> {
        self.shows(name, "that it has no pod", |status| {
            status["conditions"].as_array().is_some_and(Vec::is_empty) && status["readyReplicas"] == 0
        })
    }

    /// Waits until an event of the Notebook, or of its pod or StatefulSet, says
    /// this; the whole note. OpenShift AI's notebook controller would repeat
    /// the latter on the Notebook.
    fn is_told(&self, name: &str, part: &str) -> anyhow::Result<String> {
        let mut found = String::new();
        self.until(&format!("the Notebook {name} is told {part:?}"), || {
            let said = self.kubectl(&[
                "get",
                "events",
                "--namespace",
                TEAM,
                "--output=jsonpath={range .items[*]}{.involvedObject.kind} {.involvedObject.name} {.message}{\"\\n\"}{end}",
            ])?;
            let shown = said.lines().filter_map(|line| {
                let mut parts = line.splitn(3, ' ');
                let (kind, about) = (parts.next()?, parts.next()?);
                let is_it = matches!(kind, "Notebook" | "StatefulSet") && about == name
                    || kind == "Pod" && about.strip_suffix("-0") == Some(name);
                parts.next().filter(|_| is_it)
            });
            found = shown.into_iter().find(|note| note.contains(part)).unwrap_or_default().to_owned();
            Ok(if found.is_empty() { Err(format!("it is told {said:?}")) } else { Ok(()) })
        })?;
        Ok(found)
    }

    /// Stops or starts a workbench, as its user does in the dashboard.
    fn switch(&self, name: &str, stopped: Option<&str>) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"annotations": {STOPPED: stopped}}}).to_string();
        let args = ["patch", "notebook", "--namespace", TEAM, name, "--type=merge", "--patch", &patch];
        self.kubectl(&args).map(drop)
    }

    /// Waits until the policy counts so many slices of a profile as allocated
    /// and as requested, and answers so many requests that it does not serve.
    fn counts(&self, slice: &str, allocated: u64, requested: u64, unserved: u64) -> anyhow::Result<()> {
        self.until(&format!("{allocated} of {slice} are in use and {requested} asked for"), || {
            let status = self.get("gpupartitionpolicy", TEAM)?["status"].clone();
            let supply = status["supply"].as_array().into_iter().flatten();
            let of = supply.clone().find(|one| one["profile"] == slice);
            let count = |key: &str| of.and_then(|one| one[key].as_u64()).unwrap_or(0);
            let open = status["unserved"]["total"].as_u64().unwrap_or(0);
            let is = count("allocated") == allocated && count("requested") == requested && open == unserved;
            Ok(if is { Ok(()) } else { Err(format!("{} and {}", status["supply"], status["unserved"])) })
        })
    }
}

/// Cut for whoever asks, kept for whoever works, and free again when its user
/// stops.
pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, _) = stage.starts_as("all-1g.10gb", ("mig-1g.10gb", 7))?;
    stage.governs(&node, &on_demand())?;
    for (name, slice) in [("half", "3g.40gb"), ("whole", "7g.80gb")] {
        stage.apply(&profile(name, slice, (POOL, TEAM)))?;
    }

    // No node of the pool has such a slice.
    stage.apply(&stage.workbench("lab", "half", "at-once"))?;
    stage.is_told("lab", "3g.40gb will be ready there")?;
    let given = stage.runs("lab-0")?;
    stage.says("lab-0", &format!("open: {}", given[0]))?;
    stage.was_cut_by_mig_manager(&node)?;
    ensure!(stage.slices(&node)?.contains(&given[0]), "nvidia-smi does not list {given:?}");
    ensure!(stage.allocatable(&node)?.contains_key("mig-3g.40gb"), "the kubelet has no mig-3g.40gb");
    stage.shows_running("lab")?;
    stage.counts("3g.40gb", 1, 0, 0)?;

    let is_unharmed = |stage: &Stage<'_>| -> anyhow::Result<()> {
        ensure!(stage.slices(&node)?.contains(&given[0]), "the slice of a workbench that runs is gone");
        ensure!(!stage.logs("lab-0")?.contains("lost"), "the workbench says that its slice is gone");
        Ok(())
    };

    // The GPU beside it is cut anew while it works.
    stage.apply(&stage.workbench("model", "whole", "at-once"))?;
    let next = stage.runs("model-0")?;
    stage.says("model-0", &format!("open: {}", next[0]))?;
    is_unharmed(stage)?;
    stage.counts("7g.80gb", 1, 0, 0)?;

    // For the next one its own slice would have to go.
    stage.apply(&stage.workbench("late", "whole", "at-once"))?;
    let answer = stage.is_told("late", "not served")?;
    ensure!(answer.contains(&format!("{TEAM}/lab-0")), "it is told {answer:?}");
    stage.counts("7g.80gb", 1, 1, 1)?;
    is_unharmed(stage)?;

    // Its user goes home: it is neither in use nor asked for.
    stage.switch("lab", Some("2026-11-20T18:00:00Z"))?;
    stage.shows_nothing("lab")?;
    let last = stage.runs("late-0")?;
    stage.says("late-0", &format!("open: {}", last[0]))?;
    stage.shows_running("late")?;
    let left = stage.slices(&node)?;
    ensure!(!left.contains(&given[0]), "the slice of a workbench that was stopped is still there: {left:?}");
    stage.counts("3g.40gb", 0, 0, 0)?;
    stage.counts("7g.80gb", 2, 0, 0)?;
    stage.policy_is("Ready", "True")?;
    stage.is_uncordoned(&node)?;

    // Back at work, it asks again.
    stage.switch("lab", None)?;
    stage.counts("3g.40gb", 0, 1, 1)
}
