//! A workbench: `kubeflow.org` `Notebook` (v1, v1beta1 and v1alpha1 have one
//! schema).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use super::hardware_profile::{PROFILE_NAME, PROFILE_NAMESPACE};
use super::{Metadata, TemplateSpec, hardware_profile};

/// The annotation that stops a workbench. Its value is the time of the stop,
/// or [`LOCK`].
pub const STOPPED: &str = "kubeflow-resource-stopped";
/// The value of [`STOPPED`] while the workbench is being created: nobody
/// stopped it.
pub const LOCK: &str = "odh-notebook-controller-lock";
/// The annotation with the time of the last activity, where culling is on.
pub const LAST_ACTIVITY: &str = "notebooks.kubeflow.org/last-activity";
/// The label with the queue of Kueue in which the workbench waits for quota.
pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// A workbench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Notebook {
    /// Name, namespace, annotations.
    #[serde(default)]
    pub metadata: Metadata,
    /// The pod that it wants.
    #[serde(default)]
    pub spec: NotebookSpec,
    /// What its controller says.
    #[serde(default)]
    pub status: NotebookStatus,
}

/// The pod that a workbench wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NotebookSpec {
    /// The pod template.
    #[serde(default)]
    pub template: NotebookTemplate,
}

/// The pod template of a workbench.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NotebookTemplate {
    /// The pod's spec.
    #[serde(default)]
    pub spec: TemplateSpec,
}

/// What the notebook controller says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotebookStatus {
    /// 1 when the pod is ready.
    #[serde(default)]
    pub ready_replicas: i32,
}

/// Whether a workbench should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It should.
    Run,
    /// It is stopped, by its user or by the culler; since when, as written.
    Stopped {
        /// The annotation's value.
        since: String,
    },
}

impl Notebook {
    /// Whether it should run. The lock of its controller is not a stop.
    #[must_use]
    pub fn intent(&self) -> Intent {
        match self.annotation(STOPPED) {
            None | Some(LOCK) => Intent::Run,
            Some(since) => Intent::Stopped { since: since.to_owned() },
        }
    }

    /// Namespace and name of its hardware profile, if it names one.
    #[must_use]
    pub fn hardware_profile(&self) -> Option<(String, String)> {
        hardware_profile::named_by(&self.metadata)
    }

    /// When somebody last used it, where culling is on and says so.
    #[must_use]
    pub fn last_activity(&self) -> Option<Timestamp> {
        self.says_last_activity()?.parse().ok()
    }

    /// The same as it is written there, whatever it is.
    #[must_use]
    pub fn says_last_activity(&self) -> Option<&str> {
        self.annotation(LAST_ACTIVITY)
    }

    /// The queue in which it says that it waits. An empty name is none.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.metadata.labels.get(QUEUE).filter(|queue| !queue.is_empty())
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notebook(annotations: serde_json::Value) -> Notebook {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": "mnist", "namespace": "vision", "annotations": annotations},
            "spec": {"template": {"spec": {"containers": [{"name": "mnist", "a-field-of-tomorrow": 1}]}}},
        }))
        .expect("unknown fields are ignored")
    }

    #[test]
    fn a_stop_is_a_stop_and_the_lock_is_not() {
        assert_eq!(notebook(serde_json::json!({})).intent(), Intent::Run);
        assert_eq!(notebook(serde_json::json!({STOPPED: LOCK})).intent(), Intent::Run);
        let stopped = notebook(serde_json::json!({STOPPED: "2026-11-20T18:00:00Z"}));
        assert_eq!(stopped.intent(), Intent::Stopped { since: "2026-11-20T18:00:00Z".into() });
    }

    #[test]
    fn a_profile_is_in_the_own_namespace_unless_said_otherwise() {
        let own = notebook(serde_json::json!({PROFILE_NAME: "small"}));
        assert_eq!(own.hardware_profile(), Some(("vision".into(), "small".into())));
        let other = notebook(serde_json::json!({PROFILE_NAME: "small", PROFILE_NAMESPACE: "apps"}));
        assert_eq!(other.hardware_profile(), Some(("apps".into(), "small".into())));
        assert_eq!(notebook(serde_json::json!({PROFILE_NAME: ""})).hardware_profile(), None);
    }
}
