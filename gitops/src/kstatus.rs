//! kstatus: how Flux and other tools read any object. Written from the rules
//! of cli-utils (`pkg/kstatus/status`), for objects that are no built-in kind.

use serde_json::Value;

use crate::{conditions, text};

/// What an object is, as far as a tool that waits for it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is as its spec says.
    Current,
    /// It is on its way: keep waiting.
    InProgress,
    /// A human has to act: stop waiting.
    Failed,
    /// It is being deleted.
    Terminating,
}

/// The verdict of kstatus.
#[must_use]
pub fn verdict(object: &Value) -> Verdict {
    if !text(object, "/metadata/deletionTimestamp").is_empty() {
        return Verdict::Terminating;
    }
    if is_behind(object) {
        return Verdict::InProgress;
    }
    // The first of the two in the list decides.
    let standard = conditions(object).find_map(|condition| match (text(condition, "/type"), is(condition)) {
        ("Reconciling", Some(true)) => Some(Verdict::InProgress),
        ("Stalled", Some(true)) => Some(Verdict::Failed),
        _ => None,
    });
    if let Some(verdict) = standard {
        return verdict;
    }
    let ready = conditions(object).filter(|condition| text(condition, "/type") == "Ready");
    let mut said =
        ready.filter(|condition| matches!(text(condition, "/status"), "True" | "False" | "Unknown"));
    match said.next().map(is) {
        Some(Some(true)) => Verdict::Current,
        Some(_) => Verdict::InProgress,
        // The trap: what says nothing is taken for done.
        None => Verdict::Current,
    }
}

/// Whether the status says itself that it is about an older spec. One that
/// does not say what it is about counts as up to date.
pub(crate) fn is_behind(object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = object.pointer("/status/observedGeneration").and_then(Value::as_i64);
    matches!((generation, observed), (Some(generation), Some(observed)) if generation != observed)
}

/// Whether a condition holds, where it is known.
fn is(condition: &Value) -> Option<bool> {
    match text(condition, "/status") {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(generation: Option<i64>, observed: Option<i64>, conditions: &[(&str, &str)], expected: Verdict) {
        let conditions: Vec<_> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        let mut object = json!({"metadata": {}, "status": {"conditions": conditions}});
        if let Some(generation) = generation {
            object["metadata"]["generation"] = json!(generation);
        }
        if let Some(observed) = observed {
            object["status"]["observedGeneration"] = json!(observed);
        }
        assert_eq!(verdict(&object), expected, "{object}");
    }

    #[test]
    fn it_reads_as_cli_utils_does() {
        use Verdict::{Current, Failed, InProgress};
        check(Some(1), None, &[], Current);
        check(Some(1), None, &[("Ready", "Unknown")], InProgress);
        check(Some(2), Some(1), &[("Ready", "True")], InProgress);
        check(Some(2), Some(2), &[("Ready", "True")], Current);
        check(Some(2), Some(2), &[("Ready", "False")], InProgress);
        check(Some(2), Some(2), &[("Ready", "Perhaps")], Current);
        check(Some(2), Some(2), &[("Ready", "True"), ("Reconciling", "True")], InProgress);
        check(Some(2), Some(2), &[("Ready", "False"), ("Stalled", "True")], Failed);
        check(Some(2), Some(2), &[("Stalled", "False"), ("Ready", "True")], Current);
        check(Some(2), Some(2), &[("Reconciling", "True"), ("Stalled", "True")], InProgress);
        check(Some(2), Some(2), &[("Stalled", "True"), ("Reconciling", "True")], Failed);
        check(None, Some(2), &[("Ready", "True")], Current);
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(verdict(&going), Verdict::Terminating);
    }
}
