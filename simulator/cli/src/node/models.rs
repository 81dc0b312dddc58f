//! The GPUs of a node, in the syntax of the command line.

use std::str::FromStr;
use std::sync::Arc;

use gpu::{Model, ModelError};
use mig::sharing::Known;

/// The display card of a workstation: it has no MIG and no CUDA work.
const DISPLAY: &str = "display";

/// A model and how many of it.
#[derive(Clone, Debug)]
pub(super) struct Gpus {
    pub(super) model: Arc<Model>,
    pub(super) count: u16,
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = match text.split_once('=') {
            Some((name, count)) => (name.trim(), count.trim()),
            None => (text.trim(), "1"),
        };
        let Ok(count @ 1..=32) = count.parse() else {
            return Err(format!("`{count}` is no number of GPUs: 1 to 32 are possible"));
        };
        Ok(Self { model: model(name)?, count })
    }
}

fn model(name: &str) -> Result<Arc<Model>, String> {
    if name.eq_ignore_ascii_case(DISPLAY) {
        return Ok(Arc::new(Model::display()));
    }
    if let Some(Known::Card(card)) = mig::sharing::find(name) {
        return Ok(Arc::new(Model::of_card(card)));
    }
    Model::find(name).map_err(|error| match error {
        ModelError::Unknown(_) => format!("{error}; without MIG: {}", without_mig().join(", ")),
        ModelError::NotSimulatable(_) => error.to_string(),
    })
}

/// The names of the cards without MIG.
pub(super) fn without_mig() -> Vec<&'static str> {
    let cards = mig::sharing::cards().iter().map(|card| card.id.as_str());
    std::iter::once(DISPLAY).chain(cards).collect()
}
