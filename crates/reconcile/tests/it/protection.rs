//! Rules of a round that protect running workloads: each test fails if the line that implements its rule is
//! removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::{Cluster, Until};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use planner::check::{Note, Problem, Severity};
use planner::names::NodeName;
use reconcile::PlannedRound;
use rollout::{Action, Outlook, Phase, PodPhase, WaitsFor};
use serde_json::json;

/// The checker never finds fault with our own plans, so the note is made up.
fn note() -> Note {
    Note { severity: Severity::Fatal, node: Some("n2".into()), gpu: None, problem: Problem::NodeTwice }
}

#[test]
fn a_plan_that_breaks_a_rule_stops_what_is_disruptive_on_nodes_that_are_on_their_way() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2", "n3"] {
        cluster.node(node);
    }
    cluster.pod("trains", "7g.80gb", Some("n2"));
    cluster.pod("asks", "1g.10gb", None);
    // Past the point of return every attempt goes wrong: the label is written
    // again under another name, and MIG manager's pod is replaced.
    cluster.managers_fail = true;
    let mut stopped = BTreeSet::new();
    for _ in 0..200 {
        let (sound, noted) = (cluster.round(), cluster.round_with(note()));
        for (name, node) in &noted.nodes {
            let actions = &node.advance.actions;
            assert!(!actions.iter().any(Action::is_disruptive), "{name}: {actions:?}");
            let due = &sound.nodes[name];
            let disruptive: Vec<_> = due.advance.actions.iter().filter(|a| a.is_disruptive()).collect();
            if !disruptive.is_empty() && due.before.phase.past_return() {
                assert_eq!(node.advance.progress, node.before, "{name} waits where it is");
                stopped.extend(disruptive.into_iter().map(Action::name));
            }
        }
        if sound.nodes.values().any(|node| node.advance.progress.phase == Phase::Failed) {
            break;
        }
        let before = cluster.writes;
        let round = cluster.step(Until::End);
        if cluster.writes == before {
            cluster.now = round.wake_at.unwrap();
        }
    }
    assert_eq!(stopped.into_iter().collect::<Vec<_>>(), ["DeletePod", "SetConfigLabel"]);
}

/// A static policy that evicts wants `n1` cut anew, on which somebody trains.
fn about_to_evict(cluster: &mut Cluster) {
    cluster.policy(json!({"type": "Static", "static": {"gpus": [
        {"slices": [{"profile": "1g.10gb", "count": 7}]}]}}));
    cluster.edit_policy(|policy| policy.spec.rollout.drain = api::policy::Drain::Evict);
    cluster.pod("trains", "7g.80gb", Some("n1"));
    cluster.until("n1", Phase::Cordoning, |_, _, _| {});
    cluster.now = cluster.step(Until::End).wake_at.unwrap();
}

/// The checker finds fault with a plan that evicts for anything else; were it to
/// be followed all the same, nobody would be evicted.
#[test]
fn only_static_layouts_and_onboarding_evict_whatever_the_plan_says() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    about_to_evict(&mut cluster);
    let evicts = |different: fn(&mut PlannedRound)| {
        let round = cluster.round_that_thinks(different);
        let actions = &round.nodes[&NodeName::from("n1")].advance.actions;
        actions.iter().any(|action| matches!(action, Action::Evict { .. }))
    };
    let by_demand = |planned: &mut PlannedRound| {
        planned.view.policies[0].layout = planner::testing::policy("by-demand").build().layout;
    };
    assert!(evicts(|_| {}));
    assert!(!evicts(by_demand));
    assert!(evicts(|planned| {
        planned.view.policies[0].layout = planner::testing::policy("by-demand").build().layout;
        let mut plan = planner::plan::Plan::clone(&planned.plan);
        plan.steps[0].enable_mig = true;
        planned.plan = planner::testing::as_if_checked(plan);
    }));
    assert!(!evicts(|planned| planned.view.policies[0].drain = planner::policy::Drain::Never));
    // A policy of another name says nothing of this node.
    assert!(!evicts(|planned| planned.view.policies[0].name = "another".into()));
}

