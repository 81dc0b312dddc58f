//! The answer to each request for slices: the report's result and the state of
//! the node that will serve the request, in one sentence.

use std::collections::{BTreeMap, BTreeSet};

use planner::names::{GpuId, NodeName, RequestId};
use planner::report::{Offered, Outcome, RequestReport};
use rollout::{Advance, Outlook, Phase, StartBlocker};

use crate::input::Input;
use crate::planned_round::PlannedRound;
use crate::why_name::why_name;

/// Between what is waited for and when it was expected.
pub const EXPECTED_BY: &str = ", which was expected by ";

/// `1 node`, `3 nodes`.
#[must_use]
pub fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Whether a request gets nothing, neither now nor by the plan.
#[must_use]
pub const fn is_unserved(request: &RequestReport) -> bool {
    matches!(request.outcome, Outcome::Unserved { .. })
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who asks.
    pub id: RequestId,
    /// The sentence.
    pub text: String,
    /// The sentence without the estimate: a moment that moves is no news.
    pub gist: String,
    /// What the sentence comes to.
    pub kind: Kind,
    /// Why, in one word; empty when all goes as it should. Which of several
    /// nodes it will be, and who else is on the way, moves from round to round
    /// and is not what people wait for: another word is.
    pub topic: &'static str,
}

/// What an answer comes to, for who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The slices are there, and free.
    Free,
    /// They are being made, or will be.
    Coming,
    /// They were to be made, and it failed: somebody may have to look.
    Delayed,
    /// There are none for it.
    Unavailable,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Free, Self::Coming, Self::Delayed, Self::Unavailable];

    /// The word under which it is told, and what it means. None is told as a
    /// warning, because of what the dashboard makes of one (docs/adr/0014).
    #[must_use]
    pub const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Free => ("SliceFree", "slices for the request are free, after a wait"),
            Self::Coming => (
                "SliceComing",
                "a node is being changed for the request, or will be; the note says what the change waits for",
            ),
            Self::Delayed => (
                "SliceDelayed",
                "the change of the node failed, or the node may not be changed; the note says why",
            ),
            Self::Unavailable => {
                ("SliceUnavailable", "no layout serves the request; the note says why, and what would help")
            }
        }
    }
}

/// What somebody who asked is told now.
pub(crate) fn answer(
    request: &RequestReport,
    input: &Input<'_>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
    behind: &BTreeSet<RequestId>,
) -> Answer {
    let node = match &request.outcome {
        Outcome::ServedByPlan { node, .. } | Outcome::ServedNow { node, .. } => Some(node),
        Outcome::Unserved { .. } => None,
    };
    let advance = node.and_then(|node| advances.get(node));
    let progress = node
        .map(|node| advance.map_or_else(|| planned.progress_of(node), |a| a.progress.clone()))
        .unwrap_or_default();
    let outlook = advance.map(|advance| &advance.outlook);
    let is_late = matches!(outlook, Some(Outlook::Working { until, .. }) if *until <= input.now);
    let is_behind = behind.contains(&request.id);
    let on_its_way = node.is_some() && !progress.phase.can_return();
    let text = match &request.outcome {
        Outcome::ServedByPlan { node, .. } | Outcome::ServedNow { node, .. } if is_behind => format!(
            "planned: another node than {node}, which a pod of the same kind gets first, and its anti-affinity keeps it apart"
        ),
        // Its node is past the point of return: for the planner the slice is there.
        Outcome::ServedNow { node, gpus } if on_its_way => {
            let by_plan = Outcome::ServedByPlan { node: node.clone(), gpus: gpus.clone() };
            let estimate = estimate(input, &progress).filter(|_| !is_late);
            sentence(&by_plan, outlook, &Stand::Begun { ready: estimate }, is_late)
        }
        outcome => sentence(outcome, outlook, &Stand::Planned, is_late),
    };
    let text = match &request.broken {
        Some(broken) => format!("{broken}; {text}"),
        None => text,
    };
    let gist = text.split(", at about ").next().unwrap_or_default().to_owned();
    let (kind, topic) = match (&request.outcome, outlook) {
        (Outcome::Unserved { why, .. }, _) => (Kind::Unavailable, why_name(why)),
        _ if is_behind => (Kind::Coming, "Planned"),
        (Outcome::ServedNow { .. }, _) if !on_its_way => (Kind::Free, ""),
        (
            _,
            Some(Outlook::Holding(
                hold @ (StartBlocker::WriteRefused { .. } | StartBlocker::WriteUndone { .. }),
            )),
        ) => (Kind::Delayed, hold.reason().name),
        (_, Some(Outlook::Holding(hold))) => (Kind::Coming, hold.reason().name),
        (_, Some(Outlook::Failed(_))) => (Kind::Delayed, "Failed"),
        (_, Some(Outlook::Working { .. })) if is_late => (Kind::Delayed, "Late"),
        (_, Some(Outlook::Working { .. } | Outlook::Idle) | None) if on_its_way => (Kind::Coming, ""),
        (_, Some(Outlook::Working { .. } | Outlook::Idle) | None) => (Kind::Coming, "Planned"),
    };
    // That there are none is news by itself.
    let topic = match kind {
        Kind::Free | Kind::Coming | Kind::Delayed if request.broken.is_some() => "PromiseBroken",
        _ => topic,
    };
    Answer { id: request.id.clone(), text, gist, kind, topic }
}

