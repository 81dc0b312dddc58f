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

use std::collections::BTreeMap;

use super::program::Program;
use super::simplex::Simplex;

/// Denominators beyond this make rows of large numbers that cut little.
const DENOMINATOR: i128 = 4_096;
/// How far a point has to be beyond a row, relative to the row's length.
const VIOLATION: f64 = 1e-4;
/// A tableau row is also tried times 2, 3, ...: the remainders differ.
const MULTIPLES: i128 = 4;

/// `sum of coefficients x columns <= rhs`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoundedRow {
    /// The columns with a coefficient, ascending.
    pub(super) terms: Vec<(u32, i64)>,
    pub(super) rhs: i64,
}

/// The rows that cut off the simplex's optimum, deepest first, at most `most`.
pub(super) fn rounded_rows(program: &Program, simplex: &Simplex<'_>, most: usize) -> Vec<RoundedRow> {
    let values = simplex.solution();
    let keys = simplex.keys();
    let mut found: Vec<(f64, RoundedRow)> = Vec::new();
    for multipliers in simplex.fractional_rows() {
        let Some((numerators, denominator)) = as_fractions(&multipliers) else { continue };
        for times in 1..=MULTIPLES.min(denominator - 1) {
            let numerators: Vec<i128> = numerators.iter().map(|n| n * times).collect();
            let Some(row) = round(program, keys, &numerators, denominator) else { continue };
            let depth = depth(&row, &values);
            if depth > VIOLATION && found.iter().all(|(_, other)| *other != row) {
                found.push((depth, row));
            }
        }
    }
    found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    found.truncate(most);
    found.into_iter().map(|(_, row)| row).collect()
}

/// How far the point is beyond the row, in the space of columns.
fn depth(row: &RoundedRow, values: &[(u32, f64)]) -> f64 {
    let mut beyond = -(row.rhs as f64);
    for (j, x) in values {
        if let Ok(at) = row.terms.binary_search_by_key(j, |(column, _)| *column) {
            beyond += row.terms[at].1 as f64 * x;
        }
    }
    let length: f64 = row.terms.iter().map(|(_, a)| (*a as f64).powi(2)).sum();
    beyond / length.sqrt().max(1.0)
}

/// The multipliers as fractions with one denominator, if it is small.
fn as_fractions(multipliers: &[f64]) -> Option<(Vec<i128>, i128)> {
    let mut denominator: i128 = 1;
    for u in multipliers {
        let own = denominator_of(*u)?;
        denominator = denominator / gcd(denominator, own) * own;
        if denominator > DENOMINATOR {
            return None;
        }
    }
    let numerators = multipliers.iter().map(|u| (u * denominator as f64).round() as i128).collect();
    (denominator > 1).then_some((numerators, denominator))
}

/// The denominator of the simplest fraction that a number is, by its
/// continued fraction.
fn denominator_of(u: f64) -> Option<i128> {
    let (mut before, mut denominator) = (0i128, 1i128);
    let mut rest = u;
    for _ in 0..24 {
        if (u * denominator as f64 - (u * denominator as f64).round()).abs() < 1e-7 {
            return Some(denominator);
        }
        let fraction = rest - rest.floor();
        rest = 1.0 / fraction;
        if !rest.is_finite() {
            return None;
        }
        (before, denominator) = (denominator, rest.floor() as i128 * denominator + before);
        if denominator > DENOMINATOR {
            return None;
        }
    }
    None
}

/// The rounded combination of the program's rows with these multipliers, and
/// of the blocks' counts such that every key has the coefficient 0.
fn round(program: &Program, keys: &[u32], numerators: &[i128], denominator: i128) -> Option<RoundedRow> {
    let combined = |j: u32| -> i128 {
        let terms = program.terms(j as usize);
        (program.term_row[terms.clone()].iter().zip(&program.term[terms]))
            .map(|(row, a)| numerators[*row as usize] * i128::from(*a))
            .sum()
    };
    let key: Vec<i128> = keys.iter().map(|key| combined(*key)).collect();
    let mut right: i128 = program.rows.iter().zip(numerators).map(|(row, n)| n * i128::from(row.rhs)).sum();
    right -= program.count.iter().zip(&key).map(|(count, key)| i128::from(*count) * key).sum::<i128>();
    let remainder = right.rem_euclid(denominator);
    if remainder == 0 {
        return None;
    }
    let rounded = |n: i128| -> i128 {
        n.div_euclid(denominator) * (denominator - remainder) + (n.rem_euclid(denominator) - remainder).max(0)
    };
    // What is said of slacks, in terms of columns: a slack is how far its row
    // is from its right-hand side.
    let slack: Vec<i128> = (program.rows.iter().zip(numerators))
        .map(|(row, n)| if row.at_least { -rounded(-n) } else { rounded(*n) })
        .collect();
    let mut rhs = right.div_euclid(denominator) * (denominator - remainder);
    rhs -= program.rows.iter().zip(&slack).map(|(row, s)| s * i128::from(row.rhs)).sum::<i128>();
    let mut terms: Vec<(u32, i128)> = Vec::new();
    for b in 0..program.blocks() {
        let of_block: Vec<(u32, i128)> = program
            .block(b)
            .map(|j| {
                let own = rounded(combined(j as u32) - key[b]);
                let range = program.terms(j);
                let of_slacks: i128 = (program.term_row[range.clone()].iter().zip(&program.term[range]))
                    .map(|(row, a)| slack[*row as usize] * i128::from(*a))
                    .sum();
                (j as u32, own - of_slacks)
            })
            .collect();
        // The coefficient that most columns of the block have goes to the
        // right-hand side: the block's units add up to its count.
        let mut often: BTreeMap<i128, usize> = BTreeMap::new();
        for (_, a) in &of_block {
            *often.entry(*a).or_default() += 1;
        }
        let base = often.into_iter().max_by_key(|(a, n)| (*n, std::cmp::Reverse(a.abs()), *a))?.0;
        rhs -= base * i128::from(program.count[b]);
        terms.extend(of_block.into_iter().map(|(j, a)| (j, a - base)).filter(|(_, a)| *a != 0));
    }
    let divisor = terms.iter().fold(0, |g, (_, a)| gcd(g, a.abs()));
    if divisor == 0 {
        return None;
    }
    let terms: Option<Vec<(u32, i64)>> = terms
        .into_iter()
        .map(|(j, a)| Some((j, i64::try_from(a / divisor).ok().filter(|a| a.abs() < 1 << 24)?)))
        .collect();
    Some(RoundedRow { terms: terms?, rhs: i64::try_from(rhs.div_euclid(divisor)).ok()? })
}

const fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
