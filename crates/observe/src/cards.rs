//! What is known of the card that a product label or a policy names.

use mig::resource::{GpuResource, Unit};
use mig::sharing::{Known, find};

/// The id of a card or model, however it is written: `T4` for `Tesla-T4`.
pub(crate) fn card_id(text: &str) -> Option<&'static str> {
    find(text).map(Known::id)
}

/// Whether a card can have devices of a resource. One that nobody knows can have whole GPUs only.
pub(crate) fn may_have(card: Option<Known<'_>>, resource: &str) -> bool {
    let is_gpu = || matches!(GpuResource::parse(resource), Some(GpuResource { unit: Unit::Gpu, .. }));
    card.map_or_else(is_gpu, |card| card.has_resource(resource))
}
