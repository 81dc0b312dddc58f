//! The conditions that a table must meet before it is used for planning.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::error::{CatalogError, Problem};
use super::file::{Entry, ModelEntry, ProfileEntry, VariantEntry};
use super::{key, product_key};
use crate::driver::remaining;
use crate::geometry::{Geometry, GeometryError, ProfileSpec};
use crate::index::ProfileIndex;
use crate::lattice::Lattice;
use crate::layout::Layout;
use crate::model::{Field, Model, Multiprocessors, Profile, Provenance, Variant};
use crate::name::ProfileName;

/// Where an error is, until it is known what is wrong.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: &'a str,
    model: &'a str,
    profile: Option<ProfileName>,
}

impl Place<'_> {
    fn error(self, field: &'static str, problem: impl Into<Problem>) -> CatalogError {
        CatalogError {
            file: self.file.to_owned(),
            model: Some(self.model.to_owned()),
            profile: self.profile,
            field: Some(field),
            problem: problem.into(),
        }
    }
}

const fn place_of<'a>(file: &'a str, model: &'a str) -> Place<'a> {
    Place { file, model, profile: None }
}

pub(super) fn model(file: &str, entry: Entry) -> Result<Model, CatalogError> {
    let Entry { architecture, model: entry } = entry;
    let place = Place { file, model: &entry.id, profile: None };
    let pci_device_ids = entry
        .pci_device_ids
        .iter()
        .map(|text| {
            parse_pci(text).ok_or_else(|| {
                let expected = "a PCI device id such as \"0x20B2\"";
                place.error("pci_device_ids", Problem::Text { text: text.clone(), expected })
            })
        })
        .collect::<Result<_, _>>()?;
    let compute_capability = parse_capability(&entry.compute_capability).ok_or_else(|| {
        let expected = "a compute capability such as \"8.0\"";
        place.error("compute_capability", Problem::Text { text: entry.compute_capability.clone(), expected })
    })?;
    let geometry = geometry(place, &entry)?;
    check_provenance(place, &entry)?;
    for (index, profile) in entry.profiles.iter().enumerate() {
        check_profile(place, &entry, index, profile, &geometry)?;
    }
    Lattice::enumerate(&geometry).map_err(|error| place.error("profiles", error))?;
    let ModelEntry {
        id,
        aliases,
        names,
        pci_device_ids: _,
        compute_capability: _,
        total_memory_mib,
        sm_count,
        grid: _,
        profiles,
        sources,
        unverified,
        notes,
        variants,
    } = entry;
    if let Some(VariantEntry { name, .. }) = variants.iter().find(|entry| !names.contains(&entry.name)) {
        let (text, expected) = (name.clone(), "one of the model's names");
        return Err(place_of(file, &id).error("variants", Problem::Text { text, expected }));
    }
    let variants =
        variants.into_iter().map(|entry| variant(file, &id, &profiles, entry)).collect::<Result<_, _>>()?;
    Ok(Model {
        id,
        aliases,
        names,
        pci_device_ids,
        architecture,
        compute_capability,
        total_memory_mib,
        sm_count,
        profiles: profiles.into_iter().map(profile).collect(),
        provenance: Provenance { sources, unverified },
        notes,
        variants,
        file: file.to_owned(),
        geometry: Arc::new(geometry),
        lattice: OnceLock::new(),
    })
}

/// A product of the model that differs from the most usual one.
fn variant(
    file: &str,
    id: &str,
    profiles: &[ProfileEntry],
    entry: VariantEntry,
) -> Result<Variant, CatalogError> {
    let VariantEntry { name, pci_device_id, sm_count, sm, source } = entry;
    let place = place_of(file, id);
    let pci_device_id = parse_pci(&pci_device_id).ok_or_else(|| {
        let expected = "a PCI device id such as \"0x20B2\"";
        place.error("variants", Problem::Text { text: pci_device_id.clone(), expected })
    })?;
    if source.is_empty() {
        return Err(place.error("variants", Problem::NoSource));
    }
    let multiprocessors = match sm_count {
        None if sm.is_empty() => None,
        None => return Err(place.error("variants", Problem::NoReason)),
        Some(whole) => Some(Multiprocessors { whole, of_profiles: counts(place, profiles, whole, &sm)? }),
    };
    Ok(Variant { name, pci_device_id, multiprocessors, source })
}

/// The multiprocessors of each profile: for every one a count.
fn counts(
    place: Place<'_>,
    profiles: &[ProfileEntry],
    whole: u16,
    sm: &BTreeMap<String, u16>,
) -> Result<Vec<u16>, CatalogError> {
    let named: Vec<String> = profiles.iter().map(|profile| profile.name.to_string()).collect();
    if let Some(text) = sm.keys().find(|text| !named.contains(text)).cloned() {
        return Err(place.error("variants", Problem::Text { text, expected: "a profile of the model" }));
    }
    let count = |text: &String| {
        let sm = *sm.get(text).ok_or_else(|| place.error("variants", Problem::NoReason))?;
        if sm > whole {
            let (given, whole) = (sm.into(), whole.into());
            return Err(place.error("variants", Problem::MoreThanWhole { given, whole }));
        }
        Ok(sm)
    };
    named.iter().map(count).collect()
}

