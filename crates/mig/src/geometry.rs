//! The geometry of a GPU: profiles, where each may start, and which
//! placements exclude one another. Models that differ only in memory size and
//! names have equal geometries with different names.

use serde::{Deserialize, Serialize};

use crate::index::{PlacementIndex, ProfileIndex};
use crate::layout::{Counts, Layout, LayoutError, join};
use crate::name::{Attribute, ProfileName};

/// One profile of a geometry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProfileSpec {
    /// Its name.
    pub name: ProfileName,
    /// Compute slices that one instance takes.
    pub compute: u8,
    /// Memory units of the placement grid that one instance takes.
    pub size: u8,
    /// Where it may start, in memory units, ascending.
    pub starts: Vec<u8>,
}

/// Profiles, placements and what excludes what. Written down it is its table
/// of profiles; read, the table is checked as any other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Table", try_from = "Table")]
pub struct Geometry {
    memory: u8,
    compute: u8,
    profiles: Vec<ProfileSpec>,
    placements: Vec<(ProfileIndex, u8)>,
    units: Vec<u16>,
    conflicts: Vec<Layout>,
}

/// What of a geometry is not computed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    memory: u8,
    compute: u8,
    profiles: Vec<ProfileSpec>,
}

impl From<Geometry> for Table {
    fn from(geometry: Geometry) -> Self {
        let Geometry { memory, compute, profiles, placements: _, units: _, conflicts: _ } = geometry;
        Self { memory, compute, profiles }
    }
}

impl TryFrom<Table> for Geometry {
    type Error = GeometryError;

    fn try_from(table: Table) -> Result<Self, GeometryError> {
        let Table { memory, compute, profiles } = table;
        Self::new(memory, compute, profiles)
    }
}

