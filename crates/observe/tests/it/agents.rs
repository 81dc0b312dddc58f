//! What the agent of a node says, and how far it is believed. Knowing and changing are two things.

use crate::words::*;
use observe::{Actuator, ClusterView};
use planner::inventory::{ChangeScope, Hold};
use planner::names::NodeName;
use serde_json::{Value, json};

/// A slice of the first GPU, with the uids of the pods that kubelet's checkpoint names.
pub(crate) fn slice(profile: &str, start: u8, uids: &[&str]) -> Value {
    let holders: Vec<_> = uids.iter().map(|uid| json!({"uid": uid, "container": "main"})).collect();
    json!({
        "profile": profile, "start": start, "used": if uids.is_empty() { "Idle" } else { "InUse" },
        "devices": [format!("MIG-{start}")], "holders": holders,
    })
}

/// What the agent of n1 wrote: the slices of its first GPU; the second has none.
pub(crate) fn report(slices: &Value) -> Value {
    json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {
            "observed": {"by": "Agent", "at": "2026-11-21T08:59:00Z", "bootId": "b-1", "gpus": [
                {"index": 0, "model": "A100-80GB", "uuid": "GPU-0", "migEnabled": true, "slices": slices},
                {"index": 1, "model": "A100-80GB", "uuid": "GPU-1", "migEnabled": true, "slices": [
                    {"profile": "7g.80gb", "start": 0, "used": "Idle", "devices": ["MIG-whole"]},
                ]},
            ]},
            "agent": {
                "podUid": "uid-agent", "bootId": "b-1", "version": "9.8.7", "mode": "Change", "report": 7,
                "at": "2026-11-21T08:59:00Z",
            },
        },
    })
}

pub(crate) fn agent_pod() -> Value {
    let mut pod = with_uid(another_agent(), "uid-agent");
    pod["metadata"]["name"] = "agent-n1".into();
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    pod
}

fn with_uid(mut pod: Value, uid: &str) -> Value {
    pod["metadata"]["uid"] = uid.into();
    pod
}

fn user(name: &str, uid: &str, asks: &[(&str, u32)]) -> Value {
    with_uid(pod("a", name, asks, Some("n1")), uid)
}

fn first_gpu(seen: &ClusterView) -> Vec<String> {
    slices(node_of(seen, "n1"), 0)
}

pub(crate) fn actuator(seen: &ClusterView) -> Actuator {
    seen.nodes[&NodeName("n1".to_owned())].actuator
}

#[test]
fn a_living_agent_knows_places_and_users_and_changes_single_slices() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &[])]);
    let seen = see(&[node("n1"), report(&slices), agent_pod(), user("p", "uid-p", &[("mig-3g.40gb", 1)])]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 idle", "3g.40gb@4 in use by a/p"]);
    let n1 = node_of(&seen, "n1");
    assert_eq!((n1.scope, &n1.hold), (ChangeScope::SliceBySlice, &None));
    assert_eq!(actuator(&seen), Actuator::Agent);
}

#[test]
fn an_agent_that_only_reports_gives_the_same_knowledge_and_mig_manager_changes_whole_gpus() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &[])]);
    let mut reports = report(&slices);
    reports["status"]["agent"]["mode"] = "Report".into();
    let seen = see(&[node("n1"), reports, agent_pod(), user("p", "uid-p", &[("mig-3g.40gb", 1)])]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 idle", "3g.40gb@4 in use by a/p"]);
    assert_eq!(node_of(&seen, "n1").scope, ChangeScope::IdleGpus);
    assert_eq!(actuator(&seen), Actuator::Operands);
    // The rollout knows that the pod is not on the other GPU.
    let gpus = facts(&seen).pods.iter().find(|pod| pod.pod.name == "p").and_then(|pod| pod.gpus.clone());
    assert_eq!(gpus.map(|gpus| gpus.len()), Some(1));
}

