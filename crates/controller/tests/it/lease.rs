//! The lease with scripted answers of an API server: acquired, kept, lost, released.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::calls::Calls;
use controller::client::tamed;
use controller::clock::Clock;
use controller::lease::{Claim, Keeper, Lost};
use controller::settings::LeaseSettings;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// An API server that has one lease.
#[derive(Clone, Default)]
struct Leases {
    lease: Arc<Mutex<Option<Value>>>,
    version: Arc<AtomicU64>,
    broken: Arc<Mutex<bool>>,
    reads: Arc<AtomicU64>,
    /// Somebody else is always faster.
    overtaken: Arc<AtomicBool>,
    /// How often it said no.
    failed: Arc<AtomicU64>,
}

impl Leases {
    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        lease
            .as_ref()
            .and_then(|l| l["spec"]["holderIdentity"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    fn set(&self, mut lease: Value) -> Value {
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        lease["metadata"]["resourceVersion"] = json!(version.to_string());
        *self.lease.lock().unwrap() = Some(lease.clone());
        lease
    }
}

fn failure(code: u16) -> ResponseTemplate {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "ServiceUnavailable",
    };
    ResponseTemplate::new(code).set_body_json(
        json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": reason}),
    )
}

impl Respond for Leases {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        if *self.broken.lock().unwrap() {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return failure(503);
        }
        if self.overtaken.load(Ordering::SeqCst) && request.method.as_str() == "PUT" {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return failure(409);
        }
        self.reads.fetch_add(u64::from(request.method.as_str() == "GET"), Ordering::SeqCst);
        let now = self.lease.lock().unwrap().clone();
        match (request.method.as_str(), now) {
            ("GET", None) => failure(404),
            ("GET", Some(lease)) => ResponseTemplate::new(200).set_body_json(lease),
            ("POST", Some(_)) => failure(409),
            ("POST", None) => {
                ResponseTemplate::new(201).set_body_json(self.set(request.body_json().unwrap()))
            }
            ("PUT", Some(lease)) => {
                let body: Value = request.body_json().unwrap();
                if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
                    return failure(409);
                }
                ResponseTemplate::new(200).set_body_json(self.set(body))
            }
            _ => failure(405),
        }
    }
}

