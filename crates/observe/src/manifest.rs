//! Manifests: texts of one or more YAML or JSON documents.

use std::collections::BTreeMap;

use api::located::{Located, Node as Tree, documents};
use serde_json::Value;

use crate::objects::{Objects, is_read};
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

/// A document that is not read here, and where it stands.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// What it is, such as `Deployment web/shop`; `a document` when it does not say.
    pub what: String,
    /// Where it stands.
    pub place: Location,
    /// Why it is not read.
    pub why: &'static str,
    /// The document, for a caller who knows what to do with it.
    pub document: Located,
}

/// A text of manifests.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Its name, for messages.
    pub file: &'a str,
    /// The text.
    pub text: &'a str,
    /// What each of its objects is annotated with by others, whatever it says itself.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

impl<'a> From<(&'a str, &'a str)> for Text<'a> {
    fn from((file, text): (&'a str, &'a str)) -> Self {
        Self { file, text, annotations: None }
    }
}

/// Reads several texts, each with its name, and says what of them is not read.
/// An object of ours that is there twice is an error: which one counts would
/// depend on the order of files.
pub fn read_all<'a, I>(objects: &mut Objects, texts: I, problems: &mut Vec<Problem>) -> Vec<Skipped>
where
    I: IntoIterator<Item: Into<Text<'a>>>,
{
    let mut skipped = Vec::new();
    let mut seen: BTreeMap<(String, String), Location> = BTreeMap::new();
    for Text { file, text, annotations } in texts.into_iter().map(Into::into) {
        for document in documents(text) {
            let mut document = match document {
                Ok(document) => document,
                Err(error) => {
                    problems.push(Problem {
                        place: Some(Location::new(file, error.place)),
                        ..Problem::new(Severity::Error, "", error.message)
                    });
                    continue;
                }
            };
            if let Some(annotations) = annotations {
                annotate(&mut document, annotations);
            }
            for document in each(document) {
                if let Some((kind, name)) = ours(&document) {
                    let here = Location::new(file, document.place_of("metadata.name"));
                    if let Some(first) = seen.get(&(kind.clone(), name.clone())) {
                        problems.push(Problem {
                            place: Some(here),
                            ..Problem::new(
                                Severity::Error,
                                format!("{kind} {name}"),
                                format!(
                                    "already exists at {first}: names must be unique; rename or remove one"
                                ),
                            )
                            .field("metadata.name")
                        });
                        continue;
                    }
                    seen.insert((kind, name), here);
                }
                match why_not(&document) {
                    Some(why) => skipped.push(Skipped {
                        what: what(&document),
                        place: Location::new(file, document.place),
                        why,
                        document,
                    }),
                    None => objects.add(document, file, problems),
                }
            }
        }
    }
    skipped
}

/// Annotates an object, or each object of a list. What is not written as Kubernetes has it stays, and is refused as it is.
fn annotate(object: &mut Located, annotations: &BTreeMap<String, String>) {
    let is_list = object.get("kind").and_then(Located::as_str).is_some_and(|kind| kind.ends_with("List"));
    let Some(within) = field(object, if is_list { "items" } else { "metadata" }) else { return };
    if let Tree::List(items) = &mut within.node {
        items.iter_mut().for_each(|item| annotate(item, annotations));
        return;
    }
    let place = within.place;
    let Tree::Map(metadata) = &mut within.node else { return };
    if !metadata.iter().any(|(key, ..)| key == "annotations") {
        let none = Located { place, node: Tree::Map(Vec::new()) };
        metadata.push(("annotations".to_owned(), place, none));
    }
    let Some(there) = field(within, "annotations") else { return };
    if matches!(there.node, Tree::Scalar(Value::Null)) {
        there.node = Tree::Map(Vec::new());
    }
    let place = there.place;
    let Tree::Map(there) = &mut there.node else { return };
    there.retain(|(key, ..)| !annotations.contains_key(key));
    there.extend(annotations.iter().map(|(key, value)| {
        (key.clone(), place, Located { place, node: Tree::Scalar(Value::from(value.as_str())) })
    }));
}

fn field<'a>(object: &'a mut Located, name: &str) -> Option<&'a mut Located> {
    let Tree::Map(fields) = &mut object.node else { return None };
    fields.iter_mut().find(|(key, ..)| key == name).map(|(.., value)| value)
}

/// The objects of a list that says of each what it is; else the document itself.
fn each(document: Located) -> Vec<Located> {
    let says = |item: &Located| item.get("apiVersion").is_some() && item.get("kind").is_some();
    let is_list = document.get("kind").and_then(Located::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document.get("items").map(|items| &items.node) {
        Some(Tree::List(items)) if is_list && items.iter().all(says) => {
            items.iter().cloned().flat_map(each).collect()
        }
        _ => vec![document],
    }
}

/// Whether a GPU or a slice is named anywhere in an object, as what somebody asks for is.
fn asks_for_gpus(document: &Located) -> bool {
    match &document.node {
        Tree::Scalar(_) => false,
        Tree::List(items) => items.iter().any(asks_for_gpus),
        Tree::Map(fields) => {
            fields.iter().any(|(key, _, value)| mig::GpuResource::is_one(key) || asks_for_gpus(value))
        }
    }
}

/// Why a document is left aside; none when it is read (or refused).
fn why_not(document: &Located) -> Option<&'static str> {
    let text = |field| document.get(field).and_then(Located::as_str);
    let (version, kind) = match (text("apiVersion"), text("kind")) {
        (None, None) => return Some("it is not a Kubernetes object"),
        // One of the two is missing: that is a mistake, and is told as one.
        (Some(version), Some(kind)) => (version, kind),
        (Some(_), None) | (None, Some(_)) => return None,
    };
    if kind.ends_with("List") || is_read(version, kind) {
        let is_bound = || document.get("spec").is_some_and(|spec| spec.get("nodeName").is_some());
        // A pod on a node takes some of its CPU and memory, whatever else it asks for.
        let is_idle = (version, kind) == ("v1", "Pod") && !is_bound() && !asks_for_gpus(document);
        return is_idle.then_some("it asks for no GPU and no slice");
    }
    Some(match asks_for_gpus(document) {
        true => {
            "it asks for GPUs, but only pods, workbenches and Kueue's workloads are requests: give those that it makes"
        }
        false => "its kind is not about slices",
    })
}

/// Kind and name for messages.
fn what(document: &Located) -> String {
    let text = |value: Option<&Located>| value.and_then(Located::as_str).map(str::to_owned);
    let metadata = |field: &str| text(document.get("metadata").and_then(|metadata| metadata.get(field)));
    let kind = text(document.get("kind")).unwrap_or_else(|| "a document".to_owned());
    match (metadata("namespace"), metadata("name")) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => kind,
    }
}

fn ours(document: &Located) -> Option<(String, String)> {
    let version = document.get("apiVersion")?.as_str()?;
    let kind = document.get("kind")?.as_str()?;
    let name = document.get("metadata")?.get("name")?.as_str()?;
    (version.split('/').next() == Some(api::GROUP)).then(|| (kind.to_owned(), name.to_owned()))
}
