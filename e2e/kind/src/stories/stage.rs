//! The cluster as stories use it. Every wait has an end.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Often;
use crate::call::{call, call_with};
use crate::cluster::Cluster;
use crate::fleet::LABEL;
use crate::gpus::NAMESPACE;
use crate::operator;
use crate::place::Place;
use crate::waiting::wait_until;

/// The namespace of the people of stories.
pub(super) const TEAM: &str = "story";

/// The label by which policies select workers. One with another value is
/// somebody else's meanwhile: a scenario of `e2e`, for instance.
pub(super) const POOL: &str = "slicewright.io/pool";

/// How many times a story looks before it asks whether a pod or a node has
/// changed meanwhile, a tenth of a second and kubectl's time apart: some two
/// minutes. Operands look at their nodes every ten to thirty seconds.
const PATIENCE: u32 = 480;

pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster<'a>,
    pub(super) place: &'a Place,
    /// The tag of the simulator's image.
    pub(super) tag: String,
    pub(super) often: Often,
    /// What was measured, for people.
    pub(super) notes: Vec<String>,
}

impl<'a> Stage<'a> {
    /// A stage with nothing of an earlier story on it.
    pub(super) fn empty(cluster: &'a Cluster<'a>, place: &'a Place, often: Often) -> anyhow::Result<Self> {
        let image = call(cluster.kubectl()?.args([
            "get",
            "deployment",
            "gpu-operator",
            "--namespace",
            NAMESPACE,
            "--output=jsonpath={.spec.template.spec.containers[0].image}",
        ]));
        let image = image.context("the workers have no simulated GPUs: `cargo xtask kind up` brings them")?;
        let tag = image.rsplit_once(':').context("the simulator's image has no tag")?.1.to_owned();
        let stage = Self { cluster, place, tag, often, notes: Vec::new() };
        stage.clear()?;
        stage.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}))?;
        Ok(stage)
    }

    /// Takes away what a story made.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        // Where Slicewright was never installed there are none.
        let _ = self.to_its_end(&["delete", "gpupartitionpolicies.slicewright.io", "--all"]);
        self.to_its_end(&["delete", "namespace", TEAM, "--ignore-not-found"])?;
        for node in self.nodes()?.keys() {
            self.kubectl(&["label", "node", node, &format!("{POOL}-")])?;
            self.sim(node, &["node", "fault", "clear"]).map(drop)?;
        }
        // Those of a story that failed would take the nodes into their hands again.
        if self.has_an_agent()? {
            operator::install(self.cluster, self.place)?;
        }
        // Nobody's any more: what Slicewright last gave a node is no claim to it. Nor are there any without it.
        let _ = self.to_its_end(&["delete", "gpunodes.slicewright.io", "--all"]);
        Ok(())
    }

    pub(super) fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        call(self.cluster.kubectl()?.args(args))
    }

    /// A command of kubectl's that waits by itself, for as long as something
    /// moves in the cluster.
    pub(super) fn to_its_end(&self, args: &[&str]) -> anyhow::Result<()> {
        self.cluster.waits(self.cluster.kubectl()?.args(args)).map(drop)
    }

    /// What runs a program on a node, to which it is given what it reads.
    pub(super) fn on(&self, node: &str) -> Command {
        let mut command = self.cluster.engine().command();
        command.args(["exec", "--interactive", node]);
        command
    }

    pub(super) fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let mut apply = self.cluster.kubectl()?;
        call_with(apply.args(["apply", "--filename=-"]), object.to_string().as_bytes()).map(drop)
    }

    /// One object.
    pub(super) fn get(&self, kind: &str, name: &str) -> anyhow::Result<Value> {
        let mut args = vec!["get", kind, name, "--output=json"];
        if matches!(kind, "pod" | "poddisruptionbudget" | "notebook") {
            args.extend(["--namespace", TEAM]);
        }
        serde_json::from_str(&self.kubectl(&args)?).context("kubectl does not answer in JSON")
    }

    /// Waits for something that is looked for again and again, for as long as
    /// something moves in the cluster; it says how far it is.
    pub(super) fn until(
        &self,
        what: &str,
        look: impl FnMut() -> anyhow::Result<Result<(), String>>,
    ) -> anyhow::Result<()> {
        let mut last = String::new();
        let waited = self.cluster.wait(what, PATIENCE, looks(look, &mut last));
        waited.with_context(|| format!("at the end: {last}"))
    }

    /// Waits for so many looks and no longer: for what may well not come.
    #[expect(clippy::unused_self, reason = "stories wait for what is on their stage")]
    pub(super) fn within(
        &self,
        many: u32,
        what: &str,
        look: impl FnMut() -> anyhow::Result<Result<(), String>>,
    ) -> anyhow::Result<()> {
        let mut last = String::new();
        let waited = wait_until(what, many, looks(look, &mut last));
        waited.with_context(|| format!("at the end: {last}"))
    }

    /// The workers that nobody else uses, each with its GPUs.
    pub(super) fn nodes(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let said = self.kubectl(&["get", "nodes", "--selector", LABEL, "--output=json"])?;
        let listed: Value = serde_json::from_str(&said)?;
        let one = |node: &Value| {
            let labels = &node["metadata"]["labels"];
            let gpus = labels[LABEL].as_str()?;
            if labels[POOL].as_str().is_some_and(|pool| pool != TEAM) {
                return None;
            }
            Some((node["metadata"]["name"].as_str()?.to_owned(), gpus.to_owned()))
        };
        Ok(listed["items"].as_array().into_iter().flatten().filter_map(one).collect())
    }

    /// A worker with GPUs of this model, and how many it has.
    pub(super) fn worker(&self, model: &str) -> anyhow::Result<(String, u64)> {
        let nodes = self.nodes()?;
        let found = nodes.into_iter().find_map(|(name, gpus)| {
            let (count, of) = gpus.split_once('x')?;
            Some((name, count.parse().ok().filter(|_| of == model)?))
        });
        found
            .with_context(|| format!("no worker has a {model}: bring the cluster up with --worker 2x{model}"))
    }

    /// A label of a node; empty where it has none.
    pub(super) fn label(&self, node: &str, key: &str) -> anyhow::Result<String> {
        let node = self.get("node", node)?;
        Ok(node["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned())
    }

    /// What pods can have of NVIDIA's on a node, without what there is none of.
    pub(super) fn allocatable(&self, node: &str) -> anyhow::Result<BTreeMap<String, u64>> {
        let node = self.get("node", node)?;
        let all = node["status"]["allocatable"].as_object().cloned().unwrap_or_default();
        let ours = all.iter().filter_map(|(name, many)| {
            let name = name.strip_prefix("nvidia.com/")?;
            Some((name.to_owned(), many.as_str()?.parse().ok().filter(|many| *many > 0)?))
        });
        Ok(ours.collect())
    }

    /// Waits until pods can have exactly this on a node.
    pub(super) fn offers(&self, node: &str, wanted: &[(&str, u64)]) -> anyhow::Result<()> {
        let wanted: BTreeMap<String, u64> =
            wanted.iter().map(|(name, many)| ((*name).to_owned(), *many)).collect();
        self.until(&format!("{wanted:?} for pods on {node}"), || {
            let now = self.allocatable(node)?;
            Ok(if now == wanted { Ok(()) } else { Err(format!("there is {now:?}")) })
        })
    }

    /// Names a layout for a node, as a person does, and takes the old state
    /// away, so that a state that is seen later is of this.
    pub(super) fn ask_for(&self, node: &str, layout: &str) -> anyhow::Result<()> {
        let labels = json!({"nvidia.com/mig.config": layout, "nvidia.com/mig.config.state": Value::Null});
        let patch = json!({"metadata": {"labels": labels}}).to_string();
        self.kubectl(&["patch", "node", node, "--type=merge", "--patch", &patch]).map(drop)
    }

    /// Waits until MIG manager says how it ended, which is to be this.
    pub(super) fn ends(&self, node: &str, state: &str) -> anyhow::Result<()> {
        let mut now = String::new();
        self.until(&format!("an end of MIG manager's work on {node}"), || {
            now = self.label(node, "nvidia.com/mig.config.state")?;
            let is_over = matches!(now.as_str(), "success" | "failed");
            Ok(if is_over { Ok(()) } else { Err(format!("the state is {now:?}")) })
        })?;
        ensure!(now == state, "MIG manager says {now} for {node}, and not {state}");
        Ok(())
    }

    /// Brings a node to a layout, from whatever it has.
    pub(super) fn cut(&self, node: &str, layout: &str, offers: &[(&str, u64)]) -> anyhow::Result<()> {
        self.nothing_is_in_the_way(node)?;
        let now = self.label(node, "nvidia.com/mig.config")?;
        let state = self.label(node, "nvidia.com/mig.config.state")?;
        if now != layout || state != "success" {
            if now == layout {
                // The same name again is no change: by way of another one.
                let other = if layout == "all-disabled" { "all-balanced" } else { "all-disabled" };
                self.ask_for(node, other)?;
                self.ends(node, "success")?;
            }
            self.ask_for(node, layout)?;
            self.ends(node, "success")?;
        }
        self.offers(node, offers)
    }

    /// A worker with A100s as most stories begin: brought to a layout of MIG
    /// manager's own, of which each GPU has so many of a resource. Its name,
    /// and how many GPUs it has.
    pub(super) fn starts_as(&self, layout: &str, each: (&str, u64)) -> anyhow::Result<(String, u64)> {
        let (node, gpus) = self.worker("A100-80GB")?;
        self.cut(&node, layout, &[(each.0, each.1 * gpus)])?;
        Ok((node, gpus))
    }

    /// A pod on a node that got a slice and opens it at once, late or never;
    /// what it was given.
    pub(super) fn holds(
        &self,
        node: &str,
        name: &str,
        resource: &str,
        opens: &str,
    ) -> anyhow::Result<Vec<String>> {
        self.apply(&self.pod(node, name, resource, 1, opens))?;
        self.runs(name)
    }

    /// Heals what an earlier story may have left on a node: parked operands, a
    /// cordon.
    fn nothing_is_in_the_way(&self, node: &str) -> anyhow::Result<()> {
        let there = self.get("node", node)?;
        if there["spec"]["unschedulable"] == json!(true) {
            self.kubectl(&["uncordon", node])?;
        }
        let labels = there["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        // Nobody gives a node back to MIG manager that was an agent's, once its policy is gone.
        let manager = "nvidia.com/gpu.deploy.mig-manager";
        if labels.get(manager).is_some_and(|value| value == "false") {
            self.kubectl(&["label", "node", node, "--overwrite", &format!("{manager}=true")])?;
        }
        if labels.values().any(|value| value == "paused-for-mig-change") {
            self.restart_operand(node, "nvidia-mig-manager")?;
        }
        Ok(())
    }

    /// The pod of an operand on a node.
    pub(super) fn operand(&self, node: &str, app: &str) -> anyhow::Result<String> {
        let (field, label) = (format!("spec.nodeName={node}"), format!("app={app}"));
        let said = self.kubectl(&[
            "get",
            "pods",
            "--namespace",
            NAMESPACE,
            "--field-selector",
            &field,
            "--selector",
            &label,
            "--output=jsonpath={range .items[?(@.status.phase==\"Running\")]}{.metadata.name}{\"\\n\"}{end}",
        ])?;
        let name = said.lines().next().map(str::to_owned);
        name.with_context(|| format!("{node} has no running pod of {app}"))
    }

    /// Deletes an operand's pod on a node, and waits until the next one is
    /// ready. Its name.
    pub(super) fn restart_operand(&self, node: &str, app: &str) -> anyhow::Result<String> {
        let old = self.operand(node, app)?;
        self.to_its_end(&["delete", "pod", "--namespace", NAMESPACE, &old])?;
        let mut new = String::new();
        self.until(&format!("a new pod of {app} on {node}"), || {
            new = self.operand(node, app)?;
            Ok(if new == old { Err("it is the old one".to_owned()) } else { Ok(()) })
        })?;
        self.to_its_end(&["wait", "pod", "--namespace", NAMESPACE, &new, "--for=condition=Ready"])?;
        Ok(new)
    }

    /// The simulator's command on a node, in its driver container.
    pub(super) fn sim(&self, node: &str, args: &[&str]) -> anyhow::Result<String> {
        self.in_driver(node, &format!("slicewright-sim {}", args.join(" ")))
    }

    /// A line of shell in the driver container of a node, with the library
    /// where NVIDIA's container toolkit would have put it.
    pub(super) fn in_driver(&self, node: &str, line: &str) -> anyhow::Result<String> {
        let pod = self.operand(node, "nvidia-driver-daemonset")?;
        let line = format!("export LD_LIBRARY_PATH=/usr/lib64; {line}");
        self.kubectl(&["exec", "--namespace", NAMESPACE, &pod, "--", "sh", "-c", &line])
    }

    /// The UUIDs of the slices of a node, as nvidia-smi lists them.
    pub(super) fn slices(&self, node: &str) -> anyhow::Result<Vec<String>> {
        let listed = self.in_driver(node, "nvidia-smi -L")?;
        let uuid = |line: &str| {
            let (_, rest) = line.split_once("(UUID: MIG-")?;
            Some(format!("MIG-{}", rest.trim_end().strip_suffix(')')?))
        };
        Ok(listed.lines().filter_map(uuid).collect())
    }

    /// A pod that asks for slices of a node and opens them at once, late or
    /// never. Another node may have such slices too, from an earlier story.
    pub(super) fn pod(&self, node: &str, name: &str, resource: &str, many: u64, opens: &str) -> Value {
        let mut spec = self.works(name, opens);
        spec["terminationGracePeriodSeconds"] = json!(5);
        spec["restartPolicy"] = json!("Never");
        spec["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        spec["containers"][0]["resources"]["limits"][format!("nvidia.com/{resource}")] =
            json!(many.to_string());
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": TEAM, "labels": {"app": name}},
            "spec": spec,
        })
    }

    /// What a pod does that works on what it is given.
    pub(super) fn works(&self, name: &str, opens: &str) -> Value {
        json!({
            "containers": [{
                "name": name, "image": format!("slicewright.local/simulator:{}", self.tag),
                "imagePullPolicy": "Never",
                "command": ["/usr/bin/slicewright-sim", "node", "work", "--opens", opens],
                "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/lib64"}],
                // What NVIDIA's container toolkit would bring in, and the GPUs themselves.
                "volumeMounts": [{"name": "gpus", "mountPath": "/run/slicewright-sim"}],
            }],
            "volumes": [{"name": "gpus", "hostPath": {"path": "/var/lib/slicewright-sim"}}],
        })
    }

    /// Waits until a pod runs, and gives the UUIDs that it was given.
    pub(super) fn runs(&self, name: &str) -> anyhow::Result<Vec<String>> {
        self.until(&format!("the pod {name} runs"), || {
            let pod = self.get("pod", name)?;
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            ensure!(!matches!(phase, "Failed" | "Succeeded"), "it {phase}: {}", pod["status"]);
            Ok(if phase == "Running" { Ok(()) } else { Err(pod["status"].to_string()) })
        })?;
        let mut given = Vec::new();
        self.until(&format!("{name} says what it was given"), || {
            let said = self.logs(name)?;
            let first = said.lines().find_map(|line| line.strip_prefix("given: "));
            given = first.map(|list| list.split(", ").map(str::to_owned).collect()).unwrap_or_default();
            Ok(if given.is_empty() { Err(format!("it says {said:?}")) } else { Ok(()) })
        })?;
        Ok(given)
    }

    /// What a pod has said.
    pub(super) fn logs(&self, name: &str) -> anyhow::Result<String> {
        self.kubectl(&["logs", "--namespace", TEAM, name])
    }

    /// Waits until a pod has said something.
    pub(super) fn says(&self, name: &str, word: &str) -> anyhow::Result<()> {
        self.until(&format!("{name} says {word:?}"), || {
            let said = self.logs(name)?;
            Ok(if said.contains(word) { Ok(()) } else { Err(format!("it says {said:?}")) })
        })
    }

    /// Deletes a pod, and waits until it is gone.
    pub(super) fn ends_work(&self, name: &str) -> anyhow::Result<()> {
        self.to_its_end(&["delete", "pod", "--namespace", TEAM, name])
    }

    /// The workers' operands run again: nothing is parked.
    pub(super) fn nothing_is_parked(&self, node: &str) -> anyhow::Result<()> {
        self.until(&format!("no operand of {node} is parked"), || {
            let there = self.get("node", node)?;
            let labels = there["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            let parked: Vec<_> =
                labels.iter().filter(|(_, value)| *value == "paused-for-mig-change").collect();
            Ok(if parked.is_empty() { Ok(()) } else { Err(format!("{parked:?}")) })
        })
    }
}

/// Looks whether something is so, and keeps what was seen last.
fn looks<'a>(
    mut look: impl FnMut() -> anyhow::Result<Result<(), String>> + 'a,
    last: &'a mut String,
) -> impl FnMut() -> bool + 'a {
    move || match look() {
        Ok(Ok(())) => true,
        Ok(Err(so_far)) => {
            *last = so_far;
            false
        }
        Err(error) => {
            *last = format!("{error:#}");
            false
        }
    }
}
