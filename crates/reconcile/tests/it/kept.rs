//! What the planner keeps between rounds changes no round. Every other test of this crate that steps through
//! rounds compares each with one that nothing was kept for (`Cluster::next_round`); here anything happens in
//! between, in any order.

use jiff::SignedDuration;

use crate::cluster::{Cluster, Until};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

const PROFILES: [&str; 4] = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"];
const LAYOUTS: [&str; 4] = [
    r#"{"type": "DemandDriven"}"#,
    r#"{"type": "DemandDriven", "demandDriven": {"order": "OldestFirst"}}"#,
    r#"{"type": "DemandDriven", "demandDriven": {"slices": [{"profile": "1g.10gb", "minCount": 2, "maxCount": 9}]}}"#,
    r#"{"type": "Static", "static": {"gpus": [{"slices": [{"profile": "3g.40gb", "count": 2}]}]}}"#,
];

/// Pods come, are bound and end, nodes are closed, come and go, policies are edited, and rounds are cut off.
fn something_happens(cluster: &mut Cluster, numbers: &mut Numbers, step: usize) {
    let pods: Vec<_> =
        cluster.objects.pods.keys().filter(|(namespace, _)| namespace == "team").cloned().collect();
    let nodes: Vec<String> = cluster.objects.nodes.keys().cloned().collect();
    let node = nodes[numbers.below(nodes.len() as u64) as usize].clone();
    match numbers.below(10) {
        0..3 => {
            let profile = PROFILES[numbers.below(4) as usize];
            cluster.pod(&format!("p{step:03}"), profile, None);
        }
        3 if !pods.is_empty() => {
            let gone = &pods[numbers.below(pods.len() as u64) as usize];
            cluster.objects.pods.remove(gone);
        }
        4 if cluster.offers(&node, "1g.10gb") != "0" => {
            cluster.pod(&format!("p{step:03}"), "1g.10gb", Some(&node));
        }
        5 => cluster.edit_node(&node, |node| {
            let spec = node.spec.get_or_insert_default();
            spec.unschedulable = if spec.unschedulable == Some(true) { None } else { Some(true) };
        }),
        6 => cluster.policy(serde_json::from_str(LAYOUTS[numbers.below(4) as usize]).unwrap()),
        7 if nodes.len() < 4 => cluster.hgx(&format!("late-{step:03}")),
        8 if nodes.len() > 2 => {
            cluster.objects.nodes.remove(&node);
            cluster.objects.pods.retain(|_, pod| {
                pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) != Some(node.as_str())
            });
        }
        _ => {}
    }
    cluster.now += SignedDuration::from_secs(numbers.below(90) as i64);
}

#[test]
fn whatever_happens_between_them_rounds_are_those_of_an_operator_that_has_just_begun() {
    for seed in 0..5 {
        let mut numbers = Numbers(seed);
        let mut cluster = Cluster::new();
        cluster.hgx("a1");
        cluster.hgx("a2");
        cluster.node("b1");
        let mut changes = 0;
        for step in 0..40 {
            something_happens(&mut cluster, &mut numbers, step);
            // The comparison is in there.
            let round = cluster.step(Until::End);
            changes += round.planned.plan.steps.len();
        }
        assert!(changes > 10, "seed {seed}: something is planned, {changes}");
    }
}

/// While nodes are on their way they are looked at again and again. Most of these rounds ask the planner what
/// it has answered: somebody has written an object, or time has passed.
#[test]
fn while_nodes_are_on_their_way_most_rounds_search_for_nothing() {
    let mut cluster = Cluster::new();
    for name in ["a1", "a2", "a3"] {
        cluster.hgx(name);
    }
    for i in 0..30 {
        cluster.pod(&format!("p{i:02}"), PROFILES[i % 4], None);
    }
    let (mut rounds, mut quiet, mut steps) = (0, 0, 0);
    for _ in 0..60 {
        let before = cluster.searched();
        let round = cluster.step(Until::End);
        rounds += 1;
        quiet += usize::from(cluster.searched() == before);
        steps = steps.max(round.planned.plan.steps.len());
        cluster.now = round.wake_at.unwrap_or(cluster.now).max(cluster.now + SignedDuration::from_secs(5));
    }
    assert!(steps > 0 && cluster.searched() > 0);
    println!("{quiet} of {rounds} rounds searched for nothing");
    assert!(quiet * 2 > rounds, "{quiet} of {rounds} rounds searched for nothing");
}
