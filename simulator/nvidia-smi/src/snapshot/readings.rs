//! Readings of a GPU that only the log and `--query-gpu` show. All of them may be absent.

use nvml::library::{Fabric, Platform, RemapAvailability, SramErrors};

/// The board and what is stored on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    pub(crate) part_number: Option<String>,
    pub(crate) is_multi_gpu: Option<bool>,
    pub(crate) module: Option<u32>,
    pub(crate) pdi: Option<u64>,
    pub(crate) platform: Option<Platform>,
    pub(crate) inforom: Inforom,
    pub(crate) gsp_version: Option<String>,
    /// Whether the GSP firmware runs, now and by default.
    pub(crate) gsp_mode: Option<(bool, bool)>,
}

/// The versions of the objects in the InfoROM.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inforom {
    pub(crate) image: Option<String>,
    pub(crate) oem: Option<String>,
    pub(crate) ecc: Option<String>,
    pub(crate) power: Option<String>,
    pub(crate) is_valid: Option<bool>,
    /// When the black box was last written, such as `2024/02/22 13:09:29.459`,
    /// and how many microseconds it took.
    pub(crate) flushed: Option<(String, u64)>,
}

/// How a GPU is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modes {
    pub(crate) addressing: Option<&'static str>,
    pub(crate) accounting_buffer: Option<u32>,
    /// Its operation mode, now and after the next reset.
    pub(crate) operation: Option<(&'static str, &'static str)>,
    pub(crate) chip_to_chip: Option<bool>,
    pub(crate) virtualization: Option<&'static str>,
    pub(crate) host_vgpu: Option<&'static str>,
    /// Whether memory is encrypted, now and after the next reset.
    pub(crate) dram_encryption: Option<(bool, bool)>,
    pub(crate) recovery: Option<&'static str>,
    /// Before driver 570, which has the recovery action instead.
    pub(crate) reset_required: Option<bool>,
    pub(crate) drain_recommended: Option<bool>,
    pub(crate) auto_boost: Option<(bool, bool)>,
    /// The first bit of what it can do: memory of other hosts.
    pub(crate) extended_memory: Option<bool>,
}

/// What holds the clocks down, as bits of NVML's mask, and for how long each
/// did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClockEvents {
    pub(crate) active: Option<u64>,
    pub(crate) supported: Option<u64>,
    /// In microseconds.
    pub(crate) counters: EventCounters,
}

/// How long each reason held the clocks down, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounters {
    pub(crate) power_cap: Option<u64>,
    pub(crate) sync_boost: Option<u64>,
    pub(crate) software_thermal: Option<u64>,
    pub(crate) hardware_thermal: Option<u64>,
    pub(crate) power_brake: Option<u64>,
}

/// How busy the engines are, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineLoad {
    pub(crate) encoder: Option<u32>,
    pub(crate) decoder: Option<u32>,
    pub(crate) jpeg: Option<u32>,
    pub(crate) ofa: Option<u32>,
}

/// What the driver remembers of a reading: a summary of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) count: u64,
    /// From the first sample to the last, in microseconds.
    pub(crate) duration: u64,
    pub(crate) max: u64,
    pub(crate) min: u64,
    pub(crate) mean: u64,
}

/// What the driver remembers: loads in percent, power in milliwatts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pasts {
    pub(crate) power: Option<Past>,
    pub(crate) gpu: Option<Past>,
    pub(crate) memory: Option<Past>,
    pub(crate) encoder: Option<Past>,
    pub(crate) decoder: Option<Past>,
    pub(crate) jpeg: Option<Past>,
    pub(crate) ofa: Option<Past>,
}

/// Sessions of an encoder or a frame grabber.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) count: u32,
    pub(crate) frames: u32,
    /// In microseconds.
    pub(crate) latency: u32,
}

/// Where an error struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Device,
    RegisterFile,
    L1,
    L2,
    Texture,
    Cbu,
    Sram,
    Total,
}

