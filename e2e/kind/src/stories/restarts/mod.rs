//! A change of the agent's, and somebody who takes part in it goes in the middle: the agent, the operators or the
//! kubelet, each at every step, and at last the whole machine. What computes beside it notices nothing, and what was asked
//! for comes all the same.
//!
//! No step is met by chance: whoever would go on from it is stopped (SIGSTOP) before, and continues when the other is gone.

mod change;
mod stopped;

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Value, json};

use super::by_hand::named;
use super::racing::Witness;
use super::slicewright::on_demand;
use super::stage::{Stage, TEAM};
use crate::call::call;
use crate::operator::{self, AGENT_NAMESPACE};
use change::Step;
pub(super) use stopped::tell as tell_of_a_stopped_plugin;

/// Who takes part in a change, and may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Agent,
    Operators,
    Kubelet,
}

impl Who {
    const ALL: [Self; 3] = [Self::Agent, Self::Operators, Self::Kubelet];

    const fn was(self) -> &'static str {
        match self {
            Self::Agent => "the agent was",
            Self::Operators => "all operators were",
            Self::Kubelet => "kubelet was",
        }
    }
}

/// Those who compute beside the half that is cut anew, each with its slice and its container.
struct Neighbours {
    slices: BTreeMap<String, String>,
    containers: Vec<String>,
}

impl Neighbours {
    fn names(&self) -> Vec<String> {
        self.slices.keys().cloned().collect()
    }

    /// They have noticed nothing.
    fn are_unharmed(&self, stage: &Stage<'_>, node: &str, witness: &Witness) -> anyhow::Result<()> {
        ensure!(stage.containers(&self.names())? == self.containers, "one of them is another container");
        let there = stage.slices(node)?;
        for (pod, slice) in &self.slices {
            ensure!(!stage.logs(pod)?.contains("lost"), "{pod} lost {slice}");
            ensure!(there.contains(slice), "the slice of {pod} is gone");
        }
        witness.is_awake()?;
        ensure!(witness.seen().lost.is_empty(), "slices were lost: {:?}", witness.seen().lost);
        Ok(())
    }
}

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-3g.40gb", ("mig-3g.40gb", 2))?;
    stage.governs(&node, &on_demand())?;
    stage.has_agents("change")?;
    stage.agent_reports(&node, "Change", |there| there.len() as u64 == 2 * gpus)?;
    let witness = Witness::begins(stage.on(&node))?;
    let mut slices = stage.hold_one_each(&node, &named("train", 2 * gpus - 3), "mig-3g.40gb")?;
    slices.extend(begin_in_the_gap(stage, &node, &witness)?);
    for (pod, slice) in &slices {
        stage.says(pod, &format!("open: {slice}"))?;
    }
    let containers = stage.containers(&slices.keys().cloned().collect::<Vec<_>>())?;
    let neighbours = Neighbours { slices, containers };
    neighbours.are_unharmed(stage, &node, &witness)?;

    let mut turn = 1;
    for step in Step::ALL {
        for who in Who::ALL {
            let start = crate::progress::clock();
            let name = format!("asks-{turn}");
            stage.asks_anew(&node, &name, turn)?;
            stage.comes_to(&node, step)?;
            stage.goes(&node, who)?;
            stage.all_go_on(&node, who)?;
            let given = stage.runs(&name)?;
            stage.comes_to_rest(&node)?;
            neighbours.are_unharmed(stage, &node, &witness)?;
            ensure!(
                stage.slices(&node)?.contains(&given[0]),
                "{name} was given {given:?}, which is not there"
            );
            let took = start.elapsed().as_secs();
            stage.notes.push(format!(
                "{} was killed {}: {took} s to a pod that runs",
                who.was(),
                step.words()
            ));
            ends(stage, &name, &witness)?;
            turn += 1;
        }
    }
    drop(witness);

    // Not even the neighbours survive the machine. The change is as good as never begun, and comes to its end.
    stage.asks_anew(&node, "asks-last", turn)?;
    stage.comes_to(&node, Step::Claimed)?;
    stage.cluster.restart(&node)?;
    let given = stage.runs("asks-last")?;
    stage.comes_to_rest(&node)?;
    ensure!(stage.slices(&node)?.contains(&given[0]), "{given:?} is not there");
    stage.policy_is("Ready", "True")?;

    stage.hands_over_to_mig_manager(&node)?;
    operator::install(stage.cluster, stage.place)
}

