//! Assembles the ClusterServiceVersion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::base::{self, Base};
use super::chart::Installed;
use super::descriptors::descriptors;
use super::{Error, Image, Maintainer, console};

/// What the chart says of itself.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chart {
    pub(super) description: String,
    pub(super) app_version: String,
    pub(super) kube_version: String,
}

impl Chart {
    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn read() -> Result<Self, Error> {
        let path = crate::chart().join("Chart.yaml");
        let text =
            std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        serde_saphyr::from_str(&text)
            .map_err(|error| Error::Syntax { file: "Chart.yaml".to_owned(), why: error.to_string() })
    }

    /// `>=1.33.0-0`, which admits vendors' suffixes, is 1.33.0 for OLM.
    fn min_kube_version(&self) -> &str {
        self.kube_version.trim_start_matches(">=").trim_end_matches("-0")
    }
}

/// The ClusterServiceVersion of these parts.
///
/// # Errors
/// When a part is missing, or speaks of a field that the CRDs do not have.
pub(super) fn csv(
    base: &Base,
    chart: &Chart,
    installed: &Installed,
    image: &Image,
    maintainer: &Maintainer,
) -> Result<Value, Error> {
    let name = format!("{}.v{}", base.package, chart.app_version);
    let mut spec: Map<String, Value> = base.spec.clone().into_iter().collect();
    let icon = STANDARD.encode(base::read("icon.svg")?);
    spec.extend(fields(json!({
        "version": chart.app_version,
        "minKubeVersion": chart.min_kube_version(),
        "description": base::read("description.md")?,
        "icon": [{"base64data": icon, "mediatype": "image/svg+xml"}],
        "installModes": [
            {"type": "OwnNamespace", "supported": false},
            {"type": "SingleNamespace", "supported": false},
            {"type": "MultiNamespace", "supported": false},
            {"type": "AllNamespaces", "supported": true},
        ],
        "customresourcedefinitions": {"owned": owned(base, installed)?},
        "maintainers": [{"name": maintainer.name, "email": maintainer.contact.to_string()}],
        "relatedImages": [{"name": "operator", "image": image.to_string()}],
        "install": {"strategy": "deployment", "spec": install(installed, image)?},
    })));
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": name,
            "namespace": "placeholder",
            "labels": base.labels,
            "annotations": annotations(base, chart, image)?,
        },
        "spec": spec,
    }))
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn annotations(base: &Base, chart: &Chart, image: &Image) -> Result<Map<String, Value>, Error> {
    let mut all = Map::new();
    let feature = |name: &str| format!("features.operators.openshift.io/{name}");
    all.extend(base.features.iter().map(|(name, can)| (feature(name), Value::from(can.to_string()))));
    all.extend(base.annotations.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    let examples: Vec<Value> = base.kinds.keys().map(|kind| example(kind)).collect::<Result<_, _>>()?;
    let internal: Vec<String> = base
        .kinds
        .iter()
        .filter(|(_, kind)| kind.internal)
        .map(|(name, _)| format!("{}s.slicewright.io", name.to_lowercase()))
        .collect();
    let json = |value: &Value| serde_json::to_string_pretty(value).expect("JSON can be written");
    all.extend(fields(json!({
        "alm-examples": json(&examples.into()),
        "containerImage": image.to_string(),
        "createdAt": base.created_at,
        "description": chart.description,
        "operatorframework.io/initialization-resource": console::initialization_resource(base)?.to_string(),
        "operatorframework.io/suggested-namespace": base.namespace,
        "operators.operatorframework.io/internal-objects": serde_json::to_string(&internal).expect("JSON can be written"),
    })));
    Ok(all)
}

/// What an object of this kind looks like.
///
/// # Errors
/// When there is no file with one.
fn example(kind: &str) -> Result<Value, Error> {
    base::read_yaml(&format!("examples/{}.yaml", kind.to_lowercase()))
}

fn owned(base: &Base, installed: &Installed) -> Result<Vec<Value>, Error> {
    let mut owned = Vec::new();
    for crd in &installed.crds {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default();
        let said = base.kinds.get(kind).ok_or_else(|| Error::NotSaid { kind: kind.to_owned() })?;
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let schema = &version["schema"]["openAPIV3Schema"];
            let part = |part: &str, shown| descriptors(kind, part, &schema["properties"][part], shown);
            owned.push(json!({
                "name": crd["metadata"]["name"],
                "version": version["name"],
                "kind": kind,
                "displayName": said.display_name,
                "description": schema["description"],
                "resources": said.resources,
                "specDescriptors": part("spec", &said.spec)?,
                "statusDescriptors": part("status", &said.status)?,
            }));
        }
    }
    Ok(owned)
}

fn install(installed: &Installed, image: &Image) -> Result<Value, Error> {
    let [deployment] = installed.deployments.as_slice() else {
        return Err(Error::Deployments { many: installed.deployments.len() });
    };
    let mut spec = deployment["spec"].clone();
    let account = spec["template"]["spec"]["serviceAccountName"].clone();
    for container in spec["template"]["spec"]["containers"].as_array_mut().into_iter().flatten() {
        // Where a cluster is disconnected, those who mirror look for images under this name.
        let related = json!({"name": "RELATED_IMAGE_OPERATOR", "value": image.to_string()});
        if let Some(env) = container["env"].as_array_mut() {
            env.push(related);
        }
    }
    Ok(json!({
        "clusterPermissions": [{"serviceAccountName": account, "rules": installed.cluster_rules}],
        "permissions": [{"serviceAccountName": account, "rules": installed.own_rules}],
        "deployments": [{
            "name": deployment["metadata"]["name"],
            "label": deployment["metadata"]["labels"],
            "spec": spec,
        }],
    }))
}
