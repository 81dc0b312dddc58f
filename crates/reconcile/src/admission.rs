//! The answers of our admission checks for the workloads in Kueue's queues: whether the slices of a
//! workload exist, and on which node its pods must run.
//!
//! - `Pending` while they are planned, being created, or waiting for a temporary condition;
//! - `Ready` when they are free: the pods of a set that the plan puts on one
//!   node are kept to that node;
//! - `Retry` when ready slices are lost before any pod has a node, and where somebody else could use the
//!   quota (`send_back`): Kueue puts the workload back into its queue, and its quota is free in the meantime;
//! - `Rejected`, which only an administrator can undo, for what no layout of
//!   any GPU could ever serve, as the workload alone shows.
//!
//! There is no answer while Kueue evicts a workload, and no further answer once its pods have their nodes.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::Workload;
use api::foreign::workload::PodSetUpdate;
use mig::Catalog;
use observe::host::Host;
use observe::names::HOSTNAME;
use observe::objects::Key;
use observe::pods;
use observe::requests::{QueuedSet, QueuedWorkload};
use planner::demand::Request;
use planner::inventory::Inventory;
use planner::names::{NodeName, RequestId};
use planner::report::{Offered, Outcome, RequestReport, Why};

use crate::answers::{Answer, Kind, plural};
use crate::input::Input;
use crate::planned_round::PlannedRound;

/// How many seconds Kueue waits before it gives quota again to a workload that
/// it took back. Long enough for somebody else to be admitted, short enough for
/// a node that is back.
pub(crate) const RETRY_AFTER: u32 = 30;

/// Why nothing is planned for some pods of a workload.
const WHY_UNPLANNED: &str = "of the queued workloads of a namespace, as many pods are planned for at a time as the fleet can have slices";

/// What Kueue takes as the state of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckState {
    /// The slices are not there yet.
    Pending,
    /// They are: the workload may start.
    Ready,
    /// They are lost: the workload goes back into its queue.
    Retry,
    /// Nothing can ever serve it: the workload is deactivated.
    Rejected,
}

impl CheckState {
    /// The word that Kueue reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Ready => "Ready",
            Self::Retry => "Retry",
            Self::Rejected => "Rejected",
        }
    }
}

/// What a check is to say of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckAnswer {
    /// The workload.
    pub workload: Key,
    /// The check.
    pub check: String,
    /// The answer.
    pub state: CheckState,
    /// Why, in a sentence.
    pub message: String,
    /// The sentence without the estimate: a moment that moves is no news.
    pub gist: String,
    /// Where the pods of each set are to run, with `Ready`.
    pub updates: Vec<PodSetUpdate>,
    /// How long Kueue is to wait before it tries again, with `Retry`; seconds.
    pub retry_after: Option<u32>,
}

/// An answer, whatever the check.
#[derive(Debug)]
struct Verdict {
    state: CheckState,
    message: String,
    /// The message without what moves: an estimate is no news.
    gist: String,
    updates: Vec<PodSetUpdate>,
}

impl Verdict {
    fn plain(state: CheckState, message: String) -> Self {
        Self { state, gist: message.clone(), message, updates: Vec::new() }
    }
}

/// What our checks are to say of all workloads, in their order; of one that is
/// `Ready` only that this is lost. While the plan breaks a rule, only what asks for no slices gets an answer.
pub(crate) fn check_answers(
    input: &Input<'_>,
    planned: &PlannedRound,
    answers: &[Answer],
) -> Vec<CheckAnswer> {
    let settles = input.obstacles.settling(input.now).is_some();
    if !input.settings.answers_checks || settles {
        return Vec::new();
    }
    let is_sound = planned.plan.checked().is_some();
    let facts = Facts {
        hosts: &planned.view.hosts,
        inventory: &planned.view.inventory,
        requests: planned.view.requests.iter().map(|request| (&request.id, request)).collect(),
        reports: planned.report.requests.iter().map(|report| (&report.id, report)).collect(),
        answers: answers.iter().map(|answer| (&answer.id, answer)).collect(),
        has_unknown_gpus: planned.view.inventory.nodes.values().any(|node| node.gpus.is_empty()),
    };
    let mut due = Vec::new();
    for (key, queued) in planned.view.queued.iter() {
        for check in &queued.checks {
            let verdict = match check.is_ready {
                // Kueue would end its pods that run for the sake of those that do not. Those wait, and are told why.
                true if queued.may_run_unseen || queued.sets.iter().any(|set| set.running > 0) => None,
                true if is_sound => facts.lost(queued),
                // What waits for nothing has no part in the plan.
                false if waits_for_nothing(queued) => {
                    input.objects.workloads.get(key).and_then(|workload| passes(workload, queued, is_sound))
                }
                false if is_sound => facts.verdict(queued),
                _ => None,
            };
            due.extend(verdict.map(|verdict| CheckAnswer {
                workload: key.clone(),
                check: check.name.clone(),
                state: verdict.state,
                message: verdict.message,
                gist: verdict.gist,
                updates: verdict.updates,
                retry_after: (verdict.state == CheckState::Retry).then_some(RETRY_AFTER),
            }));
        }
    }
    due
}

