//! Workloads in Kueue's queues, on a fleet of nodes with eight GPUs: when our check is ready, for which
//! node, and when it is no longer ready.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use api::foreign::Workload;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use planner::check::{Note, Problem, Severity};
use planner::names::RequestId;
use planner::report::{Outcome, Why};
use reconcile::{CheckAnswer, CheckState};
use rollout::names;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Until};

pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Two nodes with eight GPUs, of which the first has seven small slices on
/// each, and our check.
pub(crate) fn fleet() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.settings.answers_checks = true;
    for name in ["n1", "n2"] {
        cluster.hgx(name);
        cluster.edit_node(name, |node| {
            node.metadata
                .labels
                .get_or_insert_default()
                .insert(HOSTNAME.to_owned(), format!("{name}.cluster"));
        });
    }
    cluster.is_cut("n1", "1g.10gb", 56);
    cluster.policy(json!({"type": "DemandDriven"}));
    add(
        &mut cluster,
        "AdmissionCheck",
        json!({"metadata": {"name": "gpu-slices"}, "spec": {"controllerName": "slicewright.io/slices"}}),
    );
    cluster
}

pub(crate) fn add(cluster: &mut Cluster, kind: &str, object: Value) {
    cluster.objects.add_value("kueue.x-k8s.io/v1beta2", kind, object, &mut |problem| panic!("{problem}"));
}

/// A workload that has its quota and waits for our check: so many pods.
pub(crate) fn workload(name: &str, resource: &str, count: u32) -> Value {
    json!({
        "metadata": {"namespace": "team", "name": name, "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"queueName": "research", "podSets": [{"name": "main", "count": count, "template": {"spec": {
            "containers": [{"name": "main", "resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}],
        }}}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
                "lastTransitionTime": "2026-11-21T08:00:00Z"}],
            "admissionChecks": [{"name": "gpu-slices", "state": "Pending", "message": ""}],
        },
    })
}

pub(crate) fn says(cluster: &Cluster) -> Vec<CheckAnswer> {
    cluster.round().checks
}

/// What is said of the only workload.
pub(crate) fn one(cluster: &Cluster) -> CheckAnswer {
    let mut all = says(cluster);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// The operator's answer is written, and Kueue has admitted the workload.
pub(crate) fn admit(cluster: &mut Cluster, answer: &CheckAnswer) {
    let now = cluster.now;
    let workload: &mut Workload = Arc::make_mut(cluster.objects.workloads.get_mut(&answer.workload).unwrap());
    let check = &mut workload.status.admission_checks[0];
    check.state = answer.state.name().to_owned();
    check.pod_set_updates.clone_from(&answer.updates);
    let mut admitted = workload.status.conditions[0].clone();
    admitted.type_ = "Admitted".to_owned();
    admitted.last_transition_time.0 = now;
    workload.status.conditions.push(admitted);
}

/// A pod of the workload's job, on a node or on none.
pub(crate) fn pod_of(job: &str, index: u32, resource: &str, on: Option<&str>) -> Value {
    json!({
        "metadata": {"namespace": "team", "name": format!("{job}-{index}"), "uid": format!("u-{job}-{index}"),
            "labels": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": true}]},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {
            "requests": {resource: "1"}, "limits": {resource: "1"}}}]},
        "status": {"phase": if on.is_some() { "Running" } else { "Pending" }},
    })
}

pub(crate) fn of_job(mut workload: Value, job: &str) -> Value {
    workload["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": true}]);
    workload
}

pub(crate) const SMALL: &str = "nvidia.com/mig-1g.10gb";

#[test]
fn a_workload_whose_slices_are_free_is_ready_and_kept_to_their_node() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("job", SMALL, 8));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Ready, "{}", answer.message);
    assert_eq!(answer.message, "its slices are free on n1");
    assert_eq!(json!(answer.updates), json!([{"name": "main", "nodeSelector": {HOSTNAME: "n1.cluster"}}]));
}

