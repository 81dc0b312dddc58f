//! A recorded fleet: a file of our own with the objects as the API server returns them, without the fields
//! that are not read.
//!
//! ```yaml
//! apiVersion: snapshot.slicewright.io/v1
//! kind: Snapshot
//! takenAt: 2026-11-20T08:00:00Z     # the moment that "now" is for everything read from it
//! cluster: lab                      # a name for people; may be left out
//! provenance: {}                    # who recorded it, of what, and what was left out; may be left out
//! objects: []                       # nodes, pods, notebooks, policies, ... in any order
//! ```
//!
//! [`record`] writes what [`read`] reads; [`redact`] removes the names before.

mod found_names;
mod placed;
mod pseudonyms;
pub mod record;
pub mod redact;
mod selected;
mod stripped;

use api::located::{Located, Node as Tree, Place, documents};
use api::spelling;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use crate::objects::Objects;
use crate::pods::{self, Life, WaitsFor, amount};
use crate::problem::{Location, Problem, Severity};

/// The version that this release reads and writes.
pub const API_VERSION: &str = "snapshot.slicewright.io/v1";
/// The group of recordings, whatever their version.
const SNAPSHOTS: &str = "snapshot.slicewright.io/";
/// The kind.
pub const KIND: &str = "Snapshot";
const FIELDS: [&str; 6] = ["apiVersion", "kind", "takenAt", "cluster", "provenance", "objects"];

pub use pseudonyms::Pseudonyms;

/// Where a recording comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// The program that recorded it, and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_by: Option<String>,
    /// The version of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Kinds that the cluster does not have, by the names of their CRDs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Objects that are there and could not be read, and so are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
    /// That names were replaced, and which were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<Redacted>,
}

/// What was kept of names that were replaced otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Redacted {
    /// Namespaces that kept their names because somebody asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_namespaces: Vec<String>,
    /// Keys of labels that were kept because somebody asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_labels: Vec<String>,
}

/// A recorded fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was recorded.
    pub taken_at: Timestamp,
    /// Which cluster it is of, for people.
    pub cluster: Option<String>,
    /// Where it comes from.
    pub provenance: Provenance,
    /// What was there.
    pub objects: Objects,
}

/// Reads a snapshot. What is wrong goes to `problems`; with an error among
/// them, nothing should be planned on it.
#[must_use]
pub fn read(file: &str, text: &str, problems: &mut Vec<Problem>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut found = documents(text);
    if found.len() != 1 {
        let what = if found.is_empty() { "is empty" } else { "has more than one document" };
        let message = format!("the file {what}; a snapshot is one document of kind {KIND} ({API_VERSION})");
        problems.push(Problem::new(Severity::Error, file, message));
        return snapshot;
    }
    let document = match found.remove(0) {
        Ok(document) => document,
        Err(error) => {
            problems.push(Problem {
                place: Some(Location::new(file, error.place)),
                ..Problem::new(Severity::Error, "", error.message)
            });
            return snapshot;
        }
    };
    let reader = Reader { file, document: &document };
    if !reader.is_snapshot(problems) {
        return snapshot;
    }
    reader.refuse_unknown_fields(problems);
    snapshot.taken_at = reader.taken_at(problems);
    snapshot.cluster = document.get("cluster").and_then(Located::as_str).map(str::to_owned);
    snapshot.provenance = reader.provenance(problems);
    match document.get("objects").map(|objects| &objects.node) {
        Some(Tree::List(items)) => {
            for item in items {
                snapshot.objects.add(item.clone(), file, problems);
            }
        }
        other => {
            let what = if other.is_some() { "is not a list" } else { "is missing" };
            problems.push(reader.wrong("objects", format!("{what}; write a list of Kubernetes objects")));
        }
    }
    reader.refuse_absurd(&snapshot.objects, problems);
    reader.name_the_unjudged(&snapshot.objects, problems);
    snapshot
}

struct Reader<'a> {
    file: &'a str,
    document: &'a Located,
}

