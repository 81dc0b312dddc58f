//! The meaning of versions, and how the store notices that the API's data went back in time.
//!
//! Versions of one kind are numbers of one history. They order the messages of a watch, and they say
//! whether a list or a consistent read, which is the truth as of its own version, is later than a message.
//! This holds only within one history. Restoring an older copy of etcd begins another: objects are as they
//! were, with versions that are lower than those already seen, and new versions are assigned a second time.
//! Then no version seen before may be compared with a later one.
//!
//! The history is certainly a different one if
//!
//! - a list has a lower version than an earlier message of its own watch, or a consistent read has a lower
//!   one than a message before it began; or
//! - an object in a list or a consistent read is older than it was known to be, at a version that the list
//!   includes. This is how a restore with raised versions is noticed (`etcdutl snapshot restore
//!   --bump-revision`).
//!
//! The owner of the store then starts again with an empty one.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::ObjectList;
use observe::objects::Key;

use super::{Item, Source, Store, key, trim};

/// A version as a number, where it is one.
pub(super) fn number(text: Option<&str>) -> Option<u64> {
    text.and_then(|text| text.parse().ok())
}

/// A list that is under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Listed {
    pub(super) keys: BTreeSet<Key>,
    pub(super) version: Option<u64>,
}

/// Where an object comes from, and with that what its version says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AsOf {
    /// A message of a watch: later or earlier than what is known, by its own
    /// version.
    Message,
    /// A list or a consistent read: the truth as of this version. Without one
    /// it is believed as it comes.
    Read(Option<u64>),
}

/// What a consistent read found.
#[derive(Clone, Debug, Default)]
pub struct Consistent<T> {
    /// What is there.
    pub found: T,
    /// The version of the API's data that it is of.
    pub version: Option<u64>,
}

impl<K: Clone> From<ObjectList<K>> for Consistent<Vec<K>> {
    fn from(list: ObjectList<K>) -> Self {
        Self { version: number(list.metadata.resource_version.as_deref()), found: list.items }
    }
}

/// A consistent read: asked of etcd and not of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The version that it is of.
    pub version: Option<u64>,
    /// The highest version that had been seen when it began
    /// ([`Store::highest`]).
    pub highest_before: u64,
}

/// How it was noticed that the API's data went back in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WentBack {
    /// What was read.
    pub source: Source,
    /// The object that showed it; without one the list as a whole did.
    pub key: Option<Key>,
    /// The version that was seen before.
    pub seen: u64,
    /// The lower version that came after it.
    pub found: u64,
}

impl fmt::Display for WentBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, key, seen, found } = self;
        match key {
            None => write!(f, "{source} were listed as of version {found}, after version {seen} was seen"),
            Some((namespace, name)) => {
                let of = if namespace.is_empty() { "" } else { "/" };
                write!(f, "{namespace}{of}{name} of {source} is at version {found}, after it was at {seen}")
            }
        }
    }
}

impl Store {
    /// Whether the API's data went back in time, and how that was noticed.
    /// What is in the store then is of two histories, and good for nothing.
    #[must_use]
    pub const fn went_back(&self) -> Option<&WentBack> {
        self.went_back.as_ref()
    }

    /// The highest version of a kind that was seen, by whatever means. A
    /// consistent read that begins now is not of a lower one.
    #[must_use]
    pub fn highest(&self, source: &Source) -> u64 {
        self.watches.get(source).map_or(0, |watch| watch.heard.max(watch.read))
    }

    /// Whether a watch has told of this version already: its messages come in order. An object that it does not show
    /// then was written and removed again before anybody asked for it here.
    pub(super) fn was_told(&self, source: &Source, version: &str) -> bool {
        let whole = self.watches.get(source).filter(|watch| watch.listed.is_none());
        whole.zip(number(Some(version))).is_some_and(|(watch, version)| watch.heard >= version)
    }

    fn notice(&mut self, source: &Source, key: Option<&Key>, seen: u64, found: u64) {
        // The first sign is told; others follow from it.
        self.went_back.get_or_insert_with(|| WentBack {
            source: source.clone(),
            key: key.cloned(),
            seen,
            found,
        });
    }

    pub(super) fn heard(&mut self, source: &Source, version: Option<u64>) {
        let watch = self.watch(source);
        watch.heard = watch.heard.max(version.unwrap_or(0));
    }

    pub(super) fn begin(&mut self, source: &Source, version: Option<u64>) -> bool {
        let watch = self.watch(source);
        watch.listed = Some(Listed { keys: BTreeSet::new(), version });
        // Compared with what the same watch told, in order. A consistent read
        // that began later may well have been taken in before.
        let heard = watch.heard;
        if let Some(version) = version.filter(|version| *version < heard) {
            self.notice(source, None, heard, version);
        }
        self.heard(source, version);
        false
    }

