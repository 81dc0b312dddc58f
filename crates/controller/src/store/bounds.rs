//! Limits for the memory of one object of others, and of one namespace.
//!
//! A user who may create pods may write a megabyte of node affinity into a pod, and create ten thousand of
//! them. An object is bounded while it is read ([`Bounded`]): unused fields are skipped, and the rest has a
//! limit. A waiting pod is bounded again when it is stored: its scheduling constraints are kept if they are
//! short, and otherwise as a digest, for which the answer is "too long to be evaluated". The same happens
//! if the pods of one namespace exceed a limit together; pods of other namespaces are not affected. The
//! resources that a pod takes of its node are never dropped.

use std::collections::BTreeMap;
use std::fmt;

use api::foreign::hardware_profile::{PROFILE_NAME, PROFILE_NAMESPACE};
use api::foreign::notebook::STOPPED;
use api::foreign::workload::REPLACES;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
};
use kube::Resource;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::{Map, Value, json};

/// How much one member of an object may have, such as `spec.affinity`. A pod
/// of a real workload has some hundred bytes.
const MOST_OF_A_MEMBER: usize = 32 << 10;
/// How much where a pod may go may come to, in memory.
pub const MOST_OF_A_POD: usize = 8 << 10;
/// How much that may come to for all pods and workbenches of one namespace.
pub const MOST_OF_A_NAMESPACE: usize = 4 << 20;
/// How many resources of NVIDIA's one pod is known to ask for. No node offers
/// as many, so nobody who asks for more holds any.
pub const MOST_RESOURCES: usize = 32;
/// How many other resources, such as network interfaces. A pod has a few of them.
pub const MOST_OTHER_RESOURCES: usize = 8;
/// How many claims of volumes are kept of each set of a workload's pods.
pub const MOST_CLAIMS: usize = 4;
/// How many containers are kept each by itself.
pub const MOST_CONTAINERS: usize = 16;
/// How much of what others say is kept.
pub const LONGEST_WORDS: usize = 2 << 10;

/// An object that was cut while it was read says so here: which member.
const CUT: &str = "slicewright.io/cut-while-read";

/// An object, read within bounds.
#[derive(Clone, Debug)]
pub struct Bounded<K>(pub K);

impl<K: Resource> Resource for Bounded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        self.0.meta_mut()
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Bounded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut cut, mut left) = (Vec::new(), usize::MAX);
        let seed = Seed { place: Place::Object, left: &mut left, cut: &mut cut };
        let mut value = seed.deserialize(deserializer)?;
        if !cut.is_empty() {
            value["metadata"]["annotations"][CUT] = json!(cut.join(","));
        }
        serde_json::from_value(value).map(Self).map_err(|error| de::Error::custom(shortened(&error)))
    }
}

/// What a reader says of what it cannot read may repeat all of it.
fn shortened(error: &serde_json::Error) -> String {
    cut(error.to_string(), 300)
}

/// At most so much of a text.
#[must_use]
pub fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

/// Whether where the pod may go was cut while it was read.
pub(super) fn was_cut(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.is_some_and(|all| all.contains_key(CUT))
}

/// Where in an object a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The object itself, or the template in it.
    Object,
    Metadata,
    Annotations,
    Spec,
    Status,
    Containers,
    Container,
    Volumes,
    Volume,
    PodSets,
    PodSet,
    Admission,
    Assignments,
    Assignment,
    Checks,
    Check,
    PodSetUpdates,
    PodSetUpdate,
    /// Something that is read whole, or as far as its budget goes.
    Rest,
}

