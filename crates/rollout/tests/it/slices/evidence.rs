//! What the operator's proof and its opening of the node rest on. Each story fails as soon as the operator does without one
//! of these supports.

use slicewright_rollout::{Outlook, Phase, Progress, StartBlocker};

use super::model::{Ask, Luck, places};
use super::stories::{
    in_flight, no_permit_while_it_is_on_its_way, notebook, phase, recut, serial, turn_without_a_permit, until,
};
use super::walk::{Dies, GPUS, Walk};

/// By a clock that was put back, the list of the change before has the date of this moment.
#[test]
fn a_list_of_before_the_report_with_the_date_of_the_report_proves_nothing() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.want(1, "7g@0");
    until(&mut walk, "the first change is done", |walk| walk.has("gpu-b") == places("7g@0") && walk.rests());
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    while phase(&walk) != Phase::Quiescing {
        turn_without_a_permit(&mut walk);
    }
    walk.now = walk.listed_at().expect("the pods were listed for the first change");
    (walk.clock_stands, walk.lists_fail) = (true, true);
    for _ in 0..20 {
        turn_without_a_permit(&mut walk);
        assert_eq!(phase(&walk), Phase::Quiescing, "it waits for its proof: {:?}", walk.phases);
    }
    (walk.clock_stands, walk.lists_fail) = (false, false);
    no_permit_while_it_is_on_its_way(&mut walk);
}

/// No book can have the name of its container.
#[test]
fn a_pod_of_which_the_containers_are_not_known_keeps_every_slice_of_its_profile() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.containers_unknown = true;
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    no_permit_while_it_is_on_its_way(&mut walk);
}

/// Where it only counts who may be evicted or holds a layout, it is left out: it ends in a moment. Its slice is as real.
#[test]
fn a_validator_that_is_about_to_get_a_slice_keeps_every_slice_of_its_profile() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.validators = true;
    in_flight(&mut walk);
    walk.want(0, "3g@0 3g@4");
    no_permit_while_it_is_on_its_way(&mut walk);
}

/// It ends, and may register once more before it has ended.
#[test]
fn while_a_pod_of_the_plugin_is_left_no_permit_is_given_although_kubelet_offers_nothing() {
    let mut walk = notebook();
    let (gpu, layout) = recut(&walk);
    walk.want(gpu, layout);
    walk.plugin_pod_stays = true;
    let mut said = Vec::new();
    for _ in 0..20 {
        turn_without_a_permit(&mut walk);
        if let Some(Outlook::Working { waits_for, .. }) = walk.last.as_ref().map(|answer| &answer.outlook) {
            said.push(waits_for.to_string());
        }
    }
    assert!(said.iter().any(|text| text.contains("of the device plugin is still there")), "{said:#?}");
    walk.plugin_pod_stays = false;
    until(&mut walk, "it rests", Walk::rests);
    assert_eq!(walk.has(GPUS[usize::from(gpu)]), places(layout));
}

/// Kubelet's checkpoint knows it by its own uid, and the API server by that of its mirror.
#[test]
fn beside_a_static_pod_another_slice_of_its_profile_is_recut() {
    let mut walk = notebook();
    walk.mirrored = true;
    let held = serial(&walk);
    // A slice of the profile that it has goes.
    let (gpu, layout) = match recut(&walk) {
        (0, _) => (1, "3g@0 2g@4 1g@6"),
        beside_it => beside_it,
    };
    walk.want(gpu, layout);
    until(&mut walk, "it rests", |walk| walk.has(GPUS[usize::from(gpu)]) == places(layout) && walk.rests());
    assert!(walk.world.gpus.has_serial(held));
    assert!(walk.progress.set_back.is_none(), "{:?}", walk.progress.set_back);
}

/// The agent waits behind the open gate, and nobody else closes it again.
#[test]
fn a_hold_that_somebody_lifts_after_the_claim_is_put_back_and_the_change_goes_on() {
    let mut walk = notebook();
    let (held, (gpu, layout)) = (serial(&walk), recut(&walk));
    walk.want(gpu, layout);
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.lift();
    walk.world.plugin();
    walk.world.plugin();
    until(&mut walk, "it rests", |walk| walk.has(GPUS[usize::from(gpu)]) == places(layout) && walk.rests());
    assert!(walk.world.gpus.has_serial(held));
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

/// The slices move, and are as many as before: what the node's status still says of before is what it has to say.
#[test]
fn a_node_of_which_the_status_is_late_is_opened_when_the_agent_has_seen_that_kubelet_offers_what_there_is() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.late_status = Some(walk.offers());
    walk.want(0, "2g@0 1g@2 1g@3 3g@4");
    until(&mut walk, "the pause is lifted", |walk| phase(walk) == Phase::Verifying && !walk.held);
    assert!(!walk.world.kubelet.is_registered(), "the plugin is not there yet");
    for _ in 0..10 {
        walk.world.agent(Luck::Fine, 0);
        walk.step(Dies::Never);
        assert!(walk.cordoned && phase(&walk) == Phase::Verifying, "it is closed: {:?}", walk.phases);
    }
    until(&mut walk, "it rests", Walk::rests);
}

