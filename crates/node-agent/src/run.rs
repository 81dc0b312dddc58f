//! The loop: look, ask the core for the next step, do it, wait until there is a reason to look again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent::{
    Account, Act, BootId, Device, Gate, Known, Observation, PodUid, Remembered, ReportNumber, SliceName,
    Step, WaitsFor, Wish, Writes,
};
use api::GpuNode;
use api::gpu_node::ObservedGpu;
use api::node_agent::{AgentMode, Card, Identity};
use controller::calls::Calls;
use controller::class::chain;
use controller::clock;
use controller::health::{Health, ListenError, serve_probes};
use futures::stream::{BoxStream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use nvml::port;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::alone::{Alone, LockError};
use crate::hardware::Cards;
use crate::kubelet::changed::{Changes, WatchError};
use crate::look::{NodeReading, Turns};
use crate::object::{Object, WriteError};
use crate::settings::Settings;

/// How soon the agent tries again what failed, and at least how long it leaves kubelet's list alone.
const SOON: Duration = Duration::from_secs(1);
/// The longest pause before the API server is asked again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often kubelet is asked what it offers, while a change waits for it to offer nothing, or everything again: people
/// wait behind a closed gate. Kubelet takes a hundred such questions a second.
const GATE: Duration = Duration::from_millis(100);
/// So many looks in a row, each a second after the one before, find that a change still waits for the same kind of thing.
/// Then they become rarer: a driver may hang, and an operator be away, for days.
const LOOKS_SOON: u32 = 10;
/// Of a burst of changes of the checkpoint, the agent does not wait for the end longer than this many times `settle`.
const LONGEST_BURST: u32 = 5;

/// Why an agent ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Health cannot be served.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The checkpoint is nowhere.
    #[error("--checkpoint cannot be watched")]
    Checkpoint(#[from] WatchError),
}

/// Runs the agent until it is told to stop.
///
/// # Errors
/// It cannot start.
pub async fn run(client: Client, settings: Settings, stop: CancellationToken) -> Result<(), Error> {
    let health = Arc::new(Health::new(settings.stuck_after));
    let mut tasks = JoinSet::new();
    if let Some(address) = settings.health_address {
        serve_probes(address, &health, &stop, &mut tasks).await?;
    }
    let mut agent = Agent::new(client, settings, health)?;
    tracing::info!(node = agent.settings.node, mode = ?agent.settings.mode, "the agent starts");
    tokio::select! {
        () = agent.turn_for_ever() => {}
        () = stop.cancelled() => {}
    }
    drop(agent);
    tasks.join_all().await;
    Ok(())
}

struct Agent {
    settings: Settings,
    object: Object,
    objects: BoxStream<'static, Result<Event<GpuNode>, watcher::Error>>,
    /// Whether the list with which the watch began has the object.
    listed: bool,
    alone: Alone,
    changes: Changes,
    turns: Turns,
    cards: Cards,
    /// What the device plugin offers under a name that is none of NVIDIA's, as of
    /// when kubelet last offered anything.
    renamed: Option<String>,
    /// What kubelet offered at the last look; `None` where it gave no answer.
    offered: Option<BTreeSet<Device>>,
    remembered: Remembered,
    health: Arc<Health>,
    /// What was logged as not to be seen, so that it is logged once.
    said: Vec<String>,
    /// Writes that failed in a row.
    failures: u32,
    /// Writes in a row that met one of the operator's.
    outdated: u32,
    /// Looks in a row after which a change still waited.
    waited: u32,
}

/// What makes the agent look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Nothing: it goes on at once.
    Now,
    /// Whatever comes first: kubelet's checkpoint or the `GpuNode` changes, or so much time passes.
    Something(Duration),
    /// The same, or kubelet offers something else than at the last look.
    Gate,
}

impl Agent {
    /// One that knows nothing yet.
    fn new(client: Client, settings: Settings, health: Arc<Health>) -> Result<Self, WatchError> {
        let only = format!("metadata.name={}", settings.node);
        let objects = watch(Api::<GpuNode>::all(client.clone()), watcher::Config::default().fields(&only));
        Ok(Self {
            object: Object::new(Calls::new(client, settings.call_timeout), &settings.node),
            objects: objects.default_backoff().boxed(),
            listed: false,
            alone: Alone::beside(&settings.eyes.checkpoint),
            changes: Changes::watch(&settings.eyes.checkpoint)?,
            turns: Turns::default(),
            cards: Cards::default(),
            renamed: None,
            offered: None,
            remembered: Remembered::default(),
            health,
            said: Vec::new(),
            failures: 0,
            outdated: 0,
            waited: 0,
            settings,
        })
    }