fn profile(entry: ProfileEntry) -> Profile {
    let ProfileEntry {
        name,
        nvml_enum,
        profile_id,
        slice_count,
        max_instances,
        sm,
        memory_mib,
        memory_mib_from_driver,
        lgip_gib: _,
        engines,
        placements,
        sources,
        unverified,
    } = entry;
    Profile {
        name,
        nvml_enum,
        profile_id,
        slice_count,
        max_instances,
        sm,
        memory_mib,
        memory_mib_from_driver,
        engines: engines.unwrap_or_default(),
        size: placements.size,
        starts: placements.starts,
        provenance: Provenance { sources, unverified },
    }
}

fn parse_pci(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn parse_capability(text: &str) -> Option<(u8, u8)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn geometry(place: Place<'_>, entry: &ModelEntry) -> Result<Geometry, CatalogError> {
    let specs = entry.profiles.iter().map(|profile| ProfileSpec {
        name: profile.name,
        compute: profile.slice_count,
        size: profile.placements.size,
        starts: profile.placements.starts.clone(),
    });
    let grid = &entry.grid;
    Geometry::new(grid.memory_units, grid.compute_slices, specs.collect()).map_err(|error| {
        let (profile, field) = match &error {
            GeometryError::Grid { .. } => (None, "grid.memory_units"),
            GeometryError::Size { profile, field: "compute", .. } => (Some(*profile), "slice_count"),
            GeometryError::Size { profile, .. } => (Some(*profile), "placements.size"),
            GeometryError::Start { profile, .. } | GeometryError::NoStart { profile } => {
                (Some(*profile), "placements.starts")
            }
            GeometryError::Duplicate { profile, .. } => (Some(*profile), "name"),
            GeometryError::TooMany { .. } => (None, "profiles"),
        };
        Place { profile, ..place }.error(field, error)
    })
}

/// Every value has a source, every gap a reason, and no source is for nothing.
fn check_provenance(place: Place<'_>, entry: &ModelEntry) -> Result<(), CatalogError> {
    use Field as F;
    let of_gpu = [
        (F::Names, !entry.names.is_empty()),
        (F::PciDeviceIds, !entry.pci_device_ids.is_empty()),
        (F::ComputeCapability, true),
        (F::TotalMemoryMib, entry.total_memory_mib.is_some()),
        (F::SmCount, entry.sm_count.is_some()),
        (F::Grid, true),
    ];
    for (field, present) in of_gpu {
        let sourced = entry.sources.contains_key(&field);
        let explained = entry.unverified.contains_key(&field);
        check_value(place, field, [present, sourced, explained])?;
        if !present && sourced {
            return Err(place.error(field.name(), Problem::NoValue));
        }
    }
    for row in &entry.profiles {
        let place = Place { profile: Some(row.name), ..place };
        let of_profile = [
            (F::NvmlEnum, true),
            (F::ProfileId, row.profile_id.is_some()),
            (F::MaxInstances, true),
            (F::Sm, row.sm.is_some()),
            (F::MemoryMib, row.memory_mib.is_some()),
            (F::Engines, row.engines.is_some()),
            (F::Placements, true),
        ];
        for (field, present) in of_profile {
            let known = |own: &BTreeMap<Field, String>, model: &BTreeMap<Field, String>| {
                own.contains_key(&field) || model.contains_key(&field)
            };
            let sourced = known(&row.sources, &entry.sources);
            let explained = known(&row.unverified, &entry.unverified);
            check_value(place, field, [present, sourced, explained])?;
            if !present && row.sources.contains_key(&field) {
                return Err(place.error(field.name(), Problem::NoValue));
            }
        }
        if row.engines.is_some_and(|engines| !engines.is_complete())
            && !row.unverified.contains_key(&F::Engines)
        {
            return Err(place.error(F::Engines.name(), Problem::NoReason));
        }
    }
    Ok(())
}

fn check_value(
    place: Place<'_>,
    field: Field,
    [present, sourced, explained]: [bool; 3],
) -> Result<(), CatalogError> {
    match (present, sourced, explained) {
        (true, false, _) => Err(place.error(field.name(), Problem::NoSource)),
        (false, _, false) => Err(place.error(field.name(), Problem::NoReason)),
        _ => Ok(()),
    }
}

fn check_profile(
    place: Place<'_>,
    entry: &ModelEntry,
    index: usize,
    row: &ProfileEntry,
    geometry: &Geometry,
) -> Result<(), CatalogError> {
    let place = Place { profile: Some(row.name), ..place };
    for other in &entry.profiles[..index] {
        let twice = |field, value: String| {
            let other = format!("profile {}", other.name);
            Err(place.error(field, Problem::Duplicate { value, other }))
        };
        if other.nvml_enum == row.nvml_enum {
            return twice("nvml_enum", row.nvml_enum.to_string());
        }
        if let Some(id) = row.profile_id.filter(|id| other.profile_id == Some(*id)) {
            return twice("profile_id", id.to_string());
        }
    }
    if row.slice_count != row.name.compute {
        let (given, named) = (u32::from(row.slice_count), u32::from(row.name.compute));
        return Err(place.error("slice_count", Problem::Named { given, named }));
    }
    let index = ProfileIndex(u8::try_from(index).expect("the geometry was built"));
    let possible = remaining(geometry, Layout::EMPTY, index);
    if row.max_instances != possible {
        let given = row.max_instances;
        return Err(place.error("max_instances", Problem::Count { given, possible }));
    }
    check_memory(place, entry, row)?;
    match (row.sm, entry.sm_count) {
        (Some(sm), Some(whole)) if sm > whole => {
            let problem = Problem::MoreThanWhole { given: sm.into(), whole: whole.into() };
            Err(place.error("sm", problem))
        }
        _ => Ok(()),
    }
}

fn check_memory(place: Place<'_>, entry: &ModelEntry, row: &ProfileEntry) -> Result<(), CatalogError> {
    if let Some(gib) = row.lgip_gib {
        let mib = row.memory_mib.unwrap_or(0);
        let printed = format!("{gib:.2}");
        if printed != format!("{:.2}", f64::from(mib) / 1024.0) {
            return Err(place.error("lgip_gib", Problem::Gib { gib: printed, mib }));
        }
    }
    let (Some(memory_mib), Some(total_mib)) = (row.memory_mib, entry.total_memory_mib) else {
        return Ok(());
    };
    if memory_mib > total_mib {
        let problem = Problem::MoreThanWhole { given: memory_mib, whole: total_mib };
        return Err(place.error("memory_mib", problem));
    }
    let rounded = name_gigabytes(memory_mib, total_mib);
    let named = u32::from(row.name.memory_gb);
    if rounded != named {
        let problem = Problem::Rounding { memory_mib, total_mib, rounded, named };
        return Err(place.error("memory_mib", problem));
    }
    Ok(())
}

/// The gigabytes in the name of an instance, as NVIDIA's own library computes
/// them: its share of the GPU in eighths, rounded up, of the GPU's whole
/// gibibytes, rounded up; the product to the nearest, halves up.
fn name_gigabytes(memory_mib: u32, total_mib: u32) -> u32 {
    let eighths = (u64::from(memory_mib) * 8).div_ceil(u64::from(total_mib));
    let gibibytes = u64::from(total_mib).div_ceil(1024);
    u32::try_from((eighths * gibibytes + 4) / 8).expect("no more than the GPU has")
}

/// Ids and aliases, once each over all files.
pub(super) fn unique_keys(models: &[Model]) -> Result<BTreeMap<String, usize>, CatalogError> {
    let texts = models.iter().enumerate().flat_map(|(index, model)| {
        let ids = std::iter::once(("id", &model.id));
        ids.chain(model.aliases.iter().map(|alias| ("aliases", alias)))
            .map(move |(field, text)| (index, field, key(text), text.clone()))
    });
    unique(models, texts)
}

/// Product names, once each over all files.
pub(super) fn unique_products(models: &[Model]) -> Result<BTreeMap<String, usize>, CatalogError> {
    let names = models.iter().enumerate().flat_map(|(index, model)| {
        model.names.iter().map(move |name| (index, "names", product_key(name), name.clone()))
    });
    unique(models, names)
}

/// PCI device ids, once each over all files.
pub(super) fn unique_pci_ids(models: &[Model]) -> Result<BTreeMap<u16, usize>, CatalogError> {
    let ids = models.iter().enumerate().flat_map(|(index, model)| {
        model.pci_device_ids.iter().map(move |id| (index, "pci_device_ids", *id, format!("0x{id:04X}")))
    });
    unique(models, ids)
}

fn unique<K: Ord + fmt::Debug>(
    models: &[Model],
    values: impl Iterator<Item = (usize, &'static str, K, String)>,
) -> Result<BTreeMap<K, usize>, CatalogError> {
    let mut found = BTreeMap::new();
    for (index, field, key, value) in values {
        if let Some(other) = found.insert(key, index) {
            let place = Place { file: &models[index].file, model: &models[index].id, profile: None };
            let other = format!("model {}", models[other].id);
            return Err(place.error(field, Problem::Duplicate { value, other }));
        }
    }
    Ok(found)
}
