//! The cluster as it will be once quota has gone from those who hold it to those who wait for it.

use std::sync::Arc;

use api::foreign::Shared;
use api::foreign::workload::{Admission, AdmissionCheckState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use observe::Objects;

use super::queue::Queue;

/// The name under which those who get quota wait for us.
fn our_check(objects: &Objects) -> Option<AdmissionCheckState> {
    let (name, _) = objects.admission_checks.iter().find(|(_, check)| check.is_ours())?;
    Some(AdmissionCheckState {
        name: name.clone(),
        state: "Pending".to_owned(),
        ..AdmissionCheckState::default()
    })
}

/// The objects, with the holders of these queues sent back, and with quota for
/// those who gain by it.
pub(super) fn with_the_quota_given(objects: &Objects, queues: &[Queue<'_>]) -> Objects {
    let mut world = objects.clone();
    for queue in queues {
        for holder in &queue.holders {
            let Some(workload) = world.workloads.get_mut(holder.key).map(Arc::make_mut) else { continue };
            workload.status.conditions.retain(|condition| condition.type_ != "QuotaReserved");
            workload.status.admission = None;
        }
        for (waiting, pod_set_assignments) in queue.gains(&queue.holders) {
            let cluster_queue =
                observe::quota::cluster_queue(objects, waiting.key, waiting.workload).unwrap_or_default();
            let Some(workload) = world.workloads.get_mut(waiting.key).map(Arc::make_mut) else { continue };
            let status = &mut workload.status;
            status.conditions.retain(|c| !matches!(c.type_.as_str(), "QuotaReserved" | "Evicted"));
            status.conditions.push(Condition {
                type_: "QuotaReserved".to_owned(),
                status: "True".to_owned(),
                reason: String::new(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            });
            let cluster_queue = cluster_queue.to_owned();
            status.admission = Some(Shared::new(Admission { cluster_queue, pod_set_assignments }));
            status.admission_checks = our_check(objects).into_iter().collect();
        }
    }
    world
}