#[test]
fn a_pod_that_ends_is_told_from_one_that_stays() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2"] {
        cluster.node(node);
    }
    about_to_evict(&mut cluster);
    let evicted = |cluster: &Cluster| -> Vec<String> {
        let round = cluster.round();
        let actions = &round.nodes[&NodeName::from("n1")].advance.actions;
        let pods = actions.iter().filter_map(|action| match action {
            Action::Evict { pod, .. } => Some(pod.name.clone()),
            _ => None,
        });
        pods.collect()
    };
    assert_eq!(evicted(&cluster), ["trains"]);
    // It was told to go, and saves what it has: it is waited for, and not told again.
    let key = ("team".to_owned(), "trains".to_owned());
    let pod = Arc::make_mut(cluster.objects.pods.get_mut(&key).unwrap());
    pod.metadata.deletion_timestamp = Some(Time(cluster.now));
    assert_eq!(evicted(&cluster), Vec::<String>::new());
    let round = cluster.round();
    let outlook = &round.nodes[&NodeName::from("n1")].advance.outlook;
    let Outlook::Working { waits_for: WaitsFor::PodsGoing { pods, .. }, .. } = outlook else {
        panic!("{outlook:?}")
    };
    assert_eq!(pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["trains"]);
}

/// One that has ended holds nothing; one that has not started may yet get any slice.
#[test]
fn a_pod_is_seen_to_have_started_or_ended_as_the_kubelet_says() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    let mut seen = |phase: &str, conditions: serde_json::Value| {
        cluster.add_pod(json!({
            "metadata": {"name": "trains", "namespace": "team", "uid": "u-trains"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {
                "limits": {"nvidia.com/mig-7g.80gb": "1"}}}]},
            "status": {"phase": phase, "conditions": conditions},
        }));
        let pods = cluster.seen("n1").pods;
        let pod = pods.into_iter().find(|pod| pod.pod.name == "trains").unwrap();
        (pod.phase, pod.ready)
    };
    let phases = [
        ("Running", PodPhase::Started),
        ("Succeeded", PodPhase::Ended),
        ("Failed", PodPhase::Ended),
        ("Pending", PodPhase::Pending),
        ("Unknown", PodPhase::Pending),
    ];
    for (phase, expected) in phases {
        assert_eq!(seen(phase, json!([])), (expected, false), "{phase}");
    }
    for (kind, status, ready) in
        [("Ready", "True", true), ("Ready", "False", false), ("ContainersReady", "True", false)]
    {
        let condition = json!([{"type": kind, "status": status}]);
        assert_eq!(seen("Running", condition), (PodPhase::Started, ready), "{kind} {status}");
    }
}

/// Its DaemonSet would bring an evicted pod again at once; a ReplicaSet brings one elsewhere.
#[test]
fn a_daemonsets_pod_is_told_from_others() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    for (name, kind) in [("exporter", "DaemonSet"), ("web", "ReplicaSet")] {
        let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "u-owner"}]);
        cluster.add_pod(json!({
            "metadata": {"name": name, "namespace": "team", "uid": name, "ownerReferences": owner},
            "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        }));
    }
    let pods = cluster.seen("n1").pods;
    let is_of_daemon_set = |name: &str| pods.iter().find(|pod| pod.pod.name == name).unwrap().daemon_set;
    assert!(is_of_daemon_set("exporter"));
    assert!(!is_of_daemon_set("web"));
}

#[test]
fn a_node_that_somebody_cordoned_is_never_silent_under_converged() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2", "n3"] {
        cluster.node(node);
    }
    cluster.settle();
    let ready = |cluster: &Cluster| Cluster::condition(&cluster.round(), "Ready").unwrap();
    let quiet = ("True".to_owned(), "Converged".to_owned(), "every node has its layout".to_owned());
    assert_eq!(ready(&cluster), quiet);
    cluster.edit_node("n2", |node| node.spec.get_or_insert_default().unschedulable = Some(true));
    let (status, reason, message) = ready(&cluster);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Converged"));
    assert!(message.ends_with("; somebody cordoned 1 node, where no pod can be scheduled: n2"), "{message}");
    let (status, reason, message) = Cluster::node_condition(&cluster.round(), "n2", "Ready").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "CordonedByOthers"));
    assert!(message.contains("kubectl uncordon n2"), "{message}");
    assert_eq!(Cluster::node_condition(&cluster.round(), "n1", "Ready").unwrap().0, "True");
}

