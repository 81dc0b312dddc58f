//! The interface by which tests and commands change a running cluster, and read what its API does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::DeleteParams;
use operands::faults;
use operands::{Change, GpuTruth, NodeFault, PodName};
use tokio::sync::broadcast;

use crate::clock::Clock;
use crate::error::Error;
use crate::fleet::NodeSpec;
use crate::host::Host;
use crate::kept::Kept;
use crate::node_tasks;
use crate::shared::Shared;

/// What a kubelet knows of devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Books {
    /// The boot in which it runs.
    pub boot_id: String,
    /// The devices that it can give away, by resource.
    pub healthy: BTreeMap<String, BTreeSet<String>>,
    /// The pods that have some.
    pub pods: Vec<Given>,
}

/// A pod that was given devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The pod, as the kubelet saw it last.
    pub object: core::Pod,
    /// Its devices, by resource.
    pub devices: BTreeMap<String, Vec<String>>,
}

/// Acts upon a running cluster. Clones act upon the same.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The virtual time.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The names of the nodes.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        self.shared.hosts().iter().map(|kept| kept.name.clone()).collect()
    }

    fn node(&self, name: &str) -> Result<Arc<Kept>, Error> {
        self.shared.host(name).ok_or_else(|| Error::NoNode { node: name.to_owned(), known: self.nodes() })
    }

    /// A node comes.
    ///
    /// # Errors
    /// It is not possible, or there is one of that name.
    pub fn add_node(&self, spec: NodeSpec) -> Result<(), Error> {
        node_tasks::start(&self.shared, spec)
    }

    /// A node is taken away, with all that runs on it.
    ///
    /// # Errors
    /// There is none of that name, or the API server refuses.
    pub async fn delete_node(&self, name: &str) -> Result<(), Error> {
        self.node(name)?;
        let api: Api<core::Node> = Api::all(self.shared.client.clone());
        let doing = format!("delete the node {name}");
        api.delete(name, &DeleteParams::default()).await.map_err(|error| Error::call(&doing, error))?;
        Ok(())
    }

    /// Somebody deletes a Node object, and the machine stays with all that runs
    /// on it: its kubelet registers it anew, with a new UID and without what
    /// others had written onto it.
    ///
    /// # Errors
    /// There is none of that name, or the API server refuses.
    pub async fn delete_node_object(&self, name: &str) -> Result<(), Error> {
        let kept = self.node(name)?;
        self.shared.with(&kept, Host::stay);
        self.delete_node(name).await
    }

    /// The API's data went back in time, as after an older copy of etcd was
    /// put back: kubelets and operands are restarted, as Kubernetes'
    /// documentation advises. A pod that is back is started, and one that the
    /// API does not know any more is ended.
    pub fn api_went_back(&self) {
        self.shared.api_went_back();
    }

    /// A node reboots.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn reboot(&self, name: &str) -> Result<(), Error> {
        let kept = self.node(name)?;
        self.shared.with(&kept, |host| host.node.reboot());
        Ok(())
    }

    /// Something goes wrong on a node from now on, in the words of
    /// [`operands::faults::FAULTS`].
    ///
    /// # Errors
    /// There is no such node, or no such fault.
    pub fn turn(&self, name: &str, words: &str) -> Result<(), Error> {
        let kept = self.node(name)?;
        let faults = faults::parse(words)?;
        self.shared.with(&kept, |host| faults.into_iter().for_each(|fault| host.node.turn(fault)));
        Ok(())
    }

    /// The same, for a fault that words cannot say.
    ///
    /// # Errors
    /// There is no such node.
    pub fn begin_fault(&self, name: &str, fault: NodeFault) -> Result<(), Error> {
        let kept = self.node(name)?;
        self.shared.with(&kept, |host| host.node.turn(fault));
        Ok(())
    }

    /// Nothing goes wrong on a node any more.
    ///
    /// # Errors
    /// There is no such node.
    pub fn clear(&self, name: &str) -> Result<(), Error> {
        self.begin_fault(name, NodeFault::Hardware(gpu::Fault::Clear))?;
        self.begin_fault(name, NodeFault::Clear)
    }

    /// A pod's process opens its devices now. Says whether a node has it.
    pub fn open(&self, pod: &PodName) -> bool {
        self.on_pod(pod, operands::Node::open)
    }

    /// A pod's processes close their devices. Says whether a node has it.
    pub fn close(&self, pod: &PodName) -> bool {
        self.on_pod(pod, operands::Node::close)
    }

    fn on_pod(&self, pod: &PodName, act: impl FnOnce(&mut operands::Node, &PodName)) -> bool {
        let found =
            self.shared.hosts().into_iter().find(|kept| kept.with(|host| host.node.pod(pod).is_some()));
        found.is_some_and(|kept| {
            self.shared.with(&kept, |host| act(&mut host.node, pod));
            true
        })
    }

    /// What each GPU of a node is cut into, and who has what.
    ///
    /// # Errors
    /// There is no such node.
    pub fn truth(&self, name: &str) -> Result<Vec<GpuTruth>, Error> {
        let kept = self.node(name)?;
        Ok(self.shared.with(&kept, |host| host.node.truth()))
    }

    /// From now on programs have the GPUs of a node, too: through the
    /// simulator's library, which finds them in this folder. What they change
    /// the node has at once, and they have what the node changes.
    ///
    /// # Errors
    /// There is no such node, or the folder cannot be used.
    pub fn share_gpus(&self, name: &str, folder: &Path) -> Result<(), Error> {
        let kept = self.node(name)?;
        kept.share_gpus(folder).map_err(|source| Error::NotShared { node: name.to_owned(), source })
    }

    /// What the kubelet of a node has in its books, at one moment.
    ///
    /// # Errors
    /// There is no such node.
    pub fn books(&self, name: &str) -> Result<Books, Error> {
        let kept = self.node(name)?;
        Ok(self.shared.with(&kept, |host| {
            let mut healthy: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (resource, id) in host.node.healthy_devices() {
                healthy.entry(resource.clone()).or_default().insert(id.clone());
            }
            let given = |pod: &operands::Pod| {
                let object = host.users.object(&pod.spec.name)?.clone();
                Some(Given { object, devices: pod.devices.clone() })
            };
            let pods = host.node.pods().filter(|pod| pod.is_entered()).filter_map(given).collect();
            Books { boot_id: host.node.boot_id(), healthy, pods }
        }))
    }

    /// Somebody has asked the kubelet of a node for its `List`, which is not without an effect there.
    ///
    /// # Errors
    /// There is no such node.
    pub fn listed(&self, name: &str) -> Result<(), Error> {
        let kept = self.node(name)?;
        self.shared.with(&kept, |host| host.node.list());
        Ok(())
    }

    /// The node's engine as it is now, to be looked into.
    ///
    /// # Errors
    /// There is no such node.
    pub fn engine(&self, name: &str) -> Result<operands::Node, Error> {
        let kept = self.node(name)?;
        Ok(self.shared.with(&kept, |host| host.node.clone()))
    }

    /// Slices that were taken from pods that had them, and devices that are shared with pods that had them for
    /// themselves, as sentences, on nodes that are gone as well. A test that ends with one has failed.
    #[must_use]
    pub fn breaches(&self) -> Vec<String> {
        let mut breaches = self.shared.past_breaches();
        for kept in self.shared.hosts() {
            kept.with(|host| breaches.extend(host.node.taken().map(|what| format!("{}: {what}", kept.name))));
        }
        breaches
    }

    /// What happens on the nodes from now on: node and change. Who does not
    /// keep up loses the oldest.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<(String, Change)> {
        self.shared.listen()
    }
}
