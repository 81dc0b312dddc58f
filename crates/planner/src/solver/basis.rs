//! The simplex's results and starting points: bases, cuts, and the outcome.

/// Something that can be basic: a column, or the slack of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Var {
    Column(u32),
    Slack(u32),
}

/// A row that the search adds: the columns together take at least, or at
/// most, so many units.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) columns: Vec<u32>,
    /// A bit for each column up to the last one: it is asked about columns more often than it is made.
    bits: Vec<u64>,
    pub(super) at_least: bool,
    pub(super) rhs: i64,
}

impl Cut {
    /// `columns` ascend.
    pub(super) fn new(columns: Vec<u32>, at_least: bool, rhs: i64) -> Self {
        let mut bits = vec![0; columns.last().map_or(0, |last| *last as usize / 64 + 1)];
        columns.iter().for_each(|j| bits[*j as usize / 64] |= 1 << (j % 64));
        Self { columns, bits, at_least, rhs }
    }

    /// Whether it counts the column.
    pub(super) fn counts(&self, column: u32) -> bool {
        self.bits.get(column as usize / 64).is_some_and(|bits| bits >> (column % 64) & 1 == 1)
    }
}

/// A basis: it can be kept, and optimisation can go on from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Basis {
    pub(super) key: Vec<u32>,
    pub(super) working: Vec<Var>,
}

/// How an optimisation ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Optimal,
    /// No solution meets the rows; these prices (unscaled) show it.
    Infeasible(Vec<f64>),
    /// More pivots than any instance should need, which is numerical trouble, or than it may take.
    Lost,
}

impl Basis {
    /// The same in a program that has only some of the columns: `columns[j]`
    /// is where its column `j` was. Nothing, if one of the basis is missing.
    pub(super) fn among(&self, columns: &[u32]) -> Option<Self> {
        let place = |j: &u32| columns.binary_search(j).ok().map(|j| j as u32);
        Some(Self {
            key: self.key.iter().map(place).collect::<Option<_>>()?,
            working: (self.working.iter())
                .map(|var| match var {
                    Var::Column(j) => place(j).map(Var::Column),
                    Var::Slack(row) => Some(Var::Slack(*row)),
                })
                .collect::<Option<_>>()?,
        })
    }
}
