//! The data files as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::{CatalogError, Problem};
use crate::model::{Architecture, Engines, Field};
use crate::name::ProfileName;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    architecture: Architecture,
    models: Vec<ModelEntry>,
}

/// A model, with the architecture of its file.
pub(super) struct Entry {
    pub(super) architecture: Architecture,
    pub(super) model: ModelEntry,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelEntry {
    pub(super) id: String,
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    #[serde(default)]
    pub(super) names: Vec<String>,
    pub(super) pci_device_ids: Vec<String>,
    pub(super) compute_capability: String,
    pub(super) total_memory_mib: Option<u32>,
    pub(super) sm_count: Option<u16>,
    pub(super) grid: Grid,
    pub(super) profiles: Vec<ProfileEntry>,
    pub(super) sources: BTreeMap<Field, String>,
    #[serde(default)]
    pub(super) unverified: BTreeMap<Field, String>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    #[serde(default)]
    pub(super) variants: Vec<VariantEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantEntry {
    pub(super) name: String,
    pub(super) pci_device_id: String,
    pub(super) sm_count: Option<u16>,
    #[serde(default)]
    pub(super) sm: BTreeMap<String, u16>,
    pub(super) source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    pub(super) compute_slices: u8,
    pub(super) memory_units: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileEntry {
    pub(super) name: ProfileName,
    pub(super) nvml_enum: u8,
    pub(super) profile_id: Option<u16>,
    pub(super) slice_count: u8,
    pub(super) max_instances: u8,
    pub(super) sm: Option<u16>,
    pub(super) memory_mib: Option<u32>,
    #[serde(default)]
    pub(super) memory_mib_from_driver: BTreeMap<u16, u32>,
    pub(super) lgip_gib: Option<f64>,
    pub(super) engines: Option<Engines>,
    pub(super) placements: Placements,
    #[serde(default)]
    pub(super) sources: BTreeMap<Field, String>,
    #[serde(default)]
    pub(super) unverified: BTreeMap<Field, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Placements {
    pub(super) starts: Vec<u8>,
    pub(super) size: u8,
}

pub(super) fn read(name: &str, text: &str) -> Result<Vec<Entry>, CatalogError> {
    let File { architecture, models } = serde_saphyr::from_str(text).map_err(|error| CatalogError {
        file: name.to_owned(),
        model: None,
        profile: None,
        field: None,
        problem: Problem::Syntax { message: error.to_string() },
    })?;
    Ok(models.into_iter().map(|model| Entry { architecture, model }).collect())
}