/// When the slices of a node that goes through all of its change should be
/// ready.
fn estimate(input: &Input<'_>, progress: &rollout::Progress) -> Option<String> {
    let began = progress.target.as_ref().map(|_| progress.since.unwrap_or(input.now));
    let began = match progress.phase {
        Phase::Idle => input.now,
        _ => progress.target.as_ref().and_then(|t| t.mapped_at).or(began)?,
    };
    let change = input.settings.rollout.map_settle
        + rollout::fleet::PARK
        + rollout::fleet::OFFER
        + rollout::fleet::LABELS;
    // A moment that has passed is no promise.
    Some(began + change).filter(|ready| *ready > input.now).map(|ready| ready.strftime("%H:%M").to_string())
}

/// What can be said of a change.
enum Stand {
    /// It is planned. Until the node is past the point of return another plan
    /// may replace it, so no time is promised.
    Planned,
    /// The node is past the point of return: the slices come.
    Begun {
        /// When they should be ready, where that is known.
        ready: Option<String>,
    },
}

/// What is given of these GPUs; of a node of which no GPU is cut none is named.
fn in_words(gpus: &[(GpuId, String, Offered)]) -> String {
    match gpus {
        [] => "enough for it".to_owned(),
        gpus => planner::words::counted(gpus.iter().map(|(_, _, profile)| profile)),
    }
}

fn sentence(outcome: &Outcome, outlook: Option<&Outlook>, stand: &Stand, is_late: bool) -> String {
    match outcome {
        Outcome::ServedByPlan { node, gpus } => {
            let slices = in_words(gpus);
            match outlook {
                Some(Outlook::Holding(
                    hold @ (StartBlocker::WriteRefused { .. }
                    | StartBlocker::WriteUndone { .. }
                    | StartBlocker::Settling { .. }),
                )) => {
                    format!("{node} has to change for it ({slices}), but it cannot be changed: {hold}")
                }
                Some(Outlook::Holding(hold)) => {
                    format!("{node} has to change for it ({slices}), but does not start yet: {hold}")
                }
                Some(Outlook::Failed(failure)) => {
                    format!("{node} was changed for it and failed: {}", failure.why)
                }
                Some(Outlook::Working { waits_for, until }) if is_late => format!(
                    "{node} is changed for it ({slices}), but still waits for {waits_for}{EXPECTED_BY}{until}"
                ),
                Some(Outlook::Working { .. } | Outlook::Idle) | None => match stand {
                    Stand::Planned => format!(
                        "planned: {node} is to be changed for it ({slices}); a time is given once its slices are being made"
                    ),
                    Stand::Begun { ready } => {
                        let when = ready.as_ref().map(|e| format!(", at about {e}")).unwrap_or_default();
                        format!("{node} is changed for it: {slices} will be ready there{when}")
                    }
                },
            }
        }
        Outcome::ServedNow { node, gpus } => {
            format!("{} is free on {node}", in_words(gpus))
        }
        unserved @ Outcome::Unserved { .. } => unserved.to_string(),
    }
}
