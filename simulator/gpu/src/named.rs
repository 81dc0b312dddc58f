//! The GPU that a person names: on a command line, or in the file of a fleet.

use std::sync::Arc;

use mig::sharing::Known;
use mig::{NotSimulatable, UnknownModel};

use crate::model::{Model, ModelError};

/// The word for the display card of a workstation, which has no MIG and no CUDA work.
const DISPLAY: &str = "display";

/// Nobody can say which GPU is meant, or it cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNamed {
    /// Neither a model with MIG nor a card without.
    #[error("{0}; without MIG: {without}", without = without_mig().join(", "))]
    Unknown(UnknownModel),
    /// Some figures of the model are not known.
    #[error(transparent)]
    NotSimulatable(NotSimulatable),
}

impl Model {
    /// The GPU that a text means: `display`, a card without MIG, or whatever [`Model::find`] takes.
    ///
    /// # Errors
    /// There is none of that name, and which there are; or the figures that are missing to simulate it.
    pub fn named(text: &str) -> Result<Arc<Self>, NotNamed> {
        if text.eq_ignore_ascii_case(DISPLAY) {
            return Ok(Arc::new(Self::display()));
        }
        if let Some(Known::Card(card)) = mig::sharing::find(text) {
            return Ok(Arc::new(Self::of_card(card)));
        }
        Self::find(text).map_err(|error| match error {
            ModelError::Unknown(unknown) => NotNamed::Unknown(unknown),
            ModelError::NotSimulatable(missing) => NotNamed::NotSimulatable(missing),
        })
    }
}

/// The names of what has no MIG.
#[must_use]
pub fn without_mig() -> Vec<&'static str> {
    let cards = mig::sharing::cards().iter().map(|card| card.id.as_str());
    std::iter::once(DISPLAY).chain(cards).collect()
}
