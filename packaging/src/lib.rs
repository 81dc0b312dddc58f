//! Functions that the packages and their tests share: archives of the command, real Helm and the objects
//! that it renders from the chart, the dashboards in it, and the OLM bundle.

pub mod archives;
pub mod bundle;
pub mod catalog;
pub mod dashboards;
mod helm;
pub mod previous;
pub mod project;
pub mod support;
pub mod values;

pub use helm::{Error, Helm, KUBERNETES, REGISTRY, Render};

use std::path::{Path, PathBuf};

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The chart.
#[must_use]
pub fn chart() -> PathBuf {
    root().join("charts/slicewright")
}
