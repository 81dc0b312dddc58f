//! Creates the prerequisites of nodes: CRDs, the Operator's namespace, and the owners of its pods. Existing
//! objects are not changed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use operands::{Operand, Stack};
use serde_json::json;

use crate::error::{Error, is};
use crate::fleet::Fleet;
use crate::pod_object::GROUP;

/// The CRDs of the simulator and of the GPU Operator.
const NEEDED: [&str; 2] = [
    include_str!("../crds/sim.slicewright.io_daemonsets.yaml"),
    include_str!("../crds/nvidia.com_clusterpolicies.yaml"),
];

/// That of the GPU Operator where DRA hands out devices.
const DRA: [&str; 1] = [include_str!("../crds/nvidia.com_gpuclusters.yaml")];

/// Those of OpenShift AI.
const OPENSHIFT_AI: [&str; 2] = [
    include_str!("../crds/kubeflow.org_notebooks.yaml"),
    include_str!("../crds/infrastructure.opendatahub.io_hardwareprofiles.yaml"),
];

/// The minimal CRDs of Notebooks and hardware profiles, for who brings them
/// later than the cluster.
#[must_use]
pub fn openshift_ai_crds() -> Vec<CustomResourceDefinition> {
    OPENSHIFT_AI.iter().map(|text| read(text)).collect()
}

fn read(text: &str) -> CustomResourceDefinition {
    serde_saphyr::from_str(text).expect("the manifests of this crate are CRDs; a test reads them")
}

/// Installs the CRDs that are not there, and waits until they are served.
pub(crate) async fn crds(client: &Client, fleet: &Fleet) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let more = if fleet.openshift_ai { OPENSHIFT_AI.as_slice() } else { &[] };
    let dra = if fleet.stack == Stack::Dra { DRA.as_slice() } else { &[] };
    let wanted: Vec<_> = NEEDED.iter().chain(more).chain(dra).map(|text| read(text)).collect();
    for crd in &wanted {
        let doing = format!("install the CRD {}", crd.name_any());
        create(&api, crd).await.map_err(|error| Error::call(&doing, error))?;
    }
    for crd in &wanted {
        let name = crd.name_any();
        let served = await_condition(api.clone(), &name, conditions::is_crd_established());
        match tokio::time::timeout(Duration::from_secs(30), served).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return Err(Error::NotServed { name }),
        }
    }
    Ok(())
}

/// Makes the Operator's namespace and the owners of its pods: their UIDs by
/// `app`.
pub(crate) async fn owners(client: &Client, namespace: &str) -> Result<BTreeMap<String, String>, Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut object = Namespace::default();
    object.metadata.name = Some(namespace.to_owned());
    let doing = format!("make the namespace {namespace}");
    create(&api, &object).await.map_err(|error| Error::call(&doing, error))?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "DaemonSet"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let mut owners = BTreeMap::new();
    for operand in Operand::ALL {
        let app = operand.app();
        let mut object = DynamicObject::new(app, &resource);
        object.data = json!({});
        let doing = format!("make the owner of the pods of {app}");
        let made = create(&api, &object).await.map_err(|error| Error::call(&doing, error))?;
        owners.insert(app.to_owned(), made.uid().unwrap_or_default());
    }
    Ok(owners)
}

/// Creates an object, or gets the one that is there.
pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> kube::Result<K>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Err(error) if is(&error, 409) => api.get(&object.name_any()).await,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crd_is_read_and_has_one_stored_version() {
        for text in NEEDED.iter().chain(&OPENSHIFT_AI).chain(&DRA) {
            let crd = read(text);
            assert_eq!(crd.name_any(), format!("{}.{}", crd.spec.names.plural, crd.spec.group));
            assert_eq!(crd.spec.versions.iter().filter(|version| version.storage).count(), 1);
            assert!(crd.spec.versions.iter().all(|version| version.schema.is_some()));
        }
    }
}
