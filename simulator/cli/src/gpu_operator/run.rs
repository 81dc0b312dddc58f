//! Reads the cluster repeatedly, and does the necessary writes.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

use super::due::{Seen, Write, due};

/// How often it looks. A handful of objects, from the API server's cache.
const LOOKS: Duration = Duration::from_secs(1);

/// Why it cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}")]
pub struct Error {
    /// What it was about to do.
    doing: String,
    #[source]
    source: kube::Error,
}

struct Operator {
    policies: Api<DynamicObject>,
    nodes: Api<Node>,
    daemon_sets: Api<DaemonSet>,
    namespace: String,
}

/// Does the Operator's part, until the future is dropped. What fails is said
/// and done again at the next look.
pub async fn run(client: Client, namespace: &str) -> std::convert::Infallible {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1", "ClusterPolicy");
    let resource = ApiResource::from_gvk_with_plural(&kind, "clusterpolicies");
    let operator = Operator {
        policies: Api::all_with(client.clone(), &resource),
        nodes: Api::all(client.clone()),
        daemon_sets: Api::namespaced(client, namespace),
        namespace: namespace.to_owned(),
    };
    loop {
        match operator.seen().await {
            Ok(seen) => {
                for write in due(&seen, &operator.namespace) {
                    tracing::info!(?write, "writes");
                    if let Err(error) = operator.write(&write).await {
                        tracing::warn!(error = &error as &dyn std::error::Error, "will try again");
                    }
                }
            }
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "will look again"),
        }
        tokio::time::sleep(LOOKS).await;
    }
}

impl Operator {
    async fn seen(&self) -> Result<Seen, Error> {
        // No version asked for: what was written a moment ago is in the answer.
        let all = ListParams::default();
        let failed = |what: &str| {
            let doing = format!("list {what}");
            move |source| Error { doing, source }
        };
        Ok(Seen {
            policies: self.policies.list(&all).await.map_err(failed("ClusterPolicies"))?.items,
            nodes: self.nodes.list(&all).await.map_err(failed("nodes"))?.items,
            daemon_sets: self.daemon_sets.list(&all).await.map_err(failed("DaemonSets"))?.items,
        })
    }

    async fn write(&self, write: &Write) -> Result<(), Error> {
        let patching = PatchParams::default();
        let (what, written) = match write {
            Write::MakePolicy(name, content) => {
                let kind = GroupVersionKind::gvk("nvidia.com", "v1", "ClusterPolicy");
                let resource = ApiResource::from_gvk_with_plural(&kind, "clusterpolicies");
                let mut policy = DynamicObject::new(name, &resource);
                policy.data = content.clone();
                let made = self.policies.create(&PostParams::default(), &policy).await;
                (name, made.map(drop))
            }
            Write::Node(name, patch) => {
                (name, self.nodes.patch(name, &patching, &Patch::Merge(patch)).await.map(drop))
            }
            Write::DaemonSet(name, patch) => {
                (name, self.daemon_sets.patch(name, &patching, &Patch::Strategic(patch)).await.map(drop))
            }
            Write::PolicyStatus(name, patch) => {
                (name, self.policies.patch_status(name, &patching, &Patch::Merge(patch)).await.map(drop))
            }
        };
        written.map_err(|source| Error { doing: format!("write {what}"), source })
    }
}