/// What is written there is anybody's: no round may end for it, and no slice is kept until a moment that never comes.
#[test]
fn an_admission_that_is_dated_at_the_end_of_time_keeps_no_slice_and_stops_no_round() {
    for (at, is_kept) in [("9999-12-30T21:59:59Z", false), ("-009999-01-02T02:00:00Z", false), ("", true)] {
        let mut cluster = fleet();
        add(&mut cluster, "Workload", workload("job", SMALL, 8));
        let answer = one(&cluster);
        admit(&mut cluster, &answer);
        let workload = Arc::make_mut(cluster.objects.workloads.get_mut(&answer.workload).unwrap());
        if !at.is_empty() {
            workload.status.conditions.last_mut().unwrap().last_transition_time.0 = at.parse().unwrap();
        }
        assert_eq!(cluster.round().planned.view.requests.is_empty(), !is_kept, "{at}");
    }
}

#[test]
fn a_workload_whose_slices_have_to_be_made_is_told_so_and_a_node_is_changed_for_it() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("job", "nvidia.com/mig-3g.40gb", 2));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending);
    assert!(answer.message.contains("slices for 0 of 2 pods are free; planned: n"), "{}", answer.message);
    assert!(answer.updates.is_empty());
    cluster.settle();
    assert_eq!(one(&cluster).state, CheckState::Ready);
}

#[test]
fn pods_are_kept_to_no_node_where_its_label_is_not_its_own_somebody_chose_or_there_are_two() {
    let mut cluster = fleet();
    cluster.edit_node("n2", |node| {
        node.metadata.labels.get_or_insert_default().insert(HOSTNAME.to_owned(), "n1.cluster".to_owned());
    });
    add(&mut cluster, "Workload", workload("shared", SMALL, 1));
    assert_eq!((one(&cluster).state, one(&cluster).updates.len()), (CheckState::Ready, 0));

    let mut cluster = fleet();
    let mut chosen = workload("chosen", SMALL, 1);
    chosen["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"] = json!({HOSTNAME: "n1.cluster"});
    add(&mut cluster, "Workload", chosen);
    assert_eq!((one(&cluster).state, one(&cluster).updates.len()), (CheckState::Ready, 0));

    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("large", SMALL, 57));
    cluster.settle();
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
}

#[test]
fn a_flavor_says_which_nodes_a_quota_is_for() {
    let mut cluster = fleet();
    add(
        &mut cluster,
        "ResourceFlavor",
        json!({"metadata": {"name": "second"}, "spec": {"nodeLabels": {HOSTNAME: "n2.cluster"}}}),
    );
    let mut flavored = workload("job", SMALL, 1);
    flavored["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
        {"name": "main", "count": 1, "flavors": {SMALL: "second"}}]});
    add(&mut cluster, "Workload", flavored);
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending);
    assert!(answer.message.contains("n2 is to be changed"), "{}", answer.message);
}

#[test]
fn nothing_is_asked_or_said_of_what_has_no_quota_is_evicted_has_ended_or_is_somebody_elses() {
    type Edit = fn(&mut Value);

    let edits: [(&str, Edit); 9] = [
        ("no quota", |w| w["status"]["conditions"][0]["status"] = "False".into()),
        ("evicted", |w| add_condition(w, "Evicted")),
        ("finished", |w| add_condition(w, "Finished")),
        ("inactive", |w| w["spec"]["active"] = false.into()),
        ("going", |w| w["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00Z".into()),
        ("elsewhere", |w| w["status"]["clusterName"] = "worker-1".into()),
        ("rejected", |w| w["status"]["admissionChecks"][0]["state"] = "Rejected".into()),
        ("another's check", |w| {
            w["status"]["admissionChecks"][0]["name"] = "provisioning".into();
        }),
        ("no check that is known", |w| w["status"]["admissionChecks"][0]["name"] = "unknown".into()),
    ];
    for (why, edit) in edits {
        let mut cluster = fleet();
        let theirs = json!({"metadata": {"name": "provisioning"}, "spec": {"controllerName": "kueue.x-k8s.io/provisioning"}});
        add(&mut cluster, "AdmissionCheck", theirs);
        let mut object = workload("job", SMALL, 1);
        edit(&mut object);
        add(&mut cluster, "Workload", object);
        assert_eq!(says(&cluster), [], "{why}");
        assert_eq!(cluster.round().planned.view.requests, [], "{why}");
    }
    // An operator that only reports says nothing either, and plans for it.
    let mut cluster = fleet();
    cluster.settings.answers_checks = false;
    add(&mut cluster, "Workload", workload("job", SMALL, 1));
    assert_eq!(says(&cluster), []);
    assert_eq!(cluster.round().planned.view.requests.len(), 1);
}

fn add_condition(workload: &mut Value, kind: &str) {
    let mut condition = workload["status"]["conditions"][0].clone();
    condition["type"] = kind.into();
    workload["status"]["conditions"].as_array_mut().unwrap().push(condition);
}

#[test]
fn a_promise_holds_until_the_pods_have_nodes_and_is_taken_back_when_its_node_is_lost() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 2), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    assert_eq!(says(&cluster), [], "what is ready is not said again");
    let asked: Vec<RequestId> = cluster.round().planned.view.requests.iter().map(|r| r.id.clone()).collect();
    assert_eq!(asked.len(), 2, "its slices are planned for nobody else");
    let mut lost = cluster.objects.clone();
    lost.nodes.remove("n1");
    std::mem::swap(&mut lost, &mut cluster.objects);
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.retry_after), (CheckState::Retry, Some(30)));
    assert!(answer.message.starts_with("its slices were lost"), "{}", answer.message);
    // With the node, one pod runs, the other has not been looked at. Then both run: nothing, whatever becomes of it.
    std::mem::swap(&mut lost, &mut cluster.objects);
    cluster.add_pod(pod_of("job", 0, SMALL, Some("n1")));
    cluster.add_pod(pod_of("job", 1, SMALL, None));
    assert_eq!(cluster.round().planned.view.requests.len(), 1);
    cluster.add_pod(pod_of("job", 1, SMALL, Some("n1")));
    assert_eq!(says(&cluster), []);
    cluster.objects.nodes.remove("n1");
    assert_eq!(says(&cluster), [], "never while it runs");
}

