//! Every legal state of one GPU, and what follows from the list: which states
//! contain which, which are full, which multisets of profiles exist.
//!
//! A GPU of seven slices has 18 placements and 723 legal states (`+me` and
//! graphics profiles aside), so the planner does not search: it looks up. The
//! list is built once per geometry and shared by all GPUs and models that
//! have it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::geometry::Geometry;
use crate::layout::{Counts, Layout};

/// The position of a state in its lattice. States are in ascending order of
/// their bits, so state 0 is the empty GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateIndex(pub u32);

/// The position of a multiset of profiles in its lattice; 0 is the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MultisetIndex(pub u32);

/// A geometry with so many legal states that listing them makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this geometry has more than {limit} legal layouts, which no GPU has; check its starts and sizes")]
pub struct TooManyStates {
    /// How many were listed before giving up.
    pub limit: usize,
}

/// All legal states of a geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lattice {
    states: Vec<Layout>,
    free: Vec<Layout>,
    multiset_of: Vec<MultisetIndex>,
    multisets: Vec<Counts>,
}

impl Lattice {
    /// More states than this are refused: twenty times what the richest known
    /// geometry has, and a list that still takes less than 2 MiB.
    pub const LIMIT: usize = 1 << 16;

    /// Lists the legal states of a geometry.
    ///
    /// # Errors
    /// If there are more than [`Self::LIMIT`] states. No model of the
    /// catalogue is near; a geometry read from a file may be.
    pub fn enumerate(geometry: &Geometry) -> Result<Self, TooManyStates> {
        let mut states = Vec::new();
        let every = geometry.placements().collect();
        let listed = geometry.for_each_extension(Layout::EMPTY, every, &mut |state| {
            if states.len() >= Self::LIMIT {
                return ControlFlow::Break(TooManyStates { limit: Self::LIMIT });
            }
            states.push(state);
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(too_many) = listed {
            return Err(too_many);
        }
        states.sort_unstable();

        let free = states.iter().map(|state| geometry.free(*state)).collect();
        let counts: Vec<Counts> = states.iter().map(|state| geometry.counts(*state)).collect();
        let mut index: BTreeMap<Counts, MultisetIndex> =
            counts.iter().map(|counts| (counts.clone(), MultisetIndex(0))).collect();
        for (position, place) in index.values_mut().enumerate() {
            *place = MultisetIndex(u32::try_from(position).expect("no more than the states"));
        }
        let multiset_of = counts.iter().map(|counts| index[counts]).collect();
        Ok(Self { states, free, multiset_of, multisets: index.into_keys().collect() })
    }

    /// All states, ascending by their bits: the empty one first.
    #[must_use]
    pub fn states(&self) -> &[Layout] {
        &self.states
    }

    /// The indices of all states, ascending.
    pub fn indices(&self) -> impl ExactSizeIterator<Item = StateIndex> + use<> {
        (0..u32::try_from(self.states.len()).expect("at most LIMIT")).map(StateIndex)
    }

    /// One state.
    ///
    /// # Panics
    /// If the index is of another lattice; so in all methods that take one.
    #[must_use]
    pub fn state(&self, state: StateIndex) -> Layout {
        self.states[at(state)]
    }

    /// The index of a layout; `None` if it is not legal.
    #[must_use]
    pub fn find(&self, layout: Layout) -> Option<StateIndex> {
        let position = self.states.binary_search(&layout).ok()?;
        Some(StateIndex(u32::try_from(position).expect("at most LIMIT")))
    }

    /// The placements that can still be added to a state.
    #[must_use]
    pub fn free(&self, state: StateIndex) -> Layout {
        self.free[at(state)]
    }

    /// Whether nothing can be added to a state.
    #[must_use]
    pub fn is_maximal(&self, state: StateIndex) -> bool {
        self.free(state).is_empty()
    }

    /// The states to which nothing can be added, ascending.
    pub fn maximal(&self) -> impl Iterator<Item = StateIndex> + '_ {
        self.indices().filter(|state| self.is_maximal(*state))
    }

    /// The states that contain every placement of `layout`, itself included,
    /// ascending. None if `layout` is not legal.
    pub fn supersets(&self, layout: Layout) -> impl Iterator<Item = StateIndex> + '_ {
        // A superset is never less as a number, so the scan starts there.
        let first = self.states.partition_point(|state| *state < layout);
        self.indices().skip(first).filter(move |state| layout.is_subset_of(self.state(*state)))
    }

    /// The different multisets of profiles of all states, in the order of
    /// [`Counts`], the empty one first.
    #[must_use]
    pub fn multisets(&self) -> &[Counts] {
        &self.multisets
    }

    /// The multiset of a state.
    #[must_use]
    pub fn multiset_of(&self, state: StateIndex) -> MultisetIndex {
        self.multiset_of[at(state)]
    }

    /// The number of slices of each profile in a state.
    #[must_use]
    pub fn counts(&self, state: StateIndex) -> &Counts {
        &self.multisets[usize::try_from(self.multiset_of(state).0).expect("an index in memory")]
    }

    /// The index of a multiset; `None` if no state has it, so that it does not
    /// fit one GPU.
    #[must_use]
    pub fn find_multiset(&self, counts: &Counts) -> Option<MultisetIndex> {
        let position = self.multisets.binary_search(counts).ok()?;
        Some(MultisetIndex(u32::try_from(position).expect("at most LIMIT")))
    }

