//! A fault that was just found: the caller reads the node again before it accepts the finding.

use crate::fake::{on_its_way, start};
use slicewright_rollout::progress::SetBack;
use slicewright_rollout::{FailureReason, Phase, Progress, Trouble};

fn changing() -> Progress {
    on_its_way(Phase::Changing).progress
}

/// What is there, and what was there before.
#[track_caller]
fn check(finds: bool, before: impl Fn(&mut Progress), now: impl Fn(&mut Progress)) {
    let (mut then, mut progress) = (changing(), changing());
    before(&mut then);
    now(&mut progress);
    assert_eq!(progress.finds_fault_after(&then), finds);
}

fn set_back(times: u32) -> impl Fn(&mut Progress) {
    move |progress| {
        let layout = progress.target.clone().unwrap().layout;
        let why = Trouble::TooSlow;
        progress.set_back = Some(SetBack { layout, why, times, until: start(), rolled_back: false });
    }
}

#[test]
fn a_step_that_repairs_or_waits_for_a_human_is_a_fault_when_it_begins() {
    let desperate = [Phase::Healing, Phase::Relabelling, Phase::Failed];
    for phase in desperate {
        check(true, |_| {}, |now| now.phase = phase);
        check(false, |then| then.phase = phase, |now| now.phase = phase);
    }
    for phase in Phase::ALL.into_iter().filter(|phase| !desperate.contains(phase)) {
        check(false, |_| {}, |now| now.phase = phase);
    }
}

#[test]
fn an_error_a_set_back_or_a_failure_is_a_fault_while_it_is_new() {
    let error = |trouble: Trouble| move |progress: &mut Progress| progress.last_error = Some(trouble.clone());
    check(true, |_| {}, error(Trouble::TooSlow));
    check(true, error(Trouble::ManagerGone), error(Trouble::TooSlow));
    check(false, error(Trouble::TooSlow), error(Trouble::TooSlow));
    check(true, |_| {}, set_back(1));
    check(true, set_back(1), set_back(2));
    check(false, set_back(2), set_back(2));
    let failed = |progress: &mut Progress| {
        progress.failed = Some(FailureReason::ChangeFailed(Trouble::TooSlow));
    };
    check(true, |_| {}, failed);
    check(false, failed, failed);
}

#[test]
fn what_went_well_is_no_fault() {
    check(false, |_| {}, |_| {});
    check(false, |then| then.last_error = Some(Trouble::TooSlow), |_| {});
    check(false, set_back(1), |_| {});
    check(false, |then| then.failed = Some(FailureReason::ChangeFailed(Trouble::TooSlow)), |_| {});
    check(false, |_| {}, |now| now.phase = Phase::Verifying);
}
