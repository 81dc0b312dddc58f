//! Objects of any kind: applied from JSON or YAML, found by discovery; and
//! the names that the harness uses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{self, Scope};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::{served, wait};

/// The operator's namespace.
pub const OPERATOR_NAMESPACE: &str = "slicewright-system";
/// The operator's service account, and what of the chart is named after it: not
/// as a release would name it, so that a scenario may install one beside.
pub const OPERATOR_ACCOUNT: &str = "slicewright-operator";
/// The operator, as the API server knows it.
pub const OPERATOR_USER: &str = "system:serviceaccount:slicewright-system:slicewright-operator";
/// The namespace of the GPU Operator.
pub const GPU_OPERATOR_NAMESPACE: &str = "nvidia-gpu-operator";
/// The map that the operator owns.
pub const MAP_NAME: &str = "slicewright-mig-config";
/// Who writes what a human would.
const MANAGER: &str = "e2e";
/// The label on what a scenario makes, by which it is found again in a
/// cluster that is not ours alone.
pub const OURS: &str = "e2e.slicewright.io/made";

/// How long a CRD may take to be established.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);

/// The type of an object, as it says itself.
///
/// # Errors
/// When it says none.
pub fn type_of(object: &Value) -> anyhow::Result<GroupVersionKind> {
    let types: TypeMeta = serde_json::from_value(json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
    }))
    .context("an object has apiVersion and kind")?;
    GroupVersionKind::try_from(types).context("apiVersion is a group and a version")
}

/// The API of an object's kind, in its namespace.
///
/// # Errors
/// When the API server does not know the kind.
pub async fn api_of(client: &Client, object: &Value) -> anyhow::Result<(Api<DynamicObject>, ApiResource)> {
    let gvk = type_of(object)?;
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk)
        .await
        .with_context(|| format!("the API server has no {} {}", gvk.api_version(), gvk.kind))?;
    let namespace = object["metadata"]["namespace"].as_str();
    let api = match (capabilities.scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => {
            Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource)
        }
    };
    Ok((api, resource))
}

/// Applies an object as a human would.
///
/// # Errors
/// What the API server says against it.
pub async fn apply(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    let name = object["metadata"]["name"].as_str().context("an object has a name")?;
    let (api, _) = api_of(client, object).await?;
    let params = PatchParams::apply(MANAGER).force();
    api.patch(name, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("cannot apply {} {name}", object["kind"].as_str().unwrap_or_default()))
}

/// The documents of a YAML file.
///
/// # Errors
/// When it is no YAML.
pub fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// A namespace in which pods can be made at once.
///
/// # Errors
/// When it cannot be made, or is there and somebody else's.
pub async fn ensure_namespace(client: &Client, name: &str, labels: &Value) -> anyhow::Result<()> {
    let mut object =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {}}});
    if let (Some(into), Some(labels)) = (object["metadata"]["labels"].as_object_mut(), labels.as_object()) {
        into.extend(labels.clone());
        into.insert(OURS.to_owned(), json!("true"));
    }
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get_opt(name).await?;
    if found.is_some_and(|found| !found.labels().contains_key(OURS)) {
        bail!("the cluster has a namespace {name} of its own; scenarios need it for themselves");
    }
    api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let what = format!("namespace {name} has its default service account");
    wait::until_one(accounts, "default", &what, wait::PATIENCE, |account| {
        account.map(|_| ()).ok_or_else(|| "it has not".to_owned())
    })
    .await
}

