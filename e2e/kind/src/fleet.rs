//! The GPUs of the workers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The label of a worker that says which simulated GPUs it gets.
pub const LABEL: &str = "sim.slicewright.io/gpus";

/// The GPUs of one worker: `COUNTxMODEL`, such as `2xA100-80GB`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Gpus {
    /// How many.
    pub count: u8,
    /// The model, as `slicewright-sim node setup` takes it.
    pub model: String,
}

/// The most GPUs of a worker: what the largest machines have.
const MOST: u8 = 16;

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not COUNTxMODEL, such as 2xA100-80GB, with 1 to {MOST} GPUs");
        let (count, model) = text.split_once('x').ok_or_else(wrong)?;
        let count: u8 = count.parse().ok().filter(|count| (1..=MOST).contains(count)).ok_or_else(wrong)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        // It becomes the value of a label.
        if model.is_empty() || model.len() > 50 || !model.chars().all(fits) {
            return Err(wrong());
        }
        Ok(Self { count, model: model.to_owned() })
    }
}

impl TryFrom<String> for Gpus {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Gpus> for String {
    fn from(gpus: Gpus) -> Self {
        gpus.to_string()
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, self.model)
    }
}

/// A node with A100-80GBs, one with an A30, one with four H100s of which some may be whole and others cut, and one
/// with cards that know no MIG.
#[must_use]
pub fn usual() -> Vec<Gpus> {
    ["2xA100-80GB", "1xA30", "4xH100-80GB", "2xT4"].iter().filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_the_rest_is_refused() {
        for gpus in usual() {
            assert_eq!(gpus.to_string().parse(), Ok(gpus));
        }
        assert_eq!(usual().len(), 4);
        for wrong in ["", "A30", "0xA30", "17xA30", "2x", "2xA 30", "2xA30/x"] {
            let error = wrong.parse::<Gpus>().unwrap_err();
            assert!(error.contains("is not COUNTxMODEL"), "{error}");
        }
    }
}