impl Reader<'_> {
    fn wrong(&self, field: &str, message: impl Into<String>) -> Problem {
        Problem {
            place: Some(Location::new(self.file, self.document.place_of(field))),
            ..Problem::new(Severity::Error, KIND, message).field(field)
        }
    }

    fn is_snapshot(&self, problems: &mut Vec<Problem>) -> bool {
        for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let given = self.document.get(field).and_then(Located::as_str);
            if given != Some(wanted) {
                problems.push(match given {
                    // Whoever gave another file has the fleet, and needs no release that reads this.
                    Some(group) if field == "apiVersion" && !group.starts_with(SNAPSHOTS) => {
                        self.no_snapshot(group)
                    }
                    given => {
                        let given =
                            given.map_or_else(|| "is missing".to_owned(), |given| format!("is `{given}`"));
                        self.wrong(field, format!("{given}; this release reads {wanted}"))
                    }
                });
                return false;
            }
        }
        true
    }

    /// A manifest in the place of a fleet.
    fn no_snapshot(&self, group: &str) -> Problem {
        let kind = self.document.get("kind").and_then(Located::as_str).unwrap_or("manifest");
        let policies = if group.starts_with(api::GROUP) { "; policies are given with -f" } else { "" };
        let message = format!(
            "this is of kind {kind}, and not a recorded fleet, which `slicewright snapshot` writes{policies}"
        );
        Problem {
            place: Some(Location::new(self.file, self.document.place)),
            ..Problem::new(Severity::Error, "", message)
        }
    }

    fn refuse_unknown_fields(&self, problems: &mut Vec<Problem>) {
        let Tree::Map(entries) = &self.document.node else { return };
        for (key, place, _) in entries.iter().filter(|(key, ..)| !FIELDS.contains(&key.as_str())) {
            let meant = spelling::nearest(key, FIELDS)
                .map(|right| format!("; did you mean `{right}`?"))
                .unwrap_or_default();
            problems.push(Problem {
                place: Some(Location::new(self.file, *place)),
                ..Problem::new(
                    Severity::Error,
                    KIND,
                    format!("this field does not exist{meant} Fields: {}", FIELDS.join(", ")),
                )
                .field(key.clone())
            });
        }
    }

    fn provenance(&self, problems: &mut Vec<Problem>) -> Provenance {
        let Some(given) = self.document.get("provenance") else { return Provenance::default() };
        serde_json::from_value(given.to_value()).unwrap_or_else(|error| {
            let what = "write recordedBy, serverVersion, absent, unreadable, redacted, or leave it out";
            problems.push(self.wrong("provenance", format!("cannot be read: {error}; {what}")));
            Provenance::default()
        })
    }

    fn taken_at(&self, problems: &mut Vec<Problem>) -> Timestamp {
        let text = self.document.get("takenAt").and_then(Located::as_str);
        let parsed = text.map(str::parse::<Timestamp>);
        match parsed {
            Some(Ok(at)) => at,
            Some(Err(_)) | None => {
                let given = text.map_or_else(|| "is missing".to_owned(), |text| format!("is `{text}`"));
                let message = format!("{given}; write a time such as 2026-11-20T08:00:00Z");
                problems.push(self.wrong("takenAt", message));
                Timestamp::UNIX_EPOCH
            }
        }
    }

    /// Numbers that no API server returns. (Overlapping instances, and more slices
    /// held than exist, are found by whoever makes the inventory.) A pod that asks for something that is none would hold
    /// nothing, and its slice would be taken for idle.
    fn refuse_absurd(&self, objects: &Objects, problems: &mut Vec<Problem>) {
        for (name, node) in &objects.nodes {
            let Some(status) = &node.status else { continue };
            let lists = [("capacity", &status.capacity), ("allocatable", &status.allocatable)];
            for (list, quantities) in lists {
                for (resource, quantity) in quantities.iter().flatten() {
                    let Some(message) = absurd(resource, quantity) else { continue };
                    problems.push(Problem {
                        place: Some(Location::new(self.file, self.place_of_quantity(name, list, resource))),
                        ..Problem::new(Severity::Error, format!("Node {name}"), message)
                            .field(format!("status.{list}[{resource}]"))
                    });
                }
            }
        }
        for ((namespace, name), pod) in &objects.pods {
            for (field, resource, quantity) in pod.spec.iter().flat_map(asked_for) {
                let Some(message) = absurd(resource, quantity) else { continue };
                let place = self.item("Pod", Some(namespace), name).map(|pod| pod.place);
                problems.push(Problem {
                    place: Some(Location::new(
                        self.file,
                        place.unwrap_or_else(|| self.document.place_of("objects")),
                    )),
                    ..Problem::new(Severity::Error, format!("Pod {namespace}/{name}"), message)
                        .field(format!("{field}[{resource}]"))
                });
            }
        }
    }

    /// Pods that nothing is planned for, since the scheduler may still find them a node. On a cluster that lasts for
    /// moments; whoever writes a file by hand forgets the condition.
    fn name_the_unjudged(&self, objects: &Objects, problems: &mut Vec<Problem>) {
        for ((namespace, name), pod) in &objects.pods {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_judged = conditions.into_iter().any(|condition| condition.type_ == "PodScheduled");
            let asks = pod.spec.as_ref().is_some_and(pods::asks_for_gpus);
            let waits = pods::life(pod) == Life::Waiting && pods::waits_for(pod) == Some(WaitsFor::Scheduler);
            if !asks || !waits || is_judged {
                continue;
            }
            let place = self.item("Pod", Some(namespace), name).map(|pod| pod.place);
            let message = "has no node and no condition PodScheduled, so the scheduler has not looked at it yet, and nothing is planned for it; one that waits for a slice has {type: PodScheduled, status: \"False\", reason: Unschedulable}";
            problems.push(Problem {
                place: place.map(|place| Location::new(self.file, place)),
                ..Problem::new(Severity::Note, format!("Pod {namespace}/{name}"), message)
                    .field("status.conditions")
            });
        }
    }

    /// An object of the list.
    fn item(&self, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Located> {
        let Tree::List(items) = &self.document.get("objects")?.node else { return None };
        items.iter().find(|item| {
            let text = |field: &str| item.get("metadata").and_then(|metadata| metadata.get(field)?.as_str());
            let is_kind = item.get("kind").and_then(Located::as_str) == Some(kind);
            is_kind
                && text("name") == Some(name)
                && namespace.is_none_or(|namespace| text("namespace").unwrap_or_default() == namespace)
        })
    }

    /// Where a node says how much it has of a resource.
    fn place_of_quantity(&self, name: &str, list: &str, resource: &str) -> Place {
        let quantities = self.item("Node", None, name).and_then(|node| node.get("status")?.get(list));
        let place = match quantities.map(|quantities| &quantities.node) {
            Some(Tree::Map(entries)) => entries.iter().find(|(key, ..)| key == resource),
            _ => None,
        };
        place.map_or_else(|| self.document.place_of("objects"), |(_, place, _)| *place)
    }
}

