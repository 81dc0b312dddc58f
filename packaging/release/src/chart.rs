//! The chart as it is published: it knows its images, so that it installs without a value, and tells ArtifactHub
//! what it changes. The archive has no time and no owner in it; Helm's own would.

use std::collections::BTreeMap;
use std::path::Path;

use image::artifact::Artifact;
use packaging::archives::{File, below, packed};
use packaging::bundle::Image;
use packaging::project::Project;
use packaging::values::{NoLine, readme, set};
use serde_json::{Value, json};

use crate::bump::NoPlace;
use crate::home::Home;
use crate::released;

/// What Helm calls a chart in a registry.
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
/// What Helm calls its archive.
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Why there is no chart.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or packed.
    #[error("the chart cannot be packed")]
    Io(#[from] std::io::Error),
    /// Something that is replaced is not there.
    #[error("{file} has no line {line:?}: the release writes something else there")]
    NoLine {
        /// In which file.
        file: &'static str,
        /// Which line.
        line: String,
    },
    /// What a release writes has no place.
    #[error(transparent)]
    NoPlace(#[from] NoPlace),
    /// Its values do not say where the images are.
    #[error(transparent)]
    NoValue(#[from] NoLine),
    /// Its values are not what they should be.
    #[error("values.yaml: {0}")]
    Values(String),
    /// Its description is not what it should be.
    #[error("Chart.yaml: {0}")]
    Syntax(String),
}

/// The archive, and the artifact with it.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The name of the archive.
    pub name: String,
    /// The archive.
    pub archive: Vec<u8>,
    /// As a registry keeps it.
    pub artifact: Artifact,
}

/// Replaces one line that has to be there.
fn line(file: &'static str, text: &str, from: &str, to: &str) -> Result<String, Error> {
    let (from, to) = (format!("\n{from}\n"), format!("\n{to}\n"));
    match text.matches(&from).count() {
        1 => Ok(text.replace(&from, &to)),
        _ => Err(Error::NoLine { file, line: from.trim().to_owned() }),
    }
}

/// The images that the chart installs.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// The operator's.
    pub operator: &'a Image,
    /// The node agent's, from the same registry: a mirror is named once.
    pub agent: &'a Image,
}

/// Values that name the images.
fn values(text: &str, images: Images<'_>, home: Home<'_>) -> Result<String, Error> {
    let Images { operator, agent } = images;
    let text = released::released(released::VALUES, text, home, home)?;
    let text = set(&text, "  digest: ", &operator.digest)?;
    Ok(set(&text, "    digest: ", &agent.digest)?)
}

/// The description, with what ArtifactHub shows.
fn described(text: &str, images: Images<'_>, project: &Project, changes: &[String]) -> Result<String, Error> {
    let list = |key: &str, items: &[Value]| {
        let mut said = format!("  artifacthub.io/{key}: |\n");
        for item in items {
            said.push_str(&format!("    - {item}\n"));
        }
        said
    };
    let changes: Vec<Value> = changes.iter().map(|change| json!(change)).collect();
    let Images { operator, agent } = images;
    let images = [("operator", operator), ("agent", agent)];
    let images = images.map(|(name, image)| json!({"name": name, "image": image.to_string()}));
    let links = [json!({"name": "Documentation", "url": format!("{}/tree/main/docs", project.repository)})];
    let mut text = text.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // The annotations are the last key of the file, which a test holds.
    for part in [list("images", &images), list("links", &links), list("changes", &changes)] {
        text.push_str(&part);
    }
    // As JSON, which is YAML: a name may have signs that mean something there.
    let [name, email] = [&project.maintainer.name, &project.maintainer.email].map(|word| json!(word));
    line("Chart.yaml", &text, "  - name: Slicewright", &format!("  - name: {name}\n    email: {email}"))
}

