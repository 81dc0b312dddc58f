//! Decides which replica writes: a `Lease` of `coordination.k8s.io`. [`decide`] is pure; [`Keeper`] reads
//! and writes; [`Claim`] is the interface for the rest of the operator.

mod decide;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::calls::{CallError, Calls, managers};
use crate::class::{Class, chain};
use crate::clock::{self, Clock};
use crate::settings::LeaseSettings;

pub use decide::{Decision, Seen, decide};

/// What a replica may do, and until when it may believe so.
#[derive(Clone, Debug)]
pub struct Claim {
    state: watch::Receiver<Option<Instant>>,
    trouble: watch::Receiver<Option<String>>,
    calls: Arc<Calls>,
    settings: LeaseSettings,
    identity: String,
}

/// The claim to write is gone.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It ran out, or another replica has it.
    #[error("the lease is no longer ours")]
    Gone,
    /// It cannot be checked.
    #[error("the lease cannot be checked")]
    Unchecked(#[source] CallError),
}

impl Claim {
    /// Whether this replica may write now, as far as its own clock says.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.state.borrow().is_some_and(|until| clock::instant() < until)
    }

    /// Why the lease can be neither read nor written, so that nobody can have it.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// Asks the API server whether the lease is still ours: before anything
    /// that takes something away from somebody.
    ///
    /// # Errors
    /// When it is not, or cannot be known.
    pub async fn confirm(&self) -> Result<(), Lost> {
        if !self.holds() {
            return Err(Lost::Gone);
        }
        let api: Api<Lease> = Api::namespaced(self.calls.client(), &self.settings.namespace);
        let title = format!("Lease {}/{}", self.settings.namespace, self.settings.name);
        let lease = self.calls.get(&api, &title, &self.settings.name).await.map_err(Lost::Unchecked)?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        if holder.as_deref() == Some(self.identity.as_str()) && self.holds() {
            Ok(())
        } else {
            Err(Lost::Gone)
        }
    }

    /// Waits until the claim is won or lost.
    pub async fn changed(&mut self) {
        let before = self.state.borrow_and_update().is_some();
        loop {
            if self.state.changed().await.is_err() {
                // The keeper is gone: so is the claim.
                std::future::pending::<()>().await;
            }
            if self.state.borrow_and_update().is_some() != before {
                return;
            }
        }
    }
}

/// Keeps the lease: takes it when it is free, renews it, and gives it back.
pub struct Keeper {
    calls: Arc<Calls>,
    settings: LeaseSettings,
    identity: String,
    clock: Clock,
    state: watch::Sender<Option<Instant>>,
    trouble: watch::Sender<Option<String>>,
    seen: Option<Seen>,
    last: Option<Lease>,
    /// Another one had it since we did. Should it say then that it is ours,
    /// although we did not write that, the API's data went back in time, and
    /// that other one may not know yet: it is waited for like any other.
    lost: bool,
}

impl Keeper {
    /// A keeper, and the claim that it keeps.
    #[must_use]
    pub fn new(calls: Arc<Calls>, settings: LeaseSettings, identity: String, clock: Clock) -> (Self, Claim) {
        let (state, receiver) = watch::channel(None);
        let (trouble, heard) = watch::channel(None);
        let claim = Claim {
            state: receiver,
            trouble: heard,
            calls: Arc::clone(&calls),
            settings: settings.clone(),
            identity: identity.clone(),
        };
        (
            Self { calls, settings, identity, clock, state, trouble, seen: None, last: None, lost: false },
            claim,
        )
    }

    /// Runs until told to stop, and then gives the lease back.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut said = None;
        loop {
            let pause = match self.turn().await {
                Ok(pause) => {
                    said = None;
                    self.trouble.send_replace(None);
                    pause
                }
                Err(error) => {
                    let text = chain(&error);
                    // The same trouble is said once.
                    if said.as_ref() != Some(&text) {
                        if error.class() == Class::Transient {
                            tracing::warn!(error = text, "the lease cannot be renewed");
                        } else {
                            tracing::error!(error = text, "the lease cannot be renewed");
                        }
                        said = Some(text);
                    }
                    self.last = None;
                    // One that was lost to somebody faster is there.
                    if !error.is_conflict() && !self.holds() {
                        self.trouble.send_replace(Some(chain(&error)));
                    }
                    self.settings.retry
                }
            };
            self.expire();
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.give_back().await;
    }

