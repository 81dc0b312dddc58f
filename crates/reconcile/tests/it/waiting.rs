//! What a policy's status says of who waits and of who holds: who can only be served if somebody changes
//! something, and which workbenches hold slices that nobody uses.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use api::foreign::notebook::LAST_ACTIVITY;
use api::policy_status::{IdleHolder, Unserved};
use jiff::SignedDuration;
use reconcile::Round;

use crate::cluster::Cluster;

fn unserved(round: &Round) -> Unserved {
    round.policies.values().next().unwrap().unserved.clone().unwrap()
}

fn idle(round: &Round) -> Vec<IdleHolder> {
    let policy = round.policies.values().next().unwrap();
    policy.idle_holders.clone().map(|holders| holders.workbenches).unwrap_or_default()
}

/// A node with eight GPUs, whole, all of which are used.
fn full() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    for n in 0..8 {
        cluster.pod(&format!("trains-{n}"), "7g.80gb", Some("n1"));
    }
    cluster
}

#[test]
fn who_waits_is_told_from_who_cannot_be_served_whatever_ends() {
    let mut cluster = full();
    cluster.pod("waits", "3g.40gb", None);
    // A profile of H200, which no GPU of this fleet has.
    cluster.pod("never", "1g.18gb", None);
    let found = unserved(&cluster.round());
    assert_eq!((found.total, found.cannot_be_served), (2, 1), "{found:#?}");
    let reasons: Vec<_> = found.requests.iter().map(|r| (r.name.as_str(), r.reason.as_str())).collect();
    assert!(reasons.contains(&("never", "NoSuchProfile")), "{reasons:?}");
}

#[test]
fn a_workbench_that_was_left_alone_is_named_to_who_looks_for_slices_and_wakes_the_operator_once() {
    let mut cluster = full();
    cluster.workbench("trains-3", "any");
    let used = |cluster: &mut Cluster| {
        let (at, key) = (cluster.now, ("team".to_owned(), "trains-3".to_owned()));
        let lab = Arc::make_mut(cluster.objects.notebooks.get_mut(&key).unwrap());
        lab.metadata.annotations.insert(LAST_ACTIVITY.to_owned(), at.to_string());
    };
    used(&mut cluster);
    // The label by which its controller makes the pod its own.
    let key = ("team".to_owned(), "trains-3".to_owned());
    let pod = std::sync::Arc::make_mut(cluster.objects.pods.get_mut(&key).unwrap());
    pod.metadata.labels = Some([("notebook-name".to_owned(), "trains-3".to_owned())].into());

    let round = cluster.round();
    assert_eq!(idle(&round), []);
    let since = cluster.now;
    assert_eq!(round.wake_at, Some(since + observe::idle::IDLE_AFTER));
    cluster.now += observe::idle::IDLE_AFTER;
    let round = cluster.round();
    let expect = IdleHolder {
        namespace: "team".to_owned(),
        name: "trains-3".to_owned(),
        node: "n1".to_owned(),
        slices: "1 x 7g.80gb".to_owned(),
        last_activity: since,
    };
    assert_eq!(idle(&round), std::slice::from_ref(&expect));
    assert_eq!(round.wake_at, None, "an idle workbench changes nothing by time alone");
    cluster.now += SignedDuration::from_hours(5);
    assert_eq!(idle(&cluster.round()), [expect], "that it goes on is no news");

    used(&mut cluster);
    assert_eq!(idle(&cluster.round()), [], "somebody came back");

    // Who is idle on nodes of nobody, or of another policy, is no news to this one.
    cluster.now += observe::idle::IDLE_AFTER;
    cluster.edit_policy(|policy| {
        policy.spec.node_selector.match_labels = [("pool".to_owned(), "elsewhere".to_owned())].into();
    });
    let round = cluster.round();
    assert_eq!((round.planned.view.idle.holders.len(), idle(&round)), (1, vec![]));
}
