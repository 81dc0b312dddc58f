//! Things to do that are alike as one: where there are so many kinds of them that even a relaxation with a row for each
//! takes minutes.
//!
//! The inverse of a basis grows with the square of the rows. But what is done of some things together keeps to the sum of
//! what is asked of them, so a program with this sum in place of their rows has every choice that the instance has, and
//! more: it may do one of them twice and another one not at all. The more alike the things are, the less that is worth. Only
//! those are taken as one that need the same slices and cost the same where they are not done; among them, those that take
//! about as much of what runs out.

use std::collections::{BTreeMap, BTreeSet};

use super::Part;
use super::divide::{Has, SCALE, divided};
use crate::solver::instance::{Instance, RowIndex, Sense};

/// Beyond so many kinds of things to do, those that are alike are taken as one, until there are so many bunches, or as many as
/// there are things that need different slices. With half as many bunches, plans take a tenth less time, and bounds are a third
/// lower. Where more requests than that wait, age no longer decides among those that differ, so that these cost the same.
pub const MANY_THINGS: usize = 512;

/// Whether so many things are there to do, which are rows of no part.
pub(super) fn are_many(instance: &Instance, parts: &[Part]) -> bool {
    let of_parts: usize = parts.iter().map(|part| part.rows.len()).sum();
    instance.rows.len().saturating_sub(of_parts) > MANY_THINGS
}

/// What of a thing has to agree, and how much of what runs out it takes.
#[derive(Default)]
struct Looks {
    /// What else doing it, or leaving it undone, gives and costs at the levels.
    exact: BTreeSet<Vec<i64>>,
    takes: BTreeMap<u64, i64>,
}

/// For each row the first of those that it is taken as one with, mostly itself; nothing, where there are few things.
/// `levels`: how many of the levels have to agree.
pub(super) fn alike(
    instance: &Instance,
    parts: &[Part],
    levels: usize,
    is_thing: impl Fn(RowIndex) -> bool,
) -> Option<Vec<RowIndex>> {
    if !are_many(instance, parts) {
        return None;
    }
    let things: BTreeMap<RowIndex, Looks> = looks(instance, parts, levels, is_thing);
    if things.len() <= MANY_THINGS {
        return None;
    }
    let mut same: BTreeMap<&BTreeSet<Vec<i64>>, Vec<RowIndex>> = BTreeMap::new();
    things.iter().for_each(|(row, looks)| same.entry(&looks.exact).or_default().push(*row));
    let mut first_of: Vec<RowIndex> = (0..instance.rows.len()).collect();
    for bunch in divided(same.into_values().collect(), &has(&things), MANY_THINGS) {
        let first = bunch.iter().copied().min().unwrap_or(0);
        bunch.into_iter().for_each(|row| first_of[row] = first);
    }
    Some(first_of)
}

fn looks(
    instance: &Instance,
    parts: &[Part],
    levels: usize,
    is_thing: impl Fn(RowIndex) -> bool,
) -> BTreeMap<RowIndex, Looks> {
    let mut own: Vec<Option<u64>> = vec![None; instance.rows.len()];
    for part in parts {
        part.rows.iter().zip(&part.counts).for_each(|(row, counts)| own[*row] = Some(*counts));
    }
    let is_thing: Vec<bool> = (0..own.len()).map(|row| own[row].is_none() && is_thing(row)).collect();
    let mut things: BTreeMap<RowIndex, Looks> = BTreeMap::new();
    for extra in &instance.extras {
        let done = || extra.coefficients.iter().filter(|(row, _)| is_thing[*row]);
        if done().next().is_none() {
            continue;
        }
        let mut exact: Vec<i64> = extra.costs.iter().take(levels).copied().collect();
        exact.resize(levels, 0);
        let mut takes: Vec<(u64, i64)> = Vec::new();
        let mut others: Vec<[i64; 2]> = Vec::new();
        for (row, a) in extra.coefficients.iter().filter(|(row, _)| !is_thing[*row]) {
            match (own[*row], instance.rows[*row].sense) {
                (Some(counts), Sense::AtMost) => takes.push((counts, i64::from(*a))),
                (Some(counts), Sense::AtLeast | Sense::Equal) => {
                    others.push([counts.cast_signed(), i64::from(*a)]);
                }
                (None, _) => others.push([-1 - *row as i64, i64::from(*a)]),
            }
        }
        others.sort_unstable();
        exact.extend(others.into_iter().flatten());
        for (row, _) in done() {
            let Looks { exact: known, takes: most } = things.entry(*row).or_default();
            if !known.contains(&exact) {
                known.insert(exact.clone());
            }
            for (counts, a) in &takes {
                let of = most.entry(*counts).or_insert(*a);
                *of = (*of).max(*a);
            }
        }
    }
    things
}

/// What each thing takes of what runs out, as a share of the most that one takes.
fn has(things: &BTreeMap<RowIndex, Looks>) -> Has {
    let mut most: BTreeMap<u64, i64> = BTreeMap::new();
    for (counts, a) in things.values().flat_map(|looks| &looks.takes) {
        let of = most.entry(*counts).or_insert(1);
        *of = (*of).max(*a);
    }
    let share = |looks: &Looks| {
        most.iter()
            .map(|(counts, most)| looks.takes.get(counts).copied().unwrap_or(0) * SCALE / most)
            .collect()
    };
    things.iter().map(|(row, looks)| (*row, share(looks))).collect()
}
