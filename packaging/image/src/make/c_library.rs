//! Programs that load a library at run time: they need the C library that they were linked with, which is that of this
//! machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use image::oci::digest;
use image::sbom::{Other, Program};
use image::tree::Tree;

use super::Contents;
use super::build::{Made, Workspace};
use super::machine::{self, Library};

/// Puts the libraries where they were found, which is where the loader looks,
/// and says in which folder the C library is.
pub(super) fn put(tree: &mut Tree, libraries: Vec<Library>) -> anyhow::Result<(String, Vec<PathBuf>)> {
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

/// The contents of an image with these programs, over `base`, in which the
/// files of this machine at `paths` are.
pub(super) fn contents(
    workspace: &Workspace,
    base: Tree,
    paths: &[PathBuf],
    made: Vec<(String, Made)>,
) -> anyhow::Result<Contents> {
    let (rust, licence_of_rust) = workspace.standard_library()?;
    let text =
        fs::read(&licence_of_rust).with_context(|| format!("cannot read {}", licence_of_rust.display()))?;
    let mut licences = vec![("rust-std/COPYRIGHT-library.html".to_owned(), text)];
    let licence = Some("MIT OR Apache-2.0".to_owned());
    let mut others = vec![Other { name: "rust-std".to_owned(), version: rust, licence, purl: None }];
    for (other, texts) in machine::owners(paths)? {
        others.push(other);
        licences.extend(texts);
    }
    let mut programs = Tree::new();
    let mut linked = Vec::new();
    for (path, made) in made {
        let sha256 = digest(&made.content).trim_start_matches("sha256:").to_owned();
        linked.push(Program { path: format!("/{path}"), sha256, packages: made.packages });
        programs.program(&path, made.content);
    }
    let environment = vec!["PATH=/usr/bin".to_owned()];
    Ok(Contents { base, programs, linked, others, licences, environment })
}
