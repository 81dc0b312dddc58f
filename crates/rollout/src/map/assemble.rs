//! The content of our own map, which is made from scratch each time: unused entries are not carried over,
//! and equal input gives equal bytes.

use std::collections::{BTreeMap, BTreeSet};

use mig::model::Model;

use crate::layout::{GpuLayout, LayoutRefused, NodeLayout, Strategy};
use crate::names::ENTRY_PREFIX;

use super::shipped::balanced;
use super::{Devices, Item, MapError, MigMap, pci};

/// What a ConfigMap may hold (1 MiB), less room for its metadata.
pub const MAX_BYTES: usize = 1_048_576 - 16_384;

/// The map and what could not go into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The entries.
    pub map: MigMap,
    /// The text of the key `config.yaml`.
    pub text: String,
    /// Models whose default names are missing, since nobody knows their PCI
    /// ids and there are others beside them.
    pub without_defaults: Vec<String>,
}

/// The entry of a layout. It names every GPU, since MIG manager repeats its
/// whole run at each restart when one is missing; GPUs that are cut alike
/// share an item.
///
/// # Errors
/// A layout without GPUs, or with MIG on and no slice.
pub fn entry(layout: &NodeLayout) -> Result<Vec<Item>, LayoutRefused> {
    layout.check(Strategy::Mixed)?;
    let mut alike: BTreeMap<&GpuLayout, Vec<u16>> = BTreeMap::new();
    for (index, gpu) in &layout.0 {
        alike.entry(gpu).or_default().push(index.0);
    }
    let mut items: Vec<_> = alike
        .into_iter()
        .map(|(gpu, indices)| {
            let mig_devices = match gpu {
                GpuLayout::Off => BTreeMap::new(),
                GpuLayout::Mig(slices) => slices
                    .iter()
                    .filter(|(_, n)| **n > 0)
                    .map(|(profile, n)| (profile.to_string(), u32::from(*n)))
                    .collect(),
            };
            Item {
                device_filter: Vec::new(),
                devices: Devices::Indices(indices),
                mig_enabled: gpu.is_mig(),
                mig_devices,
            }
        })
        .collect();
    items.sort_by_key(|item| match &item.devices {
        Devices::All => 0,
        Devices::Indices(indices) => indices.first().copied().unwrap_or(0),
    });
    Ok(items)
}

/// Our whole map: the administrators' entries, the default names of every
/// model present where they have none of that name, and for each layout that
/// a node refers to its entry and the two aliases.
///
/// # Errors
/// A name of theirs that is ours, a layout that cannot be written, or a map
/// that is too large.
pub fn assemble<'a>(
    administrators: Option<&MigMap>,
    models: &[&Model],
    layouts: impl IntoIterator<Item = &'a NodeLayout>,
) -> Result<Assembled, MapError> {
    let mut entries = BTreeMap::new();
    let mut without_defaults = Vec::new();
    for (name, items) in defaults(models, &mut without_defaults) {
        entries.insert(name, items);
    }
    for (name, items) in administrators.iter().flat_map(|map| &map.entries) {
        if name.starts_with(ENTRY_PREFIX) {
            return Err(MapError::Reserved { entry: name.clone() });
        }
        entries.insert(name.clone(), items.clone());
    }
    for layout in layouts {
        let (name, items) = (layout.entry_name(), entry(layout)?);
        for suffix in ["", "-a", "-b"] {
            entries.insert(format!("{name}{suffix}"), items.clone());
        }
    }
    let map = MigMap { entries };
    let text = map.render();
    if text.len() > MAX_BYTES {
        return Err(MapError::TooLarge { bytes: text.len(), max: MAX_BYTES });
    }
    Ok(Assembled { map, text, without_defaults })
}

fn defaults(models: &[&Model], without: &mut Vec<String>) -> BTreeMap<String, Vec<Item>> {
    let mut names: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    let off = Item {
        device_filter: Vec::new(),
        devices: Devices::All,
        mig_enabled: false,
        mig_devices: BTreeMap::new(),
    };
    // MIG on, and whoever wants slices makes them: DAS labels its nodes so.
    let on = Item { mig_enabled: true, ..off.clone() };
    names.insert("all-disabled".to_owned(), vec![off]);
    names.insert("all-enabled".to_owned(), vec![on]);
    let ids: BTreeSet<_> = models.iter().map(|model| &model.id).collect();
    let mut seen = BTreeSet::new();
    for model in models.iter().filter(|model| seen.insert(&model.id)) {
        // A filter is needed only where another model could be meant.
        let filter: Vec<_> =
            if ids.len() > 1 { model.pci_device_ids.iter().map(|id| pci(*id)).collect() } else { Vec::new() };
        if ids.len() > 1 && filter.is_empty() {
            without.push(model.id.clone());
            continue;
        }
        let mut add = |name: String, slices: BTreeMap<String, u32>| {
            let items = names.entry(name).or_default();
            match items.iter_mut().find(|item| item.mig_devices == slices) {
                Some(item) => item.device_filter.extend(filter.iter().cloned()),
                None => items.push(Item {
                    device_filter: filter.clone(),
                    devices: Devices::All,
                    mig_enabled: true,
                    mig_devices: slices,
                }),
            }
        };
        for profile in &model.profiles {
            let name = format!("all-{}", profile.name).replace('+', ".");
            let slices = BTreeMap::from([(profile.name.to_string(), u32::from(profile.max_instances))]);
            add(name, slices);
        }
        if let Some(slices) = balanced(model) {
            let slices = slices.into_iter().map(|(profile, n)| (profile.to_string(), u32::from(n)));
            add("all-balanced".to_owned(), slices.collect());
        }
    }
    names
}