/// What it knows is worth as much as before, and what it has begun it ends.
#[test]
fn a_node_that_somebody_wants_back_is_mig_managers_once_its_agent_has_ended_what_it_began() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &[])]);
    let user = user("p", "uid-p", &[("mig-3g.40gb", 1)]);
    let mut marked = node("n1");
    marked["metadata"]["labels"]["nvidia.com/mig.config"] = "slicewright-agent-changes-this-node".into();
    let handed = see(&[marked.clone(), report(&slices), agent_pod(), user.clone()]);
    assert_eq!(actuator(&handed), Actuator::Agent);
    for (value, expected) in [("true", Actuator::Operands), ("false", Actuator::Agent)] {
        marked["metadata"]["labels"]["slicewright.io/give-back"] = value.into();
        let seen = see(&[marked.clone(), report(&slices), agent_pod(), user.clone()]);
        assert_eq!(actuator(&seen), expected, "{value}");
        assert_eq!(first_gpu(&seen), ["1g.10gb@0 idle", "3g.40gb@4 in use by a/p"]);
    }
    marked["metadata"]["labels"]["slicewright.io/give-back"] = "true".into();
    let mut begun = report(&slices);
    begun["status"]["rollout"] = json!({"phase": "Changing", "progress": {"phase": "Changing", "target": {
        "layout": rollout::NodeLayout::default(), "label": rollout::names::HANDED_TO_AGENT,
        "slices": {"id": "change-1", "gpus": []},
    }}});
    let seen = see(&[marked, begun, agent_pod(), user]);
    assert_eq!(actuator(&seen), Actuator::Agent);
}

