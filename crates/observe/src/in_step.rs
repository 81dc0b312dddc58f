//! Two sequences that are in the same order, gone through in step: of ten thousand, each is compared with one or two
//! others, where a search would compare it with a dozen.

use std::cmp::Ordering;
use std::iter::Peekable;

/// What is looked up in a sequence, in the order of that sequence.
pub(crate) struct InStep<I: Iterator>(Peekable<I>);

impl<I: Iterator> InStep<I> {
    pub(crate) fn new(sequence: impl IntoIterator<IntoIter = I>) -> Self {
        Self(sequence.into_iter().peekable())
    }

    /// The first item that `compare` calls equal to what is looked for. It says of an item whether it comes before what
    /// is looked for; what does is not found again, for nothing that comes before it is looked for any more.
    pub(crate) fn find(&mut self, mut compare: impl FnMut(&I::Item) -> Ordering) -> Option<&I::Item> {
        while self.0.next_if(|item| compare(item) == Ordering::Less).is_some() {}
        self.0.peek().filter(|item| compare(item) == Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_that_is_there_and_none_that_is_not() {
        let mut evens = InStep::new([0, 2, 4, 6, 8]);
        let found: Vec<i32> = (-1..11).filter(|n| evens.find(|item| item.cmp(n)).is_some()).collect();
        assert_eq!(found, [0, 2, 4, 6, 8]);
    }

    #[test]
    fn what_is_looked_for_twice_is_found_twice() {
        let mut letters = InStep::new(["a", "b", "b", "c"]);
        assert!(letters.find(|item| item.cmp(&"b")).is_some());
        assert!(letters.find(|item| item.cmp(&"b")).is_some());
        assert!(letters.find(|item| item.cmp(&"c")).is_some());
    }
}
