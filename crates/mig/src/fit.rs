//! Whether slices fit one GPU together, where, and if not, why not.

use crate::driver::{default_order, remaining};
use crate::geometry::{Geometry, media_excludes};
use crate::index::{PlacementIndex, ProfileIndex};
use crate::layout::{Counts, Layout, join, or};
use crate::name::ProfileName;

/// Where slices go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Their placements.
    pub layout: Layout,
    /// An order of creation in which the driver's default puts each of them
    /// exactly there; `None` if the placements must be given.
    pub creation_order: Option<Vec<PlacementIndex>>,
}

/// Why slices do not fit one GPU together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFit {
    /// Too much compute.
    #[error("they need {needed} compute slices, and the GPU has {available}{}", beside(*.taken))]
    Compute {
        /// What they need.
        needed: u32,
        /// What is left for them.
        available: u32,
        /// What others hold.
        taken: u32,
    },
    /// Too much memory.
    #[error("they need {needed} memory units, and the GPU has {available}{}", beside(*.taken))]
    Memory {
        /// What they need.
        needed: u32,
        /// What is left for them.
        available: u32,
        /// What others hold.
        taken: u32,
    },
    /// The same media engines twice.
    #[error("{first} and {second} want the same media engines, and a GPU has them once")]
    Media {
        /// One of the two.
        first: ProfileName,
        /// The other, or the same profile again.
        second: ProfileName,
    },
    /// More of one profile than it has places for.
    #[error(
        "{asked} {profile} are asked for, and there is room for {possible}: {profile} starts at {} only",
        or(starts)
    )]
    TooManyOfOne {
        /// The profile.
        profile: ProfileName,
        /// How many were asked for.
        asked: u32,
        /// How many have room if nothing else is added.
        possible: u8,
        /// Where the profile may start.
        starts: Vec<u8>,
    },
    /// Enough of everything, and still no arrangement.
    #[error(
        "compute and memory would suffice, but no choice of starts keeps them apart: {}{}",
        starts_of(starts),
        instead(without)
    )]
    Arrangement {
        /// Where each of the profiles may start.
        starts: Vec<(ProfileName, Vec<u8>)>,
        /// The profiles of which one slice fewer makes the rest fit.
        without: Vec<ProfileName>,
    },
}

fn beside(taken: u32) -> String {
    if taken == 0 { String::new() } else { format!(" left beside the {taken} that others hold") }
}

fn starts_of(starts: &[(ProfileName, Vec<u8>)]) -> String {
    let parts: Vec<String> =
        starts.iter().map(|(name, starts)| format!("{name} starts at {}", or(starts))).collect();
    join(&parts)
}

fn instead(without: &[ProfileName]) -> String {
    if without.is_empty() { String::new() } else { format!("; the rest fits without one {}", or(without)) }
}

/// Whether these slices fit one empty GPU together.
///
/// # Errors
/// Says why they do not.
pub fn fit(geometry: &Geometry, counts: &Counts) -> Result<Fit, NoFit> {
    fit_beside(geometry, Layout::EMPTY, counts)
}

/// Whether these slices fit one GPU beside those that are there. The result
/// holds the new slices only. A layout that the driver's default placement
/// reaches comes before all others.
///
/// # Errors
/// Says why they do not.
pub fn fit_beside(geometry: &Geometry, there: Layout, counts: &Counts) -> Result<Fit, NoFit> {
    if let Some(order) = default_order(geometry, there, counts) {
        return Ok(Fit { layout: order.iter().copied().collect(), creation_order: Some(order) });
    }
    if let Some(layout) = arrange(geometry, there, counts) {
        return Ok(Fit { layout, creation_order: None });
    }
    Err(why_not(geometry, there, counts))
}

