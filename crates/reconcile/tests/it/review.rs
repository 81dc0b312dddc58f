//! The comparison of the reviewed plan with the present one: it is made once, when the cluster has the
//! reviewed policies, and an unreadable annotation does no harm.

use crate::cluster::Cluster;
use api::policy_status::{HowMoved, Moved, MovedNode, Review, ReviewState};
use api::review::{REVIEWED_NODES, REVIEWED_PLAN};
use jiff::SignedDuration;
use reconcile::Round;
use reconcile::review::{Fingerprint, is_judged, turned};
use serde_json::json;

fn fixed() -> serde_json::Value {
    json!({"type": "Static", "static": {"gpus": [{"slices": [{"profile": "3g.40gb", "count": 2}]}]}})
}

/// Two nodes, one of them with a pod, and a policy that changes the other.
fn a_cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.policy(fixed());
    cluster.node("n1");
    cluster.node("n2");
    cluster.pod("holds", "7g.80gb", Some("n2"));
    cluster
}

fn fingerprint(cluster: &Cluster) -> Fingerprint {
    let planned = cluster.round().planned;
    let policies = &cluster.objects.policies;
    Fingerprint::new(
        &planned.plan,
        policies,
        &planned.policy_of,
        &planned.view.inventory,
        &planned.view.requests,
    )
}

/// What was reviewed is committed with the policy.
fn commit(cluster: &mut Cluster, reviewed: &Fingerprint) {
    let annotations = reviewed.annotations().into_iter().map(|(key, text)| (key.to_owned(), text)).collect();
    cluster.edit_policy(|policy| policy.metadata.annotations = Some(annotations));
}

fn annotate(cluster: &mut Cluster, key: &str, text: &str) {
    cluster.edit_policy(|policy| {
        policy.metadata.annotations.get_or_insert_default().insert(key.to_owned(), text.to_owned());
    });
}

/// What the status says now; it is stored, as the operator does.
#[track_caller]
fn said(cluster: &mut Cluster) -> Review {
    let round = cluster.round();
    keep(cluster, &round);
    round.policies.values().next().and_then(|status| status.review.clone()).expect("there is a review")
}

fn keep(cluster: &mut Cluster, round: &Round) {
    let status = round.policies.values().next().cloned();
    cluster.edit_policy(|policy| policy.status = status);
}

#[test]
fn nobody_says_anything_of_a_review_that_nobody_made() {
    let cluster = a_cluster();
    assert!(cluster.round().policies.values().all(|status| status.review.is_none()));
}

#[test]
fn what_was_reviewed_and_is_planned_is_the_same_and_stays_so_while_it_is_done() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    commit(&mut cluster, &reviewed);
    let first = said(&mut cluster);
    assert_eq!((first.state, first.at), (ReviewState::Same, cluster.now));
    assert_eq!(first.message, "the plan is the one that was reviewed");
    assert_eq!(first.reviewed, reviewed.reviewed.to_string());
    cluster.settle();
    assert_ne!(fingerprint(&cluster).reviewed.nodes, reviewed.reviewed.nodes, "n1 has got its layout");
    assert_eq!(said(&mut cluster), first, "nothing is written for it");
}

#[test]
fn names_of_pods_are_no_part_of_a_review() {
    let mut cluster = a_cluster();
    cluster.pod("asks", "1g.10gb", None);
    let reviewed = fingerprint(&cluster);
    let mut other = a_cluster();
    other.objects.pods.retain(|(namespace, _), _| namespace != "team");
    other.pod("w-1", "7g.80gb", Some("n2"));
    other.pod("w-2", "1g.10gb", None);
    assert_eq!(fingerprint(&other), reviewed);
    other.pod("w-3", "1g.10gb", None);
    assert_ne!(fingerprint(&other).reviewed.demand, reviewed.reviewed.demand);
    assert_eq!(fingerprint(&other).asked, "2 requests for 2 x 1g.10gb");
}

#[test]
fn what_moved_is_named() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    commit(&mut cluster, &reviewed);
    cluster.objects.nodes.remove("n1");
    cluster.node("n3");
    cluster.objects.pods.retain(|(namespace, _), _| namespace != "team");
    cluster.pod("asks", "1g.10gb", None);
    let review = said(&mut cluster);
    assert_eq!(review.state, ReviewState::Moved);
    assert_eq!(review.moved, [Moved::Nodes, Moved::Demand, Moved::Plan]);
    let node = |name: &str, how| MovedNode { name: name.to_owned(), how };
    let nodes = [node("n1", HowMoved::Removed), node("n2", HowMoved::Changed), node("n3", HowMoved::Added)];
    assert_eq!(review.nodes, nodes);
    let plan = fingerprint(&cluster).reviewed.plan;
    assert_eq!(
        review.message,
        format!(
            "the plan is {plan}, and {} was reviewed; since then 1 node was added: n3; 1 node was removed: n1; 1 node was changed: n2; what is asked for moved (now 1 request for 1 x 1g.10gb)",
            reviewed.reviewed.plan
        )
    );
}