#[test]
fn a_slice_that_somebody_took_first_is_no_loss_while_the_node_has_others_and_a_full_node_is() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    for n in 0..55 {
        cluster.add_pod(pod_of("thief", n, SMALL, Some("n1")));
    }
    assert_eq!(says(&cluster), []);
    cluster.add_pod(pod_of("thief", 55, SMALL, Some("n1")));
    assert_eq!(one(&cluster).state, CheckState::Retry, "its pods are kept to n1, which is full");
}

/// One slice is left. Who is older and comes later would have it, if nothing had
/// been promised.
#[test]
fn the_slice_of_a_ready_workload_is_kept_for_it_until_its_pod_has_a_node() {
    let mut cluster = fleet();
    cluster.objects.nodes.remove("n2");
    for n in 0..55 {
        cluster.add_pod(pod_of("others", n, SMALL, Some("n1")));
    }
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let _ = cluster.step(Until::End);
    let ready = one(&cluster);
    assert_eq!(ready.state, CheckState::Ready, "{}", ready.message);
    admit(&mut cluster, &ready);
    let _ = cluster.step(Until::End);
    let promised = |cluster: &Cluster| {
        let rollout = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().rollout.unwrap();
        rollout.promised.into_iter().map(|to| to.name).collect::<Vec<_>>()
    };
    assert_eq!(promised(&cluster), ["job"]);
    let mut older = pod_of("older", 0, SMALL, None);
    older["metadata"]["creationTimestamp"] = "2026-11-21T07:00:00Z".into();
    older["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
    cluster.add_pod(older);
    assert_eq!(says(&cluster), [], "what was said is not taken back");
    let round = cluster.step(Until::End);
    let told = round.answers.iter().find(|answer| answer.id.name == "older").unwrap();
    assert!(told.text.starts_with("not served: "), "{}", told.text);
    assert_eq!(promised(&cluster), ["job"]);
    cluster.add_pod(pod_of("job", 0, SMALL, Some("n1")));
    let _ = cluster.step(Until::End);
    assert_eq!(promised(&cluster), Vec::<String>::new());
}

/// The operator has died between both writes, and was started anew.
#[test]
fn the_slice_of_a_ready_workload_is_kept_also_where_nobody_remembers_that_it_was_promised() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    let _ = cluster.step(Until::End);
    let rollout = cluster.objects.gpu_nodes["n1"].status.clone().unwrap().rollout.unwrap();
    assert_eq!(rollout.promised.into_iter().map(|to| to.name).collect::<Vec<_>>(), ["job"]);
}

#[test]
fn a_pod_of_another_namespace_that_names_the_same_owner_is_no_pod_of_the_workload() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let mut forged = pod_of("job", 0, SMALL, Some("n1"));
    forged["metadata"]["namespace"] = "others".into();
    cluster.add_pod(forged);
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 1), "{}", answer.message);
}

