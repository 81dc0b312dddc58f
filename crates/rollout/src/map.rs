//! mig-parted's configuration, version `v1`: the map whose entries the label
//! `nvidia.com/mig.config` names. Reading it, writing it, and what an entry
//! means for the GPUs of one node. What goes into our own map: [`assemble`].

mod assemble;
mod read;
mod shipped;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mig::ProfileName;
use mig::model::Model;
use planner::names::GpuIndex;

pub use assemble::{Assembled, MAX_BYTES, assemble, entry};
pub use read::MapError;
pub use shipped::default_name;

use crate::layout::{GpuLayout, NodeLayout};

/// All entries, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigMap {
    /// The entries.
    pub entries: BTreeMap<String, Vec<Item>>,
}

/// What an entry says of some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// PCI ids of the GPUs, such as `0x20B510DE`; empty means any.
    pub device_filter: Vec<String>,
    /// Which of them.
    pub devices: Devices,
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// How many slices of each profile. Names as they are written: people may
    /// use profiles of compute instances, which we do not.
    pub mig_devices: BTreeMap<String, u32>,
}

/// GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// All (that the filter admits).
    All,
    /// These indices.
    Indices(Vec<u16>),
}

/// A GPU of a node, as an entry is judged against it.
#[derive(Clone, Copy, Debug)]
pub struct NodeGpu<'a> {
    /// Its index.
    pub index: GpuIndex,
    /// Its model; `None` for a GPU without MIG.
    pub model: Option<&'a Model>,
}

/// Why an entry does not say what a node has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// There is no such entry.
    #[error("the map has no entry `{entry}`")]
    NoEntry {
        /// Which.
        entry: String,
    },
    /// It says nothing of a GPU: that one keeps what it has.
    #[error("entry `{entry}` says nothing of gpu {gpu}")]
    NotCovered {
        /// Which entry.
        entry: String,
        /// Which GPU.
        gpu: GpuIndex,
    },
    /// A filter by board, which no label tells.
    #[error("entry `{entry}` selects by subsystem id (`{filter}`), which cannot be seen in the cluster")]
    Filter {
        /// Which entry.
        entry: String,
        /// The filter.
        filter: String,
    },
    /// A profile of compute instances, or none at all.
    #[error("entry `{entry}`: `{profile}` is not a profile that is offered as a resource")]
    Profile {
        /// Which entry.
        entry: String,
        /// The profile.
        profile: String,
    },
}

impl Item {
    fn covers(&self, entry: &str, gpu: NodeGpu<'_>) -> Result<bool, Unclear> {
        let chosen = match &self.devices {
            Devices::All => gpu.model.is_some() || !self.mig_enabled,
            Devices::Indices(indices) => indices.contains(&gpu.index.0),
        };
        if !chosen || self.device_filter.is_empty() {
            return Ok(chosen);
        }
        let Some(model) = gpu.model else { return Ok(false) };
        let mut board = None;
        for filter in &self.device_filter {
            let (device, subsystem) = filter.split_once(':').unwrap_or((filter, ""));
            if !model.pci_device_ids.iter().any(|id| device.trim().eq_ignore_ascii_case(&pci(*id))) {
                continue;
            }
            if subsystem.is_empty() {
                return Ok(true);
            }
            board.get_or_insert(filter);
        }
        // Which board it is, is of interest only where the device is the right one.
        match board {
            None => Ok(false),
            Some(filter) => Err(Unclear::Filter { entry: entry.to_owned(), filter: filter.clone() }),
        }
    }

