//! What is written to the API server, and what comes of it.

use k8s_openapi::api::core::v1 as core;
use operands::PodName;
use serde_json::Value;

/// A write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    CreateNode(Box<core::Node>),
    /// Labels and cordon, as a merge patch.
    PatchNode {
        node: String,
        patch: Value,
    },
    PatchNodeStatus {
        node: String,
        patch: Value,
    },
    CreatePod(Box<core::Pod>),
    PatchPodStatus(PodName, Value),
    DeletePod {
        name: PodName,
        uid: String,
        grace: Option<u32>,
    },
    CreateEvent(Box<core::Event>),
    /// The map that MIG manager generated, owned by its pod.
    ApplyMap(Box<core::ConfigMap>),
}

/// What came of a write.
pub(crate) enum Answer {
    Node(Box<core::Node>),
    Pod(Box<core::Pod>),
    /// The object is not there (any more).
    Gone,
    Done,
    Failed,
}
