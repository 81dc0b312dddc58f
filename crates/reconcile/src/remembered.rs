//! The record of a node's rollout, `GpuNode.status.rollout`, read and written. The field `progress` has
//! everything; the fields beside it show the same to people and for `kubectl get`.

use api::gpu_node::NodeRollout;
use rollout::Progress;

pub use observe::memory::{Unreadable, read};

/// A progress as it is stored; what the round keeps beside it (since when
/// slices have been free, and to whom they were promised) stays.
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
        shared_at: _,
        marked_again_at: _,
        set_back: _,
        last_error,
        failed,
        matched_since: _,
        interrupted_since: _,
        offers_otherwise_since: _,
        agent_left_since: _,
        agent_gone: _,
        stood_down: _,
        hands_back: _,
        shared_as: _,
        sharing_set_back: _,
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
        promised: before.map(|b| b.promised.clone()).unwrap_or_default(),
        schedulable_since: before.map(|b| b.schedulable_since.clone()).unwrap_or_default(),
        progress: Some(serde_json::to_value(progress).expect("plain data can be written")),
    }
}
