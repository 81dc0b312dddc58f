//! One GPU as a grid of memory units: which layouts are legal, and where the driver puts a slice if no
//! placement is given. It is derived from the profiles' starts and sizes alone.

use std::collections::BTreeSet;

use mig::{Attribute, Geometry, ProfileName, ProfileSpec};

use super::note::Problem;

type Slice = (ProfileName, u8);

fn spec(geometry: &Geometry, profile: ProfileName) -> Option<&ProfileSpec> {
    geometry.profiles().iter().find(|spec| spec.name == profile)
}

/// The first thing that is wrong with these slices on one GPU.
pub(super) fn obstacle(geometry: &Geometry, slices: &[Slice]) -> Option<Problem> {
    let mut taken = vec![false; usize::from(geometry.memory())];
    let mut needed = 0;
    for (profile, start) in slices {
        let Some(spec) = spec(geometry, *profile) else {
            return Some(Problem::UnknownProfile { profile: *profile });
        };
        if !spec.starts.contains(start) {
            return Some(Problem::IllegalStart { profile: *profile, start: *start });
        }
        for unit in *start..*start + spec.size {
            match taken.get_mut(usize::from(unit)) {
                Some(taken) if !*taken => *taken = true,
                _ => return Some(Problem::Overlap { unit }),
            }
        }
        needed += u32::from(spec.compute);
    }
    let available = u32::from(geometry.compute());
    if needed > available {
        return Some(Problem::TooMuchCompute { needed, available });
    }
    let with = |attribute| slices.iter().filter(|(p, _)| p.attribute == attribute).count();
    let all = with(Attribute::AllMedia);
    let alone = all == 0 || all == 1 && with(Attribute::NoMedia) + 1 == slices.len();
    if with(Attribute::Media) > 1 || !alone {
        return Some(Problem::MediaEngines);
    }
    None
}

/// Everything that can still be added.
fn open(geometry: &Geometry, slices: &BTreeSet<Slice>) -> Vec<Slice> {
    let candidates = geometry.profiles().iter().flat_map(|s| s.starts.iter().map(|start| (s.name, *start)));
    candidates
        .filter(|candidate| {
            let mut with: Vec<Slice> = slices.iter().copied().collect();
            with.push(*candidate);
            obstacle(geometry, &with).is_none()
        })
        .collect()
}

/// Where the driver puts a slice: at the start that leaves the most
/// placements open; among equals, at the lowest.
pub(super) fn best_fit(geometry: &Geometry, slices: &BTreeSet<Slice>, profile: ProfileName) -> Option<u8> {
    let mut best: Option<(usize, u8)> = None;
    for (_, start) in open(geometry, slices).into_iter().filter(|(name, _)| *name == profile) {
        let mut with = slices.clone();
        with.insert((profile, start));
        let left = open(geometry, &with).len();
        // Starts ascend: of equals the lowest came first.
        if best.is_none_or(|(most, _)| left > most) {
            best = Some((left, start));
        }
    }
    best.map(|(_, start)| start)
}

