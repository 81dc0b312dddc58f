//! Versions, by semantic versioning without suffixes: OLM's graph and the chart are ordered by them.

use std::fmt;
use std::str::FromStr;

/// A version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

/// Not a version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version: write MAJOR.MINOR.PATCH, such as 0.2.0, without a v and without a suffix")]
pub struct NoVersion(String);

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let wrong = || NoVersion(text.to_owned());
        let number = |part: &str| {
            let plain = part == "0" || !part.starts_with('0');
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            (plain && digits).then(|| part.parse().ok()).flatten().ok_or_else(wrong)
        };
        let parts: Vec<&str> = text.split('.').collect();
        let [major, minor, patch] = parts.as_slice() else { return Err(wrong()) };
        Ok(Self { major: number(major)?, minor: number(minor)?, patch: number(patch)? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        assert_eq!("0.10.2".parse::<Version>().unwrap().to_string(), "0.10.2");
        assert!("0.10.0".parse::<Version>().unwrap() > "0.9.9".parse().unwrap());
        for bad in ["v0.2.0", "0.2", "0.2.0-rc1", "0.02.0", "", "0.2.0.1", "a.b.c"] {
            let error = bad.parse::<Version>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("MAJOR.MINOR.PATCH"), "{error}");
        }
    }
}
