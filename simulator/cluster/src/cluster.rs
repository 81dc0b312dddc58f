//! The shell: sets the cluster up, keeps one engine for each node, and lets
//! them share watches.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use operands::{Change, PodName};
use store::{State, Store, StoreError};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::annotations::NODE;
use crate::clock::Clock;
use crate::error::Error;
use crate::fleet::{Fleet, NodeSpec};
use crate::handle::Handle;
use crate::host::Host;
use crate::policy::{self, Policy};
use crate::watch::{Seen, follow};
use crate::{lease, openshift_ai, perform, pod_object, setup};

/// How many writes are under way at the same time, over all nodes: an API
/// server on a small machine has no use for more.
const WRITES: usize = 32;

/// A node that is kept.
pub(crate) struct Kept {
    pub(crate) name: String,
    host: Mutex<Host>,
    /// Where its GPUs are while programs have them, too.
    gpus: OnceLock<Store>,
    pub(crate) wake: Notify,
    pub(crate) stop: CancellationToken,
}

impl Kept {
    fn host(&self) -> MutexGuard<'_, Host> {
        // A panic elsewhere is told by the task that had it.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the node, or acts upon it, while nobody else does: no program
    /// that has its GPUs either.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Host) -> T) -> T {
        let mut host = self.host();
        let Some(store) = self.gpus.get() else { return act(&mut host) };
        let (mut act, mut answer) = (Some(act), None);
        let shared = store.update(|state| {
            host.node.found_machine(state.machine.clone());
            answer = act.take().map(|act| act(&mut host));
            state.machine = host.node.machine().clone();
        });
        if let Err(error) = shared {
            tracing::error!(
                node = self.name,
                error = &error as &dyn std::error::Error,
                "its GPUs are not shared"
            );
        }
        answer.or_else(|| act.map(|act| act(&mut host))).expect("it was acted once")
    }

    /// From now on programs have the GPUs, too, through the simulator's library
    /// and this folder.
    pub(crate) fn share_gpus(&self, folder: &Path) -> Result<(), StoreError> {
        let host = self.host();
        let store = Store::create(folder, State::new(host.node.machine().clone()))?;
        // Who came first has them already.
        let _ = self.gpus.set(store);
        Ok(())
    }
}

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
    owners: Mutex<BTreeMap<String, String>>,
    /// Breaches on nodes that are gone.
    past: Mutex<Vec<String>>,
    changes: tokio::sync::broadcast::Sender<(String, Change)>,
    /// How often the API's data went back in time.
    anew: tokio::sync::watch::Sender<u64>,
}

impl Shared {
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

    /// A node comes.
    pub(crate) fn add(self: &Arc<Self>, spec: NodeSpec) -> Result<(), Error> {
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let map = policy.map();
        let mut fleet = self.fleet.clone();
        fleet.strategy = policy.strategy;
        let node = fleet.node(&spec, map.as_deref(), self.clock.now())?;
        let mut host = Host::new(node, spec, &self.fleet.namespace);
        host.node.set_plugin_config(policy.plugin_files(), policy.plugin_default());
        host.node.set_manager_enabled(policy.manager);
        host.owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        host.latest_map = map;
        host.generates = !policy.names_a_map() && self.generates();
        if policy.names_a_map() && host.latest_map.is_none() {
            host.node.lose_map();
        }
        let name = host.node.name().to_owned();
        let kept = Arc::new(Kept {
            name: name.clone(),
            host: Mutex::new(host),
            gpus: OnceLock::new(),
            wake: Notify::new(),
            stop: self.stop.child_token(),
        });
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.contains_key(&name) {
            return Err(Error::NodeExists { node: name });
        }
        hosts.insert(name, Arc::clone(&kept));
        drop(hosts);
        self.tasks.spawn(lease::renew(Arc::clone(self), Arc::clone(&kept)));
        self.tasks.spawn(perform::drive(Arc::clone(self), kept));
        Ok(())
    }

