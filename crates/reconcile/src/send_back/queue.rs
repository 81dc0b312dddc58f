//! A queue of Kueue: who holds quota in it, who waits for quota, and who gets what is given back.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::foreign::workload::PodSetAssignment;
use api::foreign::{ClusterQueue, Workload};
use jiff::Timestamp;
use observe::objects::{Key, Objects};
use observe::quota;

use super::in_vain;
use super::room::Room;

/// Of so many that wait at most it is asked whether they can be served, the
/// first that Kueue would look at.
const MOST_WAITING: usize = 32;

/// A workload that holds quota and is not served.
#[derive(Clone)]
pub(super) struct Holder<'a> {
    pub key: &'a Key,
    pub workload: &'a Workload,
    holds: Room,
    /// Since when it has quota that Kueue gave back to it at once.
    had_back: Option<Timestamp>,
}

/// A workload that waits for quota.
#[derive(Clone)]
pub(super) struct Waiting<'a> {
    pub key: &'a Key,
    pub workload: &'a Workload,
}

/// A queue with holders who are not served, and with others who wait for quota.
pub(super) struct Queue<'a> {
    objects: &'a Objects,
    object: &'a ClusterQueue,
    /// The first to be sent back first: the lowest priority, then the youngest.
    pub holders: Vec<Holder<'a>>,
    /// As Kueue looks at them: the highest priority, then the oldest.
    waiting: Vec<Waiting<'a>>,
    left: Room,
    /// Whether one was sent back whose quota Kueue has not taken yet.
    gives_already: bool,
}

/// Priority and age, by which Kueue orders the workloads of a queue.
fn rank(workload: &Workload) -> (i32, Option<Timestamp>) {
    let created = workload.metadata.creation_timestamp.as_ref().map(|at| at.0);
    (workload.spec.priority.unwrap_or(0), created)
}

/// Workloads that hold quota of a queue, the lowest priority first, and of each priority the oldest.
struct InOrder<'a>(Vec<(&'a Key, &'a Workload)>);

impl<'a> InOrder<'a> {
    fn new(mut all: Vec<(&'a Key, &'a Workload)>) -> Self {
        all.sort_by_key(|(_, workload)| rank(workload));
        Self(all)
    }

    /// Those of the others that would lose their quota to this one first: one of the lowest priority of all, and the
    /// youngest of those that are not above it. Whoever takes nothing from these takes nothing from anybody, and with
    /// thousands of workloads nobody has time to ask each about each.
    fn weakest_against(&self, key: &Key, taker: &Workload) -> impl Iterator<Item = &'a Workload> {
        let Self(all) = self;
        let not_above = all.partition_point(|(_, other)| rank(other).0 <= rank(taker).0);
        let lowest = all.iter().find(|(other, _)| *other != key);
        let youngest = all[..not_above].iter().rev().find(|(other, _)| *other != key);
        lowest.into_iter().chain(youngest).map(|(_, workload)| *workload)
    }
}

/// The queues of these holders that admit somebody, and in which others wait.
pub(super) fn with_holders<'a>(
    objects: &'a Objects,
    unserved: &'a BTreeMap<Key, Timestamp>,
    now: Timestamp,
) -> Vec<Queue<'a>> {
    let mut queues: BTreeMap<&str, Queue<'a>> = BTreeMap::new();
    for key in unserved.keys() {
        let Some(workload) = objects.workloads.get(key) else { continue };
        let name = quota::cluster_queue(objects, key, workload);
        let Some(object) = name.and_then(|name| objects.cluster_queues.get(name)) else { continue };
        let (Some(name), true) = (name, admits(object)) else { continue };
        let queue = queues.entry(name).or_insert_with(|| Queue {
            objects,
            object,
            holders: Vec::new(),
            waiting: Vec::new(),
            left: Room::left(object),
            gives_already: false,
        });
        let had_back = in_vain::had_back_at_once(objects, workload);
        queue.holders.push(Holder { key, workload, holds: Room::held(workload), had_back });
    }
    if queues.is_empty() {
        return Vec::new();
    }
    for (key, workload) in &objects.workloads {
        // Of thousands, most run, and nobody has to look for their queues.
        let (is_going, waits) = (is_going(objects, workload), waits(objects, key, workload, now));
        if !is_going && !waits {
            continue;
        }
        let name = quota::cluster_queue(objects, key, workload);
        let Some(queue) = name.and_then(|name| queues.get_mut(name)) else { continue };
        queue.gives_already |= is_going;
        if waits {
            queue.waiting.push(Waiting { key, workload });
        }
    }
    for queue in queues.values_mut() {
        queue.holders.sort_by_key(|holder| {
            let (priority, created) = rank(holder.workload);
            (priority, Reverse(created), holder.key)
        });
        queue.waiting.sort_by_key(|waiting| {
            let (priority, created) = rank(waiting.workload);
            (Reverse(priority), created, waiting.key)
        });
        queue.keep_who_would_come_back_by_force();
    }
    queues.into_values().filter(|queue| !queue.waiting.is_empty() && !queue.gives_already).collect()
}

