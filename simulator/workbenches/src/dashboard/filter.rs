//! Which events count for the status line.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{Release, ShownEvent};

/// For how long after the last activity warnings are held back.
const GRACE: SignedDuration = SignedDuration::from_secs(30);
/// For how long after it anything is held back.
const CAP: SignedDuration = SignedDuration::from_mins(20);

/// The events that count, oldest first.
pub(super) struct Counting<'a> {
    pub(super) told: Vec<&'a ShownEvent>,
    /// Whether warnings are held back now.
    pub(super) grace: bool,
}

/// The events of this start, oldest first: in the first releases those since
/// the last activity, later all that there are.
pub(super) fn of_this_start<'a>(
    release: &Release,
    told: &'a [ShownEvent],
    activity: Timestamp,
) -> Vec<&'a ShownEvent> {
    let mut told: Vec<_> = told.iter().filter(|told| release.counts_old || told.at >= activity).collect();
    told.sort_by_key(|told| told.moment());
    told
}

pub(super) fn counting<'a>(
    release: &Release,
    told: &'a [ShownEvent],
    activity: Timestamp,
    now: Timestamp,
) -> Counting<'a> {
    let all = of_this_start(release, told, activity);
    if now > activity + CAP {
        return Counting { told: all, grace: false };
    }
    let grace = now < activity + GRACE;
    let normal: Vec<_> = all.iter().copied().filter(|told| !told.warning).collect();
    let told = if normal.iter().any(|told| told.reason == "TriggeredScaleUp") {
        // The oldest of them, and whatever came after it.
        match all.iter().copied().find(|told| told.reason == "NotTriggerScaleUp") {
            Some(failed) => vec![failed],
            None => normal,
        }
    } else if grace {
        normal
    } else {
        all
    };
    Counting { told, grace }
}