    async fn turn_for_ever(&mut self) {
        loop {
            let until = self.turn().await;
            self.health.turn();
            self.wait(until).await;
        }
    }

    /// One look and one step.
    async fn turn(&mut self) -> Until {
        match self.alone.ensure() {
            Ok(()) => {}
            Err(error @ LockError::Taken { .. }) => {
                self.say(vec![error.to_string()]);
                self.health.incomplete(vec![error.to_string()]);
                return Until::Something(SOON);
            }
            // Kubelet is not installed yet: then nobody can have anything. It is tried again in the next turn.
            Err(error @ LockError::Refused { .. }) => tracing::debug!(error = chain(&error), "no lock"),
        }
        if let Err(error) = self.changes.ensure() {
            tracing::debug!(error = chain(&error), "changes of the checkpoint are not told");
        }
        if let Err(error) = self.object.settle().await {
            let text = chain(&error);
            tracing::warn!(error = text, "the GpuNode cannot be read");
            self.health.incomplete(vec![text]);
            return Until::Something(SOON);
        }
        if self.object.latest().is_none() {
            let why = "there is no GpuNode for this node yet: the operator makes it";
            self.health.incomplete(vec![why.to_owned()]);
            return Until::Something(self.settings.every);
        }
        if let Some(who) = self.object.driver_in_use_by() {
            // Not ready: what was told last may have become wrong, and nobody believes it until the next look.
            let why = format!("the driver stays closed as long as somebody else works on the node: {who}");
            tracing::debug!(why);
            self.health.incomplete(vec![why]);
            return Until::Something(self.settings.every);
        }
        self.remember_cards();
        let Settings { eyes, .. } = &self.settings;
        let seen = eyes.look(&mut self.turns, &mut self.cards, &mut self.renamed).await;
        self.say(seen.blind.words());
        self.offered.clone_from(&seen.offered);
        if self.cards.is_empty() && seen.blind.driver.is_some() {
            // An account of no GPU would say that there is none.
            self.health.incomplete(seen.blind.words());
            return Until::Something(self.settings.every.min(LONGEST_PAUSE));
        }
        let Some(observation) = self.observation(&seen) else { return Until::Something(self.settings.every) };
        let changes = observation.wish.is_some();
        match self.step(observation, seen.driver).await {
            // The next step of a change needs another look. Without one, kubelet's list is left alone.
            Until::Now if !changes => Until::Something(self.settings.every),
            until => until,
        }
    }

    /// GPUs that an agent of this boot knew are known, though they may not answer any more.
    fn remember_cards(&mut self) {
        for (uuid, card) in self.cards_told() {
            self.cards.entry(uuid).or_insert(card);
        }
    }

    /// The GPUs of what was told last, if that was in this boot.
    fn cards_told(&self) -> Cards {
        let observed = self.object.latest().and_then(|node| node.status.as_ref()?.observed.as_ref());
        let observed = observed.filter(|observed| observed.boot_id.as_ref() == Some(&self.settings.boot.0));
        let card = |gpu: &ObservedGpu| {
            let (uuid, index) = (gpu.uuid.clone()?, u8::try_from(gpu.index).ok()?);
            let card = Card { index, model: gpu.model.clone(), unhealthy: gpu.unhealthy.clone() };
            Some((agent::GpuUuid(uuid), card))
        };
        observed.into_iter().flat_map(|observed| &observed.gpus).filter_map(card).collect()
    }

    fn observation(&self, seen: &NodeReading) -> Option<Observation> {
        let node = self.object.latest()?;
        let account = account(node);
        let wish = node.spec.change.as_ref().and_then(|change| match api::node_agent::wish(change) {
            Ok(wish) => Some(wish),
            Err(error) => {
                tracing::warn!(%error, "spec.change cannot be read, and nothing is changed");
                None
            }
        });
        // What was claimed is ended, and the gate told of, in whichever mode: nobody else does it.
        let has_begun = |wish: &Wish| account.as_ref().is_some_and(|told| told.stage(&wish.id).is_some());
        let wish = wish.filter(|wish| match self.settings.mode {
            AgentMode::Change => true,
            AgentMode::Report => has_begun(wish),
        });
        Some(Observation {
            me: self.settings.pod.clone(),
            boot: self.settings.boot.clone(),
            version: self.object.version()?,
            wish,
            account,
            look: seen.look.clone(),
        })
    }

