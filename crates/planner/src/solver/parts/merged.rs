//! Parts that are like one another as one: what bounds an instance of so many parts that even the relaxation for all
//! copies together takes minutes.
//!
//! Where pods of many shapes run, hardly two nodes have the same left, and each is a part with rows of its own; what a
//! step of the simplex takes grows with the square of the rows. But whatever copies do, what all copies of some parts do
//! together keeps to the sums of their rows. So a program that has these sums in place of the rows has every choice
//! that the instance has, and more: what it cannot have, the instance cannot have either. It gives away what one copy
//! has too much of and another one of the same bunch too little; the more alike the parts of a bunch are, the less
//! that is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::divide::{Has, SCALE, divided};
use super::{Part, alike};
use crate::solver::instance::{Class, Column, Extra, Instance, Row, RowIndex, Sense};

/// Beyond so many parts, the program for all copies together takes too long: with seven rows for each of them and one for
/// each kind of pod, a step of the simplex goes over 100,000 numbers several times, and there are a thousand steps.
pub const MANY_PARTS: usize = 32;
/// Beyond so many different rooms, patterns take too long as well: of nodes that are found in different layouts, all with
/// the same room become one kind where patterns are looked for, and nodes with different rooms never do. A fleet of 40 nodes
/// with 32 rooms took 13 s, and with `OldestFirst` nobody was served anything that had to be cut.
const MANY_ROOMS: usize = 12;
/// Into so many bunches parts are put then: with rows for each of them, the program is as large as one of half as many parts
/// as may be looked at as they are.
const BUNCHES: usize = 16;

/// Whether there are so many parts, or so many that have different amounts of what runs out, or so many kinds of things to
/// do, that they are looked at in bunches.
#[must_use]
pub fn are_many(instance: &Instance, parts: &[Part]) -> bool {
    let room = |part: &Part| -> Vec<(u64, i64)> {
        let rows = part.rows.iter().zip(&part.counts).map(|(row, counts)| (&instance.rows[*row], *counts));
        let rooms = rows.filter(|(row, _)| row.sense == Sense::AtMost);
        rooms.map(|(row, counts)| (counts, row.rhs / i64::from(part.copies.max(1)))).collect()
    };
    parts.len() > MANY_PARTS
        || alike::are_many(instance, parts)
        || parts.iter().map(room).collect::<BTreeSet<_>>().len() > MANY_ROOMS
}

/// An instance with bunches in place of its parts.
pub struct Merged {
    /// What is solved.
    pub instance: Instance,
    /// Where each row is that is of no part: several at one place where they are taken as one.
    pub rows: Vec<Option<RowIndex>>,
    /// So many of its extras, the first, are those of no part, in their order.
    pub rest: usize,
}

impl Merged {
    /// The first levels. `at_least`: of which rows more than is asked for may be given: whoever could do more than is asked
    /// for could do less, and one row is less work than two.
    #[must_use]
    pub fn new(
        instance: &Instance,
        parts: &[Part],
        levels: usize,
        at_least: impl Fn(RowIndex) -> bool,
    ) -> Self {
        let all: Vec<usize> = (0..parts.len()).collect();
        let bunches = bunches(instance, parts, all, BUNCHES);
        let mut merging = Merging::new(instance, parts, levels, at_least);
        let rest = merging.merged.extras.len();
        for bunch in &bunches {
            merging.add_bunch(bunch);
        }
        let Merging { merged, rows, .. } = merging;
        Self { instance: merged, rows, rest }
    }
}

/// What an extra gives to the rows of no part, and what it costs: those of a bunch that agree in this are one.
type Key = (Vec<(RowIndex, i32)>, Vec<i64>);

/// A bunch in the making.
#[derive(Default)]
struct Bunch {
    /// By what a row counts: the row of the merged instance.
    rows: BTreeMap<u64, RowIndex>,
    extras: BTreeMap<Key, Together>,
}

/// Extras that are one.
#[derive(Default)]
struct Together {
    upper: i64,
    /// What one unit takes of the bunch's rows, by what they count: what the most modest of them takes.
    takes: BTreeMap<u64, i32>,
}

struct Merging<'i> {
    instance: &'i Instance,
    parts: &'i [Part],
    levels: usize,
    merged: Instance,
    rows: Vec<Option<RowIndex>>,
    classes: HashMap<Vec<Column>, usize>,
}

