//! The library's answers, as plain values. A reading that the library does not provide is absent, and
//! printed as `N/A`.

mod machine;
mod readings;

pub(crate) use machine::{Connection, Neighbours, NvLink, Peer, PeerRow, ProcessLoad};
pub(crate) use readings::{
    Board, ByLocation, ClockEvents, ClockSettings, EngineLoad, EventCounters, Inforom, LOCATIONS, Limits,
    LinkDetail, Location, MemoryErrors, Modes, Past, Pasts, Periods, PowerDetail, Readings, RemappedRows,
    Sessions, Thermal,
};

/// The machine as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    /// The driver's version, such as `580.82.07`.
    pub(crate) driver: String,
    /// The library's version, such as `13.580.82.07`.
    pub(crate) nvml: Option<String>,
    /// The CUDA version that the driver supports, such as `13.0`.
    pub(crate) cuda: Option<String>,
}

/// One GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gpu {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) pci: Pci,
    pub(crate) minor: Option<u32>,
    pub(crate) brand: Option<&'static str>,
    pub(crate) architecture: Option<&'static str>,
    pub(crate) serial: Option<String>,
    pub(crate) vbios: Option<String>,
    pub(crate) board_id: Option<u32>,
    pub(crate) compute_capability: Option<String>,
    pub(crate) persistence: Option<bool>,
    pub(crate) display_mode: Option<bool>,
    pub(crate) display_active: Option<bool>,
    pub(crate) accounting: Option<bool>,
    pub(crate) compute_mode: Option<ComputeMode>,
    pub(crate) mig: Option<MigMode>,
    pub(crate) ecc: Option<Ecc>,
    pub(crate) fan: Option<u32>,
    pub(crate) temperature: Option<u32>,
    pub(crate) memory_temperature: Option<u32>,
    pub(crate) performance: Option<u8>,
    pub(crate) power: Power,
    pub(crate) clocks: Clocks,
    pub(crate) max_clocks: Clocks,
    pub(crate) memory: Option<Memory>,
    pub(crate) bar1: Option<Memory>,
    pub(crate) utilization: Option<Utilization>,
    pub(crate) link: Link,
    /// What only the log and `--query-gpu` tell.
    pub(crate) readings: Readings,
    pub(crate) devices: Vec<MigDevice>,
    pub(crate) processes: Vec<Process>,
}

impl Gpu {
    /// Whether MIG is on now.
    pub(crate) fn mig_is_on(&self) -> bool {
        self.mig.is_some_and(|mode| mode.current)
    }
}

/// Where a GPU is on the bus.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pci {
    /// Such as `00000000:01:00.0`.
    pub(crate) id: String,
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) device_id: u32,
    pub(crate) subsystem_id: Option<u32>,
}

/// MIG mode, now and after the next reset; true is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MigMode {
    pub(crate) current: bool,
    pub(crate) pending: bool,
}

/// Error correction of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ecc {
    pub(crate) current: bool,
    pub(crate) pending: bool,
    /// Uncorrected errors since the driver was loaded.
    pub(crate) uncorrected: Option<u64>,
}

/// Power, in milliwatts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Power {
    pub(crate) draw: Option<u32>,
    pub(crate) limit: Option<u32>,
    pub(crate) default_limit: Option<u32>,
    pub(crate) min_limit: Option<u32>,
    pub(crate) max_limit: Option<u32>,
}

/// Clocks, in MHz.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    pub(crate) graphics: Option<u32>,
    pub(crate) sm: Option<u32>,
    pub(crate) memory: Option<u32>,
    pub(crate) video: Option<u32>,
}

/// The link to the host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) generation: Option<u32>,
    pub(crate) max_generation: Option<u32>,
    pub(crate) width: Option<u32>,
    pub(crate) max_width: Option<u32>,
}

/// Memory, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) used: u64,
    pub(crate) free: u64,
    pub(crate) reserved: u64,
}

/// How busy a GPU is, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Utilization {
    pub(crate) gpu: u32,
    pub(crate) memory: u32,
}

/// Who may compute on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComputeMode {
    Default,
    Prohibited,
    ExclusiveProcess,
}

/// A MIG device: one compute instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct MigDevice {
    /// Its index on its GPU.
    pub(crate) index: u32,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
    /// Its profile as `-L` names it, such as `1c.3g.40gb`.
    pub(crate) profile: String,
    pub(crate) uuid: String,
    pub(crate) memory: Option<Memory>,
    pub(crate) bar1: Option<Memory>,
    pub(crate) attributes: Option<Attributes>,
    /// Uncorrected errors since the driver was loaded.
    pub(crate) uncorrected: Option<u64>,
}

/// What a MIG device has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) multiprocessors: u32,
    pub(crate) engines: Engines,
}

/// Engines beside the multiprocessors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Engines {
    pub(crate) copy: u32,
    pub(crate) decoder: u32,
    pub(crate) encoder: u32,
    pub(crate) jpeg: u32,
    pub(crate) ofa: u32,
}

/// A process that has a GPU or a MIG device open.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) kind: ProcessKind,
    pub(crate) name: String,
    /// In MiB.
    pub(crate) memory: Option<u64>,
    /// GPU instance and compute instance, with MIG on.
    pub(crate) instance: Option<(u32, u32)>,
}

/// What a process does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessKind {
    Compute,
    Graphics,
    Both,
}

/// A GPU instance profile of a GPU.
#[derive(Clone, Debug)]
pub(crate) struct GpuProfile {
    /// Its GPU's index.
    pub(crate) gpu: u32,
    /// Such as `1g.10gb+me`.
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) free: u32,
    pub(crate) total: u32,
    /// In MiB.
    pub(crate) memory: u64,
    pub(crate) peer_to_peer: bool,
    pub(crate) multiprocessors: u32,
    pub(crate) engines: Engines,
}

/// Where GPU instances of a profile may be.
#[derive(Clone, Debug)]
pub(crate) struct PossiblePlacements {
    pub(crate) gpu: u32,
    pub(crate) profile: u32,
    pub(crate) starts: Vec<u32>,
    pub(crate) size: u32,
}

/// A GPU instance.
#[derive(Clone, Debug)]
pub(crate) struct GpuInstance {
    pub(crate) gpu: u32,
    /// Such as `1g.10gb+me`.
    pub(crate) name: String,
    pub(crate) profile: u32,
    pub(crate) id: u32,
    pub(crate) start: u32,
    pub(crate) size: u32,
}

/// A compute instance.
#[derive(Clone, Debug)]
pub(crate) struct ComputeInstance {
    pub(crate) gpu: u32,
    pub(crate) gpu_instance: u32,
    /// Such as `1c.3g.40gb`.
    pub(crate) name: String,
    pub(crate) profile: u32,
    pub(crate) id: u32,
    pub(crate) start: u32,
    pub(crate) size: u32,
}

/// A compute instance profile of a GPU instance.
#[derive(Clone, Debug)]
pub(crate) struct ComputeProfile {
    pub(crate) gpu: u32,
    pub(crate) gpu_instance: u32,
    /// Such as `1c.3g.40gb`.
    pub(crate) name: String,
    pub(crate) id: u32,
    /// Whether `-C` takes this one: it fills its GPU instance.
    pub(crate) default: bool,
    pub(crate) free: u32,
    pub(crate) total: u32,
    pub(crate) multiprocessors: u32,
    pub(crate) engines: Engines,
}
