//! A note without the names of pods that its reader may not know: everyone who may read a namespace can read what is
//! told there, so a note in a namespace does not name pods of another one: it gives their number
//! (docs/threat-model-tenants.md).

use std::ops::Range;

use planner::words::WOULD_HELP;
use rollout::outlook::EVICTION;

use crate::answers::EXPECTED_BY;

/// What stands in the note for a name that is not told; no object has it in
/// its name.
const HIDDEN: &str = "\u{0}";

/// The note, without the names of pods in other namespaces than this one.
///
/// Whatever is written like `namespace/name` counts as such a name, unless it
/// is a GPU of a node: a name too many is left out rather than one too few.
#[must_use]
pub fn for_those_of(namespace: &str, note: &str, is_node: impl Fn(&str) -> bool) -> String {
    let note = without_refusals(namespace, note);
    let mut hidden = String::new();
    let mut rest = 0;
    for Range { start, end } in references(&note) {
        let Some((of, name)) = note[start..end].split_once('/') else { continue };
        let gpu = name.strip_prefix("gpu").is_some_and(|index| index.parse::<u32>().is_ok());
        if of == namespace || gpu && is_node(of) {
            continue;
        }
        hidden.push_str(without_kind(&note[rest..start]));
        hidden.push_str(HIDDEN);
        rest = end + ordinal(&note[end..]);
    }
    hidden.push_str(&note[rest..]);
    counted(&hidden)
}

/// What stands before a name, without the word for what it is the name of: that word would go on with "a pod of another
/// namespace". Whoever asks is called by a kind (`Pod team-b/eve`, `Notebook team-b/lab`), and what asks is a pod.
fn without_kind(before: &str) -> &str {
    let Some(words) = before.strip_suffix(' ') else { return before };
    let start = words.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    let word = &words[start..];
    if word == "pod" || word.starts_with(|c: char| c.is_ascii_uppercase()) { &words[..start] } else { before }
}

/// How long the number is that tells the pods of one owner apart (`JobSet team-b/train #2`), where one follows a name.
fn ordinal(after: &str) -> usize {
    let Some(number) = after.strip_prefix(" #") else { return 0 };
    let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 { 0 } else { " #".len() + digits }
}

/// Where something stands that may be a namespace and a name: a label of DNS
/// and no number (`0/3 nodes`), a slash, and more.
fn references(note: &str) -> Vec<Range<usize>> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = note[at..].find(part).map(|offset| at + offset) {
        let length = note[start..].find(|c| !part(c)).unwrap_or(note.len() - start);
        at = start + length;
        let word = note[start..at].trim_end_matches(['.', '-', '/']);
        if word.split_once('/').is_some_and(|(of, _)| is_label(of)) {
            found.push(start..start + word.len());
        }
    }
    found
}

/// Whether a namespace may be called so, and it is no number.
fn is_label(text: &str) -> bool {
    let of_a_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.chars().all(of_a_label) && text.chars().any(|c| c.is_ascii_lowercase())
}

/// What the API server says when it refuses an eviction names the budget of
/// the pod's namespace, in words of its own.
fn without_refusals(namespace: &str, note: &str) -> String {
    /// With what our sentence goes on after the words of another.
    const OURS: [&str; 2] = [EXPECTED_BY, WOULD_HELP];
    let mut parts = note.split(EVICTION);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let own = part.strip_prefix(" of ").is_some_and(|pod| pod.starts_with(&format!("{namespace}/")));
        if own {
            kept.push_str(EVICTION);
            kept.push_str(part);
        } else if let Some(at) = OURS.iter().filter_map(|ours| part.find(ours)).min() {
            kept.push_str(&part[at..]);
        }
    }
    kept
}

