//! The final layouts that are worth considering for one GPU.
//!
//! A GPU has slices that must stay and idle slices that may go. Every legal layout that contains the former
//! is possible; only a few matter to a planner that considers the supply of each, whether the GPU changes,
//! and how many slices are created and destroyed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use mig::{Geometry, Layout, ProfileIndex};

/// The most profiles that supply can be counted of at once. No model has more;
/// a `u128` has this many bytes.
pub const MAX_WATCHED: usize = 16;

/// What a planner needs to know of one GPU to choose its final layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuState {
    /// Slices that must stay where they are.
    pub fixed: Layout,
    /// Slices that are idle: they may be used as they are, or go.
    pub idle: Layout,
    /// Whether anything may change at all.
    pub changeable: bool,
}

/// How many free slices of each watched profile a layout has beyond the fixed
/// ones; one byte per watched profile, in the order in which they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Supply(u128);

impl Supply {
    /// How many slices of the watched profile at this position.
    #[must_use]
    pub const fn get(self, position: usize) -> u8 {
        (self.0 >> (8 * position)) as u8
    }

    /// Whether there is as much or more of every profile.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        // Counts are at most 64, so the top bit of a byte borrows for it.
        const TOP: u128 = u128::from_ne_bytes([0x80; 16]);
        ((self.0 | TOP) - other.0) & TOP == TOP
    }

    const fn one(position: usize) -> Self {
        Self(1 << (8 * position))
    }
}

/// One final layout of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayoutOption {
    /// What it supplies of the watched profiles, idle slices that stay included.
    pub supply: Supply,
    /// Slices created and destroyed on the way there; 0 only if nothing changes.
    pub operations: u8,
    /// The layout.
    pub layout: Layout,
}

impl LayoutOption {
    /// Whether the GPU changes.
    #[must_use]
    pub const fn changed(&self) -> bool {
        self.operations > 0
    }
}

/// Which layouts are dropped because another one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    /// A layout is dropped when another supplies at least as much of every
    /// watched profile, changes the GPU only if it does, and needs no more
    /// operations. Right where more supply is never worse.
    Pareto,
    /// A layout is dropped only when another has exactly the same supply with
    /// fewer operations. Right where there are upper bounds as well. What is
    /// the same in `supply` and differs otherwise (holes that stay) is one.
    Distinct,
    /// Nothing is dropped.
    All,
}

/// All legal layouts of a geometry, and the options of its GPUs.
#[derive(Clone, Debug)]
pub struct OptionTable {
    profile_of: Vec<ProfileIndex>,
    states: Vec<Layout>,
    /// For each set of fixed slices that was asked for, the states that contain it.
    supersets: HashMap<Layout, Vec<Layout>>,
}

impl OptionTable {
    /// Enumerates the legal layouts of a geometry.
    #[must_use]
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            profile_of: geometry.placements().map(|p| geometry.profile_of(p)).collect(),
            states: legal_layouts(geometry),
            supersets: HashMap::new(),
        }
    }

    /// All legal layouts, ascending by bits; the empty one is the first.
    #[must_use]
    pub fn states(&self) -> &[Layout] {
        &self.states
    }

    /// The options of a GPU, counting the supply of `watched` profiles (at
    /// most [`MAX_WATCHED`]; more are not counted). Sorted by supply,
    /// operations, bits of the layout; among layouts that are equal in what is
    /// counted, the one with the lowest bits stays. Leaving the GPU as it is
    /// is always among them.
    pub fn options(&mut self, state: GpuState, watched: &[ProfileIndex], keep: Keep) -> Vec<LayoutOption> {
        let GpuState { fixed, idle, changeable } = state;
        let present = fixed.union(idle);
        let mut position = [None; 256];
        for (i, profile) in watched.iter().take(MAX_WATCHED).enumerate() {
            position[usize::from(profile.0)] = Some(i);
        }
        let profile_of = &self.profile_of;
        let option = |layout: Layout| LayoutOption {
            supply: layout
                .difference(fixed)
                .iter()
                .filter_map(|p| position[usize::from(profile_of[usize::from(p.0)].0)])
                .fold(Supply::default(), |sum, i| Supply(sum.0 + Supply::one(i).0)),
            operations: layout.operations_to(present) as u8,
            layout,
        };
        let stay = option(present);
        if !changeable {
            return vec![stay];
        }
        let states = &self.states;
        let supersets = self
            .supersets
            .entry(fixed)
            .or_insert_with(|| states.iter().copied().filter(|s| fixed.is_subset_of(*s)).collect());
        let mut options: Vec<LayoutOption> = supersets.iter().map(|layout| option(*layout)).collect();
        options.sort_unstable();
        match keep {
            Keep::All => {}
            // Sorted: the first of each supply has the fewest operations.
            Keep::Distinct => {
                options.dedup_by_key(|o| (o.supply, o.changed()));
                // Changing to what is there already is no option.
                if let Some(same) = options.iter().position(|o| o.supply == stay.supply && o.changed()) {
                    options.remove(same);
                }
            }
            Keep::Pareto => {
                options.dedup_by_key(|o| o.supply);
                let all = options.clone();
                options.retain(|a| {
                    a.layout == present
                        || !all.iter().any(|b| {
                            b.supply.covers(a.supply)
                                && b.operations <= a.operations
                                && (b.supply, b.operations) != (a.supply, a.operations)
                        })
                });
            }
        }
        options
    }
}