/// Seen in the soak: the agent of a node that had just rebooted took it over before MIG manager had made the slices again,
/// and then they waited for the budget.
#[test]
fn what_mig_manager_made_before_a_reboot_it_makes_again_before_an_agent_gets_the_node() {
    let mut n1 = node("n1");
    n1["metadata"]["labels"]["nvidia.com/gpu.deploy.mig-manager"] = "true".into();
    let mut reports = report(&json!([]));
    let boot = n1["status"]["nodeInfo"]["bootID"].clone();
    let verified = |reports: &mut Value, boot: &Value, slices: Value| {
        reports["status"]["rollout"] = json!({"phase": "Idle", "progress": {"phase": "Idle", "verified": {
            "at": "2026-11-21T08:00:00Z", "bootId": boot, "label": "slicewright-1", "layout": {"0": {"mig": slices}}}}});
    };
    verified(&mut reports, &boot, json!({"3g.40gb": 2}));
    assert_eq!(actuator(&see(&[n1.clone(), reports.clone(), agent_pod()])), Actuator::Agent);
    verified(&mut reports, &"the boot before".into(), json!({"3g.40gb": 2}));
    assert_eq!(actuator(&see(&[n1.clone(), reports.clone(), agent_pod()])), Actuator::Operands);
    // It was switched off for the agent a moment before, and is switched on again for this.
    n1["metadata"]["labels"]["nvidia.com/gpu.deploy.mig-manager"] = "false".into();
    reports["status"]["rollout"]["progress"]["stoodDown"] = true.into();
    assert_eq!(actuator(&see(&[n1.clone(), reports.clone(), agent_pod()])), Actuator::Operands);
    // Without MIG manager only the agent can.
    reports["status"]["rollout"]["progress"]["stoodDown"] = false.into();
    assert_eq!(actuator(&see(&[n1.clone(), reports.clone(), agent_pod()])), Actuator::Agent);
    // What was handed over to the agent is the agent's, if it knew the places of the slices.
    n1["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    reports["status"]["rollout"]["progress"]["stoodDown"] = true.into();
    assert_eq!(actuator(&see(&[n1.clone(), reports.clone(), agent_pod()])), Actuator::Operands);
    reports["status"]["rollout"]["progress"]["verified"]["slices"] =
        json!({"GPU-0": [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]});
    assert_eq!(actuator(&see(&[n1, reports, agent_pod()])), Actuator::Agent);
}

/// MIG manager would cut the GPUs amid it. What is not begun goes to MIG manager.
#[test]
fn what_an_agent_has_begun_stays_its_own_when_it_only_reports_from_now_on() {
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    let mut reports = report(&json!([slice("1g.10gb", 0, &[])]));
    reports["status"]["agent"]["mode"] = "Report".into();
    assert_eq!(actuator(&see(&[handed.clone(), reports.clone(), agent_pod()])), Actuator::Operands);
    reports["status"]["rollout"] = json!({"phase": "Changing", "progress": {"phase": "Changing", "target": {
        "layout": rollout::NodeLayout::default(), "label": rollout::names::HANDED_TO_AGENT,
        "slices": {"id": "change-1", "gpus": []},
    }}});
    for (mode, begins) in [("Report", false), ("Change", true)] {
        reports["status"]["agent"]["mode"] = mode.into();
        let seen = see(&[handed.clone(), reports.clone(), agent_pod()]);
        assert_eq!(actuator(&seen), Actuator::Agent, "{mode}");
        assert_eq!(facts(&seen).agent.map(|agent| agent.begins), Some(begins), "{mode}");
    }
}

/// Somebody deleted what the operator had stored there. MIG manager's way would begin with lifting the pause, amid a change.
#[test]
fn what_an_agent_has_claimed_is_its_own_although_nobody_remembers_why_it_was_begun() {
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    let mut reports = report(&json!([slice("1g.10gb", 0, &[])]));
    reports["status"]["agent"]["mode"] = "Report".into();
    reports["spec"]["change"] = json!({"id": "change-1", "gpus": []});
    let mut check = |stage: Option<(&str, &str)>, expected: Actuator| {
        reports["status"]["agent"]["change"] = stage.map_or(Value::Null, |(id, stage)| {
            let why = json!({"reason": "CalledBack", "message": "it is not wanted any more"});
            json!({"id": id, "bootId": "b-1", "stage": stage, "why": why})
        });
        let seen = see(&[handed.clone(), reports.clone(), agent_pod()]);
        assert_eq!(actuator(&seen), expected, "{stage:?}");
    };
    check(None, Actuator::Operands);
    check(Some(("change-1", "Claimed")), Actuator::Agent);
    check(Some(("change-1", "Restoring")), Actuator::Agent);
    check(Some(("change-1", "Done")), Actuator::Operands);
    check(Some(("change-0", "Claimed")), Actuator::Operands);
}

#[test]
fn without_a_living_agent_its_layout_is_believed_and_not_who_is_idle() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &[]), slice("1g.10gb", 1, &[])]);
    let users = [user("p", "uid-p", &[("mig-3g.40gb", 1)]), user("q", "uid-q", &[("mig-1g.10gb", 1)])];
    let layout =
        ["1g.10gb@0 maybe in use by a/q", "1g.10gb@1 maybe in use by a/q", "3g.40gb@4 in use by a/p"];
    let check = |what: &str, change: &dyn Fn(&mut Value, &mut Value)| {
        let (mut said, mut agent) = (report(&slices), agent_pod());
        change(&mut said, &mut agent);
        let mut objects = vec![node("n1"), said, users[0].clone(), users[1].clone()];
        objects.extend(Some(agent).filter(|agent| !agent.is_null()));
        let seen = see(&objects);
        assert_eq!(first_gpu(&seen), layout, "{what}");
        assert!(node_of(&seen, "n1").scope != ChangeScope::SliceBySlice, "{what}");
    };
    check("its pod is gone", &|_, agent| *agent = Value::Null);
    check("its pod is not ready", &|_, agent| agent["status"]["conditions"][0]["status"] = "False".into());
    check("its pod ends", &|_, agent| {
        agent["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00Z".into();
    });
    check("its pod has failed", &|_, agent| agent["status"]["phase"] = "Failed".into());
    check("its pod is another one", &|_, agent| agent["metadata"]["uid"] = "uid-agent-2".into());
    check("it is on another node", &|_, agent| agent["spec"]["nodeName"] = "n2".into());
    check("it reported in another boot", &|said, _| said["status"]["agent"]["bootId"] = "b-0".into());
}

