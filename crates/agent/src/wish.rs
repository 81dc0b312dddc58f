//! What the controller wants done: `GpuNode.spec.change`.

use std::collections::BTreeSet;

use crate::names::{ChangeId, GpuUuid, Place, PodUid, ReportNumber, SliceName};

/// GPUs that one change may have: as many as a `GpuNode`.
pub const MOST_GPUS: usize = 64;
/// Slices that one GPU may have before or after: as many as a `GpuNode`.
pub const MOST_SLICES: usize = 16;

/// A change of some GPUs of a node, slice by slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its id.
    pub id: ChangeId,
    /// That slices may be destroyed. Before the claim its absence means "not
    /// yet"; after the claim it means "go back".
    pub permit: Option<Permit>,
    /// The GPUs.
    pub gpus: Vec<GpuChange>,
}

/// That the slices of a change may be destroyed, as far as one account goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The account that the proof was made with. A later one voids it.
    pub report: ReportNumber,
    /// Pods that the checkpoint still has and that are gone: kubelet writes it
    /// at the next allocation only, and there is none.
    pub gone: BTreeSet<PodUid>,
}

/// The change of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuChange {
    /// The GPU.
    pub gpu: GpuUuid,
    /// What it was when this was planned.
    pub before: BTreeSet<Place>,
    /// What it shall be.
    pub after: BTreeSet<Place>,
}

/// Why a wish is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// More GPUs than a node may have.
    TooManyGpus {
        /// How many.
        count: usize,
    },
    /// More slices than a GPU may have.
    TooManySlices {
        /// The GPU.
        gpu: GpuUuid,
    },
    /// One GPU twice.
    Twice {
        /// The GPU.
        gpu: GpuUuid,
    },
}

impl Wish {
    /// Whether it can be followed at all.
    ///
    /// # Errors
    /// Says what is out of bounds.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.gpus.len() > MOST_GPUS {
            return Err(Malformed::TooManyGpus { count: self.gpus.len() });
        }
        let mut seen = BTreeSet::new();
        for GpuChange { gpu, before, after } in &self.gpus {
            if before.len().max(after.len()) > MOST_SLICES {
                return Err(Malformed::TooManySlices { gpu: gpu.clone() });
            }
            if !seen.insert(gpu) {
                return Err(Malformed::Twice { gpu: gpu.clone() });
            }
        }
        Ok(())
    }

    /// Whether something goes. What only creates needs neither gate nor proof.
    #[must_use]
    pub fn destroys(&self) -> bool {
        self.gpus.iter().any(|change| !change.before.is_subset(&change.after))
    }

    /// The slices that go or come. Whoever turns back half-way destroys what
    /// came, so both have to be proved free.
    pub fn moving(&self) -> impl Iterator<Item = SliceName> {
        self.gpus.iter().flat_map(|change| {
            let GpuChange { gpu, before, after } = change;
            before.symmetric_difference(after).map(|place| SliceName { gpu: gpu.clone(), place: *place })
        })
    }
}
