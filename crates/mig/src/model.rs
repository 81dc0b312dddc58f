//! One GPU model of the catalogue: its identity, what its profiles get, and
//! how well each value is known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::geometry::Geometry;
use crate::index::ProfileIndex;
use crate::lattice::Lattice;
use crate::name::ProfileName;
use crate::nearest::nearest;

/// The generation of a GPU. It decides whether a change of the MIG mode needs
/// a reset (Ampere) and whether the mode survives a reboot (Ampere only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// A100, A30.
    Ampere,
    /// H100, H200, GH200.
    Hopper,
    /// B200, B300, GB200, GB300, RTX PRO.
    Blackwell,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ampere => "Ampere",
            Self::Hopper => "Hopper",
            Self::Blackwell => "Blackwell",
        })
    }
}

/// A value, or a group of values, of which the catalogue knows where it comes
/// from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// The names that NVML reports.
    Names,
    /// The PCI device ids.
    PciDeviceIds,
    /// The CUDA compute capability.
    ComputeCapability,
    /// The memory of the whole GPU.
    TotalMemoryMib,
    /// The streaming multiprocessors of the whole GPU.
    SmCount,
    /// Compute slices, and memory units of the placement grid.
    Grid,
    /// Of a profile: its number in NVML's enumeration.
    NvmlEnum,
    /// Of a profile: its id, as nvidia-smi shows it.
    ProfileId,
    /// Of a profile: how many fit an empty GPU.
    MaxInstances,
    /// Of a profile: the multiprocessors of one instance.
    Sm,
    /// Of a profile: the memory of one instance.
    MemoryMib,
    /// Of a profile: its engines.
    Engines,
    /// Of a profile: its starts and its size.
    Placements,
}

impl Field {
    /// The name of the field in the data files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::PciDeviceIds => "pci_device_ids",
            Self::ComputeCapability => "compute_capability",
            Self::TotalMemoryMib => "total_memory_mib",
            Self::SmCount => "sm_count",
            Self::Grid => "grid",
            Self::NvmlEnum => "nvml_enum",
            Self::ProfileId => "profile_id",
            Self::MaxInstances => "max_instances",
            Self::Sm => "sm",
            Self::MemoryMib => "memory_mib",
            Self::Engines => "engines",
            Self::Placements => "placements",
        }
    }
}

/// Where values come from, and which are in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The source of each value that is there.
    pub sources: BTreeMap<Field, String>,
    /// Why a value is absent, or why one that is there is in doubt.
    pub unverified: BTreeMap<Field, String>,
}

/// The engines of an instance beside its multiprocessors. `None` is a number
/// that nobody has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engines {
    /// Copy engines (CE).
    pub copy: Option<u8>,
    /// Video decoders (NVDEC).
    pub decoder: Option<u8>,
    /// Video encoders (NVENC).
    pub encoder: Option<u8>,
    /// JPEG decoders.
    pub jpeg: Option<u8>,
    /// Optical flow accelerators.
    pub ofa: Option<u8>,
}

impl Engines {
    /// Whether every number is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Self { copy, decoder, encoder, jpeg, ofa } = self;
        [copy, decoder, encoder, jpeg, ofa].iter().all(|n| n.is_some())
    }
}

/// One profile of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name on this model.
    pub name: ProfileName,
    /// Its number in NVML's enumeration of profiles, the argument of
    /// `nvmlDeviceGetGpuInstanceProfileInfo`. Not its id.
    pub nvml_enum: u8,
    /// Its id, as `nvidia-smi mig -lgip` shows it and `-cgi` takes it.
    pub profile_id: Option<u16>,
    /// Compute slices of one instance.
    pub slice_count: u8,
    /// How many fit an empty GPU.
    pub max_instances: u8,
    /// Streaming multiprocessors of one instance.
    pub sm: Option<u16>,
    /// Memory of one instance, in MiB.
    pub memory_mib: Option<u32>,
    /// Other figures of later drivers, by the branch from which on they hold.
    pub memory_mib_from_driver: BTreeMap<u16, u32>,
    /// The engines of one instance.
    pub engines: Engines,
    /// Memory units of the placement grid that one instance takes.
    pub size: u8,
    /// Where it may start, in memory units, ascending.
    pub starts: Vec<u8>,
    /// Sources and doubts of this row, which stand before the model's.
    pub provenance: Provenance,
}

