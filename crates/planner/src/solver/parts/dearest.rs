//! Where filling idle copies starts when there are many kinds of things to do: what is worth most for its size first,
//! in several ways, of which the best is taken.

use super::anew::Measure;
use super::model::Model;
use super::order::InOrder;
use super::refill;
use super::split::State;

/// Ways in which what is worth most is done first.
const WAYS: u64 = 40;
/// Beyond so many pairs of a copy and a thing to do, that is not tried.
const PAIRS: i64 = 60_000;

/// The best of some ways in which idle copies do what is worth most for its size first, with its values; nothing, where
/// there are so many copies and things that it would take long.
pub(super) fn first(model: &Model<'_>, copies: &[usize]) -> Option<(State, Vec<i64>)> {
    let nothing = refill::nothing(model);
    let worth = refill::savings(model, &nothing.sums(model, true));
    let rows = model.instance.rows.iter().zip(&model.coverable);
    let wanted: Vec<i64> = rows.map(|(row, coverable)| if *coverable { row.rhs } else { 0 }).collect();
    let things = wanted.iter().sum::<i64>().saturating_mul(i64::try_from(nothing.pieces.len()).ok()?);
    if things > PAIRS {
        return None;
    }
    let mut fit = InOrder::new(model, nothing, copies);
    let ways = (0..WAYS).filter_map(|way| {
        let measure = Measure::new(way);
        let order = measure.dearest_first(&fit.shares, &wanted, &worth);
        fit.begin_anew();
        fit.fullest_first(&order, measure, usize::MAX);
        Some((fit.state.clone(), fit.state.values(model)?))
    });
    ways.min_by(|(_, a), (_, b)| a.cmp(b))
}
