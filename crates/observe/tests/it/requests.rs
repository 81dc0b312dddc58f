//! What counts as a request, and which requests are immediately reported as impossible.

use crate::words::*;
use planner::demand::{Evidence, Request};
use serde_json::{Value, json};

const PROFILE: &str = "opendatahub.io/hardware-profile-name";
const PROFILE_NAMESPACE: &str = "opendatahub.io/hardware-profile-namespace";

#[track_caller]
fn one(objects: &[Value]) -> Request {
    let seen = see(objects);
    let [request] = &seen.requests[..] else { panic!("{:#?}", seen.requests) };
    request.clone()
}

fn asks(request: &Request) -> Vec<String> {
    request.slices.iter().map(|(profile, n)| format!("{n} x {profile}")).collect()
}

fn none(objects: &[Value]) {
    assert_eq!(see(objects).requests, []);
}

/// A workbench whose container asks for nothing of NVIDIA's.
fn plain(name: &str) -> Value {
    let mut lab = notebook("vision", name);
    lab["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({});
    lab
}

fn with_profile(mut lab: Value, profile: &str) -> Value {
    lab["metadata"]["annotations"][PROFILE] = profile.into();
    lab
}

fn profile(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"identifiers": [
            {"identifier": "cpu", "displayName": "CPU", "minCount": 1, "defaultCount": 1},
            {"identifier": "memory", "displayName": "Memory", "minCount": "1Gi", "defaultCount": "1Gi"},
            {"identifier": "nvidia.com/mig-3g.40gb", "displayName": "Slice", "minCount": 1, "defaultCount": 1},
        ]},
    })
}

/// A workbench's pod, as its controller makes it.
fn pod_of(lab: &str, on: Option<&str>) -> Value {
    let mut pod = pod("vision", &format!("{lab}-0"), &[("mig-1g.10gb", 1)], on);
    pod["metadata"]["labels"] = json!({"notebook-name": lab, "statefulset": lab});
    pod
}

#[test]
fn a_workbench_and_its_pod_are_one_request_and_none_once_the_pod_is_bound() {
    let lab = notebook("vision", "lab");
    assert_eq!(one(std::slice::from_ref(&lab)).evidence, Evidence::StartingNotebook);
    let pending = one(&[lab.clone(), pod_of("lab", None)]);
    assert_eq!(pending.evidence, Evidence::PendingPod);
    assert_eq!(pending.id.to_string(), "Notebook vision/lab");
    none(&[lab, pod_of("lab", Some("n1"))]);
}

/// Between two pods of a workbench in a queue there is a moment without one. What would be begun for it then would be
/// taken back as soon as the next pod waits for quota.
#[test]
fn a_workbench_in_a_queue_asks_by_its_workload_also_while_it_has_no_pod() {
    let lab = notebook("vision", "lab");
    let mut labelled = lab.clone();
    labelled["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "research"});
    none(std::slice::from_ref(&labelled));
    // The queue of a namespace is named by no workbench of it: there the workload says that it waits.
    let workload = |ended: &str| {
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"namespace": "vision", "name": "statefulset-lab-1", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "lab", "uid": "u"}]},
            "spec": {"queueName": "default", "podSets": []},
            "status": {"conditions": [{"type": "Finished", "status": ended, "reason": "", "message": "",
                "lastTransitionTime": "2026-11-21T08:00:00Z"}]},
        })
    };
    none(&[lab.clone(), workload("False")]);
    // One that is over is nobody's any more, and no name is no queue.
    assert_eq!(one(&[lab.clone(), workload("True")]).evidence, Evidence::StartingNotebook);
    let mut unnamed = labelled.clone();
    unnamed["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "".into();
    assert_eq!(one(&[unnamed]).evidence, Evidence::StartingNotebook);
    // A pod that cannot be made never waits for quota: its person is told why.
    let key = ("vision".to_owned(), "lab".to_owned());
    let mut objects = observe::Objects::default();
    observe::manifest::read(&mut objects, "t.yaml", &labelled.to_string(), &mut Vec::new());
    let requests = |objects: &observe::Objects| {
        let settings = observe::Settings::default();
        let seen = observe::observe(objects, mig::Catalog::builtin(), &settings, now());
        assert!(seen.starting.contains_key(&key), "its set is asked after a while");
        seen.requests.len()
    };
    assert_eq!(requests(&objects), 0);
    // Kueue is not there, or nobody makes the pod: a workbench without pod and workload is not forgotten.
    objects.starting_since.insert(key.clone(), now() - jiff::SignedDuration::from_secs(119));
    assert_eq!(requests(&objects), 0);
    objects.starting_since.insert(key.clone(), now() - jiff::SignedDuration::from_secs(120));
    assert_eq!(requests(&objects), 1);
    observe::manifest::read(&mut objects, "t.yaml", &workload("False").to_string(), &mut Vec::new());
    assert_eq!(requests(&objects), 0, "its workload waits for quota");
    objects.starting_since.clear();
    objects.unmade.insert(key.clone(), "exceeded quota: none".to_owned());
    assert_eq!(requests(&objects), 1);
}

