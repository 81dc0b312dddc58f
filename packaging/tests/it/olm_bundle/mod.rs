//! The OLM bundle: it is generated, it installs the same as the chart, and all validators accept it.

mod agent;
mod crds;
mod judged;
mod promises;
mod same;
mod uninstall;
mod up_to_date;

use packaging::Helm;
use packaging::bundle::Files;
use serde_json::Value;

/// The Helm that renders the chart of which the bundle is made.
fn helm() -> Helm {
    Helm::find().unwrap_or_else(|error| panic!("{error}"))
}

/// The manifests among a bundle's files.
fn manifests_of(files: &Files) -> Vec<Value> {
    let manifests = files.0.iter().filter(|(path, _)| path.starts_with("manifests/"));
    manifests.map(|(_, text)| serde_saphyr::from_str(text).unwrap()).collect()
}

/// Its ClusterServiceVersion.
fn csv_of(files: &Files) -> Value {
    manifests_of(files).into_iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap()
}
