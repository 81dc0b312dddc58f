//! The objects of the simulated cluster, as an API server keeps them: every write that changes something
//! gets a new resource version, and a write without a change has no effect.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;

/// The key of an object on its shelf: `namespace/name`, or `name`.
#[must_use]
pub(crate) fn key_of<T: Resource>(object: &T) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    meta.namespace.as_deref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// `namespace/name`.
pub(crate) fn path(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// How often anything was written, over all shelves: the source of resource
/// versions, and how one sees that something changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revision(pub(crate) u64);

/// All objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Shelf<T> {
    objects: BTreeMap<String, T>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new() }
    }
}

impl<T: Resource + Clone + PartialEq> Shelf<T> {
    pub(crate) fn get(&self, key: &str) -> Option<&T> {
        self.objects.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.objects.iter().map(|(key, object)| (key.as_str(), object))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.objects.values()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    /// Creates an object, or replaces it and keeps what the server owns.
    pub(crate) fn put(&mut self, mut object: T, now: Timestamp, revision: &mut Revision) {
        let key = key_of(&object);
        let Some(old) = self.objects.get(&key) else {
            revision.0 += 1;
            let meta = object.meta_mut();
            meta.uid = Some(format!("00000000-0000-4000-8000-{:012x}", revision.0));
            meta.creation_timestamp.get_or_insert(Time(now));
            meta.generation = Some(1);
            meta.resource_version = Some(revision.0.to_string());
            self.objects.insert(key, object);
            return;
        };
        let (old, meta) = (old.meta(), object.meta_mut());
        meta.uid.clone_from(&old.uid);
        meta.creation_timestamp.clone_from(&old.creation_timestamp);
        meta.generation = old.generation.map(|g| g + 1);
        meta.resource_version.clone_from(&old.resource_version);
        self.edit(&key, revision, |stored| *stored = object);
    }

    /// Changes an object; says whether that made a difference.
    pub(crate) fn edit(&mut self, key: &str, revision: &mut Revision, change: impl FnOnce(&mut T)) -> bool {
        let Some(object) = self.objects.get_mut(key) else { return false };
        let before = object.clone();
        change(object);
        if *object == before {
            return false;
        }
        revision.0 += 1;
        object.meta_mut().resource_version = Some(revision.0.to_string());
        true
    }

    pub(crate) fn remove(&mut self, key: &str, revision: &mut Revision) -> Option<T> {
        let gone = self.objects.remove(key);
        revision.0 += u64::from(gone.is_some());
        gone
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;

    fn namespace(label: &str) -> Namespace {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("team-a".to_owned());
        namespace.metadata.labels = Some([("tier".to_owned(), label.to_owned())].into());
        namespace
    }

    #[test]
    fn only_a_write_that_changes_something_gets_a_new_resource_version() {
        let (mut shelf, mut revision) = (Shelf::default(), Revision::default());
        shelf.put(namespace("gold"), Timestamp::UNIX_EPOCH, &mut revision);
        assert!(!shelf.edit("team-a", &mut revision, |_| ()), "nothing changed");
        assert_eq!(revision, Revision(1));
        assert!(shelf.edit("team-a", &mut revision, |n| n.metadata.labels = None));
        assert_eq!(
            shelf.get("team-a").and_then(|n| n.metadata.resource_version.clone()).as_deref(),
            Some("2")
        );
    }
}
