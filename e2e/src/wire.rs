//! Faults on the connection between an operator and the API server: answers that fail, are late or are cut
//! off, watches that fall silent, and a process that dies at the moment when a write is done.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::weather::{Answer, Chance, End, Fare, Fate, Weather, connection_refused};

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 409: it is not done, somebody was faster.
    Conflict,
    /// 429: it is not done, the API server is busy.
    Busy,
    /// 504, and it is not done.
    NotDone,
    /// 504, and it is done.
    Done,
    /// It is done, and no answer comes.
    Slow,
    /// It is done, and half of the answer comes.
    CutOff,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Conflict, Self::Busy, Self::NotDone, Self::Done, Self::Slow, Self::CutOff];
}

/// When an operator dies, as its last write sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The write is not done.
    Before,
    /// It is done, and no answer comes.
    After,
}

/// A wire. Its clones are the same one.
#[derive(Clone, Debug)]
pub struct Wire {
    faults: &'static [Fault],
    /// How many writes are done and heard of before the one that is the last.
    dies_after: Option<usize>,
    /// At the first write of which kind the operator is to die, and when.
    dies_at: Option<(&'static str, Death)>,
    /// How often each kind of write was tried.
    tried: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    /// It is the moment at which the operator is to die.
    written: CancellationToken,
    /// From when on watches of nodes and pods say nothing any more.
    silent: CancellationToken,
    /// The same, for those that are open now.
    open_silent: Arc<Mutex<CancellationToken>>,
    /// What it is like now.
    weather: Arc<Mutex<Weather>>,
    chance: Arc<Chance>,
    /// How many watches were begun.
    watches: Arc<AtomicUsize>,
}

/// A wire on which nothing goes wrong until somebody says so.
impl Default for Wire {
    fn default() -> Self {
        Self::failing(&[])
    }
}

/// Whether it is a watch of what nodes are judged by.
fn is_a_watch_of_nodes(path: &str, query: Option<&str>) -> bool {
    let of_nodes = matches!(path, "/api/v1/nodes" | "/api/v1/pods");
    of_nodes && query.is_some_and(|query| query.contains("watch=true"))
}

impl Wire {
    /// Each kind of write fails once in each of these ways, one after the
    /// other; then it works.
    #[must_use]
    pub fn failing(faults: &'static [Fault]) -> Self {
        let (written, silent) = (CancellationToken::new(), CancellationToken::new());
        let open_silent = Arc::new(Mutex::new(silent.child_token()));
        Self {
            faults,
            dies_after: None,
            dies_at: None,
            tried: Arc::default(),
            written,
            silent,
            open_silent,
            weather: Arc::default(),
            chance: Arc::default(),
            watches: Arc::default(),
        }
    }

    /// After this many writes one more is done, and nobody hears of it; no
    /// other is.
    #[must_use]
    pub fn dying_after(writes: usize) -> Self {
        Self { dies_after: Some(writes), ..Self::failing(&[]) }
    }

    /// At the first write of this kind the operator dies; no other write is done from then on. The kinds are those of
    /// [`Wire::tried`].
    #[must_use]
    pub fn dying_at(kind: &'static str, death: Death) -> Self {
        Self { dies_at: Some((kind, death)), ..Self::failing(&[]) }
    }

    /// It is like this from now on, for what is asked from now on.
    pub fn turns(&self, weather: Weather) {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = weather;
    }

    fn weather(&self) -> Weather {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on watches of nodes and pods say nothing, and do not end.
    pub fn falls_silent(&self) {
        self.silent.cancel();
    }

    /// The watches of nodes and pods that are open now say nothing from now on,
    /// and do not end. Those that are begun later say what there is.
    pub fn open_watches_fall_silent(&self) {
        let mut open = self.open_silent.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *open, self.silent.child_token()).cancel();
    }

