//! The actions of a node, done in order: the holder of the lease is checked before each disruptive action,
//! and the actions stop when the lease is lost, when the operator stops, and when one fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller::apply::{ActionError, Done, Executor};
use controller::calls::Calls;
use controller::client::tamed;
use controller::clock::Clock;
use controller::lease::{Keeper, Lost};
use controller::metrics::Metrics;
use controller::settings::LeaseSettings;
use planner::names::{NodeName, PodRef};
use rollout::Action;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// What happens at the first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtFirstWrite {
    Nothing,
    LeaseIsTaken,
    StopIsSaid,
    Refused(u16),
}

/// An API server with one lease, which notes what is written.
#[derive(Clone)]
struct Api {
    holder: Arc<Mutex<&'static str>>,
    /// Writes, and questions whose the lease is, in order.
    asked: Arc<Mutex<Vec<String>>>,
    at_first: Arc<Mutex<AtFirstWrite>>,
    /// What was written.
    bodies: Arc<Mutex<Vec<Value>>>,
    stop: CancellationToken,
}

fn lease(holder: &str) -> Value {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 600, "renewTime": "2026-11-22T08:00:00.000000Z"});
    json!({"metadata": {"name": "lease", "namespace": "ns", "resourceVersion": "1"}, "spec": spec})
}

impl Respond for Api {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let (method, path) = (request.method.as_str(), request.url.path());
        if path.contains("/leases") {
            if method == "GET" {
                self.asked.lock().unwrap().push("whose is it".to_owned());
            }
            return ResponseTemplate::new(200).set_body_json(lease(*self.holder.lock().unwrap()));
        }
        if method == "GET" {
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": []});
            return ResponseTemplate::new(200).set_body_json(list);
        }
        if let Ok(body) = serde_json::from_slice(&request.body) {
            self.bodies.lock().unwrap().push(body);
        }
        let short = path.rsplit_once("/v1/").map_or(path, |(_, rest)| rest);
        self.asked.lock().unwrap().push(format!("{method} {short}"));
        match std::mem::replace(&mut *self.at_first.lock().unwrap(), AtFirstWrite::Nothing) {
            AtFirstWrite::Nothing => {}
            AtFirstWrite::LeaseIsTaken => *self.holder.lock().unwrap() = "thief",
            AtFirstWrite::StopIsSaid => self.stop.cancel(),
            AtFirstWrite::Refused(code) => {
                let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "X"});
                return ResponseTemplate::new(code).set_body_json(status);
            }
        }
        let body = match method {
            "PATCH" => {
                json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a1", "resourceVersion": "8"}})
            }
            _ => json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        };
        ResponseTemplate::new(if method == "POST" { 201 } else { 200 }).set_body_json(body)
    }
}

struct Site {
    api: Api,
    executor: Executor,
    _server: MockServer,
    _keeping: tokio::task::JoinSet<()>,
}

/// Hands whose claim is won, and is not looked at again by itself.
async fn site(at_first: AtFirstWrite) -> Site {
    let server = MockServer::start().await;
    let stop = CancellationToken::new();
    let api = Api {
        holder: Arc::new(Mutex::new("me")),
        asked: Arc::default(),
        at_first: Arc::new(Mutex::new(at_first)),
        bodies: Arc::default(),
        stop: stop.clone(),
    };
    Mock::given(wiremock::matchers::any()).respond_with(api.clone()).mount(&server).await;
    let config = tamed(kube::Config::new(server.uri().parse().unwrap()));
    let calls = Arc::new(Calls::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(60)));
    let settings = LeaseSettings {
        namespace: "ns".to_owned(),
        name: "lease".to_owned(),
        duration: Duration::from_secs(600),
        renew_deadline: Duration::from_secs(500),
        retry: Duration::from_secs(400),
    };
    let (keeper, claim) = Keeper::new(Arc::clone(&calls), settings, "me".to_owned(), Clock::default());
    let mut keeping = tokio::task::JoinSet::new();
    keeping.spawn(keeper.run(CancellationToken::new()));
    let mut won = claim.clone();
    while !won.holds() {
        won.changed().await;
    }
    api.asked.lock().unwrap().clear();
    let went_back = CancellationToken::new();
    let executor = Executor {
        calls,
        claim,
        clock: Clock::default(),
        metrics: Arc::new(Metrics::new()),
        stop,
        went_back,
    };
    Site { api, executor, _server: server, _keeping: keeping }
}