#[test]
fn nothing_is_kept_for_pods_that_nobody_makes() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    cluster.now += cluster.settings.observe.blocked_after + SignedDuration::from_secs(1);
    assert_eq!(cluster.round().planned.view.requests, []);
    assert_eq!(says(&cluster), []);
}

#[test]
fn a_workbench_with_its_set_its_gated_pod_and_its_workload_is_one_request() {
    let mut cluster = fleet();
    cluster.workbench("lab", "1g.10gb");
    let namespace = cluster.objects.notebooks.keys().next().unwrap().0.clone();
    let mut gated = pod_of("lab", 0, SMALL, None);
    gated["metadata"]["namespace"] = namespace.clone().into();
    gated["metadata"]["labels"] =
        json!({"notebook-name": "lab", "statefulset": "lab", "apps.kubernetes.io/pod-index": "0"});
    gated["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet".into();
    gated["metadata"]["ownerReferences"][0]["name"] = "lab".into();
    gated["spec"]["schedulingGates"] = json!([{"name": "kueue.x-k8s.io/admission"}]);
    cluster.add_pod(gated);
    let mut group = workload("statefulset-lab", SMALL, 1);
    group["metadata"]["namespace"] = namespace.into();
    group["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Pod", "name": "lab-0", "uid": "p"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "lab", "uid": "s"}]);
    add(&mut cluster, "Workload", group);
    let ids: Vec<String> = cluster
        .round()
        .planned
        .view
        .requests
        .iter()
        .map(|r| format!("{} {}", r.id.kind, r.id.name))
        .collect();
    assert_eq!(ids, ["Notebook lab"]);
    assert_eq!(one(&cluster).state, CheckState::Ready);
}

#[test]
fn what_no_layout_of_any_gpu_serves_is_rejected_and_what_these_nodes_lack_is_not() {
    for (resource, state) in [
        ("nvidia.com/mig-small", CheckState::Rejected),
        ("nvidia.com/mig-3g.41gb", CheckState::Rejected),
        ("nvidia.com/mig-1g.6gb", CheckState::Pending),
        ("cpu", CheckState::Ready),
    ] {
        let mut cluster = fleet();
        add(&mut cluster, "Workload", workload("job", resource, 1));
        let answer = one(&cluster);
        assert_eq!(answer.state, state, "{resource}: {}", answer.message);
    }
}

/// Kueue starts all pods of a workload or none, so slices for sixteen of seventeen would wait for good.
#[test]
fn a_workload_that_can_never_be_complete_stays_pending_takes_no_slices_and_is_told_how_many_there_can_be() {
    let large = "nvidia.com/mig-7g.80gb";
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train", large, 17), "train"));
    let mut other = of_job(workload("other", large, 2), "other");
    other["metadata"]["creationTimestamp"] = "2026-11-21T08:01:00Z".into();
    add(&mut cluster, "Workload", other);
    let said = |cluster: &Cluster, name: &str| {
        says(cluster).into_iter().find(|answer| answer.workload.1 == name).map(|of| (of.state, of.message))
    };
    let never = "slices for 0 of 17 pods are free; not served: the pods of its workload start together and ask for 17 of 7g.80gb in \
                 all, and the nodes that they may use can never have more than 16 at the same time. What would help: start the \
                 workload with fewer pods, which ask for at most 16 of nvidia.com/mig-7g.80gb in all";
    assert_eq!(said(&cluster, "train"), Some((CheckState::Pending, never.to_owned())));
    let served: usize = cluster.round().planned.plan.steps.iter().map(|step| step.serves.len()).sum();
    assert!(served <= 2, "{served} are served by what is made");
    cluster.settle();
    assert_eq!(said(&cluster, "other").map(|(state, _)| state), Some(CheckState::Ready));
    assert_eq!(said(&cluster, "train").map(|(state, _)| state), Some(CheckState::Pending));
    // As many as there can be are served, all of them.
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("train", large, 16), "train"));
    cluster.settle();
    assert_eq!(one(&cluster).state, CheckState::Ready);
}

