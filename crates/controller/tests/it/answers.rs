//! Single failed answers, for each kind of write: the possible answers of the API server (or of a proxy in
//! front of it), and our reaction.

use std::collections::BTreeSet;
use std::time::Duration;

use controller::calls::{CallError, Calls, Evicted, Target, managers};
use controller::class::Class;
use controller::client::tamed;
use controller::publish::kueue;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use reconcile::{CheckAnswer, CheckState};
use serde_json::{Value, json};
use wiremock::matchers::{body_partial_json, header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// More than a busy machine needs: only an answer that never comes takes it.
const PATIENCE: Duration = Duration::from_secs(60);

async fn calls(server: &MockServer) -> Calls {
    patient(server, PATIENCE).await
}

async fn patient(server: &MockServer, patience: Duration) -> Calls {
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    Calls::new(kube::Client::try_from(config).unwrap(), patience)
}

fn status(code: u16, reason: &str, message: &str) -> ResponseTemplate {
    ResponseTemplate::new(code).set_body_json(json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    }))
}

/// The kinds of writes.
#[derive(Clone, Copy, Debug)]
enum Write {
    NodePatch,
    Apply,
    StatusApply,
    Create,
    Evict,
    DeletePod,
    Delete,
}

const WRITES: [Write; 7] = [
    Write::NodePatch,
    Write::Apply,
    Write::StatusApply,
    Write::Create,
    Write::Evict,
    Write::DeletePod,
    Write::Delete,
];

async fn write(calls: &Calls, write: Write) -> Result<(), CallError> {
    let maps: Api<ConfigMap> = Api::namespaced(calls.client(), "ns");
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "resourceVersion": "7"}});
    match write {
        Write::NodePatch => {
            let labels = [("nvidia.com/mig.config".to_owned(), Some("x".to_owned()))];
            calls.patch_node("a1", "7", &managers::NODE, &labels, Some(true)).await.map(drop)
        }
        Write::Apply => calls
            .apply::<ConfigMap>(&maps, "ConfigMap ns/m", &managers::MAP, Target::Object, "m", &body)
            .await
            .map(drop),
        Write::StatusApply => calls
            .apply::<ConfigMap>(&maps, "ConfigMap ns/m", &managers::STATUS, Target::Status, "m", &body)
            .await
            .map(drop),
        Write::Create => calls.create(&maps, "ConfigMap ns/m", "me", &ConfigMap::default()).await.map(drop),
        Write::Evict => calls.evict("ns", "p", "uid-1").await.map(drop),
        Write::DeletePod => calls.delete_pod("ns", "p", "uid-1").await,
        Write::Delete => calls.delete(&maps, "ConfigMap ns/m", "m", &DeleteParams::default()).await,
    }
}

async fn answered(kind: Write, template: ResponseTemplate) -> Result<(), CallError> {
    let server = MockServer::start().await;
    // Exactly once: nothing is repeated behind our back.
    Mock::given(wiremock::matchers::any()).respond_with(template).expect(1).mount(&server).await;
    write(&calls(&server).await, kind).await
}

#[tokio::test]
async fn a_busy_or_broken_server_is_tried_again_later_and_never_by_the_client_itself() {
    for kind in WRITES {
        for code in [500, 502, 503, 504] {
            let error = answered(kind, status(code, "", "later")).await.unwrap_err();
            assert_eq!(error.class(), Class::Transient, "{kind:?} {code}");
            assert!(error.may_have_happened(), "{kind:?} {code}: nobody knows");
        }
    }
}

