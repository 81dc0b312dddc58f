//! Quota that is held by one who cannot be served, and for which others wait who can: its holder goes back
//! into its queue (`Retry`), and Kueue gives the quota to them.
//!
//! It is done only if all of this holds:
//!
//! - the holder has its quota, no pod of it has a node, and not all of its requests are served, all that for as
//!   long as the settings say, without interruption: who can be served is never sent back;
//! - by the numbers of its queue, another workload gets the quota, and would not get it otherwise;
//! - with the quota there, a plan serves all of that workload, and everybody who is served now;
//! - the holder cannot take the quota back by force (preemption) when it returns.
//!
//! So that nothing goes in circles, a workload that has quota again has all of its time again, and it is not sent
//! back for those whom Kueue has passed over when it gave the quota back to it ([`in_vain`]). One workload of a
//! queue gains at a time, nobody else is sent back while Kueue has not taken the quota yet, and whether somebody
//! gains is asked at most [`ASKED_EACH_HOLD`] times in the time that a holder has: it costs a plan.

mod admitted;
mod in_vain;
mod queue;
mod room;

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::Workload;
use jiff::{SignedDuration, Timestamp};
use observe::objects::{Key, UnservedQuota};
use observe::requests::QueuedWorkload;
use planner::inventory::Hold;
use planner::names::RequestId;
use planner::report::{Outcome, Report, Why};

use self::queue::{Queue, Waiting};
use crate::admission::{CheckAnswer, CheckState, RETRY_AFTER};
use crate::answers::is_unserved;
use crate::input::Input;
use crate::planned_round::{PlannedRound, plan_round};

/// How often in the time that a holder has it is planned whether somebody could
/// use its quota.
const ASKED_EACH_HOLD: i32 = 5;
/// And not more often than that, however short that time is.
const ASKED_AT_MOST_EVERY: SignedDuration = SignedDuration::from_secs(1);
/// The longest delay of a `Retry`, in seconds. Kueue (0.16 to 0.19) keeps the quota
/// reserved for so long and evicts then, so that those who gain wait for it, too.
const LONGEST_RETRY: u32 = 120;

/// Who is not served although it has quota, and when to look again.
pub(crate) struct SentBack {
    pub remembered: UnservedQuota,
    pub wake_at: Option<Timestamp>,
}

/// Makes those answers `Retry` whose workloads hold quota that others can use.
pub(crate) fn send_back(input: &Input<'_>, planned: &PlannedRound, checks: &mut [CheckAnswer]) -> SentBack {
    let mut in_vain = BTreeMap::new();
    let sent_back = among(input, planned, checks, &mut in_vain);
    in_vain::tell(&in_vain, checks);
    sent_back
}

/// The same, with those who keep their quota although others would gain by it, and how often Kueue gave it back to them.
fn among(
    input: &Input<'_>,
    planned: &PlannedRound,
    checks: &mut [CheckAnswer],
    in_vain: &mut BTreeMap<Key, u32>,
) -> SentBack {
    let before = &input.objects.unserved_quota;
    let nothing_is_known = input.obstacles.settling(input.now).is_some() || planned.plan.checked().is_none();
    if nothing_is_known || planned.report.gave_up.is_some() {
        return SentBack { remembered: before.clone(), wake_at: None };
    }
    if !input.settings.answers_checks {
        return SentBack { remembered: UnservedQuota::default(), wake_at: None };
    }
    let hold = input.settings.quota_hold;
    let pause = (hold / ASKED_EACH_HOLD).max(ASKED_AT_MOST_EVERY);
    // Kueue may have taken the quota back and given it anew since the round before.
    let is_of_this_quota = |key: &Key, since: &Timestamp| {
        let reserved = input.objects.workloads.get(key).and_then(|workload| workload.since("QuotaReserved"));
        reserved.is_none_or(|reserved| reserved <= *since)
    };
    let since: BTreeMap<Key, Timestamp> = unserved(planned)
        .map(|key| {
            let known = before.since.get(key).copied().filter(|since| is_of_this_quota(key, since));
            (key.clone(), known.unwrap_or(input.now).min(input.now))
        })
        .collect();
    let asked = before.asked.filter(|_| !since.is_empty());
    let mut sent_back = SentBack { remembered: UnservedQuota { since, asked }, wake_at: None };
    let queues = queue::with_holders(input.objects, &sent_back.remembered.since, input.now);
    in_vain.extend(queues.iter().flat_map(Queue::in_vain).map(|(key, times)| (key.clone(), times)));
    let hold_of = |key: &Key| {
        let workload = input.objects.workloads.get(key);
        workload.map_or(hold, |workload| in_vain::hold(input.objects, workload, hold))
    };
    let ends = |key: &Key| sent_back.remembered.since[key] + hold_of(key);
    let later = queues.iter().flat_map(|queue| &queue.holders).map(|holder| ends(holder.key));
    let later = later.filter(|at| *at > input.now).min();
    let due: Vec<Queue<'_>> = queues
        .into_iter()
        .map(|queue| queue.with_holders_only(|key| ends(key) <= input.now))
        // This spares a plan that would find nobody, and nothing else.
        .filter(Queue::has_somebody_to_gain)
        .collect();
    let again = asked.map(|at| at + pause).filter(|at| *at > input.now && asked <= Some(input.now));
    if due.is_empty() || again.is_some() {
        sent_back.wake_at = later.into_iter().chain(again.filter(|_| !due.is_empty())).min();
        return sent_back;
    }
    sent_back.remembered.asked = Some(input.now);
    sent_back.wake_at = later.into_iter().chain([input.now + pause]).min();
    let world = admitted::with_the_quota_given(input.objects, &due);
    let then = plan_round(&Input { objects: &world, ..*input });
    // The other plan is judged as the first is, although no fleet is known of which only the other is unsound or not found.
    if then.plan.checked().is_none() || then.report.gave_up.is_some() || loses_anybody(planned, &then, &due) {
        return sent_back;
    }
    for queue in &due {
        let Some((gains, holders)) = queue.gains(&queue.holders).into_iter().find_map(|(waiting, _)| {
            let is_served = then.view.queued.get(waiting.key).is_some_and(|of| serves_all(&then.report, of));
            Some((waiting, queue.holders_for(waiting)?)).filter(|_| is_served)
        }) else {
            continue;
        };
        for key in holders {
            let Some(workload) = input.objects.workloads.get(key) else { continue };
            for answer in checks.iter_mut().filter(|answer| answer.workload == *key) {
                goes_back(answer, workload, gains, hold_of(key));
            }
        }
    }
    sent_back
}

