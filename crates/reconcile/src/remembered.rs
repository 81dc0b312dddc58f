//! What is remembered of a node's rollout: `GpuNode.status.rollout`, read and
//! written. The field `progress` has everything; the fields beside it say the
//! same for people and for `kubectl get`.

use api::GpuNode;
use api::gpu_node::NodeRollout;
use rollout::Progress;

/// Why what was remembered cannot be used. The node is held until a human has
/// looked: to start over would mean to forget a cordon, or a label of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "status.rollout.progress of its GpuNode cannot be read ({message}); it may be of a newer version of slicewright: go back to that, or run `slicewright release {node}`"
)]
pub struct Unreadable {
    /// The node.
    pub node: String,
    /// What the reader says.
    pub message: String,
}

/// The progress of a node's rollout as it was stored. A node of which nothing
/// is stored was never touched.
///
/// # Errors
/// When something is stored that cannot be read.
pub fn read(gpu_node: Option<&GpuNode>) -> Result<Progress, Unreadable> {
    let rollout = gpu_node.and_then(|node| node.status.as_ref()?.rollout.as_ref());
    let Some(stored) = rollout.and_then(|rollout| rollout.progress.as_ref()) else {
        return Ok(Progress::default());
    };
    serde_json::from_value(stored.clone()).map_err(|error| Unreadable {
        node: gpu_node.and_then(|node| node.metadata.name.clone()).unwrap_or_default(),
        message: error.to_string(),
    })
}

/// A progress as it is stored; what the round keeps beside it (since when
/// slices have been free) stays.
#[must_use]
pub fn write(progress: &Progress, before: Option<&NodeRollout>) -> NodeRollout {
    let Progress {
        phase,
        since,
        target,
        applied,
        verified,
        cooldown_until,
        changed_at: _,
        marked_again_at: _,
        set_back: _,
        last_error,
        failed,
        matched_since: _,
        interrupted_since: _,
    } = progress;
    let why = failed.as_ref().map(ToString::to_string);
    NodeRollout {
        phase: phase.name().to_owned(),
        since: *since,
        attempt: target.as_ref().map_or(0, |t| i32::try_from(t.attempt).unwrap_or(i32::MAX)),
        last_error: why.or_else(|| last_error.as_ref().map(ToString::to_string)),
        applied: applied.clone(),
        verified_label: verified.as_ref().map(|v| v.label.clone()),
        verified_at: verified.as_ref().map(|v| v.at),
        cooldown_until: *cooldown_until,
        schedulable_since: before.map(|b| b.schedulable_since.clone()).unwrap_or_default(),
        progress: Some(serde_json::to_value(progress).expect("plain data can be written")),
    }
}
