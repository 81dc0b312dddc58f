//! Obstacles to the operator's actions: the API's data went back in time, or the API server refuses its
//! writes.

use crate::cluster::{Cluster, Until};
use jiff::SignedDuration;
use planner::names::NodeName;
use reconcile::answers::Kind;
use reconcile::{Obstacles, RefusedWrite, Round};
use rollout::{Outlook, Phase, StartBlocker};

fn fleet() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["n1", "n2", "n3"] {
        cluster.node(name);
    }
    cluster.pod("asks", "1g.10gb", None);
    cluster
}

fn phase(round: &Round, node: &str) -> Phase {
    round.nodes[&NodeName(node.to_owned())].before.phase
}

/// The node that is on its way.
fn on_its_way(round: &Round) -> Option<NodeName> {
    round.nodes.iter().find(|(_, node)| node.before.phase != Phase::Idle).map(|(name, _)| name.clone())
}

fn told(round: &Round, kind: &str) -> Option<(String, String, String)> {
    Cluster::condition(round, kind)
}

/// Goes on until a node is in this phase.
fn until_phase(wanted: Phase) -> Cluster {
    let mut cluster = fleet();
    for _ in 0..200 {
        let before = cluster.writes;
        let round = cluster.step(Until::End);
        if round.nodes.keys().any(|name| phase(&round, &name.0) == wanted) {
            return cluster;
        }
        if cluster.writes == before {
            cluster.now = round.wake_at.unwrap_or(cluster.now);
        }
    }
    panic!("nobody ever is {wanted:?}");
}

#[test]
fn while_everybody_comes_to_terms_with_data_that_went_back_nothing_is_done_in_any_phase() {
    for wanted in
        [Phase::Idle, Phase::Mapping, Phase::Cordoning, Phase::Quiescing, Phase::Changing, Phase::Verifying]
    {
        let mut cluster = if wanted == Phase::Idle { fleet() } else { until_phase(wanted) };
        let until = cluster.now + SignedDuration::from_mins(2);
        cluster.obstacles = Obstacles { settles_until: Some(until), ..Obstacles::NONE };
        for _ in 0..3 {
            let round = cluster.step(Until::End);
            for (name, node) in &round.nodes {
                assert!(node.advance.actions.is_empty(), "{wanted:?}: {name} {:?}", node.advance.actions);
                assert_eq!(node.advance.progress, node.before, "{wanted:?}: {name}");
                assert!(!matches!(node.advance.outlook, Outlook::Working { .. }), "{wanted:?}: {name}");
            }
            assert_eq!(round.map.write, None, "{wanted:?}");
            let (status, reason, message) = told(&round, "Degraded").unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("True", "DataWentBack"));
            assert!(message.contains("the data of the API went back in time"), "{message}");
            assert!(round.wake_at.is_some_and(|at| at <= until));
        }
        // Then it goes on, and gets there.
        cluster.now = until;
        cluster.settle();
        let round = cluster.round();
        assert_eq!(told(&round, "Degraded"), None);
        assert_eq!(on_its_way(&round), None, "{wanted:?}");
    }
}

const WORDS: &str =
    "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'frozen' denied request: not on Fridays";

/// The API server refuses what this round writes to nodes.
fn refuse(cluster: &mut Cluster, round: &Round) {
    for (name, node) in &round.nodes {
        if node.advance.actions.iter().any(|action| action.name() != "ListPods") {
            let refused = RefusedWrite { write: format!("patch Node {name}"), words: WORDS.to_owned() };
            cluster.local.entry(name.clone()).or_default().refused = Some(refused);
        }
    }
}

/// A round each minute in which every write to a node is refused.
fn refused_for(cluster: &mut Cluster, minutes: i64) -> (Round, Vec<StartBlocker>) {
    let mut holds = Vec::new();
    let mut round = cluster.round();
    for _ in 0..minutes {
        refuse(cluster, &round);
        let _ = cluster.step(Until::Stored);
        // The process lives on, and knows what was refused.
        refuse(cluster, &round);
        cluster.now += SignedDuration::from_mins(1);
        round = cluster.round();
        holds.extend(round.nodes.values().filter_map(|node| match &node.advance.outlook {
            Outlook::Holding(hold) => Some(hold.clone()),
            _ => None,
        }));
    }
    (round, holds)
}

#[test]
fn a_refused_cordon_is_told_in_the_refusers_words_and_no_deadline_passes() {
    let mut cluster = until_phase(Phase::Mapping);
    // The map is there and mounted: the cordon comes next.
    while on_its_way(&cluster.round()).is_none_or(|name| {
        let round = cluster.round();
        !round.nodes[&name].advance.actions.iter().any(|action| action.name() == "Cordon")
    }) {
        let round = cluster.step(Until::Stored);
        cluster.now = round.wake_at.unwrap_or(cluster.now + SignedDuration::from_secs(1));
    }
    let (first, _) = refused_for(&mut cluster, 1);
    let name = on_its_way(&first).unwrap();
    let since = first.nodes[&name].advance.progress.since;
    let (round, holds) = refused_for(&mut cluster, 90);
    let node = &round.nodes[&name];
    assert_eq!(node.advance.progress.since, since, "it is where it was since it came there");
    assert_eq!(node.advance.progress.phase, Phase::Cordoning, "it waits for leave, however long");
    assert!(node.advance.actions.iter().any(|action| action.name() == "Cordon"), "and tries again");
    assert_eq!(node.advance.progress.last_error, None, "a refusal is no write that was not seen");
    assert!(holds.iter().any(|hold| matches!(hold, StartBlocker::WriteRefused { .. })), "{holds:?}");
    let (status, reason, message) = told(&round, "Ready").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "WriteRefused"));
    assert!(
        message.contains("not on Fridays") && message.contains(&format!("patch Node {name}")),
        "{message}"
    );
    assert!(told(&round, "Stalled").is_some());
    let conditions = &round.gpu_nodes[&name].status.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert!(ready.message.contains("not on Fridays"), "{}", ready.message);
    let answer = &round.answers[0];
    assert_eq!((answer.kind, answer.topic), (Kind::Delayed, "WriteRefused"));
    assert!(answer.text.contains("not on Fridays"), "{}", answer.text);
    assert!(!answer.text.contains("at about"), "the promise is taken back: {}", answer.text);

    // Once it is allowed it goes on where it was: the next try is taken.
    let _ = cluster.step(Until::End);
    cluster.local.values_mut().for_each(|local| local.refused = None);
    let round = cluster.step(Until::End);
    assert_ne!(round.nodes[&name].advance.progress.phase, Phase::Retreating);
    cluster.settle();
    assert_eq!(told(&cluster.round(), "Stalled"), None);
    assert_ne!(cluster.offers(&name.0, "1g.10gb"), "0");
}

#[test]
fn a_refused_map_is_told_by_every_node_that_waits_for_it() {
    let mut cluster = fleet();
    let refused = RefusedWrite { write: "patch ConfigMap x/y".to_owned(), words: "no maps here".to_owned() };
    cluster.obstacles = Obstacles { map: Some(refused), ..Obstacles::NONE };
    let round = cluster.round();
    let (_, reason, message) = told(&round, "Ready").unwrap();
    assert_eq!(reason, "WriteRefused");
    assert!(message.contains("no maps here"), "{message}");
    assert!(round.map.write.is_some(), "and it is tried again");
    assert!(round.answers[0].text.contains("no maps here"), "{}", round.answers[0].text);
}
