//! Who holds slices and is idle: workbenches, as culling sees them.

use crate::words::*;
use serde_json::{Value, json};

const LAST_ACTIVITY: &str = "notebooks.kubeflow.org/last-activity";

fn lab(name: &str, active: Option<&str>) -> Value {
    let mut lab = notebook("vision", name);
    if let Some(at) = active {
        lab["metadata"]["annotations"] = json!({LAST_ACTIVITY: at});
    }
    lab
}

fn pod_of(lab: &str, asks: &[(&str, u32)], on: Option<&str>) -> Value {
    let mut pod = pod("vision", &format!("{lab}-0"), asks, on);
    pod["metadata"]["labels"] = json!({"notebook-name": lab, "statefulset": lab});
    pod
}

/// `vision/lab holds 3g.40gb on n1 since …`, for each, and when the next follows.
fn idle(objects: &[Value]) -> (Vec<String>, Option<String>) {
    let seen = see(objects);
    let in_words = |holder: &observe::idle::IdleHolder| {
        let (namespace, name) = &holder.notebook;
        let slices: Vec<_> = holder.slices.iter().map(|(profile, n)| format!("{n} x {profile}")).collect();
        format!("{namespace}/{name} holds {} on {} since {}", slices.join(", "), holder.node, holder.since)
    };
    (seen.idle.holders.iter().map(in_words).collect(), seen.idle.next.map(|at| at.to_string()))
}

#[test]
fn a_workbench_that_nobody_has_used_for_hours_is_named_with_what_it_holds_the_longest_first() {
    let slice = [("mig-3g.40gb", 1)];
    let (holders, next) = idle(&[
        node("n1"),
        lab("since-morning", Some("2026-11-21T06:00:00Z")),
        pod_of("since-morning", &slice, Some("n1")),
        lab("since-yesterday", Some("2026-11-20T17:00:00Z")),
        pod_of("since-yesterday", &slice, Some("n1")),
        lab("at-work", Some("2026-11-21T08:00:00Z")),
        pod_of("at-work", &slice, Some("n1")),
    ]);
    assert_eq!(
        holders,
        [
            "vision/since-yesterday holds 1 x 3g.40gb on n1 since 2026-11-20T17:00:00Z",
            "vision/since-morning holds 1 x 3g.40gb on n1 since 2026-11-21T06:00:00Z",
        ]
    );
    assert_eq!(next.as_deref(), Some("2026-11-21T10:00:00Z"), "by time alone, the one at work follows");
}

/// The names of one namespace's workbenches are in another order than the namespaces.
#[test]
fn each_team_has_a_workbench_of_the_same_name_and_is_told_of_its_own() {
    let of = |team: &str, mut object: Value| {
        object["metadata"]["namespace"] = team.into();
        object
    };
    let slice = [("mig-3g.40gb", 1)];
    let mut all = vec![node("n1")];
    for (team, name, active) in [
        ("alpha", "zoo", "2026-11-20T17:00:00Z"),
        ("alpha", "lab", "2026-11-21T08:00:00Z"),
        ("beta", "lab", "2026-11-20T18:00:00Z"),
        ("beta", "art", "2026-11-20T19:00:00Z"),
    ] {
        all.extend([of(team, lab(name, Some(active))), of(team, pod_of(name, &slice, Some("n1")))]);
    }
    assert_eq!(
        idle(&all).0,
        [
            "alpha/zoo holds 1 x 3g.40gb on n1 since 2026-11-20T17:00:00Z",
            "beta/lab holds 1 x 3g.40gb on n1 since 2026-11-20T18:00:00Z",
            "beta/art holds 1 x 3g.40gb on n1 since 2026-11-20T19:00:00Z",
        ]
    );
}

#[test]
fn who_holds_nothing_or_waits_or_says_nothing_of_its_use_is_not_idle() {
    let (long_ago, slice) = (Some("2026-11-01T00:00:00Z"), [("mig-3g.40gb", 1)]);
    let mut ended = pod_of("ended", &slice, Some("n1"));
    ended["status"]["phase"] = "Succeeded".into();
    let found = idle(&[
        node("n1"),
        lab("without-a-slice", long_ago),
        pod_of("without-a-slice", &[], Some("n1")),
        lab("waits", long_ago),
        pod_of("waits", &slice, None),
        lab("ended", long_ago),
        ended,
        lab("never-culled", None),
        pod_of("never-culled", &slice, Some("n1")),
    ]);
    assert_eq!(found, (Vec::new(), None));
}

#[test]
fn a_last_activity_that_is_no_time_or_lies_in_a_far_future_is_none() {
    let slice = [("mig-3g.40gb", 1)];
    for nonsense in ["yesterday", "", "9999-12-30T22:59:59Z", "2026-13-01T00:00:00Z"] {
        let found = idle(&[node("n1"), lab("lab", Some(nonsense)), pod_of("lab", &slice, Some("n1"))]);
        assert_eq!(found.0, Vec::<String>::new(), "{nonsense}");
    }
}