    fn silenced(&self) -> CancellationToken {
        self.open_silent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the moment at which the operator is to die: a write is done, or is about to be.
    pub async fn is_written(&self) {
        self.written.cancelled().await;
    }

    /// How often each kind of write was tried.
    #[must_use]
    pub fn tried(&self) -> BTreeMap<&'static str, usize> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client whose calls go through it.
    #[must_use]
    pub fn through(self, client: Client) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (wire, client) = (self.clone(), client.clone());
            async move {
                let fare = wire.fare(request.uri().path(), request.uri().query());
                let answer = wire.weathered(&client, request).await?;
                Ok::<_, kube::Error>(answer.map(|body| Answer::new(body, fare)))
            }
        });
        Client::new(service, "default")
    }

    /// What becomes of the messages of an answer.
    fn fare(&self, path: &str, query: Option<&str>) -> Fare {
        let mut fare = Fare::default();
        if !query.is_some_and(|query| query.contains("watch=true")) {
            return fare;
        }
        fare.silent = is_a_watch_of_nodes(path, query).then(|| self.silenced());
        let before = self.watches.fetch_add(1, Ordering::Relaxed);
        match self.weather() {
            Weather::WatchesCut(after) => {
                let end = if before.is_multiple_of(2) { End::Badly } else { End::Silently };
                fare.cut = Some((after, end));
            }
            Weather::Lagging(kind, by) if path.ends_with(&format!("/{kind}")) => fare.late = Some(by),
            _ => {}
        }
        fare
    }

    /// Asks, whatever it is like.
    async fn weathered(&self, client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        match self.weather() {
            Weather::Fair | Weather::WatchesCut(_) | Weather::Lagging(..) => {
                self.carry(client, request).await
            }
            Weather::Late(by) => {
                let answer = self.carry(client, request).await;
                tokio::time::sleep(by).await;
                answer
            }
            Weather::Errors(of_a_hundred) => match self.chance.next(of_a_hundred) {
                Fate::Answered => self.carry(client, request).await,
                Fate::Refused(code) => Ok(failure(code, "Unavailable")),
                Fate::DoneAndRefused(code) => {
                    self.carry(client, request).await?;
                    Ok(failure(code, "Unavailable"))
                }
            },
            Weather::Refused => Err(connection_refused()),
            Weather::Silent => pending().await,
        }
    }

    async fn carry(&self, client: &Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        let Some(kind) = kind(request.method(), request.uri().path()) else {
            return client.send(request).await;
        };
        let times = {
            let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
            let times = tried.entry(kind).or_default();
            *times += 1;
            *times
        };
        let all = self.tried().values().sum::<usize>();
        if let Some(before) = self.dies_after.filter(|before| all > *before) {
            // What was to come after it is never sent.
            if self.written.is_cancelled() || all > before + 1 {
                return pending().await;
            }
            let answer = client.send(request).await;
            self.written.cancel();
            return if answer.is_ok() { pending().await } else { answer };
        }
        if let Some((last, death)) =
            self.dies_at.filter(|(last, _)| kind == *last || self.written.is_cancelled())
        {
            let is_it = kind == last && times == 1 && !self.written.is_cancelled();
            if is_it && death == Death::After {
                // The API server has its answer ready, and nobody hears it.
                drop(client.send(request).await);
            }
            self.written.cancel();
            return pending().await;
        }
        match self.faults.get(times - 1) {
            None => client.send(request).await,
            Some(Fault::Conflict) => Ok(failure(StatusCode::CONFLICT, "Conflict")),
            Some(Fault::Busy) => Ok(failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")),
            Some(Fault::NotDone) => Ok(failure(StatusCode::GATEWAY_TIMEOUT, "Timeout")),
            Some(Fault::Done) => {
                client.send(request).await?;
                Ok(failure(StatusCode::GATEWAY_TIMEOUT, "Timeout"))
            }
            Some(Fault::Slow) => {
                client.send(request).await?;
                pending().await
            }
            Some(Fault::CutOff) => {
                let (parts, body) = client.send(request).await?.into_parts();
                let whole = body.collect_bytes().await?;
                Ok(Response::from_parts(parts, Body::from(whole[..whole.len() / 2].to_vec())))
            }
        }
    }
}

fn failure(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
        "message": "so it was arranged",
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}

/// The kind of a write; none for what only reads, and for the lease, of which
/// others tell.
fn kind(method: &Method, path: &str) -> Option<&'static str> {
    // A question whether one may do something is posted, and changes nothing.
    if method == Method::GET || path.contains("/leases") || path.ends_with("/selfsubjectaccessreviews") {
        return None;
    }
    let kinds = [
        ("/eviction", "eviction"),
        ("/gpunodes/", if path.ends_with("/status") { "status of a GpuNode" } else { "GpuNode" }),
        ("/gpupartitionpolicies/", "status of a policy"),
        ("/workloads/", "status of a Workload"),
        ("/admissionchecks/", "status of an AdmissionCheck"),
        ("/configmaps", "map"),
        ("/events", "event"),
        ("/pods/", "pod"),
        ("/nodes/", "node"),
    ];
    Some(kinds.into_iter().find(|(part, _)| path.contains(part)).map_or("other", |(_, kind)| kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_of_nodes_are_told_apart() {
        assert!(is_a_watch_of_nodes("/api/v1/nodes", Some("allowWatchBookmarks=true&watch=true")));
        assert!(is_a_watch_of_nodes("/api/v1/pods", Some("watch=true")));
        assert!(!is_a_watch_of_nodes("/api/v1/pods", Some("fieldSelector=spec.nodeName%3Dn1")));
        assert!(!is_a_watch_of_nodes("/api/v1/namespaces", Some("watch=true")));
    }

    #[test]
    fn writes_are_told_apart_and_reads_are_none() {
        let of = |method: Method, path: &str| kind(&method, path);
        assert_eq!(of(Method::GET, "/api/v1/nodes/a1"), None);
        assert_eq!(of(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"), None);
        assert_eq!(of(Method::PATCH, "/api/v1/nodes/a1"), Some("node"));
        assert_eq!(of(Method::PATCH, "/apis/slicewright.io/v1alpha1/gpunodes/a1"), Some("GpuNode"));
        let status = "/apis/slicewright.io/v1alpha1/gpunodes/a1/status";
        assert_eq!(of(Method::PATCH, status), Some("status of a GpuNode"));
        let workload = "/apis/kueue.x-k8s.io/v1beta2/namespaces/n/workloads/w/status";
        assert_eq!(of(Method::PATCH, workload), Some("status of a Workload"));
        let check = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks/c/status";
        assert_eq!(of(Method::PATCH, check), Some("status of an AdmissionCheck"));
        assert_eq!(of(Method::POST, "/api/v1/namespaces/n/pods/p/eviction"), Some("eviction"));
        assert_eq!(of(Method::DELETE, "/api/v1/namespaces/n/pods/p"), Some("pod"));
        assert_eq!(of(Method::POST, "/apis/events.k8s.io/v1/namespaces/n/events"), Some("event"));
        assert_eq!(of(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), None);
    }
}
