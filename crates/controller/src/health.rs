//! Health, readiness and metrics of this replica, over HTTP. Alive: the loop makes progress. Ready: every
//! watch has listed its objects.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::class::chain;
use crate::clock;
use crate::guard::{Guard, Verdict};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Where metrics are.
const METRICS: &str = "/metrics";

/// What the loop says of itself.
#[derive(Debug)]
pub struct Health {
    turned: Mutex<Instant>,
    incomplete: Mutex<Vec<String>>,
    stuck_after: Duration,
}

impl Health {
    /// A loop that has just begun.
    #[must_use]
    pub fn new(stuck_after: Duration) -> Self {
        let incomplete = vec!["nothing has been listed yet".to_owned()];
        Self { turned: Mutex::new(clock::instant()), incomplete: Mutex::new(incomplete), stuck_after }
    }

    /// The loop turned.
    pub fn turn(&self) {
        *self.turned.lock().unwrap_or_else(PoisonError::into_inner) = clock::instant();
    }

    /// What is not complete yet; empty: everything is.
    pub fn incomplete(&self, what: Vec<String>) {
        *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Why it is not alive.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let turned = *self.turned.lock().unwrap_or_else(PoisonError::into_inner);
        let still = clock::instant().saturating_duration_since(turned);
        (still >= self.stuck_after).then(|| format!("the loop has not turned for {} s", still.as_secs()))
    }

    /// Why it is not ready: a loop that stands still is not either, whatever it said before.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        let what = self.incomplete.lock().unwrap_or_else(PoisonError::into_inner);
        (!what.is_empty()).then(|| what.join("\n")).or_else(|| self.stuck())
    }
}

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address}")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// Why not.
    #[source]
    pub source: std::io::Error,
}

/// Why health and metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Probes come without a token, and without TLS.
    #[error("--metrics-certificate needs a --metrics-address other than --health-address")]
    SameAddress,
    /// The certificate cannot be served.
    #[cfg(feature = "tls-rustls")]
    #[error("metrics cannot be served over TLS")]
    Certificate(#[from] crate::tls::CertificateError),
    /// This build cannot do it.
    #[cfg(not(feature = "tls-rustls"))]
    #[error("--metrics-certificate: this build has no TLS to serve with (it was made without `tls-rustls`)")]
    NotBuilt,
}

#[derive(Clone)]
struct Shared {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    /// Who may read metrics; `None`: everybody.
    guard: Option<Arc<Guard>>,
}

/// Serves health and metrics where the settings say so, until told to stop.
///
/// # Errors
/// When an address cannot be listened on, or the certificate cannot be served.
pub async fn serve(
    settings: &Settings,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
    calls: &Arc<Calls>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Result<(), ServeError> {
    let guard = settings.metrics_tls.as_ref().map(|_| Arc::new(Guard::new(Arc::clone(calls), METRICS)));
    let shared = Shared { health: Arc::clone(health), metrics: Arc::clone(metrics), guard };
    let probes = || Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz));
    let counts = || Router::new().route(METRICS, get(scrape));
    let routers = match (settings.health_address, settings.metrics_address) {
        (Some(one), Some(other)) if one == other && settings.metrics_tls.is_some() => {
            return Err(ServeError::SameAddress);
        }
        (Some(one), Some(other)) if one == other => vec![(one, probes().merge(counts()))],
        (one, other) => {
            let one = one.map(|address| (address, probes()));
            one.into_iter().chain(other.map(|address| (address, counts()))).collect()
        }
    };
    for (address, router) in routers {
        let listen = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let local = listener.local_addr().map_err(listen)?;
        tracing::info!(address = %local, "listening");
        let (router, stop) = (router.with_state(shared.clone()), stop.clone());
        match &settings.metrics_tls {
            Some(files) if settings.metrics_address == Some(address) => {
                #[cfg(feature = "tls-rustls")]
                {
                    let profile = &settings.metrics_tls_profile;
                    let listener = crate::tls::TlsListener::new(listener, files, profile).await?;
                    tasks.spawn(run(listener, router, stop));
                }
                #[cfg(not(feature = "tls-rustls"))]
                return Err((files, ServeError::NotBuilt).1);
            }
            _ => drop(tasks.spawn(run(listener, router, stop))),
        }
    }
    Ok(())
}

/// Serves health alone, for a process without metrics, until told to stop.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve_probes(
    address: SocketAddr,
    health: &Arc<Health>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Result<(), ListenError> {
    let listen = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    tracing::info!(address = %listener.local_addr().map_err(listen)?, "listening");
    let stuck = |State(health): State<Arc<Health>>| async move { answer(health.stuck()) };
    let not_ready = |State(health): State<Arc<Health>>| async move { answer(health.not_ready()) };
    let router = Router::new().route("/healthz", get(stuck)).route("/readyz", get(not_ready));
    tasks.spawn(run(listener, router.with_state(Arc::clone(health)), stop.clone()));
    Ok(())
}

/// Serves until told to stop.
async fn run<L>(listener: L, router: Router, stop: CancellationToken)
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let served = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await;
    if let Err(error) = served {
        tracing::error!(%error, "the server for health and metrics ended");
    }
}

fn answer(trouble: Option<String>) -> (StatusCode, String) {
    match trouble {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn healthz(State(shared): State<Shared>) -> impl IntoResponse {
    answer(shared.health.stuck())
}

async fn readyz(State(shared): State<Shared>) -> impl IntoResponse {
    answer(shared.health.not_ready())
}

async fn scrape(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if let Some(guard) = &shared.guard {
        match guard.judge(&headers).await {
            Ok(Verdict::Allowed) => {}
            Ok(Verdict::Unknown) => {
                let why =
                    "show the token of an account that the API server knows: Authorization: Bearer TOKEN\n";
                return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why)
                    .into_response();
            }
            Ok(Verdict::Forbidden) => {
                let why = "the owner of this token may not get the path /metrics: bind a ClusterRole to it that says so\n";
                return (StatusCode::FORBIDDEN, why).into_response();
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), "a client of the metrics cannot be authenticated");
                let why = "the API server did not identify the owner of this token\n";
                return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
            }
        }
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.metrics.render()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_when_everything_was_listed_and_alive_while_the_loop_turns() {
        let health = Health::new(Duration::from_secs(60));
        assert_eq!(health.not_ready().as_deref(), Some("nothing has been listed yet"));
        health.incomplete(Vec::new());
        assert_eq!((health.not_ready(), health.stuck()), (None, None));
        // With a limit of nothing, any moment is too long.
        let stuck = Health::new(Duration::ZERO);
        stuck.incomplete(Vec::new());
        assert!(stuck.stuck().is_some_and(|why| why.contains("has not turned")));
        assert_eq!(stuck.not_ready(), stuck.stuck());
    }
}
