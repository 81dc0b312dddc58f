//! The fleet as it was planned for last: only GPUs that have changed since are looked at anew.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::problem::Gpu;

/// The class of a GPU: its table, and its class there.
type Key = (usize, usize);

/// The GPUs of the last plan, with the class of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    gpus: Vec<Gpu>,
    keys: Vec<Key>,
    /// The positions, by id.
    order: Vec<usize>,
    count: HashMap<Key, u32>,
    /// The classes that were met, sorted as the last caller sorts them.
    sorted: Vec<Key>,
}

impl Fleet {
    /// Looks at the GPUs that are not as they were. A class, once said, stays.
    pub(super) fn look(&mut self, gpus: &[Gpu], mut class: impl FnMut(&Gpu) -> Key) {
        let same_ids = self.gpus.len() == gpus.len() && self.gpus.iter().zip(gpus).all(|(a, b)| a.id == b.id);
        if !same_ids {
            self.gpus = gpus.to_vec();
            self.keys = gpus.iter().map(&mut class).collect();
            self.order = (0..gpus.len()).collect();
            self.order.sort_unstable_by(|a, b| gpus[*a].id.cmp(&gpus[*b].id));
            self.count.clear();
            for key in &self.keys {
                *self.count.entry(*key).or_default() += 1;
            }
            return;
        }
        for ((known, gpu), key) in self.gpus.iter_mut().zip(gpus).zip(&mut self.keys) {
            let is_same = known.model == gpu.model && known.in_use == gpu.in_use && known.idle == gpu.idle;
            if is_same {
                continue;
            }
            known.clone_from(gpu);
            let before = std::mem::replace(key, class(gpu));
            self.count.entry(before).and_modify(|n| *n -= 1);
            *self.count.entry(*key).or_default() += 1;
        }
    }

    /// The classes and how many GPUs each has, sorted.
    pub(super) fn counted(&mut self, by: impl Fn(&Key, &Key) -> Ordering) -> Vec<(Key, u32)> {
        let known: std::collections::HashSet<Key> = self.sorted.iter().copied().collect();
        let mut new: Vec<Key> = self.count.keys().copied().filter(|key| !known.contains(key)).collect();
        if new.len() > known.len() / 8 {
            self.sorted.append(&mut new);
            self.sorted.sort_by(by);
        } else {
            for key in new {
                let place = self.sorted.partition_point(|other| by(other, &key) == Ordering::Less);
                self.sorted.insert(place, key);
            }
        }
        let counts = self.sorted.iter().map(|key| (*key, self.count.get(key).copied().unwrap_or(0)));
        counts.filter(|(_, n)| *n > 0).collect()
    }

    /// The GPUs by id: the position and the class of each.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (usize, Key)> {
        self.order.iter().map(|g| (*g, self.keys[*g]))
    }
}
