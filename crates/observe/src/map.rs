//! The map of layouts that MIG manager reads (mig-parted's format, version
//! v1), and what an entry of it means for a GPU.

use std::collections::{BTreeMap, BTreeSet};

use mig::{Model, ProfileName};
use planner::names::GpuIndex;
use rollout::GpuLayout;
use rollout::map::{Devices, MigMap, NodeGpu, Unclear};

/// A map of layouts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map(MigMap);

/// What one GPU is cut into, as far as a map says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// MIG is off.
    Off,
    /// So many slices of each profile.
    Slices(BTreeMap<ProfileName, u32>),
}

/// The text is not a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a map of layouts: {message}")]
pub struct NoMap {
    /// What is wrong.
    message: String,
}

impl Map {
    /// Reads a map, as the rollout reads it and MIG manager would.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(text: &str) -> Result<Self, NoMap> {
        text.parse().map(Self).map_err(|error: rollout::map::MapError| NoMap {
            message: error.to_string().lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// The indices of the GPUs that an entry cuts, and of all that it names;
    /// `None` where it does not name them one by one.
    #[must_use]
    pub fn indices(&self, entry: &str) -> Option<(BTreeSet<u16>, BTreeSet<u16>)> {
        let (mut cut, mut named) = (BTreeSet::new(), BTreeSet::new());
        for item in self.0.entries.get(entry)? {
            let Devices::Indices(indices) = &item.devices else { return None };
            named.extend(indices);
            // Of several items for a GPU, the last counts.
            for index in indices {
                if item.mig_enabled {
                    cut.insert(*index);
                } else {
                    cut.remove(index);
                }
            }
        }
        Some((cut, named))
    }

    /// What an entry makes of a GPU; `None` when there is no such entry. Of
    /// several rules for a GPU, the last wins, as mig-parted applies them in
    /// order.
    ///
    /// # Errors
    /// If the entry leaves it open.
    pub fn cut(&self, entry: &str, gpu: u16, model: &Model) -> Option<Result<Cut, Unclear>> {
        let gpu = NodeGpu { index: GpuIndex(gpu), model: Some(model) };
        let layout = match self.0.layout_for(entry, &[gpu]) {
            Ok(layout) => layout,
            Err(Unclear::NoEntry { .. }) => return None,
            Err(unclear) => return Some(Err(unclear)),
        };
        layout.0.into_values().next().map(|layout| {
            Ok(match layout {
                GpuLayout::Off => Cut::Off,
                GpuLayout::Mig(slices) => {
                    Cut::Slices(slices.into_iter().map(|(profile, n)| (profile, u32::from(n))).collect())
                }
            })
        })
    }
}

/// What one of the names that NVIDIA ships means for a model: `all-disabled`,
/// `all-enabled`, `all-<profile>`, `all-balanced`.
#[must_use]
pub fn default_name(entry: &str, model: &Model) -> Option<Cut> {
    let rest = entry.strip_prefix("all-")?;
    match rest {
        "disabled" => return Some(Cut::Off),
        "enabled" => return Some(Cut::Slices(BTreeMap::new())),
        "balanced" => {}
        profile => {
            let name: ProfileName = profile.parse().ok()?;
            let profile = model.profiles.iter().find(|p| p.name == name)?;
            return Some(Cut::Slices(BTreeMap::from([(name, u32::from(profile.max_instances))])));
        }
    }
    // 2 x 1g + 1 x 2g, and 1 x 3g where there is one: each in its plainest form.
    let plain = |compute: u8| {
        let of = model.profiles.iter().map(|p| p.name);
        of.filter(|n| n.compute == compute && n.attribute == mig::Attribute::Plain).min()
    };
    let mut slices = BTreeMap::from([(plain(1)?, 2), (plain(2)?, 1)]);
    if let Some(three) = plain(3) {
        slices.insert(three, 1);
    }
    Some(Cut::Slices(slices))
}

#[cfg(test)]
mod tests {
    use mig::Catalog;

    use super::*;

    fn model(id: &str) -> &'static Model {
        Catalog::builtin().get(id).expect("known")
    }

    fn slices(of: &[(&str, u32)]) -> Cut {
        Cut::Slices(of.iter().map(|(name, n)| (name.parse().expect("a name"), *n)).collect())
    }

    #[test]
    fn the_names_that_nvidia_ships_mean_what_they_say() {
        assert_eq!(default_name("all-disabled", model("A100-80GB")), Some(Cut::Off));
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

    const MAP: &str = "
version: v1
mig-configs:
  two-kinds:
    - devices: all
      mig-enabled: false
    - device-filter: '0x20B210DE'
      devices: [0]
      mig-enabled: true
      mig-devices: {1g.10gb: 7}
    - device-filter: [\"0x20B710DE\", \"0x233110DE:0x18BE10DE\"]
      devices: all
      mig-enabled: true
      mig-devices: {1g.6gb: 4, 2g.12gb: 0}
";

    #[test]
    fn the_last_rule_for_a_gpu_wins() {
        let map = Map::parse(MAP).expect("a map");
        let cut =
            |gpu, id| map.cut("two-kinds", gpu, model(id)).expect("the entry is there").expect("covered");
        assert_eq!(cut(0, "A100-80GB"), slices(&[("1g.10gb", 7)]));
        assert_eq!(cut(1, "A100-80GB"), Cut::Off);
        assert_eq!(cut(3, "A30"), slices(&[("1g.6gb", 4)]));
        assert!(map.cut("three-kinds", 0, model("A30")).is_none());
    }

    #[test]
    fn a_text_that_is_no_map_says_why() {
        let error = Map::parse("mig-configs: [1, 2]").expect_err("a list");
        assert!(error.to_string().starts_with("it is not a map of layouts: "), "{error}");
    }
}