    /// Everything has been listed: what was not is gone, unless it came after
    /// the list.
    pub(super) fn end(&mut self, source: &Source) -> bool {
        if let Source::Foreign(foreign) = source {
            self.objects.unread_queues.remove(&foreign.definition());
        }
        let Listed { keys, version } = self.watch(source).listed.take().unwrap_or_default();
        let missing = self.keys(source).into_iter().filter(|key| !keys.contains(key));
        let gone: Vec<Key> = missing.filter(|key| !self.came_after(source, key, version)).collect();
        for key in &gone {
            self.awaited.is_gone(source, key);
            self.remove(source, key);
        }
        self.awaited.is_listed(source, &keys, version);
        if matches!(source, Source::Foreign(super::Foreign::LocalQueue | super::Foreign::ClusterQueue)) {
            self.forget_who_keeps_nobody_waiting();
        }
        let watch = self.watch(source);
        watch.trouble = None;
        let first = !std::mem::replace(&mut watch.synced, true);
        first || !gone.is_empty()
    }

    /// Whether what comes is of an earlier moment than what is known. Notices
    /// what cannot be in one history.
    pub(super) fn is_outdated(&mut self, source: &Source, key: &Key, new: Option<u64>, as_of: AsOf) -> bool {
        let known = number(self.version(source, key).as_deref());
        match as_of {
            AsOf::Message => {
                self.heard(source, new);
                new.zip(known).is_some_and(|(new, known)| new < known)
            }
            AsOf::Read(None) => false,
            AsOf::Read(Some(of)) => {
                // What we wrote ourselves was seen as well.
                let wanted = self.awaited.wanted(source, key);
                let included = [known, wanted].into_iter().flatten().filter(|version| *version <= of).max();
                if let Some((new, seen)) = new.zip(included).filter(|(new, seen)| new < seen) {
                    self.notice(source, Some(key), seen, new);
                }
                // Of another history, what is known is no later for its number.
                self.went_back.is_none() && known.is_some_and(|known| known > of)
            }
        }
    }

    fn take_read(&mut self, source: &Source, read: Read) {
        let Read { version, highest_before } = read;
        if let Some(version) = version.filter(|version| *version < highest_before) {
            self.notice(source, None, highest_before, version);
        }
        let watch = self.watch(source);
        watch.read = watch.read.max(version.unwrap_or(0));
    }

    /// A node as a consistent read shows it; `None` when it is gone. Says
    /// whether anything changed.
    pub fn take_node(&mut self, name: &str, found: Option<Node>, read: Read) -> bool {
        self.take_read(&Source::Nodes, read);
        let key = (String::new(), name.to_owned());
        match found {
            Some(node) => self.put(&Source::Nodes, Item::node(node), AsOf::Read(read.version)),
            None if self.came_after(&Source::Nodes, &key, read.version) => false,
            None => {
                self.awaited.is_gone(&Source::Nodes, &key);
                self.remove(&Source::Nodes, &key)
            }
        }
    }

    /// Whether what is known of an object is of after a list or a read.
    fn came_after(&self, source: &Source, key: &Key, read: Option<u64>) -> bool {
        let known = number(self.version(source, key).as_deref());
        self.went_back.is_none() && read.zip(known).is_some_and(|(of, known)| known > of)
    }

    /// The pods of a node as a consistent read shows them: pods that it lacks
    /// are gone. Only what the watch told of a moment after the read is kept.
    /// Says whether anything changed.
    pub fn take_pods_of(&mut self, node: &str, pods: Vec<Pod>, read: Read) -> bool {
        self.take_read(&Source::Pods, read);
        let mut changed = false;
        if let Some(found) = self.waiting.remove(node) {
            self.objects.nodes.insert(node.to_owned(), found);
            changed = true;
        }
        let listed: BTreeSet<Key> = pods.iter().map(|pod| key(&pod.metadata)).collect();
        let on_node = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node);
        let gone: Vec<Key> = self
            .objects
            .pods
            .iter()
            .filter(|(key, pod)| on_node(pod) && !listed.contains(key))
            .map(|(key, _)| key.clone())
            .chain(self.pod_sums.on(node).filter(|key| !listed.contains(key)))
            .filter(|key| !self.came_after(&Source::Pods, key, read.version))
            .collect();
        for key in gone {
            self.awaited.is_gone(&Source::Pods, &key);
            changed |= self.remove(&Source::Pods, &key);
        }
        for pod in pods {
            let item = Item::Pod(Box::new(trim::pod(pod)));
            changed |= self.put(&Source::Pods, item, AsOf::Read(read.version));
        }
        changed
    }
}
