//! What OpenShift AI's webhooks make of a workbench or a model server whenever it is written: they put the values of its
//! hardware profile into it, or refuse it. Pure: the stories and the stand-in for the notebook controller call it, and a
//! webhook of the scenarios asks it for each request.
//!
//! The events that the webhooks make, and the warnings of a value of the user that a profile overwrites, are left out.

mod rules;
mod workload;

pub use rules::{RULES, Rules, newest, of_release};
pub use workload::Workload;

use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::{Identifier, NodeScheduling, PROFILE_NAME, PROFILE_NAMESPACE};
use api::foreign::notebook::QUEUE;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use self::rules::{Containers, Limits, Nodes, Servers};
use self::workload::below;

/// Resources whose limit may be more than what is asked for.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// An object that is let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Reviewed {
    /// What is stored.
    pub object: Value,
    /// What whoever wrote it is told beside.
    pub warnings: Vec<String>,
}

impl Reviewed {
    fn as_it_is(object: Value) -> Self {
        Self { object, warnings: Vec::new() }
    }
}

/// Why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Reviews an object that is written, with what was there `before`; `find` finds a profile by namespace and name.
///
/// # Errors
/// When its profile does not exist.
pub fn review(
    rules: &Rules,
    workload: Workload,
    mut object: Value,
    before: Option<&Value>,
    find: impl Fn(&str, &str) -> Option<HardwareProfile>,
) -> Result<Reviewed, Refused> {
    if workload == Workload::LlmInferenceService && rules.servers == Servers::OfOneKind {
        return Ok(Reviewed::as_it_is(object));
    }
    let named_before = before.and_then(named);
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Ok(Reviewed::as_it_is(object));
    }
    let Some((namespace, name)) = named(&object) else {
        if let Some((namespace, name)) = named_before.filter(|_| rules.nodes == Nodes::Merged) {
            take_out(workload, &mut object, find(&namespace, &name).as_ref());
        }
        return Ok(Reviewed::as_it_is(object));
    };
    let by_model_controller = workload != Workload::Notebook && rules.servers == Servers::ByModelController;
    let Some(profile) = find(&namespace, &name) else {
        let was_named = named_before.is_some_and(|(_, before)| before == name);
        if rules.forgives && was_named && workload == Workload::Notebook {
            let warning =
                format!("hardware profile '{name}' in namespace '{namespace}' does not exist any more");
            return Ok(Reviewed { object, warnings: vec![warning] });
        }
        let quote = if by_model_controller { '"' } else { '\'' };
        return Err(Refused(format!(
            "hardware profile {quote}{name}{quote} not found in namespace {quote}{namespace}{quote}"
        )));
    };
    // Up to 3.1, a profile that says nothing leaves an object as it is, to the letter.
    let says_nothing = profile.spec.identifiers.is_empty() && profile.spec.scheduling.is_none();
    if says_nothing && rules.nodes == Nodes::Replaced {
        return Ok(Reviewed::as_it_is(object));
    }
    below(metadata(&mut object), "annotations").entry(PROFILE_NAMESPACE).or_insert_with(|| json!(namespace));
    if rules.containers == Containers::Own && workload.own(&object).is_none() {
        let whose = if workload == Workload::Notebook { "like the Notebook" } else { "main" };
        let warning = format!("hardware profile '{name}' was not applied: no container is named {whose}");
        let warnings = if by_model_controller { Vec::new() } else { vec![warning] };
        return Ok(Reviewed { object, warnings });
    }
    let is_another = named_before.is_some_and(|before| before != (namespace, name));
    match rules.nodes {
        Nodes::Replaced => {}
        Nodes::Cleared => clear_nodes(workload, &mut object),
        Nodes::Merged if is_another => {
            clear_nodes(workload, &mut object);
            if rules.clears_resources && workload == Workload::Notebook {
                clear_resources(&mut object);
            }
        }
        Nodes::Merged => {}
    }
    put_resources(rules, workload, &mut object, &profile.spec.identifiers);
    put_scheduling(rules, workload, &mut object, &profile);
    Ok(Reviewed::as_it_is(object))
}

/// Namespace and name of the profile that an object names, if it names one.
fn named(object: &Value) -> Option<(String, String)> {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let name = text(&metadata["annotations"][PROFILE_NAME])?;
    let namespace =
        text(&metadata["annotations"][PROFILE_NAMESPACE]).or_else(|| text(&metadata["namespace"]));
    Some((namespace.unwrap_or_default(), name))
}