/// All legal layouts of a geometry, ascending by bits.
fn legal_layouts(geometry: &Geometry) -> Vec<Layout> {
    let mut found = Vec::new();
    let every = geometry.placements().collect();
    let ControlFlow::Continue(()) =
        geometry.for_each_extension::<Infallible>(Layout::EMPTY, every, &mut |layout| {
            found.push(layout);
            ControlFlow::Continue(())
        });
    found.sort_unstable();
    found
}

/// The interned options of GPU states: states whose options are equal in all
/// that is counted share a class.
#[derive(Clone, Debug)]
pub struct OptionClasses {
    table: OptionTable,
    watched: Vec<ProfileIndex>,
    keep: Keep,
    by_state: HashMap<GpuState, usize>,
    entries: Vec<StateOptions>,
    /// What is counted of each option, to the class's number.
    classes: HashMap<Vec<(Supply, u8)>, usize>,
    /// The same by number.
    counted: Vec<Vec<(Supply, u8)>>,
}

/// The options of one state, and the class that the state is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOptions {
    /// The number of the class; states of one class have equal `supply` and
    /// `operations` at every position of `options`.
    pub class: usize,
    /// The options, as [`OptionTable::options`] sorts them.
    pub options: Vec<LayoutOption>,
}

impl OptionClasses {
    /// For GPUs of a geometry, counting the supply of these profiles.
    #[must_use]
    pub fn new(geometry: &Geometry, watched: Vec<ProfileIndex>, keep: Keep) -> Self {
        Self {
            table: OptionTable::new(geometry),
            watched,
            keep,
            by_state: HashMap::new(),
            entries: Vec::new(),
            classes: HashMap::new(),
            counted: Vec::new(),
        }
    }

    /// What is counted of the options of a class: supply and operations. The
    /// numbers of classes depend on the order of the questions; this does not.
    ///
    /// # Panics
    /// If no state has that class.
    #[must_use]
    pub fn counted(&self, class: usize) -> &[(Supply, u8)] {
        &self.counted[class]
    }

