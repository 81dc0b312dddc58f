//! Workloads that ask for nothing of GPUs, and whose turn comes first in a queue in which nobody passes anybody.

use api::foreign::Workload;
use api::foreign::workload::{WorkloadSpec, WorkloadStatus};

use super::metadata;

/// What is kept of a workload that waits for quota and asks for no GPU: its place in its queue, where nobody may pass it.
#[must_use]
pub fn only_its_turn(full: Workload) -> Workload {
    let Workload { metadata: meta, spec, status } = full;
    let mut meta = metadata(meta.into());
    (meta.owner_references, meta.annotations, meta.labels) = (None, None, None);
    let WorkloadSpec { pod_sets: _, queue_name, priority, active } = spec;
    let spec = WorkloadSpec { pod_sets: Vec::new(), queue_name, priority, active };
    let WorkloadStatus { requeue_state, .. } = status;
    let status = WorkloadStatus { requeue_state, ..WorkloadStatus::default() };
    Workload { metadata: meta.into(), spec, status }
}
