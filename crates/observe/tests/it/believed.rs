//! Which reports of an agent are acted upon.

use std::collections::BTreeSet;

use observe::snapshot::record::{self, Recording};
use observe::snapshot::redact::{Keep, redact};
use observe::snapshot::{self, Provenance};
use observe::{Actuator, Objects};
use planner::inventory::{ChangeScope, Hold};
use planner::names::PodRef;
use serde_json::{Value, json};

use crate::agents::{actuator, agent_pod, facts, owner, report, slice};
use crate::words::*;

/// Where the admission policy is missing, whoever may write the status can name a pod of his own, which is there and ready.
#[test]
fn a_report_that_names_a_pod_that_is_no_agent_is_not_acted_upon() {
    let slices = json!([slice("3g.40gb", 4, &[]), slice("1g.10gb", 0, &[])]);
    let impostor = |change: &dyn Fn(&mut Value)| {
        let mut pod = agent_pod();
        change(&mut pod["metadata"]);
        see(&[node("n1"), node("n2"), report(&slices), pod])
    };
    assert_eq!(actuator(&impostor(&|_| {})), Actuator::Agent, "the agent itself");
    for (what, change) in [
        (
            "in another namespace",
            &(|meta: &mut Value| meta["namespace"] = "a-team".into()) as &dyn Fn(&mut Value),
        ),
        ("without its labels", &|meta| meta["labels"] = json!({})),
        ("of another part", &|meta| meta["labels"]["app.kubernetes.io/component"] = "operator".into()),
        ("of nobody", &|meta| meta["ownerReferences"] = json!([])),
        ("of a ReplicaSet", &|meta| {
            meta["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", "slicewright-agent")]);
        }),
    ] {
        let seen = impostor(change);
        assert_eq!(actuator(&seen), Actuator::Operands, "{what}");
        assert!(node_of(&seen, "n1").scope != ChangeScope::SliceBySlice, "{what}");
        assert!(facts(&seen).agent.is_none(), "{what}");
    }
}

/// The agent's pod is there and ready; whether it wrote the report, or the agent of another node, nobody knows.
#[test]
fn without_the_admission_policy_of_the_agents_the_layout_is_believed_and_not_who_is_idle() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 1, &[]), slice("1g.10gb", 0, &[])]);
    let user = |name: &str, asks: &str| {
        let mut pod = pod("a", name, &[(asks, 1)], Some("n1"));
        pod["metadata"]["uid"] = format!("uid-{name}").into();
        pod
    };
    let objects = |label: &str| {
        let mut n1 = node("n1");
        n1["metadata"]["labels"]["nvidia.com/mig.config"] = label.into();
        [n1, report(&slices), agent_pod(), user("p", "mig-3g.40gb"), user("q", "mig-1g.10gb")]
    };
    let unguarded = |all: &mut observe::Objects| all.unguarded_agents = Some("it is not there".to_owned());
    let handed = objects(rollout::names::HANDED_TO_AGENT);
    let seen = see_with(&handed, unguarded);
    let layout =
        ["1g.10gb@0 maybe in use by a/q", "1g.10gb@1 maybe in use by a/q", "3g.40gb@4 in use by a/p"];
    assert_eq!(crate::words::slices(node_of(&seen, "n1"), 0), layout);
    let n1 = node_of(&seen, "n1");
    let why = "the report of the agent that changes its slices is not acted upon, since the admission policy of the agents is not seen";
    assert_eq!(n1.hold, Some(Hold::NotEstablished { why: why.to_owned() }));
    assert!(n1.scope != ChangeScope::SliceBySlice);
    assert!(facts(&seen).agent.as_ref().is_some_and(|agent| agent.unguarded && !agent.alive));
    // A node that MIG manager still has goes on with it.
    assert_eq!(actuator(&see_with(&objects("all-3g.40gb"), unguarded)), Actuator::Operands);
    assert_eq!(actuator(&see(&handed)), Actuator::Agent);
    assert_eq!(node_of(&see(&handed), "n1").hold, None, "with it, as ever");
}

/// By the progress that the rollout stores: for as long as a plugin takes to start, the report is believed.
#[test]
fn on_a_node_that_offers_otherwise_than_its_agent_reports_nobody_is_told_that_a_slice_is_free() {
    let slices = json!([slice("3g.40gb", 4, &[]), slice("1g.10gb", 0, &[])]);
    let held = |since: Value, agent: Value| {
        let mut said = report(&slices);
        said["status"]["rollout"] =
            json!({"phase": "Idle", "progress": {"phase": "Idle", "offersOtherwiseSince": since}});
        let mut handed = node("n1");
        handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
        let seen = see(&[handed, said, agent]);
        let n1 = node_of(&seen, "n1");
        (n1.hold.clone(), n1.schedulable)
    };
    let now = now();
    let seconds = |n: i64| json!((now - jiff::SignedDuration::from_secs(n)).to_string());
    assert_eq!(held(Value::Null, agent_pod()), (None, true));
    assert_eq!(held(seconds(19), agent_pod()), (None, true));
    let why = "it offers other slices than its agent reports, so that nobody can say which a pod may get";
    assert_eq!(held(seconds(20), agent_pod()), (Some(Hold::NotEstablished { why: why.to_owned() }), false));
    // Of an agent that is away something else is said.
    let away = held(seconds(20), pod("a", "p", &[], Some("n1"))).0;
    assert!(away != Some(Hold::NotEstablished { why: why.to_owned() }), "{away:?}");
}

