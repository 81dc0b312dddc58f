//! Rows that every integer solution meets and the relaxation's optimum does
//! not: mixed-integer rounding (Gomory's cuts, for variables that are all
//! integer), computed in integers.
//!
//! The tableau row of a fractional basic variable is a combination of rows of
//! the program, slacks included, and of the blocks' counts. Its multipliers are
//! fractions with a common denominator `D`, recovered from floating point.
//! Whatever multipliers come out, the rounded row is valid: a wrong guess makes
//! a useless row, never a wrong one. With every term a multiple of `1/D`,
//! `N = D x coefficient`, `r = N mod D`, and `r0` the remainder of the right-hand
//! side, each coefficient becomes `floor(N/D) (D - r0) + max(0, r - r0)`.

use super::program::{Program, RoundedRow};
use super::simplex::Simplex;
use crate::divisor::common_divisor;

/// Denominators beyond this make rows of large numbers that cut little.
const DENOMINATOR: i64 = 4_096;
/// How far a point has to be beyond a row, relative to the row's length.
const VIOLATION: f64 = 1e-4;
/// A tableau row is also tried times 2, 3, ...: the remainders differ.
const MULTIPLES: usize = 4;
/// Combinations of larger numbers are left alone, so that 64 bits suffice.
const LARGEST: i128 = 1 << 40;

/// The rows that cut off the simplex's optimum, deepest first, at most `most`.
pub(super) fn rounded_rows(program: &Program, simplex: &Simplex<'_>, most: usize) -> Vec<RoundedRow> {
    let values = simplex.solution();
    let mut all: Vec<(Unrounded<'_>, i64)> = Vec::new();
    // (how deep, which of them, how many times)
    let mut candidates: Vec<(f64, usize, i64)> = Vec::new();
    let mut slacks = Vec::new();
    for multipliers in simplex.fractional_rows() {
        let Some((numerators, denominator)) = as_fractions(&multipliers) else { continue };
        let Some(once) = Unrounded::new(program, simplex.keys(), numerators) else { continue };
        let depths = once.depths(denominator, &values, &mut slacks);
        let before = candidates.len();
        let deep = depths.iter().zip(1..).filter(|(depth, _)| **depth > VIOLATION);
        candidates.extend(deep.map(|(depth, times)| (*depth, all.len(), times)));
        if candidates.len() > before {
            all.push((once, denominator));
        }
    }
    // Stable: of equally deep ones the first.
    candidates.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    let mut rows = Vec::new();
    for (_, which, times) in candidates {
        if rows.len() == most {
            break;
        }
        let (once, denominator) = &all[which];
        let row = once.times(times, *denominator).and_then(|combination| combination.row());
        rows.extend(row.filter(|row| !rows.contains(row)));
    }
    rows
}

/// The multipliers as fractions with one denominator, if it is small.
fn as_fractions(multipliers: &[f64]) -> Option<(Vec<i64>, i64)> {
    let mut denominator: i64 = 1;
    for u in multipliers {
        let own = denominator_of(*u)?;
        denominator = denominator / common_divisor(denominator, own) * own;
        if denominator > DENOMINATOR {
            return None;
        }
    }
    let numerators = multipliers.iter().map(|u| (u * denominator as f64).round() as i64).collect();
    (denominator > 1).then_some((numerators, denominator))
}

/// The denominator of the simplest fraction that a number is, by its
/// continued fraction.
fn denominator_of(u: f64) -> Option<i64> {
    // Most are nothing.
    if u == 0.0 {
        return Some(1);
    }
    let (mut before, mut denominator) = (0i64, 1i64);
    let mut rest = u;
    for _ in 0..24 {
        if from_whole(u * denominator as f64) < 1e-7 {
            return Some(denominator);
        }
        rest = 1.0 / (rest - rest.floor());
        if !rest.is_finite() || rest > DENOMINATOR as f64 {
            return None;
        }
        (before, denominator) = (denominator, rest.floor() as i64 * denominator + before);
        if denominator > DENOMINATOR {
            return None;
        }
    }
    None
}

/// How far a number is from the next whole one. (Rounding is a call of a function where the processor's own is not
/// known to be there.)
fn from_whole(x: f64) -> f64 {
    if x.abs() >= (1_u64 << 52) as f64 {
        return 0.0;
    }
    let beyond = (x - x as i64 as f64).abs();
    beyond.min(1.0 - beyond)
}

/// A combination of a program's rows, and of its blocks' counts such that every
/// key has the coefficient 0, before it is rounded.
struct Unrounded<'a> {
    program: &'a Program,
    keys: &'a [u32],
    numerators: Vec<i64>,
    /// What the combination makes of each block's key.
    key: Vec<i64>,
    right: i128,
    /// A bound of every sum of its numbers.
    largest: i128,
}

