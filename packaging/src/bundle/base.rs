//! The parts of a ClusterServiceVersion that neither the chart nor the CRDs have: the files under
//! `packaging/olm`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::Error;

/// `packaging/olm/base.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Base {
    /// The package.
    pub package: String,
    /// The channels that this version is in.
    pub channels: Vec<String>,
    /// The one that people get who name none.
    pub default_channel: String,
    /// The releases of OpenShift that the bundle is for.
    pub openshift_versions: String,
    /// The namespace that is suggested to people.
    pub namespace: String,
    /// When this version was made.
    pub created_at: String,
    /// Labels of the ClusterServiceVersion.
    pub labels: BTreeMap<String, String>,
    /// What the operator can do, as OpenShift's catalog asks.
    pub features: BTreeMap<String, bool>,
    /// Further annotations.
    pub annotations: BTreeMap<String, String>,
    /// What OpenShift's console shows.
    pub console: Console,
    /// Fields of the specification, as they are.
    pub spec: BTreeMap<String, Value>,
    /// What is said of each kind that is owned.
    pub kinds: BTreeMap<String, Kind>,
}

/// What OpenShift's console shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Console {
    /// The file with the first policy.
    pub first: String,
    /// Samples beside the editor.
    pub samples: Vec<Sample>,
    /// Where the command is downloaded.
    pub downloads: Vec<Download>,
}

/// A sample beside the editor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// What its object is named after.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it does.
    pub description: String,
    /// Its file.
    pub file: String,
}

/// Where the command is downloaded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// For whom.
    pub text: String,
    /// Where, below the repository.
    pub path: String,
}

/// What is said of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Kind {
    /// Its name for people.
    pub display_name: String,
    /// Whether people write no objects of it.
    #[serde(default)]
    pub internal: bool,
    /// What its objects lead to.
    pub resources: Vec<Value>,
    /// How the console shows fields of the specification, by path.
    pub spec: BTreeMap<String, Vec<String>>,
    /// The same of the status.
    pub status: BTreeMap<String, Vec<String>>,
}

/// The folder with these files.
#[must_use]
pub fn folder() -> PathBuf {
    crate::root().join("packaging/olm")
}

/// A file of it.
///
/// # Errors
/// When it cannot be read.
pub fn read(name: &str) -> Result<String, Error> {
    let path = folder().join(name);
    std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
}

/// A file of it that is YAML.
///
/// # Errors
/// When it cannot be read, or is not what it should be.
pub(super) fn read_yaml<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, Error> {
    serde_saphyr::from_str(&read(name)?)
        .map_err(|error| Error::Syntax { file: name.to_owned(), why: error.to_string() })
}

impl Base {
    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or has a key that means nothing.
    pub fn read() -> Result<Self, Error> {
        read_yaml("base.yaml")
    }
}