/// While no device can be given, a container starts again and another one starts for the first time: kubelet remembers
/// what their pods have. These pods, each with its slice.
fn begin_in_the_gap(
    stage: &Stage<'_>,
    node: &str,
    witness: &Witness,
) -> anyhow::Result<BTreeMap<String, String>> {
    // By its command line it is told from the others.
    let mut again = stage.pod(node, "again", "mig-3g.40gb", 1, "1s");
    again["spec"]["restartPolicy"] = json!("Always");
    let mut slow = stage.pod(node, "slow", "mig-3g.40gb", 1, "at-once");
    slow["spec"]["initContainers"] = json!([{
        "name": "waits", "image": slow["spec"]["containers"][0]["image"], "imagePullPolicy": "Never",
        "command": ["sh", "-c", "until [ -e /gap/begun ]; do sleep 0.2; done"],
        "volumeMounts": [{"name": "gap", "mountPath": "/gap"}],
    }]);
    let gap = json!({"name": "gap", "emptyDir": {}});
    slow["spec"]["volumes"].as_array_mut().into_iter().for_each(|volumes| volumes.push(gap.clone()));
    stage.apply(&again)?;
    stage.apply(&slow)?;
    let before = stage.runs("again")?;
    stage.until("slow is admitted, and waits", || {
        let status = stage.get("pod", "slow")?["status"].clone();
        let waits = !status["initContainerStatuses"][0]["state"]["running"].is_null();
        Ok(if waits { Ok(()) } else { Err(status.to_string()) })
    })?;

    stage.asks_anew(node, "asks-0", 0)?;
    stage.comes_to(node, Step::Closed)?;
    call(stage.on(node).args(["pkill", "-KILL", "-f", "node work --opens 1s"]))?;
    let begun = ["exec", "--namespace", TEAM, "slow", "--container", "waits", "--", "mkdir", "/gap/begun"];
    stage.kubectl(&begun)?;
    stage.until("the container of again is another one", || {
        let status = stage.get("pod", "again")?["status"]["containerStatuses"][0].clone();
        let is = status["restartCount"] == 1 && !status["state"]["running"].is_null();
        Ok(if is { Ok(()) } else { Err(status.to_string()) })
    })?;
    let after = stage.runs("again")?;
    ensure!(after == before, "again had {before:?}, and its next container has {after:?}");
    let late = stage.runs("slow")?;
    let step = stage.step_of(node)?;
    ensure!(step == Some(Step::Closed), "they did not begin in the gap: the change is {step:?}");
    stage.all_go_on(node, Who::Kubelet)?;

    stage.runs("asks-0")?;
    stage.comes_to_rest(node)?;
    ends(stage, "asks-0", witness)?;
    Ok([("again", after), ("slow", late)].map(|(pod, slices)| (pod.to_owned(), slices[0].clone())).into())
}

/// A pod is told to end, and what becomes of its slices is as it should be.
fn ends(stage: &Stage<'_>, pod: &str, witness: &Witness) -> anyhow::Result<()> {
    let uid = stage.get("pod", pod)?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    witness.are_told_to_end([uid]);
    stage.ends_work(pod)
}

impl Stage<'_> {
    /// A pod asks for what the free rest of the GPUs does not have after the turn before.
    fn asks_anew(&self, node: &str, name: &str, turn: usize) -> anyhow::Result<()> {
        // The agent may not go on yet.
        self.signal(node, Who::Agent, "STOP")?;
        self.apply(&self.pod(node, name, asks(turn).0, asks(turn).1, "at-once"))
    }

    /// Goes at once, with no time to say anything. Pods are replaced: a container that ends often is started again later
    /// and later.
    fn goes(&self, node: &str, who: Who) -> anyhow::Result<()> {
        self.signal(node, who, "KILL")?;
        let on = format!("--field-selector=spec.nodeName={node}");
        let (namespace, which) = match who {
            Who::Agent => (AGENT_NAMESPACE, on.as_str()),
            Who::Operators => (operator::NAMESPACE, "--all"),
            Who::Kubelet => return Ok(()),
        };
        self.kubectl(&["delete", "pods", "--namespace", namespace, which, "--force", "--grace-period=0"])
            .map(drop)
    }

    /// Whoever was stopped goes on, but for the one that is gone.
    fn all_go_on(&self, node: &str, gone: Who) -> anyhow::Result<()> {
        for who in [Who::Agent, Who::Operators].into_iter().filter(|who| *who != gone) {
            self.signal(node, who, "CONT")?;
        }
        Ok(())
    }

    /// Sends a signal to the agent of a node, to its kubelet, or to every operator, wherever it runs.
    fn signal(&self, node: &str, who: Who, signal: &str) -> anyhow::Result<()> {
        let send = format!("-{signal}");
        let by_command =
            |node: &str, begins: &str| call(self.on(node).args(["pkill", &send, "-f", begins])).map(drop);
        match who {
            Who::Agent => by_command(node, "^/usr/bin/slicewright-agent"),
            Who::Operators => {
                let mut nodes = self.nodes_of_operators()?.into_iter();
                nodes.try_for_each(|node| by_command(&node, "^/usr/bin/slicewright-operator"))
            }
            Who::Kubelet => {
                let to = format!("--signal={signal}");
                call(self.on(node).args(["systemctl", "kill", &to, "kubelet"])).map(drop)
            }
        }
    }

    fn nodes_of_operators(&self) -> anyhow::Result<Vec<String>> {
        let nodes = "--output=jsonpath={.items[?(@.status.phase==\"Running\")].spec.nodeName}";
        let said = self.kubectl(&["get", "pods", "--namespace", operator::NAMESPACE, nodes])?;
        let mut nodes: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        nodes.sort();
        nodes.dedup();
        Ok(nodes)
    }

    /// The node takes pods, its operands run, and the agent has nothing to do.
    fn comes_to_rest(&self, node: &str) -> anyhow::Result<()> {
        self.is_uncordoned(node)?;
        self.until("nothing is to be changed", || {
            let wants: Value = self.get("gpunode", node)?["spec"]["change"].clone();
            Ok(if wants.is_null() { Ok(()) } else { Err(wants.to_string()) })
        })?;
        self.nothing_is_paused(node)
    }
}

/// What is asked for, in turn: a half that is free has no sevenths, and where sevenths were cut from it there is no half.
const fn asks(turn: usize) -> (&'static str, u64) {
    if turn.is_multiple_of(2) { ("mig-1g.10gb", 2) } else { ("mig-3g.40gb", 1) }
}
