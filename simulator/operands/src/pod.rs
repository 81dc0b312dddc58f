//! Users' pods on the node, and the kubelet's record of their devices.

use std::collections::BTreeMap;
use std::fmt;

use gpu::ClientId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A pod's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl PodName {
    /// A pod.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// When a pod's process opens its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opens {
    /// Never: an idle notebook.
    #[default]
    Never,
    /// As soon as it runs.
    AtOnce,
    /// So long after it runs.
    After(SignedDuration),
}

/// A pod that the scheduler binds to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// Its name.
    pub name: PodName,
    /// What it asks of extended resources.
    pub requests: BTreeMap<String, u64>,
    /// When it opens its devices.
    pub opens: Opens,
}

/// Where a pod is in its life. One that ended is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum PodPhase {
    /// Bound and admitted; its container is not running yet.
    Starting,
    /// It runs.
    Running,
    /// The kubelet refused it, or it lost its node.
    Failed {
        /// The reason in its status, such as `UnexpectedAdmissionError`.
        reason: String,
        /// The sentence beside it.
        message: String,
    },
}

/// How far the kubelet is with the devices of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Admission {
    /// They are chosen, and nobody else gets them. The plugin was asked: if it
    /// goes before it has answered, the pod is refused.
    Chosen,
    /// The plugin has answered. The pod gets them, whatever becomes of the
    /// plugin; in the books that others read they are not yet.
    Answered,
    /// They are in the books.
    Entered,
}

/// A pod on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What was bound.
    pub spec: PodSpec,
    /// When.
    pub bound: Timestamp,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// The devices that the kubelet gave it: UUIDs by resource.
    pub devices: BTreeMap<String, Vec<String>>,
    /// How far the kubelet is with them.
    pub admission: Admission,
    /// Whether the kubelet has forgotten that it gave them: another pod may get them, too.
    pub(crate) forgotten: bool,
    pub(crate) clients: Vec<ClientId>,
}

impl Pod {
    /// Whether it holds its devices: it is neither refused nor lost.
    #[must_use]
    pub const fn holds(&self) -> bool {
        matches!(self.phase, PodPhase::Starting | PodPhase::Running)
    }

    /// Whether the kubelet's books have its devices.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        self.holds() && self.admission == Admission::Entered && !self.devices.is_empty()
    }

    /// Whether its processes have a device open.
    #[must_use]
    pub fn has_open(&self) -> bool {
        !self.clients.is_empty()
    }
}
