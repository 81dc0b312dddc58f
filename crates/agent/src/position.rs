//! Where the GPUs are between what a change found and what it wants.

use std::collections::BTreeSet;

use crate::layout::{GpuState, NodeLayout};
use crate::names::{GpuUuid, SliceName};
use crate::wish::{GpuChange, Wish};

/// How a GPU is not as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The GPU.
    pub gpu: GpuUuid,
    /// What there is instead, in words.
    pub found: String,
}

/// Where all GPUs of a change are, together. The lists are in the order of the
/// wish, then by profile and start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// A GPU about which the driver does not answer.
    pub silent: Option<GpuUuid>,
    /// A GPU that is not on the way from `before` to `after`.
    pub differs: Option<Difference>,
    /// What is there and shall not be.
    pub goes: Vec<SliceName>,
    /// What shall be there and is not.
    pub lacks: Vec<SliceName>,
    /// What is there and was not before.
    pub extras: Vec<SliceName>,
    /// What was there before and is not.
    pub missing: Vec<SliceName>,
}

impl Position {
    /// Where the GPUs of `wish` are, by the driver's layout.
    #[must_use]
    pub fn new(wish: &Wish, layout: &NodeLayout) -> Self {
        let mut position = Self::default();
        for change in &wish.gpus {
            position.add(change, layout);
        }
        position
    }

    fn add(&mut self, change: &GpuChange, layout: &NodeLayout) {
        let GpuChange { gpu, before, after } = change;
        let mut differs = |found: String| {
            self.differs.get_or_insert(Difference { gpu: gpu.clone(), found });
        };
        let slices = match layout.gpu(gpu).map(|gpu| &gpu.state) {
            Some(GpuState::Cut(slices)) => slices,
            Some(GpuState::Silent { .. }) => {
                self.silent.get_or_insert_with(|| gpu.clone());
                return;
            }
            Some(GpuState::Whole) => return differs("MIG is off".to_owned()),
            None => return differs("there is no such GPU".to_owned()),
        };
        let present: BTreeSet<_> = slices.iter().map(|slice| slice.place).collect();
        // One that nothing can open is there when it has to go, and is not there when it has to be.
        let usable: BTreeSet<_> =
            slices.iter().filter(|slice| !slice.devices.is_empty()).map(|slice| slice.place).collect();
        if let Some(slice) = slices.iter().find(|slice| slice.devices.len() > 1) {
            differs(format!("{} is divided further", slice.place));
        }
        if let Some(place) = present.iter().find(|place| !before.contains(place) && !after.contains(place)) {
            differs(format!("{place} is there, which the plan does not know"));
        }
        if let Some(place) = before.intersection(after).find(|place| !present.contains(place)) {
            differs(format!("{place} is gone, which should stay"));
        }
        let names = |places: BTreeSet<_>| {
            places.into_iter().map(|place| SliceName { gpu: gpu.clone(), place }).collect::<Vec<_>>()
        };
        self.goes
            .extend(names(present.intersection(before).filter(|p| !after.contains(p)).copied().collect()));
        self.lacks.extend(names(after.difference(&usable).copied().collect()));
        self.extras
            .extend(names(present.intersection(after).filter(|p| !before.contains(p)).copied().collect()));
        self.missing.extend(names(before.difference(&usable).copied().collect()));
    }

    /// Whether all is as it was.
    #[must_use]
    pub fn is_before(&self) -> bool {
        self.is_planned() && self.extras.is_empty() && self.missing.is_empty()
    }

    /// Whether all is as it shall be.
    #[must_use]
    pub fn is_after(&self) -> bool {
        self.is_planned() && self.goes.is_empty() && self.lacks.is_empty()
    }

    /// Whether every GPU is somewhere on its way.
    #[must_use]
    pub const fn is_planned(&self) -> bool {
        self.silent.is_none() && self.differs.is_none()
    }
}