/// The store keeps so much of where the pods of a namespace may go, and of what is beyond it a digest: who comes then
/// has done nothing wrong, and is served once the others have gone.
#[test]
fn nobody_is_rejected_for_what_the_other_pods_of_a_namespace_take_up() {
    let mut cluster = fleet();
    let mut crowded_out = workload("job", SMALL, 1);
    let digest = json!({"key": names::TOO_LONG, "operator": "In", "values": ["d1"]});
    crowded_out["spec"]["podSets"][0]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [digest]}]}}});
    add(&mut cluster, "Workload", crowded_out);
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending, "{}", answer.message);
    assert!(answer.message.contains("too long to be evaluated"), "{}", answer.message);
}

/// A GPU that is newer than this operator may have any profile.
#[test]
fn nobody_is_rejected_for_a_profile_that_a_node_of_an_unknown_model_may_have() {
    let mut cluster = fleet();
    cluster.edit_node("n2", |node| {
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-Z900-SXM9-640GB".to_owned());
        labels.insert("nvidia.com/mig.config".to_owned(), "all-2g.160gb".to_owned());
        labels.remove("nvidia.com/mig-7g.80gb.count");
        let allocatable = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.remove("nvidia.com/mig-7g.80gb");
        allocatable.insert("nvidia.com/mig-2g.160gb".to_owned(), Quantity("24".to_owned()));
    });
    add(&mut cluster, "Workload", workload("job", "nvidia.com/mig-2g.160gb", 1));
    let answer = one(&cluster);
    assert_eq!(answer.state, CheckState::Pending, "{}", answer.message);
    // What is no profile at all, that node does not have either.
    let mut misspelt = workload("misspelt", "nvidia.com/mig-small", 1);
    misspelt["metadata"]["creationTimestamp"] = "2026-11-21T08:01:00Z".into();
    add(&mut cluster, "Workload", misspelt);
    let states: Vec<CheckState> = says(&cluster).iter().map(|answer| answer.state).collect();
    assert_eq!(states, [CheckState::Pending, CheckState::Rejected]);
}

#[test]
fn pods_are_kept_to_no_node_where_one_of_them_has_a_node_already() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 2), "job"));
    cluster.add_pod(pod_of("job", 0, SMALL, Some("n1")));
    let answer = one(&cluster);
    assert_eq!((answer.state, answer.updates.len()), (CheckState::Ready, 0), "{}", answer.message);
}

#[test]
fn what_is_ready_is_not_taken_back_where_something_else_is_in_the_way_or_nothing_is_planned() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 1), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    let with = |why: Why| {
        let outcome = Outcome::Unserved { why, help: Vec::new() };
        cluster.round_that_thinks(|planned| planned.report.requests[0].outcome = outcome).checks.len()
    };
    assert_eq!(with(Why::BlockedElsewhere { message: "no image".to_owned() }), 0);
    assert_eq!(with(Why::NoPlan { why: "it gave up".to_owned() }), 0);
    assert_eq!(with(Why::AllUsed), 1);
}

#[test]
fn nothing_is_said_while_the_cluster_settles_or_by_a_plan_that_breaks_a_rule() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", workload("job", SMALL, 1));
    assert_eq!(says(&cluster).len(), 1);
    // Who asks for no slices has no part in any plan.
    let mut plain = workload("plain", "cpu", 1);
    plain["metadata"]["creationTimestamp"] = "2026-11-21T08:01:00Z".into();
    add(&mut cluster, "Workload", plain);
    let unsound = cluster.round_that_thinks(|planned| planned.plan.object(note()));
    let said: Vec<_> = unsound.checks.iter().map(|c| (c.workload.1.as_str(), c.state)).collect();
    assert_eq!(said, [("plain", CheckState::Ready)]);
    cluster.obstacles.settles_until = Some(cluster.now + SignedDuration::from_secs(60));
    assert_eq!(says(&cluster), []);
}

/// What the checker says against a plan.
pub(crate) fn note() -> Note {
    Note { severity: Severity::Fatal, node: Some("n2".into()), gpu: None, problem: Problem::NodeTwice }
}

#[test]
fn a_pod_that_has_ended_asks_for_nothing_more() {
    let mut cluster = fleet();
    add(&mut cluster, "Workload", of_job(workload("job", SMALL, 2), "job"));
    let ready = one(&cluster);
    admit(&mut cluster, &ready);
    let mut ended = pod_of("job", 0, SMALL, Some("n1"));
    ended["status"]["phase"] = "Succeeded".into();
    cluster.add_pod(ended);
    cluster.add_pod(pod_of("job", 1, SMALL, None));
    assert_eq!(cluster.round().planned.view.requests.len(), 1);
}

