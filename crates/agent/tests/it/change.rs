//! The steps of a change.

use agent::remembered::MOST_TRIES;
use agent::{Act, ChangeId, Gate, GpuState, Outcome, Remembered, Stage, Step, Turn, WaitsFor, Why, Writes};

use crate::model::places;
use crate::scene::{Scene, listed, name, wish};

#[track_caller]
fn waits(scene: &mut Scene) -> WaitsFor {
    match scene.step() {
        Step::Wait(waits) => waits,
        step => panic!("it should wait: {step:?}"),
    }
}

#[track_caller]
fn ends(scene: &mut Scene) -> Outcome {
    scene.writes(Writes::Outcome);
    let Stage::Ended(outcome) = scene.stage() else { panic!("it should have ended: {:?}", scene.stage()) };
    outcome.clone()
}

#[test]
fn a_change_goes_from_the_closed_gate_to_its_outcome_in_four_writes() {
    let mut scene = Scene::new("1g@0 1g@1 3g@4");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "2g@0 3g@4"));
    assert_eq!(waits(&mut scene), WaitsFor::Gate);
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    assert!(matches!(waits(&mut scene), WaitsFor::Permit { .. }));
    scene.permit();
    scene.writes(Writes::Claim);
    scene.drives(Act::Destroy, "1g@0");
    scene.drives(Act::Destroy, "1g@1");
    scene.drives(Act::Create, "2g@0");
    assert_eq!(ends(&mut scene), Outcome::Done);
    assert_eq!(scene.step(), Step::Rest);
    scene.gate = Gate::Open;
    scene.writes(Writes::Report);
    scene.wish = None;
    assert_eq!(scene.step(), Step::Rest);
}

#[test]
fn what_only_creates_needs_neither_gate_nor_permit() {
    let mut scene = Scene::claimed("3g@4", "3g@4 2g@0");
    scene.gate = Gate::Open;
    scene.drives(Act::Create, "2g@0");
    assert_eq!(ends(&mut scene), Outcome::Done);
}

#[test]
fn a_permit_for_an_account_of_an_open_gate_is_worth_nothing() {
    let mut scene = Scene::new("1g@0");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0", "2g@0"));
    scene.permit();
    assert_eq!(waits(&mut scene), WaitsFor::Gate);
}

#[test]
fn a_gate_that_opened_voids_the_permit_although_it_closes_again() {
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.drives(Act::Destroy, "1g@0");
    scene.gate = Gate::Ajar;
    scene.writes(Writes::Report);
    assert_eq!(waits(&mut scene), WaitsFor::Gate);
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    assert!(matches!(waits(&mut scene), WaitsFor::Permit { .. }));
    scene.permit();
    scene.drives(Act::Destroy, "1g@1");
}

#[test]
fn a_permit_for_an_earlier_account_is_not_claimed() {
    let mut scene = Scene::new("1g@0 1g@1");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 1g@1", "2g@0"));
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    scene.permit();
    scene.gate = Gate::Ajar;
    scene.writes(Writes::Report);
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    assert!(matches!(waits(&mut scene), WaitsFor::Permit { .. }));
}

#[test]
fn a_slice_that_somebody_turns_out_to_have_is_not_destroyed() {
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.listed.push(listed("late", "1g@0"));
    scene.writes(Writes::Report);
    assert!(matches!(waits(&mut scene), WaitsFor::Permit { .. }));
    // Whatever the controller thinks.
    scene.permit();
    assert!(matches!(waits(&mut scene), WaitsFor::Free { .. }));
}

#[test]
fn books_that_were_read_before_the_gate_are_read_again() {
    let mut scene = Scene::claimed("1g@0", "2g@0");
    let mut observation = scene.observation();
    std::mem::swap(&mut observation.look.gate.turn, &mut observation.look.books.turn);
    assert_eq!(agent::next(&observation, &scene.remembered), Step::Look);
}

#[test]
fn what_was_seen_before_our_own_act_is_not_believed() {
    let mut scene = Scene::claimed("1g@0", "2g@0");
    let observation = scene.observation();
    scene.remembered.did(Act::Destroy, &name("1g@0"), Turn(scene.turn + 1));
    assert_eq!(agent::next(&observation, &scene.remembered), Step::Look);
}

/// Kubelet was asked after it, and the driver before it.
#[test]
fn a_layout_that_was_seen_before_our_own_act_is_not_believed() {
    let mut scene = Scene::claimed("1g@0", "2g@0");
    let mut observation = scene.observation();
    scene.remembered.did(Act::Destroy, &name("1g@0"), Turn(scene.turn + 1));
    observation.look.gate.turn = Turn(scene.turn + 2);
    observation.look.books.turn = Turn(scene.turn + 3);
    assert_eq!(agent::next(&observation, &scene.remembered), Step::Look);
    observation.look.layout.turn = Turn(scene.turn + 4);
    assert!(agent::next(&observation, &scene.remembered) != Step::Look);
}