/// Whether a queue gives quota at all.
fn admits(queue: &ClusterQueue) -> bool {
    let is_inactive = queue.status.conditions.iter().any(|c| c.type_ == "Active" && c.status == "False");
    !is_inactive && !is_stopped(queue.spec.stop_policy.as_deref())
}

fn is_stopped(policy: Option<&str>) -> bool {
    policy.is_some_and(|policy| !matches!(policy, "" | "None"))
}

/// Whether a workload still has quota that it is about to lose, by our answer.
fn is_going(objects: &Objects, workload: &Workload) -> bool {
    let ours =
        |name: &str| objects.admission_checks.get(name).is_some_and(api::foreign::AdmissionCheck::is_ours);
    let mut checks = workload.status.admission_checks.iter();
    checks.any(|check| check.state == "Retry" && ours(&check.name))
        && workload.is("QuotaReserved")
        && !workload.is("Finished")
}

/// Whether a workload waits for quota now, as Kueue looks at it.
fn waits(objects: &Objects, key: &Key, workload: &Workload, now: Timestamp) -> bool {
    if workload.is("QuotaReserved") || workload.is("Finished") {
        return false;
    }
    let local = objects.local_queues.get(&(key.0.clone(), workload.spec.queue_name.clone()));
    let is_held = local.is_none_or(|queue| is_stopped(queue.spec.stop_policy.as_deref()));
    let pauses = workload.status.requeue_state.as_ref().and_then(|state| state.requeue_at.as_ref());
    workload.spec.active != Some(false)
        && workload.metadata.deletion_timestamp.is_none()
        && !is_held
        && pauses.is_none_or(|until| until.0 <= now)
}

/// Whether Kueue gave quota back to a holder at once although this one waited for it.
fn passed_over(holder: &Holder<'_>, waiting: &Waiting<'_>) -> bool {
    holder.had_back.is_some_and(|had_back| in_vain::waits_since_before(waiting.workload, had_back))
}

impl<'a> Queue<'a> {
    /// The same, with some of its holders.
    pub(super) fn with_holders_only(mut self, wanted: impl Fn(&Key) -> bool) -> Self {
        self.holders.retain(|holder| wanted(holder.key));
        self
    }

    /// How workloads of this queue may take quota from each other.
    fn preemption(&self) -> &str {
        let policy = self.object.spec.preemption.as_ref().and_then(|of| of.within_cluster_queue.as_deref());
        policy.unwrap_or("Never")
    }

    /// Whether they never may.
    fn never_preempts(&self) -> bool {
        matches!(self.preemption(), "" | "Never")
    }

    /// Whether one workload may take the quota of another in this queue.
    fn preempts(&self, taker: &Workload, from: &Workload) -> bool {
        let (mine, theirs) = (rank(taker), rank(from));
        match self.preemption() {
            "" | "Never" => false,
            "LowerPriority" => theirs.0 < mine.0,
            // What is not known may be worse.
            _ => theirs.0 < mine.0 || theirs.0 == mine.0 && theirs.1 >= mine.1,
        }
    }

    /// Who may take quota from others stays: it would come back at their cost,
    /// and their pods may run by then.
    fn keep_who_would_come_back_by_force(&mut self) {
        let objects = self.objects;
        let has_quota_here = |key: &Key, workload: &Workload| {
            workload.is("QuotaReserved")
                && !workload.is("Finished")
                && quota::cluster_queue(objects, key, workload) == self.object.metadata.name.as_deref()
        };
        // Nobody has to be sorted for that.
        if self.never_preempts() {
            return;
        }
        let all = objects.workloads.iter().map(|(key, workload)| (key, workload.as_ref()));
        let all = InOrder::new(all.filter(|(key, workload)| has_quota_here(key, workload)).collect());
        let mut holders = std::mem::take(&mut self.holders);
        holders.retain(|holder| {
            let mut weakest = all.weakest_against(holder.key, holder.workload);
            !weakest.any(|other| self.preempts(holder.workload, other))
        });
        self.holders = holders;
    }