/// Names that are not told, as how many they are.
fn counted(hidden: &str) -> String {
    let next = format!(", {HIDDEN}");
    let mut told = String::new();
    let mut rest = hidden;
    while let Some((before, mut after)) = rest.split_once(HIDDEN) {
        let mut many = 1;
        while let Some(more) = after.strip_prefix(&next) {
            (many, after) = (many + 1, more);
        }
        told.push_str(before);
        match many {
            1 => told.push_str("a pod of another namespace"),
            n => told.push_str(&format!("{n} pods of other namespaces")),
        }
        rest = after;
    }
    told.push_str(rest);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(note: &str, expect: &str) {
        assert_eq!(for_those_of("team-a", note, |node| node == "gpu-1"), expect);
    }

    #[test]
    fn a_pod_of_another_namespace_is_not_named() {
        check(
            "not served: every slice is in use. What would help: pod team-b/alice-0 ends (or moves): it holds 7g.80gb on gpu-1/gpu0; or one more A100-80GB",
            "not served: every slice is in use. What would help: a pod of another namespace ends (or moves): it holds 7g.80gb on gpu-1/gpu0; or one more A100-80GB",
        );
        check("held by team-b/alice.", "held by a pod of another namespace.");
    }

    /// Whoever asks is named with a kind, and by a number where its owner has several pods.
    #[test]
    fn nothing_of_the_name_of_one_who_asks_in_another_namespace_is_left() {
        for who in ["Pod team-b/eve", "Notebook team-b/lab", "JobSet team-b/train #12", "pod team-b/eve"] {
            check(
                &format!("what was promised on gpu-1 cannot be kept: {who} has a higher priority"),
                "what was promised on gpu-1 cannot be kept: a pod of another namespace has a higher priority",
            );
            check(
                &format!("{who}, whose pod has no node yet"),
                "a pod of another namespace, whose pod has no node yet",
            );
        }
        check(
            "Job team-a/mine #2, Job team-b/train #2 and 3 more",
            "Job team-a/mine #2, a pod of another namespace and 3 more",
        );
        check(
            "see team-b/eve # and team-b/eve #x",
            "see a pod of another namespace # and a pod of another namespace #x",
        );
        check("pods team-b/eve", "pods a pod of another namespace");
    }

    #[test]
    fn several_are_counted_and_those_of_the_own_namespace_are_named() {
        check(
            "pods to go: team-b/alice-0, team-c/bob-0, team-a/mine-0, team-d/eve and 3 more",
            "pods to go: 2 pods of other namespaces, team-a/mine-0, a pod of another namespace and 3 more",
        );
    }

    #[test]
    fn what_is_no_pod_stays() {
        for note in [
            "gpu-1 has to change for it (1g.10gb): nvidia.com/mig.config has `all-1g.10gb`, which the operator did not write",
            "its slice is ready, but something else keeps it from running; 0/3 nodes are available: 3 Insufficient cpu.",
            "2 x 1g.10gb is free on gpu-1",
            "N/A on gpu-1/gpu12, whatever",
        ] {
            check(note, note);
        }
    }

    #[test]
    fn a_namespace_with_a_node_s_name_has_no_secret_gpu_and_an_unknown_node_is_hidden() {
        check("on gpu-2/gpu0", "on a pod of another namespace");
        check("pod gpu-1/gpu-job", "a pod of another namespace");
    }

    #[test]
    fn the_words_of_a_refused_eviction_are_those_of_the_own_namespace_or_none() {
        let refused = "gpu-1 is changed for it (1g.10gb), but still waits for pods to go: team-b/alice-0; eviction of team-b/alice-0 refused: Cannot evict pod: the disruption budget secret-project needs 1, which was expected by 10:00";
        check(
            refused,
            "gpu-1 is changed for it (1g.10gb), but still waits for pods to go: a pod of another namespace, which was expected by 10:00",
        );
        let own = "pods to go: team-a/x; eviction of team-a/x refused: the disruption budget mine needs 1; eviction refused: secret-project. What would help: one more A100-80GB";
        check(
            own,
            "pods to go: team-a/x; eviction of team-a/x refused: the disruption budget mine needs 1. What would help: one more A100-80GB",
        );
    }
}