impl<'i> Merging<'i> {
    /// What is of no part.
    fn new(
        instance: &'i Instance,
        parts: &'i [Part],
        levels: usize,
        at_least: impl Fn(RowIndex) -> bool,
    ) -> Self {
        let mut own = vec![false; instance.rows.len()];
        let (mut of_class, mut of_extra) =
            (vec![false; instance.classes.len()], vec![false; instance.extras.len()]);
        for part in parts {
            part.rows.iter().for_each(|row| own[*row] = true);
            part.classes.iter().for_each(|class| of_class[*class] = true);
            part.extras.iter().for_each(|extra| of_extra[*extra] = true);
        }
        let merged = Instance { levels, ..Instance::default() };
        let rows = vec![None; instance.rows.len()];
        let mut merging = Self { instance, parts, levels, merged, rows, classes: HashMap::new() };
        let first_of = alike::alike(instance, parts, levels, &at_least);
        for (row, Row { sense, rhs }) in instance.rows.iter().enumerate().filter(|(row, _)| !own[*row]) {
            let first = first_of.as_ref().map_or(row, |first_of| first_of[row]);
            if let Some(known) = merging.rows[first] {
                merging.rows[row] = Some(known);
                merging.merged.rows[known].rhs += rhs;
                continue;
            }
            merging.rows[row] = Some(merging.merged.rows.len());
            let sense = if at_least(row) { Sense::AtLeast } else { *sense };
            merging.merged.rows.push(Row { sense, rhs: *rhs });
        }
        for extra in instance.extras.iter().zip(of_extra).filter(|(_, of_part)| !of_part).map(|(e, _)| e) {
            let (coefficients, costs) = merging.key(&extra.coefficients, &extra.costs);
            merging.merged.extras.push(Extra { upper: extra.upper, coefficients, costs });
        }
        for class in (0..of_class.len()).filter(|class| !of_class[*class]) {
            merging.add_class(class, &BTreeMap::new());
        }
        merging
    }

    /// What of it is of no part.
    fn key(&self, coefficients: &[(RowIndex, i32)], costs: &[i64]) -> Key {
        let shared = coefficients.iter().filter_map(|(row, a)| Some((self.rows[*row]?, *a)));
        let mut shared: Vec<(RowIndex, i32)> = shared.collect();
        shared.sort_unstable();
        (shared, costs.iter().take(self.levels).copied().collect())
    }

    fn add_class(&mut self, class: usize, own: &BTreeMap<RowIndex, RowIndex>) {
        let Class { count, columns } = &self.instance.classes[class];
        let column = |column: &Column| {
            let (mut coefficients, costs) = self.key(&column.coefficients, &column.costs);
            let of_part = column.coefficients.iter().filter_map(|(row, a)| Some((*own.get(row)?, *a)));
            coefficients.extend(of_part);
            coefficients.sort_unstable();
            Column { coefficients, costs }
        };
        let mut columns: Vec<Column> = columns.iter().map(column).collect();
        columns.sort_unstable();
        columns.dedup();
        let classes = &mut self.merged.classes;
        let known = *self.classes.entry(columns).or_insert_with_key(|columns| {
            classes.push(Class { count: 0, columns: columns.clone().into() });
            classes.len() - 1
        });
        self.merged.classes[known].count = self.merged.classes[known].count.saturating_add(*count);
    }

    fn add_bunch(&mut self, parts: &[usize]) {
        let mut bunch = Bunch::default();
        for part in parts {
            self.add_rows(&mut bunch, *part);
        }
        for part in parts {
            self.add_extras(&mut bunch, *part);
        }
        for part in parts {
            self.allow_for_rows_that_it_lacks(&bunch, *part);
            let part = &self.parts[*part];
            let own = part.rows.iter().zip(&part.counts).map(|(row, counts)| (*row, bunch.rows[counts]));
            let own: BTreeMap<RowIndex, RowIndex> = own.collect();
            part.classes.iter().for_each(|class| self.add_class(*class, &own));
        }
        for ((shared, costs), Together { upper, takes }) in bunch.extras {
            let own = takes.iter().filter(|(_, a)| **a != 0).map(|(counts, a)| (bunch.rows[counts], *a));
            let coefficients = shared.into_iter().chain(own).collect();
            self.merged.extras.push(Extra { upper, coefficients, costs });
        }
    }

    fn add_rows(&mut self, bunch: &mut Bunch, part: usize) {
        let part = &self.parts[part];
        for (row, counts) in part.rows.iter().zip(&part.counts) {
            let Row { sense, rhs } = self.instance.rows[*row];
            let rows = &mut self.merged.rows;
            let merged = *bunch.rows.entry(*counts).or_insert_with(|| {
                rows.push(Row { sense, rhs: 0 });
                rows.len() - 1
            });
            self.merged.rows[merged].rhs += rhs;
        }
    }

