//! As much of an API server as the agent uses: one `GpuNode`, its watch, and merge patches of its status.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use api::GpuNode;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

const OBJECTS: &str = "/apis/slicewright.io/v1alpha1/gpunodes";

#[derive(Debug)]
struct Store {
    node: Value,
    version: u64,
    /// How often anything was asked for, the watch and its list included.
    requests: usize,
    /// How often the status was written.
    writes: usize,
    /// The next write is answered with an error, whether done or not.
    fail: Option<Failure>,
    /// Every write is answered with an error, and not done.
    refuses: bool,
    /// At which write the writer dies.
    strike: Option<Strike>,
}

/// The writer dies at the write of this, and never hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) at: Moment,
    /// Whether the write is done.
    pub(crate) done: bool,
}

/// What a write of an agent says of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Kubelet offers nothing.
    Closed,
    /// The change is the agent's.
    Claim,
    /// It has ended.
    Outcome,
    /// Kubelet offers everything again.
    Open,
}

impl Moment {
    fn is_in(self, status: &Value) -> bool {
        let agent = &status["agent"];
        let (gate, stage) = (agent["gate"]["state"].as_str(), agent["change"]["stage"].as_str());
        match self {
            Self::Closed => gate == Some("Closed") && stage.is_none(),
            Self::Claim => stage == Some("Claimed"),
            Self::Outcome => stage == Some("Done"),
            Self::Open => gate == Some("Open") && stage == Some("Done"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The next write is refused.
    Refuse,
    /// The next write is done, and its answer is an error.
    LoseAnswer,
}

#[derive(Clone, Debug)]
pub(crate) struct ApiServer {
    store: Arc<Mutex<Store>>,
    changed: watch::Sender<u64>,
    struck: Arc<Notify>,
    pub(crate) address: SocketAddr,
}

impl ApiServer {
    /// Has the `GpuNode` of this node, as the operator makes it.
    pub(crate) async fn start(node: &str) -> Self {
        let object = json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
            "metadata": {"name": node, "uid": "object-1", "resourceVersion": "1"},
            "spec": {"policy": "research"},
        });
        let store = Store {
            node: object,
            version: 1,
            requests: 0,
            writes: 0,
            fail: None,
            refuses: false,
            strike: None,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (changed, struck) = (watch::channel(1).0, Arc::default());
        let server = Self { store: Arc::new(Mutex::new(store)), changed, struck, address };
        let router = Router::new()
            .route(OBJECTS, get(objects))
            .route(&format!("{OBJECTS}/{{name}}"), get(object_alone))
            .route(&format!("{OBJECTS}/{{name}}/status"), axum::routing::patch(apply))
            .layer(axum::middleware::from_fn_with_state(server.clone(), counted))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    pub(crate) fn node(&self) -> GpuNode {
        serde_json::from_value(self.store().node.clone()).unwrap()
    }

    pub(crate) fn requests(&self) -> usize {
        self.store().requests
    }

    pub(crate) fn writes(&self) -> usize {
        self.store().writes
    }

    /// Somebody else changes the object.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let version = {
            let mut store = self.store();
            change(&mut store.node);
            store.next()
        };
        self.changed.send_replace(version);
    }

    /// An older copy of the data is restored: the object is as it was, with the version that it had.
    pub(crate) fn goes_back_to(&self, node: Value) {
        let version = {
            let mut store = self.store();
            store.version = node["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            store.node = node;
            store.version
        };
        self.changed.send_replace(version);
    }

    /// The object as it is.
    pub(crate) fn copy(&self) -> Value {
        self.store().node.clone()
    }

    pub(crate) fn fail(&self, how: Failure) {
        self.store().fail = Some(how);
    }

    /// From now on no write is done, or each again.
    pub(crate) fn refuses(&self, writes: bool) {
        self.store().refuses = writes;
    }

    pub(crate) fn strike(&self, strike: Strike) {
        self.store().strike = Some(strike);
    }

    /// Waits until somebody was struck.
    pub(crate) async fn struck(&self) {
        self.struck.notified().await;
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

impl Store {
    fn next(&mut self) -> u64 {
        self.version += 1;
        self.node["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.version
    }
}

fn failure(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    (StatusCode::from_u16(code).unwrap(), body.to_string()).into_response()
}

async fn counted(State(server): State<ApiServer>, request: Request, next: Next) -> Response {
    server.store().requests += 1;
    next.run(request).await
}

async fn object_alone(State(server): State<ApiServer>) -> Response {
    server.store().node.to_string().into_response()
}

/// What is asked with a request, as it is written.
fn query(text: Option<String>) -> BTreeMap<String, String> {
    let text = text.unwrap_or_default();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

async fn objects(State(server): State<ApiServer>, RawQuery(asked): RawQuery) -> Response {
    let query = query(asked);
    assert_eq!(query["fieldSelector"], "metadata.name%3Dgpu-7", "it watches its own object alone");
    let (node, version) = {
        let store = server.store();
        (store.node.clone(), store.version)
    };
    if !query.contains_key("watch") {
        let list = json!({
            "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNodeList",
            "metadata": {"resourceVersion": version.to_string()}, "items": [node],
        });
        return list.to_string().into_response();
    }
    let from: u64 = query["resourceVersion"].parse().unwrap();
    let events = futures::stream::unfold(
        (server.changes(), server, from),
        async |(mut changed, server, sent)| {
            changed.wait_for(|version| *version != sent).await.ok()?;
            let (event, sent) = {
                let store = server.store();
                let expired = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
                    "message": "too old resource version",
                });
                match store.version < sent {
                    true => (json!({"type": "ERROR", "object": expired}), store.version),
                    false => (json!({"type": "MODIFIED", "object": store.node}), store.version),
                }
            };
            Some((Ok::<_, std::io::Error>(format!("{event}\n")), (changed, server, sent)))
        },
    );
    Body::from_stream(events).into_response()
}

/// A merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (field, value) in fields {
        if value.is_null() {
            target.remove(field);
        } else {
            merge(target.entry(field).or_insert(Value::Null), value);
        }
    }
}

async fn apply(State(server): State<ApiServer>, RawQuery(asked): RawQuery, body: Bytes) -> Response {
    assert_eq!(query(asked)["fieldManager"], "slicewright-agent");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let strike = {
        let store = server.store();
        let mut status = store.node["status"].clone();
        merge(&mut status, &body["status"]);
        store.strike.filter(|strike| strike.at.is_in(&status))
    };
    match strike {
        Some(Strike { done: false, .. }) => server.strikes().await,
        Some(Strike { done: true, .. }) => {
            drop(server.write(&body));
            server.strikes().await
        }
        None => server.write(&body),
    }
}

impl ApiServer {
    /// Never answers.
    async fn strikes(&self) -> Response {
        self.store().strike = None;
        self.struck.notify_one();
        std::future::pending().await
    }

    fn write(&self, body: &Value) -> Response {
        let (answer, version) = {
            let mut store = self.store();
            if body["metadata"]["resourceVersion"] != store.node["metadata"]["resourceVersion"] {
                let changed = "the object has been modified; please apply your changes to the latest version";
                return failure(409, "Conflict", changed);
            }
            let fail = store.fail.take();
            if store.refuses || fail == Some(Failure::Refuse) {
                return failure(500, "InternalError", "etcd is not there");
            }
            merge(&mut store.node["status"], &body["status"]);
            // What is written must be what the type has.
            let _: GpuNode = serde_json::from_value(store.node.clone()).unwrap();
            store.writes += 1;
            let version = store.next();
            let answer = match fail {
                Some(_) => failure(504, "Timeout", "the answer is lost"),
                None => store.node.to_string().into_response(),
            };
            (answer, version)
        };
        self.changed.send_replace(version);
        answer
    }
}