/// Agents name pods by their uids, in who holds a slice and in which pod they are. A recording without these would have no
/// agent that counts, and the plan from it would not be the operator's.
#[test]
fn a_recorded_fleet_with_agents_is_seen_as_it_is_with_its_names_and_without() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &[])]);
    let mut computes = pod("a", "p", &[("mig-3g.40gb", 1)], Some("n1"));
    computes["metadata"]["uid"] = "uid-p".into();
    let waits = pod("a", "q", &[("mig-1g.10gb", 1)], None);
    let mut whole = Objects::default();
    let handed = [node("n1"), node("n2"), report(&slices), agent_pod(), computes, waits];
    let seen = see_with(&handed, |all| whole = all.clone());
    assert_eq!(crate::words::slices(node_of(&seen, "n1"), 0), ["1g.10gb@0 idle", "3g.40gb@4 in use by a/p"]);
    let (without_names, names) =
        redact(&whole, &Keep { namespaces: BTreeSet::new(), labels: BTreeSet::new() });
    let p = names.pod(&PodRef { namespace: "a".to_owned(), name: "p".to_owned() }).to_string();
    for (what, objects, p) in [("as it is", &whole, "a/p".to_owned()), ("without names", &without_names, p)] {
        let recording = Recording { taken_at: now(), cluster: None, provenance: Provenance::default() };
        let mut problems = Vec::new();
        let again = snapshot::read("fleet.yaml", &record::text(&recording, objects), &mut problems);
        assert_eq!(problems, []);
        let again = see_with(&[], |all| *all = again.objects);
        let expected = ["1g.10gb@0 idle".to_owned(), format!("3g.40gb@4 in use by {p}")];
        assert_eq!(crate::words::slices(node_of(&again, "n1"), 0), expected, "{what}");
        assert_eq!(actuator(&again), Actuator::Agent, "{what}");
    }
}

/// Its pod is there and ready. What is said of the GPUs is of somebody else, or of before a reboot.
#[test]
fn an_agent_that_has_not_itself_seen_the_gpus_in_this_boot_changes_nothing() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &[])]);
    for (what, value) in [("by", "Controller"), ("bootId", "b-0")] {
        let mut said = report(&slices);
        said["status"]["observed"][what] = value.into();
        let mut handed = node("n1");
        handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
        let seen = see(&[handed, node("n2"), said, agent_pod()]);
        assert!(facts(&seen).agent.as_ref().is_some_and(|agent| !agent.alive), "{what}");
        assert!(node_of(&seen, "n1").scope != ChangeScope::SliceBySlice, "{what}");
    }
}

/// Seen on kind: an agent was uninstalled, MIG manager cut the node anew, and for ten minutes nobody knew its layout.
#[test]
fn what_mig_manager_has_cut_since_counts_for_more_than_the_report_of_an_agent_that_is_away() {
    let slices = json!([slice("3g.40gb", 4, &[]), slice("1g.10gb", 0, &[])]);
    let n1 = || cut(node("n1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let seven = json!({"mig": {"1g.10gb": 7}});
    let verified = json!({
        "at": "2026-11-21T08:59:01Z", "bootId": "b-1", "label": "all-1g.10gb", "layout": {"0": seven, "1": seven},
    });
    let seen = |n1: Value, progress: Value, agent: Option<Value>| {
        let mut said = report(&slices);
        said["status"]["rollout"] = json!({"phase": "Idle", "progress": progress});
        let seen = see(&[vec![n1, said], agent.into_iter().collect()].concat());
        (crate::words::slices(node_of(&seen, "n1"), 0), node_of(&seen, "n1").hold.is_some())
    };
    let idle = |verified: &Value| json!({"phase": "Idle", "verified": verified});
    let all_1g: Vec<String> = vec!["1g.10gb idle".to_owned(); 7];
    assert_eq!(seen(n1(), idle(&verified), None), (all_1g.clone(), false), "its pod is gone");
    let mut dead = agent_pod();
    dead["status"]["conditions"][0]["status"] = "False".into();
    assert_eq!(seen(n1(), idle(&verified), Some(dead)), (all_1g, false), "its pod is there and does nothing");
    // As long as it lives it knows better; and what it may have changed since, nobody else knows.
    let believed = |what: &str, seen: (Vec<String>, bool)| {
        assert_eq!(seen.0, ["1g.10gb@0 idle", "3g.40gb@4 idle"], "{what}");
    };
    believed("it lives", seen(n1(), idle(&verified), Some(agent_pod())));
    for (what, key, value) in [
        ("verified before the report", "at", json!("2026-11-21T08:59:00Z")),
        ("in another boot", "bootId", json!("b-0")),
        ("as another layout", "label", json!("all-2g.20gb")),
        ("by an agent", "slices", json!({"GPU-0": []})),
    ] {
        let mut other = verified.clone();
        other[key] = value;
        believed(what, seen(n1(), idle(&other), None));
    }
    let mut begun = idle(&verified);
    begun["target"] = json!({
        "layout": rollout::NodeLayout::default(), "label": "all-1g.10gb", "slices": {"id": "change-1", "gpus": []},
    });
    believed("an agent has begun a change", seen(n1(), begun, None));
    // Where both say the same, the report has the places, too.
    let mut same = verified.clone();
    same["layout"] = json!({"0": {"mig": {"3g.40gb": 1, "1g.10gb": 1}}, "1": {"mig": {"7g.80gb": 1}}});
    believed("the same as the report", seen(n1(), idle(&same), None));
}
