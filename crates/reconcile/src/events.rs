//! Events on policies, nodes, workbenches and pods: on transitions only. What
//! was before is read from the statuses; what was said to people is handed
//! from round to round, so that a crash repeats a sentence at most once.

use std::collections::BTreeMap;

use api::condition::kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use planner::names::{NodeName, RequestId};
use planner::report::Outcome;
use rollout::{Phase, Progress, Rung};

use crate::answers::Answer;
use crate::input::Input;
use crate::policy_status::why_name;
use crate::round::Round;

/// An event to be sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventDraft {
    /// What it is about.
    pub regarding: Regarding,
    /// Whether somebody should look.
    pub severity: EventSeverity,
    /// Why, in one word.
    pub reason: String,
    /// What was done, in one word.
    pub action: &'static str,
    /// The sentence.
    pub note: String,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventSeverity {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventSeverity {
    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    /// Its version, with the group.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; empty for kinds without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Regarding {
    fn new(api_version: &'static str, kind: &'static str, metadata: &ObjectMeta) -> Self {
        Self {
            api_version,
            kind,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

/// How long a note may be: the API server refuses more than 1,024 bytes.
const LONGEST_NOTE: usize = 1000;

/// Every event of a round.
pub(crate) fn events(input: &Input<'_>, round: &Round) -> Vec<EventDraft> {
    let mut all = of_policies(input, round);
    all.extend(of_nodes(input, round));
    all.extend(of_requests(input, round));
    for event in &mut all {
        shorten(&mut event.note);
    }
    all
}

fn shorten(note: &mut String) {
    if note.len() > LONGEST_NOTE {
        let mut end = LONGEST_NOTE;
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push_str(" ...");
    }
}

/// A condition that came, or has another status or reason than before.
fn of_policies(input: &Input<'_>, round: &Round) -> Vec<EventDraft> {
    let mut events = Vec::new();
    for (name, status) in &round.policies {
        let Some(object) = input.objects.policies.get(&name.0) else { continue };
        let before = object.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
        for condition in status.conditions.iter().filter(|c| is_news(c, before)) {
            let well = condition.status == "True" && !api::condition::is_abnormal(&condition.type_);
            let waits = condition.type_ == kind::READY;
            events.push(EventDraft {
                regarding: Regarding::new(api::API_VERSION, "GpuPartitionPolicy", &object.metadata),
                severity: if well || waits { EventSeverity::Normal } else { EventSeverity::Warning },
                reason: condition.reason.clone(),
                action: "Plan",
                note: condition.message.clone(),
            });
        }
    }
    events
}

/// `Reconciling` says the same as `Ready`, and that everything is served is
/// news only after it was not.
fn is_news(condition: &Condition, before: &[Condition]) -> bool {
    let old = before.iter().find(|old| old.type_ == condition.type_);
    let same = old.is_some_and(|old| old.status == condition.status && old.reason == condition.reason);
    let dull = condition.type_ == kind::RECONCILING
        || condition.status == "Unknown"
        || (condition.status == "True" && old.is_none() && !api::condition::is_abnormal(&condition.type_));
    !same && !dull
}

/// A rollout that went a step further.
fn of_nodes(input: &Input<'_>, round: &Round) -> Vec<EventDraft> {
    let mut events = Vec::new();
    for (name, node) in &round.nodes {
        let (before, next) = (&node.before, &node.advance.progress);
        let Some(note) = step_taken(before, next) else { continue };
        let Some(object) = input.objects.nodes.get(&name.0) else { continue };
        events.push(EventDraft {
            regarding: Regarding::new("v1", "Node", &object.metadata),
            severity: match next.phase {
                Phase::Failed => EventSeverity::Warning,
                _ if next.last_error.is_some() && next.last_error != before.last_error => {
                    EventSeverity::Warning
                }
                _ => EventSeverity::Normal,
            },
            reason: format!("Rollout{:?}", next.phase),
            action: "Rollout",
            note,
        });
    }
    events
}

/// What a node does from now on, as a sentence without its subject; nothing
/// when it goes on with what it did.
#[must_use]
pub fn step_taken(before: &Progress, next: &Progress) -> Option<String> {
    if before.phase == next.phase {
        return None;
    }
    let trouble = next.last_error.as_ref().filter(|_| before.last_error != next.last_error);
    let text = match next.phase {
        Phase::Idle => match trouble {
            Some(why) => format!("gives up: {why}"),
            None => "is done".to_owned(),
        },
        Phase::Mapping => "its layout goes into the map".to_owned(),
        Phase::Cordoning => "is cordoned".to_owned(),
        Phase::Quiescing => "waits until no pod can lose a slice".to_owned(),
        Phase::Changing => "the label is written; MIG manager takes over".to_owned(),
        Phase::Verifying => "MIG manager says success; is it schedulable?".to_owned(),
        Phase::Healing => "MIG manager's pod is replaced".to_owned(),
        Phase::Relabelling => match next.target.as_ref().map(|t| t.rung) {
            Some(Rung::RollBack) => "goes back to the last verified layout".to_owned(),
            _ => "the same layout is tried under another name".to_owned(),
        },
        Phase::Releasing => "the slices are schedulable: verified; it is uncordoned".to_owned(),
        Phase::Retreating => "nothing was changed: it is uncordoned".to_owned(),
        Phase::Failed => match &next.failed {
            Some(why) => format!("FAILED: {why}; it stays cordoned, and a human has to look"),
            None => "FAILED".to_owned(),
        },
        Phase::Released => "was released by a human".to_owned(),
    };
    Some(match trouble {
        Some(why) if !matches!(next.phase, Phase::Idle | Phase::Failed) => format!("{why}; {text}"),
        _ => text,
    })
}

/// What people who asked were not told yet, on the workbench and on the pod.
fn of_requests(input: &Input<'_>, round: &Round) -> Vec<EventDraft> {
    let news: Vec<&Answer> =
        round.answers.iter().filter(|a| input.told.get(&a.id) != Some(&a.gist)).collect();
    if news.is_empty() {
        return Vec::new();
    }
    let pods = observe::requests::speakers(input.objects);
    let mut events = Vec::new();
    for answer in news {
        let outcome = round.thought.report.requests.iter().find(|r| r.id == answer.id).map(|r| &r.outcome);
        let (severity, reason) = match outcome {
            Some(Outcome::Unserved { why, .. }) => (EventSeverity::Warning, why_name(why)),
            Some(Outcome::ServedByPlan { .. }) => (EventSeverity::Normal, "SlicePlanned"),
            Some(Outcome::ServedNow { .. }) | None => (EventSeverity::Normal, "SliceFree"),
        };
        let key = (answer.id.namespace.clone(), answer.id.name.clone());
        let notebook = input.objects.notebooks.get(&key).filter(|_| answer.id.kind == "Notebook");
        let about = notebook
            .map(|n| Regarding::new("kubeflow.org/v1", "Notebook", &n.metadata))
            .into_iter()
            .chain(pods.get(&answer.id).map(|pod| Regarding::new("v1", "Pod", &pod.metadata)));
        events.extend(about.map(|regarding| EventDraft {
            regarding,
            severity,
            reason: reason.to_owned(),
            action: "Plan",
            note: answer.text.clone(),
        }));
    }
    events
}

/// What everybody who still asks was told, for the next round.
pub(crate) fn told(round: &Round) -> BTreeMap<RequestId, String> {
    round.answers.iter().map(|answer| (answer.id.clone(), answer.gist.clone())).collect()
}

/// The nodes of which a round has something to say, for logs.
#[must_use]
pub fn steps_taken(round: &Round) -> Vec<(&NodeName, String)> {
    round
        .nodes
        .iter()
        .filter_map(|(name, node)| Some((name, step_taken(&node.before, &node.advance.progress)?)))
        .collect()
}
