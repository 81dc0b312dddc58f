//! What the driver says that the GPUs of a node are cut into.

use crate::names::{DeviceId, GpuUuid, Place, SliceName};

/// The GPUs of a node, by UUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLayout {
    /// They.
    pub gpus: Vec<GpuLayout>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuLayout {
    /// Its UUID.
    pub uuid: GpuUuid,
    /// What it is cut into.
    pub state: GpuState,
}

/// What a GPU is cut into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// MIG is on; its slices, by start.
    Cut(Vec<Slice>),
    /// MIG is off, or there is none.
    Whole,
    /// The driver does not answer about it, or answers what cannot be read.
    Silent {
        /// What it says.
        why: String,
    },
}

/// A slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where it is.
    pub place: Place,
    /// What programs can open. One is how it should be; none makes the slice
    /// useless, and several mean that somebody cut it further.
    pub devices: Vec<DeviceId>,
    /// Whether a process computes on it. Where the driver does not tell, this
    /// is false: what is open it does not destroy.
    pub busy: bool,
}

impl NodeLayout {
    /// The GPU with this UUID.
    #[must_use]
    pub fn gpu(&self, uuid: &GpuUuid) -> Option<&GpuLayout> {
        self.gpus.iter().find(|gpu| gpu.uuid == *uuid)
    }

    /// All slices, with their GPUs.
    pub fn slices(&self) -> impl Iterator<Item = (&GpuUuid, &Slice)> {
        self.gpus.iter().flat_map(|gpu| gpu.slices().iter().map(|slice| (&gpu.uuid, slice)))
    }

    /// The slice with this name.
    #[must_use]
    pub fn slice(&self, name: &SliceName) -> Option<&Slice> {
        self.gpu(&name.gpu)?.slices().iter().find(|slice| slice.place == name.place)
    }

    /// Whether some GPU or slice has this device.
    #[must_use]
    pub fn knows(&self, device: &DeviceId) -> bool {
        self.gpus.iter().any(|gpu| gpu.uuid.0 == device.0)
            || self.slices().any(|(_, slice)| slice.devices.contains(device))
    }
}

impl GpuLayout {
    /// Its slices; none where there are none, or where nobody knows.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        match &self.state {
            GpuState::Cut(slices) => slices,
            GpuState::Whole | GpuState::Silent { .. } => &[],
        }
    }
}