#[test]
fn a_workbench_that_is_stopped_or_culled_asks_for_nothing_and_one_that_is_locked_does() {
    let with = |value: &str| {
        let mut lab = notebook("vision", "lab");
        lab["metadata"]["annotations"]["kubeflow-resource-stopped"] = value.into();
        lab
    };
    none(&[with("2026-11-21T08:45:00Z")]);
    assert_eq!(asks(&one(&[with("odh-notebook-controller-lock")])), ["1 x 1g.10gb"]);
}

#[test]
fn pods_that_are_gated_nominated_or_not_yet_judged_ask_for_nothing() {
    let pending = pod("vision", "train", &[("mig-1g.10gb", 1)], None);
    assert_eq!(asks(&one(std::slice::from_ref(&pending))), ["1 x 1g.10gb"]);
    let mut gated = pending.clone();
    gated["spec"]["schedulingGates"] = json!([{"name": "kueue.x-k8s.io/admission"}]);
    none(&[gated]);
    let mut nominated = pending.clone();
    nominated["status"]["nominatedNodeName"] = "n1".into();
    none(&[nominated]);
    let mut fresh = pending;
    fresh["status"]["conditions"] = json!([]);
    none(&[fresh]);
}

#[test]
fn a_profile_gives_what_the_container_lacks_and_nothing_else() {
    let named = with_profile(plain("lab"), "slice");
    assert_eq!(asks(&one(&[named.clone(), profile("vision", "slice")])), ["1 x 3g.40gb"]);
    let mut elsewhere = named;
    elsewhere["metadata"]["annotations"][PROFILE_NAMESPACE] = "apps".into();
    assert_eq!(asks(&one(&[elsewhere, profile("apps", "slice")])), ["1 x 3g.40gb"]);
    let mut own = with_profile(plain("lab"), "slice");
    let limits = json!({"limits": {"nvidia.com/mig-3g.40gb": "2"}});
    own["spec"]["template"]["spec"]["containers"][0]["resources"] = limits;
    assert_eq!(asks(&one(&[own, profile("vision", "slice")])), ["2 x 3g.40gb"]);
}

#[test]
fn a_workbench_whose_profile_is_not_there_is_refused_and_told_what_to_do() {
    let request = one(&[with_profile(plain("lab"), "gone"), profile("vision", "slice")]);
    assert!(request.slices.is_empty());
    let refusal = request.refused.expect("nothing can be planned for it");
    assert_eq!(
        refusal.why,
        "it names the hardware profile vision/gone, which does not exist, and has no slice requests of its own, so its demand is unknown"
    );
    assert!(refusal.advice.starts_with("choose another hardware profile"), "{}", refusal.advice);
    // One that is offered in another namespace is another profile.
    let request = one(&[with_profile(plain("lab"), "slice"), profile("apps", "slice")]);
    assert!(request.refused.is_some());
    // What its container asks for itself is asked for all the same.
    let seen = see(&[with_profile(notebook("vision", "lab"), "gone")]);
    assert_eq!(
        (asks(&seen.requests[0]), seen.requests[0].refused.clone()),
        (vec!["1 x 1g.10gb".into()], None)
    );
    assert_eq!(
        texts(&seen.problems),
        [
            "Notebook vision/lab: metadata.annotations[opendatahub.io/hardware-profile-name]: names the hardware profile vision/gone, which does not exist; only the requests of its own container count"
        ]
    );
    // Once it has a pod, the pod says what it wants.
    none(&[with_profile(plain("lab"), "gone"), pod_of("lab", Some("n1"))]);
}