#[test]
fn a_slice_of_a_pod_that_is_gone_is_idle_although_kubelets_checkpoint_still_names_it() {
    let slices = json!([slice("1g.10gb", 0, &["uid-gone"]), slice("1g.10gb", 1, &["uid-done"])]);
    let mut done = user("q", "uid-done", &[("mig-1g.10gb", 1)]);
    done["status"]["phase"] = "Succeeded".into();
    // One of the same name is another pod.
    let seen = see(&[node("n1"), report(&slices), agent_pod(), done]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 idle", "1g.10gb@1 idle"]);
}

#[test]
fn a_pod_that_came_after_the_agent_looked_may_hold_any_idle_slice_of_its_profile() {
    let slices = json!([slice("1g.10gb", 0, &[]), slice("1g.10gb", 1, &[]), slice("3g.40gb", 4, &[])]);
    let seen =
        see(&[node("n1"), report(&slices), agent_pod(), user("late", "uid-late", &[("mig-1g.10gb", 1)])]);
    assert_eq!(
        first_gpu(&seen),
        ["1g.10gb@0 maybe in use by a/late", "1g.10gb@1 maybe in use by a/late", "3g.40gb@4 idle"]
    );
}

#[test]
fn of_a_pod_with_more_containers_than_are_kept_the_rest_may_hold_any() {
    let slices = json!([slice("1g.10gb", 0, &["uid-p"]), slice("1g.10gb", 1, &[])]);
    let mut p = user("p", "uid-p", &[("mig-1g.10gb", 1)]);
    // So the store keeps what the containers ask for that it has no room for.
    p["spec"]["overhead"] = json!({"nvidia.com/mig-1g.10gb": "1", "cpu": "1"});
    let seen = see(&[node("n1"), report(&slices), agent_pod(), p]);
    let containers = &facts(&seen).pods.iter().find(|pod| pod.pod.name == "p").unwrap().containers.clone();
    let asks = |n| std::collections::BTreeMap::from([("nvidia.com/mig-1g.10gb".to_owned(), n)]);
    assert_eq!(containers[1..], [(String::new(), asks(1))], "a container of which no book can have the name");
    assert_eq!(facts(&seen).pods.iter().find(|pod| pod.pod.name == "p").unwrap().gpus, None);
}

#[test]
fn a_pod_whose_slices_the_agent_saw_holds_no_other() {
    let third = |asks| {
        let slices =
            [slice("1g.10gb", 0, &["uid-p"]), slice("1g.10gb", 1, &["uid-p"]), slice("1g.10gb", 2, &[])];
        let pod = user("p", "uid-p", &[("mig-1g.10gb", asks)]);
        let seen = see(&[node("n1"), report(&json!(slices)), agent_pod(), pod]);
        first_gpu(&seen).pop().expect("three slices")
    };
    assert_eq!(third(2), "1g.10gb@2 idle");
    assert_eq!(third(1), "1g.10gb@2 idle", "the agent saw more than it asks for");
    // A container of it that has not started will have another one.
    assert_eq!(third(3), "1g.10gb@2 maybe in use by a/p");
    assert_eq!(third(4), "1g.10gb@2 maybe in use by a/p");
}

#[test]
fn whom_only_the_list_names_is_believed_to_hold_it_and_perhaps_another_one() {
    // A pod of a StatefulSet was made anew: kubelet's list named the one before.
    let mut named = slice("1g.10gb", 0, &[]);
    named["holders"] = json!([{"namespace": "a", "pod": "w-0", "container": "main"}]);
    let slices = json!([named, slice("1g.10gb", 1, &[])]);
    let seen =
        see(&[node("n1"), report(&slices), agent_pod(), user("w-0", "uid-new", &[("mig-1g.10gb", 1)])]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 maybe in use by a/w-0", "1g.10gb@1 maybe in use by a/w-0"]);
}

/// kubernetes#137534: both pods keep it, and each of them alone holds it.
#[test]
fn a_slice_that_kubelet_gave_to_two_pods_is_told_with_both_and_held_until_neither_is_there() {
    let slices = json!([slice("3g.40gb", 4, &["uid-p", "uid-q"]), slice("3g.40gb", 0, &["uid-r"])]);
    let mut reports = report(&slices);
    reports["status"]["observed"]["doubts"] = json!({"heldTwice": ["MIG-4"]});
    let all = ["p", "q", "r"].map(|name| user(name, &format!("uid-{name}"), &[("mig-3g.40gb", 1)]));
    let see_with = |pods: &[Value]| see(&[&[node("n1"), reports.clone(), agent_pod()], pods].concat());
    let twice = "kubelet has given the slice 3g.40gb at 4 of GPU 0 to more than one pod, to a/p and to a/q. Nobody takes it \
                 from them: delete all of them but one, so that each gets its own (kubernetes#137534)";
    let seen = see_with(&all[..2]);
    assert_eq!(texts(&seen.problems), [format!("Node n1: {twice}")]);
    assert_eq!(first_gpu(&seen), ["3g.40gb@0 idle", "3g.40gb@4 maybe in use by a/p, a/q"]);
    for one in [0, 1] {
        let seen = see_with(&all[one..=one]);
        assert_eq!(texts(&seen.problems), [""; 0], "nobody shares it any more");
        assert_eq!(first_gpu(&seen)[1], format!("3g.40gb@4 in use by a/{}", ["p", "q"][one]));
    }
    assert_eq!(first_gpu(&see_with(&all[2..])), ["3g.40gb@0 in use by a/r", "3g.40gb@4 idle"]);
    // There are more pods than slices, and the node says why it is left alone.
    let why = format!("its pods hold 3 3g.40gb slice(s), but it has only 2, since {twice}");
    assert_eq!(node_of(&see_with(&all), "n1").hold, Some(Hold::NotEstablished { why }));
}

#[test]
fn what_no_book_explains_is_not_idle() {
    let mut busy = slice("1g.10gb", 0, &[]);
    busy["unexplained"] = true.into();
    let seen = see(&[node("n1"), report(&json!([busy, slice("1g.10gb", 1, &[])])), agent_pod()]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 maybe in use by ", "1g.10gb@1 idle"]);

    // A pod holds a device that the driver does not know: it may be any.
    let mut strange = report(&json!([slice("1g.10gb", 0, &[])]));
    strange["status"]["observed"]["doubts"] = json!({"unknownDevices": [
        {"id": "MIG-old", "holders": [{"uid": "uid-p", "container": "main"}]},
    ]});
    let seen = see(&[node("n1"), strange.clone(), agent_pod(), user("p", "uid-p", &[])]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 maybe in use by a/p"]);
    // Kubelet's checkpoint keeps it until the next allocation: of a pod that is gone it says nothing.
    let seen = see(&[node("n1"), strange, agent_pod()]);
    assert_eq!(first_gpu(&seen), ["1g.10gb@0 idle"]);

    let mut unreadable = report(&json!([slice("1g.10gb", 0, &[])]));
    unreadable["status"]["observed"]["doubts"] = json!({"booksUnreadable": "the checksum is wrong"});
    let seen = see(&[node("n1"), unreadable, agent_pod()]);
    let why = "the agent of the node cannot say who holds which slice: the checksum is wrong";
    assert_eq!(node_of(&seen, "n1").hold, Some(Hold::NotEstablished { why: why.to_owned() }));
}

#[test]
fn a_gpu_about_which_the_driver_does_not_answer_is_left_alone() {
    let mut silent = report(&json!([slice("1g.10gb", 0, &[])]));
    let gpu = &mut silent["status"]["observed"]["gpus"][1];
    *gpu = json!({"index": 1, "model": "A100-80GB", "uuid": "GPU-1", "migEnabled": false, "driverError": "GPU is lost"});
    let seen = see(&[node("n1"), silent, agent_pod()]);
    let gpus = &node_of(&seen, "n1").gpus;
    let held = gpus.values().nth(1).and_then(|gpu| gpu.hold.clone());
    assert_eq!(held, Some(Hold::Unhealthy { what: "GPU is lost".to_owned() }));
}

/// MIG manager is told of all GPUs of a node at once: of this one it would be told that MIG is off.
#[test]
fn a_node_with_a_gpu_about_which_the_driver_does_not_answer_is_not_changed_by_mig_manager() {
    let mut silent = report(&json!([slice("1g.10gb", 0, &[])]));
    silent["status"]["agent"]["mode"] = "Report".into();
    silent["status"]["observed"]["gpus"][1] = json!({
        "index": 1, "model": "A100-80GB", "uuid": "GPU-1", "migEnabled": false, "driverError": "GPU is lost",
    });
    let why = "the driver does not answer about GPU 1 (GPU is lost), so what it is cut into is not known, and MIG manager would have to be told";
    for agent in [Some(agent_pod()), None] {
        let mut objects = vec![node("n1"), silent.clone()];
        objects.extend(agent);
        let seen = see(&objects);
        let n1 = node_of(&seen, "n1");
        assert_eq!(actuator(&seen), Actuator::Operands);
        assert_eq!(n1.hold, Some(Hold::NotEstablished { why: why.to_owned() }));
        let lost = n1.gpus.values().nth(1).and_then(|gpu| gpu.hold.clone());
        assert_eq!(lost, Some(Hold::Unhealthy { what: "GPU is lost".to_owned() }));
    }
    // The agent changes the others.
    silent["status"]["agent"]["mode"] = "Change".into();
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    let seen = see(&[handed, silent, agent_pod()]);
    assert_eq!((actuator(&seen), &node_of(&seen, "n1").hold), (Actuator::Agent, &None));
}

#[test]
fn after_a_reboot_what_the_agent_saw_says_nothing() {
    let mut n1 = node("n1");
    n1["status"]["nodeInfo"]["bootID"] = "b-2".into();
    let seen = see(&[n1, report(&json!([slice("1g.10gb", 0, &[])])), agent_pod()]);
    assert!(node_of(&seen, "n1").scope != ChangeScope::SliceBySlice);
    assert!(first_gpu(&seen) != ["1g.10gb@0 idle"]);
}

#[test]
fn overlapping_instances_are_an_error() {
    let slices = json!([slice("3g.40gb", 0, &[]), slice("1g.10gb", 1, &[])]);
    let seen = see(&[node("n1"), report(&slices), agent_pod()]);
    let first = texts(&seen.problems).remove(0);
    assert!(first.starts_with("GpuNode n1: status.observed.gpus[0]: A100-80GB: "), "{first}");
    assert!(first.contains("overlap"), "{first}");
}

#[test]
fn mig_manager_switches_mig_on_before_the_agent_gets_the_node() {
    let mut off = report(&json!([]));
    off["status"]["observed"]["gpus"][1]["migEnabled"] = false.into();
    off["status"]["observed"]["gpus"][1]["slices"] = json!([]);
    let seen = see(&[node("n1"), off, agent_pod()]);
    assert_eq!((actuator(&seen), node_of(&seen, "n1").scope), (Actuator::Operands, ChangeScope::IdleGpus));
}

#[test]
fn what_the_agent_has_begun_or_been_given_stays_its_own_while_it_is_away() {
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    let seen = see(&[handed, report(&json!([slice("1g.10gb", 0, &[])]))]);
    assert_eq!(actuator(&seen), Actuator::Agent);
    let why = "the agent that changes its slices is not there";
    assert_eq!(node_of(&seen, "n1").hold, Some(Hold::NotEstablished { why: why.to_owned() }));
    // A node that MIG manager still has goes on with it.
    let seen = see(&[node("n1"), report(&json!([slice("1g.10gb", 0, &[])]))]);
    assert_eq!(actuator(&seen), Actuator::Operands);
}

/// A labelled pod of an agent, as its DaemonSet makes them; by default another one than has reported.
fn another_agent() -> Value {
    let mut pod = with_uid(pod("slicewright-agent", "agent-n1-b", &[], Some("n1")), "uid-agent-b");
    pod["metadata"]["labels"] =
        json!({"app.kubernetes.io/part-of": "slicewright", "app.kubernetes.io/component": "agent"});
    pod["metadata"]["ownerReferences"] = json!([owner("apps/v1", "DaemonSet", "slicewright-agent")]);
    pod
}

pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true})
}

/// A node whose agent has left, and a tenant's pods with the agent's labels on it, which sort before the agent's own.
#[test]
fn a_pod_with_the_labels_of_an_agent_is_none_in_another_namespace_or_without_a_daemon_set() {
    let mut left = report(&json!([slice("1g.10gb", 0, &[])]));
    left["status"]["rollout"] = json!({"phase": "Idle", "progress": {"agentGone": true}});
    let mut elsewhere = another_agent();
    elsewhere["metadata"]["namespace"] = "a-team".into();
    let mut by_nobody = another_agent();
    by_nobody["metadata"]["ownerReferences"] = json!([]);
    let mut by_others = another_agent();
    by_others["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", "slicewright-agent")]);
    for impostor in [elsewhere, by_nobody, by_others] {
        let seen = see(&[node("n1"), node("n2"), left.clone(), impostor.clone()]);
        assert!(rollout_report(&seen).has_left, "{}", impostor["metadata"]);
        assert!(seen.nodes[&NodeName("n1".to_owned())].is_without_agent());
    }
}