impl Site {
    async fn apply(&self, actions: &[Action]) -> (Done, Vec<String>) {
        let mut done = Done::default();
        self.executor.apply(&NodeName("a1".to_owned()), actions, &mut done).await;
        let asked = std::mem::take(&mut *self.api.asked.lock().unwrap());
        (done, asked)
    }
}

fn if_version() -> String {
    "7".to_owned()
}

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "team".to_owned(), name: name.to_owned() }
}

fn evict(name: &str) -> Action {
    Action::Evict { pod: pod(name), if_uid: format!("uid-{name}") }
}

/// Every action that writes, by its name.
fn writes() -> BTreeMap<&'static str, Action> {
    let label = |value: &str| Action::SetConfigLabel {
        value: value.to_owned(),
        clear_state: true,
        if_version: if_version(),
    };
    let labels = vec!["nvidia.com/gpu.deploy.device-plugin".to_owned()];
    let all = [
        Action::Cordon { if_version: if_version() },
        Action::Uncordon { if_version: if_version() },
        Action::RemoveCordonedBy { if_version: if_version() },
        label("slicewright-1"),
        Action::UnpauseOperands { labels: labels.clone(), if_version: if_version() },
        Action::HoldForAgent { labels: labels.clone(), if_version: if_version() },
        Action::ResumeOperands { labels, if_version: if_version() },
        Action::StandDownManager { if_version: if_version() },
        Action::HandBack { value: "slicewright-1".to_owned(), with_manager: true, if_version: if_version() },
        Action::DeletePod { pod: pod("manager"), if_uid: "uid-manager".to_owned() },
        evict("train"),
    ];
    all.into_iter().map(|action| (action.name(), action)).collect()
}

#[tokio::test]
async fn before_each_disruptive_action_it_is_asked_whose_the_lease_is_and_nothing_is_done_for_another() {
    let site = site(AtFirstWrite::Nothing).await;
    for (name, action) in writes() {
        *site.api.holder.lock().unwrap() = "me";
        let (done, asked) = site.apply(std::slice::from_ref(&action)).await;
        assert!(done.stopped.is_none(), "{name}: {:?}", done.stopped);
        let questions = asked.iter().filter(|line| *line == "whose is it").count();
        assert_eq!(questions, usize::from(action.is_disruptive()), "{name}: {asked:?}");
        assert_eq!(asked.len(), questions + 1, "{name}: {asked:?}");
        assert_eq!(asked.first().is_some_and(|line| line == "whose is it"), action.is_disruptive(), "{name}");
        // Its own clock still says that the lease is ours.
        *site.api.holder.lock().unwrap() = "thief";
        assert!(site.executor.claim.holds());
        if action.is_disruptive() {
            let (done, asked) = site.apply(&[action]).await;
            assert!(matches!(done.stopped, Some(ActionError::Lost { source: Lost::Gone, .. })), "{name}");
            assert_eq!(asked, ["whose is it"], "{name}");
        }
    }
    let disruptive = writes().into_values().filter(Action::is_disruptive).map(|action| action.name());
    let expected = [
        "Cordon",
        "DeletePod",
        "Evict",
        "HandBack",
        "HoldForAgent",
        "SetConfigLabel",
        "StandDownManager",
        "UnpauseOperands",
    ];
    assert_eq!(disruptive.collect::<Vec<_>>(), expected);
}

