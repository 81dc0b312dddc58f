//! Whether kubelet can still give a slice away. NVIDIA's plugin must restart to
//! see a new layout anyway, so its absence is the gate: without it kubelet has
//! no healthy device, and refuses each new choice under the lock by which it
//! said so.

use std::collections::BTreeSet;

use crate::books::Device;
use crate::layout::{GpuState, NodeLayout};
use crate::names::DeviceId;

/// What kubelet offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing of any GPU: nobody can get a slice.
    Closed,
    /// Something, but not what the GPUs have.
    Ajar,
    /// Every slice that the GPUs have, and nothing that they have not.
    Open,
}

impl Gate {
    /// The gate, by kubelet's list of healthy devices (`GetAllocatableResources`
    /// of its pod-resources socket) and by the driver's layout. A list that
    /// could not be had (`None`) proves nothing: the gate counts as ajar.
    #[must_use]
    pub fn from_devices(healthy: Option<&[Device]>, layout: &NodeLayout) -> Self {
        let Some(healthy) = healthy else { return Self::Ajar };
        let offered: BTreeSet<_> =
            healthy.iter().filter(|device| device.is_gpu()).map(|device| device.id.unshared()).collect();
        if offered.is_empty() {
            return Self::Closed;
        }
        let slices = layout.slices().flat_map(|(_, slice)| slice.devices.iter().cloned());
        let slices: BTreeSet<_> = slices.collect();
        let whole = layout.gpus.iter().filter(|gpu| gpu.state == GpuState::Whole);
        let whole: BTreeSet<_> = whole.map(|gpu| DeviceId(gpu.uuid.0.clone())).collect();
        // Not every GPU without MIG is offered: a display card is none that pods get.
        let known = offered.iter().all(|device| slices.contains(device) || whole.contains(device));
        if known && slices.is_subset(&offered) { Self::Open } else { Self::Ajar }
    }
}