#[test]
fn a_lost_cordon_mark_does_not_hide_a_node_from_the_plan_that_began() {
    for managed in [true, false] {
        let mut cluster = Cluster::new();
        for node in ["n1", "n2"] {
            cluster.node(node);
        }
        cluster.pod("trains", "7g.80gb", Some("n2"));
        cluster.pod("asks", "1g.10gb", None);
        cluster.until("n1", Phase::Quiescing, |_, _, _| {});
        cluster.edit_node("n1", |node| {
            node.metadata.labels.as_mut().unwrap().remove(rollout::names::CORDONED_BY);
            let fields = json!([{"manager": "slicewright-node", "operation": "Update",
                "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]);
            node.metadata.managed_fields = managed.then(|| serde_json::from_value(fields).unwrap());
        });
        let node = &cluster.round().planned.view.inventory.nodes[&NodeName::from("n1")];
        assert!(node.schedulable && node.hold.is_none(), "{:?}", node.hold);
        cluster.settle();
        assert_ne!(cluster.offers("n1", "1g.10gb"), "0");
        assert!(!cluster.is_cordoned("n1"));
    }
}

/// The API server refuses what would end a wait: what was promised is taken back,
/// and everybody is told since when it is late.
#[test]
fn a_wait_that_is_over_is_told_as_late_and_nothing_is_promised_any_more() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2"] {
        cluster.node(node);
    }
    cluster.pod("trains", "7g.80gb", Some("n2"));
    cluster.pod("asks", "1g.10gb", None);
    cluster.until("n1", Phase::Verifying, |_, _, _| {});
    let mut said = Vec::new();
    for _ in 0..60 {
        // The write that lifts the cordon is refused, each time.
        let round = cluster.step(Until::Stored);
        let late = Cluster::node_condition(&round, "n1", "Ready").unwrap().2;
        if late.contains("still waits for the cordon to be lifted, which was expected by ") {
            said.push((late, Cluster::condition(&round, "Ready").unwrap().2, round.answers[0].clone()));
        }
        cluster.now = round.wake_at.unwrap();
    }
    assert!(said.len() > 10, "{}", said.len());
    let (node, policy, answer) = said[0].clone();
    assert!(
        said.iter().all(|told| *told == (node.clone(), policy.clone(), answer.clone())),
        "it does not move"
    );
    assert!(
        policy.contains("n1 still waits for the cordon to be lifted, which was expected by "),
        "{policy}"
    );
    assert!(answer.text.contains("still waits for the cordon to be lifted"), "{}", answer.text);
    assert!(!answer.text.contains("at about"), "{}", answer.text);
    assert_eq!(answer.kind, reconcile::answers::Kind::Delayed);
}

#[test]
fn the_cooldown_of_a_policy_that_is_gone_is_not_inherited() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    cluster.settle();
    let known = |cluster: &Cluster| cluster.objects.gpu_nodes["n1"].status.clone().unwrap().rollout.unwrap();
    assert!(known(&cluster).cooldown_until.is_some(), "its policy lets a node rest for 10 min");
    cluster.objects.pods.retain(|(namespace, _), _| namespace != "team");
    cluster.objects.policies.clear();
    let _ = cluster.step(Until::End);
    cluster.policy(json!({"type": "DemandDriven"}));
    cluster.edit_policy(|policy| policy.spec.rollout.cooldown = Some("0s".to_owned()));
    let _ = cluster.step(Until::End);
    assert_eq!(known(&cluster).cooldown_until, None, "the next policy lets it rest for no time");
}