    async fn step(&mut self, observation: Observation, driver: Option<String>) -> Until {
        // After a change somebody waits for kubelet to offer what there is now.
        let changes = observation.wish.is_some();
        let opens = changes && observation.look.gate.is != Gate::Open;
        let step = agent::next(&observation, &self.remembered);
        tracing::debug!(?step, "the next step");
        self.waited = if matches!(step, Step::Wait(_)) { self.waited.saturating_add(1) } else { 0 };
        match step {
            Step::Look => Until::Now,
            Step::Rest => {
                self.well();
                if opens { Until::Gate } else { Until::Something(self.settings.every) }
            }
            Step::Wait(what) => {
                tracing::debug!(%what, "the change waits");
                self.well();
                match what {
                    WaitsFor::Gate => Until::Gate,
                    WaitsFor::Permit { .. } | WaitsFor::Free { .. } | WaitsFor::Driver { .. } => {
                        Until::Something(pause(self.waited))
                    }
                }
            }
            Step::Write { what, account, if_version } => {
                tracing::info!(report = account.report.0, ?what, "writing the GpuNode");
                self.write(*account, what, &if_version, driver, changes).await
            }
            Step::Drive { act, slice } => self.drive(act, slice).await,
        }
    }

    async fn write(
        &mut self,
        account: Account,
        what: Writes,
        if_version: &agent::ObjectVersion,
        driver: Option<String>,
        changes: bool,
    ) -> Until {
        let now = clock::now();
        let identity =
            Identity { version: env!("CARGO_PKG_VERSION").to_owned(), driver, mode: self.settings.mode };
        let cards = match what {
            // What was told stays as it was told, of a GPU that is there no more as well.
            Writes::Claim | Writes::Restoring => self.cards_told(),
            Writes::Report | Writes::Outcome => self.cards.clone(),
        };
        let observed = match api::node_agent::observed(&account, &cards, now) {
            Ok(observed) => observed,
            Err(error) => {
                tracing::error!(%error, "what is seen does not fit into a GpuNode");
                self.health.incomplete(vec![error.to_string()]);
                return Until::Something(self.settings.every);
            }
        };
        let status = api::node_agent::agent_status(&account, &identity, now);
        match self.object.write(&observed, &status, if_version).await {
            Ok(()) => {
                self.remembered.wrote(&account);
                self.well();
                self.outdated = 0;
                Until::Now
            }
            Err(WriteError::Outdated) => {
                self.outdated = self.outdated.saturating_add(1);
                after_outdated(self.outdated, changes)
            }
            Err(error @ WriteError::Call(_)) => {
                let text = chain(&error);
                tracing::warn!(error = text, "the GpuNode is not written");
                self.health.incomplete(vec![text]);
                self.failures = self.failures.saturating_add(1);
                let pause = SOON.saturating_mul(1 << self.failures.min(5));
                Until::Something(pause.min(LONGEST_PAUSE))
            }
        }
    }

