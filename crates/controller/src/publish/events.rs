//! Events, of `events.k8s.io/v1`. Each is sent once: its name is derived from its content, so that after a
//! restart the API server knows it already.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::Api;
use reconcile::answers::Kind;

use crate::calls::{CallError, Calls, managers};

/// Who reports.
pub const REPORTER: &str = "slicewright.io/operator";
/// How long a note may be, as the API server wants it.
const LONGEST_NOTE: usize = 1024;

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// To whom.
    pub regarding: ObjectReference,
    /// With what it has to do.
    pub related: Option<ObjectReference>,
    /// Whether somebody should look.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// What was done or decided, in one word.
    pub action: String,
    /// A sentence.
    pub note: String,
    /// What tells this event from an earlier one with the same words, such as
    /// the moment of the transition; the note, where there is nothing better.
    pub once: String,
}

/// A note as the API server takes it.
fn bounded(note: &str) -> String {
    if note.len() <= LONGEST_NOTE {
        return note.to_owned();
    }
    let mut end = LONGEST_NOTE - '…'.len_utf8();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &note[..end])
}

/// FNV-1a, for names: the same on every machine and in every release.
fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn event(draft: &Draft, instance: &str, now: Timestamp) -> Event {
    let Draft { regarding, related, warning, reason, action, note, once } = draft;
    let uid = regarding.uid.as_deref().unwrap_or_default();
    let name = regarding.name.as_deref().unwrap_or("object");
    // A name of an object may be as long as that of an event may be.
    let short: String = name.chars().take(200).collect();
    let name = format!("{}.{:016x}", short.trim_end_matches(['.', '-']), fingerprint(&[uid, reason, once]));
    let namespace = namespace(draft);
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
        event_time: Some(MicroTime(now)),
        action: Some(action.clone()),
        reason: Some(reason.clone()),
        note: Some(bounded(note)),
        type_: Some(if *warning { "Warning" } else { "Normal" }.to_owned()),
        regarding: Some(regarding.clone()),
        related: related.clone(),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(instance.chars().take(128).collect()),
        ..Event::default()
    }
}

/// Where an event lives: those of cluster-scoped objects in `default`.
#[must_use]
pub fn namespace(draft: &Draft) -> String {
    draft.regarding.namespace.clone().unwrap_or_else(|| "default".to_owned())
}

/// The pod that is told that its slice is free. Once it has a node this is no news any more, and would be read as the
/// newest word after the scheduler's.
fn told_of_a_free_slice(draft: &Draft) -> Option<(&str, &str)> {
    let ObjectReference { kind, namespace, name, .. } = &draft.regarding;
    let is_so = draft.reason == Kind::Free.told().0 && kind.as_deref() == Some("Pod");
    is_so.then_some(())?;
    namespace.as_deref().zip(name.as_deref())
}

/// Sends an event; one that was sent before is not sent again, and what a pod knows better by now is not sent at all.
/// The event has the time of the round, which is before the look at the pod: the scheduler's word, which comes after the
/// node is given, is always the newer one.
///
/// # Errors
/// When it was not, or may not have been, sent.
pub async fn send(calls: &Calls, draft: &Draft, instance: &str, now: Timestamp) -> Result<(), CallError> {
    if let Some((namespace, name)) = told_of_a_free_slice(draft) {
        // Where nobody can say it, a word too many is better than one too few.
        if calls.is_assigned(namespace, name).await.unwrap_or(false) {
            return Ok(());
        }
    }
    let event = event(draft, instance, now);
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(calls.client(), &namespace);
    let title = format!("Event {namespace}/{}", event.metadata.name.as_deref().unwrap_or_default());
    match calls.create(&api, &title, managers::EVENTS.name, &event).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(note: &str) -> Draft {
        Draft {
            regarding: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some("a1".to_owned()),
                uid: Some("u1".to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            warning: false,
            reason: "RepartitionStarted".to_owned(),
            action: "Cordon".to_owned(),
            note: note.to_owned(),
            once: note.to_owned(),
        }
    }

    #[test]
    fn the_same_news_has_the_same_name_and_other_news_another() {
        let name = |note: &str| event(&draft(note), "me", Timestamp::UNIX_EPOCH).metadata.name;
        assert_eq!(name("one"), name("one"));
        assert_ne!(name("one"), name("two"));
    }

    #[test]
    fn a_note_is_cut_at_what_the_api_server_takes() {
        let long = "ä".repeat(1000);
        let note = bounded(&long);
        assert!(note.len() <= LONGEST_NOTE, "{}", note.len());
        assert!(note.ends_with('…'));
        assert_eq!(bounded("short"), "short");
    }
}
