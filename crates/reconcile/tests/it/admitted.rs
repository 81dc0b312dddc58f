//! Workloads that our check has let go: their slices are kept for them until their pods have nodes, and they do not
//! outlive the node to which they are kept. The fleet is that of the queues: two nodes with eight GPUs.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use jiff::SignedDuration;
use reconcile::CheckState;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Until};
use crate::queues::{HOSTNAME, SMALL, add, admit, fleet, of_job, one, pod_of, says, workload};

/// A job of so many pods, which Kueue has let go; its slices are on the first node.
fn let_go(count: u32) -> Cluster {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, count), "job"));
    let ready = one(&cluster);
    assert_eq!(json!(ready.updates), json!([{"name": "main", "nodeSelector": {HOSTNAME: "n1.cluster"}}]));
    admit(&mut cluster, &ready);
    cluster
}

/// A pod of the job as Kueue starts it: kept to the node.
fn started(cluster: &mut Cluster, index: u32, on: Option<&str>) {
    let mut pod = pod_of("job", index, SMALL, on);
    pod["spec"]["nodeSelector"] = json!({HOSTNAME: "n1.cluster"});
    cluster.add_pod(pod);
}

fn is_not_ready(cluster: &mut Cluster) {
    cluster.edit_node("n1", |node| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].status = "False".to_owned();
    });
}

fn is_drained(cluster: &mut Cluster) {
    cluster.edit_node("n1", |node| node.spec.get_or_insert_default().unschedulable = Some(true));
}

/// Somebody else has cut all of the node differently.
fn has_other_slices(cluster: &mut Cluster) {
    cluster.is_cut("n1", "7g.80gb", 8);
    // And others are on all of it.
    for n in 0..8 {
        cluster.add_pod(pod_of("theirs", n, "nvidia.com/mig-7g.80gb", Some("n1")));
    }
}

/// What may become of a node.
type Fate = (&'static str, fn(&mut Cluster));
const FATES: [Fate; 3] =
    [("not ready", is_not_ready), ("drained by somebody", is_drained), ("cut and taken", has_other_slices)];

#[test]
fn a_workload_does_not_outlive_the_node_to_which_it_is_kept() {
    for (fate, happens) in FATES {
        // No pod is there yet.
        let mut cluster = let_go(2);
        happens(&mut cluster);
        let answer = one(&cluster);
        assert_eq!(answer.state, CheckState::Retry, "{fate}: {}", answer.message);
        assert!(answer.message.starts_with("its slices were lost"), "{}", answer.message);
    }
}

/// `Retry` would end the pod that runs, which has its slice whatever became of the node for others.
#[test]
fn a_workload_of_which_a_pod_runs_is_never_taken_back_for_those_that_do_not() {
    for (fate, happens) in FATES {
        let mut cluster = let_go(2);
        started(&mut cluster, 0, Some("n1"));
        started(&mut cluster, 1, None);
        assert_eq!(says(&cluster), [], "{fate}: before");
        happens(&mut cluster);
        assert_eq!(says(&cluster), [], "{fate}");
        // Who waits is told why all the same.
        let told: Vec<String> = cluster.round().answers.iter().map(|answer| answer.text.clone()).collect();
        assert!(told.iter().any(|text| text.contains("not served")), "{fate}: {told:?}");
        // The pod is going, with its node: nothing of the workload runs any more.
        let pods = cluster.objects.pods.iter_mut().filter(|((_, name), _)| name == "job-0");
        for (_, pod) in pods {
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(cluster.now);
            std::sync::Arc::make_mut(pod).metadata.deletion_timestamp = Some(now);
        }
        let answer = one(&cluster);
        assert_eq!(answer.state, CheckState::Retry, "{fate}: {}", answer.message);
    }
}

#[test]
fn a_workload_whose_pods_all_run_is_never_taken_back() {
    for (fate, happens) in FATES {
        let mut cluster = let_go(2);
        started(&mut cluster, 0, Some("n1"));
        started(&mut cluster, 1, Some("n1"));
        happens(&mut cluster);
        assert_eq!(says(&cluster), [], "{fate}");
    }
}

/// An AppWrapper may wrap anything, such as a PyTorchJob, of which nobody reads who controls it. Its pods run on the
/// slices that were made for them, and there are no others.
#[test]
fn whose_pods_are_made_by_somebody_whom_nobody_follows_is_never_taken_back() {
    let mut cluster = fleet();
    cluster.objects.nodes.remove("n2");
    let mut wrapped = workload("appwrapper-tune", SMALL, 4);
    wrapped["metadata"]["ownerReferences"] = by("workload.codeflare.dev/v1beta2", "AppWrapper", "tune");
    add(&mut cluster, "Workload", wrapped);
    for n in 0..52 {
        cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
    }
    let ready = one(&cluster);
    assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
    admit(&mut cluster, &ready);
    for n in 0..4 {
        let mut pod = pod_of("tune-worker", n, SMALL, Some("n1"));
        pod["metadata"]["ownerReferences"] = by("kubeflow.org/v1", "PyTorchJob", "tune");
        cluster.add_pod(pod);
        assert_eq!(says(&cluster), [], "{n}");
    }
    assert_eq!(cluster.round().planned.view.requests, [], "nothing is made for them a second time");
}

/// The slice was made on a node of which other GPUs are idle: another one is made there, and the workload is not
/// sent back. The first node is somebody else's.
#[test]
fn another_slice_is_cut_on_the_same_node_for_one_that_somebody_took_first() {
    let mut cluster = fleet();
    let large = "nvidia.com/mig-3g.40gb";
    add(&mut cluster, "Workload", of_job(workload("job", large, 1), "job"));
    cluster.settle();
    // A node that has just changed rests.
    cluster.now += SignedDuration::from_hours(1);
    let ready = one(&cluster);
    assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
    let host = ready.updates[0].node_selector[HOSTNAME].to_owned();
    let node = host.strip_suffix(".cluster").unwrap().to_owned();
    admit(&mut cluster, &ready);
    let mut pod = pod_of("job", 0, large, None);
    pod["spec"]["nodeSelector"] = json!({HOSTNAME: host});
    cluster.add_pod(pod);
    let free = cluster.offers(&node, "3g.40gb").parse::<u32>().unwrap();
    assert!(free > 0, "{free}");
    for n in 0..free {
        cluster.add_pod(pod_of("thief", n, large, Some(&node)));
    }
    assert_eq!(says(&cluster), [], "another can be cut there");
    cluster.settle();
    assert!(cluster.offers(&node, "3g.40gb").parse::<u32>().unwrap() > free, "{node}");
    assert_eq!(says(&cluster), []);
    // Where no more can be cut, because others are on every GPU, it goes back.
    let now = cluster.offers(&node, "3g.40gb").parse::<u32>().unwrap();
    for n in free..now {
        cluster.add_pod(pod_of("thief", n, large, Some(&node)));
    }
    for profile in ["1g.10gb", "2g.20gb", "4g.40gb", "7g.80gb"] {
        let left = cluster.offers(&node, profile).parse::<u32>().unwrap_or(0);
        for n in 0..left {
            let resource = format!("nvidia.com/mig-{profile}");
            cluster.add_pod(pod_of(&format!("crowd-{profile}"), n, &resource, Some(&node)));
        }
    }
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Retry, "{}", answer.message);
}

