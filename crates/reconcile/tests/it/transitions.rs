//! A change from its beginning to its end, with a crash at every possible point.

use crate::cluster::{Cluster, Until};
use reconcile::answers::Kind;
use rollout::Phase;

fn with_a_request() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("n1");
    cluster.pod("asks", "1g.10gb", None);
    cluster
}

/// The scheduler places the pod that waits.
fn bind(cluster: &mut Cluster) {
    cluster.pod("asks", "1g.10gb", Some("n1"));
}

#[track_caller]
fn is_done(cluster: &Cluster) {
    assert_ne!(cluster.offers("n1", "1g.10gb"), "0", "the node offers what was asked for");
    assert!(!cluster.is_cordoned("n1"), "the node is open");
    let label = cluster.objects.nodes["n1"].metadata.labels.as_ref().unwrap();
    assert!(!label.contains_key(rollout::names::CORDONED_BY));
}

#[test]
fn a_request_is_served_and_then_there_is_rest() {
    let mut cluster = with_a_request();
    cluster.settle();
    is_done(&cluster);
    bind(&mut cluster);
    cluster.settle();
    let before = cluster.writes;
    let round = cluster.step(Until::End);
    assert_eq!(cluster.writes, before, "a round on its own output writes nothing");
    assert_eq!(round.map.write, None);
    let ready = Cluster::condition(&round, "Ready").unwrap();
    assert_eq!((ready.0.as_str(), ready.1.as_str()), ("True", "Converged"));
    assert_eq!(Cluster::condition(&round, "Stalled"), None);
}

#[test]
fn who_waits_is_told_of_the_node_that_is_changed_and_then_that_the_slice_is_free() {
    let mut cluster = with_a_request();
    let mut on_the_way = Vec::new();
    cluster.until("n1", Phase::Verifying, |_, round, _| on_the_way.push(round.answers[0].clone()));
    assert!(on_the_way.iter().any(|answer| answer.text.contains(" will be ready there, at about ")));
    for answer in on_the_way {
        assert_eq!(answer.kind, Kind::Coming, "{}", answer.text);
        let text = answer.text.strip_prefix("planned: ").unwrap_or(&answer.text);
        assert!(text.starts_with("n1 "), "{}", answer.text);
    }
    cluster.settle();
    let answer = cluster.round().answers.remove(0);
    assert!(answer.text.ends_with(" is free on n1"), "{}", answer.text);
    assert_eq!((answer.kind, answer.topic), (Kind::Free, ""));
}

/// The cluster's strategy is `mixed`; the device plugin of one node has a
/// configuration of its own.
#[test]
fn a_node_with_a_strategy_of_its_own_is_verified_against_what_it_offers() {
    let mut cluster = Cluster::new();
    cluster.hgx("n1");
    cluster.hgx("n2");
    cluster.single("n2");
    cluster.policy(serde_json::json!({"type": "Static", "static": {"gpus": [
        {"slices": [{"profile": "1g.10gb", "count": 7}]}]}}));
    cluster.settle();
    assert_eq!(cluster.offers("n1", "1g.10gb"), "56");
    assert_eq!(cluster.offers_resource("n1", "nvidia.com/gpu"), "0");
    assert_eq!(cluster.offers("n2", "1g.10gb"), "0");
    assert_eq!(cluster.offers_resource("n2", "nvidia.com/gpu"), "56");
    assert!(!cluster.is_cordoned("n1") && !cluster.is_cordoned("n2"));
    let ready = Cluster::condition(&cluster.round(), "Ready").unwrap();
    assert_eq!((ready.0.as_str(), ready.1.as_str()), ("True", "Converged"), "{}", ready.2);
}

#[test]
fn nothing_is_ready_before_a_round_has_looked_at_nodes_that_rest() {
    let mut cluster = with_a_request();
    let mut ready = 0;
    for _ in 0..60 {
        let before = cluster.writes;
        let round = cluster.step(Until::End);
        let counts = round.policies.values().filter_map(|status| status.nodes.as_ref()).next().unwrap();
        if Cluster::condition(&round, "Ready").is_some_and(|(status, ..)| status == "True") {
            ready += 1;
            assert_eq!((counts.ready, counts.changing), (counts.total, 0));
        }
        if cluster.writes == before {
            cluster.now = round.wake_at.unwrap_or(cluster.now);
        }
    }
    assert!(ready > 0, "it gets there");
}

#[test]
fn the_same_input_gives_the_same_round() {
    let mut cluster = with_a_request();
    for _ in 0..6 {
        let (first, second) = (cluster.round(), cluster.round());
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        let _ = cluster.step(Until::End);
    }
}