    /// Asks the driver for a change. The answer counts only for how often to try: what is there is seen afterwards.
    async fn drive(&mut self, act: Act, slice: SliceName) -> Until {
        tracing::info!(?act, %slice, "asking the driver");
        let gpu = port::GpuUuid(slice.gpu.0.clone());
        let place = port::Place::new(&slice.place.profile.to_string(), slice.place.start);
        let asked = self.settings.eyes.driver.with(move |gpus| match act {
            Act::Destroy => gpus.destroy(&gpu, &place).map(drop),
            Act::Create => gpus.create(&gpu, &place).map(drop),
        });
        let said = match asked.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(error) => Some(chain(&error)),
        };
        let turn = self.turns.tick();
        match said {
            None => {
                self.remembered.did(act, &slice, turn);
                Until::Now
            }
            Some(said) => {
                tracing::warn!(?act, %slice, error = said, "the driver does not do it");
                self.remembered.failed(act, &slice, &said, turn);
                Until::Something(SOON)
            }
        }
    }

    /// What the agent saw is in the `GpuNode`.
    fn well(&mut self) {
        self.failures = 0;
        self.health.incomplete(Vec::new());
    }

    /// Logs what cannot be seen, when that changes.
    fn say(&mut self, words: Vec<String>) {
        if words == self.said {
            return;
        }
        for new in words.iter().filter(|word| !self.said.contains(word)) {
            tracing::warn!(error = new, "something cannot be seen");
        }
        if words.is_empty() {
            tracing::info!("everything can be seen again");
        }
        self.said = words;
    }

    async fn wait(&mut self, until: Until) {
        let (longest, at_gate) = match until {
            Until::Now => return,
            Until::Something(longest) => (longest, false),
            Until::Gate => (self.settings.every, true),
        };
        let begun = Instant::now();
        let latest = begun + longest;
        let (mut end, mut first_change) = (latest, None);
        let mut ask = tokio::time::interval_at(begun + GATE, GATE);
        ask.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return,
                () = self.changes.next() => {
                    let now = Instant::now();
                    let first = *first_change.get_or_insert(now);
                    let settle = self.settings.settle;
                    end = (now + settle).min(first + settle * LONGEST_BURST).min(latest);
                    if self.changes.ensure().is_err() {
                        tracing::debug!("the folder of the checkpoint is gone");
                    }
                }
                event = self.objects.next() => {
                    // Whoever waits for a change waits behind a closed gate, where kubelet allocates nothing. Any other
                    // news can wait until the checkpoint has rested: then the agent looks in any case.
                    if self.heard(event) && (first_change.is_none() || self.object.has_change()) {
                        return;
                    }
                }
                _ = ask.tick(), if at_gate => {
                    // Compared with what the step was decided by: what changed since, while the driver was asked, is news.
                    if self.settings.eyes.offered().await != self.offered {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the agent has to look for what the watch says.
    fn heard(&mut self, event: Option<Result<Event<GpuNode>, watcher::Error>>) -> bool {
        match event {
            Some(Ok(Event::Apply(node))) => self.object.offer(node),
            Some(Ok(Event::InitApply(node))) => {
                self.listed = true;
                self.object.offer_listed(node)
            }
            Some(Ok(Event::Init)) => {
                self.listed = false;
                false
            }
            // It may have been deleted while nobody watched.
            Some(Ok(Event::InitDone)) if self.listed => false,
            Some(Ok(Event::InitDone | Event::Delete(_))) => {
                self.object.gone();
                true
            }
            Some(Err(error)) => {
                tracing::warn!(error = chain(&error), "the watch of the GpuNode failed: it begins again");
                false
            }
            // A watcher never ends.
            None => true,
        }
    }
}

/// When to try again after so many writes in a row that met another writer's. The object was read anew after each.
/// While single slices are changed, pods wait behind a closed gate and the operator writes about as often as the agent:
/// the first try follows at once. Otherwise kubelet's list is left alone for a while, since nobody waits for a report.
const fn after_outdated(in_a_row: u32, changes: bool) -> Until {
    if changes && in_a_row == 1 { Until::Now } else { Until::Something(SOON) }
}

/// How soon to look again at what a change has been found to wait for so many times in a row. Kubelet's list is a part of
/// each look, and what can be told is told meanwhile: by the `GpuNode`, and by kubelet's checkpoint.
fn pause(in_a_row: u32) -> Duration {
    let doublings = in_a_row.saturating_sub(LOOKS_SOON).min(5);
    SOON.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
}

/// What was told last. Of what no agent can have written, the number counts, since numbers never go back, and how far a
/// change is, if that can be read: what is claimed must not be forgotten.
fn account(node: &GpuNode) -> Option<Account> {
    let status = node.status.as_ref()?;
    match api::node_agent::account(status) {
        Ok(account) => account,
        Err(error) => {
            tracing::warn!(%error, "what the GpuNode says of an agent cannot be read: it is written anew");
            let told = status.agent.as_ref()?;
            Some(Account {
                report: ReportNumber(u64::try_from(told.report).unwrap_or_default()),
                agent: PodUid(told.pod_uid.clone()),
                boot: BootId(told.boot_id.clone()),
                gate: None,
                known: Known::default(),
                change: api::node_agent::stage_told(told),
            })
        }
    }
}

#[cfg(test)]
mod tests;