/// A job that may run with fewer pods than it wants (`minCount`) gets quota for so many: these are planned for.
#[test]
fn as_many_pods_are_planned_for_as_there_is_quota() {
    let at_least = |assigned: Option<u32>| {
        let mut cluster = fleet();
        let mut partial = of_job(workload("job", SMALL, 5), "job");
        partial["spec"]["podSets"][0]["minCount"] = 2.into();
        if let Some(count) = assigned {
            partial["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
                {"name": "main", "count": count, "flavors": {SMALL: "any"}}]});
        }
        add(&mut cluster, "Workload", partial);
        assert_eq!(one(&cluster).state, CheckState::Ready);
        cluster.round().planned.view.requests.len()
    };
    assert_eq!(at_least(Some(3)), 3, "less than it wants, more than it needs");
    assert_eq!(at_least(Some(2)), 2);
    assert_eq!(at_least(None), 5, "who does not say for how many has given quota for all");
}

/// Quota of a flavor whose nodes are gone, or were never there: whoever has it waits, and is told which label it is.
#[test]
fn a_flavor_that_no_node_matches_makes_its_workloads_wait_and_rejects_none() {
    let mut cluster = fleet();
    let labels = json!({"nodeLabels": {"rack": "r9"}});
    add(&mut cluster, "ResourceFlavor", json!({"metadata": {"name": "old-rack"}, "spec": labels}));
    let mut flavored = workload("job", SMALL, 2);
    flavored["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
        {"name": "main", "count": 2, "flavors": {SMALL: "old-rack"}}]});
    add(&mut cluster, "Workload", flavored);
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Pending, 0), "{}", answer.message);
    assert!(answer.message.contains("rack"), "{}", answer.message);
    let writes = cluster.settle();
    assert_eq!(cluster.offers("n1", "1g.10gb"), "56", "nothing is cut for it: {writes}");
    // A node of that flavor comes.
    cluster.edit_node("n1", |node| {
        node.metadata.labels.get_or_insert_default().insert("rack".to_owned(), "r9".to_owned());
    });
    assert_eq!(one(&cluster).state, CheckState::Ready);
}