    /// A node's driver has ended. If the machine was taken away, its pods go
    /// as well; a real cluster's pod garbage collector takes a minute for it.
    pub(crate) async fn remove(&self, kept: &Kept) {
        if self.stop.is_cancelled() {
            return;
        }
        kept.stop.cancel();
        let names: Vec<PodName> = kept.with(|host| {
            let past = host.node.breaches().iter().map(|breach| format!("{}: {breach}", kept.name));
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

/// A simulated cluster that is about to run.
pub struct Cluster {
    shared: Arc<Shared>,
}

impl Cluster {
    /// A cluster of this fleet, on the API server of this client.
    ///
    /// # Errors
    /// The fleet is not possible.
    pub fn new(client: Client, fleet: Fleet, shutdown: CancellationToken) -> Result<Self, Error> {
        fleet.check()?;
        let policy = Policy::for_fleet(&fleet);
        let shared = Shared {
            client,
            clock: Clock::starting_now(fleet.speed),
            fleet,
            writes: Semaphore::new(WRITES),
            stop: shutdown,
            tasks: TaskTracker::new(),
            policy: Mutex::new(policy),
            policy_wake: Notify::new(),
            hosts: Mutex::default(),
            owners: Mutex::default(),
            past: Mutex::default(),
            changes: tokio::sync::broadcast::channel(4096).0,
            anew: tokio::sync::watch::channel(0).0,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// By which the cluster is acted upon, and looked into, while it runs.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Runs until the shutdown token is cancelled. The objects stay.
    ///
    /// # Errors
    /// The cluster cannot be set up. Once it runs, calls that fail are
    /// repeated for ever.
    pub async fn run(self) -> Result<(), Error> {
        let shared = self.shared;
        let set_up = async {
            setup::crds(&shared.client, &shared.fleet).await?;
            let owners = setup::owners(&shared.client, &shared.fleet.namespace).await?;
            *shared.owners.lock().unwrap_or_else(PoisonError::into_inner) = owners;
            policy::ensure(&shared).await?;
            remove_leftovers(&shared.client).await
        };
        tokio::select! {
            () = shared.stop.cancelled() => return Ok(()),
            result = set_up => result?,
        }
        for spec in shared.fleet.each_node().collect::<Vec<_>>() {
            shared.add(spec)?;
        }
        shared.tasks.spawn(watch_nodes(Arc::clone(&shared)));
        shared.tasks.spawn(watch_pods(Arc::clone(&shared)));
        shared.tasks.spawn(policy::watch(Arc::clone(&shared)));
        if shared.fleet.openshift_ai {
            shared.tasks.spawn(keep_workbenches(Arc::clone(&shared)));
        }
        shared.stop.cancelled().await;
        shared.tasks.close();
        shared.tasks.wait().await;
        Ok(())
    }
}

/// Keeps workbenches, and starts over when the API's data went back in time.
async fn keep_workbenches(shared: Arc<Shared>) {
    let mut anew = shared.anew();
    while !shared.stop.is_cancelled() {
        let (client, clock) = (shared.client.clone(), shared.clock.clone());
        let stop = shared.stop.child_token();
        tokio::select! {
            () = openshift_ai::keep_workbenches(client, clock, stop.clone()) => return,
            Ok(()) = anew.changed() => stop.cancel(),
        }
    }
}

/// What an earlier simulator left: its engines are gone, and with them what
/// its nodes were cut into.
async fn remove_leftovers(client: &Client) -> Result<(), Error> {
    let failed = |source| Error::call("remove what an earlier simulator left", source);
    let nodes: Api<core::Node> = Api::all(client.clone());
    let left = nodes.list(&ListParams::default().labels(NODE)).await.map_err(failed)?;
    for node in left {
        let pods: Api<core::Pod> = Api::all(client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", node.name_any()));
        for pod in pods.list(&here).await.map_err(failed)? {
            let api: Api<core::Pod> =
                Api::namespaced(client.clone(), pod.namespace().as_deref().unwrap_or_default());
            let gone = api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
            gone.map(drop).or_else(not_found).map_err(failed)?;
        }
        let gone = nodes.delete(&node.name_any(), &DeleteParams::default()).await;
        gone.map(drop).or_else(not_found).map_err(failed)?;
    }
    Ok(())
}

fn not_found(error: kube::Error) -> kube::Result<()> {
    if perform::is(&error, 404) { Ok(()) } else { Err(error) }
}

async fn watch_nodes(shared: Arc<Shared>) {
    let api: Api<core::Node> = Api::all(shared.client.clone());
    let brief = |node: &core::Node| (node.name_any(), node.metadata.uid.clone());
    follow(api, watcher::Config::default().labels(NODE), shared.stop.clone(), shared.anew(), brief, |seen| {
        match seen {
            Seen::There(node) => {
                if let Some(kept) = shared.host(&node.name_any()) {
                    let now = shared.clock.now();
                    shared.with(&kept, |host| host.saw_node(node, now));
                }
            }
            Seen::Gone((name, uid)) => {
                if let Some(kept) = shared.host(&name) {
                    shared.with(&kept, |host| host.lost_node(uid.as_deref()));
                }
            }
        }
    })
    .await;
}

async fn watch_pods(shared: Arc<Shared>) {
    let api: Api<core::Pod> = Api::all(shared.client.clone());
    let node_of =
        |pod: &core::Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let brief = |pod: &core::Pod| (node_of(pod), pod_object::name_of(pod), pod.metadata.uid.clone());
    let bound = watcher::Config::default().fields("spec.nodeName!=");
    follow(api, bound, shared.stop.clone(), shared.anew(), brief, |seen| match seen {
        Seen::There(pod) => {
            if let Some(kept) = shared.host(&node_of(&pod)) {
                shared.with(&kept, |host| host.saw_pod(pod));
            }
        }
        Seen::Gone((node, name, uid)) => {
            if let Some(kept) = shared.host(&node) {
                shared.with(&kept, |host| host.lost_pod(&name, uid.as_deref()));
            }
        }
    })
    .await;
}
