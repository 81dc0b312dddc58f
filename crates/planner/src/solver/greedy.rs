//! A solution that meets all rows, without a search: for instances on which the effort is used up before
//! the branch and bound has found one.
//!
//! For given choices of the classes, the extras are filled in: first those without cost, as far as the rows
//! allow, in their order, then those with a cost, as far as the rows need them. This meets every row that
//! extras with a cost can always meet; a row of demand, for example, is met by unserved demand.

use super::instance::{Choice, Extra, Instance, Row, Sense};

/// Completes what the classes choose; nothing, if a row cannot be met so.
pub(super) fn complete(instance: &Instance, classes: Vec<Vec<(usize, u32)>>) -> Option<Choice> {
    let mut sums = vec![0_i64; instance.rows.len()];
    for (class, chosen) in instance.classes.iter().zip(&classes) {
        for (column, n) in chosen {
            for (row, a) in &class.columns.get(*column)?.coefficients {
                sums[*row] += i64::from(*a) * i64::from(*n);
            }
        }
    }
    let extras = fill(&instance.rows, &instance.extras, &mut sums);
    instance.is_met_by(&classes, &extras).then_some((classes, extras))
}

/// The value of every extra, given what the rows have without them; what they
/// add to the rows is added to `sums`.
pub(super) fn fill(rows: &[Row], extras: &[Extra], sums: &mut [i64]) -> Vec<i64> {
    let is_free = |extra: &Extra| extra.costs.iter().all(|cost| *cost == 0);
    let mut values = vec![0_i64; extras.len()];
    for costly in [false, true] {
        for (extra, value) in extras.iter().zip(&mut values) {
            if is_free(extra) == costly {
                continue;
            }
            let most = allowed(rows, extra, sums);
            *value = if costly { most.min(needed(rows, extra, sums)) } else { most };
            for (row, a) in &extra.coefficients {
                sums[*row] += i64::from(*a) * *value;
            }
        }
    }
    values
}

/// How far an extra may rise until a row that it works against stops it.
fn allowed(rows: &[Row], extra: &Extra, sums: &[i64]) -> i64 {
    let room = extra.coefficients.iter().filter_map(|(row, a)| {
        let (a, left) = (i64::from(*a), rows[*row].rhs - sums[*row]);
        match rows[*row].sense {
            Sense::AtMost | Sense::Equal if a > 0 => Some(left / a),
            Sense::AtLeast if a < 0 => Some(left / a),
            _ => None,
        }
    });
    room.fold(extra.upper, i64::min).max(0)
}

/// How far an extra has to rise until no row lacks what it gives.
fn needed(rows: &[Row], extra: &Extra, sums: &[i64]) -> i64 {
    let lacks = extra.coefficients.iter().filter_map(|(row, a)| {
        let (a, lack) = (i64::from(*a), rows[*row].rhs - sums[*row]);
        let counts = a > 0 && lack > 0 && rows[*row].sense != Sense::AtMost;
        counts.then(|| lack.div_euclid(a) + i64::from(lack.rem_euclid(a) > 0))
    });
    lacks.fold(0, i64::max)
}

#[cfg(test)]
mod tests {
    use super::super::instance::{Class, Column};
    use super::*;

    /// Two GPUs that can each give three slices, or none; two groups that ask
    /// for two pods of two slices, and for one of one.
    fn instance() -> Instance {
        let served = |group: usize, slices: i32| Extra {
            upper: 2,
            coefficients: vec![(1 + group, 1), (0, -slices)],
            costs: vec![],
        };
        let unserved = |group: usize| Extra { upper: 2, coefficients: vec![(1 + group, 1)], costs: vec![1] };
        Instance {
            rows: vec![
                Row { sense: Sense::AtLeast, rhs: 0 },
                Row { sense: Sense::Equal, rhs: 2 },
                Row { sense: Sense::Equal, rhs: 1 },
            ],
            classes: vec![Class {
                count: 2,
                columns: [Column::default(), Column { coefficients: vec![(0, 3)], costs: vec![0, 1] }].into(),
            }],
            extras: vec![unserved(0), unserved(1), served(0, 2), served(1, 1)],
            levels: 2,
        }
    }

    #[test]
    fn what_costs_nothing_is_filled_first_and_what_costs_makes_up_for_the_rest() {
        let instance = instance();
        let complete =
            |cut| complete(&instance, vec![vec![(0, 2 - cut), (1, cut)]]).expect("it can be met").1;
        assert_eq!(complete(0), [2, 1, 0, 0], "nothing is cut, so nobody is served");
        assert_eq!(complete(1), [1, 0, 1, 1]);
        assert_eq!(complete(2), [0, 0, 2, 1]);
    }

    #[test]
    fn a_row_that_no_extra_can_meet_is_not_met() {
        let mut instance = instance();
        instance.rows[0].rhs = 4;
        assert_eq!(complete(&instance, vec![vec![(0, 1), (1, 1)]]), None);
        assert!(complete(&instance, vec![vec![(1, 2)]]).is_some());
    }
}