/// What a node was promised to: the number of each request, by the owner.
fn promised(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (node, known) in &cluster.objects.gpu_nodes {
        let rollout = known.status.as_ref().and_then(|status| status.rollout.as_ref());
        for to in rollout.into_iter().flat_map(|rollout| &rollout.promised) {
            *found.entry(format!("{} {} on {node}", to.kind, to.name)).or_default() += 1;
        }
    }
    found
}

/// The controller of an object.
fn by(api_version: &str, kind: &str, name: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("u-{name}"), "controller": true}])
}

/// An object of others, of which nothing but its owner is read.
fn owned(cluster: &mut Cluster, (api_version, kind, name): (&str, &str, &str), by: Value) {
    let object = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"namespace": "team", "name": name, "ownerReferences": by}});
    cluster.objects.add_value(api_version, kind, object, &mut |problem| panic!("{problem}"));
}

/// Kueue queues the TrainJob, whose JobSet makes two indexed Jobs of four pods each. What was promised to the TrainJob
/// is kept for its pods, in whatever order they come, although strangers who are older ask for the same slices.
#[test]
fn what_was_promised_to_a_train_job_is_kept_for_the_pods_of_its_jobs() {
    let mut cluster = fleet();
    cluster.objects.nodes.remove("n2");
    for n in 0..48 {
        cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
    }
    let mut tune = workload("trainjob-tune", SMALL, 8);
    tune["metadata"]["ownerReferences"] = by("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune");
    add(&mut cluster, "Workload", tune);
    let _ = cluster.step(Until::End);
    let ready = one(&cluster);
    assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
    admit(&mut cluster, &ready);
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), BTreeMap::from([("TrainJob tune on n1".to_owned(), 8)]));
    for n in 0..8 {
        let mut older = pod_of("older", n, SMALL, None);
        older["metadata"]["creationTimestamp"] = "2026-11-21T07:00:00Z".into();
        older["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
        cluster.add_pod(older);
    }
    owned(
        &mut cluster,
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "tune"),
        by("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune"),
    );
    // The second Job is the first to make its pods, from the last to the first.
    let mut made = 0;
    for job in ["tune-node-1", "tune-node-0"] {
        let set = by("jobset.x-k8s.io/v1alpha2", "JobSet", "tune");
        owned(&mut cluster, ("batch/v1", "Job", job), set);
        for index in (0..4).rev() {
            let mut pod = pod_of(job, index, SMALL, None);
            pod["metadata"]["creationTimestamp"] = format!("2026-11-21T08:30:0{made}Z").into();
            pod["spec"]["nodeSelector"] = json!({HOSTNAME: "n1.cluster"});
            cluster.add_pod(pod);
            made += 1;
            let round = cluster.step(Until::End);
            let requests = &round.planned.view.requests;
            let of_tune = requests.iter().filter(|request| request.id.name == "tune").count();
            assert_eq!(of_tune, 8, "one request for each pod, made or not: {made}");
            assert_eq!(round.checks, [], "{made}");
            let kept = promised(&cluster);
            assert_eq!(kept, BTreeMap::from([("TrainJob tune on n1".to_owned(), 8)]), "{made}");
        }
    }
    // They get their nodes.
    for job in ["tune-node-0", "tune-node-1"] {
        for index in 0..4 {
            cluster.add_pod(pod_of(job, index, SMALL, Some("n1")));
        }
    }
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), BTreeMap::new());
}

/// A job of a set of a TrainJob that Kueue has let go, whose eight pods run on the last slices. Nobody could say who
/// controls these jobs: the API server did not answer.
fn a_train_job_runs_whose_jobs_nobody_could_ask() -> Cluster {
    let mut cluster = fleet();
    cluster.objects.nodes.remove("n2");
    for n in 0..48 {
        cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
    }
    let mut tune = workload("trainjob-tune", SMALL, 8);
    tune["metadata"]["ownerReferences"] = by("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune");
    add(&mut cluster, "Workload", tune);
    let ready = one(&cluster);
    assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
    admit(&mut cluster, &ready);
    for job in ["tune-node-0", "tune-node-1"] {
        for index in 0..4 {
            cluster.add_pod(pod_of(job, index, SMALL, Some("n1")));
        }
        cluster.objects.unknown_owners.insert(("Job".to_owned(), ("team".to_owned(), job.to_owned())));
    }
    cluster
}

