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
    /// Every slice that the GPUs have, and nothing that they have not. What a
    /// GPU has about which the driver does not answer, nobody knows.
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
        // What no GPU is known to have is of that one: otherwise each change beside it would leave its node closed.
        let is_any_silent = layout.gpus.iter().any(|gpu| matches!(gpu.state, GpuState::Silent { .. }));
        // Not every GPU without MIG is offered: a display card is none that pods get.
        let is_known = |device: &DeviceId| slices.contains(device) || whole.contains(device);
        let known = is_any_silent || offered.iter().all(is_known);
        if known && slices.is_subset(&offered) { Self::Open } else { Self::Ajar }
    }
}