/// Whether none of the pods of a workload waits for a slice.
fn waits_for_nothing(queued: &QueuedWorkload) -> bool {
    queued.unplanned() == 0 && queued.sets.iter().all(|set| set.requests.is_empty())
}

/// The answer to a workload that waits for nothing. Of one that asks for GPUs there is none while the plan breaks a rule.
fn passes(workload: &Workload, queued: &QueuedWorkload, is_sound: bool) -> Option<Verdict> {
    let asks = !pods::resources_of_workload(workload).is_empty();
    let why = match asks {
        false => "it requests no GPU slices",
        true if !is_sound => return None,
        // A check that comes to a queue later is asked about what runs already.
        true if queued.sets.iter().any(|set| set.placed > 0) => "its pods have their nodes already",
        true => "none of its pods waits for a GPU slice",
    };
    Some(Verdict::plain(CheckState::Ready, format!("{why}, so there is nothing to wait for")))
}

/// A message without the time at which something should be ready.
#[must_use]
pub fn gist(message: &str) -> &str {
    message.split(", at about ").next().unwrap_or(message)
}

/// What is known of the requests.
struct Facts<'a> {
    hosts: &'a BTreeMap<NodeName, Host>,
    inventory: &'a Inventory,
    requests: BTreeMap<&'a RequestId, &'a Request>,
    reports: BTreeMap<&'a RequestId, &'a RequestReport>,
    answers: BTreeMap<&'a RequestId, &'a Answer>,
    /// Whether a node has GPUs of which it is not known what they can have.
    has_unknown_gpus: bool,
}

