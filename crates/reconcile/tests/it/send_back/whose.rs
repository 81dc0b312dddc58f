//! Who is sent back for whom, by the rules of a queue of Kueue: nobody for one who does not get the quota by it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::{Edit, HOLD, MEDIUM, SMALL, crowded, holds, queue, stuck, the_workload, waits, within};
use crate::cluster::Cluster;
use crate::queues::{add, of_job, workload};

/// Whose quota goes to whom, within some time.
fn gives(cluster: &mut Cluster) -> Vec<(String, String)> {
    let gains = |message: &str| {
        let (_, rest) = message.split_once("its quota goes to team/").unwrap();
        rest.split_once(',').unwrap().0.to_owned()
    };
    let retried = within(cluster, HOLD * 3);
    retried.into_iter().map(|answer| (answer.workload.1, gains(&answer.message))).collect()
}

fn created(cluster: &mut Cluster, name: &str, at: &str) {
    the_workload(cluster, name).metadata.creation_timestamp = Some(Time(at.parse().unwrap()));
}

fn condition(cluster: &mut Cluster, name: &str, kind: &str, status: &str) {
    let workload = the_workload(cluster, name);
    let mut another = workload.status.conditions[0].clone();
    (another.type_, another.status) = (kind.to_owned(), status.to_owned());
    workload.status.conditions.push(another);
}

/// They ask for nodes that are full.
fn is_stuck(cluster: &mut Cluster, name: &str) {
    let host = ("kubernetes.io/hostname".to_owned(), "n1.cluster".to_owned());
    let spec = &mut the_workload(cluster, name).spec.pod_sets[0].template.spec;
    spec.change(|spec| spec.node_selector = Some([host].into()));
}

/// Each of them needs nearly all of the quota. Kueue gives it to the highest priority, and of one priority to the oldest.
#[test]
fn of_several_who_wait_the_one_to_whom_kueue_gives_the_quota_gains() {
    let first_is = |edit: &dyn Fn(&mut Cluster), expected: &str| {
        let mut cluster = crowded(20);
        holds(&mut cluster, "large", 20, 0);
        waits(&mut cluster, "a", MEDIUM, 15, 0);
        waits(&mut cluster, "b", MEDIUM, 15, 0);
        edit(&mut cluster);
        assert_eq!(gives(&mut cluster), [("large".to_owned(), expected.to_owned())]);
    };
    first_is(&|_| {}, "a");
    first_is(&|cluster| the_workload(cluster, "b").spec.priority = Some(1), "b");
    first_is(&|cluster| created(cluster, "b", "2026-11-21T08:29:00Z"), "b");
}

/// What the first takes, the next does not get.
#[test]
fn nobody_gains_behind_one_who_takes_the_quota_and_cannot_be_served() {
    let mut cluster = crowded(20);
    holds(&mut cluster, "large", 20, 0);
    waits(&mut cluster, "first", MEDIUM, 20, 5);
    is_stuck(&mut cluster, "first");
    waits(&mut cluster, "pair", MEDIUM, 2, 0);
    assert_eq!(gives(&mut cluster), []);
}

/// All of its quota is counted on by the one who waits, and a part of it stays where it is.
#[test]
fn nobody_is_sent_back_where_one_of_those_stays_whose_quota_would_be_needed() {
    let mut cluster = crowded(4);
    for name in ["a", "b"] {
        holds(&mut cluster, name, 2, 0);
        is_stuck(&mut cluster, name);
    }
    waits(&mut cluster, "three", MEDIUM, 3, 0);
    // Kueue has given the quota of one back at once, although that one waited for it.
    condition(&mut cluster, "a", "Requeued", "True");
    the_workload(&mut cluster, "a").status.admission_checks[0].retry_count = Some(1);
    for of in &mut the_workload(&mut cluster, "a").status.conditions {
        of.last_transition_time.0 = "2026-11-21T08:50:00Z".parse().unwrap();
    }
    assert_eq!(gives(&mut cluster), []);
    // For one who came after that, both go.
    created(&mut cluster, "three", "2026-11-21T08:55:00Z");
    assert_eq!(gives(&mut cluster).len(), 2);
}

/// What somebody has who is served, is as good as gone for everybody.
#[test]
fn whoever_has_quota_or_has_ended_does_not_wait_for_any() {
    let mut cluster = crowded(20);
    holds(&mut cluster, "large", 18, -1);
    holds(&mut cluster, "pair", 2, 0);
    assert_eq!(gives(&mut cluster), [], "the pair is served by what it has");
    let mut cluster = stuck();
    condition(&mut cluster, "pair", "Finished", "True");
    assert_eq!(gives(&mut cluster), []);
}

/// It was taken from it by a higher priority before, and Kueue says so for as long as it waits.
#[test]
fn one_from_whom_quota_was_taken_before_gains_as_others_do() {
    let mut cluster = stuck();
    condition(&mut cluster, "pair", "Evicted", "True");
    assert_eq!(gives(&mut cluster), [("large".to_owned(), "pair".to_owned())]);
    // Another check is on the queue, too, of which nothing is asked here.
    let theirs = json!({"metadata": {"name": "a-first-one"}, "spec": {"controllerName": "kueue.x-k8s.io/provisioning"}});
    let mut cluster = stuck();
    add(&mut cluster, "AdmissionCheck", theirs);
    assert_eq!(gives(&mut cluster), [("large".to_owned(), "pair".to_owned())]);
}

