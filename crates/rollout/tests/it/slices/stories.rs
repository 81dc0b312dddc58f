//! Single stories of the walk with an agent.

use jiff::SignedDuration;
use slicewright_rollout::{
    Admission, FailureReason, Outlook, Phase, Progress, Settings, StartBlocker, Trouble, WantedSlices, names,
};

use super::model::{Ask, Luck, places};
use super::walk::{Dies, Walk};

/// The agent looks and acts, unless it leaves the driver to somebody else.
fn agent_looks(walk: &mut Walk) {
    if walk.agent_rests() {
        return;
    }
    walk.world.agent(Luck::Fine, 0);
    while !walk.world.process.is_between_looks() {
        walk.world.agent(Luck::Fine, 0);
    }
}

/// Everybody takes a step: the agent looks and acts, the operator reads and
/// acts, and the plugin follows the labels.
pub(super) fn round(walk: &mut Walk) {
    agent_looks(walk);
    walk.step(Dies::Never);
    walk.step(Dies::Never);
    walk.world.plugin();
    let breaches = walk.world.kubelet.admit(&walk.world.gpus);
    walk.world.breaches.extend(breaches);
    if !walk.lingers {
        walk.they_go();
    }
}

#[track_caller]
pub(super) fn until(walk: &mut Walk, what: &str, reached: impl Fn(&Walk) -> bool) {
    for _ in 0..200 {
        if reached(walk) {
            return;
        }
        round(walk);
    }
    panic!("not reached: {what}; {:?}, {:#?}", walk.last.as_ref().map(|a| &a.outlook), walk.world.log);
}

pub(super) fn phase(walk: &Walk) -> Phase {
    walk.progress.phase
}

/// A notebook computes on a 3g.40gb; the rest of its GPU has small slices.
pub(super) fn notebook() -> Walk {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.world.kubelet.bind(Ask::Plain, "3g.40gb".parse().unwrap());
    until(&mut walk, "it computes", |walk| !walk.world.kubelet.pods[0].given.is_empty());
    // On whichever of the three slices kubelet put it: its GPU is recut around it.
    walk
}

pub(super) fn serial(walk: &Walk) -> u64 {
    *walk.world.kubelet.pods[0].given.first().unwrap()
}

/// The GPU on which the notebook computes, what stays there, and another cut of the rest.
pub(super) fn recut(walk: &Walk) -> (u16, &'static str) {
    let has = |gpu: &str| walk.world.gpus.slices[&agent::GpuUuid(gpu.to_owned())].clone();
    let serial = serial(walk);
    if has("gpu-a").values().any(|other| *other == serial) {
        return (0, "1g@0 1g@1 1g@2 1g@3 3g@4");
    }
    let at = has("gpu-b").iter().find(|(_, other)| **other == serial).map(|(place, _)| place.start).unwrap();
    (1, if at == 0 { "3g@0 2g@4 1g@6" } else { "2g@0 1g@2 1g@3 3g@4" })
}

#[test]
fn the_rest_of_a_gpu_is_recut_once_while_a_notebook_computes_on_it() {
    let mut walk = notebook();
    let (held, (gpu, layout)) = (serial(&walk), recut(&walk));
    walk.want(gpu, layout);
    until(&mut walk, "it is done", |walk| walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]) == places(layout));
    until(&mut walk, "it rests", Walk::rests);
    assert!(walk.world.gpus.has_serial(held), "the very slice of the notebook is there");
    assert_eq!(walk.world.breaches, [] as [String; 0]);
    assert_eq!(
        walk.phases,
        [
            Phase::Idle,
            Phase::Cordoning,
            Phase::Quiescing,
            Phase::Changing,
            Phase::Verifying,
            Phase::Releasing,
            Phase::Idle
        ]
    );
    let writes: Vec<_> = walk.actions.iter().filter(|name| **name != "ListPods").collect();
    assert_eq!(writes, [&"HoldForAgent", &"ResumeOperands", &"Uncordon"]);
    assert!(walk.progress.verified.is_some() && walk.progress.set_back.is_none());
}

#[test]
fn a_slice_in_use_is_never_given_up_and_the_hold_is_taken_back_in_time() {
    let mut walk = notebook();
    // A plan that is stale: it takes the notebook's slice.
    walk.want(0, "7g@0");
    walk.want(1, "7g@0");
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing);
    for _ in 0..30 {
        round(&mut walk);
        assert!(walk.world.node.now().1.is_none_or(|wish| wish.permit.is_none()), "no permit is given");
    }
    walk.now += SignedDuration::from_mins(2);
    until(&mut walk, "it is open again", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    let back = walk.progress.set_back.clone().expect("it is not tried again at once");
    assert!(back.why.to_string().contains("is not free"), "{}", back.why);
    assert_eq!(walk.world.breaches, [] as [String; 0]);
    assert!(walk.world.gpus.has_serial(serial(&walk)));
}

