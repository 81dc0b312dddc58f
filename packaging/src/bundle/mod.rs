//! The OLM bundle, made from the chart as real Helm renders it, from its CRDs, and from `packaging/olm`,
//! which has the remaining parts. Nothing from the chart is repeated here.

mod base;
mod chart;
mod console;
mod contact;
mod csv;
mod descriptors;
mod folder;
mod image;

pub use base::{Base, Kind, folder as sources, read as read_source};
pub use contact::{Contact, Maintainer, NoContact};
pub use folder::{Files, SCORECARD_TESTS, read_folder};
pub use image::Image;

use std::path::PathBuf;

use serde_json::Value;

use crate::{Helm, helm};

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Helm gave nothing.
    #[error("the chart could not be rendered")]
    Helm(#[from] helm::Error),
    /// A file is not there.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{file}: {why}")]
    Syntax {
        /// Which.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// No image.
    #[error("{image} is no image by digest: write REGISTRY/REPOSITORY@sha256:DIGEST, without a tag")]
    Image {
        /// What was given.
        image: String,
    },
    /// The chart makes something that OLM does not install.
    #[error(
        "the chart makes {kind} {name}, which OLM does not take from a bundle: switch it off in packaging/olm/values.yaml, or let the operator make it"
    )]
    Unsupported {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// `base.yaml` is silent about a kind.
    #[error("packaging/olm/base.yaml says nothing of the kind {kind}: add it under kinds")]
    NotSaid {
        /// Which.
        kind: String,
    },
    /// `base.yaml` speaks of a field that does not exist.
    #[error("{kind} has no field {path}: correct packaging/olm/base.yaml")]
    NoSuchField {
        /// Of which kind.
        kind: String,
        /// Which field.
        path: String,
    },
    /// The chart has not one Deployment.
    #[error("the chart has {many} Deployments, and the bundle is made for one")]
    Deployments {
        /// How many it has.
        many: usize,
    },
}

/// The files of the bundle that installs this image, by their path in it;
/// people are told to write to the maintainer.
///
/// # Errors
/// When Helm is missing, a source is, or they contradict each other.
pub fn generate(helm: &Helm, image: &Image, maintainer: &Maintainer) -> Result<Files, Error> {
    let base = Base::read()?;
    let of = csv::Chart::read()?;
    let installed = chart::installed(helm, &image.repository, &image.digest)?;
    let csv = csv::csv(&base, &of, &installed, image, maintainer)?;
    let mut files = folder::around(&base);
    files.put(&format!("manifests/{}.clusterserviceversion.yaml", base.package), &csv);
    for crd in &installed.crds {
        let spec = &crd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = format!("{}_{}", text(&spec["group"]), text(&spec["names"]["plural"]));
        files.put(&format!("manifests/{name}.yaml"), crd);
    }
    for (path, object) in console::objects(&base)? {
        files.put(&path, &object);
    }
    for object in &installed.others {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]).to_lowercase();
        files.put(&format!("manifests/{}_{kind}.yaml", text(&object["metadata"]["name"])), object);
    }
    Ok(files)
}

/// The version that the bundle is of.
///
/// # Errors
/// When the chart cannot be read.
pub fn version() -> Result<String, Error> {
    Ok(csv::Chart::read()?.app_version)
}
