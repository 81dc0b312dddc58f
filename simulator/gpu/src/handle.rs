//! The arguments and results of NVML's calls: callers, handles, and plain records.

use crate::device::{ComputeInstance, GpuInstance};
use crate::model::Engines;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A privileged process that initialised the library.
    Root,
    /// A process without privileges that initialised the library.
    User,
    /// A process that did not initialise the library.
    Uninitialized,
}

/// A handle of a GPU or of a MIG device (`nvmlDevice_t` is either).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// A GPU. Valid until the driver goes.
    Gpu {
        /// Its index.
        index: u16,
        /// The load of the driver that it is of.
        epoch: u64,
    },
    /// A MIG device. Valid until its compute instance goes.
    Mig(ComputeHandle),
}

/// A handle of a GPU instance: invalid once the instance is destroyed, even
/// when another with the same id takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceHandle {
    pub(crate) gpu: u16,
    pub(crate) id: u8,
    pub(crate) generation: u64,
}

/// A handle of a compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeHandle {
    pub(crate) parent: InstanceHandle,
    pub(crate) id: u8,
    pub(crate) generation: u64,
}

/// Start and size of an instance: in memory units for a GPU instance, in
/// compute slices for a compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// Where it starts.
    pub start: u8,
    /// How much it spans.
    pub size: u8,
}

/// What `nvmlGpuInstanceGetInfo` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuInstanceInfo {
    /// Its id.
    pub id: u8,
    /// Its profile's id, as nvidia-smi shows it.
    pub profile_id: u32,
    /// Where it is.
    pub placement: Placement,
}

/// What `nvmlComputeInstanceGetInfo_v2` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeInstanceInfo {
    /// Its id in the GPU instance.
    pub id: u8,
    /// Its profile's id.
    pub profile_id: u32,
    /// Where it is in the GPU instance.
    pub placement: Placement,
}

/// What `nvmlDeviceGetMemoryInfo` answers, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total_mib: u32,
    /// What clients have.
    pub used_mib: u32,
    /// What the driver keeps of it, in KiB; nothing of a MIG device's memory.
    pub reserved_kib: u32,
}

/// What `nvmlDeviceGetAttributes_v2` answers for a MIG device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Multiprocessors; `None` where no source says how many.
    pub multiprocessors: Option<u32>,
    /// The engines of the GPU instance, which its compute instances share.
    pub engines: Engines,
    /// Compute slices of the GPU instance.
    pub gpu_instance_slices: u8,
    /// Compute slices of the compute instance.
    pub compute_instance_slices: u8,
    /// Memory of the GPU instance, in MiB.
    pub memory_mib: u32,
}

pub(crate) const fn instance_handle(gpu: u16, gi: &GpuInstance) -> InstanceHandle {
    InstanceHandle { gpu, id: gi.id, generation: gi.generation }
}

pub(crate) const fn compute_handle(gpu: u16, gi: &GpuInstance, ci: &ComputeInstance) -> ComputeHandle {
    ComputeHandle { parent: instance_handle(gpu, gi), id: ci.id, generation: ci.generation }
}
