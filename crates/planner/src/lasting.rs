//! Values that last while they are asked for: what nobody asked for in a turn and in the one before is forgotten.

use std::collections::BTreeMap;

/// Values by key, with the size of each, of this turn and of the one before.
#[derive(Clone, Debug)]
pub(crate) struct Lasting<K, V> {
    now: BTreeMap<K, (V, usize)>,
    before: BTreeMap<K, (V, usize)>,
    /// The sizes of what was asked for in this turn.
    size: usize,
    /// Beyond it nothing more of this turn is kept.
    most: usize,
}

impl<K: Ord, V: Clone> Lasting<K, V> {
    /// Keeps values of so much size in each turn: at no time more than twice as much.
    pub(crate) const fn new(most: usize) -> Self {
        Self { now: BTreeMap::new(), before: BTreeMap::new(), size: 0, most }
    }

    /// Begins a turn.
    pub(crate) fn begin(&mut self) {
        self.before = std::mem::take(&mut self.now);
        self.size = 0;
    }

    /// The value of a key, which lasts for another turn.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.now.get(key) {
            return Some(value.clone());
        }
        let (key, (value, size)) = self.before.remove_entry(key)?;
        self.keep(key, value.clone(), size);
        Some(value)
    }

    /// Keeps a value, if there is space for it.
    pub(crate) fn keep(&mut self, key: K, value: V, size: usize) {
        if self.size.saturating_add(size) <= self.most {
            self.size += size;
            self.now.insert(key, (value, size));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_in_every_turn_lasts_and_what_is_not_goes_after_two() {
        let mut lasting = Lasting::new(10);
        lasting.keep("often", 1, 1);
        lasting.keep("seldom", 2, 1);
        lasting.begin();
        assert_eq!((lasting.get(&"often"), lasting.get(&"never")), (Some(1), None));
        lasting.begin();
        assert_eq!((lasting.get(&"often"), lasting.get(&"seldom")), (Some(1), None));
    }

    #[test]
    fn no_more_is_kept_than_there_is_space_for() {
        let mut lasting = Lasting::new(10);
        for key in 0..100 {
            lasting.keep(key, (), 3);
        }
        lasting.begin();
        let kept = (0..100).filter(|key| lasting.get(key).is_some()).count();
        assert_eq!(kept, 3);
    }
}
