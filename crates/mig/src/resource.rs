//! The extended resources by which a node offers its GPUs. NVIDIA has others
//! under the same prefix (network cards, for one), and none of those is a GPU.

use crate::name::ProfileName;

/// One of the resources that stand for GPUs, or for parts of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuResource {
    /// What one unit of it is.
    pub unit: Unit,
    /// Whether several pods share each device (`nvidia.com/gpu.shared`).
    pub shared: bool,
}

/// What one unit of a GPU resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// A GPU; under strategy `single`, a slice.
    Gpu,
    /// A slice.
    Slice(ProfileName),
    /// A slice by its prefix, of a profile that nobody knows.
    UnknownSlice,
}

impl GpuResource {
    /// The resource of whole GPUs.
    pub const GPU: &'static str = "nvidia.com/gpu";
    /// The end of the name of a resource whose devices are shared.
    pub const SHARED: &'static str = ".shared";

    /// What a resource stands for; `None` when it is no GPU's.
    #[must_use]
    pub fn parse(resource: &str) -> Option<Self> {
        let (name, shared) = match resource.strip_suffix(Self::SHARED) {
            Some(name) => (name, true),
            None => (resource, false),
        };
        let unit = if name == Self::GPU {
            Unit::Gpu
        } else if name.starts_with(ProfileName::RESOURCE_PREFIX) {
            ProfileName::from_resource_name(name).map_or(Unit::UnknownSlice, Unit::Slice)
        } else {
            return None;
        };
        Some(Self { unit, shared })
    }

    /// Whether a resource is a GPU's.
    #[must_use]
    pub fn is_one(resource: &str) -> bool {
        Self::parse(resource).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resource: &str, expect: Option<(Unit, bool)>) {
        let found = GpuResource::parse(resource).map(|found| (found.unit, found.shared));
        assert_eq!(found, expect, "{resource}");
    }

    #[test]
    fn only_gpus_and_slices_are_gpu_resources() {
        let slice = |name: &str| Unit::Slice(name.parse().expect("a profile"));
        check("nvidia.com/gpu", Some((Unit::Gpu, false)));
        check("nvidia.com/gpu.shared", Some((Unit::Gpu, true)));
        check("nvidia.com/mig-1g.10gb", Some((slice("1g.10gb"), false)));
        check("nvidia.com/mig-1g.10gb.me", Some((slice("1g.10gb+me"), false)));
        check("nvidia.com/mig-3g.40gb.shared", Some((slice("3g.40gb"), true)));
        check("nvidia.com/mig-oops", Some((Unit::UnknownSlice, false)));
        check("nvidia.com/hostdev", None);
        check("nvidia.com/gpu-feature", None);
        check("nvidia.com/rdma_shared_device_a", None);
        check("mig.das.com/1g.10gb", None);
        check("cpu", None);
    }
}