/// The same after it was rounded.
struct Combination<'a> {
    program: &'a Program,
    numerators: Vec<i64>,
    rounding: Rounding,
    /// What the combination makes of each block's key.
    key: Vec<i64>,
    /// What is said of each row's slack, in terms of columns: a slack is how
    /// far its row is from its right-hand side.
    slack: Vec<i64>,
    rhs: i128,
}

impl<'a> Unrounded<'a> {
    fn new(program: &'a Program, keys: &'a [u32], numerators: Vec<i64>) -> Option<Self> {
        let largest: i128 = (numerators.iter().zip(&program.rows))
            .map(|(n, row)| i128::from(n.unsigned_abs()) * i128::from(row.largest))
            .sum();
        if largest > LARGEST {
            return None;
        }
        let of_key = |key: &u32| {
            let terms = program.terms(*key as usize);
            let terms = program.term_row[terms.clone()].iter().zip(&program.term[terms]);
            terms.map(|(row, a)| numerators[*row as usize] * a).sum()
        };
        let key: Vec<i64> = keys.iter().map(of_key).collect();
        let of_rows: i128 =
            (program.rows.iter().zip(&numerators)).map(|(row, n)| i128::from(*n) * i128::from(row.rhs)).sum();
        let of_counts: i128 =
            (program.count.iter().zip(&key)).map(|(count, key)| i128::from(*count) * i128::from(*key)).sum();
        Some(Self { program, keys, numerators, key, right: of_rows - of_counts, largest })
    }

    /// What is left of the right-hand side, so many times over a denominator; nothing, if there is no row of it.
    fn remainder(&self, times: i64, denominator: i64) -> Option<i64> {
        let wide = i128::from(times);
        if times >= denominator || self.largest * wide > LARGEST {
            return None;
        }
        let remainder = (self.right * wide).rem_euclid(i128::from(denominator));
        i64::try_from(remainder).ok().filter(|remainder| *remainder != 0)
    }

    /// How far the point is beyond the rows that come of it once, twice, and so on, relative to each row's length in the
    /// columns that the point uses: all at once, since most of it is the same for all. Nothing is beyond a row that is none.
    fn depths(
        &self,
        denominator: i64,
        values: &[(u32, f64)],
        slacks: &mut Vec<[i64; MULTIPLES]>,
    ) -> [f64; MULTIPLES] {
        let &Self { program, keys, .. } = self;
        let all: [i64; MULTIPLES] = std::array::from_fn(|i| i as i64 + 1);
        let remainders = all.map(|times| self.remainder(times, denominator));
        if remainders.iter().all(Option::is_none) {
            return [0.0; MULTIPLES];
        }
        let rounding = remainders.map(|remainder| Rounding::new(denominator, remainder.unwrap_or(0)));
        let rounded = |n: i64| -> [i64; MULTIPLES] {
            if n == 0 { [0; MULTIPLES] } else { std::array::from_fn(|i| rounding[i].of(n * all[i])) }
        };
        slacks.clear();
        slacks.extend(
            program
                .rows
                .iter()
                .zip(&self.numerators)
                .map(|(row, n)| if row.at_least { rounded(-n).map(|s| -s) } else { rounded(*n) }),
        );
        let mut of_slacks = [0_i128; MULTIPLES];
        for (row, slack) in program.rows.iter().zip(&*slacks) {
            of_slacks.iter_mut().zip(slack).for_each(|(sum, s)| *sum += i128::from(*s) * i128::from(row.rhs));
        }
        let rhs: [i128; MULTIPLES] = std::array::from_fn(|i| {
            let whole = (self.right * i128::from(all[i])).div_euclid(i128::from(denominator));
            whole * i128::from(denominator - rounding[i].remainder) - of_slacks[i]
        });
        let (mut beyond, mut length) = (rhs.map(|rhs| -(rhs as f64)), [0.0; MULTIPLES]);
        for (j, x) in values {
            let block = program.block_of[*j as usize] as usize;
            let terms = program.terms(*j as usize);
            let mut of_slacks = [0_i64; MULTIPLES];
            let mut unrounded = -self.key[block];
            for (row, a) in program.term_row[terms.clone()].iter().zip(&program.term[terms]) {
                unrounded += self.numerators[*row as usize] * a;
                of_slacks.iter_mut().zip(&slacks[*row as usize]).for_each(|(sum, s)| *sum += s * a);
            }
            // Of a block's key nothing is left before it is rounded.
            let rounded = rounded(if keys[block] == *j { 0 } else { unrounded });
            for i in 0..MULTIPLES {
                let a = (rounded[i] - of_slacks[i]) as f64;
                beyond[i] += a * x;
                length[i] += a * a;
            }
        }
        std::array::from_fn(|i| match remainders[i] {
            Some(_) => beyond[i] / f64::max(length[i].sqrt(), 1.0),
            None => 0.0,
        })
    }