#[tokio::test]
async fn too_many_requests_is_transient_and_to_an_eviction_it_is_an_answer() {
    let busy = || {
        status(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    };
    for kind in WRITES {
        match (kind, answered(kind, busy()).await) {
            (Write::Evict, outcome) => assert!(outcome.is_ok(), "{outcome:?}"),
            (_, outcome) => assert_eq!(outcome.unwrap_err().class(), Class::Transient, "{kind:?}"),
        }
    }
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(busy()).mount(&server).await;
    let refused = calls(&server).await.evict("ns", "p", "u").await.unwrap();
    assert!(matches!(refused, Evicted::Refused(why) if why.contains("disruption budget")));
}

#[tokio::test]
async fn a_conflict_means_that_somebody_was_faster_and_changes_nothing() {
    for kind in WRITES {
        let outcome = answered(kind, status(409, "Conflict", "the object has been modified")).await;
        match kind {
            // Another pod has the name: ours is gone.
            Write::Evict | Write::DeletePod => assert!(outcome.is_ok(), "{kind:?}"),
            _ => {
                let error = outcome.unwrap_err();
                assert!(error.is_conflict() && !error.may_have_happened(), "{kind:?}");
                assert_eq!(error.class(), Class::Transient);
            }
        }
    }
}

#[tokio::test]
async fn what_is_gone_is_as_good_as_evicted_or_deleted() {
    for kind in WRITES {
        let outcome = answered(kind, status(404, "NotFound", "not found")).await;
        match kind {
            Write::Evict | Write::DeletePod | Write::Delete => assert!(outcome.is_ok(), "{kind:?}"),
            _ => assert!(outcome.unwrap_err().is_not_found(), "{kind:?}"),
        }
    }
}

#[tokio::test]
async fn missing_rights_and_webhooks_wait_for_a_human() {
    for kind in WRITES {
        let error = answered(kind, status(403, "Forbidden", "cannot patch")).await.unwrap_err();
        assert_eq!(error.class(), Class::Blocked, "{kind:?}");
        let denied = status(400, "BadRequest", "admission webhook \"x\" denied the request");
        assert_eq!(answered(kind, denied).await.unwrap_err().class(), Class::Blocked, "{kind:?}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_not_waited_for_and_may_have_been_done() {
    for kind in WRITES {
        let slow = ResponseTemplate::new(200).set_body_json(json!({})).set_delay(PATIENCE);
        // On a busy machine the request may not even have come when we stop waiting: it must
        // not come to the next one's server, which a pool would let it have.
        let server = MockServer::builder().start().await;
        Mock::given(wiremock::matchers::any()).respond_with(slow).expect(0..=1).mount(&server).await;
        let error = write(&patient(&server, Duration::from_millis(50)).await, kind).await.unwrap_err();
        assert!(matches!(error, CallError::NoAnswer { .. }), "{kind:?}: {error}");
        assert_eq!((error.class(), error.may_have_happened()), (Class::Transient, true));
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_transient_and_may_have_been_done() {
    for kind in [Write::NodePatch, Write::Apply, Write::StatusApply, Write::Create] {
        let cut =
            ResponseTemplate::new(200).set_body_raw("{\"metadata\": {\"name\": \"a", "application/json");
        let error = answered(kind, cut).await.unwrap_err();
        assert_eq!((error.class(), error.may_have_happened()), (Class::Transient, true), "{kind:?}");
    }
    // A connection that nobody listens to.
    let config = tamed(kube::Config::new("http://127.0.0.1:1".parse().unwrap()));
    let nobody = Calls::new(kube::Client::try_from(config).unwrap(), PATIENCE);
    for kind in WRITES {
        assert_eq!(write(&nobody, kind).await.unwrap_err().class(), Class::Transient, "{kind:?}");
    }
}

#[tokio::test]
async fn a_node_is_patched_under_the_version_that_was_decided_on_and_uncordoned_as_kubectl_does() {
    let server = MockServer::start().await;
    let wanted = json!({
        "metadata": {"resourceVersion": "7", "labels": {"slicewright.io/cordoned-by": null}},
        "spec": {"unschedulable": null},
    });
    Mock::given(method("PATCH"))
        .and(path("/api/v1/nodes/a1"))
        .and(query_param("fieldManager", "slicewright-node"))
        .and(header("content-type", "application/merge-patch+json"))
        .and(body_partial_json(wanted))
        .respond_with(
            ResponseTemplate::new(200)
                .set_body_json(json!({"metadata": {"name": "a1", "resourceVersion": "8"}})),
        )
        .expect(1)
        .mount(&server)
        .await;
    let labels = [("slicewright.io/cordoned-by".to_owned(), None)];
    let node =
        calls(&server).await.patch_node("a1", "7", &managers::NODE, &labels, Some(false)).await.unwrap();
    assert_eq!(node.metadata.resource_version.as_deref(), Some("8"));
}

#[tokio::test]
async fn an_eviction_is_of_one_pod_and_of_no_later_one_with_its_name() {
    let server = MockServer::start().await;
    let wanted = json!({
        "kind": "Eviction", "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "uid-1"}},
    });
    Mock::given(method("POST"))
        .and(path("/api/v1/namespaces/ns/pods/p/eviction"))
        .and(body_partial_json(wanted))
        .respond_with(
            ResponseTemplate::new(201).set_body_json(json!({"kind": "Status", "status": "Success"})),
        )
        .expect(1)
        .mount(&server)
        .await;
    assert_eq!(calls(&server).await.evict("ns", "p", "uid-1").await.unwrap(), Evicted::Going);
}

#[tokio::test]
async fn pods_of_a_node_are_listed_from_the_quorum_and_not_from_a_cache() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/api/v1/pods"))
        .and(query_param("fieldSelector", "spec.nodeName=a1"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "p"}}],
        })))
        .expect(1)
        .mount(&server)
        .await;
    let pods = calls(&server).await.pods_of("a1").await.unwrap();
    assert_eq!(pods.found.len(), 1);
    let requests = server.received_requests().await.unwrap();
    let query = requests[0].url.query().unwrap_or_default().to_owned();
    assert!(!query.contains("resourceVersion"), "a consistent read names no version: {query}");
    assert!(!query.contains("limit"), "pages could be of different moments: {query}");
}

