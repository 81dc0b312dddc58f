//! What pods can get of a GPU: a slice, all of it, or a seat of either. Fleets offer it, requests ask for it, and
//! the report counts it.

use std::fmt;

use mig::ProfileName;
use serde::{Deserialize, Serialize};

/// What pods can get of a GPU. Printed as its profile, or as `gpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offered {
    /// A slice.
    Slice(ProfileName),
    /// All of it, with MIG off.
    WholeGpu,
    /// A seat of a slice that several pods share, under a name of its own.
    SharedSlice(ProfileName),
    /// A seat of a GPU that several pods share, under a name of its own.
    SharedGpu,
}

impl Offered {
    /// The profile, if it is a slice.
    #[must_use]
    pub const fn slice(self) -> Option<ProfileName> {
        match self {
            Self::Slice(profile) => Some(profile),
            Self::WholeGpu | Self::SharedSlice(_) | Self::SharedGpu => None,
        }
    }

    /// The profile, if it is a slice or a seat of one.
    #[must_use]
    pub const fn profile(self) -> Option<ProfileName> {
        match self {
            Self::Slice(profile) | Self::SharedSlice(profile) => Some(profile),
            Self::WholeGpu | Self::SharedGpu => None,
        }
    }

    /// Compute slices that being served with one of it is worth: those of its slice, which a seat counts for as well, since who is
    /// served counts, and not who sits beside. `whole`: what all of a GPU counts for.
    pub(crate) fn weight(self, whole: i64) -> i64 {
        self.profile().map_or(whole, |profile| i64::from(profile.compute))
    }

    /// The resource by which pods ask for it.
    #[must_use]
    pub fn resource_name(self) -> String {
        match self {
            Self::Slice(profile) => profile.resource_name(),
            Self::WholeGpu => mig::GpuResource::GPU.to_owned(),
            Self::SharedSlice(profile) => {
                format!("{}{}", profile.resource_name(), mig::GpuResource::SHARED)
            }
            Self::SharedGpu => format!("{}{}", mig::GpuResource::GPU, mig::GpuResource::SHARED),
        }
    }

    /// A field of its bounds in a demand-driven policy, such as `maxCount`.
    pub(crate) fn bound(self, name: &str) -> String {
        match self {
            Self::Slice(profile) | Self::SharedSlice(profile) => {
                format!("spec.layout.demandDriven.slices[{profile}].{name}")
            }
            Self::WholeGpu | Self::SharedGpu => format!("spec.layout.demandDriven.wholeGpus.{name}"),
        }
    }
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slice(profile) => profile.fmt(f),
            Self::WholeGpu => f.pad("gpu"),
            Self::SharedSlice(profile) => write!(f, "{profile}{}", mig::GpuResource::SHARED),
            Self::SharedGpu => write!(f, "gpu{}", mig::GpuResource::SHARED),
        }
    }
}

impl Serialize for Offered {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Offered {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (text, shared) = match text.strip_suffix(mig::GpuResource::SHARED) {
            Some(text) => (text, true),
            None => (text.as_str(), false),
        };
        match (text, shared) {
            ("gpu", false) => Ok(Self::WholeGpu),
            ("gpu", true) => Ok(Self::SharedGpu),
            (profile, shared) => {
                let of = if shared { Self::SharedSlice } else { Self::Slice };
                profile.parse().map(of).map_err(serde::de::Error::custom)
            }
        }
    }
}
