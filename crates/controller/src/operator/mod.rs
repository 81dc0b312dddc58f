//! The loop: receives the messages of the watches, waits a moment for more, and runs one round at a time.
//! All replicas receive messages; only the one that has the lease runs rounds.
//!
//! Nothing is decided before every watch has listed its objects, nor before our own writes are seen.

mod anew;
mod batch;
mod guarded;
mod jumps;
mod look;
mod menu;
pub(crate) mod owners;
mod pointed;
mod queues;
mod refused;
mod round;
mod steps;
mod subject;
mod tell;
mod undone;
mod unmade;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use planner::names::NodeName;
use reconcile::{LocalState, MapRef};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agents_policy::Guard;
use crate::apply::Executor;
use crate::calls::Calls;
use crate::class::chain;
use crate::clock;
use crate::health::{Health, ServeError, serve};
use crate::lease::{Claim, Keeper};
use crate::metrics::Metrics;
use crate::publish::news::SentEvents;
use crate::retries::Retries;
use crate::settings::{Kueue, Settings};
use crate::store::history::Read;
use crate::store::{Change, Foreign, Source, Store};
use crate::watch::{BACKLOG, Watches};
use batch::Batch;

/// The loop turns at least this often, for `/healthz`; a turn at rest costs
/// nothing and asks nobody.
const TURN: Duration = Duration::from_secs(20);
/// How many changes are taken in at once.
const AT_ONCE: usize = 512;

/// The operator could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Health or metrics cannot be served.
    #[error("the operator cannot start")]
    Serve(#[from] ServeError),
}

/// Runs one operator until it is told to stop: it finishes the action that it
/// is at, and gives the lease back. Several may run in one process.
///
/// When the future is dropped instead, everything stops where it is, as when
/// a process is killed: the lease is not given back.
///
/// # Errors
/// When it cannot start.
pub async fn run(client: kube::Client, settings: Settings, shutdown: CancellationToken) -> Result<(), Error> {
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::new(settings.stuck_after));
    let calls = Arc::new(Calls::new(client.clone(), settings.call_timeout));
    // Dropped with this future, and everything in it is aborted then.
    let mut tasks = JoinSet::new();
    let servers = CancellationToken::new();
    serve(&settings, &health, &metrics, &calls, &servers, &mut tasks).await?;
    let (keeper, claim) = Keeper::new(
        Arc::clone(&calls),
        settings.lease.clone(),
        settings.identity.clone(),
        settings.clock.clone(),
    );
    let lease = CancellationToken::new();
    let mut keeping = JoinSet::new();
    keeping.spawn(keeper.run(lease.clone()));
    let operator = Operator::new(client, settings, calls, claim, metrics, health, &shutdown);
    operator.run(&shutdown).await;
    lease.cancel();
    keeping.join_all().await;
    servers.cancel();
    Ok(())
}

fn core(settings: &Settings) -> reconcile::Settings {
    reconcile::Settings {
        observe: observe::Settings {
            gpu_operator_namespace: settings.gpu_operator_namespace.clone(),
            map: MapRef {
                namespace: settings.gpu_operator_namespace.clone(),
                name: settings.map_name.clone(),
            },
            ..settings.observe.clone()
        },
        rollout: settings.rollout,
        administrators_map: settings.administrators_map.clone(),
        points_device_plugin: settings.patch_device_plugin,
        answers_checks: settings.kueue == Kueue::AdmissionCheck,
        quota_hold: settings.quota_hold,
        menu: settings.hardware_profiles.is_planned().then(|| settings.menu.clone()),
    }
}