/// The order stays as long as the agent works on it, whoever forgot of it.
#[test]
fn an_operator_that_forgot_everything_goes_on_with_what_is_claimed() {
    let mut walk = notebook();
    let (held, (gpu, layout)) = (serial(&walk), recut(&walk));
    walk.want(gpu, layout);
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.progress = Progress::default();
    walk.dies();
    until(&mut walk, "it rests", |walk| walk.has(GPUS[usize::from(gpu)]) == places(layout) && walk.rests());
    assert!(walk.world.gpus.has_serial(held));
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

/// It is told less than it ordered: about one of the GPUs the agent knew nothing when it reported.
#[test]
fn an_operator_that_forgot_everything_proves_all_that_it_ordered_and_not_what_it_is_told_of() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.want(0, "2g@0 2g@2 3g@4");
    walk.want(1, "7g@0");
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.progress = Progress::default();
    walk.dies();
    walk.hidden = Some("gpu-b");
    // A new process reports anew, so that it needs another permit.
    walk.world.process.dies();
    // It may be about to get one of the slices of that GPU: nobody knows what it has.
    walk.world.kubelet.bind(Ask::Plain, "3g.40gb".parse().unwrap());
    let claimed = walk.world.node.now().1;
    let report = |walk: &Walk| walk.world.node.now().2.map(|account| account.report);
    let before = report(&walk);
    for _ in 0..30 {
        walk.world.agent(Luck::Fine, 0);
        walk.step(Dies::Never);
    }
    assert_eq!(phase(&walk), Phase::Changing);
    assert!(report(&walk) > before, "it has reported anew");
    assert_eq!(walk.world.node.now().1, claimed, "no other permit is given");
}

/// MIG manager may have the node from then on, but not while its operands are paused for what is half done.
#[test]
fn an_operator_that_forgot_everything_waits_for_what_is_claimed_by_an_agent_that_only_reports_from_now_on() {
    let mut walk = notebook();
    let (held, (gpu, layout)) = (serial(&walk), recut(&walk));
    walk.want(gpu, layout);
    until(&mut walk, "it is claimed", |walk| phase(walk) == Phase::Changing);
    walk.only_reports();
    walk.progress = Progress::default();
    walk.dies();
    until(&mut walk, "it is over", |walk| phase(walk) == Phase::Idle && !walk.cordoned && !walk.held);
    assert_eq!(walk.has(GPUS[usize::from(gpu)]), places(layout));
    assert!(walk.world.gpus.has_serial(held));
    let outlook = walk.last.as_ref().map(|answer| answer.outlook.clone());
    assert_eq!(outlook, Some(Outlook::Holding(StartBlocker::HandingBack)));
    assert_eq!(walk.world.breaches, [] as [String; 0]);
}

/// By a clock that was put back, the second change begins at the moment at which the first one began. What the agent says
/// of the first must not be taken for the outcome of the second.
#[test]
fn two_changes_that_begin_at_the_same_moment_are_two() {
    let mut walk = Walk::new(["1g@0 1g@1 2g@2 3g@4", "3g@0 3g@4"]);
    walk.want(0, "3g@0 3g@4");
    let id = |walk: &Walk| Some(walk.progress.target.as_ref()?.slices.as_ref()?.id.clone());
    until(&mut walk, "the first one begins", |walk| id(walk).is_some());
    let (begun, first) = (walk.now, id(&walk));
    until(&mut walk, "it is done", |walk| walk.has("gpu-a") == places("3g@0 3g@4") && walk.rests());
    walk.want(0, "7g@0");
    (walk.now, walk.clock_stands) = (begun, true);
    until(&mut walk, "the second one begins", |walk| id(walk).is_some());
    assert_eq!(walk.now, begun);
    assert!(id(&walk) != first, "{first:?}");
    walk.clock_stands = false;
    until(&mut walk, "it is done", |walk| walk.has("gpu-a") == places("7g@0") && walk.rests());
}