impl Place {
    /// What becomes of a member: where it stands, and whether it begins a
    /// budget of its own; nothing when nobody reads it.
    fn member(self, name: &str) -> Option<(Self, Option<usize>)> {
        let bounded = Some((Self::Rest, Some(MOST_OF_A_MEMBER)));
        match (self, name) {
            (Self::Object, "metadata") => Some((Self::Metadata, None)),
            (Self::Object, "spec") => Some((Self::Spec, None)),
            (Self::Object, "status") => Some((Self::Status, None)),
            (Self::Spec, "template") => Some((Self::Object, None)),
            (Self::Spec, "containers" | "initContainers") => Some((Self::Containers, None)),
            // A pod has its claims in a list of them, and a claim the name of its volume.
            (Self::Spec, "volumes") => Some((Self::Volumes, None)),
            (Self::Spec, "volumeName") | (Self::Volume, "name" | "persistentVolumeClaim") => bounded,
            // That it is one is read, and not what it is made of; of a map, its name.
            (Self::Volume, "ephemeral" | "configMap") => Some((Self::Volume, Some(MOST_OF_A_MEMBER))),
            (Self::Spec, "podSets") => Some((Self::PodSets, None)),
            (Self::PodSet, "template") => Some((Self::Object, None)),
            (Self::PodSet, "name" | "count" | "topologyRequest") => bounded,
            // Kueue says there, too, on which of a thousand hosts it puts each pod.
            (Self::Status, "admission") => Some((Self::Admission, None)),
            (Self::Admission, "podSetAssignments") => Some((Self::Assignments, None)),
            (Self::Admission, "clusterQueue") | (Self::Assignment, "name" | "flavors" | "count") => bounded,
            // Each by itself: what one controller says hides no check of another.
            (Self::Status, "admissionChecks") => Some((Self::Checks, None)),
            (Self::Check, "podSetUpdates") => Some((Self::PodSetUpdates, None)),
            (Self::Check, "name" | "state" | "message" | "lastTransitionTime" | "retryCount")
            | (Self::PodSetUpdate, "name" | "nodeSelector" | "tolerations") => bounded,
            // Of a pod, a hardware profile, a workload, an admission check, a flavor, and a local queue.
            (
                Self::Spec,
                "nodeName"
                | "nodeSelector"
                | "affinity"
                | "tolerations"
                | "overhead"
                | "priority"
                | "priorityClassName"
                | "schedulingGates"
                | "resourceClaims"
                | "identifiers"
                | "scheduling"
                | "queueName"
                | "active"
                | "controllerName"
                | "parameters"
                | "nodeLabels"
                | "topologyName"
                | "clusterQueue"
                | "stopPolicy"
                | "topologySpreadConstraints",
            ) => bounded,
            // What a pod takes is never cut.
            (Self::Spec, "resources") | (Self::Container, "name" | "resources" | "restartPolicy") => {
                Some((Self::Rest, None))
            }
            (
                Self::Status,
                "phase" | "reason" | "nominatedNodeName" | "conditions" | "readyReplicas" | "clusterName"
                | "requeueState" | "resourceRequests",
            ) => bounded,
            // By it a profile is known to be in use, and a workbench to be stopped, whatever else is noted there.
            // And a workload to take another's place.
            (Self::Annotations, PROFILE_NAME | PROFILE_NAMESPACE | STOPPED | REPLACES) => bounded,
            (Self::Annotations, "kubectl.kubernetes.io/last-applied-configuration") => None,
            (Self::Annotations, _) => Some((Self::Rest, None)),
            (Self::Metadata, "annotations") => Some((Self::Annotations, Some(MOST_OF_A_MEMBER))),
            (Self::Metadata, "managedFields")
            | (
                Self::Container
                | Self::Volume
                | Self::PodSet
                | Self::Spec
                | Self::Status
                | Self::Admission
                | Self::Assignment
                | Self::Check
                | Self::PodSetUpdate,
                _,
            ) => None,
            (Self::Object | Self::Metadata, _) => bounded,
            (
                Self::Containers
                | Self::Volumes
                | Self::PodSets
                | Self::Assignments
                | Self::Checks
                | Self::PodSetUpdates
                | Self::Rest,
                _,
            ) => Some((Self::Rest, None)),
        }
    }
}

/// Makes a value of what is read, within bounds.
struct Seed<'a> {
    place: Place,
    /// How much of the budget is left.
    left: &'a mut usize,
    /// Members of which something was left out.
    cut: &'a mut Vec<String>,
}