#[test]
fn what_is_no_longer_wanted_is_taken_back_before_the_claim_and_finished_after_it() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    let before = walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]);
    walk.want(gpu, layout);
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    walk.wanted = WantedSlices::new();
    until(&mut walk, "it is open again", Walk::rests);
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), before);

    walk.want(gpu, layout);
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.wanted = WantedSlices::new();
    until(&mut walk, "it is finished", Walk::rests);
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), places(layout));
}

#[test]
fn a_hold_that_somebody_lifts_is_taken_back_and_nothing_is_destroyed() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    let before = walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]);
    walk.want(gpu, layout);
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    walk.lift();
    until(&mut walk, "it is open again", |walk| phase(walk) == Phase::Idle && !walk.cordoned);
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), before);
    assert_eq!(walk.progress.set_back.as_ref().unwrap().why.name(), "HoldLifted");
}

/// Somebody deletes the agents' admission policy: from then on, the token of any agent could have written the report.
#[test]
fn without_the_admission_policy_nothing_is_permitted_and_it_goes_on_when_it_is_back() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    let name = ["gpu-a", "gpu-b"][usize::from(gpu)];
    let before = walk.has(name);
    walk.unguarded = true;
    walk.want(gpu, layout);
    for _ in 0..20 {
        round(&mut walk);
        assert!(!walk.cordoned && !walk.held, "{:?}", walk.actions);
    }
    let unguarded = Some(Outlook::Holding(StartBlocker::AgentUnguarded));
    assert_eq!(walk.last.as_ref().map(|answer| answer.outlook.clone()), unguarded);
    walk.unguarded = false;
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    walk.unguarded = true;
    until(&mut walk, "it is taken back", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    assert_eq!(walk.last.as_ref().map(|answer| answer.outlook.clone()), unguarded);
    assert_eq!(walk.has(name), before);

    walk.unguarded = false;
    until(&mut walk, "it is done", |walk| walk.has(name) == places(layout) && walk.rests());
}

/// The agent that claimed it reports anew, which voids its permit; it gets no other by a report that anybody could have
/// written.
#[test]
fn a_change_that_is_claimed_gets_no_new_permit_without_the_admission_policy() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    let name = ["gpu-a", "gpu-b"][usize::from(gpu)];
    walk.want(gpu, layout);
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    let before = walk.has(name);
    walk.unguarded = true;
    walk.world.process.dies();
    for _ in 0..30 {
        round(&mut walk);
    }
    assert_eq!((phase(&walk), walk.has(name)), (Phase::Changing, before), "nothing is destroyed");
    assert!(walk.cordoned && walk.held);
    walk.unguarded = false;
    until(&mut walk, "its outcome ends it", Walk::rests);
    assert_eq!(walk.has(name), places(layout));
}

#[test]
fn an_agent_that_vanishes_before_its_claim_costs_nothing_and_after_it_the_node_says_so_until_it_is_back() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    walk.alive = false;
    until(&mut walk, "it is taken back", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    let outlook = walk.last.as_ref().map(|answer| answer.outlook.clone());
    assert_eq!(outlook, Some(Outlook::Holding(StartBlocker::AgentAway)));

    walk.alive = true;
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.alive = false;
    let claimed = walk.world.node.now().1;
    walk.now += SignedDuration::from_mins(11);
    walk.step(Dies::Never);
    walk.step(Dies::Never);
    let away = FailureReason::ChangeFailed(Trouble::AgentAway);
    assert_eq!((phase(&walk), &walk.progress.failed), (Phase::Failed, &Some(away)));
    assert!(
        walk.cordoned && walk.held && walk.world.node.now().1 == claimed,
        "nobody opens what is half done"
    );
    // A new process reports anew, so that the permit of before is void.
    walk.world.process.dies();
    walk.alive = true;
    until(&mut walk, "its outcome ends it", Walk::rests);
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), places(layout));
}

