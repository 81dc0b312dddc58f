//! The real images, read back: `cargo xtask image` builds them and sets their location. Under a plain
//! `cargo test` there are none, and the test says so.

use std::path::PathBuf;

use image::labels::{self, Product};

use crate::support::{self, Read};

/// The folder with the images, if there is one.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test has no command line, and tells who looks"
)]
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("SLICEWRIGHT_IMAGES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("left out: no images; `cargo xtask image` builds them");
    }
    folder
}

/// The products that were built.
#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
pub(crate) fn products() -> Vec<Product> {
    let named = std::env::var("SLICEWRIGHT_IMAGES_MADE").unwrap_or_default();
    Product::ALL.into_iter().filter(|p| named.split(',').any(|n| n == p.name())).collect()
}

/// Every image that was built, for each processor.
pub(crate) fn images() -> Vec<(Product, Read)> {
    let Some(folder) = folder() else { return Vec::new() };
    let products = products();
    assert!(!products.is_empty(), "SLICEWRIGHT_IMAGES_MADE names no product");
    let read = |product: Product| {
        let (_, images) = support::read(&support::files(&folder.join(product.name())));
        images.into_iter().map(move |image| (product, image))
    };
    products.into_iter().flat_map(read).collect()
}

#[test]
fn it_runs_as_nobody_and_starts_its_program() {
    for (product, image) in images() {
        let config = image.config.config().clone().unwrap();
        assert_eq!(config.user().as_deref(), Some("65532:65532"));
        assert_eq!(config.entrypoint().clone().unwrap(), [product.entrypoint()]);
        assert_eq!(config.cmd(), &None);
        assert_eq!(config.working_dir().as_deref(), Some("/"));
        assert!(config.volumes().is_none() && config.exposed_ports().is_none());
        let program = product.entrypoint().trim_start_matches('/');
        assert!(image.things.contains_key(program), "{program} is not there");
    }
}

#[test]
fn its_labels_say_what_it_is() {
    for (product, image) in images() {
        let labels = image.config.config().clone().unwrap().labels().clone().unwrap();
        for (name, value) in labels::fixed(product) {
            assert_eq!(labels.get(name).map(String::as_str), Some(value), "{name}");
        }
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            (labels["version"].as_str(), labels["org.opencontainers.image.version"].as_str()),
            (version, version)
        );
        assert_eq!(labels.get("org.opencontainers.image.created"), image.config.created().as_ref());
        assert!(labels["org.opencontainers.image.source"].starts_with("https://"));
        let revision = labels.get("org.opencontainers.image.revision");
        assert!(revision.is_none_or(|name| name.len() >= 40), "{revision:?}");
        let annotations = image.manifest.annotations().clone().unwrap();
        assert_eq!(annotations["org.opencontainers.image.title"], labels["org.opencontainers.image.title"]);
    }
}

/// Forty is what Red Hat's preflight allows.
#[test]
fn it_has_few_layers() {
    for (_, image) in images() {
        let layers = image.manifest.layers().len();
        assert!((1..=3).contains(&layers), "{layers} layers");
        assert_eq!(image.config.history().as_ref().unwrap().len(), layers);
    }
}

/// Nothing in it can be changed by who runs in it, but the simulator's state.
#[test]
fn everything_is_root_s_and_nobody_may_write_it() {
    for (product, image) in images() {
        let time = image.things.values().next().unwrap().time;
        for (path, thing) in &image.things {
            assert_eq!(thing.time, time, "{path}: everything has the time of the commit");
            let state = product == Product::Simulator && path == "run/slicewright-sim";
            assert_eq!(thing.owner, if state { 65532 } else { 0 }, "{path}");
            let expected = match thing.kind {
                tar::EntryType::Directory => &[0o755][..],
                tar::EntryType::Symlink => &[0o777],
                tar::EntryType::Regular => &[0o444, 0o555],
                other => panic!("{path} is {other:?}"),
            };
            assert!(expected.contains(&thing.mode), "{path} has the mode {:o}", thing.mode);
            let runs = thing.content.starts_with(b"\x7fELF");
            assert!(!runs || thing.mode == 0o555, "{path} cannot be run");
        }
        assert!(image.text("etc/passwd").contains(":65532:65532:"));
    }
}

#[test]
fn the_archive_beside_it_is_the_same_image() {
    let Some(folder) = folder() else { return };
    for product in products() {
        let archive = std::fs::read(folder.join(format!("{}.tar", product.name()))).unwrap();
        let files = support::files(&folder.join(product.name()));
        assert_eq!(support::archived(&archive), files);
        let digest = std::fs::read_to_string(folder.join(format!("{}.digest", product.name()))).unwrap();
        assert_eq!(digest.trim(), support::read(&files).0);
    }
}
