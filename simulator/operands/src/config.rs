//! The map of MIG configurations, in mig-parted's format, version 1: reading
//! it, and generating the one that MIG manager generates from the hardware.

use std::collections::BTreeMap;

use gpu::{MigFacts, Model};
use mig::{Attribute, ProfileName};
use serde::{Deserialize, Serialize};

/// The file: named configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MigConfigs {
    /// Always `v1`.
    pub version: String,
    /// The configurations, by name.
    pub mig_configs: BTreeMap<String, Vec<Entry>>,
}

/// One entry of a configuration: which GPUs, and what they get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Entry {
    /// PCI ids (`0x233010DE`) of the models that are meant; any, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_filter: Option<Filter>,
    /// Which GPUs of the node.
    pub devices: Devices,
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// How many slices of each profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_devices: Option<BTreeMap<String, i64>>,
}

/// One PCI id, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Filter {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// All GPUs, or some by index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Devices {
    /// The word `all`.
    Word(String),
    /// Indices.
    Indices(Vec<u16>),
}

/// Why a map, or an entry of it, is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not the format.
    #[error("the MIG configuration cannot be read: {0}")]
    Syntax(String),
    /// Another version.
    #[error("version is `{0}`; `v1` is the one that is understood")]
    Version(String),
    /// No such configuration.
    #[error("selected mig-config not present: `{name}`; there are {}", known.join(", "))]
    NotPresent {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// An entry that says nothing possible.
    #[error("configuration `{name}`, entry {entry}: {problem}")]
    Entry {
        /// The configuration.
        name: String,
        /// The entry, from 0.
        entry: usize,
        /// What is wrong.
        problem: String,
    },
}

impl MigConfigs {
    /// Reads a map.
    ///
    /// # Errors
    /// Says where it is not valid.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let configs: Self = serde_saphyr::from_str(text).map_err(|e| ConfigError::Syntax(e.to_string()))?;
        if configs.version != "v1" {
            return Err(ConfigError::Version(configs.version));
        }
        if configs.mig_configs.is_empty() {
            return Err(ConfigError::Syntax("mig-configs is empty".to_owned()));
        }
        for (name, entries) in &configs.mig_configs {
            let error = |entry, problem: &str| ConfigError::Entry {
                name: name.clone(),
                entry,
                problem: problem.to_owned(),
            };
            if entries.is_empty() {
                return Err(error(0, "a configuration has at least one entry"));
            }
            for (i, entry) in entries.iter().enumerate() {
                entry.check().map_err(|problem| error(i, &problem))?;
            }
        }
        Ok(configs)
    }

    /// The entries of a configuration.
    ///
    /// # Errors
    /// [`ConfigError::NotPresent`].
    pub fn get(&self, name: &str) -> Result<&[Entry], ConfigError> {
        self.mig_configs.get(name).map(Vec::as_slice).ok_or_else(|| ConfigError::NotPresent {
            name: name.to_owned(),
            known: self.mig_configs.keys().cloned().collect(),
        })
    }

    /// The map as text.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("plain data can be written")
    }

    /// The map that MIG manager generates for a node with these models:
    /// `all-disabled`, `all-enabled`, `all-<profile>` for each profile, and
    /// `all-balanced`. With several models each entry names its model's.
    #[must_use]
    pub fn generated<'m>(models: impl IntoIterator<Item = &'m Model>) -> Self {
        let mut capable: Vec<(&Model, &MigFacts)> =
            models.into_iter().filter_map(|m| Some((m, m.mig.as_ref()?))).collect();
        // Products of one model have PCI ids of their own, and so an entry each.
        let product = |(model, _): &(&Model, &MigFacts)| (model.name.clone(), model.pci_device);
        capable.sort_by_key(product);
        capable.dedup_by_key(|capable| product(capable));
        let several = capable.len() > 1;
        let mut configs: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for (name, on) in [("all-disabled", false), ("all-enabled", true)] {
            let mig_devices = on.then(BTreeMap::new);
            let all = Entry { device_filter: None, devices: Devices::all(), mig_enabled: on, mig_devices };
            configs.insert(name.to_owned(), vec![all]);
        }
        for (model, mig) in capable {
            let filter = model.pci_device.filter(|_| several).map(|id| Filter::One(pci_id(id)));
            let mut add = |name: String, slices: BTreeMap<String, i64>| {
                configs.entry(name).or_default().push(Entry {
                    device_filter: filter.clone(),
                    devices: Devices::all(),
                    mig_enabled: true,
                    mig_devices: Some(slices),
                });
            };
            for profile in &mig.profiles {
                let name = profile.name.to_string();
                let slices = BTreeMap::from([(name.clone(), i64::from(profile.max_instances))]);
                add(format!("all-{}", name.replace('+', ".")), slices);
            }
            if let Some(slices) = balanced(mig) {
                add("all-balanced".to_owned(), slices);
            }
        }
        Self { version: "v1".to_owned(), mig_configs: configs }
    }
}

