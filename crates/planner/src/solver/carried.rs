//! A choice without a search: of the instance before, or of the relaxation's optimum. Classes choose as they did there,
//! and each unit that has come or gone, or that was in parts, is placed where it costs least.
//!
//! It is a choice and no optimum. Where the relaxation proves that no other is better at a level, that level is done.

use std::collections::HashMap;
use std::sync::Arc;

use super::greedy::fill;
use super::instance::{Choice, Class, Column, Instance, Same};

/// More units than these are another fleet: the search is faster then.
const UNITS: u32 = 64;

/// What the classes of an instance have chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    classes: HashMap<Same, Vec<(usize, u32)>>,
}

impl Carried {
    /// Keeps a choice.
    pub(super) fn keep(&mut self, instance: &Instance, classes: &[Vec<(usize, u32)>]) {
        self.classes.clear();
        let chosen = instance.classes.iter().zip(classes);
        self.classes.extend(chosen.map(|(class, chosen)| (Same(Arc::clone(&class.columns)), chosen.clone())));
    }

    /// The choice for another instance; nothing, where too much has changed or
    /// the rows are not met so.
    pub(super) fn choice(&self, instance: &Instance) -> Option<Choice> {
        if self.classes.is_empty() {
            return None;
        }
        let before = |class: &Class| self.classes.get(&Same(Arc::clone(&class.columns))).cloned();
        mend(instance, instance.classes.iter().map(|class| before(class).unwrap_or_default()).collect())
    }
}

/// The choice that comes of this one, whose classes may have a few units too
/// many or too few; nothing, where these are more than a few or the rows are not met so.
pub(super) fn mend(instance: &Instance, mut classes: Vec<Vec<(usize, u32)>>) -> Option<Choice> {
    let mut place = Placing { instance, sums: vec![0; instance.rows.len()], costs: vec![0; instance.levels] };
    let mut left = UNITS;
    let mut moves = Vec::new();
    for (c, (class, chosen)) in instance.classes.iter().zip(&classes).enumerate() {
        let units: u32 = chosen.iter().map(|(_, n)| n).sum();
        left = left.checked_sub(units.abs_diff(class.count))?;
        if units != class.count {
            moves.push((c, units));
        }
        chosen.iter().for_each(|(column, n)| place.add(&class.columns[*column], i64::from(*n)));
    }
    for (c, mut units) in moves {
        let class = &instance.classes[c];
        while units != class.count {
            let comes = units < class.count;
            let column = place.best(class, &classes[c], comes)?;
            place.add(&class.columns[column], if comes { 1 } else { -1 });
            change(&mut classes[c], column, comes);
            units = if comes { units + 1 } else { units - 1 };
        }
    }
    let extras = fill(&instance.rows, &instance.extras, &mut place.sums);
    instance.is_met_by(&classes, &extras).then_some((classes, extras))
}

/// One unit more, or less, of a column.
fn change(chosen: &mut Vec<(usize, u32)>, column: usize, comes: bool) {
    match chosen.binary_search_by_key(&column, |(j, _)| *j) {
        Ok(at) if comes => chosen[at].1 += 1,
        Ok(at) if chosen[at].1 > 1 => chosen[at].1 -= 1,
        Ok(at) => drop(chosen.remove(at)),
        Err(at) => chosen.insert(at, (column, 1)),
    }
}

/// What the classes give to the rows, and what they cost.
struct Placing<'a> {
    instance: &'a Instance,
    sums: Vec<i64>,
    costs: Vec<i64>,
}

