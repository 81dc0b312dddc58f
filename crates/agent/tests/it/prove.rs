//! The controller's proof.

use agent::{
    BootId, ChangeState, Container, Gate, GpuState, Outcome, Permit, PodLife, PodList, PodUid, ReportNumber,
    Stage, Unproven, Writes,
};

use crate::scene::{Scene, device, listed, pod, recorded, wish};

/// A node whose gate is closed for a change of `1g@0 1g@1` beside a `3g@4` that u1 has.
fn closed() -> Scene {
    let mut scene = Scene::new("1g@0 1g@1 3g@4");
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "2g@0 3g@4"));
    scene.gate = Gate::Closed;
    scene.listed = vec![listed("nb", "3g@4")];
    scene.recorded = vec![recorded("u1", "main", "3g@4")];
    scene.writes(Writes::Report);
    scene
}

#[test]
fn what_nobody_has_and_nobody_may_get_is_proved_free() {
    let scene = closed();
    let permit = scene.prove(vec![pod("u1", "3g@4")]);
    assert_eq!(permit, Ok(Permit { report: scene.report(), gone: std::collections::BTreeSet::new() }));
}

#[test]
fn a_pod_that_asks_and_has_nothing_yet_may_be_about_to_get_it() {
    let mut scene = closed();
    let asks = pod("u2", "1g@0");
    assert!(matches!(scene.prove(vec![asks.clone()]), Err(Unproven::Unaccounted { .. })));
    // What comes counts as what goes: who turns back destroys it.
    assert!(matches!(scene.prove(vec![pod("u2", "2g@0")]), Err(Unproven::Unaccounted { .. })));
    // It gets what stays, it is refused, or it is gone.
    assert!(scene.prove(vec![agent::Pod { life: PodLife::Ended, ..asks.clone() }]).is_ok());
    scene.recorded.push(recorded("u2", "main", "1g@1"));
    scene.writes(Writes::Report);
    assert!(matches!(scene.prove(vec![asks]), Err(Unproven::NotFree { .. })));
}

#[test]
fn a_pod_is_accounted_for_container_by_container_and_by_its_uid() {
    let mut scene = closed();
    let mut asks = pod("u2", "3g@4");
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "1g@0 1g@1"));
    // The other pod's slice is of the profile, and is not its own.
    assert!(matches!(scene.prove(vec![pod("u1", "3g@4"), asks.clone()]), Err(Unproven::Unaccounted { .. })));
    asks.uid = PodUid("u1".to_owned());
    let second = Container { name: "side".to_owned(), ..asks.containers[0].clone() };
    asks.containers.push(second);
    assert!(
        matches!(scene.prove(vec![asks]), Err(Unproven::Unaccounted { container, .. }) if container == "side")
    );
}

/// For an eviction: a pod that had the name of the one that is there may be the one that `List` names.
#[test]
fn who_has_what_goes_is_known_by_uid_and_not_by_name_and_nobody_is_where_the_books_are_doubted() {
    use agent::prove::{have_what_goes, may_get_what_goes};

    let mut scene = closed();
    scene.listed.push(listed("namesake", "1g@0"));
    scene.recorded.push(recorded("u2", "main", "1g@1"));
    scene.writes(Writes::Report);
    let (change, account) = (scene.wish.clone().unwrap(), scene.account.clone().unwrap());
    let uids = |uids: &[&str]| uids.iter().map(|uid| PodUid((*uid).to_owned())).collect();
    assert_eq!(have_what_goes(&change, &account), uids(&["u2"]), "u1 has what stays");
    assert!(may_get_what_goes(&pod("u3", "1g@0"), &change, &account));
    assert!(!may_get_what_goes(&pod("u2", "1g@0"), &change, &account), "it has what it asks for");
    assert!(!may_get_what_goes(&pod("u1", "3g@4"), &change, &account), "it asks for what stays");
    let ended = agent::Pod { life: PodLife::Ended, ..pod("u3", "1g@0") };
    assert!(!may_get_what_goes(&ended, &change, &account));

    let mut doubted = account;
    doubted.known.books = doubted.known.books.doubted(Some("half a file".to_owned()));
    assert_eq!(have_what_goes(&change, &doubted), uids(&[]));
}

/// The second may be the one that goes.
#[test]
fn a_container_that_has_one_of_the_two_that_it_asks_for_is_not_accounted_for() {
    let mut scene = closed();
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "1g@0 2g@2 3g@4"));
    scene.recorded.push(recorded("u2", "main", "1g@0"));
    scene.writes(Writes::Report);
    let mut asks = pod("u2", "1g@0");
    assert!(scene.prove(vec![asks.clone()]).is_ok());
    asks.containers[0].asks.values_mut().for_each(|count| *count = 2);
    assert!(matches!(scene.prove(vec![asks]), Err(Unproven::Unaccounted { .. })));
}

