//! The fields of `--query-gpu`, in the order of the real program's help.

mod board;
mod errors;
mod power;
mod work;

use super::Subject as S;
use super::field::Field;
use crate::snapshot::Memory;

/// All of them.
pub(crate) const FIELDS: &[&[Field<S>]] = &[
    board::FIELDS,
    work::FIELDS,
    errors::MODES,
    errors::CORRECTED,
    errors::UNCORRECTED,
    errors::MEMORY,
    power::FIELDS,
    power::NOT_MODELLED,
    power::CLOCKS,
    board::PLACE,
];

fn switch(state: Option<bool>) -> Option<String> {
    state.map(|on| if on { "Enabled" } else { "Disabled" }.to_owned())
}

fn yes_no(state: Option<bool>) -> Option<String> {
    state.map(|yes| if yes { "Yes" } else { "No" }.to_owned())
}

fn number<N: ToString>(number: Option<N>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn word(word: Option<&'static str>) -> Option<String> {
    word.map(str::to_owned)
}

fn watts(milliwatts: Option<impl Into<u64>>) -> Option<String> {
    milliwatts.map(|mw| {
        let mw: u64 = mw.into();
        format!("{}.{:02}", mw / 1000, mw % 1000 / 10)
    })
}

fn memory(memory: Option<&Memory>, part: fn(&Memory) -> u64) -> Option<String> {
    number(memory.map(part))
}