#[test]
fn a_flavor_brings_the_tolerations_of_its_nodes() {
    let mut cluster = fleet();
    cluster.edit_node("n1", |node| {
        let taint = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
        node.spec.get_or_insert_default().taints = serde_json::from_value(taint).unwrap();
    });
    let mut flavored = workload("job", SMALL, 1);
    flavored["status"]["admission"] = json!({"clusterQueue": "q", "podSetAssignments": [
        {"name": "main", "flavors": {SMALL: "tainted"}}]});
    add(&mut cluster, "Workload", flavored);
    assert_eq!(one(&cluster).state, CheckState::Pending);
    let spec = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
    add(&mut cluster, "ResourceFlavor", json!({"metadata": {"name": "tainted"}, "spec": spec}));
    assert_eq!(one(&cluster).state, CheckState::Ready);
}

#[test]
fn pods_belong_to_the_set_that_they_name() {
    let mut cluster = fleet();
    let mut two = of_job(workload("job", SMALL, 1), "job");
    let mut second = two["spec"]["podSets"][0].clone();
    second["name"] = "second".into();
    two["spec"]["podSets"].as_array_mut().unwrap().push(second);
    add(&mut cluster, "Workload", two);
    let mut pod = pod_of("job", 0, SMALL, Some("n1"));
    pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] = "second".into();
    cluster.add_pod(pod);
    let view = cluster.round().planned.view;
    let placed: Vec<u32> = view.queued.values().flat_map(|of| &of.sets).map(|set| set.placed).collect();
    assert_eq!(placed, [0, 1]);
}

#[test]
fn a_priority_is_at_most_the_highest_that_people_can_give() {
    let mut cluster = fleet();
    let mut first = workload("job", SMALL, 1);
    first["spec"]["priority"] = i32::MAX.into();
    add(&mut cluster, "Workload", first);
    assert_eq!(cluster.round().planned.view.requests[0].priority, 1_000_000_000);
}

#[test]
fn a_group_whose_pods_are_not_made_yet_is_the_request_of_its_set() {
    let mut cluster = fleet();
    let mut group = workload("statefulset-set", SMALL, 2);
    group["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "s"}]);
    add(&mut cluster, "Workload", group);
    let view = cluster.round().planned.view;
    let ids: Vec<_> =
        view.requests.iter().map(|r| (r.id.kind.as_str(), r.id.name.as_str(), r.id.ordinal)).collect();
    assert_eq!(ids, [("StatefulSet", "set", 0), ("StatefulSet", "set", 1)]);
}

/// Kueue takes the workload of a workbench back and gives it quota anew at once, while its pod is made anew: for a
/// moment the workbench has no pod. Its node is changed for the new quota, and nothing is begun and taken back before.
#[test]
fn nothing_is_begun_for_a_workbench_whose_pod_is_made_anew_before_it_has_quota() {
    let mut cluster = fleet();
    let large = "nvidia.com/mig-3g.40gb";
    let lab: api::foreign::Notebook = serde_json::from_value(json!({
        "metadata": {"namespace": "team", "name": "lab", "creationTimestamp": "2026-11-21T08:00:00Z"},
        "spec": {"template": {"spec": {"containers": [{"name": "lab", "resources": {"limits": {large: "1"}}}]}}},
    }))
    .unwrap();
    cluster.objects.notebooks.insert(("team".to_owned(), "lab".to_owned()), Arc::new(lab));
    let mut of_lab = workload("statefulset-lab", large, 1);
    of_lab["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "lab", "uid": "u"}]);
    let quota = of_lab.clone();
    add_condition(&mut of_lab, "Evicted");
    of_lab["status"]["conditions"][0]["status"] = "False".into();
    add(&mut cluster, "Workload", of_lab);
    let round = cluster.step(Until::End);
    let begun: Vec<_> = round.nodes.iter().filter(|(_, node)| !node.advance.actions.is_empty()).collect();
    assert!(begun.is_empty(), "{begun:?}");
    assert!(round.answers.is_empty(), "{:?}", round.answers);
    add(&mut cluster, "Workload", quota);
    let answer = one(&cluster);
    assert!(answer.message.contains("is to be changed for it"), "{}", answer.message);
    cluster.settle();
    assert_eq!(one(&cluster).state, CheckState::Ready);
}
