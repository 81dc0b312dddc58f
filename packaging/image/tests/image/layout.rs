//! The layout, made from invented files.

use std::collections::BTreeMap;
use std::process::Command;

use image::labels::{self, Product};
use image::oci::{Architecture, Image, Layout, Reference, layout};
use image::packages::{Kind, Origin, Package};
use image::tree::Tree;
use image::{auditable, elf};

use crate::support;

fn image(architecture: Architecture) -> Image {
    let mut programs = Tree::new();
    programs.program("usr/bin/slicewright", b"\x7fELF, or so".to_vec());
    programs.link("usr/bin/slicewright-operator", "slicewright");
    let mut legal = Tree::new();
    legal.file("licenses/LICENSE", "do as you like");
    let build = labels::Build {
        version: "1.2.3",
        source: "https://example.com/it",
        revision: Some("abc"),
        created: "2026-11-22T00:00:00Z",
    };
    Image {
        architecture,
        entrypoint: Some("/usr/bin/slicewright-operator".to_owned()),
        environment: vec!["PATH=/usr/bin".to_owned()],
        labels: labels::labels(Product::Operator, &build),
        layers: vec![("licences", legal), ("programs", programs)],
        created: 1_795_305_600,
    }
}

fn named(images: &[Image]) -> Layout {
    let reference = Reference::new("slicewright/slicewright", "1.2.3").unwrap();
    layout(&images.iter().map(Image::build).collect::<Vec<_>>(), &reference)
}

#[test]
fn others_read_what_was_written() {
    let layout = named(&[image(Architecture::Amd64)]);
    let (digest, images) = support::read(&layout.files);
    assert_eq!(digest, layout.digest);
    let [one] = images.as_slice() else { panic!("one image") };
    assert_eq!(one.architecture, "amd64");
    assert_eq!(one.config.created().as_deref(), Some("2026-11-22T00:00:00Z"));
    assert_eq!(one.text("licenses/LICENSE"), "do as you like");
    let link = one.file("usr/bin/slicewright-operator").target.clone().unwrap();
    assert_eq!(link.to_str(), Some("slicewright"));
    assert!(one.things.values().all(|thing| thing.time == 1_795_305_600));
    let labels = one.config.config().as_ref().unwrap().labels().clone().unwrap();
    assert_eq!(labels.into_iter().collect::<BTreeMap<_, _>>(), image(Architecture::Amd64).labels);
}

#[test]
fn the_same_files_have_the_same_digest_and_other_files_another() {
    let one = named(&[image(Architecture::Amd64)]);
    assert_eq!(one.files, named(&[image(Architecture::Amd64)]).files);
    let mut later = image(Architecture::Amd64);
    later.created += 1;
    assert_ne!(one.digest, named(&[later]).digest);
    let mut more = image(Architecture::Amd64);
    more.layers[0].1.file("licenses/MORE", "x");
    assert_ne!(one.digest, named(&[more]).digest);
}

#[test]
fn images_for_two_processors_are_one_image() {
    let layout = named(&[image(Architecture::Amd64), image(Architecture::Arm64)]);
    let (digest, images) = support::read(&layout.files);
    assert_eq!(digest, layout.digest);
    let found: Vec<_> = images.iter().map(|image| image.architecture.as_str()).collect();
    assert_eq!(found, ["amd64", "arm64"]);
    assert!(!layout.files.contains_key("manifest.json"), "Docker's own format has no second processor");
}

#[test]
fn the_archive_is_the_layout_with_what_docker_reads() {
    let layout = named(&[image(Architecture::Amd64)]);
    let files = support::archived(&layout.archive(7));
    assert_eq!(files, layout.files);
    let docker: Vec<BTreeMap<String, serde_json::Value>> =
        serde_json::from_slice(&files["manifest.json"]).unwrap();
    assert_eq!(docker[0]["RepoTags"], serde_json::json!(["slicewright/slicewright:1.2.3"]));
    let blobs = std::iter::once(&docker[0]["Config"]).chain(docker[0]["Layers"].as_array().unwrap());
    for path in blobs {
        assert!(files.contains_key(path.as_str().unwrap()), "{path}");
    }
}

#[test]
fn a_name_without_a_registry_is_written_out_as_runtimes_look_for_it() {
    for name in ["registry.example.com/a/b", "localhost/a", "mirror:5000/a"] {
        let reference = Reference::new(name, "1").unwrap();
        assert_eq!(
            (reference.full(), reference.short().as_str()),
            (&*format!("{name}:1"), &*format!("{name}:1"))
        );
    }
    // Which registry stands for none is the format's to say; that one does is what runtimes need.
    let reference = Reference::new("slicewright/slicewright", "1").unwrap();
    let registry = reference.full().strip_suffix("/slicewright/slicewright:1").unwrap();
    assert!(registry.contains('.') && !registry.contains('/'), "{registry}");
    assert_eq!(reference.short(), "slicewright/slicewright:1");
    let error = Reference::new("Slicewright", "1").unwrap_err();
    assert!(error.to_string().starts_with("\"Slicewright:1\" is no name of an image"), "{error}");
}

fn package(name: &str, dependencies: Vec<usize>, root: bool) -> Package {
    Package {
        name: name.to_owned(),
        version: "1.2.3".to_owned(),
        origin: if root { Origin::Local } else { Origin::Registry },
        kind: Kind::Linked,
        licence: None,
        repository: None,
        checksum: None,
        manifest: String::new(),
        dependencies,
        root,
    }
}

/// This test is a program: it gets a section, still runs, and others find the
/// list in it.
#[test]
fn a_program_with_a_list_in_it_runs_and_the_list_is_read_back() {
    let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(elf::section(&this, auditable::SECTION).unwrap(), None);
    let packages = [package("a", vec![], false), package("program", vec![0], true)];
    let with = auditable::embed(&this, &packages).unwrap();
    let read = auditable_info::audit_info_from_slice(&with, 1 << 20).unwrap();
    assert_eq!(read.packages, auditable::list(&packages).packages);
    assert_eq!(elf::needs(&with).unwrap(), elf::needs(&this).unwrap());

    let folder = tempfile::tempdir().unwrap();
    let (written, path) = (folder.path().join("written"), folder.path().join("program"));
    std::fs::write(&written, &with).unwrap();
    std::fs::set_permissions(&written, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Nothing runs that anybody has open for writing. What this process opens, the programs that other tests start
    // at that moment have open too; what `cp` opens, nobody else has.
    assert!(Command::new("cp").arg(&written).arg(&path).status().unwrap().success());
    let output = Command::new(&path).arg("--list").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap().contains("images_for_two_processors_are_one_image"));
}

#[test]
fn what_is_no_program_is_refused() {
    assert!(elf::needs(b"#!/bin/sh\n").is_err());
    assert!(elf::with_section(b"\x7fELF", "x", b"").is_err());
}
