//! Bunches of what is alike: of parts, and of things to do.

use std::collections::BTreeMap;

/// Into how many steps what each has is divided, to see how unlike they are.
pub(super) const SCALE: i64 = 1 << 10;

/// How much some have of each of several things, in parts of [`SCALE`].
pub(super) type Has = BTreeMap<usize, Vec<i64>>;

/// Bunches that are divided until there are so many, or all in one are alike: always those that are most unlike, into the half
/// that has less of something and the half that has more.
pub(super) fn divided(mut bunches: Vec<Vec<usize>>, has: &Has, most: usize) -> Vec<Vec<usize>> {
    let spread = |bunch: &Vec<usize>, of: usize| {
        let values = || bunch.iter().map(|one| has[one][of]);
        (values().max().unwrap_or(0) - values().min().unwrap_or(0)) * bunch.len() as i64
    };
    let kinds = has.values().next().map_or(0, Vec::len);
    while bunches.len() < most {
        let all = (0..bunches.len()).flat_map(|b| (0..kinds).map(move |of| (b, of)));
        let Some((b, of)) =
            all.max_by_key(|(b, of)| (spread(&bunches[*b], *of), usize::MAX - b, usize::MAX - of))
        else {
            break;
        };
        if spread(&bunches[b], of) == 0 {
            break;
        }
        let bunch = &mut bunches[b];
        bunch.sort_by_key(|one| (has[one][of], *one));
        let more = bunch.split_off(bunch.len() / 2);
        bunches.push(more);
    }
    bunches
}
