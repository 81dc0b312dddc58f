//! What all tasks of a simulated cluster share: its nodes, its clock, and its ClusterPolicy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1 as core;
use kube::api::DeleteParams;
use kube::{Api, Client};
use operands::{Change, PodName};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::error::Error;
use crate::fleet::{Fleet, NodeSpec};
use crate::host::Host;
use crate::kept::Kept;
use crate::policy::Policy;

/// How many writes are under way at the same time, over all nodes: an API
/// server on a small machine has no use for more.
const WRITES: usize = 32;

/// What everybody shares.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    /// How the cluster is set up; its nodes are in `hosts`.
    pub(crate) fleet: Fleet,
    pub(crate) writes: Semaphore,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) policy: Mutex<Policy>,
    pub(crate) policy_wake: Notify,
    hosts: Mutex<BTreeMap<String, Arc<Kept>>>,
    /// The UIDs of the stand-ins for DaemonSets.
    pub(crate) owners: Mutex<BTreeMap<String, String>>,
    /// Breaches on nodes that are gone.
    past: Mutex<Vec<String>>,
    changes: tokio::sync::broadcast::Sender<(String, Change)>,
    /// How often the API's data went back in time.
    anew: tokio::sync::watch::Sender<u64>,
}

impl Shared {
    /// A cluster of this fleet, which was checked. It has no nodes yet.
    pub(crate) fn new(client: Client, fleet: Fleet, stop: CancellationToken) -> Self {
        Self {
            client,
            clock: Clock::starting_now(fleet.speed),
            policy: Mutex::new(Policy::for_fleet(&fleet)),
            fleet,
            writes: Semaphore::new(WRITES),
            stop,
            tasks: TaskTracker::new(),
            policy_wake: Notify::new(),
            hosts: Mutex::default(),
            owners: Mutex::default(),
            past: Mutex::default(),
            changes: tokio::sync::broadcast::channel(4096).0,
            anew: tokio::sync::watch::channel(0).0,
        }
    }

    /// The API's data went back in time: kubelets and operands are restarted,
    /// and nothing that they saw is later than what they see now.
    pub(crate) fn api_went_back(&self) {
        for kept in self.hosts() {
            kept.with(Host::api_went_back);
        }
        self.anew.send_modify(|times| *times += 1);
    }

    /// Moves when those who watch begin anew.
    pub(crate) fn anew(&self) -> tokio::sync::watch::Receiver<u64> {
        self.anew.subscribe()
    }

    pub(crate) fn hosts(&self) -> Vec<Arc<Kept>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn host(&self, name: &str) -> Option<Arc<Kept>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn past_breaches(&self) -> Vec<String> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn listen(&self) -> tokio::sync::broadcast::Receiver<(String, Change)> {
        self.changes.subscribe()
    }

    /// Whether MIG manager generates its layouts where no map is named.
    pub(crate) fn generates(&self) -> bool {
        // The fleet was checked.
        self.fleet.versions().is_ok_and(|(manager, _)| manager.generates())
    }

    /// Passes on what happened on a node.
    pub(crate) fn tell(&self, host: &mut Host) {
        for change in host.told.drain(..) {
            tracing::debug!(node = host.node.name(), "{change}");
            if matches!(change.what, operands::What::Operand { .. }) {
                self.policy_wake.notify_one();
            }
            // Nobody has to listen.
            let _ = self.changes.send((host.node.name().to_owned(), change));
        }
    }

    /// Lets a node's time pass, does something to it, and wakes its driver.
    pub(crate) fn with<T>(&self, kept: &Kept, act: impl FnOnce(&mut Host) -> T) -> T {
        let result = kept.with(|host| {
            host.advance(self.clock.now());
            act(host)
        });
        kept.wake.notify_one();
        result
    }

    /// A node comes. Nothing drives it yet.
    pub(crate) fn add(&self, spec: NodeSpec) -> Result<Arc<Kept>, Error> {
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let map = policy.map();
        let mut fleet = self.fleet.clone();
        fleet.strategy = policy.strategy;
        let node = fleet.node(&spec, map.as_deref(), self.clock.now())?;
        let mut host = Host::new(node, spec, &self.fleet.namespace);
        host.plugin_map.clone_from(&policy.plugin_config);
        host.node.set_plugin_config(policy.plugin_files(), policy.plugin_default());
        host.node.set_manager_enabled(policy.manager);
        host.owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        host.latest_map = map;
        host.generates = !policy.names_a_map() && self.generates();
        if policy.names_a_map() && host.latest_map.is_none() {
            host.node.lose_map();
        }
        let name = host.node.name().to_owned();
        let kept = Arc::new(Kept::new(host, self.stop.child_token()));
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.contains_key(&name) {
            return Err(Error::NodeExists { node: name });
        }
        hosts.insert(name, Arc::clone(&kept));
        drop(hosts);
        Ok(kept)
    }

    /// A node's driver has ended. If the machine was taken away, its pods go
    /// as well; a real cluster's pod garbage collector takes a minute for it.
    pub(crate) async fn remove(&self, kept: &Kept) {
        if self.stop.is_cancelled() {
            return;
        }
        kept.stop.cancel();
        let names: Vec<PodName> = kept.with(|host| {
            let past = host.node.taken().map(|what| format!("{}: {what}", kept.name));
            self.past.lock().unwrap_or_else(PoisonError::into_inner).extend(past);
            host.pod_names().into_iter().collect()
        });
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).remove(&kept.name);
        for name in names {
            let api: Api<core::Pod> = Api::namespaced(self.client.clone(), &name.namespace);
            if let Err(error) = api.delete(&name.name, &DeleteParams::default().grace_period(0)).await {
                tracing::debug!(%name, error = &error as &dyn std::error::Error, "a pod of a node that is gone stays");
            }
        }
    }
}
