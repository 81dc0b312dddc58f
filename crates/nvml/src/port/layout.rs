//! The types of the port: GPUs, profiles, places, slices, events.

use std::fmt;

use mig::{Geometry, ProfileName, ProfileSpec};

use crate::error::Error;
use crate::library::{Engines, MigMode, Mode};

/// The UUID of a GPU, such as `GPU-5b2f7c1e-…`. It survives reboots, which an
/// index may not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuUuid(pub String);

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What was found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The driver's version.
    pub driver: String,
    /// The GPUs that answer, by index.
    pub gpus: Vec<Gpu>,
    /// Those that do not.
    pub silent: Vec<Silent>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its index, as nvidia-smi counts.
    pub index: u32,
    /// Its UUID.
    pub uuid: GpuUuid,
    /// Its product's name.
    pub name: String,
    /// Its address on the bus.
    pub bus_id: String,
    /// Its memory, in MiB.
    pub memory_mib: u64,
    /// Its MIG mode; `None` where there is no MIG.
    pub mode: Option<MigMode>,
}

/// A GPU that the driver counts, and that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Its index.
    pub index: u32,
    /// What the driver says about it.
    pub error: Error,
}

/// A kind of slice, as one GPU's driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name, such as `1g.10gb`.
    pub name: String,
    /// Its id, which nvidia-smi takes.
    pub id: u32,
    /// Its number in NVML's enumeration.
    pub number: u32,
    /// Compute slices.
    pub slices: u8,
    /// How many at most on one GPU.
    pub max_instances: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Memory of one, in MiB.
    pub memory_mib: u64,
    /// Its engines.
    pub engines: Engines,
    /// Where it may be, ascending. None for a caller without the right to
    /// know, to whom the driver does not tell.
    pub places: Vec<Span>,
}

/// Start and size on the memory grid of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first memory unit.
    pub start: u8,
    /// The memory units.
    pub size: u8,
}

impl Span {
    /// Whether the two have a unit in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.start.saturating_add(other.size)
            && other.start < self.start.saturating_add(self.size)
    }
}

/// A profile and a start: the name of a slice on its GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The profile's name.
    pub profile: String,
    /// Where it starts, in memory units.
    pub start: u8,
}

impl Place {
    /// A place.
    #[must_use]
    pub fn new(profile: &str, start: u8) -> Self {
        Self { profile: profile.to_owned(), start }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, start } = self;
        f.pad(&format!("{profile}@{start}"))
    }
}

/// What a GPU is cut into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Its slices, by start.
    pub slices: Vec<Slice>,
    /// The processes that compute on it; `None` where the driver does not
    /// tell, which is not the same as nobody.
    pub processes: Option<Vec<Process>>,
}

impl Layout {
    /// The slice at a place.
    #[must_use]
    pub fn at(&self, place: &Place) -> Option<&Slice> {
        self.slices.iter().find(|slice| slice.place().as_ref() == Some(place))
    }

    /// The processes on a slice.
    pub fn on(&self, slice: &Slice) -> impl Iterator<Item = &Process> {
        let id = slice.gpu_instance;
        self.processes.iter().flatten().filter(move |process| process.instance.is_some_and(|i| i.0 == id))
    }
}

/// A slice: a GPU instance, and how programs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The name of its profile.
    pub profile: String,
    /// Where it is; `None` for a caller without the right to know, to whom the
    /// driver shows no more than what programs see.
    pub span: Option<Span>,
    /// The id of the GPU instance.
    pub gpu_instance: u32,
    /// What programs can open, one for each compute instance. One that has all
    /// of the slice is how it should be; none makes the slice useless.
    pub devices: Vec<Device>,
}

impl Slice {
    /// Its name on its GPU, if it is known.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.span.map(|span| Place { profile: self.profile.clone(), start: span.start })
    }

    /// Whether programs can use it as what it is: one device that has it all.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.devices.as_slice(), [device] if device.whole)
    }
}

/// A MIG device, which programs open by its UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its UUID, such as `MIG-…`. A slice that is destroyed and created again
    /// may have the same.
    pub uuid: String,
    /// The id of its compute instance.
    pub compute_instance: u32,
    /// Whether it has all compute slices of its slice.
    pub whole: bool,
}

/// A process that computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id, as the driver's process namespace counts.
    pub pid: u32,
    /// Its name, where it can be found out.
    pub name: Option<String>,
    /// How much memory it has, where the driver says.
    pub memory_mib: Option<u64>,
    /// On which GPU instance and compute instance; `None` for the whole GPU.
    pub instance: Option<(u32, u32)>,
}

/// How [`create`](super::Gpus::create) went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there now.
    New(Slice),
    /// It was there without its compute instance, which it has now.
    Completed(Slice),
    /// It was there.
    AlreadyThere(Slice),
}

impl Created {
    /// The slice.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        match self {
            Self::New(slice) | Self::Completed(slice) | Self::AlreadyThere(slice) => slice,
        }
    }
}

/// How [`destroy`](super::Gpus::destroy) went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// It is gone now.
    Gone,
    /// It was not there.
    AlreadyGone,
}

/// How [`set_mode`](super::Gpus::set_mode) went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeSet {
    /// The mode is in force now.
    Changed,
    /// The mode was in force.
    AlreadySo,
    /// The mode waits for what the driver could not do: a process has the GPU
    /// open, or the GPU must be reset by somebody else.
    Pending {
        /// The driver's reason.
        why: crate::Code,
    },
}

/// Something that happened to a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which; `None` if it no longer says who it is.
    pub gpu: Option<GpuUuid>,
    /// What.
    pub what: Happened,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Happened {
    /// Somebody changed the MIG mode or an instance.
    Repartitioned,
    /// The driver reports an error, by its Xid number.
    Xid(u64),
    /// Memory has an error that could not be corrected.
    MemoryError,
}

/// The profiles of a GPU as a geometry, for pictures and for the rules: what
/// the driver says, whether the catalogue knows the GPU or not. `None` where a
/// name is of a kind that the rules do not know.
#[must_use]
pub fn geometry(profiles: &[Profile]) -> Option<Geometry> {
    let memory = profiles.iter().flat_map(|p| &p.places).map(|s| s.start.saturating_add(s.size)).max()?;
    let compute = profiles.iter().map(|p| p.slices).max()?;
    let spec = |profile: &Profile| {
        let name: ProfileName = profile.name.parse().ok()?;
        let size = profile.places.first()?.size;
        let starts: Vec<u8> = profile.places.iter().map(|span| span.start).collect();
        Some(ProfileSpec { name, compute: profile.slices, size, starts })
    };
    Geometry::new(memory, compute, profiles.iter().map(spec).collect::<Option<_>>()?).ok()
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Disabled => "off",
            Self::Enabled => "on",
        })
    }
}
