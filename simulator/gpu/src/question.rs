//! Queries that have no function of their own: a caller that shows readings of the hardware (its
//! temperature, its processes) reads the GPU behind a handle. Faults apply here as in every other call that
//! reads.

use crate::device::{ComputeInstance, Gpu, GpuInstance};
use crate::error::{NvmlError, Reply};
use crate::fault::Verb;
use crate::handle::{ComputeHandle, Device, InstanceHandle};
use crate::machine::{Client, Machine, Target};
use crate::session::Nvml;

/// What a device handle stands for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'m> {
    /// The machine.
    pub machine: &'m Machine,
    /// The GPU's index.
    pub index: u16,
    /// The GPU.
    pub gpu: &'m Gpu,
    /// The MIG device on it; none for the GPU itself.
    pub mig: Option<(&'m GpuInstance, &'m ComputeInstance)>,
}

impl<'m> Subject<'m> {
    /// The GPU itself.
    ///
    /// # Errors
    /// `otherwise` for a MIG device.
    pub fn whole(self, otherwise: NvmlError) -> Reply<&'m Gpu> {
        if self.mig.is_some() { Err(otherwise) } else { Ok(self.gpu) }
    }

    /// The processes that have it, or anything inside it, open.
    pub fn clients(self) -> impl Iterator<Item = &'m Client> {
        let here = move |at: Target| match (self.mig, at) {
            (None, at) => at.gpu() == self.index,
            (Some((gi, ci)), Target::ComputeInstance(gpu, g, c)) => (gpu, g, c) == (self.index, gi.id, ci.id),
            (Some((gi, _)), Target::GpuInstance(gpu, g)) => (gpu, g) == (self.index, gi.id),
            (Some(_), Target::Gpu(_)) => false,
        };
        self.machine.clients().map(|(_, client)| client).filter(move |client| here(client.target))
    }
}

impl Nvml<'_> {
    /// Answers a question about a GPU or a MIG device.
    ///
    /// # Errors
    /// `InvalidArgument` for a stale handle, `GpuIsLost`, what a fault says,
    /// and what the answer says.
    pub fn ask<T>(&mut self, device: Device, answer: impl FnOnce(Subject<'_>) -> Reply<T>) -> Reply<T> {
        self.initialised()?;
        let index = match device {
            Device::Gpu { .. } => self.whole(device)?,
            Device::Mig(handle) => {
                self.compute(handle)?;
                handle.parent.gpu
            }
        };
        self.read(index, |nvml| {
            let mig = match device {
                Device::Gpu { .. } => None,
                Device::Mig(handle) => Some(nvml.compute(handle)?),
            };
            answer(Subject { machine: nvml.machine, index, gpu: nvml.state(index), mig })
        })
    }
}

impl Machine {
    /// Whether a misbehaviour of this call is armed for some GPU. A shell that
    /// answers queries from a copy must then ask the machine itself, whose
    /// faults are used up.
    #[must_use]
    pub fn is_armed(&self, verb: Verb) -> bool {
        self.armed.has(verb)
    }
}

impl Device {
    /// The index of the GPU that this is, or is on.
    #[must_use]
    pub const fn gpu(self) -> u16 {
        match self {
            Self::Gpu { index, epoch: _ } => index,
            Self::Mig(handle) => handle.parent.gpu,
        }
    }
}

impl InstanceHandle {
    /// The index of its GPU.
    #[must_use]
    pub const fn gpu(self) -> u16 {
        self.gpu
    }
}

impl ComputeHandle {
    /// Its GPU instance.
    #[must_use]
    pub const fn parent(self) -> InstanceHandle {
        self.parent
    }
}