/// Whoever turns back destroys what came. What was there before is not ours to destroy.
#[test]
fn a_slice_that_is_to_come_and_is_there_already_is_refused() {
    let mut scene = Scene::new("1g@0 1g@2");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0", "1g@2 1g@3"));
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    scene.permit();
    let Outcome::Refused { why: Why::Differs(difference) } = ends(&mut scene) else {
        panic!("it is refused")
    };
    assert!(difference.found.ends_with("is there already"), "{}", difference.found);
}

#[test]
fn a_layout_that_is_not_as_planned_is_refused_and_nothing_is_done() {
    for (there, what) in
        [("1g@0 3g@4", "one is gone"), ("1g@0 1g@1 1g@2 3g@4", "one too many"), ("2g@0 3g@4 1g@2", "others")]
    {
        let mut scene = Scene::new(there);
        scene.writes(Writes::Report);
        scene.wish = Some(wish("1g@0 1g@1 3g@4", "2g@0 3g@4"));
        scene.gate = Gate::Closed;
        scene.writes(Writes::Report);
        assert!(matches!(ends(&mut scene), Outcome::Refused { why: Why::Differs(_) }), "{what}");
    }
}

#[test]
fn a_foreign_slice_that_turns_up_after_the_claim_stops_the_destruction() {
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.drives(Act::Destroy, "1g@0");
    let GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    slices.push(crate::scene::layout("3g@4").gpus[0].slices()[0].clone());
    scene.writes(Writes::Restoring);
    scene.drives(Act::Create, "1g@0");
    assert!(matches!(ends(&mut scene), Outcome::Left { why: Why::Differs(_) }));
}

#[test]
fn what_came_is_not_taken_back_beside_a_foreign_slice() {
    let mut scene = Scene::claimed("2g@0 2g@2", "1g@0 3g@4");
    scene.drives(Act::Destroy, "2g@0");
    scene.drives(Act::Destroy, "2g@2");
    scene.drives(Act::Create, "1g@0");
    for _ in 0..MOST_TRIES {
        scene.is_refused(Act::Create, "3g@4");
    }
    scene.writes(Writes::Restoring);
    let GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    slices.push(crate::scene::layout("1g@6").gpus[0].slices()[0].clone());
    for _ in 0..MOST_TRIES {
        scene.is_refused(Act::Create, "2g@0");
    }
    scene.drives(Act::Create, "2g@2");
    assert!(matches!(ends(&mut scene), Outcome::Left { .. }));
    assert!(scene.layout.slice(&name("1g@0")).is_some());
}

#[test]
fn a_slice_that_somebody_divided_is_not_as_planned() {
    let mut scene = Scene::new("1g@0 3g@4");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 3g@4", "1g@0 2g@4"));
    scene.gate = Gate::Closed;
    let GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    let divided = slices.iter_mut().find(|slice| slice.place == name("3g@4").place).unwrap();
    divided.devices.push(agent::DeviceId("MIG-3g@4-second".to_owned()));
    scene.writes(Writes::Report);
    let Outcome::Refused { why: Why::Differs(difference) } = ends(&mut scene) else {
        panic!("it should be refused: {:?}", scene.stage())
    };
    assert!(difference.found.contains("divided further"), "{}", difference.found);
}

#[test]
fn what_was_destroyed_is_restored_when_the_driver_refuses_the_rest() {
    let mut scene = Scene::claimed("1g@0 1g@1 3g@4", "2g@0 3g@4");
    scene.drives(Act::Destroy, "1g@0");
    for _ in 0..MOST_TRIES {
        scene.is_refused(Act::Destroy, "1g@1");
    }
    scene.writes(Writes::Restoring);
    scene.drives(Act::Create, "1g@0");
    assert!(matches!(ends(&mut scene), Outcome::Restored { why: Why::Driver { act: Act::Destroy, .. } }));
}

#[test]
fn what_came_goes_again_before_what_was_there_comes_back() {
    let mut scene = Scene::claimed("2g@0 2g@2", "1g@0 3g@4");
    scene.drives(Act::Destroy, "2g@0");
    scene.drives(Act::Destroy, "2g@2");
    scene.drives(Act::Create, "1g@0");
    for _ in 0..MOST_TRIES {
        scene.is_refused(Act::Create, "3g@4");
    }
    scene.writes(Writes::Restoring);
    scene.drives(Act::Destroy, "1g@0");
    scene.drives(Act::Create, "2g@0");
    scene.drives(Act::Create, "2g@2");
    assert!(matches!(ends(&mut scene), Outcome::Restored { .. }));
}

