//! How far a change is, and how it is brought to a step and no further.

use anyhow::Context;
use serde_json::Value;

use super::Who;
use crate::stories::stage::Stage;

/// How much longer the driver takes to destroy an instance, so that the agent is met in the middle.
const SLOW: &str = "4s";

/// How far a change is, by what anybody can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The node is cordoned, and the device plugin is to go.
    Held,
    /// The agent has reported that kubelet can give no device.
    Closed,
    /// The operator has proved that nobody has what goes, and permits the change.
    Permitted,
    /// The agent destroys and creates.
    Claimed,
    /// The agent has said what came of it.
    Ended,
}

impl Step {
    pub(super) const ALL: [Self; 5] = [Self::Held, Self::Closed, Self::Permitted, Self::Claimed, Self::Ended];

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Held => "when the node was held",
            Self::Closed => "when the gate was closed",
            Self::Permitted => "when the change was permitted",
            Self::Claimed => "in the middle of the change",
            Self::Ended => "when the change had ended and the gate was closed",
        }
    }
}

impl Stage<'_> {
    /// How far the change of a node is; none, where none is under way.
    pub(super) fn step_of(&self, node: &str) -> anyhow::Result<Option<Step>> {
        let both = [format!("node/{node}"), format!("gpunode/{node}")];
        let said = self.kubectl(&["get", &both[0], &both[1], "--output=json"])?;
        let both: Value = serde_json::from_str(&said).context("kubectl does not answer in JSON")?;
        Ok(step(&both["items"][0], &both["items"][1]))
    }

    /// Brings a change to this step. Whoever would go on from there is stopped by then: the agent, the operators, or both.
    /// The agent is stopped before it begins.
    pub(super) fn comes_to(&self, node: &str, wanted: Step) -> anyhow::Result<()> {
        if wanted >= Step::Claimed {
            let slow = ["node", "fault", "function", "nvmlGpuInstanceDestroy", "--slow", SLOW];
            self.sim(node, &slow)?;
        }
        self.is_at(node, Step::Held)?;
        if wanted == Step::Held {
            return Ok(());
        }
        self.signal(node, Who::Operators, "STOP")?;
        self.signal(node, Who::Agent, "CONT")?;
        self.is_at(node, Step::Closed)?;
        if wanted == Step::Closed {
            return Ok(());
        }
        self.signal(node, Who::Agent, "STOP")?;
        self.signal(node, Who::Operators, "CONT")?;
        self.is_at(node, Step::Permitted)?;
        if wanted == Step::Permitted {
            return Ok(());
        }
        if wanted == Step::Ended {
            self.signal(node, Who::Operators, "STOP")?;
        }
        self.signal(node, Who::Agent, "CONT")?;
        self.is_at(node, wanted)
    }

    fn is_at(&self, node: &str, wanted: Step) -> anyhow::Result<()> {
        self.until(&format!("the change of {node} is at {wanted:?}"), || {
            let now = self.step_of(node)?;
            Ok(if now == Some(wanted) { Ok(()) } else { Err(format!("it is at {now:?}")) })
        })
    }
}

/// The same, of these two objects.
fn step(node: &Value, gpu_node: &Value) -> Option<Step> {
    let change = &gpu_node["spec"]["change"];
    let (id, agent) = (change["id"].as_str()?, &gpu_node["status"]["agent"]);
    if agent["change"]["id"] == id {
        let works = matches!(agent["change"]["stage"].as_str(), Some("Claimed" | "Restoring"));
        return Some(if works { Step::Claimed } else { Step::Ended });
    }
    if !change["permit"].is_null() {
        return Some(Step::Permitted);
    }
    if agent["gate"]["change"] == id && agent["gate"]["state"] == "Closed" {
        return Some(Step::Closed);
    }
    let plugin = &node["metadata"]["labels"]["nvidia.com/gpu.deploy.device-plugin"];
    (node["spec"]["unschedulable"] == true && plugin == "paused-for-slicewright").then_some(Step::Held)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_as_far_as_both_sides_say() {
        let held = json!({
            "spec": {"unschedulable": true},
            "metadata": {"labels": {"nvidia.com/gpu.deploy.device-plugin": "paused-for-slicewright"}},
        });
        let at = |permit: Value, agent: Value| {
            let change = json!({"id": "7", "permit": permit});
            step(&held, &json!({"spec": {"change": change}, "status": {"agent": agent}}))
        };
        let closed = json!({"gate": {"change": "7", "state": "Closed"}});
        let of_another = json!({
            "gate": {"change": "6", "state": "Closed"}, "change": {"id": "6", "stage": "Done"},
        });
        assert_eq!(at(Value::Null, of_another), Some(Step::Held));
        assert_eq!(at(Value::Null, closed.clone()), Some(Step::Closed));
        assert_eq!(at(json!({"report": 3}), closed), Some(Step::Permitted));
        let working = |stage: &str| json!({"change": {"id": "7", "stage": stage}});
        assert_eq!(at(json!({"report": 3}), working("Claimed")), Some(Step::Claimed));
        assert_eq!(at(json!({"report": 3}), working("Done")), Some(Step::Ended));
        assert_eq!(step(&held, &json!({"spec": {}})), None, "cordoned for another reason");
    }
}