/// A static pod is known to kubelet by another uid than to the API server; the annotation that has it, anybody can write.
#[test]
fn only_the_mirror_of_a_static_pod_is_known_by_another_uid_and_it_hides_no_pod() {
    let mirrors = |namespace: &str, uid: &str, owners: Value| {
        let mut pod =
            with_uid(pod(namespace, "m", &[("mig-3g.40gb", 1)], Some("n1")), &format!("uid-{namespace}"));
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": uid});
        pod["metadata"]["ownerReferences"] = owners;
        pod
    };
    let of_node = |name: &str| json!([owner("v1", "Node", name)]);
    let slices = json!([slice("3g.40gb", 4, &["uid-p"]), slice("1g.10gb", 0, &["uid-static"])]);
    let holder = || user("p", "uid-p", &[("mig-3g.40gb", 1)]);
    let seen_with = |pod: Value| {
        let seen = see(&[node("n1"), node("n2"), report(&slices), agent_pod(), holder(), pod]);
        first_gpu(&seen)
    };
    // The mirror of a static pod, which its node owns.
    assert_eq!(
        seen_with(mirrors("kube-system", "uid-static", of_node("n1"))),
        ["1g.10gb@0 in use by kube-system/m", "3g.40gb@4 in use by a/p"]
    );
    // What a tenant writes: no owner, one that is no node, another node.
    for owners in [json!([]), json!([owner("v1", "ReplicationController", "n1")]), of_node("n2")] {
        for uid in ["uid-static", "uid-p"] {
            assert_eq!(
                seen_with(mirrors("z-team", uid, owners.clone())),
                ["1g.10gb@0 idle", "3g.40gb@4 in use by a/p"],
                "{uid} {owners}"
            );
        }
    }
    // And who knows the node's own uid takes nobody's place.
    assert_eq!(
        seen_with(mirrors("z-team", "uid-p", of_node("n1"))),
        ["1g.10gb@0 idle", "3g.40gb@4 in use by a/p"]
    );
}

