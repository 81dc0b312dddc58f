//! What is known of the workloads of Kueue that have their quota and a check of ours. It is kept by namespace, and copies
//! share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::names::RequestId;

use crate::objects::Key;

/// A workload that waits for checks of ours, or has passed them and has pods
/// without a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedWorkload {
    /// Our checks that it has and that may still say something.
    pub checks: Vec<QueuedCheck>,
    /// Its pod sets, in its own order.
    pub sets: Vec<QueuedSet>,
    /// Whether Kueue has let it go.
    pub is_admitted: bool,
    /// Whether pods of it may run that nobody takes for its own: it is admitted, and of a pod with a node in its
    /// namespace it is not known who stands behind it.
    pub may_run_unseen: bool,
}

impl QueuedWorkload {
    /// How many pods it wants that are not planned for.
    #[must_use]
    pub fn unplanned(&self) -> usize {
        self.sets.iter().map(|set| set.unplanned as usize).fold(0, usize::saturating_add)
    }
}

/// A check of ours, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedCheck {
    /// Its name.
    pub name: String,
    /// Whether it says `Ready`; otherwise it is `Pending`.
    pub is_ready: bool,
}

/// One of its pod sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedSet {
    /// Its name.
    pub name: String,
    /// The requests of its pods that have no node, by what they ask for.
    pub requests: Vec<RequestId>,
    /// How many of its pods have a node, or have had one.
    pub placed: u32,
    /// How many of its pods run: those with a node that have not ended and are not being deleted.
    pub running: u32,
    /// How many more pods it wants that nobody has made yet, and that are not
    /// planned for: they are a number, of which anybody can write any.
    pub unplanned: u32,
    /// Whether somebody else says on which node its pods are to run: their
    /// author, a flavor, another check, or Kueue itself by a topology. It is asked only of sets
    /// that have requests, as is what follows.
    pub is_kept_to_a_node: bool,
    /// Labels of nodes of which all of its pods need one value, and none of which is chosen yet: what its own pod affinity
    /// is about, where Kueue does not place them itself.
    pub one_of_each: BTreeSet<String>,
    /// The label of nodes of which all of its pods need one value, where Kueue places them by a topology.
    pub topology: Option<String>,
    /// Whether it asks for something that looks like a slice, and is the
    /// resource of no profile: nothing could ever serve it.
    pub is_misspelt: bool,
}

/// Workloads of one namespace.
pub(super) type OfNamespace = BTreeMap<Key, QueuedWorkload>;

/// The workloads that have their quota and a check of ours, in order of namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedWorkloads(BTreeMap<String, Arc<OfNamespace>>);

impl QueuedWorkloads {
    pub(super) fn insert(&mut self, namespace: &str, workloads: &Arc<OfNamespace>) {
        if !workloads.is_empty() {
            self.0.insert(namespace.to_owned(), Arc::clone(workloads));
        }
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&QueuedWorkload> {
        self.0.get(&key.0)?.get(key)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &QueuedWorkload)> {
        self.0.values().flat_map(|workloads| workloads.iter())
    }

    /// Their namespaces and names.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.iter().map(|(key, _)| key)
    }

    /// What is known of each.
    pub fn values(&self) -> impl Iterator<Item = &QueuedWorkload> {
        self.iter().map(|(_, workload)| workload)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(|workloads| workloads.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
