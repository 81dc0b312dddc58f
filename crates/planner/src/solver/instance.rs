//! The input and output of the solver.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The position of a row in [`Instance::rows`].
pub type RowIndex = usize;

/// An integer program over interchangeable things.
///
/// For every class, exactly `count` GPUs each choose one of the class's
/// columns. Extras are other integer variables. Rows couple all of them.
/// Costs are lexicographic: level 0 first, lower is better at every level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instance {
    /// What couples the choices.
    pub rows: Vec<Row>,
    /// Groups of GPUs that have the same choices.
    pub classes: Vec<Class>,
    /// Integer variables that are no GPU's choice: unmet demand, supply moved
    /// from one group to another, a missing spare.
    pub extras: Vec<Extra>,
    /// How many cost levels there are; every `costs` has this length or less
    /// (what is absent is 0).
    pub levels: usize,
}

/// `sum of coefficients x values  sense  rhs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// How the sum compares with the right-hand side.
    pub sense: Sense,
    /// The right-hand side.
    pub rhs: i64,
}

impl Row {
    /// How far a sum is from one that meets the row.
    pub(super) fn lacks(&self, sum: i64) -> i64 {
        match self.sense {
            Sense::AtLeast => (self.rhs - sum).max(0),
            Sense::AtMost => (sum - self.rhs).max(0),
            Sense::Equal => (self.rhs - sum).abs(),
        }
    }
}

/// How a row's sum compares with its right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sense {
    /// The sum is the right-hand side or more.
    AtLeast,
    /// The sum is the right-hand side or less.
    AtMost,
    /// The sum is the right-hand side.
    Equal,
}

/// GPUs that are interchangeable: exactly `count` of them choose among `columns`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// How many GPUs.
    pub count: u32,
    /// What each of them can choose; at least one. Whoever solves one instance
    /// after another hands in the same ones again, see [`Memory`](super::Memory).
    pub columns: Arc<[Column]>,
}

/// One choice of a class: what one GPU that takes it gives to the rows, and
/// what that costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column {
    /// Non-zero coefficients, each row at most once.
    pub coefficients: Vec<(RowIndex, i32)>,
    /// Cost of one GPU, by level.
    pub costs: Vec<i64>,
}

/// Columns that are known by where they are.
#[derive(Clone, Debug)]
pub(super) struct Same(pub(super) Arc<[Column]>);

impl PartialEq for Same {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Same {}

impl Hash for Same {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

/// An integer variable from 0 to `upper`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Its largest value; not negative.
    pub upper: i64,
    /// Non-zero coefficients of one unit, each row at most once.
    pub coefficients: Vec<(RowIndex, i32)>,
    /// Cost of one unit, by level.
    pub costs: Vec<i64>,
}

/// How much work a solve may spend. Counted in work units, never in time, so
/// that the result depends on nothing but the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Nodes of the branch and bound, per level. When they are used up the
    /// best solution found is returned with the bound proved so far.
    pub nodes: u64,
}

impl Default for Effort {
    /// Enough for every fleet that we know of (measured: docs/benchmarks.md).
    fn default() -> Self {
        Self { nodes: 2_000 }
    }
}

/// What is chosen: for every class how many GPUs take which column, as in [`Solved::classes`], and the value of
/// every extra.
pub(super) type Choice = (Vec<Vec<(usize, u32)>>, Vec<i64>);

/// A feasible choice, and how good it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solved {
    /// For every class, how many GPUs take which column: `(column, GPUs)`,
    /// ascending by column, no zeros; the GPUs add up to the class's count.
    pub classes: Vec<Vec<(usize, u32)>>,
    /// The value of every extra.
    pub extras: Vec<i64>,
    /// One entry for every cost level.
    pub levels: Vec<Level>,
}

/// One level of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// What the solution reaches; lower is better.
    pub value: i64,
    /// What no solution goes below, given the values of the levels before.
    pub bound: i64,
}

impl Level {
    /// Whether it is proved that no solution is better at this level, given
    /// the values of the levels before.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.value <= self.bound
    }
}

/// Why there is no solution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// The instance breaks a rule of [`Instance`]: a bug of whoever built it.
    #[error("{place}: {problem}")]
    Malformed {
        /// Where, such as `classes[3].columns[0]`.
        place: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// It is proved that no choice meets all rows.
    #[error("no choice of columns meets all rows")]
    Infeasible,
    /// The effort was used up before any solution was found. Instances whose
    /// rows can always be met by extras do not come to this.
    #[error("no solution was found within {nodes} nodes")]
    NotFound {
        /// The effort that was allowed.
        nodes: u64,
    },
}

/// The largest right-hand side, bound or cost that is taken: sums over a
/// fleet stay far from the limits of `i64`, and of exact integers in `f64`.
pub const MAGNITUDE: i64 = 1 << 40;

impl Instance {
    /// A column's or extra's cost at a level.
    #[must_use]
    pub fn cost(costs: &[i64], level: usize) -> i64 {
        costs.get(level).copied().unwrap_or(0)
    }

    /// Checks the rules that the documentation of the fields states.
    ///
    /// # Errors
    /// The first place that breaks one.
    pub fn validate(&self) -> Result<(), SolveError> {
        self.validate_new(|_| false)
    }

