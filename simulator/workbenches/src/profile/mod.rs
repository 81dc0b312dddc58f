//! What OpenShift AI's webhook makes of a Notebook whenever it is written: it puts the values of its hardware profile
//! into it, or refuses it. Pure: the stories and the stand-in for the notebook controller call it, and a webhook of the
//! scenarios asks it for each request.

mod rules;

pub use rules::{RULES, Rules, newest, of_release};

use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::{Identifier, NodeScheduling, PROFILE_NAME, PROFILE_NAMESPACE};
use api::foreign::notebook::QUEUE;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

use self::rules::{Containers, Limits};

/// Resources whose limit may be more than what is asked for.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// A Notebook that is let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Reviewed {
    /// What is stored.
    pub notebook: Value,
    /// What whoever wrote it is told beside.
    pub warnings: Vec<String>,
}

impl Reviewed {
    fn as_it_is(notebook: Value) -> Self {
        Self { notebook, warnings: Vec::new() }
    }
}

/// Why a Notebook is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Reviews a Notebook that is written, with what was there `before`; `find` finds a profile by namespace and name.
///
/// # Errors
/// When its profile does not exist.
pub fn review(
    rules: &Rules,
    mut notebook: Value,
    before: Option<&Value>,
    find: impl Fn(&str, &str) -> Option<HardwareProfile>,
) -> Result<Reviewed, Refused> {
    let named_before = before.and_then(named);
    if notebook["metadata"]["deletionTimestamp"].is_string() {
        return Ok(Reviewed::as_it_is(notebook));
    }
    let Some((namespace, name)) = named(&notebook) else {
        if let Some((namespace, name)) = named_before.filter(|_| rules.merges) {
            take_out(&mut notebook, find(&namespace, &name).as_ref());
        }
        return Ok(Reviewed::as_it_is(notebook));
    };
    let Some(profile) = find(&namespace, &name) else {
        let was_named = named_before.is_some_and(|(_, before)| before == name);
        if rules.forgives && was_named {
            let warning =
                format!("hardware profile '{name}' in namespace '{namespace}' does not exist any more");
            return Ok(Reviewed { notebook, warnings: vec![warning] });
        }
        return Err(Refused(format!("hardware profile '{name}' not found in namespace '{namespace}'")));
    };
    // A profile that says nothing leaves the Notebook as it is, to the letter: seen of 2.25, and taken to hold until 3.4.
    let says_nothing = profile.spec.identifiers.is_empty() && profile.spec.scheduling.is_none();
    if says_nothing && rules.limits == Limits::Most {
        return Ok(Reviewed::as_it_is(notebook));
    }
    object(metadata(&mut notebook), "annotations")
        .entry(PROFILE_NAMESPACE)
        .or_insert_with(|| json!(namespace));
    if rules.containers == Containers::Own && own(&notebook).is_none() {
        let warning =
            format!("hardware profile '{name}' was not applied: no container is named like the Notebook");
        return Ok(Reviewed { notebook, warnings: vec![warning] });
    }
    if rules.merges && named_before.is_some_and(|before| before != (namespace, name)) {
        clear(&mut notebook);
    }
    put_resources(rules, &mut notebook, &profile.spec.identifiers);
    put_scheduling(rules, &mut notebook, &profile);
    Ok(Reviewed::as_it_is(notebook))
}

/// Namespace and name of the profile that a Notebook names, if it names one.
fn named(notebook: &Value) -> Option<(String, String)> {
    let metadata = &notebook["metadata"];
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let name = text(&metadata["annotations"][PROFILE_NAME])?;
    let namespace =
        text(&metadata["annotations"][PROFILE_NAMESPACE]).or_else(|| text(&metadata["namespace"]));
    Some((namespace.unwrap_or_default(), name))
}