/// An order in which the driver's own placements lead from `from` to `to`.
/// Since every creation has to land inside `to`, at most as many paths as
/// subsets of what is missing are tried.
pub(super) fn order(
    geometry: &Geometry,
    from: &BTreeSet<Slice>,
    to: &BTreeSet<Slice>,
) -> Option<Vec<ProfileName>> {
    fn search(
        geometry: &Geometry,
        at: &BTreeSet<Slice>,
        to: &BTreeSet<Slice>,
        dead: &mut BTreeSet<BTreeSet<Slice>>,
    ) -> Option<Vec<ProfileName>> {
        let missing: BTreeSet<ProfileName> = to.difference(at).map(|(profile, _)| *profile).collect();
        if missing.is_empty() {
            return Some(vec![]);
        }
        if dead.contains(at) {
            return None;
        }
        for profile in missing {
            let Some(start) = best_fit(geometry, at, profile) else { continue };
            if !to.contains(&(profile, start)) {
                continue;
            }
            let mut next = at.clone();
            next.insert((profile, start));
            if let Some(mut rest) = search(geometry, &next, to, dead) {
                rest.insert(0, profile);
                return Some(rest);
            }
        }
        dead.insert(at.clone());
        None
    }
    search(geometry, from, to, &mut BTreeSet::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{a30, a100, profile};

    #[track_caller]
    fn check(geometry: &Geometry, requests: &[&str], expect: &[Option<u8>]) {
        let mut slices = BTreeSet::new();
        let starts: Vec<Option<u8>> = requests
            .iter()
            .map(|name| {
                let start = best_fit(geometry, &slices, profile(name))?;
                slices.insert((profile(name), start));
                Some(start)
            })
            .collect();
        assert_eq!(starts, expect, "{requests:?}");
    }

    /// Held to the masks of the core, which are derived in another way: alone,
    /// in pairs, and with what may stand between.
    #[test]
    fn what_is_legal_here_is_legal_for_the_core() {
        for model in mig::catalog::Catalog::builtin().models() {
            let geometry = &model.geometry;
            for a in geometry.placements() {
                for b in geometry.placements() {
                    let slices = [geometry.describe(a), geometry.describe(b)];
                    let place = format!("{}: {slices:?}", model.id);
                    assert_eq!(obstacle(geometry, &slices[..1]), None, "{place}");
                    let both = mig::Layout::from_iter([a, b]);
                    let legal = a != b && geometry.is_legal(both);
                    assert_eq!(obstacle(geometry, &slices).is_none(), legal, "{place}");
                    if !legal {
                        continue;
                    }
                    for c in geometry.placements().filter(|c| *c != a && *c != b) {
                        let three = [slices[0], slices[1], geometry.describe(c)];
                        let legal = geometry.is_legal(mig::Layout::from_iter([a, b, c]));
                        assert_eq!(obstacle(geometry, &three).is_none(), legal, "{}: {three:?}", model.id);
                    }
                }
            }
        }
    }

    /// The transcripts of `mig-semantics` section 4.
    #[test]
    fn best_fit_reproduces_captures() {
        let geometry = a100().build().geometry;
        let (one, double, two, three, four) = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb");
        check(&geometry, &[one; 7], &[6, 4, 5, 0, 1, 2, 3].map(Some));
        check(&geometry, &[one, one, two, three], &[Some(6), Some(4), Some(0), None]);
        check(&geometry, &[three, one, two, one], &[4, 0, 2, 1].map(Some));
        check(&geometry, &[two, one, one, one, one, one], &[4, 6, 0, 1, 2, 3].map(Some));
        check(&geometry, &[one, two, four], &[6, 4, 0].map(Some));
        check(&geometry, &[three, double, one], &[4, 0, 2].map(Some));
        check(&geometry, &[double; 4], &[6, 4, 0, 2].map(Some));
        check(&a30().build().geometry, &["1g.6gb", "1g.6gb", "2g.12gb"], &[0, 1, 2].map(Some));
    }

    #[test]
    fn an_order_is_found_where_one_exists() {
        let geometry = a100().build().geometry;
        let layout = |slices: &[(&str, u8)]| -> BTreeSet<Slice> {
            slices.iter().map(|(name, start)| (profile(name), *start)).collect()
        };
        let to = layout(&[("1g.10gb", 0), ("2g.20gb", 2), ("3g.40gb", 4)]);
        let found = order(&geometry, &BTreeSet::new(), &to).expect("the driver leads there");
        assert_eq!(found, [profile("3g.40gb"), profile("1g.10gb"), profile("2g.20gb")]);
        // The first 1g never lands at 3.
        assert_eq!(order(&geometry, &BTreeSet::new(), &layout(&[("1g.10gb", 3)])), None);
    }

    /// On no model of the catalogue compute runs out before memory does; on
    /// this one it does.
    #[test]
    fn compute_slices_run_out_where_memory_does_not() {
        let two = profile("2g.20gb");
        let spec = ProfileSpec { name: two, compute: 2, size: 2, starts: vec![0, 2, 4, 6] };
        let geometry = Geometry::new(8, 5, vec![spec]).expect("a geometry");
        assert_eq!(obstacle(&geometry, &[(two, 0), (two, 2)]), None);
        assert_eq!(
            obstacle(&geometry, &[(two, 0), (two, 2), (two, 4)]),
            Some(Problem::TooMuchCompute { needed: 6, available: 5 })
        );
    }
}
