//! Watches against API servers that are scripted here, in virtual time.

use super::*;
use crate::settings::WATCH_TIME;
use kube::client::Body;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// An API server of which every watch breaks at once, with an error or with
/// nothing but its end; and what was asked of it.
fn breaking(status_of_watch: u16) -> (Client, Arc<Mutex<Vec<&'static str>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        noted.lock().unwrap().push(if watch { "watch" } else { "list" });
        let list = r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
        let (status, body) = match (watch, status_of_watch) {
            (false, _) => (200, list),
            (true, 200) => (200, ""),
            (true, status) => (status, "{}"),
        };
        let answer = http::Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()));
        async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
    });
    (Client::new(service, "default"), asked)
}

async fn first_requests(source: Source, status_of_watch: u16) -> Vec<&'static str> {
    let (client, asked) = breaking(status_of_watch);
    let (changes, mut told) = mpsc::channel(BACKLOG);
    let pauses = Pauses::new(Duration::from_secs(1));
    let call_timeout = Duration::from_secs(10);
    let out = Out { source, changes, pauses, call_timeout, watch_time: WATCH_TIME };
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
    let following = tokio::spawn(follow(api, all(), out, Item::node));
    let mut troubles = 0;
    while troubles < 2 {
        let (_, change) = told.recv().await.unwrap();
        troubles += usize::from(matches!(change, Change::Trouble(_)));
    }
    following.abort();
    asked.lock().unwrap().iter().copied().take(4).collect()
}

fn all() -> Selection {
    Selection { fields: None, page: 500 }
}

/// Whoever put back an older copy of etcd ended it, and a watch that went on
/// from a version that is still to come would say nothing until it has.
#[tokio::test(start_paused = true)]
async fn a_watch_that_broke_or_ended_before_its_time_lists_anew() {
    for source in [Source::Nodes, Source::Policies] {
        for status_of_watch in [503, 200] {
            let asked = first_requests(source.clone(), status_of_watch).await;
            assert_eq!(asked, ["list", "watch", "list", "watch"], "{source} {status_of_watch}");
        }
    }
}

/// An API server that takes everything and says nothing: no list of it is
/// waited for without end, and it is asked again.
#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_answers_is_given_up_and_begun_again() {
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>()
    });
    let (changes, mut told) = mpsc::channel(BACKLOG);
    let out = Out {
        source: Source::Policies,
        changes,
        pauses: Pauses::new(Duration::from_secs(1)),
        call_timeout: Duration::from_secs(10),
        watch_time: WATCH_TIME,
    };
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(Client::new(service, "default"));
    let following = tokio::spawn(follow(api, all(), out, Item::node));
    let began = tokio::time::Instant::now();
    let mut troubles = Vec::new();
    while troubles.len() < 2 {
        if let (_, Change::Trouble(text)) = told.recv().await.unwrap() {
            troubles.push((began.elapsed().as_millis(), text));
        }
    }
    following.abort();
    let text = "no answer to a list within 10s".to_owned();
    assert_eq!(troubles, [(10_000, text.clone()), (20_250, text)]);
}

/// An answer whose connection stays open and of which nothing comes.
enum Answer {
    Whole(Body),
    Silent,
}

impl http_body::Body for Answer {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Silent => Poll::Pending,
        }
    }
}

/// The connection is open, and nothing comes: the API server was asked to end
/// the watch, and is waited for a moment longer.
#[tokio::test(start_paused = true)]
async fn a_watch_that_goes_silent_with_its_connection_open_is_given_up_and_lists_anew() {
    let service = tower::service_fn(|request: http::Request<Body>| async move {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let list = r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
        let body = match watch {
            true => Answer::Silent,
            false => Answer::Whole(Body::from(list.as_bytes().to_vec())),
        };
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    });
    let (changes, mut told) = mpsc::channel(BACKLOG);
    let out = Out {
        source: Source::Pods,
        changes,
        pauses: Pauses::new(Duration::from_secs(1)),
        call_timeout: Duration::from_secs(10),
        watch_time: Duration::from_secs(60),
    };
    let api: Api<k8s_openapi::api::core::v1::Pod> = Api::all(Client::new(service, "default"));
    let following = tokio::spawn(follow(api, all(), out, Item::pod));
    let began = tokio::time::Instant::now();
    let mut lists = Vec::new();
    while lists.len() < 2 {
        if let (_, Change::End) = told.recv().await.unwrap() {
            lists.push(began.elapsed().as_millis());
        }
    }
    following.abort();
    assert_eq!(lists, [0, 65_250], "60 s, 5 s more, and the pause before the next");
}

#[test]
fn a_watch_that_broke_is_tried_soon_and_then_at_most_so_seldom() {
    let mut pauses = Pauses::new(Duration::from_secs(1));
    let millis: Vec<_> = pauses.by_ref().take(4).map(|pause| pause.as_millis()).collect();
    assert_eq!(millis, [250, 500, 1_000, 1_000]);
    pauses.reset();
    assert_eq!(pauses.next(), Some(Duration::from_millis(250)));
}

