//! Profile names in every form that users and programs write.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a profile has beside compute and memory; the suffix of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// No suffix.
    #[default]
    Plain,
    /// `+me`: the media engines that one slice can have.
    Media,
    /// `+me.all`: all media engines of the GPU.
    AllMedia,
    /// `+gfx`: graphics.
    Graphics,
    /// `-me`: no media engine at all.
    NoMedia,
}

impl Attribute {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Media => "+me",
            Self::AllMedia => "+me.all",
            Self::Graphics => "+gfx",
            Self::NoMedia => "-me",
        }
    }
}

/// The name of a GPU instance profile, `<compute slices>g.<gigabytes>gb` and
/// an optional suffix. Compares by size, then suffix.
///
/// Printed as NVIDIA prints it (`1g.10gb+me`). Read from that, from
/// `MIG 1g.10gb`, from a resource name (`nvidia.com/mig-1g.10gb.me`) and in
/// any letter case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    /// Compute slices (the number before `g`).
    pub compute: u8,
    /// Memory in gigabytes, rounded as the name rounds it.
    pub memory_gb: u16,
    /// The suffix.
    pub attribute: Attribute,
}

/// Why a text is not a profile name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a profile name: write <compute>g.<memory>gb with an optional +me, +me.all, +gfx or -me, such as 1g.10gb or 1g.10gb+me"
)]
pub struct NameError {
    /// What was given.
    pub text: String,
}

impl ProfileName {
    /// The prefix of the extended resources of slices.
    pub const RESOURCE_PREFIX: &'static str = "nvidia.com/mig-";

    /// The extended resource that stands for this profile under strategy
    /// `mixed`, such as `nvidia.com/mig-1g.10gb.me`.
    #[must_use]
    pub fn resource_name(&self) -> String {
        format!("{}{}", Self::RESOURCE_PREFIX, self.to_string().replace('+', "."))
    }

    /// The profile that a resource name stands for; `None` for other resources, also for one that differs from it in case
    /// alone: names of resources are compared letter by letter, and no node offers that one.
    #[must_use]
    pub fn from_resource_name(resource: &str) -> Option<Self> {
        let profile: Self = resource.strip_prefix(Self::RESOURCE_PREFIX)?.parse().ok()?;
        (profile.resource_name() == resource).then_some(profile)
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` lets callers align names in tables.
        f.pad(&format!("{}g.{}gb{}", self.compute, self.memory_gb, self.attribute.suffix()))
    }
}

impl FromStr for ProfileName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || NameError { text: text.to_owned() };
        let lower = text.trim().to_ascii_lowercase();
        let mut rest = lower.as_str();
        for prefix in ["nvidia.com/mig-", "mig-", "mig "] {
            if let Some(stripped) = rest.strip_prefix(prefix) {
                rest = stripped.trim_start();
                break;
            }
        }
        let (compute, rest) = rest.split_once("g.").ok_or_else(error)?;
        let (memory, suffix) = rest.split_once("gb").ok_or_else(error)?;
        let attribute = match suffix {
            "" => Attribute::Plain,
            "+me" | ".me" => Attribute::Media,
            "+me.all" | ".me.all" => Attribute::AllMedia,
            "+gfx" | ".gfx" => Attribute::Graphics,
            "-me" => Attribute::NoMedia,
            _ => return Err(error()),
        };
        Ok(Self {
            compute: digits(compute).and_then(|n| n.parse().ok()).filter(|n| *n > 0).ok_or_else(error)?,
            memory_gb: digits(memory).and_then(|n| n.parse().ok()).ok_or_else(error)?,
            attribute,
        })
    }
}

/// The text, if it is nothing but digits (`parse` alone would take a sign).
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(text)
}

impl Serialize for ProfileName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
