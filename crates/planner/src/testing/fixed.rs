//! Policies with a static layout, and nodes with whole GPUs.

use super::{GpuBuilder, NodeBuilder, PolicyBuilder, RequestBuilder, pod, profile};
use crate::demand::Apart;
use crate::inventory::{Slices, Use};
use crate::names::GpuIndex;
use crate::policy::{Bounds, LayoutPolicy, StaticCut, StaticRule};

impl GpuBuilder {
    /// MIG is off, and this pod may use the whole GPU.
    #[must_use]
    pub fn mig_off_maybe(mut self, by: &str) -> Self {
        self.0.slices = Slices::MigOff { used: Use::MaybeInUse { by: vec![pod(by)] } };
        self
    }
}

impl RequestBuilder {
    /// Pods like it keep it off a node.
    #[must_use]
    pub fn kept_off(mut self, node: &str, rule: Apart) -> Self {
        self.0.constraints.kept_off.insert(node.into(), rule);
        self
    }

    /// Its pod starts with all others of this gang or not at all.
    #[must_use]
    pub fn of_gang(mut self, gang: &str) -> Self {
        self.0.together.gang = Some(gang.to_owned());
        self
    }

    /// Its pod starts with all others of this workload of a queue, or not at all.
    #[must_use]
    pub fn of_workload(mut self, workload: &str) -> Self {
        self.0.together.workload = Some(workload.to_owned());
        self
    }

    /// It goes where a label of nodes has the value that it has for all others with this rule.
    #[must_use]
    pub fn together(mut self, rule: &str, label: &str) -> Self {
        self.0.together.rules.insert(rule.to_owned(), label.to_owned());
        self
    }

    /// A node that is not planned for has as many GPUs free as it asks for.
    #[must_use]
    pub fn finds(mut self, node: &str) -> Self {
        self.0.finds = Some(node.into());
        self
    }
}

impl NodeBuilder {
    /// Its pods hold so many GPUs with MIG off.
    #[must_use]
    pub fn whole_held(mut self, count: u32) -> Self {
        self.0.whole_held = count;
        self
    }
}

impl PolicyBuilder {
    /// Requests for whole GPUs are served, with these bounds.
    #[must_use]
    pub fn whole_gpus(mut self, min: u32, spare: u32, max: Option<u32>) -> Self {
        let LayoutPolicy::DemandDriven { whole_gpus, .. } = &mut self.0.layout else {
            panic!("a static policy has no bounds")
        };
        *whole_gpus = Some(Bounds { min, spare, max });
        self
    }

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
