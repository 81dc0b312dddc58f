//! The manifests that a path names: a file, a folder, or a kustomization.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, chain};
use crate::files::{Manifest, read};
use crate::kustomization;

/// What a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What is read.
    pub manifests: Vec<Manifest>,
    /// Files that are not read, by name, and why.
    pub ignored: Vec<Ignored>,
}

/// A file that is not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ignored {
    /// Its name, as it was found.
    pub file: String,
    /// Why it is not read.
    pub why: &'static str,
}

/// Reads a file, or a folder: what its `kustomization.yaml` names where it has
/// one, else all manifests (`*.yaml`, `*.yml`, `*.json`) below it, by name
/// (kustomizations further down are left out).
///
/// # Errors
/// Names the file or folder and says what is wrong with it.
pub fn read_manifests(path: &Path) -> Result<Found, Failure> {
    let plain =
        |path: &Path| read(path).map(|(file, text)| Manifest { file, text, annotations: BTreeMap::new() });
    if !path.is_dir() {
        return Ok(Found { manifests: vec![plain(path)?], ignored: vec![] });
    }
    if kustomization::find(path).is_some() {
        let manifests = kustomization::read(path)?;
        let ignored = not_named(path, &manifests)?;
        return Ok(Found { manifests, ignored });
    }
    let (mut files, mut ignored) = (Vec::new(), Vec::new());
    collect(path, &mut files, &mut ignored)?;
    files.sort();
    ignored.sort();
    Ok(Found { manifests: files.iter().map(|file| plain(file)).collect::<Result<_, _>>()?, ignored })
}

/// Manifests beside a kustomization that it does not name: whoever adds one may
/// forget to.
fn not_named(folder: &Path, manifests: &[Manifest]) -> Result<Vec<Ignored>, Failure> {
    let named: BTreeSet<PathBuf> =
        manifests.iter().filter_map(|manifest| Path::new(&manifest.file).canonicalize().ok()).collect();
    let is_named = |path: &Path| path.canonicalize().is_ok_and(|path| named.contains(&path));
    let beside = entries(folder)?.into_iter().filter(|path| {
        !path.is_dir() && is_manifest(path) && !is_kustomization(path) && !is_expectations(path)
    });
    let mut ignored: Vec<Ignored> = beside
        .filter(|path| !is_named(path))
        .map(|path| Ignored {
            file: path.display().to_string(),
            why: "the kustomization.yaml beside it does not name it in resources",
        })
        .collect();
    ignored.sort();
    Ok(ignored)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>, ignored: &mut Vec<Ignored>) -> Result<(), Failure> {
    for path in entries(folder)? {
        let mut ignore = |why| ignored.push(Ignored { file: path.display().to_string(), why });
        if is_kustomization(&path) {
            ignore("a kustomization counts only at the top of the folder that is named");
        } else if path.is_dir() {
            collect(&path, files, ignored)?;
        } else if is_manifest(&path) {
            files.push(path);
        } else if path.extension().is_none_or(|extension| extension != "md") {
            ignore("its name ends in none of .yaml, .yml and .json");
        }
    }
    Ok(())
}

/// What is in a folder, without what is hidden.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong =
        |error: &std::io::Error| Failure::Data(format!("cannot list {}: {}", folder.display(), chain(error)));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| wrong(&error))? {
        let path = entry.map_err(|error| wrong(&error))?.path();
        if !name(&path).starts_with('.') {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
}

fn is_kustomization(path: &Path) -> bool {
    name(path).to_lowercase().starts_with("kustomization")
}

/// Expectations are read wherever they are found.
fn is_expectations(path: &Path) -> bool {
    ["expectations.yaml", "expectations.yml"].contains(&name(path))
}