/// Why a table of profiles is not a geometry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The grid is empty, or larger than any that exists.
    #[error("a placement grid of {units} memory units is not possible: 1 to 16 are")]
    Grid {
        /// What was given.
        units: u8,
    },
    /// A profile takes nothing, or more than there is.
    #[error("profile {profile}: {field} is {value}; 1 to {max} are possible")]
    Size {
        /// The profile.
        profile: ProfileName,
        /// `size` or `compute`.
        field: &'static str,
        /// What was given.
        value: u8,
        /// The largest possible.
        max: u8,
    },
    /// A start off the grid, or twice, or out of order.
    #[error(
        "profile {profile}: start {start} is off the grid: with size {size} on {units} units, starts are ascending and at most {last}"
    )]
    Start {
        /// The profile.
        profile: ProfileName,
        /// The start.
        start: u8,
        /// The profile's size.
        size: u8,
        /// The grid.
        units: u8,
        /// The last start on the grid.
        last: u8,
    },
    /// A profile without any start.
    #[error("profile {profile}: there is no start; name at least one")]
    NoStart {
        /// The profile.
        profile: ProfileName,
    },
    /// Two profiles of one name.
    #[error("profile {profile} is there twice; names are unique: {}", join(names))]
    Duplicate {
        /// The name.
        profile: ProfileName,
        /// All names.
        names: Vec<ProfileName>,
    },
    /// More placements than a layout has bits.
    #[error("{count} placements are more than the 64 that a layout can hold")]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl Geometry {
    /// Builds a geometry of `memory` placement units and `compute` slices.
    ///
    /// # Errors
    /// Names the profile and the field that is impossible.
    pub fn new(memory: u8, compute: u8, profiles: Vec<ProfileSpec>) -> Result<Self, GeometryError> {
        if !(1..=16).contains(&memory) {
            return Err(GeometryError::Grid { units: memory });
        }
        let names: Vec<_> = profiles.iter().map(|p| p.name).collect();
        let mut placements = Vec::new();
        let mut units = Vec::new();
        for (index, spec) in profiles.iter().enumerate() {
            let ProfileSpec { name, compute: takes, size, starts } = spec;
            let profile = *name;
            if names[..index].contains(name) {
                return Err(GeometryError::Duplicate { profile, names });
            }
            for (field, value, max) in [("size", *size, memory), ("compute", *takes, compute)] {
                if !(1..=max).contains(&value) {
                    return Err(GeometryError::Size { profile, field, value, max });
                }
            }
            if starts.is_empty() {
                return Err(GeometryError::NoStart { profile });
            }
            let last = memory - size;
            for (i, start) in starts.iter().enumerate() {
                if *start > last || i > 0 && starts[i - 1] >= *start {
                    return Err(GeometryError::Start {
                        profile,
                        start: *start,
                        size: *size,
                        units: memory,
                        last,
                    });
                }
                let index =
                    u8::try_from(index).map_err(|_| GeometryError::TooMany { count: profiles.len() })?;
                placements.push((ProfileIndex(index), *start));
                units.push((((1u32 << size) - 1) << start) as u16);
            }
        }
        if placements.len() > 64 {
            return Err(GeometryError::TooMany { count: placements.len() });
        }
        let mut conflicts = Vec::with_capacity(placements.len());
        for a in 0..placements.len() {
            let bits = (0..placements.len())
                .filter(|&b| {
                    let attribute = |i: usize| profiles[usize::from(placements[i].0.0)].name.attribute;
                    a == b || units[a] & units[b] != 0 || media_excludes(attribute(a), attribute(b))
                })
                .fold(0u64, |bits, b| bits | 1 << b);
            conflicts.push(Layout::from_bits(bits));
        }
        Ok(Self { memory, compute, profiles, placements, units, conflicts })
    }

    /// The same GPU with some of its profiles only, in the same order. Indices
    /// of profiles and placements are new; names stay.
    #[must_use]
    pub fn subset(&self, keep: impl Fn(&ProfileSpec) -> bool) -> Self {
        let profiles = self.profiles.iter().filter(|profile| keep(profile)).cloned().collect();
        Self::new(self.memory, self.compute, profiles).expect("each profile was checked before")
    }

    /// The same GPU with the profiles that have no suffix: those that differ
    /// in more than media engines or graphics.
    #[must_use]
    pub fn plain(&self) -> Self {
        self.subset(|profile| profile.name.attribute == Attribute::Plain)
    }

    /// Memory units of the placement grid.
    #[must_use]
    pub const fn memory(&self) -> u8 {
        self.memory
    }

    /// Compute slices of the GPU.
    #[must_use]
    pub const fn compute(&self) -> u8 {
        self.compute
    }

    /// The profiles, in the table's order.
    #[must_use]
    pub fn profiles(&self) -> &[ProfileSpec] {
        &self.profiles
    }

    /// One profile.
    ///
    /// # Panics
    /// If the index is of another geometry.
    #[must_use]
    pub fn profile(&self, profile: ProfileIndex) -> &ProfileSpec {
        &self.profiles[usize::from(profile.0)]
    }

    /// The profile of this name.
    #[must_use]
    pub fn profile_named(&self, name: ProfileName) -> Option<ProfileIndex> {
        let index = self.profiles.iter().position(|p| p.name == name)?;
        Some(ProfileIndex(u8::try_from(index).expect("checked in new")))
    }

    /// The number of placements; they are numbered from 0.
    #[must_use]
    pub fn placement_count(&self) -> usize {
        self.placements.len()
    }

    /// All placements, in order.
    pub fn placements(&self) -> impl Iterator<Item = PlacementIndex> + '_ {
        (0..self.placements.len()).map(|i| PlacementIndex(u8::try_from(i).expect("checked in new")))
    }

    /// The placement of a profile at a start, if it may start there.
    #[must_use]
    pub fn placement(&self, profile: ProfileIndex, start: u8) -> Option<PlacementIndex> {
        let index = self.placements.iter().position(|p| *p == (profile, start))?;
        Some(PlacementIndex(u8::try_from(index).expect("checked in new")))
    }

    /// The profile of a placement.
    #[must_use]
    pub fn profile_of(&self, placement: PlacementIndex) -> ProfileIndex {
        self.placements[usize::from(placement.0)].0
    }

    /// Where a placement starts, in memory units.
    #[must_use]
    pub fn start_of(&self, placement: PlacementIndex) -> u8 {
        self.placements[usize::from(placement.0)].1
    }

    /// A placement's profile name and start.
    #[must_use]
    pub fn describe(&self, placement: PlacementIndex) -> (ProfileName, u8) {
        (self.profile(self.profile_of(placement)).name, self.start_of(placement))
    }

    /// The memory units that a placement takes, unit 0 being the lowest bit.
    #[must_use]
    pub fn units(&self, placement: PlacementIndex) -> u16 {
        self.units[usize::from(placement.0)]
    }

    /// The placements that cannot be on one GPU with this one (itself
    /// included, since it is there once only).
    #[must_use]
    pub fn conflicts(&self, placement: PlacementIndex) -> Layout {
        self.conflicts[usize::from(placement.0)]
    }

    /// The compute slices that a layout takes.
    #[must_use]
    pub fn compute_of(&self, layout: Layout) -> u32 {
        layout.iter().map(|p| u32::from(self.profile(self.profile_of(p)).compute)).sum()
    }

    /// The placements that can still be added to a legal layout.
    #[must_use]
    pub fn free(&self, layout: Layout) -> Layout {
        let taken = layout.iter().fold(Layout::EMPTY, |taken, p| taken.union(self.conflicts(p)));
        let left = u32::from(self.compute).saturating_sub(self.compute_of(layout));
        self.placements()
            .filter(|p| !taken.contains(*p) && u32::from(self.profile(self.profile_of(*p)).compute) <= left)
            .collect()
    }

    /// Whether all placements of a layout can be on one GPU together.
    #[must_use]
    pub fn is_legal(&self, layout: Layout) -> bool {
        layout.bits().checked_shr(u32::try_from(self.placements.len()).expect("at most 64")).unwrap_or(0) == 0
            && layout.iter().all(|p| self.conflicts(p).bits() & layout.bits() == 1 << p.0)
            && self.compute_of(layout) <= u32::from(self.compute)
    }

    /// The layout with these placements, if it is legal.
    ///
    /// # Errors
    /// Names the first placement that is not possible, and what is.
    pub fn layout<I>(&self, placements: I) -> Result<Layout, LayoutError>
    where
        I: IntoIterator<Item = (ProfileName, u8)>,
    {
        let mut layout = Layout::EMPTY;
        for (name, start) in placements {
            let profile = self.profile_named(name).ok_or_else(|| LayoutError::UnknownProfile {
                profile: name,
                known: self.profiles().iter().map(|p| p.name).collect(),
            })?;
            let placement = self.placement(profile, start).ok_or_else(|| LayoutError::IllegalStart {
                profile: name,
                start,
                starts: self.profile(profile).starts.clone(),
            })?;
            if let Some(other) = layout.iter().find(|other| self.conflicts(*other).contains(placement)) {
                let overlap = self.units(other) & self.units(placement) != 0;
                return Err(LayoutError::Conflict {
                    first: self.describe(other),
                    second: (name, start),
                    reason: if overlap {
                        "their memory overlaps"
                    } else {
                        "they want the same media engines"
                    },
                });
            }
            layout = layout.with(placement);
        }
        let needed = self.compute_of(layout);
        if needed > u32::from(self.compute()) {
            return Err(LayoutError::Compute { needed, available: self.compute() });
        }
        Ok(layout)
    }

    /// The number of slices of each profile in a layout.
    #[must_use]
    pub fn counts(&self, layout: Layout) -> Counts {
        layout.iter().map(|placement| (self.profile_of(placement), 1)).collect()
    }
}

/// Whether two profiles want the same media engines: at most one slice has
/// `+me` or `+me.all`, and beside `+me.all` only slices without any media
/// engine are possible (`nvml.h`, on the `ALL_ME` profiles).
pub(crate) fn media_excludes(a: Attribute, b: Attribute) -> bool {
    use Attribute::{AllMedia, Media, NoMedia};
    match (a, b) {
        (AllMedia, other) | (other, AllMedia) => other != NoMedia,
        (a, b) => a == Media && b == Media,
    }
}
