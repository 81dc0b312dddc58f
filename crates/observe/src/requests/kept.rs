//! What was read of namespaces in the round before. A namespace whose objects are the same ones is not read again.
//!
//! Objects are compared by identity, as in the readings of nodes; what is common to all namespaces, by value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::foreign::{AdmissionCheck, Notebook, ResourceFlavor, Workload};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;

use super::in_namespace::{Around, InNamespace, Own};
use super::namespace_labels;
use crate::controllers;
use crate::copy_on_write::CopyOnWrite;
use crate::objects::{Key, Objects};
use crate::volumes::Volumes;

/// What all namespaces are read by. When it changes, each is read again. Hardware profiles, and what is remembered of
/// workbenches that start, are not in it: where one of them starts, the reading is not kept.
#[derive(Debug, PartialEq)]
struct Common {
    priority_classes: BTreeMap<String, PriorityClass>,
    admission_checks: BTreeMap<String, AdmissionCheck>,
    resource_flavors: BTreeMap<String, ResourceFlavor>,
    volumes: CopyOnWrite<Volumes>,
    unread_queues: BTreeMap<String, Vec<String>>,
    unknown_owners: BTreeSet<(String, Key)>,
    placed_alone: BTreeMap<(String, Key), String>,
    blocked_after: SignedDuration,
    most: u32,
}

impl Common {
    fn of(around: &Around<'_>) -> Self {
        let Around { objects, settings, most } = around;
        Self {
            priority_classes: objects.priority_classes.clone(),
            admission_checks: objects.admission_checks.clone(),
            resource_flavors: objects.resource_flavors.clone(),
            volumes: objects.volumes.clone(),
            unread_queues: objects.unread_queues.clone(),
            unknown_owners: objects.unknown_owners.clone(),
            placed_alone: objects.placed_alone.clone(),
            blocked_after: settings.blocked_after,
            most: *most,
        }
    }
}

/// The readings of namespaces that are kept from one round to the next. One that is lost costs time and nothing else.
#[derive(Debug, Default)]
pub(crate) struct NamespaceReadings {
    common: Option<Common>,
    /// When they were last used.
    at: Timestamp,
    namespaces: BTreeMap<String, Kept>,
    /// How many were made.
    made: u64,
}

/// A reading, with all that it was made of beside what is common to all namespaces.
#[derive(Debug)]
struct Kept {
    pods: Vec<Arc<Pod>>,
    workbenches: Vec<Arc<Notebook>>,
    workloads: Vec<Arc<Workload>>,
    owners: Option<Arc<controllers::InNamespace>>,
    labels: BTreeMap<String, String>,
    read: Arc<InNamespace>,
}

impl NamespaceReadings {
    pub(crate) const fn made(&self) -> u64 {
        self.made
    }

    /// Begins a round. What is kept is of no use to it where what is common to all namespaces has changed, or a clock was
    /// put back.
    pub(super) fn begin(&mut self, around: &Around<'_>, now: Timestamp) {
        let common = Common::of(around);
        if self.common.as_ref() != Some(&common) || now < self.at {
            self.namespaces.clear();
        }
        self.common = Some(common);
        self.at = now;
    }

    /// The reading of a namespace that has these objects: the one that is kept, or else the one that is made now.
    pub(super) fn read(
        &mut self,
        namespace: &str,
        own: &Own<'_>,
        objects: &Objects,
        read: impl FnOnce() -> InNamespace,
    ) -> Arc<InNamespace> {
        let owners = objects.owners.of_namespace(namespace);
        let labels = namespace_labels(objects, namespace);
        let now = self.at;
        let kept = self.namespaces.get(namespace).filter(|kept| kept.is_of(own, owners, &labels, now));
        if let Some(kept) = kept {
            return Arc::clone(&kept.read);
        }
        self.made += 1;
        let read = Arc::new(read());
        let kept = Kept {
            pods: own.pods.iter().map(|pod| Arc::clone(pod)).collect(),
            workbenches: own.workbenches.iter().map(|(_, notebook, _)| Arc::clone(notebook)).collect(),
            workloads: own.workloads.iter().map(|(_, workload, _)| Arc::clone(workload)).collect(),
            owners: owners.cloned(),
            labels,
            read: Arc::clone(&read),
        };
        self.namespaces.insert(namespace.to_owned(), kept);
        read
    }

    /// Forgets the namespaces that are not among these.
    pub(super) fn forget_others(&mut self, namespaces: &BTreeMap<&str, Own<'_>>) {
        if self.namespaces.len() > namespaces.len() {
            self.namespaces.retain(|name, _| namespaces.contains_key(name.as_str()));
        }
    }
}

impl Kept {
    /// Whether the reading is what would be read of these objects now.
    fn is_of(
        &self,
        own: &Own<'_>,
        owners: Option<&Arc<controllers::InNamespace>>,
        labels: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> bool {
        let same_owners = match (&self.owners, owners) {
            (Some(before), Some(owners)) => Arc::ptr_eq(before, owners),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_owners
            && self.read.turns_at.is_none_or(|at| now < at)
            && self.labels == *labels
            && are_same(&self.pods, own.pods.iter().copied())
            && are_same(&self.workbenches, own.workbenches.iter().map(|(_, notebook, _)| *notebook))
            && are_same(&self.workloads, own.workloads.iter().map(|(_, workload, _)| *workload))
    }
}

/// Whether these are the same objects, in the same order.
fn are_same<'o, T: 'o>(before: &[Arc<T>], objects: impl ExactSizeIterator<Item = &'o Arc<T>>) -> bool {
    before.len() == objects.len() && before.iter().zip(objects).all(|(before, now)| Arc::ptr_eq(before, now))
}