/// How many places there are.
pub(crate) const LOCATIONS: usize = 8;

/// Errors by place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByLocation(pub(crate) [Option<u64>; LOCATIONS]);

impl ByLocation {
    /// The errors at one place.
    pub(crate) const fn at(&self, location: Location) -> Option<u64> {
        self.0[location as usize]
    }
}

/// Errors since the driver was loaded, and ever.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Periods {
    pub(crate) volatile: ByLocation,
    pub(crate) aggregate: ByLocation,
}

/// What went wrong in memory, and what became of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryErrors {
    pub(crate) corrected: Periods,
    pub(crate) uncorrected: Periods,
    pub(crate) sram: Option<SramErrors>,
    /// Of a channel, of a TPC.
    pub(crate) pending_repairs: Option<(bool, bool)>,
    /// For single and for double bit errors.
    pub(crate) retired: Option<(u64, u64)>,
    pub(crate) retirement_pending: Option<bool>,
    pub(crate) rows: Option<RemappedRows>,
    pub(crate) remap: Option<RemapAvailability>,
}

/// Rows of memory for which spares stand in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemappedRows {
    pub(crate) corrected: u64,
    pub(crate) uncorrected: u64,
    pub(crate) pending: bool,
    pub(crate) failed: bool,
}

/// Temperatures beside the GPU's own, in degrees Celsius.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Thermal {
    /// To the point where it slows down; absent where limits are absolute.
    pub(crate) margin: Option<i64>,
    pub(crate) target: Option<i64>,
    /// Limits as the margin counts: to the point where it slows down.
    pub(crate) relative: Limits,
    pub(crate) absolute: Limits,
}

/// Temperatures at which something happens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) shutdown: Option<i64>,
    pub(crate) slowdown: Option<i64>,
    pub(crate) max_operating: Option<i64>,
    pub(crate) memory_max: Option<i64>,
}

/// Power beside what everybody asks for, in milliwatts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PowerDetail {
    pub(crate) average: Option<u64>,
    pub(crate) instant: Option<u64>,
    pub(crate) memory_average: Option<u64>,
    pub(crate) requested_limit: Option<u32>,
}

/// Clocks that somebody set, or may set, in MHz.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockSettings {
    /// Graphics and memory, for applications.
    pub(crate) applications: (Option<u32>, Option<u32>),
    /// The same, by default.
    pub(crate) default_applications: (Option<u32>, Option<u32>),
    pub(crate) max_boost: Option<u32>,
    /// What can be set: each memory clock with the graphics clocks beside it.
    pub(crate) supported: Vec<(u32, Vec<u32>)>,
}

/// The link to the host beside its speed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkDetail {
    pub(crate) device_max: Option<u32>,
    pub(crate) replays: Option<u32>,
    pub(crate) rollovers: Option<u64>,
    /// In KB/s, to the host and from it.
    pub(crate) sent: Option<u32>,
    pub(crate) received: Option<u32>,
    /// Atomic operations that the link does, as NVML's bits: to the host, from it.
    pub(crate) atomics: (Option<u64>, Option<u64>),
}

/// Everything of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    /// Base class and sub class.
    pub(crate) pci_class: Option<(u32, u32)>,
    pub(crate) board: Board,
    pub(crate) modes: Modes,
    pub(crate) events: ClockEvents,
    pub(crate) engines: EngineLoad,
    pub(crate) pasts: Pasts,
    pub(crate) encoding: Option<Sessions>,
    pub(crate) grabbing: Option<Sessions>,
    pub(crate) errors: MemoryErrors,
    pub(crate) thermal: Thermal,
    pub(crate) power: PowerDetail,
    pub(crate) clocks: ClockSettings,
    pub(crate) link: LinkDetail,
    pub(crate) fabric: Option<Fabric>,
    /// In MiB.
    pub(crate) protected: Option<super::Memory>,
}