/// Kueue would end the training, because its own pods hold what seems to be lost.
#[test]
fn a_workload_that_runs_is_not_taken_back_while_nobody_can_say_whose_its_pods_are() {
    let mut cluster = a_train_job_runs_whose_jobs_nobody_could_ask();
    assert_eq!(says(&cluster), []);
    assert_eq!(cluster.round().planned.view.requests, [], "nothing is made for them a second time");
    // That somebody has no owner is another answer than none: then these are the pods of two jobs of their own.
    cluster.objects.unknown_owners.clear();
    assert_eq!(one(&cluster).state, CheckState::Retry);
    // Now they are found.
    let set = || by("jobset.x-k8s.io/v1alpha2", "JobSet", "tune");
    owned(
        &mut cluster,
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "tune"),
        by("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune"),
    );
    for job in ["tune-node-0", "tune-node-1"] {
        owned(&mut cluster, ("batch/v1", "Job", job), set());
    }
    assert_eq!(says(&cluster), []);
    let placed: Vec<u32> = cluster.round().planned.view.queued.values().map(|of| of.sets[0].placed).collect();
    assert_eq!(placed, [8]);
}

/// The pods that are known to be its own have no node yet, and those that run are not known to be its own.
#[test]
fn a_workload_of_which_some_pods_are_known_is_not_taken_back_for_them_while_others_may_run() {
    let mut cluster = a_train_job_runs_whose_jobs_nobody_could_ask();
    for index in 0..4 {
        cluster.objects.pods.remove(&("team".to_owned(), format!("tune-node-1-{index}")));
        cluster.add_pod(pod_of("thief", index, SMALL, Some("n1")));
        let mut pod = pod_of("tune-node-1", index, SMALL, None);
        pod["metadata"]["ownerReferences"] = by("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune");
        cluster.add_pod(pod);
    }
    assert_eq!(
        cluster.round().planned.view.requests.len(),
        4,
        "those that are there, and none for the others"
    );
    assert_eq!(says(&cluster), []);
    cluster.objects.unknown_owners.clear();
    assert_eq!(one(&cluster).state, CheckState::Retry);
}

/// What cannot be found out of another namespace is no reason to keep anything.
#[test]
fn a_workload_whose_node_is_lost_goes_back_whatever_runs_unknown_in_another_namespace() {
    let mut cluster = let_go(2);
    let mut strange = pod_of("strange", 0, SMALL, Some("n1"));
    strange["metadata"]["namespace"] = "others".into();
    cluster.add_pod(strange);
    cluster.objects.unknown_owners.insert(("Job".to_owned(), ("others".to_owned(), "strange".to_owned())));
    is_not_ready(&mut cluster);
    assert_eq!(one(&cluster).state, CheckState::Retry);
}

