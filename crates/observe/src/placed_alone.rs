//! Objects that say that each of their jobs, or of their groups of pods, has a part of the cluster to itself.
//!
//! Sources: the API of JobSet v0.12.0, and of LeaderWorkerSet v0.9.0.

use std::collections::BTreeMap;

use serde_json::Value;

/// The kind of those whose pods are made when they are let go.
pub(crate) const JOB_SET: &str = "JobSet";

/// The annotations by which they say so, by kind; the value is the label of nodes that makes the parts of the cluster.
const SAID_BY: [(&str, &str); 2] = [
    (JOB_SET, "alpha.jobset.sigs.k8s.io/exclusive-topology"),
    ("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/exclusive-topology"),
];

/// With it, a JobSet is placed by labels that an administrator has prepared, and no pod says anything of others.
const BY_SELECTORS: &str = "alpha.jobset.sigs.k8s.io/node-selector";

/// How long the key of a label may be: a domain, a slash, and a name.
const LONGEST_LABEL: usize = 317;

/// The label by which an object of this kind says that its jobs or groups are placed so, if it does.
#[must_use]
pub fn label_of(kind: &str, annotations: Option<&BTreeMap<String, String>>) -> Option<String> {
    let (_, annotation) = SAID_BY.into_iter().find(|(of, _)| *of == kind)?;
    let annotations = annotations?;
    let label = annotations.get(annotation).filter(|label| label.len() <= LONGEST_LABEL)?;
    (!annotations.contains_key(BY_SELECTORS)).then(|| label.clone())
}

/// The annotations of an object of this kind that says so.
pub(crate) fn as_annotations(kind: &str, label: &str) -> Value {
    let said = SAID_BY.into_iter().filter(|(of, _)| *of == kind);
    said.map(|(_, annotation)| (annotation.to_owned(), Value::from(label))).collect()
}
