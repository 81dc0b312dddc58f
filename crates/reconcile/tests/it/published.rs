//! The texts of a policy and of a `GpuNode` at the important moments, kept whole: a changed sentence is
//! reviewed in its context.

use crate::cluster::Cluster;
use planner::names::NodeName;
use reconcile::Round;
use rollout::Phase;
use serde_json::{Value, json};

/// The status of the policy and of one node, as they are published.
fn published(round: &Round, node: &str) -> Value {
    let policy = round.policies.values().next().expect("there is a policy");
    let node = round.gpu_nodes.get(&NodeName(node.to_owned())).map(|node| &node.status);
    json!({"policy": policy, "gpuNode": node})
}

macro_rules! kept {
    ($name:literal, $round:expr) => {
        insta::assert_yaml_snapshot!($name, published(&$round, "n1"))
    };
}

fn asks(profile: &str) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", profile, None);
    cluster
}

#[track_caller]
fn at(cluster: &mut Cluster, phase: Phase) -> Round {
    let mut last = None;
    cluster.until("n1", phase, |_, round, _| last = Some(round.clone()));
    last.expect("there was a round")
}

#[test]
fn a_fleet_at_rest() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("has", "7g.80gb", Some("n1"));
    cluster.settle();
    kept!("at-rest", cluster.round());
}

#[test]
fn a_node_on_its_way_to_somebody() {
    let mut cluster = asks("1g.10gb");
    kept!("on-its-way", at(&mut cluster, Phase::Changing));
}

#[test]
fn a_layout_that_was_proved() {
    let mut cluster = asks("1g.10gb");
    cluster.settle();
    kept!("proved", cluster.round());
}

#[test]
fn nobody_gives_way_to_who_asks() {
    let mut cluster = asks("1g.10gb");
    cluster.pod("has", "7g.80gb", Some("n1"));
    cluster.settle();
    kept!("unserved", cluster.round());
}

#[test]
fn a_workbench_that_can_never_start() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.workbench("lab", "gone");
    cluster.settle();
    kept!("refused", cluster.round());
}

#[test]
fn a_node_that_a_human_has_to_look_at() {
    let mut cluster = asks("1g.10gb");
    cluster.managers_fail = true;
    let _ = at(&mut cluster, Phase::Failed);
    let _ = cluster.step(crate::cluster::Until::End);
    kept!("failed", cluster.round());
}

#[test]
fn somebody_else_chose_another_layout() {
    let mut cluster = asks("1g.10gb");
    cluster.settle();
    cluster.edit_node("n1", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(rollout::names::MIG_CONFIG.to_owned(), "all-disabled".to_owned());
    });
    let _ = cluster.step(crate::cluster::Until::End);
    kept!("foreign-layout", cluster.round());
}

#[test]
fn a_policy_that_makes_no_sense() {
    let mut cluster = asks("1g.10gb");
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {
        "slices": [{"profile": "1g.10gb", "minCount": 5, "maxCount": 4}]}}));
    let _ = cluster.step(crate::cluster::Until::End);
    kept!("makes-no-sense", cluster.round());
}

#[test]
fn floors_that_the_fleet_cannot_hold() {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.policy(json!({"type": "DemandDriven", "demandDriven": {
        "slices": [{"profile": "3g.40gb", "minCount": 3}]}}));
    cluster.settle();
    kept!("floor-unmet", cluster.round());
}

/// An agent that has the driver open would keep it from being unloaded.
#[test]
fn who_else_works_on_a_node_is_told_to_its_agent_as_long_as_they_do() {
    let mut cluster = asks("1g.10gb");
    cluster.settle();
    let told = |cluster: &Cluster| {
        cluster.round().gpu_nodes[&NodeName("n1".to_owned())].spec.driver_in_use_by.clone()
    };
    assert_eq!(told(&cluster), None);
    for (state, expected) in [
        ("upgrade-required", None),
        ("pod-deletion-required", Some("a driver upgrade (pod-deletion-required)")),
        ("upgrade-done", None),
    ] {
        cluster.label("n1", rollout::names::DRIVER_UPGRADE_STATE, Some(state));
        assert_eq!(told(&cluster).as_deref(), expected, "{state}");
    }
    // What the API server takes has a limit, and what others write has none.
    cluster.edit_node("n1", |node| {
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(rollout::names::MCO_DESIRED_CONFIG.to_owned(), "ä".repeat(1000));
    });
    let long = told(&cluster).expect("the Machine Config Operator works on it");
    assert!(long.starts_with("the Machine Config Operator") && long.chars().count() == 200, "{long}");
}
