//! Empties a cluster between scenarios: deletes all objects of the groups that a scenario may use, except
//! the controllers' own records.

use std::time::Duration;

use anyhow::bail;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, PropagationPolicy};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::discovery::{Scope, verbs};
use kube::{Api, Client, ResourceExt};

use crate::objects::OURS;
use crate::served;

/// The groups whose objects scenarios make.
const GROUPS: &[&str] = &[
    "",
    "apps",
    "batch",
    "policy",
    "coordination.k8s.io",
    "scheduling.k8s.io",
    "slicewright.io",
    "nvidia.com",
    "kubeflow.org",
    "infrastructure.opendatahub.io",
    "dashboard.opendatahub.io",
    "kueue.x-k8s.io",
    "serving.kserve.io",
];

/// What of them stays: it belongs to the cluster, or follows by itself.
const STAYS: &[&str] = &[
    "namespaces",
    "serviceaccounts",
    "secrets",
    "persistentvolumes",
    "endpoints",
    "componentstatuses",
    "controllerrevisions",
    "bindings",
];

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many are deleted at a time.
const AT_A_TIME: usize = 16;

/// Empties it.
///
/// `everything`: the cluster is ours alone. Else only what has our label, or
/// is in a namespace that has it, goes.
///
/// # Errors
/// When something stays.
pub(crate) async fn empty(client: &Client, everything: bool) -> anyhow::Result<()> {
    let discovery = served::discovered(client, GROUPS).await?;
    let mut kinds = Vec::new();
    for group in discovery.groups() {
        // Of every version: `nvidia.com/v1` does not serve a `GPUCluster`.
        for (resource, capabilities) in group.resources_by_stability() {
            let can = |verb| capabilities.supports_operation(verb);
            if can(verbs::LIST) && can(verbs::DELETE) && !STAYS.contains(&resource.plural.as_str()) {
                kinds.push((resource, capabilities.scope));
            }
        }
    }
    let namespaces = if everything { None } else { Some(our_namespaces(client).await?) };
    let emptying = async {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        loop {
            tick.tick().await;
            let mut left = Vec::new();
            for (resource, scope) in &kinds {
                left.extend(delete_all(client, resource, scope, namespaces.as_deref()).await?);
            }
            if left.is_empty() {
                return anyhow::Ok(());
            }
        }
    };
    match tokio::time::timeout(PATIENCE, emptying).await {
        Ok(result) => result,
        Err(_) => bail!("the cluster could not be emptied within {} s", PATIENCE.as_secs()),
    }
}

/// How long namespaces and CRDs may take to go with all that is in them.
const LONGER: Duration = Duration::from_secs(120);

/// Removes what scenarios put around themselves on a cluster that is not ours
/// alone, and nothing else: namespaces, CRDs and rights with our label, the
/// nodes of the simulator, and what the operator told in a namespace that is
/// everybody's.
///
/// # Errors
/// When something stays.
pub(crate) async fn remove_made(client: &Client) -> anyhow::Result<()> {
    let ours = ListParams::default().labels(OURS);
    let nodes: Api<Node> = Api::all(client.clone());
    let virtual_ones = ListParams::default().labels(cluster::annotations::NODE);
    let names: Vec<_> = nodes.list_metadata(&virtual_ones).await?.iter().map(ResourceExt::name_any).collect();
    gone("nodes", &nodes, &virtual_ones).await?;
    // They would follow, once the garbage collector looks.
    let heartbeats: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    for name in names {
        heartbeats.delete(&name, &DeleteParams::default()).await.map(drop).or_else(is_gone)?;
    }
    let told: Api<Event> = Api::namespaced(client.clone(), "default");
    for event in told.list(&ListParams::default()).await? {
        if event.reporting_controller.as_deref() == Some(controller::publish::events::REPORTER) {
            told.delete(&event.name_any(), &DeleteParams::default()).await.map(drop).or_else(is_gone)?;
        }
    }
    gone("cluster role bindings", &Api::<ClusterRoleBinding>::all(client.clone()), &ours).await?;
    gone("cluster roles", &Api::<ClusterRole>::all(client.clone()), &ours).await?;
    gone("namespaces", &Api::<Namespace>::all(client.clone()), &ours).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let going = crds.list(&ours).await?.items;
    gone("CRDs", &crds, &ours).await?;
    for crd in going {
        served::vanishes(client, &serde_json::to_value(crd)?).await?;
    }
    Ok(())
}

/// That it is not there is what was wanted.
fn is_gone(error: kube::Error) -> kube::Result<()> {
    if matches!(&error, kube::Error::Api(status) if status.code == 404) { Ok(()) } else { Err(error) }
}

/// Deletes what is listed, and waits until nothing is.
async fn gone<K>(what: &str, api: &Api<K>, which: &ListParams) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut asked = std::collections::BTreeSet::new();
    crate::wait::asking(&format!("the {what} of scenarios are gone"), LONGER, async || {
        let left = api.list_metadata(which).await?.items;
        for one in &left {
            // A namespace is deleted once, and takes its time.
            if asked.insert(one.name_any()) {
                api.delete(&one.name_any(), &DeleteParams::background()).await.map(drop).or_else(is_gone)?;
            }
        }
        let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        Ok(if left.is_empty() { Ok(()) } else { Err(names.join(", ")) })
    })
    .await
}

async fn our_namespaces(client: &Client) -> anyhow::Result<Vec<String>> {
    let api: Api<Namespace> = Api::all(client.clone());
    let ours = api.list(&ListParams::default().labels(OURS)).await?;
    Ok(ours.iter().map(ResourceExt::name_any).collect())
}

/// Deletes all of a kind, and says what there was.
async fn delete_all(
    client: &Client,
    resource: &ApiResource,
    scope: &Scope,
    namespaces: Option<&[String]>,
) -> anyhow::Result<Vec<String>> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let listed = match all.list_metadata(&ListParams::default()).await {
        Ok(listed) => listed,
        // Its CRD has just gone.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let goes = |object: &PartialObjectMeta<DynamicObject>| {
        if !may_go(resource, object) {
            return false;
        }
        match (namespaces, object.namespace()) {
            (None, _) => true,
            (Some(ours), Some(namespace)) => ours.contains(&namespace),
            (Some(_), None) => object.labels().contains_key(OURS),
        }
    };
    let goes: Vec<_> = listed.into_iter().filter(goes).collect();
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    let gone = futures::stream::iter(goes.into_iter().map(|object| {
        let api: Api<DynamicObject> = match (scope, object.namespace()) {
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), &namespace, resource)
            }
            _ => Api::all_with(client.clone(), resource),
        };
        let (name, params) = (object.name_any(), params.clone());
        async move {
            match api.delete(&name, &params).await {
                Ok(_) => anyhow::Ok(Some(name)),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
    }))
    .buffer_unordered(AT_A_TIME)
    .try_collect::<Vec<_>>()
    .await?;
    Ok(gone.into_iter().flatten().collect())
}

/// Whether an object is none that the cluster itself keeps.
fn may_go(resource: &ApiResource, object: &PartialObjectMeta<DynamicObject>) -> bool {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let of_kubernetes = namespace.starts_with("kube-") && resource.plural != "leases";
    let kept = match resource.plural.as_str() {
        "configmaps" => name == "kube-root-ca.crt" || name == "openshift-service-ca.crt",
        "services" => namespace == "default" && name == "kubernetes",
        "priorityclasses" => name.starts_with("system-"),
        "leases" => name.starts_with("apiserver-") || namespace == "kube-system",
        _ => false,
    };
    !of_kubernetes && !kept
}
