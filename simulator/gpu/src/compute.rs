//! Compute instances: which profiles a GPU instance offers, and where a
//! compute instance may start inside it.
//!
//! The table holds for GPU instances of 1, 2, 3, 4 and 7 slices. Placements
//! follow the driver's tree of compute spans: halves, quarters, single slices.
//! Multiprocessors are given only where they were seen: of the default profile; evenly
//! on Ampere; on Hopper of a `1c` inside a `2g` or a `3g`, which has as many as a `1g`, and
//! of a `2c` inside a `3g`, which has as many as a `2g`. NVML says 0 of the others.

use mig::{Architecture, Attribute};

use crate::model::{MigFacts, ProfileFacts};

/// A compute instance profile inside a certain GPU instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeProfile {
    /// nvidia-smi's id, equal to `NVML_COMPUTE_INSTANCE_PROFILE_*`. Two
    /// profiles may share a name: never key by it.
    pub id: u32,
    /// Its name: that of the GPU instance for a full one, else `1c.3g.40gb`.
    pub name: String,
    /// Compute slices.
    pub slices: u8,
    /// How many at most in one GPU instance.
    pub max_instances: u8,
    /// Multiprocessors, where the number is verified.
    pub sm: Option<u32>,
    /// Where it may start, in compute slices of the GPU instance.
    pub starts: Vec<u8>,
    /// Whether `-C` creates this one.
    pub default: bool,
}

/// The profiles inside a GPU instance of a card.
pub(crate) fn profiles(gi: &ProfileFacts, mig: &MigFacts) -> Vec<ComputeProfile> {
    // id, slices, max, starts
    let rows: &[(u32, u8, u8, &[u8])] = match gi.slices {
        1 => &[(0, 1, 1, &[0])],
        2 => &[(0, 1, 2, &[0, 1]), (1, 2, 1, &[0])],
        3 => &[(0, 1, 3, &[0, 1, 2]), (1, 2, 1, &[0]), (2, 3, 1, &[0])],
        4 => &[(0, 1, 4, &[0, 1, 2, 3]), (1, 2, 2, &[0, 2]), (3, 4, 1, &[0])],
        7 => &[
            (0, 1, 7, &[0, 1, 2, 3, 4, 5, 6]),
            (1, 2, 3, &[0, 2, 4]),
            (2, 3, 2, &[0, 4]),
            (3, 4, 1, &[0]),
            (4, 7, 1, &[0]),
        ],
        _ => &[],
    };
    let mut profiles: Vec<_> = rows
        .iter()
        .map(|(id, slices, max, starts)| {
            let full = *slices == gi.slices;
            ComputeProfile {
                id: *id,
                name: if full { gi.name.to_string() } else { format!("{slices}c.{}", gi.name) },
                slices: *slices,
                max_instances: *max,
                sm: multiprocessors(gi, mig, *slices),
                starts: starts.to_vec(),
                default: full,
            }
        })
        .collect();
    if mig.architecture == Architecture::Hopper && gi.slices == 2 {
        // A second `1c`, of which a 2g has room for one: with as many multiprocessors as a 1g of more memory.
        profiles.push(ComputeProfile {
            id: 7,
            name: format!("1c.{}", gi.name),
            slices: 1,
            max_instances: 1,
            sm: whole(mig, 1).map(|profile| profile.sm).last(),
            starts: vec![0],
            default: false,
        });
    }
    profiles
}

fn multiprocessors(gi: &ProfileFacts, mig: &MigFacts, slices: u8) -> Option<u32> {
    match (mig.architecture, gi.slices, slices) {
        (_, of, slices) if of == slices => Some(gi.sm),
        (Architecture::Ampere, _, slices) => Some(14 * u32::from(slices)),
        (Architecture::Hopper, 2 | 3, 1) | (Architecture::Hopper, 3, 2) => {
            whole(mig, slices).map(|profile| profile.sm).next()
        }
        (Architecture::Hopper | Architecture::Blackwell, ..) => None,
    }
}

/// The card's plain GPU instances of so many slices, by their memory.
fn whole(mig: &MigFacts, slices: u8) -> impl Iterator<Item = &ProfileFacts> {
    let plain =
        move |profile: &&ProfileFacts| profile.slices == slices && profile.name.attribute == Attribute::Plain;
    let mut found: Vec<_> = mig.profiles.iter().filter(plain).collect();
    found.sort_by_key(|profile| profile.memory_mib);
    found.into_iter()
}

/// Where a compute instance is: its profile's id, start and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) profile: u32,
    pub(crate) start: u8,
    pub(crate) slices: u8,
}

impl Span {
    fn overlaps(self, other: Self) -> bool {
        self.start < other.start + other.slices && other.start < self.start + self.slices
    }
}

/// The starts at which a compute instance of this profile still fits.
pub(crate) fn free_starts(profile: &ComputeProfile, taken: &[Span]) -> Vec<u8> {
    let same = taken.iter().filter(|span| span.profile == profile.id).count();
    if same >= usize::from(profile.max_instances) {
        return Vec::new();
    }
    profile
        .starts
        .iter()
        .copied()
        .filter(|start| {
            let span = Span { profile: profile.id, start: *start, slices: profile.slices };
            !taken.iter().any(|other| span.overlaps(*other))
        })
        .collect()
}

/// How many more of this profile fit: its starts never overlap one another.
pub(crate) fn remaining(profile: &ComputeProfile, taken: &[Span]) -> u32 {
    let same = taken.iter().filter(|span| span.profile == profile.id).count();
    let left = usize::from(profile.max_instances).saturating_sub(same);
    u32::try_from(free_starts(profile, taken).len().min(left)).unwrap_or(u32::MAX)
}

/// The driver's choice of a start: what leaves the most possible, then the lowest.
pub(crate) fn best_start(all: &[ComputeProfile], profile: &ComputeProfile, taken: &[Span]) -> Option<u8> {
    free_starts(profile, taken).into_iter().min_by_key(|start| {
        let mut then = taken.to_vec();
        then.push(Span { profile: profile.id, start: *start, slices: profile.slices });
        let left: usize = all.iter().map(|p| free_starts(p, &then).len()).sum();
        (usize::MAX - left, *start)
    })
}