#[test]
fn a_workbench_whose_name_no_label_takes_is_refused_and_a_shorter_one_is_not() {
    let name = |letters: usize| "n".repeat(letters);
    assert_eq!(one(&[notebook("vision", &name(63))]).refused, None);
    let refusal = one(&[notebook("vision", &name(64))]).refused.expect("it gets no pod");
    assert_eq!(
        refusal.why,
        "its name has 64 characters, and its pod has the name in a label, which allows 63: no pod will be created"
    );
    assert_eq!(refusal.advice, "create the workbench again with a name of at most 63 characters");
    // Who asks for no GPU is none of ours.
    none(&[plain(&name(64))]);
}

/// Its slice is there, free and schedulable, and it still waits: something that
/// we do not judge is in its way, and its slice may serve somebody else.
#[test]
fn who_waits_beside_a_free_slice_for_two_minutes_is_blocked_by_something_else() {
    let known = |since: &str, profile: &str| {
        json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
            "status": {"rollout": {"phase": "Idle", "schedulableSince": {profile: since}}},
        })
    };
    let free = || cut(node("n1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    let asks = || pod("vision", "train", &[("mig-1g.10gb", 1)], None);
    let blocked = |objects: &[Value]| {
        let seen = see(objects);
        seen.requests.iter().find(|r| r.id.name == "train").and_then(|r| r.blocked_elsewhere.clone())
    };
    let says = Some(
        "the scheduler says: 0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb.".to_owned(),
    );
    // It is 09:00, and the pod is there since 08:00.
    assert_eq!(blocked(&[free(), known("2026-11-21T08:57:59Z", "1g.10gb"), asks()]), says, "in its words");
    assert_eq!(blocked(&[free(), known("2026-11-21T08:58:01Z", "1g.10gb"), asks()]), None, "not long enough");
    assert_eq!(blocked(&[free(), known("2026-11-21T08:00:00Z", "3g.40gb"), asks()]), None, "another slice");
    // A pod that came a moment ago has not waited.
    let mut late = asks();
    late["metadata"]["creationTimestamp"] = "2026-11-21T08:59:00Z".into();
    assert_eq!(blocked(&[free(), known("2026-11-21T08:00:00Z", "1g.10gb"), late]), None);
    // Slices of a node that it may not use, that is closed, or that others hold are no proof.
    let since = || known("2026-11-21T08:00:00Z", "1g.10gb");
    let mut elsewhere = asks();
    elsewhere["spec"]["nodeSelector"] = json!({"pool": "other"});
    assert_eq!(blocked(&[free(), since(), elsewhere]), None);
    let mut closed = free();
    closed["spec"]["unschedulable"] = true.into();
    assert_eq!(blocked(&[closed, since(), asks()]), None);
    let holds = pod("vision", "holds", &[("mig-1g.10gb", 14)], Some("n1"));
    assert_eq!(blocked(&[free(), since(), holds, asks()]), None);
}

/// Nobody else tells who misspelt a resource that it will never be there.
#[test]
fn who_asks_for_a_resource_that_no_profile_has_is_refused_with_how_it_is_written() {
    let misspelt = pod("vision", "train", &[("mig-1g.10g", 1)], None);
    let request = one(std::slice::from_ref(&misspelt));
    let refusal = request.refused.clone().expect("no layout can serve it");
    assert_eq!(
        refusal.why,
        "it asks for nvidia.com/mig-1g.10g, which is not the resource of a profile, so that no layout can serve it"
    );
    assert_eq!(refusal.advice, "ask for a resource that is named like nvidia.com/mig-1g.10gb");
    assert!(request.slices.is_empty());
    // A slice beside it would be cut for a pod that never starts.
    let both = pod("vision", "train", &[("mig-1g.10gb", 1), ("mig-oops", 1)], None);
    assert!(one(&[both]).refused.is_some());
    let mut bound = misspelt;
    bound["spec"]["nodeName"] = "n1".into();
    none(&[bound]);
}

#[test]
fn a_workbench_with_a_long_name_and_its_pod_under_another_are_one_request() {
    // Beyond 52 characters its set, and so its pod, has a name of its own.
    let lab = "n".repeat(60);
    let mut pending = pod_of(&lab, None);
    pending["metadata"]["name"] = "nb-x7k2p-0".into();
    let request = one(&[notebook("vision", &lab), pending]);
    assert_eq!((request.id.name.as_str(), request.id.ordinal), (lab.as_str(), 0));
    assert_eq!(request.evidence, Evidence::PendingPod);
}

/// A workbench of two containers, of which none has its name.
fn without_its_container() -> Value {
    let mut lab = with_profile(plain("lab"), "slice");
    lab["spec"]["template"]["spec"]["containers"] = json!([{"name": "main"}, {"name": "proxy"}]);
    lab
}

/// What is told of this workbench, before it has a pod and while its pod runs.
fn told_of(lab: &Value, profile: &Value) -> Vec<String> {
    let mut runs = pod_of("lab", Some("n1"));
    let containers = lab["spec"]["template"]["spec"]["containers"].clone();
    runs["spec"]["containers"] = containers;
    let told = |objects: &[Value]| {
        let seen = see(objects);
        let of_it = |text: &String| text.starts_with("Notebook ");
        texts(&seen.problems).into_iter().filter(of_it).collect::<Vec<_>>()
    };
    let before = told(&[lab.clone(), profile.clone()]);
    assert_eq!(told(&[lab.clone(), profile.clone(), runs]), before, "with a pod");
    before
}

#[test]
fn a_profile_that_is_applied_to_no_container_is_told_of_before_and_while_the_pod_runs() {
    let lab = without_its_container();
    assert_eq!(see(&[lab.clone(), profile("vision", "slice")]).requests, []);
    assert_eq!(
        told_of(&lab, &profile("vision", "slice")),
        [
            "Notebook vision/lab: spec.template.spec.containers: has the containers main, proxy, but none has the name lab of the workbench, so OpenShift AI from 3.4 on does not apply its hardware profile slice (up to 3.3, it applied it to every container); give one container this name"
        ]
    );
}

#[test]
fn nothing_is_told_of_containers_where_no_gpu_is_missed() {
    let nothing: [&str; 0] = [];
    let mut of_cpu = profile("vision", "slice");
    of_cpu["spec"]["identifiers"].as_array_mut().expect("a list").pop();
    assert_eq!(told_of(&without_its_container(), &of_cpu), nothing, "nobody offered it a GPU");
    // Up to 3.3 the profile is written into each container.
    let mut injected = without_its_container();
    for container in injected["spec"]["template"]["spec"]["containers"].as_array_mut().expect("a list") {
        container["resources"] = json!({"limits": {"nvidia.com/mig-3g.40gb": "1"}});
    }
    assert_eq!(told_of(&injected, &profile("vision", "slice")), nothing, "it has what is offered");
    let mut named = without_its_container();
    named["spec"]["template"]["spec"]["containers"][1]["name"] = "lab".into();
    let request = one(&[named.clone(), profile("vision", "slice")]);
    assert_eq!(asks(&request), ["1 x 3g.40gb"]);
    let told = told_of(&named, &profile("vision", "slice"));
    assert_eq!(told, nothing, "it is applied to the container with the name");
}

/// A workbench that a quota of its namespace lets have no pod, its slice being
/// free; `since` is when it was first seen to wait.
fn without_a_pod(since: &str, slice_since: &str) -> Option<String> {
    whose_set_says(None, since, slice_since)
}

/// The same, where it is known what its StatefulSet says.
fn whose_set_says(words: Option<&str>, since: &str, slice_since: &str) -> Option<String> {
    of_workbench("lab", words, since, slice_since)
}

fn of_workbench(name: &str, words: Option<&str>, since: &str, slice_since: &str) -> Option<String> {
    let gpu_node = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}, "spec": {},
        "status": {"rollout": {"schedulableSince": {"1g.10gb": slice_since}}},
    });
    let mut objects = observe::Objects::default();
    let mut problems = Vec::new();
    let n1 = cut(node("n1"), "all-1g.10gb", &[("mig-1g.10gb", 14)]);
    for object in [n1, gpu_node, policy("research"), notebook("vision", name)] {
        observe::manifest::read(&mut objects, "t.yaml", &object.to_string(), &mut problems);
    }
    assert_eq!(problems, []);
    if !since.is_empty() {
        let key = ("vision".to_owned(), name.to_owned());
        objects.starting_since.insert(key.clone(), since.parse().expect("a time"));
        objects.unmade.extend(words.map(|words| (key, words.to_owned())));
    }
    let settings = observe::Settings::default();
    let seen = observe::observe(&objects, mig::Catalog::builtin(), &settings, now());
    let key = ("vision".to_owned(), name.to_owned());
    let expected = if since.is_empty() { NOW } else { since };
    assert_eq!(seen.starting[&key], expected.parse().expect("a time"), "it is remembered");
    let [request] = &seen.requests[..] else { panic!("{:#?}", seen.requests) };
    request.blocked_elsewhere.clone()
}