/// What the rollout reads of n1.
pub(crate) fn facts(seen: &ClusterView) -> rollout::Observed {
    let reading = observe::Reading {
        listing: rollout::Listing::Cached,
        refusals: Vec::new(),
        map: rollout::MapSeen::default(),
    };
    seen.nodes[&NodeName("n1".to_owned())].as_read(reading)
}

fn rollout_report(seen: &ClusterView) -> rollout::Report {
    facts(seen).report.expect("one has reported")
}

#[test]
fn of_an_agent_that_is_uninstalled_nothing_is_believed_and_of_one_that_comes_back_all() {
    let mut left = report(&json!([slice("1g.10gb", 0, &[]), slice("3g.40gb", 4, &[])]));
    left["status"]["rollout"] = json!({"phase": "Idle", "progress": {"agentGone": true}});
    let seen = see(&[node("n1"), left.clone()]);
    assert_eq!(actuator(&seen), Actuator::Operands);
    assert!(first_gpu(&seen) != ["1g.10gb@0 idle", "3g.40gb@4 idle"], "{:?}", first_gpu(&seen));
    assert!(rollout_report(&seen).has_left);
    assert!(seen.nodes[&NodeName("n1".to_owned())].is_without_agent());
    // Whoever gives the node back still needs it, and it is kept until then.
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    let seen = see(&[handed, left.clone()]);
    assert_eq!(actuator(&seen), Actuator::Operands);
    let layout = rollout_report(&seen).layout.expect("it is of this boot");
    assert_eq!(layout.to_string(), "0:1g.10gb*1,3g.40gb*1 1:7g.80gb*1");
    assert!(!seen.nodes[&NodeName("n1".to_owned())].is_without_agent());

    // A pod of an agent is there: it will report.
    let seen = see(&[node("n1"), left.clone(), another_agent()]);
    assert!(!rollout_report(&seen).has_left);
    assert!(!seen.nodes[&NodeName("n1".to_owned())].is_without_agent());
    let mut rebooted = node("n1");
    rebooted["status"]["nodeInfo"]["bootID"] = "b-2".into();
    assert_eq!(rollout_report(&see(&[rebooted, left])).layout, None);
}

