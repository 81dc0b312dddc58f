//! One simulated GPU: its mode, its instances, and the values derived from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use mig::{Geometry, Layout, PlacementIndex, ProfileIndex};
use serde::{Deserialize, Serialize};

use crate::compute::{self, ComputeProfile, Span};
use crate::driver::DriverBranch;
use crate::meter::Meter;
use crate::mode::{MigMode, Mode};
use crate::model::{MigFacts, Model, ProfileFacts};
use crate::reserved::reserved_kib;
use crate::uuid;

/// Which of the two ways a 7-slice chip numbers its GPU instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Labelling {
    /// The first half of the memory is GPU instance 1; `1g` at start 0 is 7.
    #[default]
    V1,
    /// The halves are swapped; `1g` at start 0 is 11.
    V2,
}

/// The id of the GPU instance that spans `size` units from `start` on a grid
/// of `units`: a position in a binary tree, not a counter.
#[must_use]
pub fn gpu_instance_id(units: u8, start: u8, size: u8, labelling: Labelling) -> u8 {
    let start = match labelling {
        Labelling::V2 if units == 8 && size < units => (start + units / 2) % units,
        Labelling::V1 | Labelling::V2 => start,
    };
    units / size - 1 + start / size
}

/// Who has a slice, or a whole GPU, in the kubelet's book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The owner, such as `namespace/pod`.
    pub owner: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether what it stands for was harmed already (counted once).
    pub(crate) harmed: bool,
}

/// A GPU instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Its id on the GPU.
    pub id: u8,
    /// Its profile and start.
    pub placement: PlacementIndex,
    /// Its compute instances, by id.
    pub compute: BTreeMap<u8, ComputeInstance>,
    /// Whose it is in the kubelet's book.
    pub allocation: Option<Allocation>,
    pub(crate) generation: u64,
}

/// A compute instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// Its id in the GPU instance.
    pub id: u8,
    /// Its profile's id.
    pub profile: u32,
    /// Where it starts, in compute slices of the GPU instance.
    pub start: u8,
    /// How many compute slices it has.
    pub slices: u8,
    pub(crate) generation: u64,
    /// How long it had worked when its GPU's meter was last read, in µs.
    #[serde(default)]
    pub(crate) busy_us: u64,
}

/// How many ECC errors a GPU's memory had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EccErrors {
    /// Corrected, since the driver was loaded or the GPU was reset.
    pub corrected: u64,
    /// Not corrected, since then.
    pub uncorrected: u64,
    /// Corrected, in the life of the board.
    pub corrected_ever: u64,
    /// Not corrected, in the life of the board.
    pub uncorrected_ever: u64,
}

impl EccErrors {
    pub(crate) const fn add(&mut self, corrected: u32, uncorrected: u32) {
        let (corrected, uncorrected) = (corrected as u64, uncorrected as u64);
        self.corrected = self.corrected.saturating_add(corrected);
        self.corrected_ever = self.corrected_ever.saturating_add(corrected);
        self.uncorrected = self.uncorrected.saturating_add(uncorrected);
        self.uncorrected_ever = self.uncorrected_ever.saturating_add(uncorrected);
    }

    /// What a reset, or a new load of the driver, leaves of the counters.
    pub(crate) const fn start_anew(&mut self) {
        self.corrected = 0;
        self.uncorrected = 0;
    }
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its model.
    pub model: Arc<Model>,
    /// Its UUID.
    pub uuid: String,
    /// Its PCI bus id.
    pub bus_id: String,
    /// How it numbers GPU instances.
    pub labelling: Labelling,
    /// Its MIG mode; `None` where there is no MIG.
    pub mode: Option<MigMode>,
    /// Persistence mode.
    pub persistence: bool,
    /// Whether it fell off the bus.
    pub lost: bool,
    /// Its GPU instances, by id.
    pub instances: BTreeMap<u8, GpuInstance>,
    /// Whose the whole GPU is in the kubelet's book (with MIG off).
    pub allocation: Option<Allocation>,
    /// The last Xid error since boot.
    pub last_xid: Option<u32>,
    /// Its memory's errors.
    pub ecc: EccErrors,
    /// The power limit that somebody set, in mW.
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) meter: Meter,
    pub(crate) driver: DriverBranch,
}

impl Gpu {
    /// The MIG part of its model.
    #[must_use]
    pub fn mig(&self) -> Option<&MigFacts> {
        self.model.mig.as_ref()
    }

    /// Its geometry, if it has MIG.
    #[must_use]
    pub fn geometry(&self) -> Option<&Arc<Geometry>> {
        self.mig().map(|mig| &mig.geometry)
    }

    /// Whether MIG is on now.
    #[must_use]
    pub fn mig_is_on(&self) -> bool {
        self.mode.is_some_and(|mode| mode.current == Mode::Enabled)
    }