    /// The states that have this multiset, ascending.
    pub fn states_of(&self, multiset: MultisetIndex) -> impl Iterator<Item = StateIndex> + '_ {
        self.indices().filter(move |state| self.multiset_of(*state) == multiset)
    }
}

fn at(state: StateIndex) -> usize {
    usize::try_from(state.0).expect("an index in memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{GeometryError, ProfileSpec};

    fn geometry(memory: u8, compute: u8, profiles: &[(&str, u8, &[u8])]) -> Geometry {
        let profiles = profiles
            .iter()
            .map(|(name, size, starts)| {
                let name: crate::ProfileName = name.parse().unwrap();
                ProfileSpec { name, compute: name.compute, size: *size, starts: starts.to_vec() }
            })
            .collect();
        Geometry::new(memory, compute, profiles).unwrap()
    }

    fn seven_slices(double_memory: bool) -> Geometry {
        let mut profiles: Vec<(&str, u8, &[u8])> = vec![("1g.10gb", 1, &[0, 1, 2, 3, 4, 5, 6])];
        if double_memory {
            profiles.push(("1g.20gb", 2, &[0, 2, 4, 6]));
        }
        profiles.extend([
            ("2g.20gb", 2, &[0, 2, 4][..]),
            ("3g.40gb", 4, &[0, 4]),
            ("4g.40gb", 4, &[0]),
            ("7g.80gb", 8, &[0]),
        ]);
        geometry(8, 7, &profiles)
    }

    fn a30() -> Geometry {
        geometry(4, 4, &[("1g.6gb", 1, &[0, 1, 2, 3]), ("2g.12gb", 2, &[0, 2]), ("4g.24gb", 4, &[0])])
    }

    #[track_caller]
    fn check(geometry: &Geometry, placements: usize, states: usize, multisets: usize, maximal: usize) {
        let lattice = Lattice::enumerate(geometry).unwrap();
        assert_eq!(geometry.placement_count(), placements, "placements");
        assert_eq!(lattice.states().len(), states, "states");
        assert_eq!(lattice.multisets().len(), multisets, "multisets");
        assert_eq!(lattice.maximal().count(), maximal, "maximal states");
    }

    #[test]
    fn a_gpu_of_seven_slices_has_723_states() {
        check(&seven_slices(true), 18, 723, 78, 78);
    }

    #[test]
    fn without_the_double_memory_slice_it_has_298() {
        check(&seven_slices(false), 14, 298, 38, 19);
    }

    #[test]
    fn an_a30_has_26() {
        check(&a30(), 7, 26, 10, 5);
    }

    #[test]
    fn memory_alone_keeps_seven_slices_within_their_compute() {
        let unlimited = geometry(8, 255, &[("7g.80gb", 8, &[0])]);
        assert_eq!(unlimited.compute(), 255);
        let bounded = seven_slices(true);
        let free = Geometry::new(8, 255, bounded.profiles().to_vec()).unwrap();
        assert_eq!(
            Lattice::enumerate(&free).unwrap().states(),
            Lattice::enumerate(&bounded).unwrap().states()
        );
    }

    #[test]
    fn pairs_of_a_state_and_a_superset_are_as_many_as_measured() {
        for (geometry, pairs) in [(seven_slices(true), 11_593), (a30(), 123)] {
            let lattice = Lattice::enumerate(&geometry).unwrap();
            let counted: usize = lattice.states().iter().map(|state| lattice.supersets(*state).count()).sum();
            assert_eq!(counted, pairs);
        }
    }

    #[test]
    fn the_list_holds_exactly_the_subsets_that_are_legal() {
        let geometry = seven_slices(true);
        let lattice = Lattice::enumerate(&geometry).unwrap();
        for bits in 0..1u64 << geometry.placement_count() {
            let layout = Layout::from_bits(bits);
            assert_eq!(lattice.find(layout).is_some(), geometry.is_legal(layout), "{layout:?}");
        }
    }

    #[test]
    fn a_state_and_its_multiset_find_each_other() {
        let lattice = Lattice::enumerate(&seven_slices(true)).unwrap();
        for state in lattice.indices() {
            let multiset = lattice.find_multiset(lattice.counts(state)).unwrap();
            assert_eq!(multiset, lattice.multiset_of(state));
            assert!(lattice.states_of(multiset).any(|other| other == state));
            assert_eq!(lattice.find(lattice.state(state)), Some(state));
        }
    }

    #[test]
    fn compute_can_be_what_binds() {
        // Four units, and compute for two slices only.
        check(&geometry(4, 2, &[("1g.6gb", 1, &[0, 1, 2, 3])]), 4, 1 + 4 + 6, 3, 6);
    }

    #[test]
    fn a_geometry_without_end_is_refused() -> Result<(), GeometryError> {
        let starts: Vec<u8> = (0..16).collect();
        let profiles = ["1g.1gb", "1g.1gb+gfx", "1g.1gb-me"].map(|name| ProfileSpec {
            name: name.parse().unwrap(),
            compute: 1,
            size: 1,
            starts: starts.clone(),
        });
        let geometry = Geometry::new(16, 16, profiles.to_vec())?;
        assert_eq!(Lattice::enumerate(&geometry), Err(TooManyStates { limit: Lattice::LIMIT }));
        Ok(())
    }
}