/// Some arrangement, if there is one: every choice of starts is tried.
fn arrange(geometry: &Geometry, there: Layout, counts: &Counts) -> Option<Layout> {
    let mut wanted: Vec<ProfileIndex> =
        counts.iter().flat_map(|(profile, count)| (0..count).map(move |_| profile)).collect();
    // Large slices have few starts: they fail early.
    wanted.sort_by_key(|profile| std::cmp::Reverse(geometry.profile(*profile).size));
    place_all(geometry, there, &wanted, None).map(|layout| layout.difference(there))
}

fn place_all(
    geometry: &Geometry,
    layout: Layout,
    wanted: &[ProfileIndex],
    last: Option<PlacementIndex>,
) -> Option<Layout> {
    let Some((profile, rest)) = wanted.split_first() else {
        return Some(layout);
    };
    geometry
        .free(layout)
        .iter()
        .filter(|placement| geometry.profile_of(*placement) == *profile)
        // Slices of one profile are alike: their starts ascend.
        .filter(|placement| {
            last.is_none_or(|last| geometry.profile_of(last) != *profile || last < *placement)
        })
        .find_map(|placement| place_all(geometry, layout.with(placement), rest, Some(placement)))
}

/// The reason, from the plainest to the most particular.
fn why_not(geometry: &Geometry, there: Layout, counts: &Counts) -> NoFit {
    let sum = |of: &dyn Fn(ProfileIndex) -> u8| -> u32 {
        counts.iter().map(|(profile, n)| u32::from(of(profile)) * u32::from(n)).sum()
    };
    let needed = sum(&|profile| geometry.profile(profile).compute);
    let taken = geometry.compute_of(there);
    let available = u32::from(geometry.compute()).saturating_sub(taken);
    if needed > available {
        return NoFit::Compute { needed, available, taken };
    }
    let needed = sum(&|profile| geometry.profile(profile).size);
    let taken = there.iter().fold(0, |units, placement| units | geometry.units(placement)).count_ones();
    let available = u32::from(geometry.memory()).saturating_sub(taken);
    if needed > available {
        return NoFit::Memory { needed, available, taken };
    }
    if let Some((first, second)) = media_twice(geometry, there, counts) {
        return NoFit::Media { first, second };
    }
    for (profile, asked) in counts.iter() {
        let possible = remaining(geometry, there, profile);
        if asked > possible {
            let spec = geometry.profile(profile);
            let (asked, starts) = (u32::from(asked), spec.starts.clone());
            return NoFit::TooManyOfOne { profile: spec.name, asked, possible, starts };
        }
    }
    let profiles = || counts.iter().map(|(profile, _)| profile);
    let fits_without = |profile: ProfileIndex| {
        let fewer = counts.iter().map(|(p, n)| (p, if p == profile { n - 1 } else { n })).collect();
        arrange(geometry, there, &fewer).is_some()
    };
    let spec = |profile| geometry.profile(profile);
    NoFit::Arrangement {
        starts: profiles().map(|profile| (spec(profile).name, spec(profile).starts.clone())).collect(),
        without: profiles().filter(|p| fits_without(*p)).map(|profile| spec(profile).name).collect(),
    }
}

/// Two slices, of which at least one is wanted, that exclude each other for
/// their media engines.
fn media_twice(geometry: &Geometry, there: Layout, counts: &Counts) -> Option<(ProfileName, ProfileName)> {
    let name = |profile| geometry.profile(profile).name;
    let held = there.iter().map(|placement| name(geometry.profile_of(placement)));
    let wanted: Vec<ProfileName> =
        counts.iter().flat_map(|(profile, n)| (0..n.min(2)).map(move |_| name(profile))).collect();
    let all: Vec<ProfileName> = held.chain(wanted.iter().copied()).collect();
    for (index, second) in wanted.iter().enumerate() {
        let before = &all[..all.len() - wanted.len() + index];
        let excludes = |first: &&ProfileName| media_excludes(first.attribute, second.attribute);
        if let Some(first) = before.iter().find(excludes) {
            return Some((*first, *second));
        }
    }
    None
}