/// Workloads that have quota and wait for a check of ours, of which something is not served.
fn unserved(planned: &PlannedRound) -> impl Iterator<Item = &Key> {
    let outcomes: BTreeMap<&RequestId, &Outcome> =
        planned.report.requests.iter().map(|report| (&report.id, &report.outcome)).collect();
    let cannot_be = move |id: &RequestId| match outcomes.get(id) {
        // Its slice is there, or nothing is known of it.
        Some(Outcome::Unserved { why: Why::BlockedElsewhere { .. } | Why::NoPlan { .. }, .. }) | None => {
            false
        }
        // It passes by itself, and soon.
        Some(Outcome::Unserved { why: Why::Held { nodes }, .. }) => {
            !nodes.iter().any(|(_, hold)| matches!(hold, Hold::Changing | Hold::CoolingDown { .. }))
        }
        Some(Outcome::Unserved { .. }) => true,
        Some(Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. }) => false,
    };
    planned.view.queued.iter().filter_map(move |(key, queued)| {
        // Work that runs, or has run, is never sent back.
        if queued.sets.iter().any(|set| set.placed > 0) || queued.is_admitted {
            return None;
        }
        let waits = queued.checks.iter().all(|check| !check.is_ready);
        let mut requests = queued.sets.iter().flat_map(|set| &set.requests);
        let is_one = waits && (queued.unplanned() > 0 || requests.any(&cannot_be));
        is_one.then_some(key)
    })
}

fn serves_all(report: &Report, queued: &QueuedWorkload) -> bool {
    let ids: BTreeSet<&RequestId> = queued.sets.iter().flat_map(|set| &set.requests).collect();
    let served = report.requests.iter().filter(|of| ids.contains(&of.id) && !is_unserved(of)).count();
    !ids.is_empty() && served == ids.len() && queued.unplanned() == 0
}

/// Whether somebody who is served now would not be served then, beside those who are sent back.
fn loses_anybody(now: &PlannedRound, then: &PlannedRound, queues: &[Queue<'_>]) -> bool {
    let holders = queues.iter().flat_map(|queue| &queue.holders);
    let leave: BTreeSet<&RequestId> = holders
        .filter_map(|holder| now.view.queued.get(holder.key))
        .flat_map(|queued| &queued.sets)
        .flat_map(|set| &set.requests)
        .collect();
    let served: BTreeSet<&RequestId> =
        then.report.requests.iter().filter(|report| !is_unserved(report)).map(|report| &report.id).collect();
    let mut stay =
        now.report.requests.iter().filter(|report| !is_unserved(report) && !leave.contains(&report.id));
    stay.any(|report| !served.contains(&report.id))
}

fn goes_back(answer: &mut CheckAnswer, workload: &Workload, gains: &Waiting<'_>, hold: SignedDuration) {
    let retries = workload.check(&answer.check).and_then(|check| check.retry_count).unwrap_or(0);
    let seconds = retry_after(retries);
    let (namespace, name) = gains.key;
    let message = format!(
        "its quota goes to {namespace}/{name}, which waits for it and can be served; it could not be served for \
         {hold:#}, and goes back into its queue; {}{}",
        answer.gist,
        in_vain::what_helps(retries)
    );
    answer.state = CheckState::Retry;
    answer.gist.clone_from(&message);
    answer.message = message;
    answer.updates.clear();
    answer.retry_after = Some(seconds);
}

/// The delay in seconds: twice as long each time.
fn retry_after(retries: i32) -> u32 {
    let doublings = u32::try_from(retries).unwrap_or(0).min(16);
    RETRY_AFTER.saturating_mul(1 << doublings).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_two_minutes() {
        let all: Vec<u32> = [-1, 0, 1, 2, 5, 6, 7, i32::MAX].into_iter().map(retry_after).collect();
        assert_eq!(all, [30, 30, 60, 120, 120, 120, 120, 120]);
    }
}
