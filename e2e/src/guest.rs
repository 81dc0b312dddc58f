//! Whether a cluster that is not ours alone can be used for scenarios.

use anyhow::bail;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::manifests::{NEIGHBOURS, TEAM};
use crate::objects::{self, GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE, OURS};
use crate::provider::Provider;
use crate::real_nodes;

/// A cluster in which somebody's GPUs are is none to play with: scenarios cut
/// GPUs, and run an operator that has all nodes in its sight.
pub(crate) async fn leave_others_alone(client: &Client, provider: &dyn Provider) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    // Those of the kind cluster are there for scenarios.
    let theirs = format!("nvidia.com/gpu.present=true,!{OURS},!{}", real_nodes::GPUS);
    let theirs = ListParams::default().labels(&theirs);
    if let Some(node) = nodes.list(&theirs).await?.items.first() {
        bail!(
            "the cluster has a GPU node of its own, {}: scenarios are for clusters without GPUs",
            node.name_any()
        );
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if provider.has_real_nodes()
        && nodes.list(&ListParams::default().labels(real_nodes::GPUS)).await?.items.is_empty()
    {
        bail!("the cluster has no simulated GPU nodes: bring one up with `cargo xtask kind up`");
    }
    for name in [GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE, TEAM, NEIGHBOURS] {
        if let Some(namespace) = namespaces.get_opt(name).await?
            && !namespace.labels().contains_key(OURS)
        {
            bail!("the cluster has a namespace {name} of its own; scenarios need it for themselves");
        }
    }
    let ours = objects::our_crds();
    if objects::not_theirs(client, ours.clone()).await?.len() < ours.len() {
        bail!("the cluster has Slicewright installed, which would work on the nodes of scenarios too");
    }
    if provider.has_real_nodes() {
        return Ok(());
    }
    let policies = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"});
    if let Ok((api, _)) = objects::api_of(client, &policies).await
        && let Some(policy) = theirs_of(&api).await?.first()
    {
        bail!("the cluster has a ClusterPolicy of its own, {}, and there can be one only", policy.name_any());
    }
    Ok(())
}

/// What of a kind no scenario made; nothing where its CRD has just gone.
async fn theirs_of(api: &Api<DynamicObject>) -> kube::Result<Vec<DynamicObject>> {
    match api.list(&ListParams::default().labels(&format!("!{OURS}"))).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => Ok(listed?.items),
    }
}
