//! The manifests that a path names: a file, a folder, or a kustomization.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, chain};
use crate::files::read;
use crate::kustomization;

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its name, as it was found.
    pub file: String,
    /// Its text.
    pub text: String,
    /// What its kustomizations annotate each of its objects with.
    pub annotations: BTreeMap<String, String>,
}

impl<'a> From<&'a Manifest> for observe::manifest::Text<'a> {
    fn from(manifest: &'a Manifest) -> Self {
        let Manifest { file, text, annotations } = manifest;
        Self { file, text, annotations: Some(annotations) }
    }
}

/// Reads a file, or a folder: what its `kustomization.yaml` names where it has
/// one, else all manifests (`*.yaml`, `*.yml`, `*.json`) below it, by name
/// (kustomizations further down are left out).
///
/// # Errors
/// Names the file or folder and says what is wrong with it.
pub fn read_manifests(path: &Path) -> Result<Vec<Manifest>, Failure> {
    let plain =
        |path: &Path| read(path).map(|(file, text)| Manifest { file, text, annotations: BTreeMap::new() });
    if !path.is_dir() {
        return Ok(vec![plain(path)?]);
    }
    if kustomization::find(path).is_some() {
        return kustomization::read(path);
    }
    let mut files = Vec::new();
    collect(path, &mut files)?;
    files.sort();
    files.iter().map(|file| plain(file)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let wrong =
        |error: &std::io::Error| Failure::Data(format!("cannot list {}: {}", folder.display(), chain(error)));
    for entry in fs::read_dir(folder).map_err(|error| wrong(&error))? {
        let path = entry.map_err(|error| wrong(&error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_manifest = path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if name.starts_with('.') || name.to_lowercase().starts_with("kustomization") {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if is_manifest {
            files.push(path);
        }
    }
    Ok(())
}
