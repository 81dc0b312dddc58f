//! A pod that has its node is not told any more that its slice is free: beside the scheduler's word this would be the
//! newest, and an older dashboard calls each word of ours a problem.

use std::time::Duration;

use controller::calls::Calls;
use controller::client::tamed;
use controller::publish::events::{self, Draft};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use wiremock::matchers::{method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// The news with this reason is sent to `team-a/lab-0`, of which a list says this: how often it was asked for, and how
/// many events were made.
async fn sent(reason: &str, of_the_pod: ResponseTemplate) -> [usize; 2] {
    let server = MockServer::start().await;
    let list = Mock::given(method("GET"))
        .and(path("/api/v1/namespaces/team-a/pods"))
        .and(query_param("fieldSelector", "metadata.name=lab-0"));
    list.respond_with(of_the_pod).mount(&server).await;
    let create = Mock::given(method("POST")).and(path("/apis/events.k8s.io/v1/namespaces/team-a/events"));
    create
        .respond_with(ResponseTemplate::new(201).set_body_json(json!({"metadata": {}})))
        .mount(&server)
        .await;
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(60));
    events::send(&calls, &told(reason), "operator-1", Timestamp::UNIX_EPOCH).await.unwrap();
    let asked = server.received_requests().await.unwrap();
    ["GET", "POST"].map(|method| asked.iter().filter(|request| request.method.as_str() == method).count())
}

fn told(reason: &str) -> Draft {
    let regarding = ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("team-a".to_owned()),
        name: Some("lab-0".to_owned()),
        ..ObjectReference::default()
    };
    let note = "3g.40gb is free on n1".to_owned();
    let once = note.clone();
    let (reason, action) = (reason.to_owned(), "Plan".to_owned());
    Draft { regarding, related: None, warning: false, reason, action, note, once }
}

fn pod(spec: &Value) -> ResponseTemplate {
    let pod = json!({"metadata": {"namespace": "team-a", "name": "lab-0"}, "spec": spec});
    ResponseTemplate::new(200).set_body_json(json!({"metadata": {}, "items": [pod]}))
}

#[tokio::test]
async fn a_pod_that_has_its_node_is_not_told_of_a_free_slice() {
    let bound = json!({"containers": [], "nodeName": "n1"});
    assert_eq!(sent("SliceFree", pod(&bound)).await, [1, 0]);
}

#[tokio::test]
async fn a_pod_that_still_waits_is_told_of_a_free_slice() {
    assert_eq!(sent("SliceFree", pod(&json!({"containers": []}))).await, [1, 1]);
}

#[tokio::test]
async fn a_pod_of_which_nothing_can_be_said_is_told() {
    let forbidden =
        json!({"kind": "Status", "status": "Failure", "code": 403, "message": "no", "reason": "Forbidden"});
    assert_eq!(sent("SliceFree", ResponseTemplate::new(403).set_body_json(forbidden)).await, [1, 1]);
}

#[tokio::test]
async fn other_news_is_told_without_a_look_at_the_pod() {
    let bound = json!({"containers": [], "nodeName": "n1"});
    assert_eq!(sent("SliceDelayed", pod(&bound)).await, [0, 1]);
}
