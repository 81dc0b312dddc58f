//! Where in an object the webhook writes: it depends on the kind.

use serde_json::{Map, Value, json};

/// A kind that names a hardware profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A workbench.
    Notebook,
    /// A model server of KServe. Its resources are those of `spec.predictor.model`; one whose predictor is made of
    /// containers gets none.
    InferenceService,
    /// A server of a large language model. Where it names no container, one called `main` is made for the resources.
    /// Of `spec.worker`, which a server over several nodes has beside its template, no release speaks: it gets nothing.
    LlmInferenceService,
}

/// The container of an `LLMInferenceService` that serves.
const MAIN: &str = "main";

impl Workload {
    /// The kind of this name.
    #[must_use]
    pub fn of_kind(kind: &str) -> Option<Self> {
        match kind {
            "Notebook" => Some(Self::Notebook),
            "InferenceService" => Some(Self::InferenceService),
            "LLMInferenceService" => Some(Self::LlmInferenceService),
            _ => None,
        }
    }

    /// The path to where it is said on which nodes its pod runs.
    const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Notebook => &["spec", "template", "spec"],
            Self::InferenceService => &["spec", "predictor"],
            Self::LlmInferenceService => &["spec", "template"],
        }
    }

    /// What is said there, if anything.
    pub(super) fn pod_if_there(self, object: &mut Value) -> Option<&mut Map<String, Value>> {
        let found = self.path().iter().try_fold(object, |found, key| found.get_mut(*key));
        found?.as_object_mut()
    }

    /// The same, which is made when it is not there.
    pub(super) fn pod(self, object: &mut Value) -> &mut Map<String, Value> {
        if !object.is_object() {
            *object = json!({});
        }
        let whole = object.as_object_mut().expect("it was made one");
        self.path().iter().fold(whole, |found, key| below(found, key))
    }

    /// Which of its [containers](Self::containers) is its own; `None` when none of them is.
    pub(super) fn own(self, object: &Value) -> Option<usize> {
        let named = self.path().iter().try_fold(object, |found, key| found.get(*key));
        let named = named.and_then(|pod| pod["containers"].as_array()).map_or(&[][..], Vec::as_slice);
        let of_name = |name: &Value| named.iter().position(|container| container["name"] == *name);
        match self {
            Self::InferenceService => Some(0),
            // Nobody is looked for among none.
            _ if named.is_empty() => Some(0),
            Self::Notebook if named.len() == 1 => Some(0),
            Self::Notebook => of_name(&object["metadata"]["name"]),
            Self::LlmInferenceService => of_name(&json!(MAIN)),
        }
    }

    /// What may get resources, in its order.
    pub(super) fn containers(self, object: &mut Value) -> Vec<&mut Map<String, Value>> {
        if self == Self::InferenceService {
            let model = self.pod_if_there(object).and_then(|predictor| predictor.get_mut("model"));
            return model.and_then(Value::as_object_mut).into_iter().collect();
        }
        if self == Self::LlmInferenceService {
            let pod = self.pod(object);
            if pod.get("containers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                pod.insert("containers".to_owned(), json!([{"name": MAIN}]));
            }
        }
        let named = self.pod_if_there(object).and_then(|pod| pod.get_mut("containers"));
        let named = named.and_then(Value::as_array_mut).map_or(&mut [][..], Vec::as_mut_slice);
        named.iter_mut().filter_map(Value::as_object_mut).collect()
    }
}

/// The map under a key, which is made when it is not there.
pub(super) fn below<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made one")
}