/// Two 1g, a 2g, and a 3g where there is one: of each the smallest memory.
fn balanced(mig: &MigFacts) -> Option<BTreeMap<String, i64>> {
    let of = |slices: u8| {
        let plain = |p: &&gpu::ProfileFacts| p.slices == slices && p.name.attribute == Attribute::Plain;
        mig.profiles.iter().filter(plain).min_by_key(|p| p.memory_mib).map(|p| p.name.to_string())
    };
    let mut slices = BTreeMap::from([(of(1)?, 2), (of(2)?, 1)]);
    if mig.geometry.compute() == 7 {
        slices.insert(of(3)?, 1);
    }
    Some(slices)
}

/// `0x<device>10DE`, as filters write it.
fn pci_id(device: u16) -> String {
    format!("0x{device:04X}10DE")
}

impl Devices {
    /// All GPUs of the node.
    #[must_use]
    pub fn all() -> Self {
        Self::Word("all".to_owned())
    }
}

impl Entry {
    fn check(&self) -> Result<(), String> {
        if let Devices::Word(word) = &self.devices
            && word != "all"
        {
            return Err(format!("devices is `{word}`; it is `all` or a list of indices"));
        }
        let Some(slices) = &self.mig_devices else {
            return if self.mig_enabled {
                Err("mig-devices is missing; it is required with mig-enabled: true ({} is allowed)"
                    .to_owned())
            } else {
                Ok(())
            };
        };
        if !self.mig_enabled && !slices.is_empty() {
            return Err("mig-devices is not empty; with mig-enabled: false there are none".to_owned());
        }
        for (profile, count) in slices {
            profile.parse::<ProfileName>().map_err(|e| e.to_string())?;
            if *count < 0 {
                return Err(format!("mig-devices: {profile} is {count}; counts start at 0"));
            }
        }
        if !slices.is_empty() && slices.values().all(|n| *n == 0) {
            return Err("mig-devices: all counts are zero; write {} for no slices".to_owned());
        }
        Ok(())
    }

    /// Whether the entry speaks of this GPU.
    #[must_use]
    pub fn matches(&self, index: u16, model: &Model) -> bool {
        let wanted = match &self.device_filter {
            None => return self.names(index),
            Some(Filter::One(one)) => std::slice::from_ref(one),
            Some(Filter::Many(many)) => many,
        };
        let of_model = wanted.is_empty()
            || model.pci_device.is_some_and(|id| {
                let id = pci_id(id);
                // A sub-device after the colon would choose among boards of one model.
                wanted.iter().any(|w| w.split(':').next().is_some_and(|w| w.eq_ignore_ascii_case(&id)))
            });
        of_model && self.names(index)
    }

    fn names(&self, index: u16) -> bool {
        match &self.devices {
            Devices::Word(_) => true,
            Devices::Indices(indices) => indices.contains(&index),
        }
    }

    /// Whether it names this GPU by its index.
    pub(crate) fn is_explicit(&self) -> bool {
        matches!(self.devices, Devices::Indices(_))
    }

    /// The slices, by profile, zeros left out. Checked when it was read.
    #[must_use]
    pub fn slices(&self) -> BTreeMap<ProfileName, u32> {
        let slices = self.mig_devices.iter().flatten();
        slices
            .filter_map(|(name, n)| Some((name.parse().ok()?, u32::try_from(*n).ok()?)))
            .filter(|(_, n)| *n > 0)
            .collect()
    }
}
