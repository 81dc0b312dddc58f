//! Who controls which object, by its kind, namespace and name.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// An object, by kind, namespace and name.
pub type Named<'a> = (&'a str, &'a str, &'a str);

/// The controllers of objects. A round asks about tens of thousands of names: each level has names of its own, so that
/// whoever asks needs no copy of them, and few are compared. Copies share them all until one is changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controllers(Arc<ByName>);

/// By kind, namespace and name.
type ByName = BTreeMap<String, BTreeMap<String, BTreeMap<String, OwnerReference>>>;

impl FromIterator<(String, (String, String), OwnerReference)> for Controllers {
    /// Takes kinds, keys and who controls what is called so.
    fn from_iter<I: IntoIterator<Item = (String, (String, String), OwnerReference)>>(all: I) -> Self {
        let mut controllers = Self::default();
        for (kind, key, owner) in all {
            controllers.insert(&kind, key, owner);
        }
        controllers
    }
}

impl Controllers {
    /// Who controls an object of this kind; `None` where nobody does, or nobody was told.
    #[must_use]
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&OwnerReference> {
        self.0.get(kind)?.get(namespace)?.get(name)
    }

    /// Remembers who controls an object, in the place of what was known before.
    pub fn insert(&mut self, kind: &str, (namespace, name): (String, String), owner: OwnerReference) {
        // What is known already makes no copy.
        if self.get(kind, &namespace, &name) != Some(&owner) {
            let of_kind = Arc::make_mut(&mut self.0).entry(kind.to_owned()).or_default();
            of_kind.entry(namespace).or_default().insert(name, owner);
        }
    }

    /// Forgets who controls an object.
    pub fn remove(&mut self, kind: &str, (namespace, name): &(String, String)) {
        if self.get(kind, namespace, name).is_none() {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        let Some(of_kind) = all.get_mut(kind) else { return };
        let Some(in_namespace) = of_kind.get_mut(namespace) else { return };
        in_namespace.remove(name);
        // Namespaces come and go, and nothing is kept for one of which nothing is known.
        if in_namespace.is_empty() {
            of_kind.remove(namespace);
        }
        if of_kind.is_empty() {
            all.remove(kind);
        }
    }

    /// Keeps only those for which `is_kept` says so.
    pub fn retain(&mut self, mut is_kept: impl FnMut(Named<'_>) -> bool) {
        if self.iter().all(|(named, _)| is_kept(named)) {
            return;
        }
        Arc::make_mut(&mut self.0).retain(|kind, of_kind| {
            of_kind.retain(|namespace, named| {
                named.retain(|name, _| is_kept((kind, namespace, name)));
                !named.is_empty()
            });
            !of_kind.is_empty()
        });
    }

    /// Every object that somebody controls, with its controller, in order of kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (Named<'_>, &OwnerReference)> {
        self.0.iter().flat_map(|(kind, of_kind)| {
            of_kind.iter().flat_map(move |(namespace, named)| {
                named
                    .iter()
                    .map(move |(name, owner)| ((kind.as_str(), namespace.as_str(), name.as_str()), owner))
            })
        })
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