#[test]
fn what_moves_beside_the_plan_leaves_it_the_same() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    commit(&mut cluster, &reviewed);
    cluster.pod("asks", "1g.10gb", None);
    let review = said(&mut cluster);
    assert_eq!((review.state, review.moved.as_slice()), (ReviewState::Same, &[Moved::Demand][..]));
    let local = "the plan is the one that was reviewed; beside it, since the review what is asked for moved (now 1 request for 1 x 1g.10gb)";
    assert_eq!(review.message, local);
}

#[test]
fn without_the_list_of_nodes_it_is_said_that_they_moved_and_not_which() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    annotate(&mut cluster, REVIEWED_PLAN, &reviewed.reviewed.to_string());
    cluster.node("n3");
    let review = said(&mut cluster);
    assert!(review.nodes.is_empty());
    assert!(review.message.ends_with("since then nodes moved (they are 3 now)"), "{}", review.message);
    // One that cannot be read says as little, and why.
    annotate(&mut cluster, REVIEWED_NODES, "n1");
    cluster.edit_policy(|policy| policy.status = None);
    let review = said(&mut cluster);
    assert!(review.nodes.is_empty());
    assert!(review.message.contains("`n1` is not written as key=digest"), "{}", review.message);
}

#[test]
fn it_is_judged_when_all_policies_have_come_and_anew_when_they_come_back() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    commit(&mut cluster, &reviewed);
    // The cluster has the annotation before it has the policies.
    cluster.edit_policy(|policy| policy.spec.priority = 1);
    let waiting = said(&mut cluster);
    assert_eq!((waiting.state, waiting.moved.as_slice()), (ReviewState::Moved, &[Moved::Policies][..]));
    cluster.now += SignedDuration::from_mins(1);
    cluster.node("n3");
    assert_eq!(said(&mut cluster), waiting, "what else moves is not known to matter yet");
    cluster.objects.nodes.remove("n3");
    cluster.edit_policy(|policy| policy.spec.priority = 0);
    assert_eq!(said(&mut cluster).state, ReviewState::Same);
    cluster.edit_policy(|policy| policy.spec.priority = 1);
    assert_eq!(said(&mut cluster).moved, [Moved::Policies]);
    cluster.node("n3");
    cluster.edit_policy(|policy| policy.spec.priority = 0);
    assert_eq!(said(&mut cluster).moved, [Moved::Nodes, Moved::Plan]);
}

#[test]
fn that_it_moved_is_news_once_and_again_when_it_could_be_compared() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    commit(&mut cluster, &reviewed);
    cluster.edit_policy(|policy| policy.spec.priority = 1);
    let waiting = said(&mut cluster);
    assert_eq!(turned(None, Some(&waiting)), Some(&waiting));
    assert_eq!(turned(Some(&waiting), Some(&waiting)), None);
    assert!(!is_judged(&waiting));
    cluster.edit_policy(|policy| policy.spec.priority = 0);
    cluster.node("n3");
    let moved = said(&mut cluster);
    assert!(is_judged(&moved));
    assert_eq!(turned(Some(&waiting), Some(&moved)), Some(&moved));
    assert_eq!(turned(Some(&moved), Some(&moved)), None);
    let same = Review { state: ReviewState::Same, ..moved.clone() };
    assert_eq!(turned(Some(&same), Some(&moved)), Some(&moved));
    assert_eq!(turned(Some(&moved), Some(&same)), None);
    assert_eq!(turned(Some(&moved), None), None);
}

#[test]
fn an_annotation_that_makes_no_sense_is_told_and_does_no_harm() {
    let mut cluster = a_cluster();
    let sane = cluster.round();
    annotate(&mut cluster, REVIEWED_PLAN, &"x".repeat(20_000));
    let review = said(&mut cluster);
    assert_eq!(review.state, ReviewState::Unreadable);
    assert_eq!(review.reviewed.len(), 256, "the CRD takes no more");
    assert_eq!(
        review.message,
        "the annotation slicewright.io/reviewed-plan cannot be read, and nothing is compared: it is longer than 16384 bytes; write what `slicewright plan` prints"
    );
    let round = cluster.round();
    assert_eq!(round.planned.plan, sane.planned.plan);
    assert_eq!(round.nodes.len(), sane.nodes.len());
    let told = round.planned.view.problems.iter().find(|problem| problem.field.contains(REVIEWED_PLAN));
    assert_eq!(told.map(|problem| problem.severity), Some(observe::Severity::Warning));
    assert_eq!(said(&mut cluster), review, "it is said once");
    annotate(&mut cluster, REVIEWED_PLAN, &fingerprint(&a_cluster()).reviewed.to_string());
    assert_eq!(said(&mut cluster).state, ReviewState::Same);
}

#[test]
fn a_status_names_no_more_nodes_than_the_crd_takes() {
    let mut cluster = a_cluster();
    let reviewed = fingerprint(&cluster);
    commit(&mut cluster, &reviewed);
    for number in 10..40 {
        cluster.node(&format!("n{number}"));
    }
    let review = said(&mut cluster);
    assert_eq!(review.nodes.len(), 20);
    assert!(review.message.ends_with("30 nodes were added: n10, n11, n12 and 27 more"), "{}", review.message);
    for number in 100..200 {
        cluster.node(&format!("n{number}"));
    }
    let many = fingerprint(&cluster).annotations();
    assert_eq!(many.keys().copied().collect::<Vec<_>>(), [REVIEWED_PLAN], "too many to list");
}
