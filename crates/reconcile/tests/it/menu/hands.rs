//! What people, other programs and clocks do to profiles: their hands come first, and nothing is done sooner for it.

use super::*;
use crate::queues::note;

fn memory(cluster: &mut Cluster, memory: &str) {
    for node in ["n1", "n2"] {
        cluster.edit_node(node, |node| {
            let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
            allocatable.get_mut("memory").unwrap().0 = memory.to_owned();
        });
    }
}

/// With a little more memory another profile would be made today, by another name. Whoever has switched this one off has
/// switched that one off, too.
#[test]
fn a_profile_that_somebody_switched_off_is_not_replaced_by_one_that_is_on_for_a_little_memory() {
    let mut cluster = fleet();
    round(&mut cluster);
    let off = name(&cluster, &["7g-80gb"]);
    annotate(&mut cluster, &off, DISABLED, "true");
    memory(&mut cluster, "260Gi");
    assert_eq!(minutes(&mut cluster, 60), [""; 0]);
    assert_eq!(stand(&cluster, &off), Some(Stand::SetByHand));
}

/// One that we have withdrawn ourselves is no reason: what is offered again is what fits today.
#[test]
fn what_was_withdrawn_keeps_nothing_from_being_made_anew() {
    let mut cluster = fleet();
    round(&mut cluster);
    let before = name(&cluster, &["7g-80gb"]);
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 12), [format!("withdraw {before}")]);
    memory(&mut cluster, "300Gi");
    cluster.policy(json!({"type": "DemandDriven"}));
    let done = minutes(&mut cluster, 1);
    assert!(
        done.len() == 1
            && done[0].starts_with("create gpu-research-")
            && done[0] != format!("create {before}"),
        "{done:?}"
    );
}

/// Nobody can have what it offers any more: it goes as one does that we disabled.
#[test]
fn a_profile_that_somebody_switched_off_is_deleted_after_a_while_once_nobody_can_have_it() {
    let mut cluster = fleet();
    round(&mut cluster);
    let off = name(&cluster, &["7g-80gb"]);
    annotate(&mut cluster, &off, DISABLED, "true");
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 10), [""; 0]);
    assert_eq!(minutes(&mut cluster, 1), [format!("delete {off}")]);
}

/// Its page may be open somewhere, so that it is chosen yet.
#[test]
fn a_profile_is_deleted_only_a_while_after_it_was_withdrawn_or_where_nobody_can_say_when_that_was() {
    let mut cluster = fleet();
    round(&mut cluster);
    let large = name(&cluster, &["7g-80gb"]);
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 11), [format!("withdraw {large}")]);
    assert_eq!(minutes(&mut cluster, 9), [""; 0]);
    let mut unreadable = fleet();
    unreadable.objects = cluster.objects.clone();
    unreadable.now = cluster.now;
    annotate(&mut unreadable, &large, WITHDRAWN, "a while ago");
    assert_eq!(round(&mut unreadable), [format!("delete {large}")]);
    assert_eq!(minutes(&mut cluster, 1), [format!("delete {large}")]);
}

/// A profile of another project has the name of one of ours, and somebody there names it.
#[test]
fn who_names_a_profile_of_another_project_keeps_none_of_ours() {
    let mut cluster = fleet();
    round(&mut cluster);
    let large = name(&cluster, &["7g-80gb"]);
    let names = |namespace: &str| {
        json!({"metadata": {"namespace": "team", "name": "old", "annotations": {
            "opendatahub.io/hardware-profile-name": large, "opendatahub.io/hardware-profile-namespace": namespace}},
            "spec": {"template": {"spec": {"containers": [{"name": "old"}]}}}})
    };
    add(&mut cluster, "kubeflow.org/v1", "Notebook", names("team"));
    never_again(&mut cluster, "7g.80gb");
    assert_eq!(minutes(&mut cluster, 30), [format!("withdraw {large}"), format!("delete {large}")]);
}

/// Somebody has edited the one that offers the same. It is theirs now, and offers nothing for us.
#[test]
fn what_somebody_edited_keeps_no_other_profile_from_being_made_when_it_is_due() {
    let mut cluster = fleet();
    round(&mut cluster);
    let edited = name(&cluster, &["7g-80gb"]);
    let identifiers = &mut profile(&mut cluster, &edited).spec.identifiers;
    identifiers[0].max_count = Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(64));
    memory(&mut cluster, "600Gi");
    let done = minutes(&mut cluster, 1);
    assert!(done.len() == 1 && done[0].contains("7g-80gb"), "at once, and of the others later: {done:?}");
}

/// The clock of the machine was wrong, and is set back.
#[test]
fn what_is_remembered_of_the_future_puts_nothing_off() {
    let mut cluster = fleet();
    round(&mut cluster);
    let large = name(&cluster, &["7g-80gb"]);
    never_again(&mut cluster, "7g.80gb");
    let tomorrow = cluster.now + SignedDuration::from_hours(24);
    cluster.objects.menu_differs_since.insert(large.clone(), tomorrow);
    assert_eq!(minutes(&mut cluster, 10), [""; 0]);
    assert_eq!(minutes(&mut cluster, 1), [format!("withdraw {large}")]);
}

#[test]
fn a_plan_that_breaks_a_rule_is_no_ground_to_write_anything() {
    let cluster = fleet();
    assert!(!cluster.round().menu.writes.is_empty());
    assert_eq!(cluster.round_that_thinks(|planned| planned.plan.object(note())).menu.writes, []);
}

#[test]
fn an_installation_that_does_not_say_where_it_is_is_none() {
    let mut cluster = fleet();
    let unfinished = json!({"metadata": {"name": "a-first-one"}, "spec": {"applicationsNamespace": ""}});
    add(&mut cluster, "dscinitialization.opendatahub.io/v2", "DSCInitialization", unfinished);
    assert_eq!(cluster.round().menu.namespace.as_deref(), Some(APPLICATIONS));
}
