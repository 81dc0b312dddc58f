//! What is told, and when.

use agent::{Gate, Step, Writes};

use crate::scene::{Scene, listed, recorded, wish};

#[test]
fn at_rest_it_writes_only_what_is_new() {
    let mut scene = Scene::new("1g@0 1g@1");
    scene.writes(Writes::Report);
    assert_eq!(scene.step(), Step::Rest);
    scene.gate = Gate::Closed;
    assert_eq!(scene.step(), Step::Rest, "a plugin that restarts is nobody's news");
    scene.listed.push(listed("nb", "1g@0"));
    scene.writes(Writes::Report);
    assert_eq!(scene.step(), Step::Rest);
    let agent::GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    slices[0].busy = true;
    assert_eq!(scene.step(), Step::Rest, "that who has a slice computes is nothing new");
    let agent::GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    slices[1].busy = true;
    scene.writes(Writes::Report);
}

#[test]
fn each_process_tells_an_account_of_its_own() {
    let mut scene = Scene::new("1g@0");
    scene.writes(Writes::Report);
    let first = scene.report();
    scene.remembered = agent::Remembered::default();
    scene.writes(Writes::Report);
    assert_eq!(scene.report(), first.next());
}

#[test]
fn while_a_change_waits_only_what_touches_its_proof_is_told() {
    let mut scene = Scene::new("1g@0 1g@1 3g@4");
    scene.recorded = vec![recorded("u1", "main", "3g@4")];
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "2g@0 3g@4"));
    scene.listed.push(listed("nb", "1g@0"));
    assert!(matches!(scene.step(), Step::Wait(_)), "kubelet still gives slices away");
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    scene.listed.push(listed("other", "3g@4"));
    assert!(matches!(scene.step(), Step::Wait(_)), "that slice stays");
    scene.recorded.clear();
    assert!(matches!(scene.step(), Step::Wait(_)), "it stays whoever has it");
    scene.listed.remove(0);
    scene.writes(Writes::Report);
    scene.recorded.push(recorded("u2", "main", "3g@4"));
    scene.writes(Writes::Report);
    assert!(matches!(scene.step(), Step::Wait(_)));
}

/// The operator's proof fails for either, and it cannot know that it would not any more.
#[test]
fn while_a_change_waits_it_is_told_whether_a_slice_that_goes_is_busy_and_whether_the_books_can_be_read() {
    let mut scene = Scene::new("1g@0 1g@1 3g@4");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "2g@0 3g@4"));
    scene.gate = Gate::Closed;
    scene.writes(Writes::Report);
    let busy = |scene: &mut Scene, slice: usize, busy: bool| {
        let agent::GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
        slices[slice].busy = busy;
    };
    busy(&mut scene, 2, true);
    assert!(matches!(scene.step(), Step::Wait(_)), "that slice stays");
    for is_busy in [true, false] {
        busy(&mut scene, 0, is_busy);
        scene.writes(Writes::Report);
        assert_eq!(scene.prove(Vec::new()).is_err(), is_busy);
    }
    for why in [Some("the checksum is wrong"), None] {
        scene.unreadable = why;
        scene.writes(Writes::Report);
        assert_eq!(scene.prove(Vec::new()).is_err(), why.is_some());
    }
    assert!(matches!(scene.step(), Step::Wait(_)));
}

#[test]
fn the_open_gate_is_told_once_after_the_outcome() {
    let mut scene = Scene::new("1g@0");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0", "1g@0"));
    scene.gate = Gate::Closed;
    scene.writes(Writes::Outcome);
    scene.gate = Gate::Ajar;
    assert_eq!(scene.step(), Step::Rest);
    scene.gate = Gate::Open;
    scene.writes(Writes::Report);
    assert_eq!(scene.step(), Step::Rest);
}
