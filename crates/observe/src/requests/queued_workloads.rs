//! The workloads of Kueue that have their quota and a check of ours, by namespace: copies share what they say.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::QueuedWorkload;
use crate::objects::Key;

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