/// An API server that serves a kind of Kueue in `v1beta1` until its first watch, and in `v1beta2` from then on, as
/// after an upgrade of Kueue that ends a version (404) or has no conversion to it (500); and the lists that it was
/// asked for.
fn upgraded(older: u16) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listed = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&listed);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path().to_owned();
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let mut noted = noted.lock().unwrap();
        let served = if noted.is_empty() { "v1beta1" } else { "v1beta2" };
        let is_list = path.ends_with("/admissionchecks") && !is_watch;
        let is_asked_for = path.starts_with(&format!("/apis/kueue.x-k8s.io/{served}"));
        let is_known = is_asked_for || (older == 500 && !is_list && path.contains("/v1beta1"));
        let refused = if is_list { older } else { 404 };
        if is_list {
            noted.push(path.clone());
        }
        let (status, body) = match (is_known, is_list) {
            (false, _) => (
                refused,
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"x"}"#,
            ),
            (true, true) => {
                (200, r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#)
            }
            (true, false) if is_watch => (200, ""),
            (true, false) => (
                200,
                r#"{"kind":"APIResourceList","groupVersion":"x","resources":[{"name":"admissionchecks",
                    "singularName":"","namespaced":false,"kind":"AdmissionCheck","verbs":["list"]}]}"#,
            ),
        };
        let body = body.replace("404", &status.to_string());
        let answer = http::Response::builder().status(status).body(Body::from(body.into_bytes()));
        async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
    });
    (Client::new(service, "default"), listed)
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_others_whose_version_ends_is_followed_in_the_next_one() {
    is_followed_in_the_next_version(404).await;
}

/// Seen while Kueue was installed: its older version was served a moment before the newer one, and was then followed
/// for good, though no object could be converted to it.
#[tokio::test(start_paused = true)]
async fn a_kind_of_others_that_cannot_be_converted_to_the_version_that_was_served_first_is_followed_in_the_next_one()
 {
    is_followed_in_the_next_version(500).await;
}

async fn is_followed_in_the_next_version(older: u16) {
    let (client, listed) = upgraded(older);
    let (changes, mut told) = mpsc::channel(BACKLOG);
    let kind = Foreign::AdmissionCheck;
    let out = Out {
        source: Source::Foreign(kind),
        changes,
        pauses: Pauses::new(Duration::from_secs(1)),
        call_timeout: Duration::from_secs(10),
        watch_time: WATCH_TIME,
    };
    let following = tokio::spawn(follow_foreign(client, kind, all(), out));
    let mut lists = 0;
    for changes in 0.. {
        if lists == 2 {
            break;
        }
        // A kind that is followed in a version that is gone never comes to the end of its second list.
        assert!(changes < 100, "it is followed again");
        let (_, change) = told.recv().await.unwrap();
        lists += usize::from(matches!(change, Change::End));
    }
    following.abort();
    let paths = ["v1beta1", "v1beta2"];
    let paths = paths.map(|version| format!("/apis/kueue.x-k8s.io/{version}/admissionchecks"));
    let mut listed = listed.lock().unwrap().clone();
    listed.dedup();
    assert_eq!(listed, paths);
}

/// An API server that serves a kind of Kueue in no version that is read, or answers nothing of the kind.
async fn said_of_kueue(status: u16) -> Vec<Change> {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let is_groups = request.uri().path() == "/apis";
        let (status, body) = match is_groups {
            true => (
                200,
                r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"kueue.x-k8s.io","versions":[
                    {"groupVersion":"kueue.x-k8s.io/v1","version":"v1"}],
                    "preferredVersion":{"groupVersion":"kueue.x-k8s.io/v1","version":"v1"}}]}"#,
            ),
            false => (
                status,
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"x"}"#,
            ),
        };
        let body = body.replace("404", &status.to_string());
        let answer = http::Response::builder().status(status).body(Body::from(body.into_bytes()));
        async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
    });
    let (changes, mut told) = mpsc::channel(BACKLOG);
    let kind = Foreign::Workload;
    let out = Out {
        source: Source::Foreign(kind),
        changes,
        pauses: Pauses::new(Duration::from_secs(1)),
        call_timeout: Duration::from_secs(10),
        watch_time: WATCH_TIME,
    };
    let following = tokio::spawn(follow_foreign(Client::new(service, "default"), kind, all(), out));
    let mut said = Vec::new();
    while said.len() < 8 {
        said.push(told.recv().await.unwrap().1);
    }
    following.abort();
    said
}

#[tokio::test(start_paused = true)]
async fn that_no_version_that_is_read_is_served_is_said_once_it_is_sure_and_not_of_an_api_server_in_trouble()
{
    let unread = |change: &Change| match change {
        Change::Unread(served) => Some(served.clone()),
        _ => None,
    };
    let said = said_of_kueue(404).await;
    let first = said.iter().position(|change| unread(change).is_some());
    assert_eq!(first, Some(SURELY_UNREAD), "a definition needs a moment until it is served");
    assert_eq!(unread(&said[SURELY_UNREAD]), Some(vec!["v1".to_owned()]));
    assert!(said_of_kueue(503).await.iter().all(|change| unread(change).is_none()));
}
