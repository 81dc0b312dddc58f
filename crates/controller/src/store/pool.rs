//! Values that many objects have in common, each kept once. Thousands of workbenches and workloads ask for one of a
//! few dozen things, and what they ask for is most of what is kept of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use api::foreign::Shared;
use serde::Serialize;

/// So many values are never too many to look through.
const FEW: usize = 64;

/// Every value that some object has. It does not keep a value that no object has any more.
#[derive(Debug)]
pub(super) struct Pool<T> {
    /// By the digest of how it is written.
    known: BTreeMap<String, Weak<T>>,
    /// How many there were when those that are gone were last taken out.
    last: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), last: 0 }
    }
}

impl<T: Serialize + PartialEq> Pool<T> {
    /// Puts the value that others have in the place of an equal one.
    pub(super) fn share(&mut self, value: &mut Shared<T>) {
        let text = serde_json::to_vec(&**value).expect("objects are plain data");
        let digest = planner::plan::digest(&text);
        if let Some(known) = self.known.get(&digest).and_then(Weak::upgrade) {
            // Somebody may have looked for two texts of one digest.
            if *known == **value {
                *value = Shared::of(known);
            }
            return;
        }
        self.known.insert(digest, Arc::downgrade(value.inner()));
        if self.known.len() > FEW.max(2 * self.last) {
            self.known.retain(|_, known| known.strong_count() > 0);
            self.last = self.known.len();
        }
    }

    /// How many values are known, those that are gone and not taken out yet included.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(pool: &mut Pool<String>, text: &str) -> Shared<String> {
        let mut value = Shared::new(text.to_owned());
        pool.share(&mut value);
        value
    }

    #[test]
    fn equal_values_are_one_and_go_with_the_last_who_has_them() {
        let mut pool = Pool::default();
        let [a, b, other] = ["same", "same", "other"].map(|text| shared(&mut pool, text));
        assert!(Arc::ptr_eq(a.inner(), b.inner()) && !Arc::ptr_eq(a.inner(), other.inner()));
        assert_eq!((a.as_str(), other.as_str()), ("same", "other"));
        let weak = Arc::downgrade(a.inner());
        drop((a, b));
        assert_eq!(weak.strong_count(), 0);
        assert_eq!(shared(&mut pool, "same").as_str(), "same");
    }

    #[test]
    fn values_that_nobody_has_any_more_do_not_pile_up() {
        let mut pool = Pool::default();
        let kept: Vec<_> = (0..10).map(|n| shared(&mut pool, &format!("kept {n}"))).collect();
        for n in 0..1000 {
            shared(&mut pool, &n.to_string());
        }
        assert!(pool.len() <= 2 * FEW, "{}", pool.len());
        assert_eq!(kept.len(), 10);
    }
}