impl Seed<'_> {
    /// What a value costs beside its text.
    const EACH: usize = 16;

    /// Takes it out of the budget. `false`: there is not so much left.
    const fn pay(&mut self, text: usize) -> bool {
        let cost = text + Self::EACH;
        if *self.left < cost {
            *self.left = 0;
            return false;
        }
        if *self.left != usize::MAX {
            *self.left -= cost;
        }
        true
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(mut self, value: &str) -> Result<Value, E> {
        let fits = self.pay(value.len());
        Ok(Value::String(if fits { value.to_owned() } else { String::new() }))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let place = match self.place {
            Place::Containers => Place::Container,
            Place::PodSets => Place::PodSet,
            Place::Volumes => Place::Volume,
            Place::Assignments => Place::Assignment,
            Place::Checks => Place::Check,
            Place::PodSetUpdates => Place::PodSetUpdate,
            _ => Place::Rest,
        };
        let mut all = Vec::new();
        while self.pay(0) {
            let seed = Seed { place, left: self.left, cut: self.cut };
            match items.next_element_seed(seed)? {
                Some(item) => all.push(item),
                None => return Ok(Value::Array(all)),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Some((place, budget)) = self.place.member(&key) else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            if let Some(mut budget) = budget {
                let seed = Seed { place, left: &mut budget, cut: self.cut };
                let value = entries.next_value_seed(seed)?;
                // What people noted on it is nobody's business, however much it is.
                if budget == 0 && self.place == Place::Spec {
                    self.cut.push(key.clone());
                }
                all.insert(key, value);
            } else if self.pay(key.len()) {
                let seed = Seed { place, left: self.left, cut: self.cut };
                all.insert(key, entries.next_value_seed(seed)?);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(all))
    }
}

/// What it costs to keep where a pod may go.
#[must_use]
pub fn cost(spec: &PodSpec) -> usize {
    // Each text is a string, each entry of a map or a list some words more.
    let text = |text: &str| text.len() + 32;
    let maybe = |of: &Option<String>| of.as_deref().map_or(0, text);
    let selector = spec.node_selector.iter().flatten().map(|(key, value)| text(key) + text(value) + 32);
    let tolerations = spec.tolerations.iter().flatten().map(|toleration| {
        128 + maybe(&toleration.key) + maybe(&toleration.value) + maybe(&toleration.effect)
    });
    let node = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let term = |term: &NodeSelectorTerm| {
        let all = term.match_expressions.iter().flatten().chain(term.match_fields.iter().flatten());
        let each = |one: &NodeSelectorRequirement| {
            96 + text(&one.key) + one.values.iter().flatten().map(|value| text(value)).sum::<usize>()
        };
        64 + all.map(each).sum::<usize>()
    };
    let terms = required.into_iter().flat_map(|required| &required.node_selector_terms).map(term);
    selector.sum::<usize>() + tolerations.sum::<usize>() + terms.sum::<usize>()
}

/// Keeps a digest of where a pod may go, and not the rest.
pub(super) fn shorten(spec: &mut PodSpec) {
    let whole = json!([spec.node_selector, spec.affinity, spec.tolerations]);
    let digest = planner::plan::digest(whole.to_string().as_bytes());
    let too_long = NodeSelectorRequirement {
        key: rollout::names::TOO_LONG.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![digest]),
    };
    let term = NodeSelectorTerm { match_expressions: Some(vec![too_long]), match_fields: None };
    let node = NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    };
    spec.node_selector = None;
    spec.tolerations = None;
    spec.affinity = Some(Affinity { node_affinity: Some(node), ..Affinity::default() });
}

/// What the pods and workbenches of each namespace cost together.
#[derive(Debug, Default)]
pub(super) struct Costs(BTreeMap<String, usize>);

impl Costs {
    /// One comes, in the place of another that cost so much. It is shortened
    /// where it would be too much.
    pub(super) fn add(&mut self, namespace: &str, before: usize, spec: &mut PodSpec) {
        let others = self.0.get(namespace).copied().unwrap_or(0).saturating_sub(before);
        let mut now = cost(spec);
        if others + now > MOST_OF_A_NAMESPACE && now > 0 {
            shorten(spec);
            now = cost(spec);
        }
        self.set(namespace, others + now);
    }

    /// One that cost so much is gone.
    pub(super) fn remove(&mut self, namespace: &str, cost: usize) {
        let others = self.0.get(namespace).copied().unwrap_or(0).saturating_sub(cost);
        self.set(namespace, others);
    }

    fn set(&mut self, namespace: &str, cost: usize) {
        if cost == 0 {
            self.0.remove(namespace);
        } else {
            self.0.insert(namespace.to_owned(), cost);
        }
    }
}