/// The node is shown as it will be until the agent has ended: then as it is, which is not the plan if the agent restored.
#[test]
fn a_change_that_ended_by_restoring_shows_what_was_restored_and_not_what_was_planned() {
    let mut changes = report(&json!([slice("3g.40gb", 0, &[]), slice("3g.40gb", 4, &[])]));
    let place = |profile: &str, start: u8| {
        let profile: mig::ProfileName = profile.parse().unwrap();
        rollout::SlicePlace { profile, start }
    };
    let change = rollout::SliceChange {
        id: "change-1".to_owned(),
        gpus: vec![rollout::GpuSlices {
            gpu: planner::names::GpuIndex(0),
            uuid: "GPU-0".to_owned(),
            before: vec![place("3g.40gb", 0), place("3g.40gb", 4)],
            after: vec![place("3g.40gb", 0), place("2g.20gb", 4), place("1g.10gb", 6)],
        }],
        listed: None,
        drained: false,
    };
    let target = json!({
        "layout": rollout::NodeLayout::default(), "label": rollout::names::HANDED_TO_AGENT, "slices": change,
    });
    changes["status"]["rollout"] =
        json!({"phase": "Changing", "progress": {"phase": "Changing", "target": target}});
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    let shown = |stage: &str, changes: &Value| {
        let mut changes = changes.clone();
        changes["status"]["agent"]["change"] = json!({"id": "change-1", "bootId": "b-1", "stage": stage, "why": {"reason": "CalledBack", "message": "it is not wanted any more"}});
        first_gpu(&see(&[handed.clone(), changes, agent_pod()]))
    };
    assert_eq!(shown("Claimed", &changes), ["3g.40gb@0 idle", "2g.20gb@4 idle", "1g.10gb@6 idle"]);
    assert_eq!(shown("Restored", &changes), ["3g.40gb@0 idle", "3g.40gb@4 idle"]);
}

