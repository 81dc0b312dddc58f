//! The versions of NVIDIA's components, as far as they behave differently; and which of them belong
//! together, as data (`data/releases.yaml`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version of a component. What is left out counts as 0: `0.12` is `0.12.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Version(u16, u16, u16);

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version; write it as `0.15.0`")]
pub struct VersionError(String);

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let wrong = || VersionError(text.to_owned());
        let numbers: Vec<u16> =
            text.split('.').map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        match numbers[..] {
            [major, minor] => Ok(Self(major, minor, 0)),
            [major, minor, patch] => Ok(Self(major, minor, patch)),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The version of MIG manager. Its generations fail in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ManagerVersion(Version);

impl ManagerVersion {
    /// The last of the scripts.
    pub const V0_12: Self = Self(Version(0, 12, 0));
    /// The newest whose Go modules are published.
    pub const V0_13_1: Self = Self(Version(0, 13, 1));
    /// That of GPU Operator 26.7.0.
    pub const V0_15_0: Self = Self(Version(0, 15, 0));
    /// The first that says `failed` when operands do not stop in time.
    pub const V0_15_1: Self = Self(Version(0, 15, 1));

    /// Whether it goes on when operands do not stop in time, and un-parks
    /// after every failure: the script, up to 0.12.
    #[must_use]
    pub fn is_the_script(self) -> bool {
        self.0 < Version(0, 13, 0)
    }

    /// Whether it gives up without a word when operands do not stop in time
    /// (`pending`, everything parked, for ever): 0.13 to 0.15.0.
    #[must_use]
    pub fn gives_up_in_silence(self) -> bool {
        !self.is_the_script() && self < Self::V0_15_1
    }

    /// Whether a failure after a full run in the same process leaves the
    /// operands parked. By its code that is so from 0.13 on, 0.15.1 included.
    #[must_use]
    pub fn leaves_parked(self) -> bool {
        !self.is_the_script()
    }

    /// Whether it generates its configurations from the hardware, and
    /// publishes them: from 0.14 on. Before, there is the map that the
    /// Operator ships.
    #[must_use]
    pub fn generates(self) -> bool {
        self.0 >= Version(0, 14, 0)
    }
}

impl Default for ManagerVersion {
    fn default() -> Self {
        Release::default().manager
    }
}

impl fmt::Display for ManagerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The version of the device plugin, and of GFD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PluginVersion(Version);

impl PluginVersion {
    /// The newest whose Go modules are published with MIG manager 0.13.1.
    pub const V0_18_2: Self = Self(Version(0, 18, 2));
    /// That of GPU Operator 26.7.0.
    pub const V0_20_0: Self = Self(Version(0, 20, 0));

    /// Whether a profile must be named in full to be offered: from 0.20 on.
    /// Before, the first name that is contained in it was taken.
    #[must_use]
    pub fn matches_whole_names(self) -> bool {
        self >= Self::V0_20_0
    }
}

impl Default for PluginVersion {
    fn default() -> Self {
        Release::default().plugin
    }
}

impl fmt::Display for PluginVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Components that come together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// MIG manager.
    pub manager: ManagerVersion,
    /// The device plugin and GFD.
    pub plugin: PluginVersion,
}

/// No release of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no release that is known here; there are {}", known.join(", "))]
pub struct ReleaseError {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<String>,
}

impl Default for Release {
    /// GPU Operator 26.7.0.
    fn default() -> Self {
        Self { name: "26.7.0".to_owned(), manager: ManagerVersion::V0_15_0, plugin: PluginVersion::V0_20_0 }
    }
}

impl Release {
    /// All that are known, the newest first.
    ///
    /// # Panics
    /// Never: the data of this crate is read by a test.
    #[must_use]
    pub fn all() -> Vec<Self> {
        serde_saphyr::from_str(include_str!("../data/releases.yaml")).expect("the data is valid")
    }

    /// The one of a name.
    ///
    /// # Errors
    /// [`ReleaseError`] with those that there are.
    pub fn find(name: &str) -> Result<Self, ReleaseError> {
        let all = Self::all();
        let known = all.iter().map(|release| release.name.clone()).collect();
        let found = all.into_iter().find(|release| release.name == name);
        found.ok_or_else(|| ReleaseError { name: name.to_owned(), known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_has_the_default_and_every_version_once() {
        let all = Release::all();
        assert_eq!(all.first(), Some(&Release::default()));
        assert_eq!(
            Release::find("go-modules").map(|release| (release.manager, release.plugin)),
            Ok((ManagerVersion::V0_13_1, PluginVersion::V0_18_2))
        );
        let error = Release::find("24.9").expect_err("it is not known").to_string();
        assert_eq!(
            error,
            "`24.9` is no release that is known here; there are 26.7.0, 26.3.2, 26.3.0, go-modules"
        );
    }

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let version = |text: &str| text.parse::<Version>();
        assert_eq!(version("0.12"), Ok(Version(0, 12, 0)));
        assert!(version("0.9.0").ok() < version("0.15.0").ok());
        assert!(version("fifteen").is_err() && version("1").is_err() && version("1.2.3.4").is_err());
    }

    #[test]
    fn each_generation_has_its_own_way_to_fail() {
        let ways = |v: ManagerVersion| {
            (v.is_the_script(), v.gives_up_in_silence(), v.leaves_parked(), v.generates())
        };
        assert_eq!(ways(ManagerVersion::V0_12), (true, false, false, false));
        assert_eq!(ways(ManagerVersion::V0_13_1), (false, true, true, false));
        assert_eq!(ways(ManagerVersion::V0_15_0), (false, true, true, true));
        assert_eq!(ways(ManagerVersion::V0_15_1), (false, false, true, true));
    }
}