impl Placing<'_> {
    fn add(&mut self, column: &Column, units: i64) {
        for (row, a) in &column.coefficients {
            self.sums[*row] += i64::from(*a) * units;
        }
        for (cost, one) in self.costs.iter_mut().zip(&column.costs) {
            *cost += one * units;
        }
    }

    /// The column of which a unit more, or less, costs least, what the extras
    /// make up for included.
    fn best(&mut self, class: &Class, chosen: &[(usize, u32)], comes: bool) -> Option<usize> {
        let units = if comes { 1 } else { -1 };
        let columns: Vec<usize> =
            if comes { (0..class.columns.len()).collect() } else { chosen.iter().map(|(j, _)| *j).collect() };
        columns.into_iter().min_by_key(|j| {
            self.add(&class.columns[*j], units);
            let values = self.values();
            self.add(&class.columns[*j], -units);
            values
        })
    }

    /// How far rows are from being met, and then what everything costs.
    fn values(&self) -> (i64, Vec<i64>) {
        let Self { instance, sums, costs } = self;
        let mut sums = sums.clone();
        let extras = fill(&instance.rows, &instance.extras, &mut sums);
        let lacks = instance.rows.iter().zip(&sums).map(|(row, sum)| row.lacks(*sum)).sum();
        let values = (0..instance.levels).zip(costs).map(|(level, cost)| {
            let extras = instance.extras.iter().zip(&extras);
            cost + extras.map(|(extra, x)| Instance::cost(&extra.costs, level) * x).sum::<i64>()
        });
        (lacks, values.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effort, Extra, Row, Sense, solve};
    use super::*;

    /// Two kinds of GPUs that can each give two slices, or three at the price of
    /// two operations; so many slices are wanted.
    fn instance(counts: [u32; 2], slices: i64, columns: &[Arc<[Column]>; 2]) -> Instance {
        let class = |(count, columns): (u32, &Arc<[Column]>)| Class { count, columns: Arc::clone(columns) };
        Instance {
            rows: vec![Row { sense: Sense::AtLeast, rhs: slices }],
            classes: counts.into_iter().zip(columns).map(class).collect(),
            extras: vec![Extra { upper: slices, coefficients: vec![(0, 1)], costs: vec![1] }],
            levels: 2,
        }
    }

    fn columns() -> [Arc<[Column]>; 2] {
        let column = |slices, cost| Column { coefficients: vec![(0, slices)], costs: vec![0, cost] };
        [[Column::default(), column(2, 1)].into(), [Column::default(), column(2, 1), column(3, 2)].into()]
    }

    #[test]
    fn units_that_come_and_go_are_placed_where_they_cost_least() {
        let columns = columns();
        let before = instance([3, 2], 9, &columns);
        let solved = solve(&before, Effort::default()).expect("it can be met");
        assert_eq!(solved.classes, [vec![(1, 3)], vec![(0, 1), (2, 1)]]);
        let mut carried = Carried::default();
        assert_eq!(carried.choice(&before), None, "nothing was chosen yet");
        carried.keep(&before, &solved.classes);

        // A GPU goes from one kind to the other: the idle one of those takes over.
        let after = instance([2, 3], 9, &columns);
        let (classes, extras) = carried.choice(&after).expect("it can be met");
        assert!(after.is_met_by(&classes, &extras));
        assert_eq!(after.values(&classes, &extras), [0, 5], "{classes:?}");
        assert_eq!(classes, [vec![(1, 2)], vec![(0, 1), (1, 1), (2, 1)]]);

        // A kind that nobody knows chooses by itself.
        let other = [Arc::clone(&columns[0]), Arc::from(columns[1].to_vec())];
        let (classes, extras) = carried.choice(&instance([3, 2], 9, &other)).expect("it can be met");
        assert_eq!((classes, extras), (vec![vec![(1, 3)], vec![(0, 1), (2, 1)]], vec![0]));
    }

    #[test]
    fn another_fleet_begins_anew() {
        let columns = columns();
        let before = instance([3, 2], 9, &columns);
        let mut carried = Carried::default();
        carried.keep(&before, &[vec![(1, 3)], vec![(1, 2)]]);
        assert!(carried.choice(&instance([3, 2 + UNITS], 9, &columns)).is_some());
        assert_eq!(carried.choice(&instance([3, 3 + UNITS], 9, &columns)), None);
    }

    #[test]
    fn a_row_that_cannot_be_met_so_is_no_choice() {
        let columns = columns();
        let mut before = instance([1, 0], 2, &columns);
        before.rows[0].sense = Sense::Equal;
        let mut carried = Carried::default();
        carried.keep(&before, &[vec![(1, 1)], vec![]]);
        assert!(carried.choice(&before).is_some());
        let mut after = before.clone();
        (after.rows[0].rhs, after.extras[0].upper) = (1, 1);
        assert_eq!(carried.choice(&after), None);
    }
}