    fn holds(&self) -> bool {
        self.state.borrow().is_some_and(|until| clock::instant() < until)
    }

    /// The claim ends by itself when it was not renewed in time.
    fn expire(&self) {
        self.state.send_if_modified(|state| {
            let late = state.is_some_and(|until| clock::instant() >= until);
            if late {
                tracing::warn!("the lease was not renewed in time: this replica stops writing");
                *state = None;
            }
            late
        });
    }

    async fn turn(&mut self) -> Result<Duration, CallError> {
        let began = clock::instant();
        let api: Api<Lease> = Api::namespaced(self.calls.client(), &self.settings.namespace);
        let (namespace, name) = (self.settings.namespace.clone(), self.settings.name.clone());
        let title = format!("Lease {namespace}/{name}");
        // The holder knows what it wrote last; a version that moved fails the write.
        let lease = match self.last.take() {
            Some(lease) => Some(lease),
            None => self.calls.get(&api, &title, &name).await?,
        };
        let record = lease.as_ref().map(decide::record);
        let seen = Seen::update(self.seen.take(), record, began);
        let me = if self.lost { "" } else { self.identity.as_str() };
        let decision = decide(&seen, me, self.settings.duration, began);
        self.seen = Some(seen);
        let now = self.clock.now();
        let written = match decision {
            Decision::Wait(pause) => {
                self.lost = true;
                self.lose();
                return Ok(pause.min(self.settings.retry).max(Duration::from_millis(50)));
            }
            Decision::Create => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        namespace: Some(namespace),
                        name: Some(name),
                        ..ObjectMeta::default()
                    },
                    spec: Some(self.spec(None, now)),
                };
                self.calls.create(&api, &title, managers::LEASE.name, &lease).await?
            }
            Decision::Take | Decision::Renew => {
                let mut lease = lease.unwrap_or_default();
                lease.spec = Some(self.spec(lease.spec.as_ref(), now));
                self.calls.replace(&api, &title, managers::LEASE.name, &lease).await?
            }
        };
        self.seen = Some(Seen::update(self.seen.take(), Some(decide::record(&written)), began));
        self.last = Some(written);
        self.lost = false;
        let until = began + self.settings.renew_deadline;
        let first = self.state.borrow().is_none();
        self.state.send_if_modified(|state| {
            *state = Some(until);
            first
        });
        if first {
            tracing::info!(lease = title, identity = self.identity, "this replica writes from now on");
        }
        Ok(self.settings.retry)
    }

    fn spec(&self, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
        let mine = before.and_then(|b| b.holder_identity.as_deref()) == Some(self.identity.as_str());
        let transitions = before.and_then(|b| b.lease_transitions).unwrap_or(0);
        let acquired = before.and_then(|b| b.acquire_time.clone()).filter(|_| mine);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds(self.settings.duration)),
            acquire_time: Some(acquired.unwrap_or(MicroTime(now))),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(if mine || before.is_none() { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        }
    }

    fn lose(&self) {
        let held = self.state.borrow().is_some();
        if held {
            tracing::warn!("another replica has the lease: this one stops writing");
            self.state.send_replace(None);
        }
    }

    /// Says that nobody holds it, so that the next replica need not wait.
    async fn give_back(mut self) {
        let Some(mut lease) = self.last.take().filter(|_| self.state.borrow().is_some()) else { return };
        self.state.send_replace(None);
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(self.clock.now()));
        }
        let api: Api<Lease> = Api::namespaced(self.calls.client(), &self.settings.namespace);
        let title = format!("Lease {}/{}", self.settings.namespace, self.settings.name);
        match self.calls.replace(&api, &title, managers::LEASE.name, &lease).await {
            Ok(_) => tracing::info!(lease = title, "the lease is released"),
            Err(error) => tracing::warn!(error = chain(&error), "the lease could not be released"),
        }
    }
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs().max(1)).unwrap_or(i32::MAX)
}