    /// The same, but for classes of which it is known already.
    pub(super) fn validate_new(&self, is_known: impl Fn(&Arc<[Column]>) -> bool) -> Result<(), SolveError> {
        let fail = |place: String, problem: String| Err(SolveError::Malformed { place, problem });
        let magnitude = |value: i64| value.unsigned_abs() <= MAGNITUDE.unsigned_abs();
        for (i, row) in self.rows.iter().enumerate() {
            if !magnitude(row.rhs) {
                return fail(
                    format!("rows[{i}].rhs"),
                    format!("{} is outside -{MAGNITUDE}..={MAGNITUDE}", row.rhs),
                );
            }
        }
        let terms = |place: &str, coefficients: &[(RowIndex, i32)], costs: &[i64]| {
            for (k, (row, _)) in coefficients.iter().enumerate() {
                if *row >= self.rows.len() {
                    return fail(
                        place.to_owned(),
                        format!("row {row} does not exist; there are {}", self.rows.len()),
                    );
                }
                if coefficients[..k].iter().any(|(other, _)| other == row) {
                    return fail(place.to_owned(), format!("row {row} is there twice"));
                }
            }
            if costs.len() > self.levels {
                return fail(place.to_owned(), format!("{} costs for {} levels", costs.len(), self.levels));
            }
            if let Some(cost) = costs.iter().find(|cost| !magnitude(**cost)) {
                return fail(place.to_owned(), format!("cost {cost} is outside -{MAGNITUDE}..={MAGNITUDE}"));
            }
            Ok(())
        };
        for (c, class) in self.classes.iter().enumerate().filter(|(_, class)| !is_known(&class.columns)) {
            if class.columns.is_empty() {
                return fail(
                    format!("classes[{c}]"),
                    "there is no column; at least one is needed".to_owned(),
                );
            }
            for (j, column) in class.columns.iter().enumerate() {
                terms(&format!("classes[{c}].columns[{j}]"), &column.coefficients, &column.costs)?;
            }
        }
        for (e, extra) in self.extras.iter().enumerate() {
            if !(0..=MAGNITUDE).contains(&extra.upper) {
                return fail(
                    format!("extras[{e}].upper"),
                    format!("{} is outside 0..={MAGNITUDE}", extra.upper),
                );
            }
            terms(&format!("extras[{e}]"), &extra.coefficients, &extra.costs)?;
        }
        Ok(())
    }

    /// The value of every level for a choice, without asking whether the rows
    /// are met.
    #[must_use]
    pub fn values(&self, classes: &[Vec<(usize, u32)>], extras: &[i64]) -> Vec<i64> {
        (0..self.levels)
            .map(|level| {
                let chosen: i64 = (self.classes.iter().zip(classes))
                    .flat_map(|(class, chosen)| {
                        chosen
                            .iter()
                            .map(|(j, n)| Self::cost(&class.columns[*j].costs, level) * i64::from(*n))
                    })
                    .sum();
                let other: i64 =
                    self.extras.iter().zip(extras).map(|(e, x)| Self::cost(&e.costs, level) * x).sum();
                chosen + other
            })
            .collect()
    }

    /// The value of a level, where every choice has the same.
    #[must_use]
    pub fn certain_value(&self, level: usize) -> Option<i64> {
        if self.extras.iter().any(|extra| Self::cost(&extra.costs, level) != 0) {
            return None;
        }
        let mut value = 0;
        for class in &self.classes {
            let mut costs = class.columns.iter().map(|column| Self::cost(&column.costs, level));
            let cost = costs.next()?;
            if costs.any(|other| other != cost) {
                return None;
            }
            value += cost * i64::from(class.count);
        }
        Some(value)
    }

    /// What a level costs at least, rows left aside.
    #[must_use]
    pub fn least(&self, level: usize) -> i64 {
        let of_class = |class: &Class| {
            let costs = class.columns.iter().map(|column| Self::cost(&column.costs, level));
            costs.min().unwrap_or(0) * i64::from(class.count)
        };
        let of_extra = |extra: &Extra| Self::cost(&extra.costs, level).min(0) * extra.upper;
        self.classes.iter().map(of_class).chain(self.extras.iter().map(of_extra)).sum()
    }

    /// What a row is given by a choice.
    pub(super) fn sum(&self, row: RowIndex, (classes, extras): &Choice) -> i64 {
        let of = |coefficients: &[(RowIndex, i32)]| {
            i64::from(coefficients.iter().find(|(of, _)| *of == row).map_or(0, |(_, a)| *a))
        };
        let chosen = self.classes.iter().zip(classes).flat_map(|(class, chosen)| {
            chosen.iter().map(move |(j, n)| (&class.columns[*j].coefficients, i64::from(*n)))
        });
        let values = self.extras.iter().zip(extras).map(|(extra, n)| (&extra.coefficients, *n));
        chosen.chain(values).map(|(coefficients, n)| of(coefficients) * n).sum()
    }

    /// Whether a choice is one: counts add up, extras are within bounds, and
    /// all rows are met.
    #[must_use]
    pub fn is_met_by(&self, classes: &[Vec<(usize, u32)>], extras: &[i64]) -> bool {
        if classes.len() != self.classes.len() || extras.len() != self.extras.len() {
            return false;
        }
        let mut sums = vec![0i64; self.rows.len()];
        for (class, chosen) in self.classes.iter().zip(classes) {
            if chosen.iter().map(|(_, n)| u64::from(*n)).sum::<u64>() != u64::from(class.count) {
                return false;
            }
            for (j, n) in chosen {
                let Some(column) = class.columns.get(*j) else { return false };
                for (row, a) in &column.coefficients {
                    sums[*row] += i64::from(*a) * i64::from(*n);
                }
            }
        }
        for (extra, x) in self.extras.iter().zip(extras) {
            if !(0..=extra.upper).contains(x) {
                return false;
            }
            for (row, a) in &extra.coefficients {
                sums[*row] += i64::from(*a) * x;
            }
        }
        self.rows.iter().zip(&sums).all(|(row, sum)| row.lacks(*sum) == 0)
    }
}