#[tokio::test]
async fn an_apply_takes_no_field_from_others_and_only_ours_is_taken_from_an_older_release() {
    let server = MockServer::start().await;
    let answer: Value = json!({"metadata": {"name": "m", "resourceVersion": "8"}});
    Mock::given(method("PATCH"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .expect(2)
        .mount(&server)
        .await;
    let calls = calls(&server).await;
    write(&calls, Write::Apply).await.unwrap();
    write(&calls, Write::StatusApply).await.unwrap();
    let queries: Vec<String> = server
        .received_requests()
        .await
        .unwrap()
        .iter()
        .map(|request| request.url.query().unwrap_or_default().to_owned())
        .collect();
    assert!(!queries[0].contains("force"), "our map is not taken from others: {}", queries[0]);
    assert!(queries[1].contains("force=true"), "{}", queries[1]);
}

/// Somebody has edited a key of ours with `kubectl edit`, and owns it since: without force the API server would refuse our
/// text for ever.
#[tokio::test]
async fn what_somebody_edits_in_a_map_that_we_have_made_is_taken_back_and_a_map_of_another_hand_is_left() {
    use controller::apply::map::{self, Place};
    let server = MockServer::start().await;
    let answer: Value = json!({"metadata": {"name": "m", "resourceVersion": "8"}});
    Mock::given(method("PATCH"))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer))
        .expect(4)
        .mount(&server)
        .await;
    let calls = calls(&server).await;
    let data = std::collections::BTreeMap::from([("slicewright-1".to_owned(), "version: v1".to_owned())]);
    for is_ours in [true, false] {
        let map = controller::settings::MapRef { namespace: "ns".to_owned(), name: "m".to_owned() };
        let place = Place { map, if_version: Some("7".to_owned()), is_ours };
        map::write(&calls, &place, "version: v1", jiff::Timestamp::UNIX_EPOCH).await.unwrap();
        map::write_plugin_map(&calls, &place, &data).await.unwrap();
    }
    let requests = server.received_requests().await.unwrap();
    let forced =
        requests.iter().map(|request| request.url.query().unwrap_or_default().contains("force=true"));
    assert_eq!(forced.collect::<Vec<_>>(), [true, true, false, false]);
    for request in requests {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body["metadata"]["resourceVersion"], "7", "what is newer is not overwritten");
    }
}

/// A workload that waits for our check, as a round saw it in version 7.
fn waiting() -> api::foreign::Workload {
    serde_json::from_value(json!({
        "metadata": {"namespace": "team-a", "name": "statefulset-lab", "resourceVersion": "7"},
        "status": {"admissionChecks": [{"name": "gpu-slices", "state": "Pending", "message": ""}]},
    }))
    .unwrap()
}

/// That its slices are there.
fn ready() -> CheckAnswer {
    CheckAnswer {
        workload: ("team-a".to_owned(), "statefulset-lab".to_owned()),
        check: "gpu-slices".to_owned(),
        state: CheckState::Ready,
        message: "its slices are free on a1".to_owned(),
        gist: "its slices are free on a1".to_owned(),
        updates: Vec::new(),
        retry_after: None,
    }
}

