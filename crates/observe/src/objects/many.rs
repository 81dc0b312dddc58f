//! Objects of a kind of which there are thousands.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Objects by their keys, which copies share until one of them is changed: a round works on a copy of all objects, and
/// from one round to the next few kinds have changed. Whoever changes one that is shared makes a copy of the keys, once,
/// and of no object.
#[derive(Clone, Debug, PartialEq)]
pub struct Many<K, T>(Arc<BTreeMap<K, Arc<T>>>);

impl<K, T> Default for Many<K, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, T> Deref for Many<K, T> {
    type Target = BTreeMap<K, Arc<T>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Clone, T> DerefMut for Many<K, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a, K, T> IntoIterator for &'a Many<K, T> {
    type Item = (&'a K, &'a Arc<T>);
    type IntoIter = btree_map::Iter<'a, K, Arc<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<K: Ord, T> FromIterator<(K, Arc<T>)> for Many<K, T> {
    fn from_iter<I: IntoIterator<Item = (K, Arc<T>)>>(all: I) -> Self {
        Self(Arc::new(all.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_it_is() {
        let mut many: Many<u32, &str> = [(1, Arc::new("one"))].into_iter().collect();
        let copy = many.clone();
        many.insert(2, Arc::new("two"));
        assert_eq!((many.len(), copy.len()), (2, 1));
        assert!(Arc::ptr_eq(&many[&1], &copy[&1]), "the objects are shared still");
    }
}
