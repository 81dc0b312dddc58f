//! What a maintainer asks for first, read from a live cluster: the statuses, the operator's own objects and
//! logs, MIG manager's logs, and our events. It reads only, no Secret, and of ConfigMaps only the operator's map.
//! What cannot be read is listed; the rest is still read.

use std::collections::BTreeMap;

use http::Request;
use serde_json::Value;

use crate::calls::Calls;

/// How many lines of a log are taken: a day of an operator that is busy.
const LINES: u32 = 20_000;
/// What the operator signs its events with.
const SIGNED: &str = "slicewright.io/operator";

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The operator's namespace.
    pub operator_namespace: String,
    /// That of the GPU Operator.
    pub gpu_operator_namespace: String,
    /// The operator's map of layouts there.
    pub map_name: String,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Files, by their path in the bundle.
    pub files: BTreeMap<String, String>,
    /// What could not be read, and why.
    pub missing: Vec<(String, String)>,
}

/// Reads it.
pub async fn collect(calls: &Calls, ask: &Ask) -> Collected {
    let Ask { operator_namespace: ours, gpu_operator_namespace: theirs, map_name } = ask;
    let mut reading = Reading { calls, collected: Collected::default() };
    for (file, path) in [
        ("version.json", "/version".to_owned()),
        ("policies.json", "/apis/slicewright.io/v1alpha1/gpupartitionpolicies".to_owned()),
        ("gpunodes.json", "/apis/slicewright.io/v1alpha1/gpunodes".to_owned()),
        ("cluster-policies.json", "/apis/nvidia.com/v1/clusterpolicies".to_owned()),
        ("map.json", format!("/api/v1/namespaces/{theirs}/configmaps/{map_name}")),
        ("operator/deployments.json", format!("/apis/apps/v1/namespaces/{ours}/deployments")),
        ("operator/leases.json", format!("/apis/coordination.k8s.io/v1/namespaces/{ours}/leases")),
    ] {
        if let Some(value) = reading.json(file, &path).await {
            reading.keep(file, value);
        }
    }
    if let Some(events) = reading.json("events.json", "/apis/events.k8s.io/v1/events").await {
        reading.keep("events.json", of_ours(events));
    }
    for (folder, namespace, selector) in [
        ("operator", ours, "app.kubernetes.io/name=slicewright"),
        ("mig-manager", theirs, "app=nvidia-mig-manager"),
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={}", escaped(selector));
        let file = format!("{folder}/pods.json");
        let Some(pods) = reading.json(&file, &path).await else { continue };
        for name in names(&pods) {
            let log =
                format!("/api/v1/namespaces/{namespace}/pods/{name}/log?timestamps=true&tailLines={LINES}");
            reading.log(&format!("{folder}/{name}.log"), &log).await;
            // Why a container was restarted is in the log of the one before, which most pods do not have.
            if restarted(&pods, &name) {
                reading.log(&format!("{folder}/{name}.before.log"), &format!("{log}&previous=true")).await;
            }
        }
        reading.keep(&file, pods);
    }
    reading.collected
}

/// The events that the operator wrote.
fn of_ours(mut events: Value) -> Value {
    if let Some(items) = events["items"].as_array_mut() {
        items.retain(|event| event["reportingController"] == SIGNED);
    }
    events
}

/// A value in a query.
fn escaped(text: &str) -> String {
    text.replace('/', "%2F").replace('=', "%3D")
}

fn names(pods: &Value) -> Vec<String> {
    let items = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

fn restarted(pods: &Value, name: &str) -> bool {
    let items = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_it = items.iter().filter(|pod| pod["metadata"]["name"] == name);
    let containers = |pod: &Value| pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    of_it.flat_map(containers).any(|container| container["restartCount"].as_u64() > Some(0))
}

/// Takes away what only says which client wrote which field.
fn without_managers(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("managedFields");
            map.values_mut().for_each(without_managers);
        }
        Value::Array(all) => all.iter_mut().for_each(without_managers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Reading<'a> {
    calls: &'a Calls,
    collected: Collected,
}

impl Reading<'_> {
    async fn text(&mut self, file: &str, path: &str) -> Option<String> {
        let request = match Request::get(path).body(Vec::new()) {
            Ok(request) => request,
            Err(error) => return self.misses(file, &error.to_string()),
        };
        let client = self.calls.client();
        match self.calls.ask(file, client.request_text(request)).await {
            Ok(text) => Some(text),
            Err(error) => {
                let mut why = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    why = format!("{why}: {cause}");
                    source = cause.source();
                }
                self.misses(file, &why)
            }
        }
    }

    fn misses<T>(&mut self, file: &str, why: &str) -> Option<T> {
        self.collected.missing.push((file.to_owned(), why.to_owned()));
        None
    }

    async fn json(&mut self, file: &str, path: &str) -> Option<Value> {
        let text = self.text(file, path).await?;
        match serde_json::from_str(&text) {
            Ok(value) => Some(value),
            Err(error) => self.misses(file, &format!("the answer is not JSON: {error}")),
        }
    }

    async fn log(&mut self, file: &str, path: &str) {
        if let Some(text) = self.text(file, path).await {
            self.collected.files.insert(file.to_owned(), text);
        }
    }

    fn keep(&mut self, file: &str, mut value: Value) {
        without_managers(&mut value);
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        self.collected.files.insert(file.to_owned(), text + "\n");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_events_only_ours_are_kept_and_nobodys_managers() {
        let events = json!({"items": [
            {"reportingController": SIGNED, "note": "a", "metadata": {"managedFields": [1], "name": "x"}},
            {"reportingController": "kubelet", "note": "b"},
        ]});
        let mut kept = of_ours(events);
        without_managers(&mut kept);
        assert_eq!(
            kept,
            json!({"items": [{"reportingController": SIGNED, "note": "a", "metadata": {"name": "x"}}]})
        );
    }

    #[test]
    fn the_log_before_a_restart_is_asked_for_where_there_was_one() {
        let pods = json!({"items": [
            {"metadata": {"name": "a"}, "status": {"containerStatuses": [{"restartCount": 0}]}},
            {"metadata": {"name": "b"}, "status": {"containerStatuses": [{"restartCount": 2}]}},
        ]});
        assert_eq!(names(&pods), ["a", "b"]);
        assert_eq!((restarted(&pods, "a"), restarted(&pods, "b")), (false, true));
        assert_eq!(escaped("app.kubernetes.io/name=x"), "app.kubernetes.io%2Fname%3Dx");
    }
}
