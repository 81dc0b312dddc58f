//! The supported versions: `packaging/support.yaml`, the one source of minimum versions and of the evidence
//! for each version, as data and as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

/// The file, from the root of the repository.
pub const FILE: &str = "packaging/support.yaml";
/// The page that is made of it.
pub const PAGE: &str = "docs/reference/support.md";

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    /// The oldest versions.
    pub oldest: Oldest,
    /// What the words for how a version was seen mean.
    pub seen: BTreeMap<Seen, String>,
    /// What it works with.
    pub parts: Vec<Part>,
}

/// The oldest versions, as MAJOR.MINOR.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oldest {
    /// Of Kubernetes.
    pub kubernetes: String,
    /// Of OpenShift.
    pub openshift: String,
    /// Of OpenShift AI, where there is one.
    #[serde(rename = "openshiftAI")]
    pub openshift_ai: String,
    /// Of Helm.
    pub helm: String,
}

/// How a version was seen, the strongest first.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// The program runs in a check.
    #[serde(rename = "ran")]
    Ran,
    /// Its API types or rules are in force in a check.
    #[serde(rename = "applied")]
    Applied,
    /// A stand-in of ours behaves as it does.
    #[serde(rename = "stood in for")]
    StoodInFor,
    /// Its source or documentation was read.
    #[serde(rename = "read")]
    Read,
}

impl Seen {
    /// As the file writes it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Applied => "applied",
            Self::StoodInFor => "stood in for",
            Self::Read => "read",
        }
    }
}

/// Something that it works with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Which versions are supported.
    pub needs: String,
    /// What depends on it.
    pub why: String,
    /// Versions that were tested.
    pub versions: Vec<Version>,
}

/// A version that was tested.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Which.
    pub version: String,
    /// How.
    pub seen: Seen,
    /// In what.
    pub r#where: String,
    /// The Go module under `tools/` that says which version runs.
    pub pin: Option<Pin>,
}

/// Where a version is pinned.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The folder under `tools/`.
    pub module: String,
    /// The module whose version it is.
    pub of: String,
    /// The version there, where it is not the one that is named.
    pub r#as: Option<String>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{FILE}: {0}")]
pub struct Error(String);

impl Support {
    /// Reads the file of the repository.
    ///
    /// # Errors
    /// When it cannot be read, or has a key or a word that means nothing.
    pub fn read() -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(crate::root().join(FILE)).map_err(|error| Error(error.to_string()))?;
        serde_saphyr::from_str(&text).map_err(|error| Error(error.to_string()))
    }

    /// As the chart writes it: the suffix admits versions of vendors, such as
    /// 1.33.5+ocp or 1.33.5-gke.1.
    #[must_use]
    pub fn chart_constraint(&self) -> String {
        format!(">={}.0-0", self.oldest.kubernetes)
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let Oldest { kubernetes, openshift, openshift_ai, helm } = &self.oldest;
        let mut page = format!(
            "# Supported versions\n\nThis page is generated from `{FILE}`; do not edit it. The minimum versions are \
             Kubernetes {kubernetes}, OpenShift {openshift}, with\nOpenShift AI {openshift_ai} if there is one, and, for the \
             chart, Helm {helm}. Newer versions are expected to work; the table says\nwhich were tested, and how.\n\n| evidence | meaning |\n|---|---|\n"
        );
        for (seen, meaning) in &self.seen {
            let _ = writeln!(page, "| {} | {meaning} |", seen.word());
        }
        page.push_str("\n| | supported | reason | evidence |\n|---|---|---|---|\n");
        for Part { name, needs, why, versions } in &self.parts {
            let seen: Vec<String> = versions
                .iter()
                .map(|v| format!("**{}** {}: {}", v.version, v.seen.word(), v.r#where))
                .collect();
            let _ = writeln!(page, "| {name} | {needs} | {why} | {} |", seen.join("<br>"));
        }
        page
    }
}
