//! `release` for a node that others write to at the same time.

use std::time::Duration;

use controller::calls::Calls;
use controller::client::tamed;
use controller::publish::kueue::Unanswered;
use controller::release::{Outcome, Request, release};
use controller::stop::{StopError, Stopped, stop};
use controller::unanswered::{withdraw, withdraw_where_allowed};
use jiff::Timestamp;
use serde_json::{Value, json};
use wiremock::matchers::{body_partial_json, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

async fn get(server: &MockServer, at: &str, answer: ResponseTemplate) {
    Mock::given(method("GET")).and(path(at)).respond_with(answer).mount(server).await;
}

fn list(kind: &str, api_version: &str, items: &[Value]) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": "9"}, "items": items,
    }))
}

fn failure(code: u16, reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason,
    }))
}

/// A cluster with one node that has our cordon, and no operator; the first
/// `conflicts` patches of the node come too late.
async fn cluster(conflicts: u64) -> MockServer {
    let server = MockServer::start().await;
    let node = json!({
        "kind": "Node", "apiVersion": "v1", "spec": {"unschedulable": true},
        "metadata": {"name": "a1", "resourceVersion": "7", "labels": {"slicewright.io/cordoned-by": "slicewright"}},
    });
    let ours = "slicewright.io/v1alpha1";
    get(&server, "/api/v1/nodes", list("NodeList", "v1", std::slice::from_ref(&node))).await;
    get(&server, "/apis/slicewright.io/v1alpha1/gpunodes", list("GpuNodeList", ours, &[])).await;
    let policies = list("GpuPartitionPolicyList", ours, &[]);
    get(&server, "/apis/slicewright.io/v1alpha1/gpupartitionpolicies", policies).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease";
    get(&server, lease, failure(404, "NotFound")).await;
    let patch = || Mock::given(method("PATCH")).and(path("/api/v1/nodes/a1"));
    if conflicts > 0 {
        let late = patch().respond_with(failure(409, "Conflict")).up_to_n_times(conflicts);
        late.expect(conflicts.min(5)).mount(&server).await;
    }
    patch().respond_with(ResponseTemplate::new(200).set_body_json(node)).mount(&server).await;
    server
}

async fn ask(server: &MockServer) -> Outcome {
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(5));
    let lease = ("ns".to_owned(), "lease".to_owned());
    let request = Request { nodes: vec!["a1".to_owned()], resume: false, lease };
    release(&calls, &request, Timestamp::UNIX_EPOCH).await.unwrap().remove(0).1
}

#[tokio::test]
async fn a_node_that_changed_in_between_is_looked_at_again() {
    let outcome = ask(&cluster(2).await).await;
    assert!(matches!(outcome, Outcome::Released { uncordoned: true, .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_node_that_never_stands_still_is_left_as_it_is_and_said() {
    let outcome = ask(&cluster(100).await).await;
    let Outcome::Refused { why } = outcome else { panic!("{outcome:?}") };
    assert_eq!(why, "it changed 5 times while it was looked at: run the command again");
}

/// Asks that the operator be stopped, without any patience: it has to be
/// gone at the first look.
async fn told_to_stop(scaled: ResponseTemplate, lease: ResponseTemplate) -> Result<Stopped, StopError> {
    let server = MockServer::start().await;
    let scale = "/apis/apps/v1/namespaces/ns/deployments/operator/scale";
    Mock::given(method("PATCH")).and(path(scale)).respond_with(scaled).expect(1).mount(&server).await;
    get(&server, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lease", lease).await;
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(5));
    stop(&calls, "operator", &("ns".to_owned(), "lease".to_owned()), Duration::ZERO).await
}

fn no_replicas() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "operator", "namespace": "ns"},
        "spec": {"replicas": 0},
    }))
}

/// A lease that somebody has, renewed at this time.
fn lease(holder: &str, renewed: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "lease", "namespace": "ns"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }))
}

#[tokio::test]
async fn an_operator_counts_as_stopped_when_nobody_has_its_lease() {
    let long_ago = "2020-01-01T00:00:00.000000Z";
    assert_eq!(told_to_stop(no_replicas(), lease("", long_ago)).await.unwrap(), Stopped::Now);
    // A replica that was killed: its lease has run out.
    assert_eq!(told_to_stop(no_replicas(), lease("killed", long_ago)).await.unwrap(), Stopped::Now);
    assert_eq!(told_to_stop(no_replicas(), failure(404, "NotFound")).await.unwrap(), Stopped::Now);
    let not_there = told_to_stop(failure(404, "NotFound"), failure(404, "NotFound")).await;
    assert_eq!(not_there.unwrap(), Stopped::NotThere);
}

#[tokio::test]
async fn an_operator_that_keeps_its_lease_is_named_and_one_that_may_not_be_scaled_is_an_error() {
    // Renewed in the far future: it is in force whenever this test runs.
    let kept = told_to_stop(no_replicas(), lease("another", "2999-01-01T00:00:00.000000Z")).await;
    let said = kept.unwrap_err().to_string();
    assert!(said.starts_with("another still has the lease ns/lease"), "{said}");
    assert!(said.contains("stop what runs it"), "{said}");
    let forbidden = told_to_stop(failure(403, "Forbidden"), failure(404, "NotFound")).await.unwrap_err();
    assert!(matches!(forbidden, StopError::Call(_)), "{forbidden:?}");
}

