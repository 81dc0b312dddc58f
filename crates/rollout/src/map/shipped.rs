//! The names of the entries that NVIDIA ships, and the resulting layout of a GPU: `all-disabled`,
//! `all-enabled`, `all-<profile>`, `all-balanced`.

use std::collections::BTreeMap;

use mig::model::{Model, Profile};
use mig::{Attribute, ProfileName};

use crate::layout::GpuLayout;

/// What one of the names that NVIDIA ships means for a model; `None` when it is
/// none of them, or the model has no such layout.
#[must_use]
pub fn default_name(entry: &str, model: &Model) -> Option<GpuLayout> {
    match entry.strip_prefix("all-")? {
        "disabled" => Some(GpuLayout::Off),
        "enabled" => Some(GpuLayout::Mig(BTreeMap::new())),
        "balanced" => balanced(model).map(GpuLayout::Mig),
        profile => {
            let name: ProfileName = profile.parse().ok()?;
            let profile = model.profiles.iter().find(|profile| profile.name == name)?;
            Some(GpuLayout::Mig(BTreeMap::from([(name, profile.max_instances)])))
        }
    }
}

/// NVIDIA's balanced layout: 2 of one slice, one of two, and one of three
/// where the GPU has seven; each in its plainest form.
pub(super) fn balanced(model: &Model) -> Option<BTreeMap<ProfileName, u8>> {
    let plain = |compute: u8| -> Option<ProfileName> {
        let of_size =
            |profile: &&Profile| profile.slice_count == compute && profile.name.attribute == Attribute::Plain;
        model.profiles.iter().filter(of_size).map(|profile| profile.name).min()
    };
    let mut slices = BTreeMap::from([(plain(1)?, 2), (plain(2)?, 1)]);
    if model.geometry.compute() == 7 {
        slices.insert(plain(3)?, 1);
    }
    Some(slices)
}

#[cfg(test)]
mod tests {
    use mig::Catalog;

    use super::*;

    fn model(id: &str) -> &'static Model {
        Catalog::builtin().get(id).expect("known")
    }

    fn slices(of: &[(&str, u8)]) -> GpuLayout {
        GpuLayout::Mig(of.iter().map(|(name, n)| (name.parse().expect("a name"), *n)).collect())
    }

    #[test]
    fn the_names_that_nvidia_ships_mean_what_they_say() {
        assert_eq!(default_name("all-disabled", model("A100-80GB")), Some(GpuLayout::Off));
        assert_eq!(default_name("all-1g.10gb", model("A100-80GB")), Some(slices(&[("1g.10gb", 7)])));
        assert_eq!(default_name("all-1g.10gb.me", model("A100-80GB")), Some(slices(&[("1g.10gb+me", 1)])));
        assert_eq!(
            default_name("all-balanced", model("A100-80GB")),
            Some(slices(&[("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)]))
        );
        assert_eq!(
            default_name("all-balanced", model("A30")),
            Some(slices(&[("1g.6gb", 2), ("2g.12gb", 1)]))
        );
        assert_eq!(default_name("all-1g.5gb", model("A100-80GB")), None);
        assert_eq!(default_name("research", model("A100-80GB")), None);
    }
}
