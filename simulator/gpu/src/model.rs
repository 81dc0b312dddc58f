//! The facts about a GPU model that the engine needs. They come from the catalogue; a model with unknown
//! facts is refused here with that reason, and nothing is invented.

use std::collections::BTreeMap;
use std::sync::Arc;

use mig::{Architecture, Catalog, Geometry, NotSimulatable, ProfileIndex, ProfileName};
use serde::{Deserialize, Serialize};

/// The PCI class of a card, which NFD's labels carry and by which
/// MIG manager chooses what it resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PciClass {
    /// `0302`, a 3D controller: the cards of servers.
    ThreeD,
    /// `0300`, a VGA controller: cards with a display.
    Vga,
}

/// One profile's facts, as `nvidia-smi mig -lgip` prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Its place in the geometry.
    pub index: ProfileIndex,
    /// Its name.
    pub name: ProfileName,
    /// The id that nvidia-smi and `nvmlGpuInstanceProfileInfo_t.id` show.
    pub id: u32,
    /// The argument of `nvmlDeviceGetGpuInstanceProfileInfo`.
    pub nvml_enum: u32,
    /// Compute slices.
    pub slices: u8,
    /// How many at most on one GPU.
    pub max_instances: u8,
    /// Streaming multiprocessors; uneven on Hopper.
    pub sm: u32,
    /// Memory of an instance, in MiB.
    pub memory_mib: u32,
    /// Other figures of later drivers, by the branch from which on they hold.
    #[serde(default)]
    pub memory_mib_from_driver: BTreeMap<u16, u32>,
    /// Its engines.
    pub engines: Engines,
}

/// The engines of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Engines {
    /// Copy engines.
    pub copy: u32,
    /// Decoders.
    pub decoder: u32,
    /// Encoders.
    pub encoder: u32,
    /// JPEG engines.
    pub jpeg: u32,
    /// Optical flow.
    pub ofa: u32,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Its name in the catalogue, such as `A100-80GB`; the product's name for
    /// a card that is not in it.
    pub name: String,
    /// What `nvmlDeviceGetName` says.
    pub product: String,
    /// Its PCI class.
    pub pci_class: PciClass,
    /// The PCI device id, where it is known.
    pub pci_device: Option<u16>,
    /// The id of the board among those of its maker, NVIDIA, where it is known.
    #[serde(default)]
    pub pci_subsystem: Option<u16>,
    /// CUDA compute capability, where it is known.
    pub compute_capability: Option<(u8, u8)>,
    /// Whether its memory corrects errors.
    #[serde(default)]
    pub ecc: bool,
    /// Total memory, in MiB.
    pub memory_mib: u32,
    /// What MIG can do on it; `None` for a card without.
    pub mig: Option<MigFacts>,
}

/// The MIG part of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "WrittenMig", try_from = "WrittenMig")]
pub struct MigFacts {
    /// How its MIG mode behaves.
    pub architecture: Architecture,
    /// Profiles, placements, conflicts.
    pub geometry: Arc<Geometry>,
    /// All profiles, in the geometry's order.
    pub profiles: Vec<ProfileFacts>,
}

/// The same, as it is written down: read, it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMig {
    architecture: Architecture,
    geometry: Geometry,
    profiles: Vec<ProfileFacts>,
}

impl From<MigFacts> for WrittenMig {
    fn from(mig: MigFacts) -> Self {
        let MigFacts { architecture, geometry, profiles } = mig;
        Self { architecture, geometry: Geometry::clone(&geometry), profiles }
    }
}

impl TryFrom<WrittenMig> for MigFacts {
    type Error = String;

    fn try_from(written: WrittenMig) -> Result<Self, String> {
        let WrittenMig { architecture, geometry, profiles } = written;
        let same = (0u8..).zip(geometry.profiles()).map(|(i, spec)| (i, spec.name));
        if !same.eq(profiles.iter().map(|facts| (facts.index.0, facts.name))) {
            return Err("the profiles are not those of the geometry".to_owned());
        }
        Ok(Self { architecture, geometry: Arc::new(geometry), profiles })
    }
}