    fn add_extras(&self, bunch: &mut Bunch, part: usize) {
        let part = &self.parts[part];
        for extra in part.extras.iter().map(|extra| &self.instance.extras[*extra]) {
            let together = bunch.extras.entry(self.key(&extra.coefficients, &extra.costs)).or_default();
            together.upper = together.upper.saturating_add(extra.upper);
            for (row, counts) in part.rows.iter().zip(&part.counts) {
                let a = coefficient(&extra.coefficients, *row);
                let takes = together.takes.entry(*counts).or_insert(a);
                *takes = match self.instance.rows[*row].sense {
                    Sense::AtMost => a.min(*takes),
                    Sense::AtLeast | Sense::Equal => a.max(*takes),
                };
            }
        }
    }

    /// A part without a row that others of its bunch have cannot break it, whatever it does: so much is allowed more.
    fn allow_for_rows_that_it_lacks(&mut self, bunch: &Bunch, part: usize) {
        let part = &self.parts[part];
        if part.counts.len() == bunch.rows.len() {
            return;
        }
        for extra in part.extras.iter().map(|extra| &self.instance.extras[*extra]) {
            let together = &bunch.extras[&self.key(&extra.coefficients, &extra.costs)];
            for (counts, a) in together.takes.iter().filter(|(counts, _)| !part.counts.contains(counts)) {
                let Row { sense, rhs } = &mut self.merged.rows[bunch.rows[counts]];
                let most = i64::from(*a).saturating_mul(extra.upper);
                *rhs += match sense {
                    Sense::AtMost => most.max(0),
                    Sense::AtLeast | Sense::Equal => most.min(0),
                };
            }
        }
    }
}

fn coefficient(coefficients: &[(RowIndex, i32)], row: RowIndex) -> i32 {
    coefficients.iter().find(|(of, _)| *of == row).map_or(0, |(_, a)| *a)
}

/// Some parts in at most so many bunches of parts that are alike: always those are divided that are most unlike, into the
/// half that has less of something and the half that has more.
pub(super) fn bunches(instance: &Instance, parts: &[Part], some: Vec<usize>, most: usize) -> Vec<Vec<usize>> {
    let has = has(instance, parts, &some);
    divided(vec![some], &has, most)
}

/// What one copy of each part has of what rows count, as a share of the most that one has.
fn has(instance: &Instance, parts: &[Part], some: &[usize]) -> Has {
    let kinds: BTreeMap<u64, Sense> = some
        .iter()
        .flat_map(|part| parts[*part].rows.iter().zip(&parts[*part].counts))
        .map(|(row, counts)| (*counts, instance.rows[*row].sense))
        .collect();
    let of_row = |part: &Part, row: RowIndex| {
        let Row { sense, rhs } = instance.rows[row];
        let of_classes = || -> i64 {
            let of_class = |class: &Class| {
                let most = class.columns.iter().map(|column| coefficient(&column.coefficients, row)).max();
                i64::from(most.unwrap_or(0)) * i64::from(class.count)
            };
            part.classes.iter().map(|class| of_class(&instance.classes[*class])).sum()
        };
        let all = if sense == Sense::AtMost { rhs } else { of_classes() - rhs };
        all / i64::from(part.copies.max(1))
    };
    let raw = |part: &usize| -> BTreeMap<u64, i64> {
        let part = &parts[*part];
        part.rows.iter().zip(&part.counts).map(|(row, counts)| (*counts, of_row(part, *row))).collect()
    };
    let all: BTreeMap<usize, BTreeMap<u64, i64>> = some.iter().map(|part| (*part, raw(part))).collect();
    let most =
        |counts: &u64| all.values().filter_map(|has| has.get(counts)).copied().max().unwrap_or(0).max(1);
    let most: BTreeMap<u64, i64> = kinds.keys().map(|counts| (*counts, most(counts))).collect();
    let scaled = |has: &BTreeMap<u64, i64>| {
        let of = |(counts, sense): (&u64, &Sense)| {
            // Who has no row for what runs out elsewhere has enough of it; who has none for what is cut cannot cut it.
            let without = if *sense == Sense::AtMost { most[counts] } else { 0 };
            has.get(counts).copied().unwrap_or(without) * SCALE / most[counts]
        };
        kinds.iter().map(of).collect()
    };
    all.iter().map(|(part, has)| (*part, scaled(has))).collect()
}