#[test]
fn a_request_by_another_name_of_gpus_is_accounted_for_by_any_device() {
    let scene = closed();
    let mut asks = pod("u1", "3g@4");
    asks.containers[0].asks = [("nvidia.com/gpu".to_owned(), 1)].into();
    assert!(scene.prove(vec![asks.clone()]).is_ok());
    asks.uid = PodUid("u2".to_owned());
    assert!(matches!(scene.prove(vec![asks]), Err(Unproven::Unaccounted { .. })));
}

/// Somebody knows that the pod asks, and not in which container: it may have nothing of that yet.
#[test]
fn a_request_of_which_nobody_knows_the_container_is_never_accounted_for() {
    let mut scene = closed();
    scene.recorded.push(recorded("u2", "main", "1g@1"));
    scene.writes(Writes::Report);
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "1g@1 3g@4"));
    assert!(scene.prove(vec![pod("u2", "1g@1")]).is_ok());
    let mut asks = pod("u2", "1g@1");
    let rest = Container { name: String::new(), ..asks.containers[0].clone() };
    asks.containers.push(rest);
    let missing = scene.prove(vec![asks]).unwrap_err().to_string();
    assert_eq!(missing, "kubelet may be about to give nvidia.com/mig-1g.10gb to pod team/u2");
}

#[test]
fn while_a_pod_of_the_plugin_is_left_nothing_is_proved() {
    let scene = closed();
    let plugin = agent::Pod { is_plugin: true, containers: Vec::new(), ..pod("plugin", "1g@0") };
    assert!(matches!(scene.prove(vec![plugin]), Err(Unproven::PluginStays { .. })));
}

#[test]
fn a_list_of_before_the_account_proves_nothing() {
    let scene = closed();
    let list = PodList { begun_after: ReportNumber(scene.report().0 - 1), pods: Vec::new() };
    let proof = agent::prove(scene.wish.as_ref().unwrap(), scene.account.as_ref().unwrap(), &list);
    assert_eq!(proof, Err(Unproven::ListTooOld));
}

#[test]
fn a_gate_that_is_open_or_was_closed_for_another_change_proves_nothing() {
    let mut scene = closed();
    scene.wish.as_mut().unwrap().id.0.push('2');
    assert_eq!(scene.prove(Vec::new()), Err(Unproven::GateNotClosed));
    scene = closed();
    scene.gate = Gate::Ajar;
    scene.writes(Writes::Report);
    assert_eq!(scene.prove(Vec::new()), Err(Unproven::GateNotClosed));
}

/// What there is now may be somebody's by the next change.
#[test]
fn a_change_that_is_over_gets_no_permit() {
    let mut scene = closed();
    scene.account.as_mut().unwrap().change = Some(ChangeState {
        id: scene.wish.as_ref().unwrap().id.clone(),
        boot: BootId(scene.boot.to_owned()),
        stage: Stage::Ended(Outcome::Done),
    });
    assert_eq!(scene.prove(vec![pod("u1", "3g@4")]), Err(Unproven::Ended));
}

#[test]
fn who_holds_what_goes_keeps_it_and_who_is_gone_is_named() {
    let mut scene = closed();
    scene.recorded.push(recorded("u2", "init", "1g@0"));
    scene.writes(Writes::Report);
    assert!(matches!(scene.prove(vec![pod("u2", "2g@2")]), Err(Unproven::Unaccounted { .. })));
    let mut init = pod("u2", "1g@0");
    init.containers[0].name = "init".to_owned();
    assert!(matches!(scene.prove(vec![init]), Err(Unproven::NotFree { .. })));
    let permit = scene.prove(vec![pod("u1", "3g@4")]).unwrap();
    assert_eq!(permit.gone, [PodUid("u2".to_owned())].into());
    scene.listed.push(listed("init", "1g@0"));
    scene.writes(Writes::Report);
    assert!(matches!(scene.prove(Vec::new()), Err(Unproven::NotFree { .. })), "kubelet lists it");
}

#[test]
fn a_device_that_nobody_knows_keeps_everything() {
    let mut scene = closed();
    scene.listed.push(listed("odd", "1g@5"));
    scene.writes(Writes::Report);
    assert!(matches!(scene.prove(Vec::new()), Err(Unproven::NotFree { .. })));
}

#[test]
fn of_a_slice_that_is_divided_nobody_has_it_all() {
    let mut scene = closed();
    let GpuState::Cut(slices) = &mut scene.layout.gpus[0].state else { panic!() };
    slices[2].devices.push(device("1g@5").id);
    scene.wish = Some(wish("1g@0 1g@1 3g@4", "1g@0 1g@1"));
    scene.account.as_mut().unwrap().known.layout = scene.layout.clone();
    assert!(matches!(scene.prove(vec![pod("u1", "3g@4")]), Err(Unproven::Unaccounted { .. })));
}
