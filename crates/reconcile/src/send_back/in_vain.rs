//! Quota that Kueue gives back to the one who was sent back, before it asks those who wait for it. From 0.17 on it does
//! so with Jobs: who is evicted is in the queue again at once, and those who wait only a second later
//! (`requeueBatchPeriod` in its `pkg/cache/queue/inadmissible_workloads.go`). To send such a workload back again for the
//! same people would end in the same way.
//!
//! All of it is read from what Kueue writes into the workloads, so that a restart of the operator forgets nothing: how often in a
//! row our check said `Retry` (`retryCount`), since when the workload is in its queue again (`Requeued`), and since when it has
//! its quota (`QuotaReserved`).

use std::collections::BTreeMap;

use api::foreign::Workload;
use jiff::{SignedDuration, Timestamp};
use observe::Objects;
use observe::objects::Key;

use crate::admission::{CheckAnswer, CheckState};

/// Who has quota so soon after it is in its queue again was not waited for by others. Kueue writes whole seconds, asks others
/// after one, and may be slow.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(5);
/// How long somebody to whom that happens has its quota at most before it is sent back for people who came later.
const LONGEST_HOLD: SignedDuration = SignedDuration::from_hours(1);

/// How often in a row a check of ours has sent a workload back.
pub(super) fn retries(objects: &Objects, workload: &Workload) -> u32 {
    let is_ours =
        |name: &str| objects.admission_checks.get(name).is_some_and(api::foreign::AdmissionCheck::is_ours);
    let checks = workload.status.admission_checks.iter().filter(|check| is_ours(&check.name));
    let most = checks.filter_map(|check| check.retry_count).max();
    most.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// Since when a workload has quota that Kueue gave back to it at once after we had sent it back.
pub(super) fn had_back_at_once(objects: &Objects, workload: &Workload) -> Option<Timestamp> {
    let (in_queue, reserved) = (workload.since("Requeued")?, workload.since("QuotaReserved")?);
    let at_once = in_queue <= reserved && reserved.duration_since(in_queue) <= AT_ONCE;
    (at_once && retries(objects, workload) > 0).then_some(reserved)
}

/// Whether a workload waits for quota since before this time, without having lost any or come back since.
pub(super) fn waits_since_before(workload: &Workload, moment: Timestamp) -> bool {
    let conditions = workload.status.conditions.iter();
    let turned = conditions.filter(|of| matches!(of.type_.as_str(), "QuotaReserved" | "Requeued"));
    let turned = turned.map(|condition| condition.last_transition_time.0);
    let created = workload.metadata.creation_timestamp.as_ref().map(|at| at.0);
    turned.chain(created).max() < Some(moment)
}

/// How long a workload has its quota before it is sent back: twice as long with each time in a row, once Kueue has been
/// seen to give it back at once.
pub(super) fn hold(objects: &Objects, workload: &Workload, hold: SignedDuration) -> SignedDuration {
    if had_back_at_once(objects, workload).is_none() {
        return hold;
    }
    let longest = LONGEST_HOLD.max(hold);
    let times = 1_i32 << retries(objects, workload).min(16);
    hold.checked_mul(times).unwrap_or(longest).min(longest)
}

/// Says of those who keep quota for which others wait why that is, and what helps.
pub(super) fn tell(in_vain: &BTreeMap<Key, u32>, checks: &mut [CheckAnswer]) {
    for answer in checks.iter_mut().filter(|answer| answer.state == CheckState::Pending) {
        let Some(times) = in_vain.get(&answer.workload) else { continue };
        let times = match times {
            1 => "once".to_owned(),
            n => format!("{n} times in a row"),
        };
        let why = format!(
            "; others wait for its quota, but Kueue has given it back {times} without asking them first, so this \
             workload keeps it: set spec.active of its Workload to false until it can be served"
        );
        answer.gist.push_str(&why);
        answer.message.push_str(&why);
    }
}

/// What helps where Kueue has given the quota back several times, said when it is taken once more.
pub(super) fn what_helps(retries: i32) -> String {
    match retries {
        ..=1 => String::new(),
        n => format!(
            "; Kueue has given the quota back to it {n} times already: if this goes on, set spec.active of its Workload \
             to false until it can be served"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_nothing_again_and_again_is_told_with_what_helps() {
        assert_eq!([-1, 0, 1].map(what_helps), ["", "", ""].map(str::to_owned));
        let told = what_helps(2);
        assert!(told.contains("back to it 2 times already: if this goes on, set spec.active"), "{told}");
    }
}
