//! The GPU models that people name.

use mig::sharing::{self, Known};
use mig::{Catalog, Model};

use crate::exit::Failure;

/// The model of this name.
///
/// # Errors
/// Says that the card has no MIG, or which models are known.
pub(crate) fn named(text: &str) -> Result<&'static Model, Failure> {
    Catalog::builtin().find(text).map_err(|unknown| match sharing::find(text) {
        Some(Known::Card(card)) => Failure::Usage(format!(
            "{} has no MIG, so it cannot be cut into slices; docs/guides/sharing.md says how else pods share it",
            card.id
        )),
        _ => Failure::Usage(unknown.to_string()),
    })
}
