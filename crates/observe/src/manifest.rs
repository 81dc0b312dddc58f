//! Manifests: texts of one or more YAML or JSON documents.

use std::collections::BTreeMap;

use api::located::{Located, documents};

use crate::objects::Objects;
use crate::problem::{Location, Problem, Severity};

/// Reads a text of manifests into `objects`. `file` is only a name, for
/// messages. A document that cannot be read does not keep the others from
/// being read.
pub fn read(objects: &mut Objects, file: &str, text: &str, problems: &mut Vec<Problem>) {
    for document in documents(text) {
        match document {
            Ok(document) => objects.add(document, file, problems),
            Err(error) => problems.push(Problem {
                place: Some(Location::new(file, error.place)),
                ..Problem::new(Severity::Error, "", error.message)
            }),
        }
    }
}

/// Reads several texts, each with its name. An object of ours that is there
/// twice is an error: which one counts would depend on the order of files.
pub fn read_all<'a, I>(objects: &mut Objects, texts: I, problems: &mut Vec<Problem>)
where
    I: IntoIterator<Item = (&'a str, &'a str)>,
{
    let mut seen: BTreeMap<(String, String), Location> = BTreeMap::new();
    for (file, text) in texts {
        for document in documents(text) {
            let document = match document {
                Ok(document) => document,
                Err(error) => {
                    problems.push(Problem {
                        place: Some(Location::new(file, error.place)),
                        ..Problem::new(Severity::Error, "", error.message)
                    });
                    continue;
                }
            };
            if let Some((kind, name)) = ours(&document) {
                let here = Location::new(file, document.place_of("metadata.name"));
                if let Some(first) = seen.get(&(kind.clone(), name.clone())) {
                    problems.push(Problem {
                        place: Some(here),
                        ..Problem::new(
                            Severity::Error,
                            format!("{kind} {name}"),
                            format!("is there already, at {first}: names are unique; rename or remove one"),
                        )
                        .field("metadata.name")
                    });
                    continue;
                }
                seen.insert((kind, name), here);
            }
            objects.add(document, file, problems);
        }
    }
}

fn ours(document: &Located) -> Option<(String, String)> {
    let version = document.get("apiVersion")?.as_str()?;
    let kind = document.get("kind")?.as_str()?;
    let name = document.get("metadata")?.get("name")?.as_str()?;
    (version.split('/').next() == Some(api::GROUP)).then(|| (kind.to_owned(), name.to_owned()))
}
