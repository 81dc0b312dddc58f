//! Our writes that the watches do not show yet. Nothing is decided before they are seen: otherwise the same
//! write would be decided again, on outdated data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use observe::objects::Key;

use super::history::number;
use super::{Source, is_older};

/// Something that our own write brings about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The object has this version, or a later one.
    Version {
        /// Which watch shows it.
        source: Source,
        /// Which object.
        key: Key,
        /// The version that the write left behind.
        version: String,
    },
    /// The pod has a deletion timestamp, or is gone.
    Going {
        /// Which pod.
        key: Key,
        /// Its uid.
        uid: String,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { source, key: (namespace, name), version } => {
                write!(f, "{source} {namespace}/{name} at version {version}")
            }
            Self::Going { key: (namespace, name), uid: _ } => write!(f, "pod {namespace}/{name} going"),
        }
    }
}

/// Everything that is awaited.
#[derive(Debug, Default)]
pub struct Awaited {
    versions: BTreeMap<(Source, Key), (String, Instant)>,
    going: BTreeMap<Key, (String, Instant)>,
}

impl Awaited {
    pub(super) fn add(&mut self, subject: Subject, now: Instant) {
        match subject {
            Subject::Version { source, key, version } => {
                self.versions.insert((source, key), (version, now));
            }
            Subject::Going { key, uid } => {
                self.going.insert(key, (uid, now));
            }
        }
    }

    /// The version of an object that a write of ours left behind, and that was
    /// not seen yet.
    pub(super) fn wanted(&self, source: &Source, key: &Key) -> Option<u64> {
        number(Some(&self.versions.get(&(source.clone(), key.clone()))?.0))
    }

    pub(super) fn is_seen(&mut self, source: &Source, key: &Key, version: Option<&str>) {
        let at = (source.clone(), key.clone());
        if let Some((wanted, _)) = self.versions.get(&at)
            && (version == Some(wanted.as_str()) || !is_older(version, Some(wanted)))
        {
            self.versions.remove(&at);
        }
    }

    pub(super) fn is_going(&mut self, key: &Key, uid: &str, going: bool) {
        if self.going.get(key).is_some_and(|(wanted, _)| going || wanted != uid) {
            self.going.remove(key);
        }
    }

    /// An object was deleted as of this version. A later write of ours is of another one of the same name, which is
    /// still to be seen.
    pub(super) fn is_deleted(&mut self, source: &Source, key: &Key, version: Option<&str>) {
        let wanted = self.versions.get(&(source.clone(), key.clone()));
        if !wanted.is_some_and(|(wanted, _)| is_older(version, Some(wanted))) {
            self.is_gone(source, key);
        }
    }

    pub(super) fn is_gone(&mut self, source: &Source, key: &Key) {
        self.versions.remove(&(source.clone(), key.clone()));
        if *source == Source::Pods {
            self.going.remove(key);
        }
    }

    /// What a list as of a later version does not have is gone, also where nobody has ever seen it.
    pub(super) fn is_listed(&mut self, source: &Source, keys: &BTreeSet<Key>, of: Option<u64>) {
        self.versions.retain(|(from, key), (version, _)| {
            let later = number(Some(version)).zip(of).is_some_and(|(version, of)| version <= of);
            from != source || keys.contains(key) || !later
        });
    }

    /// Whether everything is seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.going.is_empty()
    }

    /// Gives up on what has been awaited for too long, and says what it was: a
    /// watch that stands still must not keep us from looking for ever.
    pub fn give_up(&mut self, after: Duration, now: Instant) -> Vec<Subject> {
        let late = |since: &Instant| now.duration_since(*since) >= after;
        let mut given_up = Vec::new();
        self.versions.retain(|(source, key), (version, since)| {
            if late(since) {
                let (source, key, version) = (source.clone(), key.clone(), version.clone());
                given_up.push(Subject::Version { source, key, version });
            }
            !late(since)
        });
        self.going.retain(|key, (uid, since)| {
            if late(since) {
                given_up.push(Subject::Going { key: key.clone(), uid: uid.clone() });
            }
            !late(since)
        });
        given_up
    }
}
