//! The map of layouts that MIG manager reads (mig-parted's format, version
//! v1), and what an entry of it means for a GPU.

use std::collections::BTreeMap;

use mig::{Model, ProfileName};
use serde::Deserialize;

/// A map of layouts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Map {
    /// The entries, by name.
    #[serde(rename = "mig-configs")]
    pub entries: BTreeMap<String, Vec<Rule>>,
}

/// What some GPUs of a node are cut into.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Rule {
    /// PCI ids, such as `0x20B210DE`; empty: any GPU.
    #[serde(default)]
    pub device_filter: Filter,
    /// Which GPUs.
    pub devices: Devices,
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// How many slices of each profile.
    #[serde(default)]
    pub mig_devices: BTreeMap<String, u32>,
}

/// PCI ids; written as one text or a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Filter {
    /// One id.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for Filter {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// Which GPUs a rule is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Devices {
    /// These, by index.
    Indices(Vec<u16>),
    /// `all`.
    All(String),
}

/// What one GPU is cut into, as far as a map says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// MIG is off.
    Off,
    /// So many slices of each profile.
    Slices(BTreeMap<ProfileName, u32>),
}

/// Why an entry says nothing about a GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The text is not a map.
    #[error("it is not a map of layouts: {message}")]
    Syntax {
        /// What is wrong.
        message: String,
    },
    /// No rule of the entry is for this GPU.
    #[error("no rule of entry `{entry}` is for GPU {gpu}")]
    Uncovered {
        /// The entry.
        entry: String,
        /// The GPU.
        gpu: u16,
    },
    /// A profile name that cannot be read.
    #[error("entry `{entry}`: {source}")]
    Profile {
        /// The entry.
        entry: String,
        /// What is wrong.
        source: mig::NameError,
    },
}

impl Map {
    /// Reads a map.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        serde_saphyr::from_str(text).map_err(|error| MapError::Syntax {
            message: error.without_snippet().to_string().lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// What an entry makes of a GPU; `None` when there is no such entry. Of
    /// several rules for a GPU, the last wins, as mig-parted applies them in
    /// order.
    ///
    /// # Errors
    /// If the entry does not speak of the GPU, or of profiles that are none.
    pub fn cut(&self, entry: &str, gpu: u16, model: &Model) -> Option<Result<Cut, MapError>> {
        let rules = self.entries.get(entry)?;
        let rule = rules.iter().rev().find(|rule| rule.is_for(gpu, model));
        Some(match rule {
            None => Err(MapError::Uncovered { entry: entry.to_owned(), gpu }),
            Some(rule) => rule.cut(entry),
        })
    }
}

impl Rule {
    fn is_for(&self, gpu: u16, model: &Model) -> bool {
        let ids = match &self.device_filter {
            Filter::One(id) => std::slice::from_ref(id),
            Filter::Many(ids) => ids,
        };
        let by_id = ids.is_empty()
            || ids.iter().any(|id| device_id(id).is_some_and(|id| model.pci_device_ids.contains(&id)));
        by_id
            && match &self.devices {
                Devices::All(word) => word == "all",
                Devices::Indices(indices) => indices.contains(&gpu),
            }
    }

    fn cut(&self, entry: &str) -> Result<Cut, MapError> {
        if !self.mig_enabled {
            return Ok(Cut::Off);
        }
        let mut slices = BTreeMap::new();
        for (name, count) in self.mig_devices.iter().filter(|(_, count)| **count > 0) {
            let profile =
                name.parse().map_err(|source| MapError::Profile { entry: entry.to_owned(), source })?;
            *slices.entry(profile).or_insert(0) += count;
        }
        Ok(Cut::Slices(slices))
    }
}

/// `0x20B210DE`, or with a subsystem after a colon, is device `0x20B2`.
fn device_id(text: &str) -> Option<u16> {
    let id = text.split(':').next()?.trim();
    let id = u32::from_str_radix(id.strip_prefix("0x").or_else(|| id.strip_prefix("0X"))?, 16).ok()?;
    u16::try_from(id >> 16).ok()
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