struct Operator {
    settings: Arc<Settings>,
    core: Arc<reconcile::Settings>,
    calls: Arc<Calls>,
    claim: Claim,
    executor: Executor,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    store: Store,
    watches: Watches,
    changes: mpsc::Receiver<(Source, Change)>,
    /// What is known of nodes beside the objects.
    local: BTreeMap<NodeName, LocalState>,
    /// What the planner keeps of the rounds before.
    session: Box<reconcile::Session>,
    retries: Retries,
    /// Who stands behind the controllers of pods.
    owners: owners::Owners,
    /// Why sets of workbenches make no pods.
    unmade: unmade::Unmade,
    /// Whether each agent is kept to its own node.
    guard: Guard,
    /// What people were told already.
    told: SentEvents,
    /// Events that were not sent.
    unsent: tell::Unsent,
    /// Writes that the API server refuses until a human allows them.
    refused: refused::Refused,
    /// The versions of foreign kinds that we write and that are served, once
    /// they are known.
    versions: BTreeMap<Foreign, String>,
    /// What somebody else changes each time that we have written it.
    undone: undone::Undone,
    /// When we last pointed the device plugin to our map.
    pointed: pointed::Pointed,
    /// The same of MIG manager and our map of layouts.
    layouts_pointed: pointed::Pointed,
    /// Nodes that are not as we see them.
    outdated: BTreeSet<NodeName>,
    /// What has changed that no round has looked at.
    batch: Batch,
    /// When to look even if nothing changes.
    wake: Option<Timestamp>,
    /// How long nothing is done to nodes, since the API's data went back.
    settling: anew::Settling,
    /// Whether the clock was set.
    jumps: jumps::Jumps,
    /// Whether we wrote at the last turn.
    led: bool,
    /// Whether our admission checks may still say that somebody answers them,
    /// although we do not.
    withdraws: bool,
    /// What was last said to be incomplete.
    said: String,
    /// Which keys of the device plugin's map were last said to be lost.
    said_lost: Option<String>,
}

impl Operator {
    /// One that knows nothing yet and has not led.
    fn new(
        client: kube::Client,
        settings: Settings,
        calls: Arc<Calls>,
        claim: Claim,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
        stop: &CancellationToken,
    ) -> Self {
        let (sender, changes) = mpsc::channel(BACKLOG);
        let watches = Watches::new(client, &settings, sender);
        let executor = Executor {
            calls: Arc::clone(&calls),
            claim: claim.clone(),
            clock: settings.clock.clone(),
            metrics: Arc::clone(&metrics),
            stop: stop.clone(),
            went_back: CancellationToken::new(),
        };
        Self {
            core: Arc::new(core(&settings)),
            retries: Retries::new(settings.longest_retry),
            batch: Batch::new(settings.batch_delay),
            undone: undone::Undone::new(settings.longest_retry),
            pointed: pointed::Pointed::default(),
            layouts_pointed: pointed::Pointed::default(),
            settings: Arc::new(settings),
            calls,
            claim,
            executor,
            metrics,
            health,
            store: Store::sparing(),
            watches,
            changes,
            local: BTreeMap::new(),
            session: Box::default(),
            owners: owners::Owners::default(),
            unmade: unmade::Unmade::default(),
            guard: Guard::default(),
            told: SentEvents::default(),
            unsent: tell::Unsent::default(),
            refused: refused::Refused::default(),
            versions: BTreeMap::new(),
            outdated: BTreeSet::new(),
            wake: None,
            settling: anew::Settling::Over,
            jumps: jumps::Jumps::default(),
            led: false,
            withdraws: false,
            said: String::new(),
            said_lost: None,
        }
    }

