//! An administrator ends a rollout: `slicewright release`. Our changes to the node are reverted as far as
//! that is possible without touching a GPU, and the rest is reported.

use crate::action::Action;
use crate::names;
use crate::observed::{ManagerState, Observed};
use crate::progress::{Phase, Progress};

/// What a release does and leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// To be stored first: from then on we do nothing to the node.
    pub progress: Progress,
    /// To be done, in this order.
    pub actions: Vec<Action>,
    /// What a human should know, one sentence each.
    pub left: Vec<String>,
}

/// Gives a node up. The label keeps its value: removing it would make the
/// Operator choose one, and another would change the GPUs.
#[must_use]
pub fn release(seen: &Observed, progress: &Progress) -> Release {
    let if_version = seen.resource_version.clone();
    let mut actions = Vec::new();
    let mut left = Vec::new();
    let held = &seen.operands.held;
    if !held.is_empty() {
        let if_version = if_version.clone();
        actions.push(Action::ResumeOperands { labels: held.clone(), if_version });
    }
    if seen.cordoned_by_us(progress) {
        actions.push(Action::Uncordon { if_version });
    } else if seen.marked() {
        actions.push(Action::RemoveCordonedBy { if_version });
    }
    if seen.cordoned_by_others(progress) {
        left.push("the node is cordoned, and not by us: `kubectl uncordon` is yours".to_owned());
    }
    if let Some(label) = seen.label() {
        left.push(format!("{} stays `{label}`", names::MIG_CONFIG));
    }
    if let Some(key) = &seen.sharing.key {
        left.push(format!("{} stays `{key}`", names::PLUGIN_CONFIG));
    }
    match seen.state() {
        ManagerState::Success => {}
        ManagerState::Absent => left.push("MIG manager has said nothing about this label yet".to_owned()),
        ManagerState::Pending | ManagerState::Rebooting => {
            left.push("MIG manager is still at work".to_owned());
        }
        ManagerState::Failed => {
            left.push("MIG manager's last run failed: some GPUs may have no slices".to_owned());
        }
        ManagerState::Other(other) => left.push(format!("MIG manager's state is `{other}`")),
    }
    if seen.label() == Some(names::HANDED_TO_AGENT) {
        left.push(format!(
            "an agent changed this node, and MIG manager is off there: nothing changes its GPUs until MIG manager has it \
             again. The operator gives it back ten minutes after the agent is uninstalled, if it may (`slicewright \
             release --resume NODE`); without the operator, set {} to an entry of MIG manager's map that describes what \
             the node has, and {} to `true`",
            names::MIG_CONFIG,
            names::DEPLOY_MIG_MANAGER
        ));
    }
    let paused = seen.paused();
    if !paused.is_empty() {
        left.push(format!(
            "operands are paused, and the node offers nothing until MIG manager's pod is deleted: {}",
            paused.join(", ")
        ));
    }
    let progress = Progress {
        phase: Phase::Released,
        target: None,
        failed: None,
        matched_since: None,
        interrupted_since: None,
        ..progress.clone()
    };
    Release { progress, actions, left }
}

/// Takes a released node back: it starts as one that we never touched, so any
/// label that it has now may be replaced under the ordinary rules.
#[must_use]
pub fn resume() -> Progress {
    Progress::default()
}