/// Dies once, in the round with this number, there; then goes on.
#[track_caller]
fn dies(at: usize, until: Until) -> bool {
    let mut cluster = with_a_request();
    for n in 0..at {
        let before = cluster.writes;
        let round = cluster.step(Until::End);
        let resting = round.nodes.values().all(|n| n.advance.progress.phase == Phase::Idle);
        if n > 0 && resting && cluster.writes == before {
            return false;
        }
        if cluster.writes == before {
            cluster.now = round.wake_at.unwrap();
        }
    }
    let _ = cluster.step(until);
    cluster.settle();
    is_done(&cluster);
    bind(&mut cluster);
    cluster.settle();
    let before = cluster.writes;
    let _ = cluster.step(Until::End);
    assert_eq!(cluster.writes, before, "died in round {at} after {until:?}");
    true
}

#[test]
fn a_crash_between_any_two_writes_leads_to_the_same_end() {
    for until in [Until::Map, Until::Stored, Until::Actions(1), Until::Actions(2)] {
        let rounds = (0..).take_while(|at| dies(*at, until)).count();
        assert!(rounds > 6, "a change takes several rounds, and each was interrupted: {rounds}");
    }
}

#[test]
fn what_was_stored_is_enough_when_every_second_round_is_lost() {
    let mut cluster = with_a_request();
    for n in 0..400 {
        let lost = [Until::End, Until::Stored, Until::End, Until::Map, Until::End, Until::Actions(1)];
        let before = cluster.writes;
        let round = cluster.step(lost[n % lost.len()]);
        if cluster.writes == before {
            cluster.now = round.wake_at.unwrap_or(cluster.now);
        }
    }
    cluster.settle();
    is_done(&cluster);
}

#[test]
fn a_policy_that_is_deleted_midway_leaves_no_cordon() {
    for at in 0..12 {
        let mut cluster = with_a_request();
        for _ in 0..at {
            let before = cluster.writes;
            let round = cluster.step(Until::End);
            if cluster.writes == before {
                cluster.now = round.wake_at.unwrap();
            }
        }
        cluster.objects.policies.clear();
        cluster.settle();
        assert!(!cluster.is_cordoned("n1"), "deleted before round {at}");
    }
}

#[test]
fn a_node_whose_labels_change_midway_is_finished_by_the_policy_that_began() {
    let mut cluster = with_a_request();
    while !cluster.is_cordoned("n1") {
        let before = cluster.writes;
        let round = cluster.step(Until::End);
        if cluster.writes == before {
            cluster.now = round.wake_at.unwrap();
        }
    }
    cluster.edit_node("n1", |node| {
        node.metadata.labels.as_mut().unwrap().insert("pool".to_owned(), "other".to_owned());
    });
    let round = cluster.step(Until::End);
    let spec = &round.gpu_nodes.values().next().unwrap().spec;
    assert_eq!(spec.policy.as_deref(), Some("research"), "it stays with its policy until it is done");
    cluster.settle();
    assert!(!cluster.is_cordoned("n1"));
    let round = cluster.round();
    assert_eq!(round.gpu_nodes.values().next().unwrap().spec.policy, None);
}

#[test]
fn a_node_whose_gpus_were_swapped_is_new_to_us() {
    let quantity = |n: &str| k8s_openapi::apimachinery::pkg::api::resource::Quantity(n.to_owned());
    let mut cluster = with_a_request();
    cluster.settle();
    cluster.objects.pods.retain(|(namespace, _), _| namespace != "team");
    cluster.settle();
    // It boots; labels and slices are away, and what was there is to come back.
    cluster.edit_node("n1", |node| {
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.remove("nvidia.com/gpu.product");
        labels.insert(rollout::names::MIG_CONFIG_STATE.to_owned(), "failed".to_owned());
        let status = node.status.as_mut().unwrap();
        status.node_info.as_mut().unwrap().boot_id = "b-2".to_owned();
        status.allocatable.as_mut().unwrap().retain(|resource, _| !resource.starts_with("nvidia.com/"));
    });
    let round = cluster.step(Until::Stored);
    assert_eq!(round.nodes.values().next().unwrap().advance.progress.phase, Phase::Healing);
    // It turns out that there is another GPU.
    cluster.edit_node("n1", |node| {
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-A30".to_owned());
        labels.retain(|key, _| !key.ends_with(".count") || key == "nvidia.com/gpu.count");
        let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.insert("nvidia.com/gpu".to_owned(), quantity("1"));
    });
    cluster.pod("asks", "1g.6gb", None);
    cluster.settle();
    assert_ne!(cluster.offers("n1", "1g.6gb"), "0", "the new GPU serves who asks");
    assert!(!cluster.is_cordoned("n1"));
    let seen = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().observed.unwrap();
    assert_eq!((seen.gpus[0].model.as_str(), seen.boot_id.as_deref()), ("A30", Some("b-2")));
}
