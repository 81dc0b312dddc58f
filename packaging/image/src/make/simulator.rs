//! The simulator's image: programs, the library that they and others load, and
//! the C library of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use image::oci::{Architecture, digest};
use image::sbom::{Other, Program};
use image::tree::Tree;

use super::build::{Linker, Workspace};
use super::machine::{self, Library};
use super::{Base, Contents};

/// Where nodes are by default; whoever runs the image mounts a volume there
/// when the root is read-only.
const STATE: &str = "run/slicewright-sim";

/// What programs load: a link.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The file, as in a driver root: with the version of the driver that a node has unless it is told another
/// one. Programs that make CDI specifications read the version from there.
const FILE: &str = "libnvidia-ml.so.580.65.06";

pub(super) fn contents(
    workspace: &Workspace,
    architecture: Architecture,
    base: Base,
) -> anyhow::Result<Contents> {
    let target = format!("{}-unknown-linux-gnu", architecture.rust());
    let sim = workspace.build("slicewright-sim-cli", &["--bin", "slicewright-sim"], &target, Linker::Own)?;
    let smi =
        workspace.build("slicewright-sim-nvidia-smi", &["--bin", "nvidia-smi"], &target, Linker::Own)?;
    let nvml = workspace.build("slicewright-sim-libnvml", &["--lib"], &target, Linker::Own)?;
    let mut tree = Tree::new();
    tree.folder_of(image::USER, STATE);
    let (folder, paths) = match base {
        Base::Image => ("/usr/lib64".to_owned(), Vec::new()),
        Base::None => {
            let files: [&[u8]; 3] = [&sim.content, &smi.content, &nvml.content];
            with_c_library(&mut tree, machine::libraries(&files, &[LIBRARY], architecture)?)?
        }
    };
    let (rust, licence_of_rust) = workspace.standard_library()?;
    let text =
        fs::read(&licence_of_rust).with_context(|| format!("cannot read {}", licence_of_rust.display()))?;
    let mut licences = vec![("rust-std/COPYRIGHT-library.html".to_owned(), text)];
    let licence = Some("MIT OR Apache-2.0".to_owned());
    let mut others = vec![Other { name: "rust-std".to_owned(), version: rust, licence, purl: None }];
    for (other, texts) in machine::owners(&paths)? {
        others.push(other);
        licences.extend(texts);
    }
    let mut programs = Tree::new();
    let mut linked = Vec::new();
    let folder = folder.trim_start_matches('/');
    let places = [
        ("usr/bin/slicewright-sim".to_owned(), sim),
        ("usr/bin/nvidia-smi".to_owned(), smi),
        (format!("{folder}/{FILE}"), nvml),
    ];
    for (path, made) in places {
        let sha256 = digest(&made.content).trim_start_matches("sha256:").to_owned();
        linked.push(Program { path: format!("/{path}"), sha256, packages: made.packages });
        programs.program(&path, made.content);
    }
    programs.link(&format!("{folder}/{LIBRARY}"), FILE);
    Ok(Contents {
        base: tree,
        programs,
        linked,
        others,
        licences,
        environment: vec!["PATH=/usr/bin".to_owned()],
    })
}

/// Puts the libraries where they were found, which is where the loader looks,
/// and says in which folder the C library is.
fn with_c_library(tree: &mut Tree, libraries: Vec<Library>) -> anyhow::Result<(String, Vec<PathBuf>)> {
    let mut folder = None;
    let mut paths = Vec::new();
    for Library { path, content } in libraries {
        let text = path.to_str().context("a library's path is text")?;
        if text.ends_with("/libc.so.6") {
            folder = path.parent().and_then(Path::to_str).map(str::to_owned);
        }
        tree.program(text, content);
        paths.push(path);
    }
    let folder = folder.context("the programs do not ask for libc.so.6: is this a machine without glibc?")?;
    Ok((folder, paths))
}