/// What is wrong with a quantity.
fn absurd(resource: &str, quantity: &Quantity) -> Option<String> {
    let problem = match amount(resource, quantity) {
        Some(n) if n >= 0 => return None,
        Some(_) => "is negative; 0 or more is possible",
        None => "is not a quantity; write a number such as 7, 500m or 64Gi",
    };
    Some(format!("`{}` {problem}", quantity.0))
}

/// All that a pod asks for, with the field that says so.
fn asked_for(spec: &PodSpec) -> impl Iterator<Item = (String, &String, &Quantity)> {
    let lists = [("containers", Some(&spec.containers)), ("initContainers", spec.init_containers.as_ref())];
    let containers = lists.into_iter().flat_map(|(list, containers)| {
        let numbered = containers.into_iter().flatten().enumerate();
        numbered
            .map(move |(i, container)| (format!("spec.{list}[{i}].resources"), container.resources.as_ref()))
    });
    let whole = [("spec.resources".to_owned(), spec.resources.as_ref())];
    let of_resources = containers.chain(whole).flat_map(|(field, resources)| {
        let lists =
            resources.map(|resources| [("limits", &resources.limits), ("requests", &resources.requests)]);
        lists.into_iter().flatten().flat_map(move |(list, quantities)| {
            let field = format!("{field}.{list}");
            quantities.iter().flatten().map(move |(resource, n)| (field.clone(), resource, n))
        })
    });
    let overhead = spec.overhead.iter().flatten();
    of_resources.chain(overhead.map(|(resource, n)| ("spec.overhead".to_owned(), resource, n)))
}