/// Why a GPU cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No such model.
    #[error(transparent)]
    Unknown(#[from] mig::UnknownModel),
    /// Some figures of the model are not known.
    #[error(transparent)]
    NotSimulatable(#[from] NotSimulatable),
}

impl Model {
    /// The model that a text means: an id of the catalogue (`A100-80GB`), an
    /// alias, a product's name or a product label. A product's name chooses
    /// among the products of a model.
    ///
    /// # Errors
    /// No such model; or the figures that are missing to simulate it.
    pub fn find(text: &str) -> Result<Arc<Self>, ModelError> {
        Ok(Arc::new(Self::for_product(Catalog::builtin().find(text)?, text)?))
    }

    /// A model of the catalogue, as the product that is named; its most usual
    /// product, if it has none of that name.
    ///
    /// # Errors
    /// The figures that are missing to simulate it.
    pub fn for_product(model: &mig::Model, product: &str) -> Result<Self, NotSimulatable> {
        model.simulatable()?;
        // Everything is known, or `simulatable` is wrong: the defaults are never taken.
        let known = |n: Option<u8>| u32::from(n.unwrap_or_default());
        let profiles = (0u8..).zip(&model.profiles).map(|(index, profile)| ProfileFacts {
            index: ProfileIndex(index),
            name: profile.name,
            id: u32::from(profile.profile_id.unwrap_or_default()),
            nvml_enum: u32::from(profile.nvml_enum),
            slices: profile.slice_count,
            max_instances: profile.max_instances,
            sm: u32::from(profile.sm.unwrap_or_default()),
            memory_mib: profile.memory_mib.unwrap_or_default(),
            memory_mib_from_driver: profile.memory_mib_from_driver.clone(),
            engines: Engines {
                copy: known(profile.engines.copy),
                decoder: known(profile.engines.decoder),
                encoder: known(profile.engines.encoder),
                jpeg: known(profile.engines.jpeg),
                ofa: known(profile.engines.ofa),
            },
        });
        let mut profiles: Vec<_> = profiles.collect();
        let named = model.names.iter().find(|name| name.eq_ignore_ascii_case(product.trim()));
        let product = named.or(model.names.first()).cloned().unwrap_or_default();
        let variant = model.variants.iter().find(|variant| variant.name == product);
        let counts = variant.and_then(|variant| variant.multiprocessors.as_ref());
        for (facts, sm) in profiles.iter_mut().zip(counts.into_iter().flat_map(|counts| &counts.of_profiles))
        {
            facts.sm = u32::from(*sm);
        }
        let usual = model.pci_device_ids.first().copied();
        let pci_device = variant.map_or(usual, |variant| Some(variant.pci_device_id));
        Ok(Self {
            name: model.id.clone(),
            pci_class: PciClass::ThreeD,
            pci_device,
            pci_subsystem: board(&product),
            ecc: true,
            product,
            compute_capability: Some(model.compute_capability),
            memory_mib: model.total_memory_mib.unwrap_or_default(),
            mig: Some(MigFacts {
                architecture: model.architecture,
                geometry: Arc::clone(&model.geometry),
                profiles,
            }),
        })
    }

    /// A card without MIG, such as a T4 or the display card of a workstation.
    #[must_use]
    pub fn without_mig(product: &str, memory_mib: u32, pci_class: PciClass) -> Self {
        Self {
            name: product.to_owned(),
            product: product.to_owned(),
            pci_class,
            pci_device: None,
            pci_subsystem: None,
            compute_capability: None,
            ecc: false,
            memory_mib,
            mig: None,
        }
    }

    /// The display card of a DGX Station.
    #[must_use]
    pub fn display() -> Self {
        Self {
            pci_device: Some(0x1fb0),
            pci_subsystem: Some(0x1485),
            compute_capability: Some((7, 5)),
            ..Self::without_mig("NVIDIA DGX Display", 4096, PciClass::Vga)
        }
    }

    /// A card of the catalogue that does not know MIG, whole: with what
    /// discovery and monitoring ask of it.
    #[must_use]
    pub fn of_card(card: &mig::sharing::Card) -> Self {
        let product = card.names.first().cloned().unwrap_or_default();
        let class = if card.display { PciClass::Vga } else { PciClass::ThreeD };
        Self {
            name: card.id.clone(),
            pci_device: Some(card.pci_device_id),
            pci_subsystem: board(&product),
            compute_capability: Some(card.compute_capability()),
            ecc: card.ecc,
            ..Self::without_mig(&product, card.memory_mib, class)
        }
    }
}

/// The board's id, where a capture shows it.
fn board(product: &str) -> Option<u16> {
    match product {
        "NVIDIA H100 80GB HBM3" => Some(0x16c1),
        "NVIDIA H200" => Some(0x18bf),
        "NVIDIA L40S" => Some(0x1851),
        _ => None,
    }
}

impl MigFacts {
    /// Whether a change of MIG mode resets the GPU.
    #[must_use]
    pub const fn mode_needs_reset(&self) -> bool {
        matches!(self.architecture, Architecture::Ampere)
    }

    /// Whether the MIG mode is in the InfoROM and survives a reboot and a
    /// reload of the driver.
    #[must_use]
    pub const fn mode_is_persistent(&self) -> bool {
        matches!(self.architecture, Architecture::Ampere)
    }

    /// The facts of a profile.
    ///
    /// # Panics
    /// If the index is of another geometry.
    #[must_use]
    pub fn profile(&self, index: ProfileIndex) -> &ProfileFacts {
        &self.profiles[usize::from(index.0)]
    }

    /// The profile with this id (that of nvidia-smi).
    #[must_use]
    pub fn by_id(&self, id: u32) -> Option<&ProfileFacts> {
        self.profiles.iter().find(|p| p.id == id)
    }

    /// The profile of this name.
    #[must_use]
    pub fn named(&self, name: ProfileName) -> Option<&ProfileFacts> {
        self.profiles.iter().find(|p| p.name == name)
    }
}