impl Profile {
    /// Memory of one instance, in MiB, as drivers of this branch give it; of
    /// the oldest figure where the branch is not known.
    #[must_use]
    pub fn memory_mib_on(&self, branch: Option<u16>) -> Option<u32> {
        let later = branch.and_then(|branch| self.memory_mib_from_driver.range(..=branch).next_back());
        later.map(|(_, mib)| *mib).or(self.memory_mib)
    }

    /// The memory of one instance as `nvidia-smi mig -lgip` prints it: GiB with
    /// two decimals.
    #[must_use]
    pub fn lgip_gib(&self) -> Option<String> {
        Some(format!("{:.2}", f64::from(self.memory_mib?) / 1024.0))
    }
}

/// A product of a model that has a PCI device id of its own, and perhaps other counts of multiprocessors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The name that NVML reports for it.
    pub name: String,
    /// Its PCI device id.
    pub pci_device_id: u16,
    /// Other counts of streaming multiprocessors than the model's, if it has such.
    pub multiprocessors: Option<Multiprocessors>,
    /// Where the figures come from.
    pub source: String,
}

/// The streaming multiprocessors of a product and of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiprocessors {
    /// Of the whole GPU with MIG off.
    pub whole: u16,
    /// Of one instance of each profile, in the order of the model's.
    pub of_profiles: Vec<u16>,
}

/// One GPU model.
#[derive(Debug)]
pub struct Model {
    /// Its name in Slicewright, such as `A100-80GB`.
    pub id: String,
    /// Other names that people use for it or for cards with the same figures.
    pub aliases: Vec<String>,
    /// The names that NVML reports for it, the most usual first.
    pub names: Vec<String>,
    /// PCI device ids (the vendor is always `10DE`).
    pub pci_device_ids: Vec<u16>,
    /// Its generation.
    pub architecture: Architecture,
    /// CUDA compute capability, major and minor.
    pub compute_capability: (u8, u8),
    /// Memory of the whole GPU in MiB, as nvidia-smi shows it with MIG off.
    pub total_memory_mib: Option<u32>,
    /// Streaming multiprocessors of the whole GPU with MIG off.
    pub sm_count: Option<u16>,
    /// Its profiles, in the order of its geometry's.
    pub profiles: Vec<Profile>,
    /// Sources and doubts; a profile's own stand before these.
    pub provenance: Provenance,
    /// What else is worth knowing, one sentence or two each.
    pub notes: Vec<String>,
    /// Products of it that differ from the most usual one.
    pub variants: Vec<Variant>,
    /// The data file that it is in.
    pub file: String,
    /// Profiles, placements and conflicts.
    pub geometry: Arc<Geometry>,
    pub(crate) lattice: OnceLock<Lattice>,
}

/// A text that names no profile of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{model} has no profile `{text}`{} It has {}",
    nearest.as_ref().map_or_else(|| ".".to_owned(), |name| format!("; did you mean {name}?")),
    crate::layout::join(known)
)]
pub struct UnknownProfile {
    /// The model.
    pub model: String,
    /// What was given.
    pub text: String,
    /// The profile that was probably meant.
    pub nearest: Option<ProfileName>,
    /// What the model has.
    pub known: Vec<ProfileName>,
}

impl Model {
    /// All legal states of one such GPU, all profiles included. Listed on the
    /// first call, then shared.
    ///
    /// # Panics
    /// Never: the catalogue's tests list the states of every model, and
    /// [`crate::Catalog::parse`] refuses a table that has too many.
    #[must_use]
    pub fn lattice(&self) -> &Lattice {
        self.lattice
            .get_or_init(|| Lattice::enumerate(&self.geometry).expect("checked when the table was read"))
    }

