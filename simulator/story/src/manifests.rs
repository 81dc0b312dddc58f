//! Manifests in a story: real objects, read as the API server would.

use api::GpuPartitionPolicy;
use api::located::{Located, documents};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;

use crate::command::Manifest;
use crate::place::{Place, StoryError};

/// Reads a file that a story names; the error is a sentence.
pub type Files<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// An object of a manifest.
pub(crate) enum Object {
    Node(Box<Node>),
    Pod(Box<Pod>),
    Namespace(Box<Namespace>),
    Map(Box<ConfigMap>),
    Budget(Box<PodDisruptionBudget>),
    Priority(Box<PriorityClass>),
    Notebook(Box<DynamicObject>),
    Profile(Box<DynamicObject>),
    Policy(Box<GpuPartitionPolicy>),
    /// A kind that plays no part here.
    Other(String),
}

/// Where the text of a manifest is, to say where something in it is wrong.
enum Source<'a> {
    File { name: &'a str, at: Place },
    Block { at: Place },
}

impl Source<'_> {
    fn error(&self, place: api::located::Place, message: &str) -> StoryError {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        match self {
            Source::File { name, at } => StoryError::new(*at, format!("{name}:{place}: {message}")),
            Source::Block { at } => {
                let line = at.line + number(place.line) - 1;
                let column = at.column + number(place.column) - 1;
                StoryError::new(Place { line, column }, message)
            }
        }
    }
}

/// All objects of a manifest, in its order.
pub(crate) fn read(manifest: &Manifest, files: &Files<'_>) -> Result<Vec<Object>, StoryError> {
    let (text, source) = match manifest {
        Manifest::File(word) => {
            let text = files(&word.text).map_err(|error| StoryError::new(word.place, error))?;
            (text, Source::File { name: &word.text, at: word.place })
        }
        Manifest::Block { text, place } => (text.clone(), Source::Block { at: *place }),
    };
    documents(&text)
        .into_iter()
        .map(|document| {
            let document = document.map_err(|error| source.error(error.place, &error.message))?;
            object(&document, &source)
        })
        .collect()
}

fn object(document: &Located, source: &Source<'_>) -> Result<Object, StoryError> {
    let kind = document.get("kind").and_then(Located::as_str).unwrap_or_default();
    Ok(match kind {
        "" => return Err(source.error(document.place, "`kind` is missing: this is no Kubernetes object")),
        "GpuPartitionPolicy" => {
            let policy = api::strict::policy(document).map_err(|refused| {
                // What is misspelt comes before what is therefore missing.
                let rank = |f: &&api::schema::Finding| f.message.starts_with("is missing");
                let first = refused.findings.iter().min_by_key(rank).expect("an error has a finding");
                let text = match first.path.as_str() {
                    "" => first.message.clone(),
                    path => format!("{path}: {}", first.message),
                };
                source.error(first.place.unwrap_or(document.place), &text)
            })?;
            Object::Policy(Box::new(policy))
        }
        "Node" => Object::Node(typed(document, source)?),
        "Pod" => Object::Pod(typed(document, source)?),
        "Namespace" => Object::Namespace(typed(document, source)?),
        "ConfigMap" => Object::Map(typed(document, source)?),
        "PodDisruptionBudget" => Object::Budget(typed(document, source)?),
        "PriorityClass" => Object::Priority(typed(document, source)?),
        "Notebook" => Object::Notebook(typed(document, source)?),
        "HardwareProfile" => Object::Profile(typed(document, source)?),
        other => Object::Other(other.to_owned()),
    })
}

fn typed<T: DeserializeOwned>(document: &Located, source: &Source<'_>) -> Result<Box<T>, StoryError> {
    let named = document.get("metadata").and_then(|m| m.get("name")).and_then(Located::as_str);
    if named.is_none_or(str::is_empty) {
        return Err(source.error(document.place, "metadata.name is missing"));
    }
    serde_json::from_value(document.to_value())
        .map(Box::new)
        .map_err(|error| source.error(document.place, &format!("this object cannot be read: {error}")))
}
