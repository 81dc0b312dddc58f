//! What a policy's status says of who waits and of who holds: who can only be served if somebody changes
//! something, and which workbenches hold slices that nobody uses.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use api::foreign::notebook::LAST_ACTIVITY;
use api::policy_status::{IdleHolder, IdleHolders, Unserved};
use jiff::{SignedDuration, Timestamp};
use reconcile::Round;

use crate::cluster::Cluster;

fn unserved(round: &Round) -> Unserved {
    round.policies.values().next().unwrap().unserved.clone().unwrap()
}

fn idle_holders(round: &Round) -> IdleHolders {
    round.policies.values().next().unwrap().idle_holders.clone().unwrap_or_default()
}

fn idle(round: &Round) -> Vec<IdleHolder> {
    idle_holders(round).workbenches
}

/// A workbench was last used then. Its pod, which is there, gets the label by which its controller makes it its own.
fn was_used(cluster: &mut Cluster, name: &str, at: Timestamp) {
    let key = ("team".to_owned(), name.to_owned());
    let lab = Arc::make_mut(cluster.objects.notebooks.get_mut(&key).unwrap());
    lab.metadata.annotations.insert(LAST_ACTIVITY.to_owned(), at.to_string());
    let pod = Arc::make_mut(cluster.objects.pods.get_mut(&key).unwrap());
    pod.metadata.labels = Some([("notebook-name".to_owned(), name.to_owned())].into());
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
    let used = |cluster: &mut Cluster| was_used(cluster, "trains-3", cluster.now);
    used(&mut cluster);
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

/// A status has room for some. Whoever looks for a slice asks those first who have left it alone for the longest.
#[test]
fn of_very_many_idle_workbenches_the_fifty_that_are_idle_for_the_longest_are_named_and_all_are_counted() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.is_cut("n1", "1g.10gb", 56);
    let last_used = |n: i64, cluster: &Cluster| cluster.now - SignedDuration::from_hours(3 + n);
    // In no order of their names.
    for n in 0..51_i64 {
        let name = format!("lab-{}", (n * 20) % 51);
        cluster.workbench(&name, "1g.10gb");
        cluster.pod(&name, "1g.10gb", Some("n1"));
        let at = last_used(n, &cluster);
        was_used(&mut cluster, &name, at);
    }
    let found = idle_holders(&cluster.round());
    assert_eq!((found.total, found.workbenches.len()), (51, 50));
    let named: Vec<Timestamp> = found.workbenches.iter().map(|holder| holder.last_activity).collect();
    let expect: Vec<Timestamp> = (1..51).rev().map(|n| last_used(n, &cluster)).collect();
    assert_eq!(named, expect, "who was there three hours ago is the one that is left out");
    assert_eq!(found.workbenches[0].name, format!("lab-{}", (50 * 20) % 51));
}