    /// The facts about a profile of its geometry.
    ///
    /// # Panics
    /// If the index is of another model.
    #[must_use]
    pub fn profile(&self, profile: ProfileIndex) -> &Profile {
        &self.profiles[usize::from(profile.0)]
    }

    /// The profile with this id (as nvidia-smi shows it).
    #[must_use]
    pub fn profile_with_id(&self, id: u16) -> Option<ProfileIndex> {
        self.position(|profile| profile.profile_id == Some(id))
    }

    /// The profile with this number in NVML's enumeration.
    #[must_use]
    pub fn profile_with_enum(&self, nvml_enum: u8) -> Option<ProfileIndex> {
        self.position(|profile| profile.nvml_enum == nvml_enum)
    }

    fn position(&self, wanted: impl Fn(&Profile) -> bool) -> Option<ProfileIndex> {
        let position = self.profiles.iter().position(wanted)?;
        Some(ProfileIndex(u8::try_from(position).expect("a geometry has fewer than 256")))
    }

    /// The profile that a text means: any form of its name, or its id.
    ///
    /// # Errors
    /// Says which profiles there are and which is nearest.
    pub fn resolve_profile(&self, text: &str) -> Result<ProfileIndex, UnknownProfile> {
        let by_name = || text.parse::<ProfileName>().ok().and_then(|name| self.geometry.profile_named(name));
        let by_id = || text.trim().parse::<u16>().ok().and_then(|id| self.profile_with_id(id));
        by_name().or_else(by_id).ok_or_else(|| self.unknown_profile(text))
    }

    /// The error for a text that names no profile of this model.
    #[must_use]
    pub fn unknown_profile(&self, text: &str) -> UnknownProfile {
        let known: Vec<ProfileName> = self.profiles.iter().map(|profile| profile.name).collect();
        UnknownProfile {
            model: self.id.clone(),
            text: text.to_owned(),
            nearest: nearest_profile(text, &known),
            known,
        }
    }

    /// The label value that GPU feature discovery gives nodes with this model
    /// and MIG off or strategy `mixed` (`nvidia.com/gpu.product`); `None` where
    /// the name that NVML reports is not known.
    #[must_use]
    pub fn product_label(&self) -> Option<String> {
        self.names.first().map(|name| product_label(name))
    }

    /// Where a value comes from. `None` for a value that is absent.
    #[must_use]
    pub fn source<'a>(&'a self, profile: Option<&'a Profile>, field: Field) -> Option<&'a str> {
        profile
            .and_then(|profile| profile.provenance.sources.get(&field))
            .or_else(|| self.provenance.sources.get(&field))
            .map(String::as_str)
    }

    /// Why a value is absent or in doubt.
    #[must_use]
    pub fn doubt<'a>(&'a self, profile: Option<&'a Profile>, field: Field) -> Option<&'a str> {
        profile
            .and_then(|profile| profile.provenance.unverified.get(&field))
            .or_else(|| self.provenance.unverified.get(&field))
            .map(String::as_str)
    }
}

/// What GPU feature discovery makes of a product name: characters outside
/// `[A-Za-z0-9-_. ]` dropped, blanks turned into `-`.
#[must_use]
pub fn product_label(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_. ".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The profile that was probably meant: one of the same compute slices with
/// the nearest memory, else the text that differs least.
fn nearest_profile(text: &str, known: &[ProfileName]) -> Option<ProfileName> {
    if let Ok(meant) = text.parse::<ProfileName>() {
        let distance = |name: &&ProfileName| {
            (name.attribute != meant.attribute, name.memory_gb.abs_diff(meant.memory_gb), **name)
        };
        let same_compute = known.iter().filter(|name| name.compute == meant.compute);
        if let Some(name) = same_compute.min_by_key(distance) {
            return Some(*name);
        }
    }
    let texts: Vec<String> = known.iter().map(ToString::to_string).collect();
    let found = nearest(text, texts.iter().map(String::as_str))?;
    known.iter().find(|name| name.to_string() == found).copied()
}
