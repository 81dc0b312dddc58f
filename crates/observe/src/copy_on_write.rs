//! A value of which there is one, whatever the number of its copies.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that its copies share until one of them is changed: a round works on a copy of all objects, and from one round
/// to the next few kinds have changed. Whoever changes one that is shared gets a copy of its own first.
#[derive(Clone, Debug, Default)]
pub struct CopyOnWrite<T>(Arc<T>);

impl<T> CopyOnWrite<T> {
    /// Shares a value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Whether it is the same value, and not only an equal one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: PartialEq> PartialEq for CopyOnWrite<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a, T> IntoIterator for &'a CopyOnWrite<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&*self.0).into_iter()
    }
}

impl<T: FromIterator<I>, I> FromIterator<I> for CopyOnWrite<T> {
    fn from_iter<A: IntoIterator<Item = I>>(all: A) -> Self {
        Self::new(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_copy_stays_as_it_is() {
        let mut many: CopyOnWrite<BTreeMap<u32, &str>> = [(1, "one")].into_iter().collect();
        let copy = many.clone();
        assert!(copy.is_same(&many));
        many.insert(2, "two");
        assert_eq!((many.len(), copy.len()), (2, 1));
        assert!(!copy.is_same(&many) && copy != many);
    }
}
