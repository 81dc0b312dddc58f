//! Workloads in a queue whose sets of pods ask for the same slices: a leader and its workers. Which sets are kept to a
//! node, so that none of them waits for good where another one of its own has filled the node.

use reconcile::{CheckAnswer, CheckState};
use serde_json::{Value, json};

use crate::queues::{HOSTNAME, SMALL, add, fleet, one, workload};

const MEDIUM: &str = "nvidia.com/mig-2g.20gb";

/// So many pods of a set, each of which asks for so much.
fn set(name: &str, pods: u32, asked: &[(&str, u32)]) -> Value {
    let mut set = workload("unused", SMALL, pods)["spec"]["podSets"][0].clone();
    set["name"] = name.into();
    let asked: Value =
        asked.iter().map(|(resource, n)| ((*resource).to_owned(), json!(n.to_string()))).collect();
    set["template"]["spec"]["containers"][0]["resources"] = json!({"requests": asked, "limits": asked});
    set
}

/// What is said of a workload of these sets once its slices are made.
fn of_sets(sets: Vec<Value>) -> CheckAnswer {
    let mut cluster = fleet();
    let mut server = workload("server", SMALL, 1);
    server["spec"]["podSets"] = sets.into();
    add(&mut cluster, "Workload", server);
    cluster.settle();
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.message.as_str()), (CheckState::Ready, "its slices are free on n1, n2"));
    answer
}

fn kept(answer: &CheckAnswer) -> Vec<&str> {
    answer.updates.iter().map(|update| update.name.as_str()).collect()
}

/// The workers take two nodes. Whoever starts first may take any of the places, so the leader is not told to wait for one
/// of them. Where it wants something else, or less than a worker, nobody takes its place.
#[test]
fn a_leader_is_not_kept_to_a_node_that_its_own_workers_could_fill() {
    for (leader, workers, is_kept) in
        [((SMALL, 1), 1, false), ((SMALL, 2), 1, false), ((SMALL, 1), 2, true), ((MEDIUM, 1), 1, true)]
    {
        let answer =
            of_sets(vec![set("leader", 1, &[leader]), set("worker", 70 / workers, &[(SMALL, workers)])]);
        assert_eq!(
            kept(&answer),
            if is_kept { vec!["leader"] } else { vec![] },
            "{leader:?} beside {workers}"
        );
    }
}

/// Nobody keeps the second set, for the sake of the first; so the third, which shares its slices with the second, is not
/// kept either.
#[test]
fn who_shares_slices_with_a_set_that_is_not_kept_for_the_sake_of_a_third_is_not_kept_either() {
    let sets = vec![
        set("third", 1, &[(MEDIUM, 1)]),
        set("second", 1, &[(MEDIUM, 1), (SMALL, 1)]),
        set("first", 65, &[(SMALL, 1)]),
    ];
    assert_eq!(kept(&of_sets(sets)), Vec::<&str>::new());
}

/// Pods whose author has chosen their node take no place on another one.
#[test]
fn a_set_is_kept_to_its_node_beside_one_whose_author_has_chosen_another() {
    let mut chosen = set("chosen", 3, &[(SMALL, 1)]);
    chosen["template"]["spec"]["nodeSelector"] = json!({HOSTNAME: "n2.cluster"});
    let answer = of_sets(vec![chosen, set("free", 4, &[(SMALL, 1)])]);
    assert_eq!(kept(&answer), ["free"]);
}