/// A node that is cordoned and still gives slices away, or gives none and is
/// open, would cost pods a refusal.
#[tokio::test]
async fn a_node_is_held_for_its_agent_in_one_write_on_the_version_that_was_decided_on() {
    let site = site(AtFirstWrite::Nothing).await;
    let (done, asked) = site.apply(&[writes()["HoldForAgent"].clone()]).await;
    assert!(done.stopped.is_none(), "{:?}", done.stopped);
    assert_eq!(asked, ["whose is it", "PATCH nodes/a1"]);
    let body = site.api.bodies.lock().unwrap().pop().unwrap();
    let labels = json!({
        "slicewright.io/cordoned-by": "slicewright",
        "nvidia.com/gpu.deploy.device-plugin": "paused-for-slicewright",
    });
    assert_eq!(body["metadata"]["labels"], labels);
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert_eq!(body["spec"], json!({"unschedulable": true}));
}

#[tokio::test]
async fn a_lease_that_is_lost_ends_the_work_between_two_actions() {
    let site = site(AtFirstWrite::LeaseIsTaken).await;
    let (done, asked) = site.apply(&[evict("a"), evict("b"), evict("c")]).await;
    assert!(matches!(done.stopped, Some(ActionError::Lost { source: Lost::Gone, .. })), "{:?}", done.stopped);
    let evicted = "POST namespaces/team/pods/a/eviction";
    assert_eq!(asked, ["whose is it", evicted, "whose is it"]);
    assert_eq!(done.awaited.len(), 1, "what was done is awaited all the same");
}

#[tokio::test]
async fn an_operator_that_is_told_to_stop_ends_the_action_that_it_is_at_and_begins_no_other() {
    let site = site(AtFirstWrite::StopIsSaid).await;
    assert!(site.executor.may_write());
    let (done, asked) = site.apply(&[Action::Cordon { if_version: if_version() }, Action::ListPods]).await;
    assert!(matches!(done.stopped, Some(ActionError::Stopping { action: "ListPods" })), "{:?}", done.stopped);
    assert_eq!(asked, ["whose is it", "PATCH nodes/a1"]);
    assert_eq!(done.awaited.len(), 1, "it heard that it was done");
    assert!(!site.executor.may_write());
}

/// Each write of the node moves its version: the last is awaited, and with it
/// everything else that was done.
#[tokio::test]
async fn of_a_node_that_is_written_twice_the_last_version_is_awaited() {
    let site = site(AtFirstWrite::Nothing).await;
    let all = writes();
    let actions = ["Cordon", "Evict", "SetConfigLabel"].map(|name| all[name].clone());
    let (done, _) = site.apply(&actions).await;
    assert!(done.stopped.is_none(), "{:?}", done.stopped);
    let awaited: Vec<String> = done.awaited.iter().map(ToString::to_string).collect();
    assert_eq!(awaited, ["pod team/train going", "nodes /a1 at version 8"]);
}

#[tokio::test]
async fn the_first_that_fails_is_the_last_and_an_eviction_that_is_refused_is_an_answer() {
    let conflict = site(AtFirstWrite::Refused(409)).await;
    let (done, asked) = conflict.apply(&[Action::Cordon { if_version: if_version() }, evict("a")]).await;
    assert!(matches!(done.stopped, Some(ActionError::Call { action: "Cordon", .. })), "{:?}", done.stopped);
    assert_eq!(asked, ["whose is it", "PATCH nodes/a1"]);
    let budget = site(AtFirstWrite::Refused(429)).await;
    let (done, asked) = budget.apply(&[evict("a"), evict("b")]).await;
    assert!(done.stopped.is_none(), "{:?}", done.stopped);
    let refused: Vec<_> = done.refusals.iter().map(|refusal| refusal.pod.name.as_str()).collect();
    assert_eq!(refused, ["a"]);
    assert_eq!(asked.len(), 4, "{asked:?}");
}

#[tokio::test]
async fn nothing_is_done_on_what_was_read_before_the_data_went_back() {
    let site = site(AtFirstWrite::Nothing).await;
    site.executor.went_back.cancel();
    assert!(!site.executor.may_write());
    for (name, action) in writes() {
        let (done, asked) = site.apply(&[action]).await;
        assert!(matches!(done.stopped, Some(ActionError::WentBack { .. })), "{name}: {:?}", done.stopped);
        assert_eq!(asked, Vec::<String>::new(), "{name}");
    }
}
