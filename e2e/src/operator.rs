//! The operator, run in this process, with its service account and exactly the permissions of the chart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use controller::Settings;
use jiff::SignedDuration;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::frost::{Frost, WORKERS};
use crate::log::{self, Log};
use crate::objects::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};
use crate::wait;
use crate::wire::Wire;

/// How many times faster than real the simulated world is: its minutes are
/// seconds, and the operator's times of the protocol are as much shorter,
/// where they wait for that world and not for the API server.
pub const SPEED: f64 = 60.0;

/// The settings of an operator for a world that is [`SPEED`] times faster.
#[must_use]
pub fn settings(identity: &str) -> Settings {
    let millis = SignedDuration::from_millis;
    let mut settings = Settings::new(identity, OPERATOR_NAMESPACE);
    settings.batch_delay = Duration::from_millis(50);
    settings.lease.duration = Duration::from_secs(4);
    settings.lease.renew_deadline = Duration::from_secs(3);
    settings.lease.retry = Duration::from_millis(500);
    settings.longest_watch_retry = Duration::from_secs(1);
    settings.longest_retry = Duration::from_secs(5);
    settings.settle_after_restore = Duration::from_secs(3);
    let rollout = &mut settings.rollout;
    // A minute until the map is mounted is a second.
    rollout.map_settle = millis(2_000);
    // The scheduler is real; it notices within milliseconds.
    rollout.cordon_settle = millis(300);
    rollout.quiesce_limit = millis(20_000);
    rollout.drain_limit = millis(60_000);
    rollout.pickup_limit = millis(4_000);
    // MIG manager gives up waiting after five minutes.
    rollout.wedged_after = millis(8_000);
    rollout.change_limit = millis(40_000);
    rollout.verify_limit = millis(12_000);
    rollout.stable_for = millis(400);
    rollout.interruption_limit = millis(240_000);
    rollout.retreat_backoff = millis(2_000);
    rollout.roll_back_backoff = millis(600_000);
    rollout.agent_gone_after = millis(5_000);
    rollout.poll = millis(300);
    settings.observe.blocked_after = millis(3_000);
    settings.quota_hold = millis(3_000);
    settings
}

/// The settings of an operator for real nodes, where a minute is a minute: as
/// it is shipped, but for the lease, for what it waits after a failure, and for
/// kubelets that look at their pods' maps every ten seconds instead of every
/// minute, as those of the kind cluster do.
#[must_use]
pub fn unhurried(identity: &str, gpu_operator_namespace: &str) -> Settings {
    let hurried = settings(identity);
    let mut settings = Settings::new(identity, OPERATOR_NAMESPACE);
    settings.lease = hurried.lease;
    settings.longest_retry = hurried.longest_retry;
    settings.longest_watch_retry = hurried.longest_watch_retry;
    settings.gpu_operator_namespace = gpu_operator_namespace.to_owned();
    settings.rollout.map_settle = SignedDuration::from_secs(25);
    settings.rollout.stable_for = SignedDuration::from_secs(5);
    settings
}

/// An operator that runs, in a thread and a runtime of its own: as a process
/// has them, so that it can be killed as one.
pub struct Operator {
    thread: JoinHandle<anyhow::Result<()>>,
    shutdown: CancellationToken,
    killed: CancellationToken,
    metrics: SocketAddr,
    identity: String,
    log: Log,
    wire: Wire,
    frost: Frost,
}

/// How to reach the API server as the operator's service account.
///
/// # Errors
/// When it gets no token.
pub async fn account(administrator: &Kubeconfig) -> anyhow::Result<kube::Config> {
    account_of(administrator, OPERATOR_ACCOUNT).await
}

/// How to reach the API server as a service account of the operator's
/// namespace.
///
/// # Errors
/// When it gets no token.
pub async fn account_of(administrator: &Kubeconfig, account: &str) -> anyhow::Result<kube::Config> {
    let kubeconfig = kubeconfig_of(administrator, account).await?;
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// A kubeconfig with nothing but the token of a service account of the
/// operator's namespace, as a pod has it.
///
/// # Errors
/// When it gets no token.
pub async fn kubeconfig_of(administrator: &Kubeconfig, account: &str) -> anyhow::Result<Kubeconfig> {
    let admin = crate::control_plane::client_of(administrator).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, OPERATOR_NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .with_context(|| format!("the service account {account} gets no token"))?;
    let token = answer.status.map(|status| status.token).context("the answer has no token")?;
    let mut kubeconfig = administrator.clone();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(serde_json::from_value(serde_json::json!({"token": token}))?);
    }
    Ok(kubeconfig)
}

impl Operator {
    /// Starts one.
    ///
    /// # Errors
    /// When no port or no thread is to be had.
    pub fn start(config: kube::Config, settings: Settings) -> anyhow::Result<Self> {
        Self::start_through(Wire::default(), config, settings)
    }