    /// So many times the combination, over a denominator, rounded.
    fn times(&self, times: i64, denominator: i64) -> Option<Combination<'a>> {
        let &Self { program, .. } = self;
        let right = self.right * i128::from(times);
        let whole = i128::from(denominator);
        let rounding = Rounding::new(denominator, self.remainder(times, denominator)?);
        let mut combination = Combination {
            program,
            numerators: self.numerators.iter().map(|n| n * times).collect(),
            rounding,
            key: self.key.iter().map(|key| key * times).collect(),
            slack: Vec::new(),
            rhs: 0,
        };
        combination.slack = (program.rows.iter().zip(&combination.numerators))
            .map(|(row, n)| if row.at_least { -rounding.of(-n) } else { rounding.of(*n) })
            .collect();
        let of_slacks: i128 = (program.rows.iter().zip(&combination.slack))
            .map(|(row, s)| i128::from(*s) * i128::from(row.rhs))
            .sum();
        combination.rhs = right.div_euclid(whole) * i128::from(denominator - rounding.remainder) - of_slacks;
        Some(combination)
    }
}

/// How terms over a denominator are rounded.
#[derive(Clone, Copy)]
struct Rounding {
    denominator: i64,
    /// 1 by the denominator: a division of integers takes as long as five products.
    inverse: f64,
    /// Of the right-hand side; of a row not 0.
    remainder: i64,
}

impl Rounding {
    fn new(denominator: i64, remainder: i64) -> Self {
        Self { denominator, inverse: 1.0 / denominator as f64, remainder }
    }

    /// A term over the denominator, rounded. Terms are below [`LARGEST`], which
    /// floating point has exactly: the quotient is at most one beside the right one.
    fn of(self, n: i64) -> i64 {
        let mut whole = (n as f64 * self.inverse) as i64;
        let mut rest = n - whole * self.denominator;
        if rest < 0 {
            whole -= 1;
            rest += self.denominator;
        } else if rest >= self.denominator {
            whole += 1;
            rest -= self.denominator;
        }
        whole * (self.denominator - self.remainder) + (rest - self.remainder).max(0)
    }
}

impl Combination<'_> {
    fn coefficient(&self, j: u32) -> i64 {
        let block = self.program.block_of[j as usize] as usize;
        let terms = self.program.terms(j as usize);
        let (mut unrounded, mut of_slacks) = (0, 0);
        for (row, a) in self.program.term_row[terms.clone()].iter().zip(&self.program.term[terms]) {
            unrounded += self.numerators[*row as usize] * a;
            of_slacks += self.slack[*row as usize] * a;
        }
        self.rounding.of(unrounded - self.key[block]) - of_slacks
    }

    fn row(&self) -> Option<RoundedRow> {
        let mut rhs = self.rhs;
        let mut terms: Vec<(u32, i64)> = Vec::new();
        let (mut all, mut sorted): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        let mut divisor = 0;
        for b in 0..self.program.blocks() {
            let columns = self.program.block(b);
            all.clear();
            all.extend(columns.clone().map(|j| self.coefficient(j as u32)));
            // The coefficient that most columns of the block have goes to the
            // right-hand side: the block's units add up to its count.
            let base = match all[..] {
                // An extra, mostly.
                [a, b] => a.max(b),
                _ => {
                    sorted.clone_from(&all);
                    sorted.sort_unstable();
                    sorted.chunk_by(|a, b| a == b).max_by_key(|run| run.len()).map_or(0, |run| run[0])
                }
            };
            rhs -= i128::from(base) * i128::from(self.program.count[b]);
            for (j, a) in columns.zip(&all).filter(|(_, a)| **a != base) {
                let a = a - base;
                // Most rows come to 1 soon, and a division takes long.
                if divisor != 1 {
                    divisor = common_divisor(divisor, a.abs());
                }
                terms.push((j as u32, a));
            }
        }
        if divisor == 0 {
            return None;
        }
        if divisor != 1 {
            terms.iter_mut().for_each(|(_, a)| *a /= divisor);
        }
        let small = terms.iter().all(|(_, a)| a.abs() < 1 << 24);
        let rhs = i64::try_from(rhs.div_euclid(i128::from(divisor))).ok()?;
        small.then_some(RoundedRow { terms, rhs })
    }
}

#[cfg(test)]
mod tests {
    use super::super::instance::Sense;
    use super::super::program::Draft;
    use super::*;
    use crate::testing::generate::Numbers;