    /// The placements of its GPU instances.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.instances.values().map(|gi| gi.placement).collect()
    }

    /// The placements at which a GPU instance still fits.
    #[must_use]
    pub fn free(&self) -> Layout {
        let Some(geometry) = self.geometry() else { return Layout::EMPTY };
        let free = geometry.free(self.layout());
        free.iter().filter(|p| !self.too_early_for(geometry.profile_of(*p))).collect()
    }

    /// Whether the driver is too old to have this profile beside what is
    /// there: a 4g and a 3g on one GPU came with 510.
    fn too_early_for(&self, profile: ProfileIndex) -> bool {
        let Some(geometry) = self.geometry().filter(|_| !self.driver.allows_4g_beside_3g()) else {
            return false;
        };
        let compute = |profile| geometry.profile(profile).compute;
        let other = match compute(profile) {
            3 => 4,
            4 => 3,
            _ => return false,
        };
        self.layout().iter().any(|p| compute(geometry.profile_of(p)) == other)
    }

    /// The driver's choice for a profile.
    pub(crate) fn best_fit(&self, profile: ProfileIndex) -> Option<PlacementIndex> {
        let placement = mig::default_placement(self.geometry()?, self.layout(), profile);
        placement.filter(|_| !self.too_early_for(profile))
    }

    /// How many more GPU instances of a profile fit, if nothing else comes.
    #[must_use]
    pub fn remaining_capacity(&self, profile: ProfileIndex) -> u32 {
        match self.geometry() {
            Some(geometry) if !self.too_early_for(profile) => {
                u32::from(mig::remaining(geometry, self.layout(), profile))
            }
            _ => 0,
        }
    }

    /// What this driver keeps of the memory for itself, in KiB.
    #[must_use]
    pub fn reserved_kib(&self, driver: DriverBranch) -> u32 {
        reserved_kib(&self.model.product, driver, self.mig_is_on())
    }

    /// The facts of a GPU instance's profile.
    ///
    /// # Panics
    /// If the instance is of another GPU.
    #[must_use]
    pub fn profile_of(&self, gi: &GpuInstance) -> &ProfileFacts {
        let mig = self.mig().expect("a GPU with instances has MIG");
        mig.profile(mig.geometry.profile_of(gi.placement))
    }

    /// Where a GPU instance is: start and size, in memory units.
    ///
    /// # Panics
    /// If the instance is of another GPU.
    #[must_use]
    pub fn span_of(&self, gi: &GpuInstance) -> (u8, u8) {
        let geometry = self.geometry().expect("a GPU with instances has MIG");
        (geometry.start_of(gi.placement), geometry.profile(geometry.profile_of(gi.placement)).size)
    }

    pub(crate) fn id_of(&self, placement: PlacementIndex) -> u8 {
        let geometry = self.geometry().expect("a GPU with placements has MIG");
        let size = geometry.profile(geometry.profile_of(placement)).size;
        gpu_instance_id(geometry.memory(), geometry.start_of(placement), size, self.labelling)
    }

    /// The compute instance profiles inside a GPU instance.
    #[must_use]
    pub fn compute_profiles(&self, gi: &GpuInstance) -> Vec<ComputeProfile> {
        let mig = self.mig().expect("a GPU with instances has MIG");
        compute::profiles(self.profile_of(gi), mig)
    }

    /// The MIG devices: one for each compute instance, ascending by GPU
    /// instance and compute instance; their positions are their indices.
    pub fn mig_devices(&self) -> impl Iterator<Item = (&GpuInstance, &ComputeInstance)> {
        self.instances.values().flat_map(|gi| gi.compute.values().map(move |ci| (gi, ci)))
    }

    /// The UUID of a MIG device.
    #[must_use]
    pub fn mig_uuid(&self, gi: &GpuInstance, ci: &ComputeInstance) -> String {
        if self.driver.short_mig_uuids() {
            uuid::mig(&self.uuid, gi.id, self.span_of(gi).0 + ci.start)
        } else {
            format!("MIG-{}/{}/{}", self.uuid, gi.id, ci.id)
        }
    }

    /// The name of a MIG device's profile: that of the GPU instance, or
    /// `1c.3g.40gb` for a part of it.
    #[must_use]
    pub fn mig_profile_name(&self, gi: &GpuInstance, ci: &ComputeInstance) -> String {
        let facts = self.profile_of(gi);
        if ci.slices == facts.slices {
            facts.name.to_string()
        } else {
            format!("{}c.{}", ci.slices, facts.name)
        }
    }
}

impl GpuInstance {
    /// Its number: no other instance of the machine ever had it. One that is
    /// made again at the same place has the same UUID, and another serial.
    #[must_use]
    pub const fn serial(&self) -> u64 {
        self.generation
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let span = |ci: &ComputeInstance| Span { profile: ci.profile, start: ci.start, slices: ci.slices };
        self.compute.values().map(span).collect()
    }
}
