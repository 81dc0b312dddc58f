//! What is written for the first time is written where there still is nothing: a replica that was stopped while
//! it asked, and goes on when another one leads, does not write its old text over what that one has written.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::GpuNodeSpec;
use api::gpu_node::GpuNodeStatus;
use controller::apply::map;
use controller::calls::{CallError, Calls};
use controller::client::tamed;
use controller::publish::gpu_node::{self, Wanted, Written};
use controller::settings::MapRef;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use planner::names::NodeName;
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// The method of a write, and the version that it asks for.
type Write = (String, Option<String>);

/// An API server with one place for an object: how often it was written is its version.
#[derive(Clone, Default)]
struct Place {
    version: Arc<Mutex<u64>>,
    /// How often all but its status was written.
    generation: Arc<Mutex<u64>>,
    /// The generations that its status and its condition describe.
    described: Arc<Mutex<Vec<u64>>>,
    /// What was asked for, in order.
    asked: Arc<Mutex<Vec<Write>>>,
}

impl Respond for Place {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut object: Value = serde_json::from_slice(&request.body).unwrap();
        let method = request.method.to_string();
        let wants = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        self.asked.lock().unwrap().push((method.clone(), wants.clone()));
        let mut version = self.version.lock().unwrap();
        let stands = match wants {
            Some(wants) => wants == version.to_string(),
            None => method != "POST" || *version == 0,
        };
        if !stands {
            let status = json!({"kind": "Status", "status": "Failure", "code": 409, "message": "no", "reason": "Conflict"});
            return ResponseTemplate::new(409).set_body_json(status);
        }
        *version += 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let mut generation = self.generation.lock().unwrap();
        if request.url.path().ends_with("/status") {
            let status = &object["status"];
            let of = [&status["observedGeneration"], &status["conditions"][0]["observedGeneration"]];
            *self.described.lock().unwrap() = of.map(Value::as_u64).into_iter().flatten().collect();
        } else {
            *generation += 1;
        }
        object["metadata"]["generation"] = json!(*generation);
        if object["spec"].is_null() {
            object["spec"] = json!({});
        }
        ResponseTemplate::new(if method == "POST" { 201 } else { 200 }).set_body_json(object)
    }
}

struct Site {
    place: Place,
    calls: Calls,
    _server: MockServer,
}

async fn site() -> Site {
    let server = MockServer::start().await;
    let place = Place::default();
    Mock::given(wiremock::matchers::any()).respond_with(place.clone()).mount(&server).await;
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(60));
    Site { place, calls, _server: server }
}

impl Site {
    fn asked(&self) -> Vec<Write> {
        std::mem::take(&mut *self.place.asked.lock().unwrap())
    }

    async fn writes_map(&self, text: &str) -> Result<(), CallError> {
        let map = MapRef { namespace: "gpu-operator".to_owned(), name: "layouts".to_owned() };
        let place = map::Place { map, if_version: None, is_ours: false };
        map::write(&self.calls, &place, text, Timestamp::UNIX_EPOCH).await.map(|_| ())
    }

    async fn writes_gpu_node(&self, may: impl Fn() -> bool) -> Result<Written, CallError> {
        let spec = GpuNodeSpec { policy: Some("research".to_owned()), ..GpuNodeSpec::default() };
        let status = GpuNodeStatus {
            slices: Some("7 x 1g.10gb, 7 free".to_owned()),
            observed_generation: Some(1),
            conditions: vec![ready()],
            ..GpuNodeStatus::default()
        };
        let node = NodeName("n1".to_owned());
        let wanted = Wanted { node: &node, owner_uid: "uid-n1", spec: &spec, status: &status, agent: false };
        gpu_node::write(&self.calls, &wanted, None, may).await
    }
}

fn ready() -> Condition {
    Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "Converged".to_owned(),
        message: "it has its layout".to_owned(),
        observed_generation: Some(1),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

fn asks(method: &str, version: Option<u64>) -> Write {
    (method.to_owned(), version.map(|version| version.to_string()))
}

#[tokio::test]
async fn a_map_that_another_replica_has_made_meanwhile_is_not_written_over() {
    let site = site().await;
    site.writes_map("of the other replica").await.unwrap();
    assert_eq!(site.asked(), [asks("POST", None), asks("PATCH", Some(1))]);

    let late = site.writes_map("of before").await.unwrap_err();

    assert!(late.is_conflict(), "{late}");
    assert_eq!(site.asked(), [asks("POST", None)], "nothing but what is refused");
}

#[tokio::test]
async fn a_gpu_node_that_another_replica_has_made_meanwhile_is_not_written_over() {
    let site = site().await;
    site.writes_gpu_node(|| true).await.unwrap();
    assert_eq!(site.asked(), [asks("POST", None), asks("PATCH", Some(1)), asks("PATCH", Some(2))]);

    let late = site.writes_gpu_node(|| true).await.unwrap_err();

    assert!(late.is_conflict(), "{late}");
    assert_eq!(site.asked(), [asks("POST", None)], "nothing but what is refused");
}

/// Otherwise the next round would write the status of every new node a second time, for this number alone.
#[tokio::test]
async fn the_status_of_a_new_gpu_node_describes_the_spec_that_was_written_with_it() {
    let site = site().await;
    site.writes_gpu_node(|| true).await.unwrap();
    assert_eq!(*site.place.described.lock().unwrap(), [2, 2], "made, and given its spec");
}

#[tokio::test]
async fn a_replica_that_may_not_write_makes_no_gpu_node() {
    let site = site().await;
    assert!(matches!(site.writes_gpu_node(|| false).await, Ok(Written::Stopped)));
    assert_eq!(site.asked(), []);
}
