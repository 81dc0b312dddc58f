//! The metadata of foreign objects of which there are many, in little room: Kubernetes' own type has a place for
//! every field that is not there, and a map of one entry takes half a kilobyte.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Serialize};

use super::string_map::StringMap;

/// What is read of the metadata of an object. Its fields are called as Kubernetes calls them; those that are not here
/// are not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "ObjectMeta", into = "ObjectMeta")]
pub struct Metadata {
    /// Its name.
    pub name: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// What tells it from an earlier one of the same name.
    pub uid: Option<String>,
    /// The version of the object.
    pub resource_version: Option<String>,
    /// The version of its spec.
    pub generation: Option<i64>,
    /// When it was created.
    pub creation_timestamp: Option<Time>,
    /// When somebody asked for its end.
    pub deletion_timestamp: Option<Time>,
    /// Its labels.
    pub labels: StringMap,
    /// Its annotations.
    pub annotations: StringMap,
    /// Its owners.
    pub owner_references: Box<[OwnerReference]>,
}

impl Metadata {
    /// Who controls it.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }

    /// In Kubernetes' own type.
    #[must_use]
    pub fn whole(&self) -> ObjectMeta {
        self.clone().into()
    }
}

impl From<ObjectMeta> for Metadata {
    fn from(full: ObjectMeta) -> Self {
        let ObjectMeta {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels,
            annotations,
            owner_references,
            ..
        } = full;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels: labels.unwrap_or_default().into(),
            annotations: annotations.unwrap_or_default().into(),
            owner_references: owner_references.unwrap_or_default().into(),
        }
    }
}

impl From<Metadata> for ObjectMeta {
    fn from(small: Metadata) -> Self {
        let Metadata {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels,
            annotations,
            owner_references,
        } = small;
        Self {
            name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            labels: (!labels.is_empty()).then(|| labels.into()),
            annotations: (!annotations.is_empty()).then(|| annotations.into()),
            owner_references: (!owner_references.is_empty()).then(|| owner_references.into()),
            ..Self::default()
        }
    }
}

/// The namespace and the name of an object, whichever type has them.
pub trait Named {
    /// Its name.
    fn name(&self) -> Option<&str>;
    /// Its namespace.
    fn namespace(&self) -> Option<&str>;
}

impl Named for ObjectMeta {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

impl Named for Metadata {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_is_written_again() {
        let written = json!({"name": "lab", "namespace": "vision", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-11-20T08:00:00Z", "deletionTimestamp": "2026-11-21T08:00:00Z",
            "labels": {"b": "2", "a": "1"}, "annotations": {"c": "3"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Team", "name": "t", "uid": "o", "controller": true}]});
        let read: Metadata = serde_json::from_value(written.clone()).expect("the metadata of an object");
        assert_eq!(json!(read), written);
        assert_eq!(read.controller().map(|owner| owner.name.as_str()), Some("t"));
        assert_eq!(json!(Metadata::default()), json!({}));
    }
}
