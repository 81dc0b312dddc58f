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

/// Slices of a GPU that a `GpuNode` can have.
pub const MOST_SLICES_TOLD: usize = 16;
/// Devices of a slice that a `GpuNode` can have.
pub const MOST_PARTS_TOLD: usize = 8;
/// Characters of what the driver says that are told.
pub const LONGEST_ANSWER: usize = 256;

impl GpuLayout {
    /// What is to be told of it instead of what it is, if that is too much.
    pub(crate) fn untellable(&self) -> Option<String> {
        match &self.state {
            GpuState::Whole => None,
            GpuState::Silent { why } => Some(why.chars().take(LONGEST_ANSWER).collect()),
            GpuState::Cut(slices) if slices.len() > MOST_SLICES_TOLD => {
                let count = slices.len();
                Some(format!("it has {count} slices; at most {MOST_SLICES_TOLD} can be told"))
            }
            GpuState::Cut(slices) => {
                let much = slices.iter().find(|slice| slice.devices.len() > MOST_PARTS_TOLD)?;
                let (place, count) = (much.place, much.devices.len());
                Some(format!("{place} is divided into {count} parts; at most {MOST_PARTS_TOLD} can be told"))
            }
        }
    }

    /// Its slices; none where there are none, or where nobody knows.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        match &self.state {
            GpuState::Cut(slices) => slices,
            GpuState::Whole | GpuState::Silent { .. } => &[],
        }
    }
}