/// Each group of a LeaderWorkerSet is a workload of its own; all of them have the same owner. The first group is kept
/// to one node and the second to another.
#[test]
fn each_group_of_a_leader_worker_set_keeps_its_own_node() {
    let mut cluster = fleet();
    cluster.is_cut("n2", "1g.10gb", 56);
    // Three are left on each node: enough for one group of three, and not for two.
    for (node, job) in [("n1", "others-1"), ("n2", "others-2")] {
        for n in 0..53 {
            cluster.add_pod(pod_of(job, n, SMALL, Some(node)));
        }
    }
    let set = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "granite");
    for group in 0..2 {
        let mut of_group = workload(&format!("leaderworkerset-granite-{group}"), SMALL, 3);
        of_group["metadata"]["creationTimestamp"] = format!("2026-11-21T08:00:0{group}Z").into();
        of_group["metadata"]["ownerReferences"] =
            json!([{"apiVersion": set.0, "kind": set.1, "name": set.2, "uid": "u"}]);
        add(&mut cluster, "Workload", of_group);
    }
    let _ = cluster.step(Until::End);
    let ready = says(&cluster);
    let nodes: Vec<&str> =
        ready.iter().filter_map(|answer| answer.updates.first()?.node_selector.get(HOSTNAME)).collect();
    assert_eq!(nodes.len(), 2, "{ready:?}");
    assert_ne!(nodes[0], nodes[1], "each group has its own slices");
    let nodes: Vec<String> = nodes.into_iter().map(str::to_owned).collect();
    for answer in &ready {
        admit(&mut cluster, answer);
    }
    let _ = cluster.step(Until::End);
    let three_each =
        BTreeMap::from(["n1", "n2"].map(|node| (format!("LeaderWorkerSet granite on {node}"), 3)));
    assert_eq!(promised(&cluster), three_each);
    // The leaders are of a set that the LeaderWorkerSet owns, the workers of sets that the leaders own. The second
    // group comes first.
    owned(&mut cluster, ("apps/v1", "StatefulSet", "granite"), by(set.0, set.1, set.2));
    for group in [1_usize, 0] {
        owned(
            &mut cluster,
            ("apps/v1", "StatefulSet", &format!("granite-{group}")),
            by("v1", "Pod", &format!("granite-{group}")),
        );
        for worker in 0..3_u32 {
            let (name, of, index) = match worker {
                0 => (format!("granite-{group}"), "granite".to_owned(), group.to_string()),
                n => (format!("granite-{group}-{n}"), format!("granite-{group}"), n.to_string()),
            };
            let mut pod = pod_of("granite", worker, SMALL, None);
            pod["metadata"]["name"] = name.as_str().into();
            pod["metadata"]["uid"] = format!("u-{name}").into();
            pod["metadata"]["creationTimestamp"] = format!("2026-11-21T08:30:{}{worker}Z", 1 - group).into();
            pod["metadata"]["labels"] = json!({
                "apps.kubernetes.io/pod-index": index,
                "leaderworkerset.sigs.k8s.io/name": "granite",
                "leaderworkerset.sigs.k8s.io/group-index": group.to_string(),
                "kueue.x-k8s.io/pod-group-name": format!("leaderworkerset-granite-{group}"),
            });
            pod["metadata"]["ownerReferences"] = by("apps/v1", "StatefulSet", &of);
            pod["spec"]["nodeSelector"] = json!({HOSTNAME: nodes[group]});
            cluster.add_pod(pod);
            let round = cluster.step(Until::End);
            let ids: Vec<_> = round.planned.view.requests.iter().map(|r| r.id.to_string()).collect();
            assert_eq!(ids.len(), 6, "{name}: {ids:?}");
            assert_eq!(round.checks, [], "{name}");
            assert_eq!(promised(&cluster), three_each, "{name}");
        }
    }
}

/// One workload of two shapes: a driver on a whole GPU, which only the second node has, and three workers on small
/// slices, which only the first one has. Somebody computes on every GPU of the first.
fn driver_and_workers() -> Cluster {
    let mut cluster = fleet();
    // Seven slices on each of eight GPUs: with six left no GPU is idle.
    for n in 0..50 {
        cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
    }
    let mut both = of_job(workload("ray", SMALL, 3), "ray");
    let whole = "nvidia.com/mig-7g.80gb";
    let mut driver = both["spec"]["podSets"][0].clone();
    driver["name"] = "driver".into();
    driver["count"] = 1.into();
    driver["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {whole: "1"}, "limits": {whole: "1"}});
    both["spec"]["podSets"][0]["name"] = "workers".into();
    both["spec"]["podSets"].as_array_mut().unwrap().insert(0, driver);
    add(&mut cluster, "Workload", both);
    cluster
}

#[test]
fn of_a_workload_of_two_shapes_each_set_is_kept_to_its_own_node_and_all_goes_back_with_one() {
    let mut cluster = driver_and_workers();
    let ready = one(&cluster);
    assert_eq!((ready.state, ready.message.as_str()), (CheckState::Ready, "its slices are free on n1, n2"));
    assert_eq!(
        json!(ready.updates),
        json!([
            {"name": "driver", "nodeSelector": {HOSTNAME: "n2.cluster"}},
            {"name": "workers", "nodeSelector": {HOSTNAME: "n1.cluster"}},
        ])
    );
    // The slice of one set is lost: all of it goes back, since Kueue starts a workload as a whole.
    admit(&mut cluster, &ready);
    assert_eq!(says(&cluster), [], "nothing is lost yet");
    cluster.edit_node("n2", |node| node.spec.get_or_insert_default().unschedulable = Some(true));
    let lost = one(&cluster);
    assert_eq!(lost.state, CheckState::Retry, "{}", lost.message);
    assert!(lost.updates.is_empty());
}

/// Kueue adds the labels of a rack to each pod itself: a node of ours could be in another rack, and the pod would then
/// fit nowhere.
#[test]
fn pods_that_kueue_places_by_a_topology_are_kept_to_no_node() {
    let mut cluster = fleet();
    let racks = json!({"nodeLabels": {}, "topologyName": "racks"});
    add(&mut cluster, "ResourceFlavor", json!({"metadata": {"name": "racks"}, "spec": racks}));
    let mut placed = workload("job", SMALL, 2);
    placed["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
        {"name": "main", "count": 2, "flavors": {SMALL: "racks"}}]});
    add(&mut cluster, "Workload", placed);
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
}