    /// Who gets quota if these holders give theirs back, and would not get it
    /// otherwise; with the flavors, in the order in which Kueue gives it.
    pub(super) fn gains(&self, holders: &[Holder<'a>]) -> Vec<(&Waiting<'a>, Vec<PodSetAssignment>)> {
        let strict = self.object.is_strict();
        let mut room = holders.iter().fold(self.left.clone(), |room, holder| room.and(&holder.holds));
        let mut gains = Vec::new();
        for waiting in &self.waiting {
            let needs_it = self.left.clone().take(self.objects, self.object, waiting.workload).is_none();
            let taken = room.clone().take(self.objects, self.object, waiting.workload);
            // What grows asks for what is new of it, and how much that is Kueue knows.
            match taken.filter(|_| needs_it && waiting.workload.replaces().is_none()) {
                Some(assignments) => {
                    let _ = room.take(self.objects, self.object, waiting.workload);
                    gains.push((waiting, assignments));
                }
                // Nobody passes it, whatever it waits for.
                None if strict => break,
                None => {}
            }
            if gains.len() == MOST_WAITING {
                break;
            }
        }
        gains
    }

    /// Whether somebody gains for whom one of the holders may go: else no plan has to be made. Who goes for whom is decided
    /// after it.
    pub(super) fn has_somebody_to_gain(&self) -> bool {
        let gains = self.gains(&self.holders);
        gains.iter().any(|(waiting, _)| self.holders.iter().any(|holder| self.may_go_for(holder, waiting)))
    }

    /// Those who keep their quota although others would gain by it, and how often in a row Kueue gave it back to them.
    pub(super) fn in_vain(&self) -> Vec<(&'a Key, u32)> {
        // Mostly nobody had, and nobody has to count amounts for that.
        if self.holders.iter().all(|holder| holder.had_back.is_none()) {
            return Vec::new();
        }
        let gains = self.gains(&self.holders);
        let in_vain = |holder: &&Holder<'a>| gains.iter().any(|(waiting, _)| passed_over(holder, waiting));
        let found = self.holders.iter().filter(in_vain);
        found.map(|holder| (holder.key, in_vain::retries(self.objects, holder.workload))).collect()
    }

    /// Whether a holder may be sent back for one who waits: neither would it take the quota by force, nor did Kueue give it
    /// back to it while that one waited already.
    fn may_go_for(&self, holder: &Holder<'a>, waiting: &Waiting<'a>) -> bool {
        !self.preempts(holder.workload, waiting.workload) && !passed_over(holder, waiting)
    }

    /// Whose quota this workload needs: no more of them than that.
    pub(super) fn holders_for(&self, waiting: &Waiting<'a>) -> Option<Vec<&'a Key>> {
        let may_go = self.holders.iter().filter(|holder| self.may_go_for(holder, waiting));
        let mut goes: Vec<Holder<'a>> = Vec::new();
        let gets = |goes: &[Holder<'a>]| self.gains(goes).iter().any(|(gains, _)| gains.key == waiting.key);
        for holder in may_go {
            goes.push(holder.clone());
            if gets(&goes) {
                break;
            }
        }
        if !gets(&goes) {
            return None;
        }
        // What of it is not needed after all is not taken.
        for holder in goes.clone() {
            let without: Vec<Holder<'a>> = goes.iter().filter(|of| of.key != holder.key).cloned().collect();
            if gets(&without) {
                goes = without;
            }
        }
        Some(goes.iter().map(|holder| holder.key).collect())
    }
}

#[cfg(test)]
mod tests {
    use api::foreign::queue::Preemption;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    /// Few priorities and few ages, so that many are equal.
    fn workload(number: usize) -> (Key, Workload) {
        let mut workload = Workload::default();
        workload.spec.priority = Some(i32::try_from(number % 3).expect("a small number"));
        let age = i64::try_from(number / 3 % 3).expect("a small number");
        workload.metadata.creation_timestamp =
            (age > 0).then(|| Time(Timestamp::from_second(age).expect("a time")));
        ((String::new(), number.to_string()), workload)
    }

    /// What is asked of two of the others is asked of all of them, by definition.
    #[test]
    fn whoever_takes_nothing_from_the_weakest_takes_nothing_from_anybody() {
        let workloads: Vec<(Key, Workload)> = (0..12).map(workload).collect();
        let objects = Objects::default();
        for policy in ["Never", "LowerPriority", "LowerOrNewerEqualPriority", "of tomorrow"] {
            let mut object = ClusterQueue::default();
            object.spec.preemption = Some(Preemption { within_cluster_queue: Some(policy.to_owned()) });
            let queue = Queue {
                objects: &objects,
                object: &object,
                holders: Vec::new(),
                waiting: Vec::new(),
                left: Room::left(&object),
                gives_already: false,
            };
            // Every subset of up to four of them.
            for subset in (0_u32..1 << 12).filter(|subset| (1..=4).contains(&subset.count_ones())) {
                let here: Vec<(&Key, &Workload)> = workloads
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| subset & (1 << n) != 0)
                    .map(|(_, (key, workload))| (key, workload))
                    .collect();
                let all = InOrder::new(here.clone());
                for (key, taker) in &here {
                    let of_all = here.iter().any(|(other, from)| other != key && queue.preempts(taker, from));
                    let of_two = all.weakest_against(key, taker).any(|from| queue.preempts(taker, from));
                    assert_eq!(of_two, of_all, "{policy} {key:?} {here:?}");
                }
            }
        }
    }
}
