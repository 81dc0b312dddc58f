//! What one process of the agent remembers. Nothing of it has to survive: a new
//! process tells an account of its own first, which voids every permit.

use std::collections::BTreeMap;

use crate::account::{Account, Stage};
use crate::act::Act;
use crate::names::{ReportNumber, SliceName};
use crate::observation::Turn;

/// How often the driver is asked for one thing, before the agent gives up.
/// `InUse` without a process is seen while a monitor ends, within seconds.
pub const MOST_TRIES: u8 = 5;

/// What one process of the agent remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The number of the account that this process told last, as far as it knows
    /// that it arrived.
    reported: Option<ReportNumber>,
    /// When it last asked the driver for a change.
    acted: Turn,
    /// What the driver refused, how often, and what it said last.
    refused: BTreeMap<(Act, SliceName), (u8, String)>,
}

impl Remembered {
    /// The API server took this account.
    pub fn wrote(&mut self, account: &Account) {
        self.reported = Some(account.report);
        if account.change.as_ref().is_none_or(|change| matches!(change.stage, Stage::Ended(_))) {
            self.refused.clear();
        }
    }

    /// The driver was asked in this turn, and said that it was done.
    pub fn did(&mut self, act: Act, slice: &SliceName, turn: Turn) {
        self.acted = turn;
        self.refused.remove(&(act, slice.clone()));
    }

    /// The driver was asked in this turn and refused, or did not answer.
    pub fn failed(&mut self, act: Act, slice: &SliceName, said: &str, turn: Turn) {
        self.acted = turn;
        let (times, last) = self.refused.entry((act, slice.clone())).or_default();
        *times = times.saturating_add(1);
        said.clone_into(last);
    }

    pub(crate) fn reported(&self) -> Option<ReportNumber> {
        self.reported
    }

    pub(crate) const fn acted(&self) -> Turn {
        self.acted
    }

    /// How often this was tried in vain, and what was said, once that is enough.
    pub(crate) fn gave_up(&self, act: Act, slice: &SliceName) -> Option<&str> {
        let (times, said) = self.refused.get(&(act, slice.clone()))?;
        (*times >= MOST_TRIES).then_some(said.as_str())
    }
}
