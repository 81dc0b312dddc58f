//! Folders with a `kustomization.yaml`: its `resources` are followed, so that bases and overlays are read
//! without another program. Features that change objects (patches, prefixes, components) are not imitated:
//! they are refused, with the command that renders the folder.

use std::path::{Path, PathBuf};

use api::located::{Located, Node as Tree, documents};

use crate::exit::Failure;
use crate::files::{self, Text};

/// The names that kustomize looks for.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Fields that leave cluster-scoped objects of ours as they are written.
const HARMLESS: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "resources",
    "namespace",
    "configMapGenerator",
    "secretGenerator",
    "generatorOptions",
    "commonAnnotations",
    "images",
    "buildMetadata",
    "sortOptions",
];

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
pub fn read(folder: &Path) -> Result<Vec<Text>, Failure> {
    let mut texts = Vec::new();
    follow(folder, &mut Vec::new(), &mut texts)?;
    Ok(texts)
}

fn follow(folder: &Path, above: &mut Vec<PathBuf>, texts: &mut Vec<Text>) -> Result<(), Failure> {
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
    for (place, entry) in resources(&file)? {
        let wrong = |what: String| Failure::Data(format!("{place}: resources: {what}"));
        if entry.contains("://") || entry.contains("?ref=") || entry.starts_with("git@") {
            let message = format!("`{entry}` is not in this checkout; {}", render(folder));
            return Err(wrong(message));
        }
        let path = folder.join(&entry);
        if path.is_dir() {
            follow(&path, above, texts)?;
        } else {
            let text = files::read(&path).map_err(|_| wrong(format!("`{entry}` does not exist")))?;
            if !texts.iter().any(|(known, _)| *known == text.0) {
                texts.push(text);
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

/// The entries of `resources`, each with its place.
fn resources(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    let (name, text) = files::read(file)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut entries = Vec::new();
    for document in documents(&text) {
        let document = document.map_err(|error| Failure::Data(format!("{name}:{error}")))?;
        let Tree::Map(fields) = &document.node else {
            return Err(Failure::Data(format!("{name}:{}: is not a map of fields", document.place)));
        };
        for (field, place, value) in fields {
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
                    entries.push((format!("{name}:{}", item.place), entry.to_owned()));
                }
            }
        }
    }
    Ok(entries)
}
