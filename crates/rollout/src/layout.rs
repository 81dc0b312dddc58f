//! The layout of a node as the GPU Operator can express it: for every GPU index whether MIG is on, and the
//! number of slices of each profile. The start of a slice cannot be expressed there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mig::ProfileName;
use planner::names::GpuIndex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::names::{ENTRY_PREFIX, RESOURCE_GPU};

/// What one GPU is cut into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GpuLayout {
    /// MIG is off, such as on a display GPU.
    Off,
    /// MIG is on, with so many slices of each profile.
    Mig(BTreeMap<ProfileName, u8>),
}

impl GpuLayout {
    /// MIG is on, with these slices.
    #[must_use]
    pub fn from_profiles(profiles: impl IntoIterator<Item = ProfileName>) -> Self {
        let mut counts = BTreeMap::new();
        for profile in profiles {
            *counts.entry(profile).or_insert(0_u8) += 1;
        }
        Self::Mig(counts)
    }

    /// Whether MIG is on.
    #[must_use]
    pub const fn is_mig(&self) -> bool {
        matches!(self, Self::Mig(_))
    }

    /// The extended resources that the GPU gives under a strategy.
    fn resources(&self, strategy: Strategy) -> BTreeMap<String, u64> {
        let slices = match self {
            Self::Mig(slices) if strategy != Strategy::None => slices,
            Self::Off | Self::Mig(_) => return BTreeMap::from([(RESOURCE_GPU.to_owned(), 1)]),
        };
        let mut resources = BTreeMap::new();
        for (profile, n) in slices.iter().filter(|(_, n)| **n > 0) {
            let name = match strategy {
                Strategy::Mixed => profile.resource_name(),
                Strategy::Single | Strategy::None => RESOURCE_GPU.to_owned(),
            };
            *resources.entry(name).or_insert(0) += u64::from(*n);
        }
        resources
    }
}

impl fmt::Display for GpuLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Mig(slices) = self else { return f.write_str("off") };
        let parts: Vec<_> =
            slices.iter().filter(|(_, n)| **n > 0).map(|(profile, n)| format!("{profile}*{n}")).collect();
        f.write_str(if parts.is_empty() { "empty" } else { "" })?;
        f.write_str(&parts.join(","))
    }
}

/// What a node is cut into; every GPU of the node is there. Printed
/// `0:1g.10gb*7 1:off`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeLayout(pub BTreeMap<GpuIndex, GpuLayout>);

/// `ClusterPolicy.spec.mig.strategy`: under which names slices are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// Slices are not offered.
    None,
    /// Every slice is a `nvidia.com/gpu`; all must be alike.
    Single,
    /// `nvidia.com/mig-<profile>`.
    #[default]
    Mixed,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Single => "single",
            Self::Mixed => "mixed",
        })
    }
}

/// Why a layout cannot be given to the GPU Operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutRefused {
    /// The node has no GPU.
    #[error("the layout names no GPU; name every GPU of the node")]
    Nothing,
    /// MIG is on and there is no slice: the Operator's validator crash-loops on that.
    #[error("gpu {gpu}: MIG is on without any slice; give it at least one, such as the full-size profile")]
    Empty {
        /// Which GPU.
        gpu: GpuIndex,
    },
    /// Strategy `single` takes one profile on all GPUs, or MIG off on all of them.
    #[error(
        "strategy `single` needs the same profile on every GPU, or MIG off on every GPU, and the layout is {layout}; set ClusterPolicy spec.mig.strategy to `mixed`"
    )]
    NotUniform {
        /// The layout.
        layout: NodeLayout,
    },
    /// Strategy `none` offers no slices at all.
    #[error("strategy `none` offers no slices; set ClusterPolicy spec.mig.strategy to `mixed`")]
    NoStrategy,
    /// The device plugin ends beside MIG while it shares GPUs through MPS.
    #[error(
        "its GPUs are shared through MPS, beside which the device plugin serves no GPU with MIG on; write `sharing: {{type: None}}` into its policy, which ends the sharing first"
    )]
    SharedByMps,
}

impl NodeLayout {
    /// A layout, GPU by GPU.
    pub fn new<I: IntoIterator<Item = (u16, GpuLayout)>>(gpus: I) -> Self {
        Self(gpus.into_iter().map(|(index, gpu)| (GpuIndex(index), gpu)).collect())
    }

