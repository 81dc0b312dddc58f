//! Reads a map that administrators wrote; errors state the position.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Devices, Item, MigMap};

/// Why a text is not a map, or a map cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// It is not YAML of the right shape; the message has line and column.
    #[error("the map cannot be read: {message}")]
    Yaml {
        /// What the parser says.
        message: String,
    },
    /// Another version.
    #[error("version is `{found}`; allowed is v1")]
    Version {
        /// What was given.
        found: String,
    },
    /// No entries, or one without items.
    #[error("{what} is empty; write at least one")]
    Empty {
        /// Which list.
        what: String,
    },
    /// A field of an item.
    #[error("entry `{entry}`, item {item}: {field} is {value}; {allowed}")]
    Field {
        /// Which entry.
        entry: String,
        /// Which item, from 1.
        item: usize,
        /// Which field.
        field: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A name that we use ourselves.
    #[error("entry `{entry}`: names that begin with `slicewright-` are ours; choose another name")]
    Reserved {
        /// Which entry.
        entry: String,
    },
    /// A layout that cannot be written.
    #[error(transparent)]
    Layout(#[from] crate::layout::LayoutRefused),
    /// Larger than a ConfigMap may be.
    #[error("the map has {bytes} bytes; {max} are allowed: shorten the administrators' map")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// What is allowed.
        max: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    version: String,
    mig_configs: BTreeMap<String, Vec<RawItem>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawItem {
    #[serde(default)]
    device_filter: OneOrMany,
    devices: RawDevices,
    mig_enabled: bool,
    mig_devices: Option<BTreeMap<String, u32>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawDevices {
    Word(String),
    Indices(Vec<u16>),
}

impl std::str::FromStr for MigMap {
    type Err = MapError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let File { version, mig_configs } =
            serde_saphyr::from_str(text).map_err(|error| MapError::Yaml { message: error.to_string() })?;
        if version != "v1" {
            return Err(MapError::Version { found: version });
        }
        if mig_configs.is_empty() {
            return Err(MapError::Empty { what: "mig-configs".to_owned() });
        }
        let mut entries = BTreeMap::new();
        for (name, raw) in mig_configs {
            if raw.is_empty() {
                return Err(MapError::Empty { what: format!("entry `{name}`") });
            }
            let items: Result<Vec<_>, _> =
                raw.into_iter().enumerate().map(|(at, raw)| item(&name, at + 1, raw)).collect();
            entries.insert(name, items?);
        }
        Ok(Self { entries })
    }
}

fn item(entry: &str, at: usize, raw: RawItem) -> Result<Item, MapError> {
    let wrong = |field, value: String, allowed| MapError::Field {
        entry: entry.to_owned(),
        item: at,
        field,
        value,
        allowed,
    };
    let RawItem { device_filter, devices, mig_enabled, mig_devices } = raw;
    let device_filter = match device_filter {
        OneOrMany::One(filter) if filter.is_empty() => Vec::new(),
        OneOrMany::One(filter) => vec![filter],
        OneOrMany::Many(filters) => filters,
    };
    for filter in &device_filter {
        let id = |text: &str| {
            text.strip_prefix("0x")
                .is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let well_formed = match filter.split_once(':') {
            Some((device, board)) => id(device) && id(board),
            None => id(filter),
        };
        if !well_formed {
            let allowed = "allowed are ids such as 0x20B510DE";
            return Err(wrong("device-filter", format!("`{filter}`"), allowed));
        }
    }
    let devices = match devices {
        RawDevices::Word(word) if word == "all" => Devices::All,
        RawDevices::Word(word) => {
            return Err(wrong("devices", format!("`{word}`"), "allowed are `all` and a list of indices"));
        }
        RawDevices::Indices(indices) => Devices::Indices(indices),
    };
    let slices = match (mig_enabled, mig_devices) {
        (true, None) => {
            return Err(wrong(
                "mig-devices",
                "absent".to_owned(),
                "it is required where mig-enabled is true",
            ));
        }
        (false, Some(slices)) if !slices.is_empty() => {
            return Err(wrong(
                "mig-devices",
                "given".to_owned(),
                "it is not allowed where mig-enabled is false",
            ));
        }
        (_, slices) => slices.unwrap_or_default(),
    };
    for profile in slices.keys() {
        // `1c.3g.40gb`: mig-parted knows compute instances.
        let gpu_part = profile.split_once("c.").map_or(profile.as_str(), |(compute, rest)| {
            if compute.bytes().all(|b| b.is_ascii_digit()) { rest } else { profile }
        });
        if gpu_part.parse::<mig::ProfileName>().is_err() {
            let allowed = "allowed are profiles such as 1g.10gb or 1g.10gb+me";
            return Err(wrong("mig-devices", format!("`{profile}`"), allowed));
        }
    }
    if !slices.is_empty() && slices.values().all(|n| *n == 0) {
        return Err(wrong("mig-devices", "all zero".to_owned(), "write at least one slice, or {}"));
    }
    Ok(Item { device_filter, devices, mig_enabled, mig_devices: slices })
}
