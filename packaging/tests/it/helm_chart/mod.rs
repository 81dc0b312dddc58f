//! The chart, rendered by real Helm: the result for each set of values, refused values, and that its
//! permissions and flags agree with the code.

mod dashboards;
mod monitoring;
mod notes;
mod pages;
mod previous;
mod promises;
mod readme;
mod refused;
mod released;
mod rendered;
mod support;

use std::path::PathBuf;

use packaging::{Helm, REGISTRY, Render};
use serde_json::Value;

/// The kinds of the Prometheus Operator that the chart makes, as `--api-versions` takes them.
const MONITORING: [&str; 2] =
    ["monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"];

/// By this the chart knows that there is a console of OpenShift.
const CONSOLE: &str = "console.openshift.io/v1";

/// Where the chart is rendered.
struct Bench {
    helm: Helm,
}

impl Bench {
    fn new() -> Self {
        Self { helm: Helm::find().unwrap_or_else(|error| panic!("{error}")) }
    }

    fn with(&self, set: &[&str]) -> Vec<Value> {
        let set = with_registry(set);
        self.helm.objects(&packaging::chart(), &Render { set, ..Render::default() }).unwrap()
    }

    #[track_caller]
    fn refusal(&self, set: &[&str]) -> String {
        let set = with_registry(set);
        match self.helm.text(&packaging::chart(), &Render { set, ..Render::default() }) {
            Err(packaging::Error::Refused(said)) => said,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// These values, on an installation that has an image.
fn with_registry(set: &[&str]) -> Vec<String> {
    [REGISTRY].iter().chain(set).map(|value| (*value).to_owned()).collect()
}

/// The sets of values that the chart is checked with: name and file.
fn value_sets() -> Vec<(String, PathBuf)> {
    let mut files: Vec<_> = std::fs::read_dir(packaging::chart().join("ci"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.strip_suffix("-values.yaml").unwrap().to_owned(), path)
        })
        .collect();
    files.sort();
    files
}

#[track_caller]
fn the<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("there is no {kind} {name}"))
}