    async fn run(mut self, stop: &CancellationToken) {
        self.watches.announce(&mut self.store);
        self.watches.adjust(&mut self.store);
        let mut batch = Vec::with_capacity(AT_ONCE);
        while !stop.is_cancelled() {
            self.begin_anew_if_due();
            let pause = self.pause();
            let Self { claim, changes, .. } = &mut self;
            tokio::select! {
                () = stop.cancelled() => break,
                n = changes.recv_many(&mut batch, AT_ONCE) => if n == 0 { break },
                () = claim.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
            self.take(&mut batch);
            self.health.turn();
            self.notice_jumps();
            self.lead();
            let is_due = self.is_due();
            if self.is_ready().await && is_due && self.claim.holds() {
                Box::pin(self.round()).await;
            }
            self.count_waiting();
        }
        self.metrics.leads(false);
    }

    /// Something changed that a round should look at.
    fn touch(&mut self) {
        self.batch.touch(clock::instant());
    }

    fn take(&mut self, batch: &mut Vec<(Source, Change)>) {
        for (source, change) in batch.drain(..) {
            if let Change::Trouble(text) = &change {
                self.metrics.watch_failed(&source.to_string());
                tracing::warn!(watch = %source, error = text, "a watch broke; it will be retried");
            }
            if self.store.take(&source, change) {
                self.batch.add(clock::instant());
            }
        }
        self.notice();
        // Who does not lead has no rounds to wait for.
        if !self.led {
            self.batch.forget_count();
        }
        self.metrics.backlog(self.batch.waiting());
        self.count_waiting();
        self.watches.adjust(&mut self.store);
    }

    /// Counts what waits for a round, and what fails and is tried again. Who
    /// does not lead waits for nothing.
    fn count_waiting(&self) {
        if self.led {
            let (now, instant) = (self.settings.clock.now(), clock::instant());
            let at = |since: Instant| {
                let ago =
                    SignedDuration::try_from(instant.saturating_duration_since(since)).unwrap_or_default();
                now.checked_sub(ago).unwrap_or(now)
            };
            let (retrying, failing) = self.retries.failing();
            self.metrics.waiting(self.batch.since().map(at), retrying, failing.map(at));
        }
    }

    /// Notices that the lease was won or lost.
    fn lead(&mut self) {
        let leads = self.claim.holds();
        if leads != self.led {
            self.led = leads;
            self.withdraws = leads && self.settings.kueue != Kueue::AdmissionCheck;
            self.metrics.leads(leads);
            // Who does not lead plans nothing, and needs no memory for it.
            *self.session = reconcile::Session::default();
            // Whoever had the lease meanwhile dated what is remembered by its own clock.
            self.local.values_mut().for_each(|local| local.put_forward = SignedDuration::ZERO);
            // What another replica wrote is not what we remember having said.
            self.touch();
        }
    }

    /// How long nothing is due.
    fn pause(&mut self) -> Duration {
        let now = clock::instant();
        let mut pause = TURN;
        if let Some(due) = self.batch.due() {
            pause = pause.min(due.saturating_duration_since(now));
        }
        for next in [self.retries.next(), self.undone.next()].into_iter().flatten() {
            pause = pause.min(next.saturating_duration_since(now));
        }
        if let Some(at) = self.guard.wakes_at(|| self.store.objects.agents_report()).filter(|_| self.led) {
            pause = pause.min(at.saturating_duration_since(now));
        }
        if let Some(at) = self.wake {
            let left = self.settings.clock.now().duration_until(at);
            pause = pause.min(Duration::try_from(left).unwrap_or_default());
        }
        // What is not ready is looked at again soon, without turning idly.
        if !self.store.awaited().is_empty() || !self.store.incomplete().is_empty() {
            pause = pause.max(Duration::from_millis(100)).min(Duration::from_secs(1));
        }
        if self.led { pause } else { TURN.min(self.settings.lease.retry) }
    }

    /// Whether everything is known that a round wants to know.
    async fn is_ready(&mut self) -> bool {
        self.list_waiting().await;
        let incomplete: Vec<String> = self
            .store
            .incomplete()
            .into_iter()
            .map(|(source, trouble)| match trouble {
                Some(why) => format!("{source} are not listed yet: {why}"),
                None => format!("{source} are not listed yet"),
            })
            .collect();
        let text = incomplete.join("\n");
        let ready = incomplete.is_empty();
        let lease = self.claim.trouble().map(|why| format!("nobody can write: {why}"));
        let not_ready: Vec<String> = incomplete.into_iter().chain(lease).collect();
        self.metrics.ready(not_ready.is_empty());
        self.health.incomplete(not_ready);
        if ready && !self.said.is_empty() {
            tracing::info!("every watch has listed its objects");
        }
        self.said = text;
        if !ready {
            return false;
        }
        if self.store.went_back().is_some() {
            return false;
        }
        // The others are asked for with the next turn, which follows at once.
        if !self.find_owners().await {
            return false;
        }
        Box::pin(self.find_unmade()).await;
        Box::pin(self.look_for_agents_policy()).await;
        for late in self.store.awaited().give_up(self.settings.unseen_for, clock::instant()) {
            tracing::warn!(what = %late, "a write of the operator was never observed; continuing without it");
            self.outdated.extend(self.store.node_of(&late).map(NodeName));
        }
        if self.claim.holds() {
            Box::pin(self.look_at_doubted()).await;
        }
        self.store.awaited().is_empty() && self.store.went_back().is_none()
    }

    /// Nodes that turned out to have GPUs after their pods were passed over.
    async fn list_waiting(&mut self) {
        for node in self.store.to_list() {
            let what = format!("pods of {node}");
            if !self.retries.may_try(&what, clock::instant()) {
                continue;
            }
            let highest_before = self.store.highest(&Source::Pods);
            match self.calls.pods_of(&node).await {
                Ok(pods) => {
                    self.retries.succeeded(&what);
                    let read = Read { version: pods.version, highest_before };
                    self.store.take_pods_of(&node, pods.found, read);
                    self.notice();
                    self.touch();
                }
                Err(error) => {
                    self.retries.failed(&what, error.class(), clock::instant());
                    tracing::warn!(node, error = chain(&error), "the pods of a node cannot be listed");
                }
            }
        }
    }

    /// Finds out who stands behind pods that ask for slices. What cannot be
    /// found out holds nobody up: the pod's own controller stands for itself, and the round knows that it may not be the
    /// topmost. Says whether all were asked. They are asked for when a round is due: to find out who is unknown, every
    /// pod is read.
    async fn find_owners(&mut self) -> bool {
        let what = "owners";
        if !self.batch.is_due(clock::instant()) || !self.claim.holds() {
            return true;
        }
        let mut unknown = self.owners.unknown(&self.store.objects);
        // Each answer may name the next one above.
        while !unknown.is_empty() && self.retries.may_try(what, clock::instant()) {
            let many = unknown.len();
            let asked = unknown.into_iter().take(owners::AT_A_TIME);
            let work = asked.map(|question| owners::ask(Arc::clone(&self.calls), question)).collect();
            let mut failed = None;
            for (question, found) in steps::together(self.settings.parallel_nodes, work).await {
                match found {
                    Ok(known) => self.owners.learn(question.named, known),
                    Err(error) => {
                        failed = Some(error.class());
                        tracing::warn!(
                            error = chain(&error),
                            "the owner of a controller cannot be determined"
                        );
                    }
                }
            }
            unknown = self.owners.unknown(&self.store.objects);
            // The others that were found out do not make up for one that was not.
            if let Some(class) = failed {
                self.retries.failed(what, class, clock::instant());
                break;
            }
            self.retries.succeeded(what);
            if many > owners::AT_A_TIME {
                return false;
            }
        }
        self.owners.tell(&mut self.store.objects, unknown);
        self.store.name_labels_of_placed_alone();
        true
    }

    /// Whether a round is due now, and ours to run.
    fn is_due(&mut self) -> bool {
        let now = clock::instant();
        if self.wake.is_some_and(|at| self.settings.clock.now() >= at) {
            self.wake = None;
            self.touch();
        }
        if [self.retries.next(), self.undone.next()].into_iter().flatten().any(|at| now >= at) {
            self.touch();
        }
        self.batch.is_due(now) && self.claim.holds()
    }

    /// Waits for something while changes are taken in, so that watches do not
    /// stand still meanwhile.
    async fn pump<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                done = &mut work => return done,
                n = self.changes.recv_many(&mut batch, AT_ONCE) => {
                    if n == 0 {
                        return work.await;
                    }
                    self.take(&mut batch);
                    self.health.turn();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>(future: T) -> T {
        future
    }

    #[tokio::test]
    async fn it_may_be_spawned() {
        let config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:9"));
        let client = kube::Client::try_from(config).expect("a client of nobody");
        drop(is_send(run(client, Settings::new("a", "b"), CancellationToken::new())));
    }
}