/// A human may come in days. Until then the pods of the node are not listed all the time.
#[test]
fn an_agent_that_is_back_while_a_choice_is_on_its_way_gets_no_permit_and_the_pods_are_listed_once_a_minute() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.want(0, "3g@0 3g@4");
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.alive = false;
    walk.now += SignedDuration::from_mins(11);
    walk.step(Dies::Never);
    walk.step(Dies::Never);
    assert_eq!(phase(&walk), Phase::Failed);
    // A pod that passed the cordon: kubelet will not say what it gets.
    walk.world.kubelet.bind(Ask::Plain, "1g.10gb".parse().unwrap());
    let claimed = walk.world.node.now().1;
    walk.world.process.dies();
    walk.alive = true;
    walk.actions.clear();
    let begun = walk.now;
    while walk.now < begun + SignedDuration::from_mins(5) {
        walk.world.agent(Luck::Fine, 0);
        walk.step(Dies::Never);
        walk.world.plugin();
    }
    assert_eq!((phase(&walk), &walk.world.node.now().1), (Phase::Failed, &claimed), "{:#?}", walk.world.log);
    let lists = walk.actions.iter().filter(|action| **action == "ListPods").count();
    assert!((5..=6).contains(&lists), "{lists}");
    // Kubelet refuses it, as it does behind a closed gate.
    until(&mut walk, "its outcome ends it", Walk::rests);
    assert_eq!(walk.has("gpu-a"), places("3g@0 3g@4"));
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

/// MIG manager has the node of the notebook.
pub(super) fn of_mig_manager() -> Walk {
    let mut walk = notebook();
    walk.manager = true;
    walk.manager_pod = true;
    walk.config = Some("all-balanced".to_owned());
    walk.progress = Progress::default();
    walk
}

#[test]
fn mig_manager_stands_down_before_the_agent_changes_anything() {
    let mut walk = of_mig_manager();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    for _ in 0..5 {
        round(&mut walk);
    }
    // Its label is off, and while its pod ends nothing else is done.
    assert!(!walk.manager && !walk.cordoned && walk.config.as_deref() == Some("all-balanced"));
    walk.manager_pod = false;
    until(&mut walk, "the label names no entry", |walk| {
        walk.config.as_deref() == Some(names::HANDED_TO_AGENT)
    });
    assert!(!walk.cordoned);
    until(&mut walk, "it is done", |walk| walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]) == places(layout));
    until(&mut walk, "it rests", Walk::rests);
}

#[test]
fn a_node_whose_turn_has_not_come_is_not_held() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    let budget = StartBlocker::Budget { unavailable: 1, allowed: 1, nodes: Vec::new() };
    walk.admission = Admission::Held(budget.clone());
    walk.want(gpu, layout);
    for _ in 0..5 {
        round(&mut walk);
    }
    assert_eq!(walk.last.as_ref().unwrap().outlook, Outlook::Holding(budget));
    assert!(!walk.cordoned && !walk.held);
}

#[test]
fn what_only_creates_needs_no_proof() {
    let mut walk = Walk::new(["3g@0", "3g@0 3g@4"]);
    walk.world.kubelet.bind(Ask::Plain, "3g.40gb".parse().unwrap());
    until(&mut walk, "it computes", |walk| !walk.world.kubelet.pods[0].given.is_empty());
    walk.want(0, "3g@0 3g@4");
    until(&mut walk, "it is there", |walk| walk.has("gpu-a") == places("3g@0 3g@4"));
    until(&mut walk, "it rests", Walk::rests);
    assert!(!walk.actions.contains(&"ListPods"));
}

/// A pod to which the plugin has given a slice of the first GPU, and which
/// kubelet has not yet entered into its books.
pub(super) fn in_flight(walk: &mut Walk) {
    walk.world.kubelet.bind(Ask::Plain, "1g.10gb".parse().unwrap());
    for _ in 0..3 {
        let breaches = walk.world.kubelet.admit(&walk.world.gpus);
        assert_eq!(breaches, [] as [String; 0]);
    }
    assert!(walk.world.kubelet.pods.iter().any(|pod| !pod.given.is_empty() || pod.is_live()));
    assert_eq!(walk.world.kubelet.recorded(), [], "no book has it");
}

/// Everybody but kubelet takes a turn, after which no permit is given.
#[track_caller]
pub(super) fn turn_without_a_permit(walk: &mut Walk) {
    agent_looks(walk);
    walk.step(Dies::Never);
    walk.step(Dies::Never);
    walk.world.plugin();
    assert!(walk.world.node.now().1.is_none_or(|wish| wish.permit.is_none()), "no permit is given");
}

