//! The images that carry files and start nothing: the bundle, and the catalog that OLM unpacks.

use std::collections::BTreeMap;

use image::oci::{Architecture, Built, Image};
use image::tree::Tree;
use packaging::bundle::Files;

/// Where a catalog is in its image, and the label that says so.
const CATALOG: (&str, &str) = ("operators.operatorframework.io.index.configs.v1", "/configs");

fn carrying(what: &'static str, tree: Tree, labels: BTreeMap<String, String>, created: u64) -> Built {
    let image = Image {
        // Nothing in it is for a processor; this is what those who pull ask for.
        architecture: Architecture::Amd64,
        entrypoint: None,
        environment: Vec::new(),
        labels,
        layers: vec![(what, tree)],
        created,
    };
    image.build()
}

/// The image that `bundle.Dockerfile` describes: its labels, and the three folders.
#[must_use]
pub fn bundle(files: &Files, created: u64) -> Built {
    let mut tree = Tree::new();
    let mut labels = BTreeMap::new();
    for (path, text) in &files.0 {
        if path == "bundle.Dockerfile" {
            labels = text
                .lines()
                .filter_map(|line| line.strip_prefix("LABEL ")?.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
        } else {
            tree.file(path, text.as_bytes());
        }
    }
    carrying("the bundle", tree, labels, created)
}

/// The catalog, for a CatalogSource with `extractContent` and for OLM v1: both bring their own `opm`.
#[must_use]
pub fn catalog(files: &Files, created: u64) -> Built {
    let mut tree = Tree::new();
    for (path, text) in &files.0 {
        tree.file(&format!("configs/{path}"), text.as_bytes());
    }
    let labels = BTreeMap::from([(CATALOG.0.to_owned(), CATALOG.1.to_owned())]);
    carrying("the catalog", tree, labels, created)
}