/// The notebook controller lets the API server make up a name for such a set, and one of the workbench's name is nowhere.
#[test]
fn of_a_workbench_with_a_long_name_no_set_of_that_name_is_looked_for() {
    let at = ("2026-11-21T08:58:00Z", "2026-11-21T08:00:00Z");
    let said = |n: usize| of_workbench(&"l".repeat(n), None, at.0, at.1).expect("it is blocked");
    assert!(said(52).contains("kubectl describe statefulset llll"), "{}", said(52));
    assert!(!said(53).contains("describe statefulset"), "{}", said(53));
    assert!(said(53).contains("`kubectl get events -n vision --field-selector"), "{}", said(53));
}

#[test]
fn a_workbench_that_never_gets_a_pod_is_blocked_elsewhere_after_the_same_time() {
    let said = without_a_pod("2026-11-21T08:58:00Z", "2026-11-21T08:00:00Z").expect("it is blocked");
    assert!(said.contains("`kubectl describe statefulset lab -n vision`"), "{said}");
    // It has only begun to wait, its slice has only come, or nobody remembers.
    assert_eq!(without_a_pod("2026-11-21T08:58:01Z", "2026-11-21T08:00:00Z"), None);
    assert_eq!(without_a_pod("2026-11-21T08:00:00Z", "2026-11-21T08:58:01Z"), None);
    assert_eq!(without_a_pod("", "2026-11-21T08:00:00Z"), None);
    let quota = "create Pod lab-0 in StatefulSet lab failed: exceeded quota: none";
    let said = whose_set_says(Some(quota), "2026-11-21T08:58:00Z", "2026-11-21T08:00:00Z");
    assert_eq!(said, Some(format!("its StatefulSet cannot create its pod: \"{quota}\"")));
}

