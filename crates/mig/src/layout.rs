//! A layout: the set of placements on one GPU; and counts: how many slices of
//! each profile, wherever they are.

use std::collections::BTreeMap;

use crate::index::{PlacementIndex, ProfileIndex};
use crate::name::ProfileName;

/// A set of placements of one [`Geometry`](crate::Geometry), as bits. Whether it is legal, the
/// geometry says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout(u64);

impl Layout {
    /// No slice at all.
    pub const EMPTY: Self = Self(0);

    /// The layout with exactly these bits, placement 0 being the lowest.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, placement 0 being the lowest.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// This layout and one placement more.
    #[must_use]
    pub const fn with(self, placement: PlacementIndex) -> Self {
        Self(self.0 | 1 << placement.0)
    }

    /// This layout without one placement.
    #[must_use]
    pub const fn without(self, placement: PlacementIndex) -> Self {
        Self(self.0 & !(1 << placement.0))
    }

    /// Whether the placement is in it.
    #[must_use]
    pub const fn contains(self, placement: PlacementIndex) -> bool {
        self.0 >> placement.0 & 1 == 1
    }

    /// Whether every placement of `self` is in `other`.
    #[must_use]
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// What is in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in `self` and not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many slices are created and destroyed between the two.
    #[must_use]
    pub const fn operations_to(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }

    /// The number of slices.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is no slice.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The placements, lowest first.
    pub fn iter(self) -> impl Iterator<Item = PlacementIndex> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            (bits != 0).then(|| {
                let index = bits.trailing_zeros();
                bits &= bits - 1;
                PlacementIndex(u8::try_from(index).expect("a u64 has 64 bits"))
            })
        })
    }
}

impl FromIterator<PlacementIndex> for Layout {
    fn from_iter<I: IntoIterator<Item = PlacementIndex>>(iter: I) -> Self {
        iter.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// How many slices of each profile; a profile that is absent counts as zero,
/// and no zero is ever kept, so that equal counts compare equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counts(BTreeMap<ProfileIndex, u8>);

impl Counts {
    /// How many of this profile.
    #[must_use]
    pub fn get(&self, profile: ProfileIndex) -> u8 {
        self.0.get(&profile).copied().unwrap_or(0)
    }

    /// Adds `n` of a profile. More than 255 stay 255: no GPU has room for a
    /// quarter of that.
    pub fn add(&mut self, profile: ProfileIndex, n: u8) {
        if n > 0 {
            let count = self.0.entry(profile).or_insert(0);
            *count = count.saturating_add(n);
        }
    }

    /// The profiles and their numbers, in the geometry's order of profiles.
    pub fn iter(&self) -> impl Iterator<Item = (ProfileIndex, u8)> + '_ {
        self.0.iter().map(|(profile, n)| (*profile, *n))
    }

    /// The number of slices.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.values().map(|n| u32::from(*n)).sum()
    }

    /// Whether there is no slice.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(ProfileIndex, u8)> for Counts {
    fn from_iter<I: IntoIterator<Item = (ProfileIndex, u8)>>(iter: I) -> Self {
        let mut counts = Self::default();
        for (profile, n) in iter {
            counts.add(profile, n);
        }
        counts
    }
}

/// Why a list of placements is not a layout of a geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The geometry has no such profile.
    #[error("there is no profile {profile} here; there are {}", join(known))]
    UnknownProfile {
        /// What was asked for.
        profile: ProfileName,
        /// What there is.
        known: Vec<ProfileName>,
    },
    /// The profile cannot start there.
    #[error("{profile} cannot start at {start}; it starts at {}", join(starts))]
    IllegalStart {
        /// The profile.
        profile: ProfileName,
        /// Where it was said to start.
        start: u8,
        /// Where it may.
        starts: Vec<u8>,
    },
    /// Two of them cannot be on one GPU.
    #[error("{}@{} and {}@{} cannot be on one GPU: {reason}", first.0, first.1, second.0, second.1)]
    Conflict {
        /// One of the two, with its start.
        first: (ProfileName, u8),
        /// The other, with its start.
        second: (ProfileName, u8),
        /// What they share.
        reason: &'static str,
    },
    /// All of them together need more compute slices than there are.
    #[error("these slices need {needed} compute slices, and the GPU has {available}")]
    Compute {
        /// What they need.
        needed: u32,
        /// What there is.
        available: u8,
    },
}

pub(crate) fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// `0, 2 or 4`.
pub(crate) fn or<T: ToString>(items: &[T]) -> String {
    match items {
        [] => "nowhere".to_owned(),
        [one] => one.to_string(),
        [some @ .., last] => format!("{} or {}", join(some), last.to_string()),
    }
}