    /// The name of its map entry: the same content has the same name, and
    /// another content another name, as MIG manager needs it.
    #[must_use]
    pub fn entry_name(&self) -> String {
        let digest = Sha256::digest(self.to_string().as_bytes());
        let hex: String = digest[..5].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{ENTRY_PREFIX}{hex}")
    }

    /// What `status.allocatable` must say of `nvidia.com/*` when this layout
    /// is there; what is not named must be zero.
    ///
    /// # Errors
    /// When the layout cannot be applied under the strategy.
    pub fn allocatable(&self, strategy: Strategy) -> Result<BTreeMap<String, u64>, LayoutRefused> {
        self.check(strategy)?;
        Ok(self.offers(strategy))
    }

    /// The same for a layout that a node was found with, whether or not it
    /// could be applied: what its GPUs give, summed up.
    #[must_use]
    pub fn offers(&self, strategy: Strategy) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for (name, n) in self.0.values().flat_map(|gpu| gpu.resources(strategy)) {
            *sum.entry(name).or_insert(0) += n;
        }
        sum
    }

    /// Whether the layout can be applied under the strategy.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self, strategy: Strategy) -> Result<(), LayoutRefused> {
        if self.0.is_empty() {
            return Err(LayoutRefused::Nothing);
        }
        let mut kinds = BTreeSet::new();
        for (index, gpu) in &self.0 {
            match gpu {
                GpuLayout::Off => {
                    kinds.insert(None);
                }
                GpuLayout::Mig(slices) => {
                    if slices.values().all(|n| *n == 0) {
                        return Err(LayoutRefused::Empty { gpu: *index });
                    }
                    kinds.extend(slices.iter().filter(|(_, n)| **n > 0).map(|(profile, _)| Some(profile)));
                }
            }
        }
        let any_mig = kinds.iter().any(Option::is_some);
        match strategy {
            Strategy::None if any_mig => Err(LayoutRefused::NoStrategy),
            Strategy::Single if any_mig && kinds.len() > 1 => {
                Err(LayoutRefused::NotUniform { layout: self.clone() })
            }
            Strategy::None | Strategy::Single | Strategy::Mixed => Ok(()),
        }
    }

    /// How many of each resource the labels of GPU feature discovery count, of
    /// those that follow the layout.
    #[must_use]
    pub fn counted(&self, strategy: Strategy) -> BTreeMap<String, u64> {
        let any_mig = self.0.values().any(GpuLayout::is_mig);
        match strategy {
            Strategy::Mixed | Strategy::Single if any_mig => self
                .allocatable(strategy)
                .unwrap_or_default()
                .into_iter()
                .filter(|(name, _)| strategy == Strategy::Single || name != RESOURCE_GPU)
                .collect(),
            Strategy::Mixed | Strategy::Single | Strategy::None => BTreeMap::new(),
        }
    }

    /// The GPUs that differ, those that only one of the two has included.
    #[must_use]
    pub fn changed_from(&self, from: &Self) -> BTreeSet<GpuIndex> {
        self.0
            .keys()
            .chain(from.0.keys())
            .filter(|index| self.0.get(*index) != from.0.get(*index))
            .copied()
            .collect()
    }

    /// Whether MIG goes on or off on any GPU: that resets all GPUs of the node.
    #[must_use]
    pub fn changes_mode_of(&self, from: &Self) -> bool {
        self.changed_from(from)
            .iter()
            .any(|index| self.0.get(index).map(GpuLayout::is_mig) != from.0.get(index).map(GpuLayout::is_mig))
    }

    /// The resources that some GPUs of this layout give under a strategy.
    pub(crate) fn resources_of(&self, gpus: &BTreeSet<GpuIndex>, strategy: Strategy) -> BTreeSet<String> {
        self.0
            .iter()
            .filter(|(index, _)| gpus.contains(index))
            .flat_map(|(_, gpu)| gpu.resources(strategy).into_keys())
            .collect()
    }
}

impl fmt::Display for NodeLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(index, gpu)| format!("{index}:{gpu}")).collect();
        f.pad(&parts.join(" "))
    }
}
