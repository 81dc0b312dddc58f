//! What things are called.

use std::fmt;

use mig::ProfileName;

/// The UUID of a GPU, such as `GPU-5b2f7c1e-…`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuUuid(pub String);

/// The id of a device as kubelet knows it: the UUID of a slice (`MIG-…`) or of
/// a GPU, with `::n` behind it where several pods share the device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub String);

impl DeviceId {
    /// The device itself, whichever share of it the id means.
    #[must_use]
    pub fn unshared(&self) -> Self {
        Self(self.0.split_once("::").map_or(self.0.as_str(), |(device, _)| device).to_owned())
    }
}

/// The uid of a pod, as kubelet has it: of a static pod that is not the uid of
/// its mirror, but the mirror's annotation `kubernetes.io/config.mirror`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(pub String);

/// The id of one boot of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootId(pub String);

/// The id of a change. Another attempt at the same layout has another id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(pub String);

/// The resource version of a `GpuNode`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectVersion(pub String);

/// The number of an account of gate and books. It grows with each new one, over
/// all agents that a node ever had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportNumber(pub u64);

impl ReportNumber {
    /// The number of the next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A profile at a start: the name of a slice on its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The profile.
    pub profile: ProfileName,
    /// Where it starts, in memory units of the placement grid.
    pub start: u8,
}

/// The name of a slice on its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceName {
    /// Its GPU.
    pub gpu: GpuUuid,
    /// Its place there.
    pub place: Place,
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

shown_as_text!(GpuUuid, DeviceId, PodUid, BootId, ChangeId, ObjectVersion);

impl fmt::Display for ReportNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.profile, self.start)
    }
}

impl fmt::Display for SliceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.place, self.gpu)
    }
}