#[test]
fn what_came_and_somebody_has_stays() {
    let mut scene = Scene::claimed("2g@0 2g@2", "1g@0 3g@4");
    scene.drives(Act::Destroy, "2g@0");
    scene.drives(Act::Destroy, "2g@2");
    scene.drives(Act::Create, "1g@0");
    for _ in 0..MOST_TRIES {
        scene.is_refused(Act::Create, "3g@4");
    }
    scene.writes(Writes::Restoring);
    scene.listed.push(listed("late", "1g@0"));
    scene.writes(Writes::Report);
    scene.permit();
    assert!(matches!(waits(&mut scene), WaitsFor::Free { .. }));
    scene.wish.as_mut().unwrap().permit = None;
    for _ in 0..MOST_TRIES {
        scene.is_refused(Act::Create, "2g@0");
    }
    scene.drives(Act::Create, "2g@2");
    assert!(matches!(ends(&mut scene), Outcome::Left { why: Why::Driver { .. } }));
}

#[test]
fn a_change_that_is_called_back_is_restored() {
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.wish.as_mut().unwrap().permit = None;
    assert_eq!(ends(&mut scene), Outcome::Refused { why: Why::CalledBack });
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.drives(Act::Destroy, "1g@0");
    scene.wish.as_mut().unwrap().permit = None;
    scene.writes(Writes::Restoring);
    scene.drives(Act::Create, "1g@0");
    assert_eq!(ends(&mut scene), Outcome::Restored { why: Why::CalledBack });
}

#[test]
fn a_new_process_goes_on_from_the_hardware_with_a_permit_for_its_own_account() {
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.drives(Act::Destroy, "1g@0");
    scene.remembered = Remembered::default();
    scene.writes(Writes::Report);
    assert!(matches!(waits(&mut scene), WaitsFor::Permit { .. }));
    scene.permit();
    scene.drives(Act::Destroy, "1g@1");
    scene.remembered = Remembered::default();
    scene.writes(Writes::Report);
    scene.drives(Act::Create, "2g@0");
    assert_eq!(ends(&mut scene), Outcome::Done);
}

#[test]
fn a_slice_without_what_programs_open_is_completed() {
    let mut scene = Scene::claimed("3g@4", "3g@4 2g@0");
    let GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    let mut half = crate::scene::layout("2g@0").gpus[0].slices()[0].clone();
    half.devices.clear();
    slices.push(half);
    scene.drives(Act::Create, "2g@0");
    assert_eq!(ends(&mut scene), Outcome::Done);
}

#[test]
fn after_a_reboot_what_there_is_is_told() {
    let mut scene = Scene::claimed("1g@0 1g@1", "2g@0");
    scene.boot = "boot-2";
    scene.layout = crate::scene::layout("");
    assert_eq!(ends(&mut scene), Outcome::Left { why: Why::Rebooted });
}

#[test]
fn a_gpu_that_does_not_answer_is_refused_before_the_claim_and_waited_for_after_it() {
    let silent = GpuState::Silent { why: "GPU is lost".to_owned() };
    let mut scene = Scene::new("1g@0");
    scene.layout.gpus[0].state = silent.clone();
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0", "1g@0 1g@1"));
    assert!(matches!(ends(&mut scene), Outcome::Refused { why: Why::Silent { .. } }));
    let mut scene = Scene::claimed("1g@0", "2g@0");
    scene.layout.gpus[0].state = silent;
    assert!(matches!(waits(&mut scene), WaitsFor::Driver { .. }));
}

#[test]
fn a_claimed_change_whose_wish_is_gone_ends_and_says_so() {
    let mut scene = Scene::claimed("1g@0", "2g@0");
    scene.wish = None;
    assert_eq!(ends(&mut scene), Outcome::Left { why: Why::WishGone });
    let mut scene = Scene::claimed("1g@0", "2g@0");
    scene.wish.as_mut().unwrap().id = ChangeId("another".to_owned());
    assert_eq!(ends(&mut scene), Outcome::Left { why: Why::WishGone });
}

#[test]
fn a_wish_that_is_none_is_refused() {
    let mut scene = Scene::new("1g@0");
    scene.writes(Writes::Report);
    let mut twice = wish("1g@0", "1g@0 1g@1");
    twice.gpus.push(twice.gpus[0].clone());
    scene.wish = Some(twice);
    assert!(matches!(ends(&mut scene), Outcome::Refused { why: Why::Malformed(_) }));
    let mut many = wish("1g@0", "1g@0 1g@1");
    many.id.0.push('2');
    let profile = places("1g@0").pop_first().unwrap().profile;
    many.gpus[0].after = (0..17).map(|start| agent::Place { profile, start }).collect();
    scene.wish = Some(many);
    assert!(matches!(ends(&mut scene), Outcome::Refused { why: Why::Malformed(_) }));
}