#[test]
fn a_workbench_that_is_being_deleted_asks_for_nothing() {
    let mut lab = notebook("vision", "lab");
    lab["metadata"]["deletionTimestamp"] = "2026-11-21T08:59:00Z".into();
    none(&[lab]);
}

#[test]
fn the_priority_that_a_template_gives_itself_counts_for_nothing_and_that_of_its_class_counts() {
    let mut lab = notebook("vision", "lab");
    lab["spec"]["template"]["spec"]["priority"] = i32::MAX.into();
    assert_eq!(one(std::slice::from_ref(&lab)).priority, 0);
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
    });
    lab["spec"]["template"]["spec"]["priorityClassName"] = "high".into();
    assert_eq!(one(&[lab, class.clone()]).priority, 1000);
    // The API server has looked at a pod's priority.
    let mut pod = pod_of("lab", None);
    pod["spec"]["priority"] = 7.into();
    assert_eq!(one(&[pod, class]).priority, 7);
}

#[test]
fn resource_claims_are_said_to_be_another_drivers() {
    let mut claims = pod("vision", "train", &[], None);
    claims["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]);
    let seen = see(&[node("n1"), claims]);
    assert_eq!(seen.requests, []);
    assert_eq!(
        texts(&seen.problems),
        [
            "Pod vision/train: requests devices through resource claims, which another driver serves (dynamic resource allocation): nothing is planned for them"
        ]
    );
}
