//! What was read of single objects in the round before. An object that is the same one is not read again, and what was
//! read of ten thousand stands side by side, where a round finds it without looking into each of them.
//!
//! Objects are compared by identity, and are held by what is kept, so that no other one can come to stand in their place.

use std::collections::HashMap;
use std::sync::Arc;

/// What was read of each object of a kind, in the order of the objects.
#[derive(Debug)]
pub(crate) struct ByIdentity<T, R>(Vec<(Arc<T>, R)>);

impl<T, R> Default for ByIdentity<T, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, R> ByIdentity<T, R> {
    /// Reads those of these objects that are not the ones of before, and forgets all that are not among them. What is
    /// read of an object depends on nothing else.
    pub(crate) fn update<'o>(
        &mut self,
        objects: impl ExactSizeIterator<Item = &'o Arc<T>>,
        mut read: impl FnMut(&T) -> R,
    ) where
        T: 'o,
    {
        if objects.len() == self.0.len() {
            for (kept, object) in self.0.iter_mut().zip(objects) {
                if !Arc::ptr_eq(&kept.0, object) {
                    *kept = (Arc::clone(object), read(object));
                }
            }
            return;
        }
        // One has come or gone, and all that follow it stand elsewhere.
        let mut before: HashMap<*const T, (Arc<T>, R)> =
            self.0.drain(..).map(|kept| (Arc::as_ptr(&kept.0), kept)).collect();
        self.0.extend(objects.map(|object| {
            let kept = before.remove(&Arc::as_ptr(object));
            kept.unwrap_or_else(|| (Arc::clone(object), read(object)))
        }));
    }

    /// The objects with what was read of them, in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<T>, &R)> {
        self.0.iter().map(|(object, read)| (object, read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Updates, and says which objects were read.
    fn read_of(kept: &mut ByIdentity<u32, u32>, objects: &[Arc<u32>]) -> Vec<u32> {
        let mut read = Vec::new();
        kept.update(objects.iter(), |object| {
            read.push(*object);
            object * 10
        });
        let seen: Vec<(u32, u32)> = kept.iter().map(|(object, tenfold)| (**object, *tenfold)).collect();
        let expected: Vec<(u32, u32)> = objects.iter().map(|object| (**object, **object * 10)).collect();
        assert_eq!(seen, expected, "each with its own, in their order");
        read
    }

    #[test]
    fn only_what_is_another_object_is_read() {
        let mut kept = ByIdentity::default();
        let mut objects: Vec<Arc<u32>> = (0..4).map(Arc::new).collect();
        assert_eq!(read_of(&mut kept, &objects), [0, 1, 2, 3]);
        assert_eq!(read_of(&mut kept, &objects), [0_u32; 0]);
        objects[2] = Arc::new(7);
        assert_eq!(read_of(&mut kept, &objects), [7]);
        objects.insert(0, Arc::new(9));
        assert_eq!(read_of(&mut kept, &objects), [9], "those behind it stand elsewhere, and are the same");
        objects.remove(3);
        assert_eq!(read_of(&mut kept, &objects), [0_u32; 0]);
        objects[0] = Arc::new(9);
        assert_eq!(read_of(&mut kept, &objects), [9], "an equal one is another one");
    }

    #[test]
    fn an_object_cannot_be_changed_in_its_place_while_it_is_kept() {
        let mut kept = ByIdentity::default();
        let mut objects = [Arc::new(1)];
        read_of(&mut kept, &objects);
        *Arc::make_mut(&mut objects[0]) = 2;
        assert_eq!(read_of(&mut kept, &objects), [2]);
    }
}