/// Kueue's checks: ours, which says that it is answered, and another controller's. Only ours may be written, once.
#[tokio::test]
async fn checks_of_an_operator_that_is_stopped_say_so_and_others_are_left() {
    let server = MockServer::start().await;
    let check = |name: &str, controller: &str| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "AdmissionCheck",
            "metadata": {"name": name, "resourceVersion": "7", "generation": 1},
            "spec": {"controllerName": controller},
            "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active",
                "message": "Slicewright answers this check", "observedGeneration": 1,
                "lastTransitionTime": "2026-11-21T08:00:00Z"}]}})
    };
    let ours = check("gpu-slices", "slicewright.io/slices");
    let all = [ours.clone(), check("provisioning", "kueue.x-k8s.io/provisioning-request")];
    // An older Kueue serves one version only.
    get(&server, "/apis/kueue.x-k8s.io/v1beta2/admissionchecks", failure(404, "NotFound")).await;
    let listed = list("AdmissionCheckList", "kueue.x-k8s.io/v1beta1", &all);
    get(&server, "/apis/kueue.x-k8s.io/v1beta1/admissionchecks", listed).await;
    let status = "/apis/kueue.x-k8s.io/v1beta1/admissionchecks/gpu-slices/status";
    let says = json!({"metadata": {"resourceVersion": "7"},
        "status": {"conditions": [{"type": "Active", "status": "False", "reason": "OperatorStopped"}]}});
    Mock::given(method("PATCH"))
        .and(path(status))
        .and(body_partial_json(says))
        .respond_with(ResponseTemplate::new(200).set_body_json(ours))
        .expect(1)
        .mount(&server)
        .await;
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(5));
    assert_eq!(withdraw(&calls, Unanswered::Stopped, Timestamp::UNIX_EPOCH).await.unwrap(), ["gpu-slices"]);
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A cluster with these groups of kinds, where the operator has a right or does not; and its check, of which it may be
/// said so often that nobody answers it.
async fn switched_off(groups: &[&str], may_patch: bool, said: u64) -> MockServer {
    let server = MockServer::start().await;
    let served: Vec<Value> = groups
        .iter()
        .map(|group| json!({"name": group, "versions": [{"groupVersion": format!("{group}/v1beta2"), "version": "v1beta2"}]}))
        .collect();
    let served = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": served});
    get(&server, "/apis", ResponseTemplate::new(200).set_body_json(served)).await;
    for (verb, allowed) in [("list", true), ("patch", may_patch)] {
        let asked = json!({"spec": {"resourceAttributes": {"group": "kueue.x-k8s.io", "resource": "admissionchecks", "verb": verb}}});
        let answer = ResponseTemplate::new(201).set_body_json(json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}, "spec": {},
            "status": {"allowed": allowed},
        }));
        let mock = Mock::given(method("POST")).and(path(REVIEWS)).and(body_partial_json(asked));
        mock.respond_with(answer).mount(&server).await;
    }
    let ours = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck",
        "metadata": {"name": "gpu-slices", "resourceVersion": "7"}, "spec": {"controllerName": "slicewright.io/slices"}});
    let listed = list("AdmissionCheckList", "kueue.x-k8s.io/v1beta2", std::slice::from_ref(&ours));
    get(&server, "/apis/kueue.x-k8s.io/v1beta2/admissionchecks", listed).await;
    let says =
        json!({"status": {"conditions": [{"type": "Active", "status": "False", "reason": "SwitchedOff"}]}});
    Mock::given(method("PATCH"))
        .and(path("/apis/kueue.x-k8s.io/v1beta2/admissionchecks/gpu-slices/status"))
        .and(body_partial_json(says))
        .respond_with(ResponseTemplate::new(200).set_body_json(ours))
        .expect(said)
        .mount(&server)
        .await;
    server
}

/// What an operator that was told not to answer asks a cluster: the paths.
async fn asked_where_switched_off(server: &MockServer) -> Vec<String> {
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(5));
    withdraw_where_allowed(&calls, Timestamp::UNIX_EPOCH).await.unwrap();
    let asked = server.received_requests().await.unwrap();
    asked.into_iter().map(|request| request.url.path().to_owned()).collect()
}

#[tokio::test]
async fn an_operator_that_does_not_answer_says_so_where_its_rights_allow_it() {
    asked_where_switched_off(&switched_off(&["apps", "kueue.x-k8s.io"], true, 1).await).await;
}

#[tokio::test]
async fn an_operator_without_the_right_does_not_try_and_one_without_kueue_does_not_ask() {
    let asked = asked_where_switched_off(&switched_off(&["apps", "kueue.x-k8s.io"], false, 0).await).await;
    assert_eq!(asked, ["/apis", REVIEWS, REVIEWS]);
    let asked = asked_where_switched_off(&switched_off(&["apps"], true, 0).await).await;
    assert_eq!(asked, ["/apis"]);
}

#[tokio::test]
async fn a_cluster_without_kueue_has_no_checks_to_take_back() {
    let server = MockServer::start().await;
    for version in ["v1beta2", "v1beta1"] {
        let at = format!("/apis/kueue.x-k8s.io/{version}/admissionchecks");
        get(&server, &at, failure(404, "NotFound")).await;
    }
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(5));
    assert_eq!(withdraw(&calls, Unanswered::Stopped, Timestamp::UNIX_EPOCH).await.unwrap(), [""; 0]);
}