    fn layout(&self, entry: &str) -> Result<GpuLayout, Unclear> {
        if !self.mig_enabled {
            return Ok(GpuLayout::Off);
        }
        let mut slices = BTreeMap::new();
        for (text, n) in self.mig_devices.iter().filter(|(_, n)| **n > 0) {
            let unclear = || Unclear::Profile { entry: entry.to_owned(), profile: text.clone() };
            let profile: ProfileName = text.parse().map_err(|_| unclear())?;
            let sum: &mut u8 = slices.entry(profile).or_default();
            // One profile may stand there under two spellings.
            *sum = u8::try_from(*n).ok().and_then(|n| sum.checked_add(n)).ok_or_else(unclear)?;
        }
        Ok(GpuLayout::Mig(slices))
    }
}

/// The GPUs that an entry names one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedGpus {
    /// Those that it cuts.
    pub cut: BTreeSet<GpuIndex>,
    /// All of them.
    pub all: BTreeSet<GpuIndex>,
}

impl MigMap {
    /// The GPUs that an entry names; `None` where there is no such entry, or it
    /// does not name them one by one.
    #[must_use]
    pub fn named_gpus(&self, entry: &str) -> Option<NamedGpus> {
        let mut named = NamedGpus::default();
        for item in self.entries.get(entry)? {
            let Devices::Indices(indices) = &item.devices else { return None };
            // Of several items for a GPU, the last counts.
            for index in indices.iter().copied().map(GpuIndex) {
                named.all.insert(index);
                if item.mig_enabled {
                    named.cut.insert(index);
                } else {
                    named.cut.remove(&index);
                }
            }
        }
        Some(named)
    }

    /// What an entry means for a node: items in order, the last that covers a
    /// GPU counts.
    ///
    /// # Errors
    /// When the entry leaves it open.
    pub fn layout_for(&self, entry: &str, gpus: &[NodeGpu<'_>]) -> Result<NodeLayout, Unclear> {
        let items = self.entries.get(entry).ok_or_else(|| Unclear::NoEntry { entry: entry.to_owned() })?;
        let mut layout = NodeLayout::default();
        for gpu in gpus {
            let mut found = None;
            for item in items {
                if item.covers(entry, *gpu)? {
                    found = Some(item.layout(entry)?);
                }
            }
            // A GPU without MIG is not touched by anything, and has it off.
            let found = found.or_else(|| gpu.model.is_none().then_some(GpuLayout::Off));
            let found =
                found.ok_or_else(|| Unclear::NotCovered { entry: entry.to_owned(), gpu: gpu.index })?;
            layout.0.insert(gpu.index, found);
        }
        Ok(layout)
    }

    /// The map's text, the value of its key `config.yaml`.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::from("version: v1\nmig-configs:\n");
        for (name, items) in &self.entries {
            let _ = writeln!(text, "  {}:", quoted(name));
            for item in items {
                render_item(&mut text, item);
            }
        }
        text
    }
}

fn render_item(text: &mut String, item: &Item) {
    let Item { device_filter, devices, mig_enabled, mig_devices } = item;
    let mut lead = "    - ";
    if !device_filter.is_empty() {
        let filters: Vec<_> = device_filter.iter().map(|filter| quoted(filter)).collect();
        let _ = writeln!(text, "{lead}device-filter: [{}]", filters.join(", "));
        lead = "      ";
    }
    let devices = match devices {
        Devices::All => "all".to_owned(),
        Devices::Indices(indices) => {
            let indices: Vec<_> = indices.iter().map(ToString::to_string).collect();
            format!("[{}]", indices.join(", "))
        }
    };
    let _ = writeln!(text, "{lead}devices: {devices}\n      mig-enabled: {mig_enabled}");
    if *mig_enabled {
        let slices: Vec<_> = mig_devices.iter().map(|(name, n)| format!("{}: {n}", quoted(name))).collect();
        let _ = writeln!(text, "      mig-devices: {{{}}}", slices.join(", "));
    }
}

/// A YAML scalar: plain where that is safe, else in double quotes.
fn quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain { text.to_owned() } else { format!("{text:?}") }
}

/// A device id as mig-parted writes it: device and vendor in one number.
fn pci(device: u16) -> String {
    format!("0x{device:04X}10DE")
}
