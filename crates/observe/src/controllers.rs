//! Who controls which object, by its kind, namespace and name.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// An object, by kind, namespace and name.
pub type Named<'a> = (&'a str, &'a str, &'a str);

/// Controllers in one namespace, by kind and name. A round asks about tens of thousands of names: each level has names of
/// its own, so that whoever asks needs no copy of them, and few are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InNamespace(BTreeMap<String, BTreeMap<String, OwnerReference>>);

impl InNamespace {
    fn get(&self, kind: &str, name: &str) -> Option<&OwnerReference> {
        self.0.get(kind)?.get(name)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str, &OwnerReference)> {
        let of_kinds = self.0.iter();
        of_kinds.flat_map(|(kind, named)| named.iter().map(move |(name, owner)| (&**kind, &**name, owner)))
    }

    fn retain(&mut self, mut is_kept: impl FnMut(&str, &str) -> bool) {
        self.0.retain(|kind, named| {
            named.retain(|name, _| is_kept(kind, name));
            !named.is_empty()
        });
    }
}

/// The controllers of objects. Owners are of the namespace of what they own, so each namespace stands for itself: copies
/// share it until something in it changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controllers(BTreeMap<String, Arc<InNamespace>>);

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
        self.0.get(namespace)?.get(kind, name)
    }

    /// All that is known of a namespace; `None` where nothing is.
    #[must_use]
    pub fn of_namespace(&self, namespace: &str) -> Option<&Arc<InNamespace>> {
        self.0.get(namespace)
    }

    /// Remembers who controls an object, in the place of what was known before.
    pub fn insert(&mut self, kind: &str, (namespace, name): (String, String), owner: OwnerReference) {
        // What is known already makes no copy.
        if self.get(kind, &namespace, &name) != Some(&owner) {
            let of_namespace = Arc::make_mut(self.0.entry(namespace).or_default());
            of_namespace.0.entry(kind.to_owned()).or_default().insert(name, owner);
        }
    }

    /// Forgets who controls an object.
    pub fn remove(&mut self, kind: &str, (namespace, name): &(String, String)) {
        if self.get(kind, namespace, name).is_none() {
            return;
        }
        let Some(of_namespace) = self.0.get_mut(namespace) else { return };
        Arc::make_mut(of_namespace).retain(|of, named| of != kind || named != name);
        // Namespaces come and go, and nothing is kept for one of which nothing is known.
        if of_namespace.0.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// Keeps only those for which `is_kept` says so.
    pub fn retain(&mut self, mut is_kept: impl FnMut(Named<'_>) -> bool) {
        self.0.retain(|namespace, all| {
            if !all.iter().all(|(kind, name, _)| is_kept((kind, namespace, name))) {
                Arc::make_mut(all).retain(|kind, name| is_kept((kind, namespace, name)));
            }
            !all.0.is_empty()
        });
    }

    /// Every object that somebody controls, with its controller, in order of kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (Named<'_>, &OwnerReference)> {
        let of_namespaces = self.0.iter().flat_map(|(namespace, all)| {
            all.iter().map(move |(kind, name, owner)| ((kind, namespace.as_str(), name), owner))
        });
        let mut all: Vec<(Named<'_>, &OwnerReference)> = of_namespaces.collect();
        all.sort_by_key(|(named, _)| *named);
        all.into_iter()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