fn put_resources(rules: &Rules, workload: Workload, object: &mut Value, identifiers: &[Identifier]) {
    if identifiers.is_empty() {
        return;
    }
    let own = workload.own(object);
    for (nth, container) in workload.containers(object).into_iter().enumerate() {
        if rules.containers == Containers::Own && own != Some(nth) {
            continue;
        }
        let resources = below(container, "resources");
        if rules.limits == Limits::Most {
            // It makes both, and may leave one empty.
            for kind in ["requests", "limits"] {
                below(resources, kind);
            }
        }
        for identifier in identifiers {
            let key = &identifier.identifier;
            // What the user has said stays.
            if let Some(count) = identifier.default_count.as_ref() {
                below(resources, "requests").entry(key).or_insert_with(|| quantity(count));
            }
            let asked = below(resources, "requests").get(key).cloned();
            let most = identifier.max_count.as_ref().map(quantity);
            let limit = match rules.limits {
                Limits::Most => most,
                Limits::AskedButMostOfStandard if STANDARD.contains(&key.as_str()) => most,
                Limits::AskedButMostOfStandard | Limits::Asked => asked,
            };
            if let Some(limit) = limit {
                below(resources, "limits").entry(key).or_insert(limit);
            }
        }
    }
}

fn put_scheduling(rules: &Rules, workload: Workload, object: &mut Value, profile: &HardwareProfile) {
    let Some(scheduling) = &profile.spec.scheduling else { return };
    let queue = scheduling.kueue.as_ref().map(|kueue| &kueue.local_queue_name);
    if let Some(queue) = queue.filter(|queue| !queue.is_empty()) {
        below(metadata(object), "labels").insert(QUEUE.to_owned(), json!(queue));
        if rules.queue_decides {
            return;
        }
    }
    let Some(node) = &scheduling.node else { return };
    let merges = rules.nodes == Nodes::Merged;
    if !node.node_selector.is_empty() {
        let pod = workload.pod(object);
        if !merges {
            pod.remove("nodeSelector");
        }
        let selector = node.node_selector.iter().map(|(key, value)| (key.clone(), json!(value)));
        below(pod, "nodeSelector").extend(selector);
    }
    let wanted = tolerations(node);
    if !wanted.is_empty() {
        let pod = workload.pod(object);
        let beside = others(pod, &wanted).into_iter().filter(|_| merges);
        let all = wanted.iter().cloned().chain(beside).collect();
        pod.insert("tolerations".to_owned(), all);
    }
}

/// Where an object runs, by a profile that is not the one any more or by its user.
fn clear_nodes(workload: Workload, object: &mut Value) {
    if let Some(pod) = workload.pod_if_there(object) {
        pod.remove("nodeSelector");
        pod.remove("tolerations");
    }
    if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(QUEUE);
    }
}

/// What a Notebook asks for, by a profile that is not the one any more or by its user.
fn clear_resources(notebook: &mut Value) {
    let own = Workload::Notebook.own(notebook);
    let container = Workload::Notebook.containers(notebook).into_iter().nth(own.unwrap_or(usize::MAX));
    if let Some(container) = container {
        container.remove("resources");
    }
}

/// Takes out where a profile said that an object runs, which names none any more. The resources stay.
fn take_out(workload: Workload, object: &mut Value, profile: Option<&HardwareProfile>) {
    below(metadata(object), "annotations").remove(PROFILE_NAMESPACE);
    let Some(scheduling) = profile.and_then(|profile| profile.spec.scheduling.as_ref()) else { return };
    if scheduling.kueue.is_some() {
        below(metadata(object), "labels").remove(QUEUE);
    }
    let (Some(node), Some(pod)) = (&scheduling.node, workload.pod_if_there(object)) else { return };
    below(pod, "nodeSelector")
        .retain(|key, value| node.node_selector.get(key).map(|v| json!(v)).as_ref() != Some(value));
    let left = others(pod, &tolerations(node));
    pod.insert("tolerations".to_owned(), json!(left));
    pod.retain(|key, value| !["nodeSelector", "tolerations"].contains(&key.as_str()) || !is_empty(value));
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn tolerations(node: &NodeScheduling) -> Vec<Value> {
    node.tolerations.iter().map(|toleration| json!(toleration)).collect()
}

/// The tolerations of a pod that are not among these.
fn others(pod: &Map<String, Value>, these: &[Value]) -> Vec<Value> {
    let all = pod.get("tolerations").and_then(Value::as_array).into_iter().flatten();
    all.filter(|toleration| !these.contains(toleration)).cloned().collect()
}

fn quantity(count: &IntOrString) -> Value {
    match count {
        IntOrString::Int(n) => json!(n.to_string()),
        IntOrString::String(text) => json!(text),
    }
}

fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"].as_object_mut().expect("it was made one")
}

#[cfg(test)]
mod tests;
