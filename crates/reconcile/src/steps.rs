//! The steps of a rollout in words, for transcripts and logs.

use rollout::{Phase, Progress, Rung};

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