struct Replica {
    claim: Claim,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// For stories in which no claim runs out, however busy the machine is.
const LONG: Duration = Duration::from_secs(120);
/// For stories that wait until a claim has run out.
const SHORT: Duration = Duration::from_secs(1);

fn replica(server: &MockServer, identity: &str, duration: Duration) -> Replica {
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Arc::new(Calls::new(kube::Client::try_from(config).unwrap(), duration / 2));
    let settings = LeaseSettings {
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        duration,
        renew_deadline: duration * 3 / 5,
        retry: Duration::from_millis(50),
    };
    let (keeper, claim) = Keeper::new(calls, settings, identity.to_owned(), Clock::default());
    let stop = CancellationToken::new();
    let task = tokio::spawn(keeper.run(stop.clone()));
    Replica { claim, stop, task }
}

async fn server() -> (MockServer, Leases) {
    let (server, leases) = (MockServer::start().await, Leases::default());
    Mock::given(wiremock::matchers::any()).respond_with(leases.clone()).mount(&server).await;
    (server, leases)
}

/// Waits until the claim is what it should be, as it says itself.
async fn until(claim: &Claim, holds: bool) {
    let mut claim = claim.clone();
    tokio::time::timeout(Duration::from_secs(20), async {
        while claim.holds() != holds {
            claim.changed().await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("the claim should be {holds}"));
}

#[tokio::test]
async fn one_of_two_holds_it_and_when_told_to_stop_the_other_takes_over() {
    let (server, leases) = server().await;
    let one = replica(&server, "one", LONG);
    until(&one.claim, true).await;
    let other = replica(&server, "other", LONG);
    assert!(!other.claim.holds());
    assert!(matches!(other.claim.confirm().await, Err(Lost::Gone)));
    one.claim.confirm().await.unwrap();
    one.stop.cancel();
    one.task.await.unwrap();
    assert!(!one.claim.holds(), "who gave it back does not write");
    until(&other.claim, true).await;
    assert_eq!(leases.holder(), "other");
}

#[tokio::test]
async fn a_holder_that_was_killed_is_waited_for_and_then_replaced() {
    let (server, leases) = server().await;
    let one = replica(&server, "one", SHORT);
    until(&one.claim, true).await;
    one.task.abort();
    let other = replica(&server, "other", SHORT);
    until(&other.claim, true).await;
    assert!(!one.claim.holds(), "what was not renewed has run out before another takes it");
    assert_eq!(leases.holder(), "other");
}

#[tokio::test]
async fn who_cannot_renew_stops_writing_before_another_may_start() {
    let (server, leases) = server().await;
    let one = replica(&server, "one", SHORT);
    until(&one.claim, true).await;
    *leases.broken.lock().unwrap() = true;
    until(&one.claim, false).await;
    assert!(matches!(one.claim.confirm().await, Err(Lost::Gone)));
    *leases.broken.lock().unwrap() = false;
    until(&one.claim, true).await;
}

#[tokio::test]
async fn who_lost_it_unawares_finds_out_before_it_does_harm() {
    let (server, leases) = server().await;
    let one = replica(&server, "one", LONG);
    until(&one.claim, true).await;
    let mut stolen = leases.lease.lock().unwrap().clone().unwrap();
    stolen["spec"]["holderIdentity"] = json!("thief");
    leases.set(stolen);
    // Its own clock may still say yes; the API server says no.
    assert!(matches!(one.claim.confirm().await, Err(Lost::Gone)));
    until(&one.claim, false).await;
}

/// After an older copy of etcd was put back the lease may name one that lost
/// it since. Who has it meanwhile finds out at its next renewal, not before.
#[tokio::test]
async fn a_lease_that_names_us_again_after_another_had_it_is_waited_for() {
    let (server, leases) = server().await;
    let one = replica(&server, "one", LONG);
    until(&one.claim, true).await;
    let other = replica(&server, "other", LONG);
    let read = async |times: u64| {
        let wanted = leases.reads.load(Ordering::SeqCst) + times;
        tokio::time::timeout(Duration::from_secs(20), async {
            while leases.reads.load(Ordering::SeqCst) < wanted {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    };
    read(2).await;
    let mut restored = leases.lease.lock().unwrap().clone().unwrap();
    restored["spec"]["holderIdentity"] = json!("other");
    leases.set(restored);
    until(&one.claim, false).await;
    read(6).await;
    assert!(!other.claim.holds());
    drop((one.stop, other.stop));
}

/// The API server says that the lease is ours, and while its answer is on the
/// way our own time runs out: what it said is then of no account.
#[tokio::test]
async fn a_claim_that_ends_while_it_is_asked_about_is_lost_whatever_the_answer_says() {
    type ClaimAndStop = Option<(Claim, CancellationToken)>;
    let asked: Arc<Mutex<ClaimAndStop>> = Arc::default();
    let handed = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let handed = handed.lock().unwrap().clone();
        async move {
            if let Some((mut claim, stop)) = handed.filter(|_| request.method() == "GET") {
                stop.cancel();
                while claim.holds() {
                    claim.changed().await;
                }
            }
            let spec = json!({"holderIdentity": "one", "leaseDurationSeconds": 120});
            let lease = json!({"metadata": {"name": "lease", "namespace": "ns", "resourceVersion": "1"}, "spec": spec});
            Ok::<_, tower::BoxError>(http::Response::new(Body::from(serde_json::to_vec(&lease).unwrap())))
        }
    });
    let calls = Arc::new(Calls::new(kube::Client::new(service, "ns"), LONG));
    let settings = LeaseSettings {
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        duration: LONG,
        renew_deadline: LONG / 2,
        retry: LONG / 4,
    };
    let (keeper, claim) = Keeper::new(calls, settings, "one".to_owned(), Clock::default());
    let stop = CancellationToken::new();
    let task = tokio::spawn(keeper.run(stop.clone()));
    until(&claim, true).await;
    claim.confirm().await.unwrap();
    *asked.lock().unwrap() = Some((claim.clone(), stop));
    assert!(matches!(claim.confirm().await, Err(Lost::Gone)));
    task.await.unwrap();
}

/// What others read of it: who has it, since when, for how long they wait, and
/// how often it changed hands.
#[tokio::test]
async fn the_lease_says_who_has_it_since_when_and_how_often_it_changed_hands() {
    let (server, leases) = server().await;
    let written = || leases.lease.lock().unwrap().clone().unwrap();
    let one = replica(&server, "one", LONG);
    until(&one.claim, true).await;
    let first = written();
    assert_eq!(first["metadata"]["name"], "lease");
    assert_eq!(first["metadata"]["namespace"], "ns");
    assert_eq!(first["spec"]["holderIdentity"], "one");
    assert_eq!(first["spec"]["leaseDurationSeconds"], LONG.as_secs());
    assert_eq!(first["spec"]["leaseTransitions"], 0, "it had no holder before");
    assert!(first["spec"]["acquireTime"].as_str() <= first["spec"]["renewTime"].as_str(), "{first}");
    let version = leases.version.load(Ordering::SeqCst);
    wait_for("two renewals", || leases.version.load(Ordering::SeqCst) >= version + 2).await;
    let renewed = written();
    assert_ne!(renewed["spec"]["renewTime"], first["spec"]["renewTime"]);
    assert_eq!(renewed["spec"]["acquireTime"], first["spec"]["acquireTime"], "it was not taken again");
    assert_eq!(renewed["spec"]["leaseTransitions"], 0);
    one.stop.cancel();
    one.task.await.unwrap();
    let given_back = written();
    assert_eq!(given_back["spec"]["holderIdentity"], "", "the next need not wait");
    let other = replica(&server, "other", LONG);
    until(&other.claim, true).await;
    let taken = written();
    assert_eq!(taken["spec"]["holderIdentity"], "other");
    assert_eq!(taken["spec"]["leaseTransitions"], 1);
    assert_ne!(taken["spec"]["acquireTime"], first["spec"]["acquireTime"]);
}

/// That nobody can write is said where readiness is; it is not trouble that
/// another was faster, or that one call failed while the lease is ours.
#[tokio::test]
async fn who_can_neither_read_nor_write_the_lease_says_why_until_it_can() {
    let (server, leases) = server().await;
    *leases.broken.lock().unwrap() = true;
    let one = replica(&server, "one", LONG);
    wait_for("trouble", || one.claim.trouble().is_some()).await;
    let why = one.claim.trouble().unwrap();
    assert!(why.contains("Lease ns/lease"), "{why}");
    assert!(!one.claim.holds());
    *leases.broken.lock().unwrap() = false;
    until(&one.claim, true).await;
    wait_for("no trouble", || one.claim.trouble().is_none()).await;
    *leases.broken.lock().unwrap() = true;
    let failed = leases.failed.load(Ordering::SeqCst);
    wait_for("two failures", || leases.failed.load(Ordering::SeqCst) >= failed + 2).await;
    assert!(one.claim.holds(), "its time has not run out");
    assert_eq!(one.claim.trouble(), None, "and as long as it has not, somebody can write");
}

#[tokio::test]
async fn it_is_no_trouble_that_another_was_faster() {
    let (server, leases) = server().await;
    leases.set(json!({"metadata": {"name": "lease", "namespace": "ns"}, "spec": {"holderIdentity": ""}}));
    leases.overtaken.store(true, Ordering::SeqCst);
    let one = replica(&server, "one", LONG);
    wait_for("two conflicts", || leases.failed.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(one.claim.trouble(), None);
    assert!(!one.claim.holds(), "what was not written is not ours");
}

/// Waits until it is so.
async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("there should be {what}"));
}