    /// Starts one whose calls go through this wire.
    ///
    /// # Errors
    /// When no port or no thread is to be had.
    pub fn start_through(wire: Wire, config: kube::Config, mut settings: Settings) -> anyhow::Result<Self> {
        let metrics = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        settings.metrics_address = Some(metrics);
        // Probes show no token.
        settings.health_address = match settings.metrics_tls {
            None => Some(metrics),
            Some(_) => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?),
        };
        let identity = settings.identity.clone();
        let (shutdown, killed) = (CancellationToken::new(), CancellationToken::new());
        let (stop, kill) = (shutdown.clone(), killed.clone());
        let log = Log::default();
        let (carried, frost) = (wire.clone(), Frost::default());
        let cold = frost.clone();
        let noted = log.dispatch();
        let on_each = noted.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .on_thread_start(move || log::note_on_this_thread(&on_each))
            .on_thread_stop(log::no_longer_on_this_thread)
            .build()?;
        frost.reaches(runtime.handle());
        let thread = std::thread::Builder::new().name(identity.clone()).spawn(move || {
            let _noted = tracing::dispatcher::set_default(&noted);
            let ended = runtime.block_on(async {
                let client = controller::client::client(config)?;
                let client = carried.through(client);
                tokio::select! {
                    ended = cold.over(controller::run(client, settings, stop)) => anyhow::Ok(ended?),
                    () = kill.cancelled() => Ok(()),
                }
            });
            runtime.shutdown_background();
            ended
        })?;
        Ok(Self { thread, shutdown, killed, metrics, identity, log, wire, frost })
    }

    /// What it logs.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// The wire between it and the API server.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Stops it where it is, as a process that is sent SIGSTOP or a machine that
    /// is suspended: nothing of it runs, and its time passes.
    pub fn freezes(&self) {
        self.frost.freeze();
    }

    /// Lets it go on.
    pub fn thaws(&self) {
        self.frost.thaw();
    }

    /// Its name in the lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Tells it to stop, and waits until it has.
    ///
    /// # Errors
    /// When it did not end well.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        wait::asking("the operator has stopped, as it was told to", wait::PATIENCE, async || {
            Ok(if self.thread.is_finished() { Ok(()) } else { Err("it runs".to_owned()) })
        })
        .await?;
        self.thread.join().map_err(|_| anyhow!("the operator panicked"))?.context("the operator ended badly")
    }

    /// Ends it where it is, as a killed process ends: nothing is finished, and
    /// the lease is not given back.
    pub fn kill(self) {
        self.frost.thaw();
        self.killed.cancel();
        // Its end is an error, and that is what was wanted.
        let _ = self.thread.join();
    }

    /// Fails when it has ended by itself.
    ///
    /// # Errors
    /// Then.
    pub fn is_well(&self) -> anyhow::Result<()> {
        if self.thread.is_finished() && !self.shutdown.is_cancelled() {
            bail!("the operator {} ended by itself", self.identity);
        }
        Ok(())
    }

    /// Where it serves what it counts.
    #[must_use]
    pub const fn metrics_address(&self) -> SocketAddr {
        self.metrics
    }

    /// What it counts, as a scrape gets it.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        get(self.metrics, "/metrics").await
    }

    /// Waits until `/readyz` and the metric beside it say that something can be
    /// done (`None`), or that it cannot, with these words.
    ///
    /// # Errors
    /// When time is up.
    pub async fn is_ready(&self, but: Option<&str>) -> anyhow::Result<()> {
        let value = if but.is_none() { " 1" } else { " 0" };
        let counted = |line: &str| line.starts_with("slicewright_ready") && line.ends_with(value);
        wait::asking("the operator says whether anything can be done", wait::PATIENCE, async || {
            self.is_well()?;
            let said = ask(self.metrics, "/readyz").await?;
            let metrics = self.metrics().await?;
            let right = match but {
                None => said.starts_with("HTTP/1.1 200"),
                Some(words) => said.starts_with("HTTP/1.1 503") && said.contains(words),
            };
            Ok(if right && metrics.lines().any(counted) { Ok(()) } else { Err(said) })
        })
        .await
    }

    /// How many rounds it has run.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn rounds(&self) -> anyhow::Result<u64> {
        let text = self.metrics().await?;
        let counts = text.lines().filter(|line| line.starts_with("slicewright_reconcile_total"));
        let count = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        Ok(counts.filter_map(count).sum::<f64>() as u64)
    }

    /// Waits until it has run so many rounds in all.
    ///
    /// # Errors
    /// When time is up.
    pub async fn has_run_rounds(&self, many: u64) -> anyhow::Result<()> {
        wait::asking("the operator has run a round", wait::PATIENCE, async || {
            self.is_well()?;
            Ok(match self.rounds().await {
                Ok(rounds) if rounds >= many => Ok(()),
                Ok(rounds) => Err(format!("it has run {rounds}")),
                Err(error) => Err(format!("{error:#}")),
            })
        })
        .await
    }
}

/// One plain HTTP request; the whole answer.
async fn ask(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The same, of which the body is the answer.
async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let answer = ask(address, path).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{path}: {}", head.lines().next().unwrap_or_default());
    }
    Ok(body.to_owned())
}