    /// The options of a state; computed once for each state.
    pub fn for_state(&mut self, state: GpuState) -> &StateOptions {
        let index = match self.by_state.get(&state) {
            Some(index) => *index,
            None => {
                let options = self.table.options(state, &self.watched, self.keep);
                let counted: Vec<_> = options.iter().map(|o| (o.supply, o.operations)).collect();
                let class = match self.classes.get(&counted) {
                    Some(class) => *class,
                    None => {
                        self.classes.insert(counted.clone(), self.counted.len());
                        self.counted.push(counted);
                        self.counted.len() - 1
                    }
                };
                self.entries.push(StateOptions { class, options });
                self.by_state.insert(state, self.entries.len() - 1);
                self.entries.len() - 1
            }
        };
        &self.entries[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mig::{ProfileName, ProfileSpec};

    fn a30() -> Geometry {
        let profile = |name: &str, compute, size, starts: &[u8]| ProfileSpec {
            name: name.parse::<ProfileName>().unwrap(),
            compute,
            size,
            starts: starts.to_vec(),
        };
        let table = vec![
            profile("1g.6gb", 1, 1, &[0, 1, 2, 3]),
            profile("2g.12gb", 2, 2, &[0, 2]),
            profile("4g.24gb", 4, 4, &[0]),
        ];
        Geometry::new(4, 4, table).unwrap()
    }

    fn layout(geometry: &Geometry, text: &str) -> Layout {
        let placements = text.split_whitespace().map(|p| {
            let (name, start) = p.split_once('@').unwrap();
            (name.parse().unwrap(), start.parse().unwrap())
        });
        geometry.layout(placements).unwrap()
    }

    #[track_caller]
    fn check(fixed: &str, idle: &str, watched: &[u8], keep: Keep, expect: &[(&[u8], u8)]) {
        let geometry = a30();
        let watched: Vec<_> = watched.iter().map(|i| ProfileIndex(*i)).collect();
        let state =
            GpuState { fixed: layout(&geometry, fixed), idle: layout(&geometry, idle), changeable: true };
        let options = OptionTable::new(&geometry).options(state, &watched, keep);
        let seen: Vec<(Vec<u8>, u8)> = options
            .iter()
            .map(|o| ((0..watched.len()).map(|i| o.supply.get(i)).collect(), o.operations))
            .collect();
        let expect: Vec<_> = expect.iter().map(|(supply, n)| (supply.to_vec(), *n)).collect();
        assert_eq!(seen, expect);
        for option in options {
            assert!(geometry.is_legal(option.layout) && state.fixed.is_subset_of(option.layout));
        }
    }

    #[test]
    fn an_a30_has_26_states() {
        assert_eq!(OptionTable::new(&a30()).states().len(), 26);
    }

    #[test]
    fn an_empty_gpu_offers_the_largest_supplies_for_the_fewest_operations() {
        // Nothing, one to four small slices, all less but the maximum for each number of operations.
        check("", "", &[0], Keep::Pareto, &[(&[0], 0), (&[1], 1), (&[2], 2), (&[3], 3), (&[4], 4)]);
    }

    #[test]
    fn what_nobody_wants_is_no_option() {
        check("", "", &[2], Keep::Pareto, &[(&[0], 0), (&[1], 1)]);
    }

    #[test]
    fn a_slice_that_stays_limits_what_can_be_cut() {
        check("1g.6gb@0", "2g.12gb@2", &[1, 2], Keep::Pareto, &[(&[1, 0], 0)]);
        check("1g.6gb@0", "1g.6gb@3", &[1], Keep::Pareto, &[(&[0], 0), (&[1], 2)]);
    }

    #[test]
    fn with_upper_bounds_less_supply_is_an_option_too() {
        check("2g.12gb@0", "2g.12gb@2", &[1], Keep::Distinct, &[(&[0], 1), (&[1], 0)]);
    }

    #[test]
    fn a_gpu_that_may_not_change_keeps_its_layout() {
        let geometry = a30();
        let state = GpuState { fixed: Layout::EMPTY, idle: layout(&geometry, "1g.6gb@1"), changeable: false };
        let options = OptionTable::new(&geometry).options(state, &[ProfileIndex(0)], Keep::Pareto);
        assert_eq!(options.len(), 1);
        assert_eq!((options[0].layout, options[0].supply.get(0)), (state.idle, 1));
    }

    #[test]
    fn mirrored_states_share_a_class() {
        let geometry = a30();
        let mut classes = OptionClasses::new(&geometry, vec![ProfileIndex(1)], Keep::Pareto);
        let mut class = |fixed: &str| {
            let state = GpuState { fixed: layout(&geometry, fixed), idle: Layout::EMPTY, changeable: true };
            classes.for_state(state).class
        };
        assert_eq!(class("1g.6gb@0"), class("1g.6gb@3"));
        assert_ne!(class("1g.6gb@0"), class("1g.6gb@0 1g.6gb@3"));
    }
}
