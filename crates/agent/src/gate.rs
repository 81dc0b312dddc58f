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
    /// Exactly what the GPUs have.
    Open,
}

impl Gate {
    /// The gate, by kubelet's list of healthy devices (`GetAllocatableResources`
    /// of its pod-resources socket) and by the driver's layout. A list that
    /// could not be had (`None`) proves nothing: the gate counts as ajar.
    #[must_use]
    pub fn of(healthy: Option<&[Device]>, layout: &NodeLayout) -> Self {
        let Some(healthy) = healthy else { return Self::Ajar };
        let offered: BTreeSet<_> =
            healthy.iter().filter(|device| device.is_gpu()).map(|device| device.id.unshared()).collect();
        if offered.is_empty() {
            return Self::Closed;
        }
        let slices = layout.slices().flat_map(|(_, slice)| slice.devices.iter().cloned());
        let whole = layout.gpus.iter().filter(|gpu| gpu.state == GpuState::Whole);
        let present: BTreeSet<_> = slices.chain(whole.map(|gpu| DeviceId(gpu.uuid.0.clone()))).collect();
        if offered == present { Self::Open } else { Self::Ajar }
    }
}