/// The choice stays on its way, since kubelet takes no step.
#[track_caller]
pub(super) fn no_permit_while_it_is_on_its_way(walk: &mut Walk) {
    let mut said = Vec::new();
    for _ in 0..20 {
        turn_without_a_permit(walk);
        if let Some(Outlook::Working { waits_for, .. }) = walk.last.as_ref().map(|answer| &answer.outlook) {
            said.push(waits_for.to_string());
        }
    }
    assert!(said.iter().any(|text| text.contains("kubelet may be about to give")), "{said:#?}");
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

#[test]
fn a_choice_that_is_on_its_way_keeps_every_slice_of_its_profile() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    no_permit_while_it_is_on_its_way(&mut walk);
}

#[test]
fn a_list_of_before_this_change_proves_nothing_about_who_came_since() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.want(1, "7g@0");
    until(&mut walk, "the first change is done", |walk| walk.has("gpu-b") == places("7g@0") && walk.rests());
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    no_permit_while_it_is_on_its_way(&mut walk);
}

#[test]
fn while_the_pods_cannot_be_listed_the_list_of_the_change_before_gives_no_permit() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.want(1, "7g@0");
    until(&mut walk, "the first change is done", |walk| walk.has("gpu-b") == places("7g@0") && walk.rests());
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    walk.lists_fail = true;
    let mut proved = 0;
    for _ in 0..20 {
        turn_without_a_permit(&mut walk);
        proved += usize::from(phase(&walk) == Phase::Quiescing);
    }
    assert!(proved > 5, "the walk waits for its proof: {:?}", walk.phases);
}

/// A GPU that gets no slice is to have MIG off. The agent cannot do that: it would leave MIG on without any slice.
#[test]
fn an_agent_is_not_asked_to_switch_mig_off() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.wanted.insert(planner::names::GpuIndex(1), std::collections::BTreeSet::new());
    for _ in 0..40 {
        round(&mut walk);
    }
    assert_eq!(walk.has("gpu-b"), places("3g@0 3g@4"), "nothing is destroyed");
    let cannot = Outlook::Holding(StartBlocker::AgentCannot { gpu: "gpu-b".to_owned() });
    assert_eq!(walk.last.as_ref().map(|advance| &advance.outlook), Some(&cannot));
    assert!(!walk.cordoned);
}

/// Its object tells of the mode as soon as the new process has reported; MIG manager has the node after that.
#[test]
fn an_agent_that_only_reports_from_now_on_ends_what_it_has_claimed_and_begins_nothing() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.only_reports();
    until(&mut walk, "it is over", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), places(layout), "it is finished");
    assert!(walk.progress.set_back.is_none() && walk.progress.failed.is_none());

    walk.want(gpu, "7g@0");
    let begun = walk.phases.len();
    for _ in 0..10 {
        round(&mut walk);
    }
    assert_eq!(walk.phases[begun..], [], "nothing begins");
    let outlook = walk.last.as_ref().map(|answer| answer.outlook.clone());
    assert_eq!(outlook, Some(Outlook::Holding(StartBlocker::HandingBack)));
}

#[test]
fn a_change_that_was_not_claimed_by_an_agent_that_only_reports_from_now_on_is_taken_back_at_once() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    let before = walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]);
    walk.want(gpu, layout);
    until(&mut walk, "it is held", |walk| phase(walk) == Phase::Quiescing && walk.held);
    let (held_at, limit) = (walk.now, Settings::default().hold_limit);
    walk.only_reports();
    until(&mut walk, "it is open again", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    assert!(walk.now < held_at + limit, "pods wait for nothing");
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), before);
    assert!(walk.progress.set_back.is_none() && walk.progress.failed.is_none());
    assert!(!walk.phases.contains(&Phase::Changing) && !walk.phases.contains(&Phase::Failed));
}

/// By a clock that was put back, every list would be older than the report that it has to follow.
#[test]
fn a_clock_that_is_put_back_amid_the_proof_costs_another_list_and_no_more() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    until(&mut walk, "the pods are listed", |walk| {
        let target = walk.progress.target.as_ref().and_then(|target| target.slices.as_ref());
        target.is_some_and(|change| change.listed.is_some())
    });
    walk.now -= SignedDuration::from_hours(1);
    until(&mut walk, "it rests", Walk::rests);
    assert_eq!(walk.has(["gpu-a", "gpu-b"][usize::from(gpu)]), places(layout));
    assert!(walk.progress.set_back.is_none(), "{:?}", walk.progress.set_back);
}