/// What an installation of the operator makes, without Helm: its namespace,
/// its service account, and its rights, as `deploy/rbac.yaml` has them.
/// Scenarios take theirs from the chart ([`crate::rights`]).
///
/// # Errors
/// What the API server says against it.
pub async fn install_operator(client: &Client) -> anyhow::Result<()> {
    ensure_namespace(client, OPERATOR_NAMESPACE, &json!({})).await?;
    ensure_namespace(client, GPU_OPERATOR_NAMESPACE, &json!({})).await?;
    let installation = controller::rbac::Installation {
        namespace: OPERATOR_NAMESPACE.to_owned(),
        account: OPERATOR_ACCOUNT.to_owned(),
        gpu_operator_namespace: GPU_OPERATOR_NAMESPACE.to_owned(),
        patch_cluster_policy: true,
        secure_metrics: false,
        ..controller::rbac::Installation::default()
    };
    for object in installation.manifests() {
        apply(client, &object).await?;
    }
    Ok(())
}

/// Installs CRDs, and waits until they are served.
///
/// # Errors
/// What the API server says against one.
pub async fn install_crds(client: &Client, crds: &[Value]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut names = Vec::new();
    for crd in crds {
        let name = crd["metadata"]["name"].as_str().context("a CRD has a name")?;
        let mut crd = crd.clone();
        crd["metadata"]["labels"][OURS] = json!("true");
        api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&crd))
            .await
            .with_context(|| format!("CRD {name} is refused"))?;
        names.push(name);
    }
    wait::until(api, "the CRDs are established", ESTABLISHED_WITHIN, |seen| {
        let served = |name: &&str| {
            let conditions = seen.get(*name)?.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().any(|c| c.type_ == "Established" && c.status == "True").then_some(())
        };
        match names.iter().find(|name| served(name).is_none()) {
            None => Ok(()),
            Some(name) => Err(format!("{name} is not established")),
        }
    })
    .await
    .map_err(|error| anyhow!("{}", error.to_string().lines().next().unwrap_or_default()))?;
    for crd in crds {
        served::appears(client, crd).await?;
    }
    Ok(())
}

/// Those of these CRDs that are not there, or that a scenario made: what
/// somebody else installed is used as it is.
///
/// # Errors
/// When they cannot be listed.
pub async fn not_theirs(client: &Client, crds: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut rest = Vec::new();
    for crd in crds {
        let name = crd["metadata"]["name"].as_str().context("a CRD has a name")?;
        let found = api.get_metadata_opt(name).await?;
        if found.is_none_or(|found| found.labels().contains_key(OURS)) {
            rest.push(crd);
        }
    }
    Ok(rest)
}

/// The CRDs of this project.
#[must_use]
pub fn our_crds() -> Vec<Value> {
    vec![api::crd::gpu_partition_policies(), api::crd::gpu_nodes()]
}

/// The CRDs of others in a folder, by file name; none where the folder is
/// not there.
///
/// # Errors
/// When one cannot be read.
pub fn crds_in(folder: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    files.retain(|file| file.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    let mut crds = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for document in documents(&text).with_context(|| format!("{} is no YAML", file.display()))? {
            if document["kind"] == "CustomResourceDefinition" {
                crds.push((name.clone(), document));
            }
        }
    }
    Ok(crds)
}

/// The CRDs of others that scenarios need: the simulator's minimal ones, and
/// over them the real ones where they are at hand.
///
/// # Errors
/// When one cannot be read.
pub fn foreign_crds() -> anyhow::Result<Vec<Value>> {
    let mut crds = crds_in(&simulators_crds())?;
    // An older release has another version of one of them: only one can be there.
    crds.extend(crds_in(&real_crds())?.into_iter().filter(|(file, _)| !file.contains(OLDER)));
    Ok(crds.into_iter().map(|(_, crd)| crd).collect())
}

/// The simulator's minimal CRDs of others.
///
/// # Errors
/// When one cannot be read.
pub fn minimal_crds() -> anyhow::Result<Vec<Value>> {
    Ok(crds_in(&simulators_crds())?.into_iter().map(|(_, crd)| crd).collect())
}

fn simulators_crds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../simulator/cluster/crds")
}

/// What the file of a CRD that is of an older release has in its name.
pub const OLDER: &str = "v1alpha1-only";

/// The real CRDs of others, which are beside the repository where its
/// developers have them.
#[must_use]
pub fn real_crds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/crds")
}
