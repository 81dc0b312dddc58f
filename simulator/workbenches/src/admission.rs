//! What the webhook of odh-notebook-controller makes of a Notebook, before a hardware profile is put into it: it locks
//! a new one, puts a proxy beside it, and does nothing of its own that would restart one that runs. Pure.
//!
//! Read in opendatahub-io/kubeflow at 1aec799 (`components/odh-notebook-controller/controllers`). Left out is the rest
//! of what it puts in: certificates, environments, images from the internal registry. Of the proxy it is the name and
//! the image. That this webhook is asked before the other is inferred: the API server asks in the order of names.

use api::foreign::notebook::{LOCK, STOPPED};
use serde_json::{Map, Value, json};

/// The annotation that says what waits for the next restart.
pub const UPDATE_PENDING: &str = "notebooks.opendatahub.io/update-pending";
/// The annotation that restarts a workbench.
pub const RESTART: &str = "notebooks.opendatahub.io/notebook-restart";
/// The annotation that asks for a proxy.
pub const INJECT_AUTH: &str = "notebooks.opendatahub.io/inject-auth";

const PROXY: &str = "kube-rbac-proxy";
const POD: &str = "/spec/template/spec";

/// What is stored of a Notebook that is written, with what was there `before`, by a controller whose proxy has this
/// image.
///
/// A new one is locked whatever it says itself, so that one which is made as stopped is started. The controller takes
/// the lock away once what the pod needs is there.
#[must_use]
pub fn admit(mut notebook: Value, before: Option<&Value>, proxy: &str) -> Value {
    let asked = notebook.pointer(POD).cloned();
    if before.is_none() {
        annotations(&mut notebook).insert(STOPPED.to_owned(), json!(LOCK));
    }
    if notebook["metadata"]["annotations"][INJECT_AUTH] == "true" {
        put_proxy(&mut notebook, proxy);
    }
    let Some(before) = before else {
        annotations(&mut notebook).remove(UPDATE_PENDING);
        return notebook;
    };
    let has = |key: &str| notebook["metadata"]["annotations"][key].is_string();
    let pod_before = before.pointer(POD);
    // Whoever changes the pod restarts it anyway.
    let user_changes_it = asked.as_ref() != pod_before;
    let would_restart = notebook.pointer(POD) != pod_before && !has(STOPPED) && !has(RESTART);
    if would_restart && !user_changes_it {
        if let (Some(pod), Some(asked)) = (notebook.pointer_mut(POD), asked) {
            *pod = asked;
        }
        // The real one says the first difference in words of its library.
        annotations(&mut notebook).insert(UPDATE_PENDING.to_owned(), json!("the containers differ"));
    } else {
        annotations(&mut notebook).remove(UPDATE_PENDING);
    }
    notebook
}

/// The proxy as this controller has it, in the place of one that is there.
fn put_proxy(notebook: &mut Value, image: &str) {
    let containers = notebook.pointer_mut(POD).and_then(|pod| pod.get_mut("containers"));
    let Some(containers) = containers.and_then(Value::as_array_mut) else { return };
    match containers.iter_mut().find(|container| container["name"] == PROXY) {
        Some(there) => there["image"] = json!(image),
        None => containers.push(json!({"name": PROXY, "image": image})),
    }
}

fn annotations(notebook: &mut Value) -> &mut Map<String, Value> {
    let annotations = &mut notebook["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations.as_object_mut().expect("it was made one")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "registry.example/proxy:1";
    const NEW: &str = "registry.example/proxy:2";

    fn lab() -> Value {
        json!({
            "metadata": {"name": "lab", "annotations": {INJECT_AUTH: "true"}},
            "spec": {"template": {"spec": {"containers": [{"name": "lab", "image": "lab:1"}]}}},
        })
    }

    /// One that runs, with the proxy of an older controller.
    fn running() -> Value {
        let mut lab = admit(lab(), None, OLD);
        annotations(&mut lab).remove(STOPPED);
        lab
    }

    fn proxy(notebook: &Value) -> &Value {
        &notebook["spec"]["template"]["spec"]["containers"][1]["image"]
    }

    fn annotated(notebook: &Value, key: &str, value: &str) -> Value {
        let mut notebook = notebook.clone();
        annotations(&mut notebook).insert(key.to_owned(), json!(value));
        notebook
    }

    #[test]
    fn a_new_notebook_is_locked_and_has_its_proxy_also_where_it_is_made_as_stopped() {
        for made in [lab(), annotated(&lab(), STOPPED, "2026-11-20T18:00:00Z")] {
            let stored = admit(made, None, OLD);
            assert_eq!(stored["metadata"]["annotations"][STOPPED], LOCK);
            assert_eq!(proxy(&stored), OLD);
        }
        let plain = json!({"metadata": {"name": "lab"}, "spec": lab()["spec"]});
        let stored = admit(plain, None, OLD);
        assert_eq!(stored["spec"], lab()["spec"], "nobody asked for a proxy");
        assert_eq!(stored["metadata"]["annotations"], json!({STOPPED: LOCK}));
    }

    #[test]
    fn a_later_write_locks_nothing_and_a_running_notebook_keeps_the_proxy_that_it_has() {
        let touched = annotated(&running(), "touched", "yes");
        assert_eq!(admit(touched.clone(), Some(&running()), OLD), touched);
        let stored = admit(touched.clone(), Some(&running()), NEW);
        assert_eq!(stored["spec"], running()["spec"]);
        assert!(stored["metadata"]["annotations"][UPDATE_PENDING].is_string());
        // It is still so at the next write, and not any more once the controller is the older one again.
        assert_eq!(admit(stored.clone(), Some(&stored), NEW), stored);
        assert_eq!(admit(stored.clone(), Some(&stored), OLD), touched);
    }

    #[test]
    fn what_waits_is_done_when_the_pod_ends_anyway() {
        let waits = admit(annotated(&running(), "touched", "yes"), Some(&running()), NEW);
        let mut edited = waits.clone();
        edited["spec"]["template"]["spec"]["containers"][0]["image"] = json!("lab:2");
        let ways = [
            annotated(&waits, STOPPED, "2026-11-20T18:00:00Z"),
            annotated(&waits, STOPPED, LOCK),
            annotated(&waits, RESTART, "true"),
            edited,
        ];
        for written in ways {
            let stored = admit(written, Some(&waits), NEW);
            assert_eq!(proxy(&stored), NEW);
            assert_eq!(stored["metadata"]["annotations"][UPDATE_PENDING], Value::Null);
        }
    }
}
