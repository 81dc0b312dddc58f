//! Licences, the SBOM, and the lists inside the programs agree.

use std::collections::{BTreeMap, BTreeSet};

use auditable_serde::{DependencyKind, Source, VersionInfo};
use cyclonedx_bom::prelude::{Bom, SpecVersion, Validate};
use image::labels::Product;
use serde_json::Value;

use crate::promises::{folder, images};
use crate::support::Read;

/// The programs that are built of crates, and the lists in them.
fn audited(product: Product, image: &Read) -> BTreeMap<String, VersionInfo> {
    let programs: &[&str] = match product {
        Product::Operator | Product::MustGather => &["usr/bin/slicewright"],
        Product::Agent => &["usr/bin/slicewright-agent"],
        Product::Simulator => &["usr/bin/slicewright-sim", "usr/bin/nvidia-smi", "libnvidia-ml.so.580.65.06"],
    };
    let found = image.things.iter().filter(|(path, _)| programs.iter().any(|name| path.ends_with(name)));
    let lists: BTreeMap<_, _> = found
        .map(|(path, thing)| {
            let list = auditable_info::audit_info_from_slice(&thing.content, 8 << 20);
            (path.clone(), list.unwrap_or_else(|error| panic!("{path} is not auditable: {error}")))
        })
        .collect();
    assert_eq!(lists.len(), programs.len(), "{:?}", lists.keys());
    lists
}

#[test]
fn each_program_says_what_it_was_built_from() {
    for (product, image) in images() {
        for (path, list) in audited(product, &image) {
            let roots: Vec<_> = list.packages.iter().filter(|package| package.root).collect();
            let [root] = roots.as_slice() else { panic!("{path} has one root") };
            assert!(root.name.starts_with("slicewright-") && root.source == Source::Local, "{root:?}");
            assert_eq!(root.version.to_string(), env!("CARGO_PKG_VERSION"));
            let has = |name: &str| {
                list.packages.iter().any(|p| p.name == name && p.kind == DependencyKind::Runtime)
            };
            assert!(has("slicewright-mig"), "{path} lacks the rules of a GPU");
            assert!(!has("serde_derive") && !has("syn"), "{path}: macros are no part of it");
            if product != Product::Simulator {
                assert!(has("rustls") && has("aws-lc-sys") && has("kube-client"), "{path}");
                let loads = has("libloading") || has("slicewright-nvml");
                assert_eq!(loads, product == Product::Agent, "{path}: who could load a library");
            }
        }
    }
}

/// The SBOM is a CycloneDX document to another reader, and has exactly what
/// the programs say of themselves.
#[test]
fn the_sbom_is_what_the_programs_say() {
    for (product, image) in images() {
        let text = image.text(&format!("usr/share/sbom/{}.cdx.json", product.name()));
        let bom = Bom::parse_from_json_with_version(text.as_bytes(), SpecVersion::V1_5).unwrap();
        let result = bom.validate_version(SpecVersion::V1_5);
        assert!(result.passed(), "{result:?}");

        let document: Value = serde_json::from_str(&text).unwrap();
        let components = document["components"].as_array().unwrap();
        let libraries =
            components.iter().filter(|c| c["bom-ref"].as_str().unwrap().starts_with("pkg:cargo/"));
        let scope = |component: &Value| component["scope"] == "required";
        let field = |component: &Value, field: &str| component[field].as_str().unwrap().to_owned();
        let listed: BTreeMap<_, _> =
            libraries.map(|c| ((field(c, "name"), field(c, "version")), scope(c))).collect();
        let mut built = BTreeMap::new();
        for package in audited(product, &image).into_values().flat_map(|list| list.packages) {
            let linked = package.kind == DependencyKind::Runtime;
            *built.entry((package.name, package.version.to_string())).or_insert(false) |= linked;
        }
        assert_eq!(listed, built);

        // Every edge leads somewhere, and everything can be reached from the image.
        let known: BTreeSet<_> = components.iter().map(|c| field(c, "bom-ref")).collect();
        let mut reached = BTreeSet::new();
        let mut next = vec![field(&document["metadata"]["component"], "bom-ref")];
        let edges = document["dependencies"].as_array().unwrap();
        while let Some(from) = next.pop() {
            for edge in edges.iter().filter(|edge| edge["ref"] == from.as_str()) {
                for to in edge["dependsOn"].as_array().unwrap() {
                    let to = to.as_str().unwrap().to_owned();
                    assert!(known.contains(&to), "{from} depends on {to}, which is not listed");
                    if reached.insert(to.clone()) {
                        next.push(to);
                    }
                }
            }
        }
        assert_eq!(reached, known);

        // The files that it names are the files that are there.
        for program in components.iter().filter(|component| component["type"] == "application") {
            let path = program["name"].as_str().unwrap().trim_start_matches('/');
            let hash = image::oci::digest(&image.file(path).content);
            assert_eq!(Some(hash.trim_start_matches("sha256:")), program["hashes"][0]["content"].as_str());
        }
    }
}

#[test]
fn the_sbom_beside_the_image_is_the_one_in_it() {
    let Some(folder) = folder() else { return };
    for (product, image) in images() {
        let beside = folder.join(format!("{}-{}.cdx.json", product.name(), image.architecture));
        let inside = image.text(&format!("usr/share/sbom/{}.cdx.json", product.name()));
        assert_eq!(std::fs::read_to_string(beside).unwrap(), inside);
    }
}

#[test]
fn the_licences_of_all_that_is_in_it_are_there() {
    let ours = include_str!("../../../../LICENSE");
    for (product, image) in images() {
        assert_eq!(image.text("licenses/LICENSE"), ours);
        let theirs = image.text("licenses/THIRD-PARTY.txt");
        for package in audited(product, &image).into_values().flat_map(|list| list.packages) {
            let named = theirs.contains(&format!("\n  {} {}\n", package.name, package.version));
            let others = package.source != Source::Local && package.kind == DependencyKind::Runtime;
            // What one program of the image links another may only build with, so the list may have more.
            assert!(named || !others, "the notices do not name {} {}", package.name, package.version);
        }
        let folders: &[&str] = match product {
            Product::Operator => &["rust-std", "musl", "zig"],
            Product::Simulator | Product::Agent => &["rust-std"],
            Product::MustGather => &["rust-std", "musl", "zig", "bash", "tar"],
        };
        for folder in folders {
            let below = format!("licenses/{folder}/");
            let texts = image
                .things
                .iter()
                .filter(|(path, thing)| path.starts_with(&below) && !thing.content.is_empty());
            assert!(texts.count() > 0, "there is no text in {below}");
        }
        if product != Product::Operator {
            let sbom = image.text(&format!("usr/share/sbom/{}.cdx.json", product.name()));
            let document: Value = serde_json::from_str(&sbom).unwrap();
            let packages = document["components"].as_array().unwrap().iter().filter(|c| {
                c["purl"]
                    .as_str()
                    .is_some_and(|purl| purl.starts_with("pkg:deb/") || purl.starts_with("pkg:rpm/"))
            });
            let names: Vec<_> = packages.map(|c| c["name"].as_str().unwrap().to_owned()).collect();
            assert!(!names.is_empty(), "nobody is named for the C library");
            for name in names {
                assert!(
                    image.things.keys().any(|path| path.starts_with(&format!("licenses/{name}/"))),
                    "{name}"
                );
            }
        }
    }
}