/// Who was sent back before has lost its quota by now, or has ended, whatever its check still says.
#[test]
fn quota_is_on_its_way_only_from_those_who_have_it() {
    let cases: [(&str, Edit); 2] = [
        ("it has none, and is not to run", |cluster| {
            let other = the_workload(cluster, "other");
            other.status.conditions[0].status = "False".to_owned();
            other.spec.active = Some(false);
        }),
        ("it has ended", |cluster| condition(cluster, "other", "Finished", "True")),
    ];
    for (why, edit) in cases {
        let mut cluster = stuck();
        holds(&mut cluster, "other", 2, 0);
        the_workload(&mut cluster, "other").status.admission_checks[0].state = "Retry".to_owned();
        assert_eq!(gives(&mut cluster), [], "{why} not yet");
        edit(&mut cluster);
        assert_eq!(gives(&mut cluster), [("large".to_owned(), "pair".to_owned())], "{why}");
    }
}

/// It takes quota from nobody who has none here.
#[test]
fn one_who_may_take_quota_by_force_goes_where_nobody_has_any_that_it_could_take() {
    let lower = |edit: &dyn Fn(&mut Cluster)| {
        let mut cluster = stuck();
        queue(&mut cluster, 20, json!({"preemption": {"withinClusterQueue": "LowerPriority"}}));
        // All slices of the first node are those of its pods.
        let mut lower = of_job(workload("small", SMALL, 56), "small");
        lower["spec"]["priority"] = json!(-1);
        lower["status"]["admission"] = json!({"clusterQueue": "research", "podSetAssignments": [
            {"name": "main", "count": 56, "flavors": {SMALL: "pool"}}]});
        lower["status"]["admissionChecks"][0]["state"] = "Ready".into();
        add(&mut cluster, "Workload", lower);
        edit(&mut cluster);
        gives(&mut cluster).len()
    };
    assert_eq!(lower(&|_| {}), 0);
    assert_eq!(lower(&|cluster| condition(cluster, "small", "Finished", "True")), 1, "it has ended");
    let in_another = |cluster: &mut Cluster| {
        let admission = json!({"clusterQueue": "another", "podSetAssignments": []});
        the_workload(cluster, "small").status.admission = serde_json::from_value(admission).unwrap();
    };
    assert_eq!(lower(&in_another), 1, "it is in another queue");
    let waits_itself = |cluster: &mut Cluster| {
        let lower = the_workload(cluster, "small");
        lower.status.conditions[0].status = "False".to_owned();
        lower.status.admission = None;
        // As much as nobody can have.
        lower.spec.pod_sets[0].count = 100;
    };
    assert_eq!(lower(&waits_itself), 1, "it waits itself");
}

/// By the numbers of the queue.
#[test]
fn nobody_is_sent_back_for_quota_that_the_queue_does_not_give() {
    let cases: [(&str, Edit); 3] = [
        ("the flavor is not there", |cluster| drop(cluster.objects.resource_flavors.remove("pool"))),
        ("Kueue places its pods by a topology", |cluster| {
            cluster.objects.resource_flavors.get_mut("pool").unwrap().spec.topology_name =
                Some("racks".to_owned());
        }),
        ("its holder has a part of what it wants", |cluster| {
            let admission = json!({"clusterQueue": "research", "podSetAssignments": [
                {"name": "main", "count": 17, "flavors": {MEDIUM: "pool"}}]});
            the_workload(cluster, "large").status.admission = serde_json::from_value(admission).unwrap();
            the_workload(cluster, "pair").spec.pod_sets[0].count = 18;
            // Were they not full of others, both nodes could have them.
            cluster.objects.pods.retain(|(_, name), _| !name.starts_with("small-"));
            is_stuck(cluster, "large");
        }),
    ];
    for (why, edit) in cases {
        let mut cluster = stuck();
        edit(&mut cluster);
        assert_eq!(gives(&mut cluster), [], "{why}");
    }
    let mut cluster = stuck();
    let second = json!({"name": "second", "count": 1, "template": {"spec": {"containers": [
        {"name": "main", "resources": {"limits": {"nvidia.com/mig-2g.20gb": "1"}}}]}}});
    the_workload(&mut cluster, "pair").spec.pod_sets.push(serde_json::from_value(second).unwrap());
    assert_eq!(gives(&mut cluster), [], "a part of what it asks for has no quota");
    // Two groups, each with resources and a flavor of its own.
    let mut cluster = stuck();
    let other = json!({"metadata": {"name": "other"}, "spec": {"nodeLabels": {"pool": "research"}}});
    add(&mut cluster, "ResourceFlavor", other);
    let quota = |resource: &str, flavor: &str, n: u32| {
        json!({"coveredResources": [resource], "flavors": [{"name": flavor, "resources": [
            {"name": resource, "nominalQuota": n}]}]})
    };
    let groups = [quota(SMALL, "other", 56), quota(MEDIUM, "pool", 20)];
    queue(&mut cluster, 20, json!({"resourceGroups": groups}));
    assert_eq!(gives(&mut cluster), [("large".to_owned(), "pair".to_owned())]);
    // A cohort without a name is none: what is left is left.
    let mut cluster = stuck();
    queue(&mut cluster, 24, json!({"cohortName": ""}));
    let queue = cluster.objects.cluster_queues.get_mut("research").unwrap();
    queue.status.flavors_reservation[0].resources[0].total.0 = "20".to_owned();
    assert_eq!(gives(&mut cluster), []);
}