fn put_resources(rules: &Rules, notebook: &mut Value, identifiers: &[Identifier]) {
    if identifiers.is_empty() {
        return;
    }
    let own = own(notebook);
    for (nth, container) in containers(notebook).iter_mut().enumerate() {
        let Some(container) = container.as_object_mut() else { continue };
        if rules.containers == Containers::Own && own != Some(nth) {
            continue;
        }
        let resources = object(container, "resources");
        if rules.limits == Limits::Most {
            // It makes both, and may leave one empty.
            for kind in ["requests", "limits"] {
                object(resources, kind);
            }
        }
        for identifier in identifiers {
            let key = &identifier.identifier;
            // What the user has said stays.
            if let Some(count) = identifier.default_count.as_ref() {
                object(resources, "requests").entry(key).or_insert_with(|| quantity(count));
            }
            let asked = object(resources, "requests").get(key).cloned();
            let most = identifier.max_count.as_ref().map(quantity);
            let limit = match rules.limits {
                Limits::Most => most,
                Limits::AskedButMostOfStandard if STANDARD.contains(&key.as_str()) => most,
                Limits::AskedButMostOfStandard | Limits::Asked => asked,
            };
            if let Some(limit) = limit {
                object(resources, "limits").entry(key).or_insert(limit);
            }
        }
    }
}

fn put_scheduling(rules: &Rules, notebook: &mut Value, profile: &HardwareProfile) {
    let Some(scheduling) = &profile.spec.scheduling else { return };
    let queue = scheduling.kueue.as_ref().map(|kueue| &kueue.local_queue_name);
    if let Some(queue) = queue.filter(|queue| !queue.is_empty()) {
        object(metadata(notebook), "labels").insert(QUEUE.to_owned(), json!(queue));
        if rules.queue_decides {
            return;
        }
    }
    let (Some(node), Some(pod)) = (&scheduling.node, pod_spec(notebook)) else { return };
    if !node.node_selector.is_empty() {
        if !rules.merges {
            pod.remove("nodeSelector");
        }
        let selector = node.node_selector.iter().map(|(key, value)| (key.clone(), json!(value)));
        object(pod, "nodeSelector").extend(selector);
    }
    let wanted = tolerations(node);
    if !wanted.is_empty() {
        let beside = others(pod, &wanted).into_iter().filter(|_| rules.merges);
        pod.insert("tolerations".to_owned(), wanted.iter().cloned().chain(beside).collect());
    }
}

/// What a profile gave that is not the one any more: all of it, and what the user has said of the same things.
fn clear(notebook: &mut Value) {
    if let Some(own) = own(notebook)
        && let Some(container) = containers(notebook)[own].as_object_mut()
    {
        container.remove("resources");
    }
    if let Some(pod) = pod_spec(notebook) {
        pod.remove("nodeSelector");
        pod.remove("tolerations");
    }
    object(metadata(notebook), "labels").remove(QUEUE);
}

/// Takes out where a profile said that the Notebook runs, which names none any more. The resources stay.
fn take_out(notebook: &mut Value, profile: Option<&HardwareProfile>) {
    object(metadata(notebook), "annotations").remove(PROFILE_NAMESPACE);
    let Some(scheduling) = profile.and_then(|profile| profile.spec.scheduling.as_ref()) else { return };
    if scheduling.kueue.is_some() {
        object(metadata(notebook), "labels").remove(QUEUE);
    }
    let (Some(node), Some(pod)) = (&scheduling.node, pod_spec(notebook)) else { return };
    object(pod, "nodeSelector")
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

/// Which container is the workbench's own: the only one, or the one that is named like the Notebook.
fn own(notebook: &Value) -> Option<usize> {
    let containers = notebook.pointer("/spec/template/spec/containers")?.as_array()?;
    if containers.len() == 1 {
        return Some(0);
    }
    containers.iter().position(|container| container["name"] == notebook["metadata"]["name"])
}

fn containers(notebook: &mut Value) -> &mut [Value] {
    let found = notebook.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    found.map_or(&mut [], Vec::as_mut_slice)
}

fn pod_spec(notebook: &mut Value) -> Option<&mut Map<String, Value>> {
    notebook.pointer_mut("/spec/template/spec")?.as_object_mut()
}

fn metadata(notebook: &mut Value) -> &mut Map<String, Value> {
    if !notebook["metadata"].is_object() {
        notebook["metadata"] = json!({});
    }
    notebook["metadata"].as_object_mut().expect("it was made one")
}

/// The map under a key, which is made when it is not there.
fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made one")
}

#[cfg(test)]
mod tests;