    /// A small program of random numbers: two blocks and an extra.
    fn program(numbers: &mut Numbers) -> Program {
        let mut number = |low: i64, high: i64| low + numbers.below((high - low + 1) as u64) as i64;
        let rows =
            [(Sense::AtLeast, number(1, 9)), (Sense::AtMost, number(4, 14)), (Sense::AtLeast, number(0, 6))];
        let (mut program, map) = Program::new(&rows);
        for (columns, count) in [(4, number(1, 4)), (3, number(1, 3)), (2, 5)] {
            for _ in 0..columns {
                let terms =
                    (0..rows.len()).map(|row| (row, number(-2, 7))).filter(|(_, a)| *a != 0).collect();
                program.push_column(&Draft { cost: number(0, 5), terms, tag: 1 }, &map);
            }
            program.end_block(count);
        }
        program.extra = vec![false; program.blocks()];
        program.finish();
        program
    }

    /// Every way of spreading a block's units over its columns.
    fn spread(units: i64, columns: usize) -> Vec<Vec<i64>> {
        if columns == 1 {
            return vec![vec![units]];
        }
        let rest = |n| spread(units - n, columns - 1).into_iter().map(move |rest| [vec![n], rest].concat());
        (0..=units).flat_map(rest).collect()
    }

    /// All integer solutions of a program.
    fn solutions(program: &Program) -> Vec<Vec<i64>> {
        let mut all = vec![Vec::new()];
        for b in 0..program.blocks() {
            let ways = spread(program.count[b], program.block(b).len());
            let with = |before: &Vec<i64>| {
                ways.iter().map(|way| [before.clone(), way.clone()].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        let meets = |x: &Vec<i64>| {
            let mut sums = vec![0; program.rows.len()];
            for (j, n) in x.iter().enumerate() {
                for t in program.terms(j) {
                    sums[program.term_row[t] as usize] += program.term[t] * n;
                }
            }
            let met = |(row, sum): (&super::super::program::ProgramRow, &i64)| {
                if row.at_least { *sum >= row.rhs } else { *sum <= row.rhs }
            };
            program.rows.iter().zip(&sums).all(met)
        };
        all.retain(meets);
        all
    }

    #[test]
    fn every_integer_solution_meets_a_rounded_row_whatever_its_multipliers() {
        let mut numbers = Numbers::new(7);
        let (mut rows, mut checked) = (0, 0);
        for _ in 0..150 {
            let program = program(&mut numbers);
            let solutions = solutions(&program);
            for _ in 0..12 {
                let denominator = 2 + numbers.below(11) as i64;
                let numerators = program.rows.iter().map(|_| numbers.below(25) as i64 - 12).collect();
                let key = |b: usize| program.block(b).start as u32 + numbers.below(2) as u32;
                let keys: Vec<u32> = (0..program.blocks()).map(key).collect();
                let combination = Unrounded::new(&program, &keys, numerators);
                let combination = combination.and_then(|once| once.times(1, denominator));
                let Some(row) = combination.and_then(|c| c.row()) else { continue };
                rows += 1;
                for x in &solutions {
                    let sum: i64 = row.terms.iter().map(|(j, a)| a * x[*j as usize]).sum();
                    assert!(sum <= row.rhs, "{x:?} breaks {row:?}");
                    checked += 1;
                }
            }
        }
        assert!(rows > 1_000 && checked > 50_000, "{rows} rows, {checked} checks: too few to say anything");
    }

    #[test]
    fn a_rounded_row_cuts_off_the_optimum_it_comes_from() {
        let mut numbers = Numbers::new(11);
        let mut cuts = 0;
        for _ in 0..200 {
            let program = program(&mut numbers);
            let mut simplex = Simplex::new(&program);
            if simplex.optimise() != super::super::basis::End::Optimal {
                continue;
            }
            let values = simplex.solution();
            for row in rounded_rows(&program, &simplex, 4) {
                let at = |j: u32| values.iter().find(|(k, _)| *k == j).map_or(0.0, |(_, x)| *x);
                let sum: f64 = row.terms.iter().map(|(j, a)| *a as f64 * at(*j)).sum();
                assert!(sum > row.rhs as f64 + 1e-6, "{sum} does not break {row:?}");
                cuts += 1;
            }
        }
        assert!(cuts > 50, "only {cuts} rows: too few to say anything");
    }

    #[test]
    fn fractions_are_recovered_from_floating_point() {
        assert_eq!(as_fractions(&[0.5, -1.0 / 3.0, 2.0]), Some((vec![3, -2, 12], 6)));
        assert_eq!(as_fractions(&[1.0, -4.0]), None, "integers leave nothing to round");
        assert_eq!(as_fractions(&[std::f64::consts::PI]), None, "too large a denominator");
    }
}