/// What came of an answer of our check that was decided on that version.
async fn answer_to(server: &MockServer) -> Result<(), CallError> {
    let ready = ready();
    let (at, ours) = (jiff::Timestamp::UNIX_EPOCH, BTreeSet::from(["gpu-slices"]));
    kueue::answer(&calls(server).await, "v1beta2", &waiting(), &[ready], &ours, at).await.map(drop)
}

/// A queue may ask one check of ours for each flavor, and a check of somebody else. What one manager leaves out of what it
/// applies is taken away: with the second answer the first would go, and the API server refuses an entry without a state.
#[tokio::test]
async fn all_entries_of_ours_are_written_together_and_those_without_news_as_they_are() {
    let server = MockServer::start().await;
    Mock::given(method("PATCH"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"metadata": {"resourceVersion": "8"}})))
        .expect(1)
        .mount(&server)
        .await;
    let pinned = json!([{"name": "main", "nodeSelector": {"kubernetes.io/hostname": "a1"}}]);
    let there = json!({
        "metadata": {"namespace": "team-a", "name": "statefulset-lab", "resourceVersion": "7"},
        "status": {"admissionChecks": [
            {"name": "slices-of-a100", "state": "Ready", "message": "its slices are free on a1",
                "lastTransitionTime": "2026-11-24T10:00:00Z", "podSetUpdates": pinned},
            {"name": "provisioning", "state": "Pending", "message": ""},
            {"name": "slices-of-h100", "state": "Pending", "message": "", "retryCount": 2},
            {"name": "slices-of-l40s", "state": "Retry", "message": "lost", "requeueAfterSeconds": 30,
                "lastTransitionTime": "2026-11-24T11:00:00Z", "retryCount": 1},
        ]},
    });
    let there: api::foreign::Workload = serde_json::from_value(there).unwrap();
    let ready = CheckAnswer { check: "slices-of-h100".to_owned(), ..ready() };
    let ours = BTreeSet::from(["slices-of-a100", "slices-of-h100", "slices-of-l40s", "of-another-queue"]);
    let at = "2026-11-24T12:00:00Z".parse().unwrap();
    kueue::answer(&calls(&server).await, "v1beta2", &there, &[ready], &ours, at).await.unwrap();
    let all = server.received_requests().await.unwrap();
    let body: Value = serde_json::from_slice(&all[0].body).unwrap();
    let expect = json!({"admissionChecks": [
        {"name": "slices-of-a100", "state": "Ready", "message": "its slices are free on a1",
            "lastTransitionTime": "2026-11-24T10:00:00Z", "podSetUpdates": pinned},
        {"name": "slices-of-h100", "state": "Ready", "message": "its slices are free on a1",
            "lastTransitionTime": "2026-11-24T12:00:00Z"},
        {"name": "slices-of-l40s", "state": "Retry", "message": "lost", "requeueAfterSeconds": 30,
            "lastTransitionTime": "2026-11-24T11:00:00Z"},
    ]});
    assert_eq!(body["status"], expect);
}

/// It was preempted or evicted after the round had seen it, or deleted: nobody writes to what it is by now.
#[tokio::test]
async fn an_answer_to_a_workload_that_was_evicted_or_deleted_meanwhile_is_written_once_and_not_forced_upon_it()
 {
    let evicted = status(409, "Conflict", "the object has been modified");
    let deleted = status(404, "NotFound", "workloads.kueue.x-k8s.io \"statefulset-lab\" not found");
    for (what, answer) in [("evicted", evicted), ("deleted", deleted)] {
        let server = MockServer::start().await;
        let of_that_version = json!({"metadata": {"resourceVersion": "7"},
            "status": {"admissionChecks": [{"name": "gpu-slices", "state": "Ready"}]}});
        Mock::given(method("PATCH"))
            .and(path("/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads/statefulset-lab/status"))
            .and(body_partial_json(of_that_version))
            .respond_with(answer)
            .expect(1)
            .mount(&server)
            .await;
        let error = answer_to(&server).await.unwrap_err();
        assert_eq!(error.class(), Class::Transient, "{what}: the next round decides anew: {error}");
        assert!(!error.may_have_happened(), "{what}: nothing is awaited");
        assert_eq!((error.is_conflict(), error.is_not_found()), (what == "evicted", what == "deleted"));
        let all = server.received_requests().await.unwrap();
        assert_eq!(all.len(), 1, "{what}: neither its spec nor its queue is written: {all:?}");
    }
}
