//! Which pod speaks for which request.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use planner::names::RequestId;

use super::NOTEBOOK;

/// The pods that speak for requests, in one namespace.
pub(crate) type OfNamespace = BTreeMap<RequestId, Arc<Pod>>;

/// The pods that speak for requests, by namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speakers(BTreeMap<String, Arc<OfNamespace>>);

impl Speakers {
    pub(super) fn insert(&mut self, namespace: &str, speakers: Arc<OfNamespace>) {
        self.0.insert(namespace.to_owned(), speakers);
    }

    /// The pod that speaks for a request.
    pub(crate) fn get(&self, id: &RequestId) -> Option<&Pod> {
        self.0.get(&id.namespace)?.get(id).map(Arc::as_ref)
    }

    /// The pods of workbenches, in the order of namespace, name and number.
    pub(crate) fn of_workbenches(&self) -> impl Iterator<Item = (&RequestId, &Pod)> {
        self.0.values().flat_map(|speakers| of_workbenches(speakers))
    }
}

/// The pods of workbenches of a namespace, in the order of name and number.
pub(super) fn of_workbenches(speakers: &OfNamespace) -> impl Iterator<Item = (&RequestId, &Pod)> {
    let first =
        RequestId { kind: NOTEBOOK.to_owned(), namespace: String::new(), name: String::new(), ordinal: 0 };
    let from_there = speakers.range(first..).map(|(id, pod)| (id, pod.as_ref()));
    from_there.take_while(|(id, _)| id.kind == NOTEBOOK)
}
