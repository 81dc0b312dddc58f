//! What the conditions of a Workload of Kueue say, as a line.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Line, Weight};

/// A Workload, as far as the line goes.
#[derive(Clone, Debug)]
pub struct InQueue<'a> {
    /// The queue, by the Notebook's label.
    pub name: Option<&'a str>,
    /// The Workload's conditions.
    pub conditions: &'a [Condition],
}

/// How a release speaks of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Words {
    /// Evicted is preempted.
    First,
    /// Evicted is evicted, and said so.
    WithEvictions,
    /// The same, in fewer words; and what is larger than the queue is
    /// inadmissible, whatever the reason says.
    Shorter,
}

/// The line; nothing once the Workload is admitted.
pub(super) fn line(words: &Words, queue: &InQueue<'_>) -> Option<Line> {
    let name = queue.name.unwrap_or("the queue");
    let holds = |kind: &str, status: &str| {
        queue.conditions.iter().find(move |c| c.type_ == kind && c.status == status)
    };
    let preempted = || {
        let text = ["Paused by a higher-priority job", "Paused by higher-priority job"];
        Line::new(text[usize::from(*words == Words::Shorter)], Weight::Warning)
    };
    let evicted = || holds("Evicted", "True");
    let inadmissible = || queue.conditions.iter().find(|c| is_inadmissible(*words, c));
    let finished = |failed: bool| {
        queue
            .conditions
            .iter()
            .find(move |c| c.type_ == "Finished" && c.status == "True" && says_failure(c) == failed)
    };
    if let Some(condition) = finished(true) {
        return Some(Line::new(failure(condition, name), Weight::Error));
    }
    if let Some(condition) = evicted().filter(|_| *words > Words::First) {
        return Some(match condition.reason.as_str() {
            "Preempted" => preempted(),
            _ => Line::new(eviction(*words, text_of(condition)), Weight::Warning),
        });
    }
    if let Some(condition) = inadmissible() {
        return Some(Line::new(refusal(*words, condition, name), Weight::Warning));
    }
    if *words == Words::First && evicted().is_some() {
        return Some(preempted());
    }
    // Admitted by its quota; what is not in the list of the line is not in it.
    if *words > Words::First && holds("BlockedOnPreemptionGates", "True").is_some() {
        return None;
    }
    if holds("Preempted", "True").is_some() {
        return Some(preempted());
    }
    if let Some(condition) = finished(false) {
        return Some(Line::new(text_of(condition).unwrap_or("Complete"), Weight::Information));
    }
    if holds("PodsReady", "True").or(holds("Admitted", "True")).is_some() {
        return None;
    }
    // Quota that is reserved is not looked for: while checks are pending the
    // message is that of another condition, or none.
    let waits = holds("QuotaReserved", "False")
        .or_else(|| (*words > Words::First).then(|| foreign(queue.conditions)).flatten());
    Some(Line::new(waiting(*words, waits.and_then(text_of), name), Weight::Information))
}

fn text_of(condition: &Condition) -> Option<&str> {
    let text = if condition.message.is_empty() { &condition.reason } else { &condition.message };
    Some(text.trim()).filter(|text| !text.is_empty())
}

/// A condition that holds and has no meaning of its own for the dashboard,
/// such as `Requeued`.
fn foreign(conditions: &[Condition]) -> Option<&Condition> {
    const KNOWN: [&str; 7] = [
        "Finished",
        "Evicted",
        "Preempted",
        "QuotaReserved",
        "PodsReady",
        "Admitted",
        "BlockedOnPreemptionGates",
    ];
    conditions
        .iter()
        .find(|c| c.status == "True" && !KNOWN.contains(&c.type_.as_str()) && text_of(c).is_some())
}

/// Whether a text has these parts, in this order, in whatever case.
fn has(text: &str, parts: &[&str]) -> bool {
    let text = text.to_lowercase();
    let mut rest = text.as_str();
    parts.iter().all(|part| rest.find(part).map(|at| rest = &rest[at + part.len()..]).is_some())
}

fn of_quota(text: &str) -> bool {
    [&["insufficient unused quota"][..], &["quota", "exceed"], &["exceed", "quota"]]
        .iter()
        .any(|parts| has(text, parts))
}

fn of_quota_or_flavor(text: &str) -> bool {
    of_quota(text) || has(text, &["flavor"])
}

fn of_no_queue(text: &str) -> bool {
    ["not found", "not exist", "doesn't exist"]
        .iter()
        .any(|missing| has(text, &["queue", missing]) || has(text, &[missing, "queue"]))
}

fn says_failure(condition: &Condition) -> bool {
    let text = format!("{} {}", condition.message, condition.reason);
    ["error", "failed", "rejected", "timeout", "timed out"].iter().any(|word| has(&text, &[word]))
}

fn is_inadmissible(words: Words, condition: &Condition) -> bool {
    let Condition { type_, status, reason, message, .. } = condition;
    let never = || ["> maximum capacity", "unavailable in clusterqueue"].iter().any(|p| has(message, &[p]));
    type_ == "QuotaReserved"
        && status == "False"
        && (reason == "Inadmissible" || words == Words::Shorter && never())
}

fn waiting(words: Words, text: Option<&str>, queue: &str) -> String {
    match text {
        Some(text) if !of_quota_or_flavor(text) && words == Words::Shorter => {
            format!("Waiting for resources in {queue}")
        }
        Some(text) if !of_quota_or_flavor(text) => "Waiting for available resources".to_owned(),
        _ => format!("Waiting for quota in {queue}"),
    }
}

fn failure(condition: &Condition, queue: &str) -> String {
    match text_of(condition) {
        Some(text) if of_no_queue(text) => format!("Queue {queue} does not exist"),
        Some(text) if has(text, &["timeout"]) || has(text, &["timed out"]) => "Queue timed out".to_owned(),
        Some(text) if !of_quota(text) => text.to_owned(),
        _ => format!("Exceeded quota for {queue}"),
    }
}

fn refusal(words: Words, condition: &Condition, queue: &str) -> String {
    match text_of(condition) {
        None if words > Words::First => format!("Unable to admit workload to {queue}"),
        Some(text) if !of_no_queue(text) && of_quota_or_flavor(text) => format!("Exceeded quota for {queue}"),
        Some(text) if !of_no_queue(text) => text.to_owned(),
        _ => format!("Queue {queue} does not exist"),
    }
}

fn eviction(words: Words, text: Option<&str>) -> String {
    let Some(text) = text else { return "Evicted from the queue".to_owned() };
    let stopped = has(text, &["clusterqueue", "stop"]) || has(text, &["stop", "clusterqueue"]);
    let [longer, shorter] = if stopped {
        ["queue was stopped", "Manually removed from queue"]
    } else if has(text, &["deactivat"]) {
        ["workload was deactivated", "Deactivated"]
    } else if has(text, &["admission check"]) || has(text, &["admissioncheck"]) {
        ["admission check failed", "Admission check failed"]
    } else {
        [text, text]
    };
    if words == Words::Shorter { shorter.to_owned() } else { format!("Evicted: {longer}") }
}