/// The chart in this folder, for these images.
///
/// # Errors
/// When a file cannot be read, or what is replaced is not there.
pub fn chart(
    folder: &Path,
    images: Images<'_>,
    project: &Project,
    changes: &[String],
) -> Result<Chart, Error> {
    let ignored = |path: &str| {
        path.starts_with("slicewright/ci/")
            || path.ends_with("/README.md.head")
            || path.ends_with(".test.yaml")
    };
    let (registry, _) =
        images.operator.repository.rsplit_once('/').unwrap_or((&images.operator.repository, ""));
    let home = Home { repository: &project.repository, registry };
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    // Whoever publishes a checkout that was not released is told nothing that is false, either.
    let released =
        |name: &str, text: &str| released::released(&format!("charts/slicewright/{name}"), text, home, home);
    let values = values(&read("values.yaml")?, images, home)?;
    let page = readme(&released("README.md.head", &read("README.md.head")?)?, &values)
        .map_err(|error| Error::Values(error.to_string()))?;
    let mut files: Vec<File> =
        below(folder, "slicewright")?.into_iter().filter(|file| !ignored(&file.path)).collect();
    let mut description = Value::Null;
    for file in &mut files {
        let text = String::from_utf8_lossy(&file.content).into_owned();
        match file.path.as_str() {
            "slicewright/values.yaml" => file.content = values.clone().into_bytes(),
            "slicewright/README.md" => file.content = page.clone().into_bytes(),
            "slicewright/templates/_helpers.tpl" => {
                file.content = released("templates/_helpers.tpl", &text)?.into_bytes();
            }
            "slicewright/Chart.yaml" => {
                let text = described(&text, images, project, changes)?;
                description =
                    serde_saphyr::from_str(&text).map_err(|error| Error::Syntax(error.to_string()))?;
                file.content = text.into_bytes();
            }
            _ => {}
        }
    }
    // Helm reads the description first.
    files.sort_by_key(|file| (file.path != "slicewright/Chart.yaml", file.path.clone()));
    let text = |key: &str| description[key].as_str().unwrap_or_default().to_owned();
    let (title, version) = (text("name"), text("version"));
    let name = format!("{title}-{version}.tgz");
    let archive = packed(&files)?;
    let annotations = BTreeMap::from([
        ("org.opencontainers.image.title".to_owned(), title),
        ("org.opencontainers.image.version".to_owned(), version),
        ("org.opencontainers.image.description".to_owned(), text("description")),
        ("org.opencontainers.image.source".to_owned(), project.repository.clone()),
        ("org.opencontainers.image.url".to_owned(), text("home")),
    ]);
    let artifact = Artifact {
        config: (CONFIG, description.to_string().into_bytes()),
        content: (CONTENT, name.clone(), archive.clone()),
        annotations,
    };
    Ok(Chart { name, archive, artifact })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the maintainer is called: Helm and ArtifactHub read it.
    #[test]
    fn the_description_names_who_publishes_it_and_what_it_installs() {
        let project = "repository: https://forge.dev/gpu/slicewright\nregistry: registry.dev/gpu\nmaintainer:\n  \
            name: \"GPU team: \\\"night\\\" #2\"\n  email: gpu@forge.dev\nsecurity: security@forge.dev\nplaceholders: []\n";
        let project = Project::parse(project).unwrap();
        let image = |name: &str| -> Image {
            format!("registry.dev/gpu/{name}@sha256:{}", "a".repeat(64)).parse().unwrap()
        };
        let (operator, agent) = (image("slicewright"), image("agent"));
        let images = Images { operator: &operator, agent: &agent };
        let changes = ["Fixed: a key with a \"quote\".".to_owned()];
        let text = std::fs::read_to_string(packaging::chart().join("Chart.yaml")).unwrap();
        let read = described(&text, images, &project, &changes).unwrap();
        let read: Value = serde_saphyr::from_str(&read).unwrap();
        let [maintainer] = read["maintainers"].as_array().unwrap().as_slice() else { panic!("{read}") };
        assert_eq!(maintainer["name"], "GPU team: \"night\" #2");
        assert_eq!(maintainer["email"], "gpu@forge.dev");
        let list = |key: &str| -> Value {
            let text = read["annotations"][format!("artifacthub.io/{key}")].as_str().unwrap().to_owned();
            serde_saphyr::from_str(&text).unwrap()
        };
        assert_eq!(list("changes"), json!(changes));
        assert_eq!(list("images")[1], json!({"name": "agent", "image": agent.to_string()}));
        assert!(list("crds").as_array().is_some_and(|crds| crds.len() == 2));
        let error = described("name: slicewright\n", images, &project, &changes).unwrap_err().to_string();
        assert!(error.contains("- name: Slicewright"), "{error}");
    }

    /// The chart of this checkout, published.
    fn published(operator: &Image, agent: &Image) -> (Chart, tempfile::TempDir) {
        let text = "repository: https://forge.dev/gpu/slicewright\nregistry: registry.dev/gpu\nmaintainer:\n  \
            name: GPU team\n  email: gpu@forge.dev\nsecurity: security@forge.dev\nplaceholders: []\n";
        let project = Project::parse(text).unwrap();
        let chart = chart(&packaging::chart(), Images { operator, agent }, &project, &[]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join(&chart.name);
        std::fs::write(&archive, &chart.archive).unwrap();
        let mut tar = std::process::Command::new("tar");
        let unpacked = tar.arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status().unwrap();
        assert!(unpacked.success());
        (chart, folder)
    }

    /// What Helm would render of it: the lines are found by their text, and a changed file must not go unnoticed.
    #[test]
    fn the_values_name_both_images_by_digest_and_their_registry_once() {
        let image = |name: &str, digit: &str| -> Image {
            format!("registry.example.dev/gpu/{name}@sha256:{}", digit.repeat(64)).parse().unwrap()
        };
        let (operator, agent) = (image("slicewright", "a"), image("agent", "b"));
        let (_, folder) = published(&operator, &agent);
        let read =
            |name: &str| std::fs::read_to_string(folder.path().join("slicewright").join(name)).unwrap();
        let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
        assert_eq!(values["image"]["registry"], "registry.example.dev");
        assert_eq!(values["image"]["repository"], "gpu/slicewright");
        assert_eq!(values["image"]["digest"], operator.digest.to_string());
        assert_eq!(values["agent"]["image"]["registry"], "", "the operator's");
        assert_eq!(values["agent"]["image"]["repository"], "gpu/agent");
        assert_eq!(values["agent"]["image"]["digest"], agent.digest.to_string());

        // Its page has the same values, and nothing of it says that there is no image.
        let page = read("README.md");
        for says in [&operator.digest, &agent.digest, "registry.example.dev", "gpu/agent"] {
            assert!(page.contains(&format!("| `\"{says}\"` |")), "{says} is not in the table:\n{page}");
        }
        let all = below(&folder.path().join("slicewright"), "slicewright").unwrap();
        assert!(all.len() > 20, "{}", all.len());
        for file in all {
            let text = String::from_utf8_lossy(&file.content).to_lowercase();
            for words in ["published yet", "until images are published"] {
                assert!(!text.contains(words), "{}: {words}", file.path);
            }
        }
    }
}