impl Facts<'_> {
    /// The answer to a workload that waits for slices; `None` when there is none yet.
    fn verdict(&self, queued: &QueuedWorkload) -> Option<Verdict> {
        let requests: Vec<&RequestId> = queued.sets.iter().flat_map(|set| &set.requests).collect();
        let unplanned = queued.unplanned();
        let answers: Option<Vec<&Answer>> =
            requests.iter().map(|id| self.answers.get(*id).copied()).collect();
        let answers = answers?;
        let mut hopeless =
            queued.sets.iter().flat_map(|set| set.requests.iter().filter_map(|id| self.hopeless(set, id)));
        if let Some(why) = hopeless.next() {
            return Some(Verdict::plain(CheckState::Rejected, why));
        }
        let waiting: Vec<&&Answer> = answers.iter().filter(|answer| answer.kind != Kind::Free).collect();
        let prefix = match (answers.len() + unplanned, answers.len() - waiting.len()) {
            (1, _) => String::new(),
            (all, free) => format!("slices for {free} of {} are free; ", plural(all, "pod")),
        };
        // Of several that wait the one is told that waits for the most.
        let Some(first) = waiting.iter().max_by_key(|answer| answer.kind) else {
            return Some(match unplanned {
                0 => self.ready(queued),
                n => Verdict::plain(
                    CheckState::Pending,
                    format!("{prefix}the other {n} are not planned for: {WHY_UNPLANNED}"),
                ),
            });
        };
        Some(Verdict {
            state: CheckState::Pending,
            message: format!("{prefix}{}", first.text),
            gist: format!("{prefix}{}", first.gist),
            updates: Vec::new(),
        })
    }

    /// Why no layout could ever serve a request, if that is so. What depends on
    /// others (a namespace that says too much, a node that is not known) passes,
    /// and nobody but an administrator takes a rejection back.
    fn hopeless(&self, set: &QueuedSet, id: &RequestId) -> Option<String> {
        let is_hopeless = match &self.reports.get(id)?.outcome {
            Outcome::Unserved { why: Why::Refused { .. }, .. } => set.is_misspelt,
            // Not of these nodes, nor of any that could be added.
            Outcome::Unserved {
                why: Why::NoSuchProfile { profile } | Why::NeverCut { profile, .. }, ..
            } => {
                let mut models = Catalog::builtin().models().iter();
                !self.has_unknown_gpus
                    && !models.any(|model| model.resolve_profile(&profile.to_string()).is_ok())
            }
            _ => false,
        };
        self.answers.get(id).filter(|_| is_hopeless).map(|answer| answer.text.clone())
    }

    fn ready(&self, queued: &QueuedWorkload) -> Verdict {
        let kept = self.kept_to_nodes(queued);
        let updates: Vec<PodSetUpdate> = (queued.sets.iter().zip(kept))
            .filter_map(|(set, kept)| kept.or_else(|| self.keep_to_a_part(set)))
            .collect();
        let nodes: BTreeSet<&NodeName> =
            queued.sets.iter().flat_map(|set| &set.requests).filter_map(|id| self.node_of(id)).collect();
        let names: Vec<&str> = nodes.iter().map(|node| node.0.as_str()).collect();
        let message = format!("its slices are free on {}", names.join(", "));
        Verdict { updates, ..Verdict::plain(CheckState::Ready, message) }
    }

    /// What keeps the pods of a set to the node that the plan has for them:
    /// one selector holds for all of them, so only where it is one node, nobody
    /// has chosen another, and the label tells that node from all others.
    fn keep_to_a_node(&self, set: &QueuedSet) -> Option<PodSetUpdate> {
        if set.is_kept_to_a_node || set.placed > 0 {
            return None;
        }
        let nodes: BTreeSet<&NodeName> = set.requests.iter().filter_map(|id| self.node_of(id)).collect();
        let mut nodes = nodes.into_iter();
        let (node, None) = (nodes.next()?, nodes.next()) else { return None };
        let label = self.hosts.get(node)?.hostname.clone()?;
        let node_selector = [(HOSTNAME.to_owned(), label)].into();
        Some(PodSetUpdate { name: set.name.clone(), node_selector, tolerations: Vec::new() })
    }

    /// What keeps each set to a node. A set that shares its kind of slices with one that is kept to no node is not kept
    /// either: the pods of that one could fill the node, and those that are kept to it would wait there for good, beside
    /// a place on another node that both could have.
    fn kept_to_nodes(&self, queued: &QueuedWorkload) -> Vec<Option<PodSetUpdate>> {
        let mut kept: Vec<Option<PodSetUpdate>> =
            queued.sets.iter().map(|set| self.keep_to_a_node(set)).collect();
        let wants: Vec<BTreeSet<(Offered, u32)>> = queued.sets.iter().map(|set| self.wants(set)).collect();
        let mut loose: Vec<usize> =
            (0..kept.len()).filter(|i| kept[*i].is_none() && !queued.sets[*i].is_kept_to_a_node).collect();
        while let Some(other) = loose.pop() {
            for i in 0..kept.len() {
                if kept[i].is_some() && may_take_the_place(&wants[other], &wants[i]) {
                    kept[i] = None;
                    loose.push(i);
                }
            }
        }
        kept
    }

    /// What the pods of a set ask for.
    fn wants(&self, set: &QueuedSet) -> BTreeSet<(Offered, u32)> {
        let requests = set.requests.iter().filter_map(|id| self.requests.get(id));
        requests.flat_map(|request| request.wants()).collect()
    }

    /// What keeps pods that have to be in one part of the cluster to the part that the plan has for them. The scheduler
    /// would put the first of them where a slice is free, and all others beside it.
    fn keep_to_a_part(&self, set: &QueuedSet) -> Option<PodSetUpdate> {
        if set.placed > 0 || set.one_of_each.is_empty() {
            return None;
        }
        let nodes: BTreeSet<&NodeName> = set.requests.iter().filter_map(|id| self.node_of(id)).collect();
        let value = |label: &String| {
            let of = nodes.iter().map(|node| self.inventory.nodes.get(node)?.labels.get(label));
            let of: BTreeSet<&String> = of.collect::<Option<_>>()?;
            let mut of = of.into_iter();
            let (value, None) = (of.next()?, of.next()) else { return None };
            Some((label.clone(), value.clone()))
        };
        let node_selector: BTreeMap<String, String> = set.one_of_each.iter().filter_map(value).collect();
        let update = PodSetUpdate {
            name: set.name.clone(),
            node_selector: node_selector.into(),
            tolerations: Vec::new(),
        };
        (!update.node_selector.is_empty()).then_some(update)
    }

    fn node_of(&self, id: &RequestId) -> Option<&NodeName> {
        match &self.reports.get(id)?.outcome {
            Outcome::ServedNow { node, .. } | Outcome::ServedByPlan { node, .. } => Some(node),
            Outcome::Unserved { .. } => None,
        }
    }

    /// Whether what a workload was promised is lost before all of its pods have
    /// a node. A slice that somebody else got is no loss while another one is
    /// made for it. Where something else keeps a pod waiting, the slice is there.
    fn lost(&self, queued: &QueuedWorkload) -> Option<Verdict> {
        let requests = queued.sets.iter().flat_map(|set| &set.requests);
        let lost = requests.filter_map(|id| match &self.reports.get(id)?.outcome {
            Outcome::Unserved { why: Why::BlockedElsewhere { .. } | Why::NoPlan { .. }, .. } => None,
            Outcome::Unserved { .. } => self.answers.get(id),
            Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. } => None,
        });
        let answer = lost.into_iter().next()?;
        let message = format!("its slices were lost before its pods got a node; {}", answer.text);
        Some(Verdict::plain(CheckState::Retry, message))
    }
}

/// Whether a pod that wants this fits where one that wants that would.
fn may_take_the_place(this: &BTreeSet<(Offered, u32)>, that: &BTreeSet<(Offered, u32)>) -> bool {
    this.iter().any(|(offered, n)| that.iter().any(|(of, m)| of == offered && n <= m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_that_kueue_reads() {
        let all = [CheckState::Pending, CheckState::Ready, CheckState::Retry, CheckState::Rejected];
        assert_eq!(all.map(CheckState::name), ["Pending", "Ready", "Retry", "Rejected"]);
    }
}
