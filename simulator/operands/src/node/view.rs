//! The views of the node: the API's side, and the complete state.

use std::collections::BTreeMap;

use gpu::{Breach, Machine};
use jiff::Timestamp;
use mig::ProfileName;
use serde::Serialize;

use crate::operand::{Operand, OperandPod};
use crate::pod::{Pod, PodName};

use super::Node;

/// What a GPU is cut into, and who has what: the truth, which no API shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuTruth {
    /// Its index.
    pub index: u16,
    /// Its model's name in the catalogue.
    pub model: String,
    /// Whether MIG is on.
    pub mig: bool,
    /// Whether another mode is pending.
    pub mode_pending: bool,
    /// Whether it answers.
    pub lost: bool,
    /// Its slices, by start.
    pub slices: Vec<SliceTruth>,
    /// Who has the whole GPU.
    pub holder: Option<String>,
    /// Whether any process has it, or anything on it, open.
    pub open: bool,
}

/// A slice and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SliceTruth {
    /// Its GPU instance's id.
    pub gpu_instance: u8,
    /// Which of all that were ever there it is: one that was made again at the
    /// same place has the same UUID, and another serial.
    pub serial: u64,
    /// Its profile.
    pub profile: ProfileName,
    /// Where it starts, in memory units.
    pub start: u8,
    /// How much it spans, in memory units.
    pub size: u8,
    /// The UUID of its MIG device; none without a compute instance.
    pub uuid: Option<String>,
    /// Who has it in the kubelet's book, as `namespace/name`.
    pub holder: Option<String>,
    /// Whether a process has it open.
    pub open: bool,
}

impl Node {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The moment of the last tick.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Its labels.
    #[must_use]
    pub const fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// Whether it is cordoned.
    #[must_use]
    pub const fn unschedulable(&self) -> bool {
        self.unschedulable
    }

    /// Whether it is ready.
    #[must_use]
    pub const fn ready(&self) -> bool {
        self.ready
    }

    /// The id of its boot. While it is down, still the old one.
    #[must_use]
    pub fn boot_id(&self) -> String {
        self.machine.boot_id()
    }

    /// Its capacity of extended resources. Keys never go away.
    #[must_use]
    pub const fn capacity(&self) -> &BTreeMap<String, u64> {
        &self.capacity
    }

    /// What of that pods can have.
    #[must_use]
    pub const fn allocatable(&self) -> &BTreeMap<String, u64> {
        &self.allocatable
    }

    /// The pods of the operands.
    pub fn operand_pods(&self) -> impl Iterator<Item = &OperandPod> {
        self.operands.values()
    }

    /// The pod of one operand.
    #[must_use]
    pub fn operand_pod(&self, operand: Operand) -> Option<&OperandPod> {
        self.operands.get(&operand)
    }

    /// The users' pods.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    /// The devices that the kubelet has and that are healthy: what it answers to
    /// `GetAllocatableResources`, by resource and id.
    pub fn healthy_devices(&self) -> impl Iterator<Item = (&String, &String)> {
        let all = self.registered.iter().flat_map(|(resource, ids)| ids.iter().map(move |id| (resource, id)));
        all.filter(|(_, id)| !self.unhealthy.contains(crate::sharing::uuid(id)))
    }

    /// One of them.
    #[must_use]
    pub fn pod(&self, name: &PodName) -> Option<&Pod> {
        self.pods.get(name)
    }

    /// Its GPUs.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How often a slice was taken from a pod that had it.
    #[must_use]
    pub fn breaches(&self) -> &[Breach] {
        self.machine.breaches()
    }

    /// Pods that came to share a device that one of them was to have for itself.
    #[must_use]
    pub fn shared_unawares(&self) -> &[crate::sharing::SharedUnawares] {
        &self.shared_unawares
    }

    /// What was taken from pods, in words: slices that they had, and devices that they had for themselves.
    pub fn taken(&self) -> impl Iterator<Item = String> {
        let slices = self.breaches().iter().map(ToString::to_string);
        slices.chain(self.shared_unawares().iter().map(ToString::to_string))
    }

    /// The map of configurations as MIG manager reads it now.
    #[must_use]
    pub fn mounted_map(&self) -> &str {
        &self.mounted
    }

    /// What each GPU is cut into, and who has what.
    #[must_use]
    pub fn truth(&self) -> Vec<GpuTruth> {
        self.machine.gpus().iter().zip(0u16..).map(|(gpu, index)| self.gpu_truth(gpu, index)).collect()
    }

    fn gpu_truth(&self, gpu: &gpu::Gpu, index: u16) -> GpuTruth {
        let open = |of: &dyn Fn(gpu::Target) -> bool| self.machine.clients().any(|(_, c)| of(c.target));
        let mut slices: Vec<_> = gpu
            .instances
            .values()
            .map(|gi| {
                let (start, size) = gpu.span_of(gi);
                SliceTruth {
                    gpu_instance: gi.id,
                    serial: gi.serial(),
                    profile: gpu.profile_of(gi).name,
                    start,
                    size,
                    uuid: gi.compute.values().next().map(|ci| gpu.mig_uuid(gi, ci)),
                    holder: gi.allocation.as_ref().map(|a| a.owner.clone()),
                    open: open(&|target| match target {
                        gpu::Target::Gpu(_) => false,
                        gpu::Target::GpuInstance(g, i) | gpu::Target::ComputeInstance(g, i, _) => {
                            (g, i) == (index, gi.id)
                        }
                    }),
                }
            })
            .collect();
        slices.sort_by_key(|slice| slice.start);
        GpuTruth {
            index,
            model: gpu.model.name.clone(),
            mig: gpu.mig_is_on(),
            mode_pending: gpu.mode.is_some_and(|mode| mode.current != mode.pending),
            lost: gpu.lost,
            slices,
            holder: gpu.allocation.as_ref().map(|a| a.owner.clone()),
            open: open(&|target| target.gpu() == index),
        }
    }
}