/// What kubelet offers is a multiple of what the agent sees: after its change nothing would ever look right.
#[test]
fn a_node_that_somebody_else_shares_is_left_alone_although_an_agent_sees_its_slices() {
    let mut shared = node("n1");
    shared["metadata"]["labels"]["nvidia.com/mig-1g.10gb.replicas"] = "2".into();
    shared["metadata"]["labels"]["nvidia.com/mig-1g.10gb.sharing-strategy"] = "time-slicing".into();
    let slices = json!([slice("1g.10gb", 0, &[])]);
    for mode in ["Change", "Report"] {
        let mut report = report(&slices);
        report["status"]["agent"]["mode"] = mode.into();
        let seen = see(&[shared.clone(), report, agent_pod(), policy("research")]);
        let Some(Hold::NotEstablished { why }) = &node_of(&seen, "n1").hold else {
            panic!("it is left alone")
        };
        assert!(why.contains("its devices are shared by time-slicing"), "{why}");
        assert_eq!(first_gpu(&seen), ["1g.10gb@0 idle"], "what is known of it stays known");
    }
}

/// The agent's way ends with a comparison of what is offered with the slices that it sees, one for one.
#[test]
fn an_agent_neither_gets_nor_keeps_a_node_whose_slices_several_pods_share() {
    let replicas = [("nvidia.com/mig-1g.10gb".to_owned(), 2)].into();
    let shared = rollout::Shared { by: rollout::Method::TimeSlicing, rename: true, one_each: true, replicas };
    let config = rollout::PluginConfig { strategy: None, sharing: Some(shared) };
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slicewright-plugin-config", "namespace": "nvidia-gpu-operator"},
        "data": {config.key(): config.render()},
    });
    let slices = json!([slice("1g.10gb", 0, &[])]);
    let with =
        |node: &Value, policy: Value| see(&[node.clone(), map.clone(), report(&slices), agent_pod(), policy]);
    let mut shares = policy("research");
    shares["spec"]["sharing"] = json!({"type": "TimeSlicing", "rules": [
        {"resource": "nvidia.com/mig-1g.10gb", "replicas": 2},
    ]});
    // Its policy does not share any more, and it keeps its key.
    let mut told = node("n1");
    told["metadata"]["labels"]["nvidia.com/device-plugin.config"] = config.key().into();
    assert_eq!(actuator(&with(&told, policy("research"))), Actuator::Operands);
    assert_eq!(actuator(&with(&node("n1"), policy("research"))), Actuator::Agent);
    // The agent has it, and its policy comes to share: MIG manager gets it back, which changes both.
    let mut handed = node("n1");
    handed["metadata"]["labels"]["nvidia.com/mig.config"] = rollout::names::HANDED_TO_AGENT.into();
    assert_eq!(actuator(&with(&handed, policy("research"))), Actuator::Agent);
    assert_eq!(actuator(&with(&handed, shares)), Actuator::Operands);
}
