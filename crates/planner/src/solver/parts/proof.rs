//! What is proved of a level, and whether that is enough.

use crate::solver::bound_of;
use crate::solver::instance::Instance;
use crate::solver::lexicographic::Levels;

/// At the level `held.len()`, with the earlier ones at these values, no choice is
/// below the bound.
#[derive(Clone, Debug)]
pub(super) struct Proof {
    pub(super) held: Vec<i64>,
    pub(super) bound: i64,
    /// Whether all copies together, tightened, were asked as well.
    pub(super) is_tightened: bool,
}

impl Proof {
    /// All copies together, tightened, sometimes prove more than patterns do; that costs less than a search.
    pub(super) fn tighten(&mut self, instance: &Instance) {
        if !self.is_tightened {
            self.bound = self.bound.max(bound_of(instance, &self.held));
            self.is_tightened = true;
        }
    }
}

/// Whether only the last level is open: a repair is of no use then but for that level.
pub(super) fn is_last(values: &[i64], proof: &Proof, together: &Levels<'_>, proofs: &[Proof]) -> bool {
    let (before, last) = values.split_at(values.len().saturating_sub(1));
    before == proof.held && last.iter().any(|value| *value > proof.bound) && is_best(before, together, proofs)
}

/// Whether no choice is better at the first levels, where they come to these values.
pub(super) fn is_best(values: &[i64], together: &Levels<'_>, proved: &[Proof]) -> bool {
    (0..values.len()).all(|k| {
        let agrees = (0..k).all(|j| values[j] == together.level(j).value);
        agrees && values[k] <= together.level(k).bound
            || proved.iter().any(|proof| proof.held == values[..k] && values[k] <= proof.bound)
    })
}
