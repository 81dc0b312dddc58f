//! Folders with a `kustomization.yaml`: its `resources` are followed, so that bases and overlays are read
//! without another program, and its `commonAnnotations` are set. Other features that change objects (patches,
//! prefixes, components) are not imitated: they are refused, with the command that renders the folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use api::located::{Located, Node as Tree, documents};
use api::schema::check_field;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::files::{self, Manifest};

/// The names that kustomize looks for.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Fields that leave cluster-scoped objects of ours as they are written.
const HARMLESS: [&str; 11] = [
    "apiVersion",
    "kind",
    "metadata",
    "resources",
    "namespace",
    "configMapGenerator",
    "secretGenerator",
    "generatorOptions",
    "images",
    "buildMetadata",
    "sortOptions",
];

/// The field that is set in every object.
const ANNOTATIONS: &str = "commonAnnotations";

type Annotations = BTreeMap<String, String>;

/// The kustomization of a folder, if it has one.
#[must_use]
pub fn find(folder: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| folder.join(name)).find(|file| file.is_file())
}

/// Reads what the kustomization of a folder names, in its order.
///
/// # Errors
/// What cannot be read, or cannot be followed faithfully: file, line, field
/// and what to do instead.
pub fn read(folder: &Path) -> Result<Vec<Manifest>, Failure> {
    let mut manifests = Vec::new();
    follow(folder, &Annotations::new(), &mut Vec::new(), &mut manifests)?;
    Ok(manifests)
}

fn follow(
    folder: &Path,
    outer: &Annotations,
    above: &mut Vec<PathBuf>,
    manifests: &mut Vec<Manifest>,
) -> Result<(), Failure> {
    let Some(file) = find(folder) else {
        let message =
            format!("{} has no kustomization.yaml, but another one names it as a base", folder.display());
        return Err(Failure::Data(message));
    };
    let identity = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if above.contains(&identity) {
        let message = format!("{}: resources: names a folder that includes itself", file.display());
        return Err(Failure::Data(message));
    }
    above.push(identity);
    let Kustomization { resources, mut annotations } = read_file(&file)?;
    // Kustomize sets those of a base first, and the last one wins.
    annotations.extend(outer.clone());
    for (place, entry) in resources {
        let wrong = |what: String| Failure::Data(format!("{place}: resources: {what}"));
        if entry.contains("://") || entry.contains("?ref=") || entry.starts_with("git@") {
            let message = format!("`{entry}` is not in this checkout; {}", render(folder));
            return Err(wrong(message));
        }
        let path = folder.join(&entry);
        if path.is_dir() {
            follow(&path, &annotations, above, manifests)?;
        } else {
            let (file, text) = files::read(&path).map_err(|_| wrong(format!("`{entry}` does not exist")))?;
            if !manifests.iter().any(|known| known.file == file) {
                manifests.push(Manifest { file, text, annotations: annotations.clone() });
            }
        }
    }
    above.pop();
    Ok(())
}

/// What to do where only kustomize knows what comes out.
fn render(folder: &Path) -> String {
    let folder = folder.display();
    format!("render it first: kustomize build {folder} > rendered.yaml, and give rendered.yaml instead")
}

/// What is read of a kustomization.
#[derive(Default)]
struct Kustomization {
    /// The entries of `resources`, each with its place.
    resources: Vec<(String, String)>,
    /// What is set in every object.
    annotations: Annotations,
}

fn read_file(file: &Path) -> Result<Kustomization, Failure> {
    let (name, text) = files::read(file)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut read = Kustomization::default();
    for document in documents(&text) {
        let document = document.map_err(|error| Failure::Data(format!("{name}:{error}")))?;
        let Tree::Map(fields) = &document.node else {
            return Err(Failure::Data(format!("{name}:{}: is not a map of fields", document.place)));
        };
        for (field, place, value) in fields {
            if field == ANNOTATIONS {
                read.annotations.extend(annotations(&name, value)?);
                continue;
            }
            if !HARMLESS.contains(&field.as_str()) {
                return Err(Failure::Data(format!(
                    "{name}:{place}: {field}: changes objects, which only kustomize can do; {}",
                    render(folder)
                )));
            }
            if field == "resources" {
                let Tree::List(items) = &value.node else {
                    return Err(Failure::Data(format!("{name}:{place}: resources: is not a list of paths")));
                };
                for item in items {
                    let Some(entry) = Located::as_str(item) else {
                        return Err(Failure::Data(format!(
                            "{name}:{}: resources: is not a path",
                            item.place
                        )));
                    };
                    read.resources.push((format!("{name}:{}", item.place), entry.to_owned()));
                }
            }
        }
    }
    Ok(read)
}

/// The annotations that a kustomization sets.
fn annotations(name: &str, value: &Located) -> Result<Annotations, Failure> {
    if matches!(value.node, Tree::Scalar(Value::Null)) {
        return Ok(Annotations::new());
    }
    let schema = json!({"type": "object", "additionalProperties": {"type": "string"}});
    if let Some(wrong) = check_field(ANNOTATIONS, value, &schema).first() {
        return Err(Failure::Data(format!("{name}:{wrong}")));
    }
    let Tree::Map(entries) = &value.node else { return Ok(Annotations::new()) };
    let entry = |(key, _, value): &(String, _, Located)| Some((key.clone(), value.as_str()?.to_owned()));
    Ok(entries.iter().filter_map(entry).collect())
}
