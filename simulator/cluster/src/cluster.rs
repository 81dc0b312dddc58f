//! The shell: sets the cluster up, keeps one engine for each node, and lets
//! them share watches.

use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::annotations::NODE;
use crate::error::{Error, is};
use crate::fleet::Fleet;
use crate::handle::Handle;
use crate::shared::Shared;
use crate::watch::{Seen, follow};
use crate::{gpu_operator, node_tasks, openshift_ai, pod_object, setup};

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
        let shared = Shared::new(client, fleet, shutdown);
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
            gpu_operator::ensure(&shared).await?;
            remove_leftovers(&shared.client).await
        };
        tokio::select! {
            () = shared.stop.cancelled() => return Ok(()),
            result = set_up => result?,
        }
        for spec in shared.fleet.each_node().collect::<Vec<_>>() {
            node_tasks::start(&shared, spec)?;
        }
        shared.tasks.spawn(watch_nodes(Arc::clone(&shared)));
        shared.tasks.spawn(watch_pods(Arc::clone(&shared)));
        shared.tasks.spawn(gpu_operator::watch(Arc::clone(&shared)));
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
    if is(&error, 404) { Ok(()) } else { Err(error) }
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
