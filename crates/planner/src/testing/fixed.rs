//! Policies with a static layout, and nodes with whole GPUs.

use super::{NodeBuilder, PolicyBuilder, profile};
use crate::names::GpuIndex;
use crate::policy::{LayoutPolicy, StaticCut, StaticRule};

impl NodeBuilder {
    /// Its pods hold so many GPUs with MIG off.
    #[must_use]
    pub fn whole_held(mut self, count: u32) -> Self {
        self.0.whole_held = count;
        self
    }
}

impl PolicyBuilder {
    /// One more rule of a static layout, for GPUs of any model with these
    /// indices (all when there are none).
    #[must_use]
    pub fn fixed(self, indices: &[u16], slices: &[(&str, u8)]) -> Self {
        let slices = slices.iter().map(|(name, count)| (profile(name), *count));
        self.rule(indices, StaticCut::Slices(slices.collect()))
    }

    /// One more rule of a static layout: MIG is off on GPUs with these indices
    /// (all when there are none).
    #[must_use]
    pub fn fixed_whole(self, indices: &[u16]) -> Self {
        self.rule(indices, StaticCut::MigOff)
    }

    fn rule(mut self, indices: &[u16], cut: StaticCut) -> Self {
        let rule = StaticRule {
            model: None,
            indices: (!indices.is_empty()).then(|| indices.iter().map(|i| GpuIndex(*i)).collect()),
            cut,
        };
        match &mut self.0.layout {
            LayoutPolicy::Static { gpus } => gpus.push(rule),
            LayoutPolicy::DemandDriven { .. } => {
                self.0.layout = LayoutPolicy::Static { gpus: vec![rule] };
            }
        }
        self
    }
}
