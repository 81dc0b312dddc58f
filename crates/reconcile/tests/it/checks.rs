//! What our check says of workloads whose pods are of several kinds, and what it does not say by a plan that breaks a rule. The
//! fleet is that of the queues: two nodes with eight GPUs.

use reconcile::CheckState;
use serde_json::json;

use crate::queues::{SMALL, add, admit, fleet, note, of_job, one, pod_of, workload};

/// Who is let go then may run on what is not there, and who is taken back may have lost nothing.
#[test]
fn by_a_plan_that_breaks_a_rule_nobody_is_taken_back_and_nobody_who_asks_for_slices_is_let_go() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    cluster.objects.nodes.remove("n1");
    assert_eq!(one(&cluster).state, CheckState::Retry);
    assert_eq!(cluster.round_that_thinks(|planned| planned.plan.object(note())).checks, []);

    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    cluster.add_pod(pod_of("job", 0, SMALL, Some("n1")));
    assert_eq!(one(&cluster).state, CheckState::Ready);
    assert_eq!(cluster.round_that_thinks(|planned| planned.plan.object(note())).checks, []);
}

/// Of what its pods wait for, people read what is farthest away.
#[test]
fn of_pods_that_wait_for_several_things_the_one_is_told_that_has_no_slice_at_all() {
    for (first, second) in [
        ("nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.6gb"),
        ("nvidia.com/mig-1g.6gb", "nvidia.com/mig-3g.40gb"),
    ] {
        let mut cluster = fleet();
        let mut both = workload("both", first, 1);
        let mut set = workload("both", second, 1)["spec"]["podSets"][0].clone();
        set["name"] = json!("second");
        both["spec"]["podSets"].as_array_mut().unwrap().push(set);
        add(&mut cluster, "Workload", both);
        let answer = one(&cluster);
        assert_eq!(answer.state, CheckState::Pending);
        assert!(
            answer.message.starts_with("slices for 0 of 2 pods are free; not served: "),
            "{}",
            answer.message
        );
    }
}
