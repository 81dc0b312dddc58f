//! What is known of the card that a product label or a policy names.

use mig::GpuResource;
use mig::resource::Unit;
use mig::sharing::{Known, find};

/// The id of a card or model, however it is written: `T4` for `Tesla-T4`.
pub(crate) fn card_id(text: &str) -> Option<&'static str> {
    find(text).map(|known| match known {
        Known::Model(model) => model.id.as_str(),
        Known::Card(card) => card.id.as_str(),
    })
}

/// Whether a card can have devices of a resource. A card that nobody knows can
/// have whole GPUs only.
pub(crate) fn has_resource(card: Option<Known<'_>>, resource: &str) -> bool {
    match (GpuResource::parse(resource).map(|resource| resource.unit), card) {
        (Some(Unit::Gpu), _) => true,
        (Some(Unit::Slice(profile)), Some(Known::Model(model))) => {
            model.geometry.profile_named(profile).is_some()
        }
        (Some(Unit::Slice(_) | Unit::UnknownSlice) | None, _) => false,
    }
}

/// What one device of a card serves through MPS at most, by its control daemon.
pub(crate) fn most_by_mps(card: Known<'_>) -> u32 {
    match card {
        Known::Card(card) => mig::sharing::most_by_mps(card.compute_capability()),
        // Every card that knows MIG is newer.
        Known::Model(_) => mig::sharing::MPS_MOST,
    }
}
