//! The permissions of the operator in scenarios: those that the chart grants for its flags, and the ones of
//! them that it uses.
//!
//! Real Helm renders the chart. For a flag that needs an additional permission (`--patch-cluster-policy`,
//! …) the chart's value is set, as an administrator would do, so that no scenario has a permission that its
//! operator would not have in a cluster.
//!
//! If `cargo xtask e2e` requests it, the granted and the used permissions are recorded; `cargo xtask test
//! rbac-used` compares them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use controller::Settings;
use controller::settings::{HardwareProfiles, Kueue};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use packaging::{Helm, Render};
use serde_json::{Value, json};

use crate::audit::Request;
use crate::manifests::TEAM;
use crate::objects::{
    self, GPU_OPERATOR_NAMESPACE, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, OPERATOR_USER, OURS,
};
use crate::wait;

/// The variable that names the file into which it is written.
const VARIABLE: &str = "SLICEWRIGHT_E2E_RIGHTS";
/// What of the chart says who may do what.
const KINDS: [&str; 5] = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// Values of the chart, as `--set-json` takes them.
pub type Values = Vec<String>;

/// The values with which the chart grants what every operator has.
pub(crate) fn default_values() -> Values {
    vec![format!("fullnameOverride=\"{OPERATOR_ACCOUNT}\"")]
}

/// The values with which the chart grants what these settings want.
pub(crate) fn values_for(settings: &Settings) -> Values {
    let mut values = default_values();
    if settings.gpu_operator_namespace != GPU_OPERATOR_NAMESPACE {
        values.push(format!("gpuOperator.namespace=\"{}\"", settings.gpu_operator_namespace));
    }
    if settings.patch_cluster_policy {
        values.push("gpuOperator.patchClusterPolicy=true".to_owned());
    }
    if settings.patch_device_plugin {
        values.push("gpuOperator.patchDevicePlugin=true".to_owned());
    }
    if let Some(map) = &settings.administrators_map {
        values.push(format!("gpuOperator.administratorsMap=\"{}/{}\"", map.namespace, map.name));
    }
    if settings.metrics_tls.is_some() {
        values.push("metrics.tls.secretName=\"metrics\"".to_owned());
    }
    match settings.kueue {
        Kueue::Off => {}
        Kueue::Report => values.push("kueue=\"report\"".to_owned()),
        Kueue::AdmissionCheck => values.push("kueue=\"admission-check\"".to_owned()),
    }
    match settings.hardware_profiles {
        HardwareProfiles::Off => {}
        HardwareProfiles::Report => values.push("hardwareProfiles.mode=\"report\"".to_owned()),
        HardwareProfiles::Publish => values.push("hardwareProfiles.mode=\"publish\"".to_owned()),
    }
    values
}

/// Every value that comes with a right.
fn every_value() -> [String; 6] {
    [
        "gpuOperator.patchClusterPolicy=true".to_owned(),
        "gpuOperator.patchDevicePlugin=true".to_owned(),
        format!("gpuOperator.administratorsMap=\"{TEAM}/layouts\""),
        "metrics.tls.secretName=\"metrics\"".to_owned(),
        "kueue=\"admission-check\"".to_owned(),
        "hardwareProfiles.mode=\"publish\"".to_owned(),
    ]
}

/// The accounts, roles and bindings of the chart. Real Helm renders it once
/// for each set of values.
fn rendered(values: &Values) -> anyhow::Result<Vec<Value>> {
    static KNOWN: Mutex<BTreeMap<Values, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(objects) = known.get(values) {
        return Ok(objects.clone());
    }
    let set = [packaging::REGISTRY.to_owned()].into_iter().chain(values.iter().cloned()).collect();
    let render = Render { set, ..Render::default() };
    let mut objects = Helm::find()?.objects(&packaging::chart(), &render)?;
    objects.retain(|object| object["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind)));
    known.insert(values.clone(), objects.clone());
    Ok(objects)
}

/// Grants what the chart grants with these values, instead of what it granted
/// with others, and waits until the API server goes by it.
///
/// # Errors
/// When Helm or the API server refuses.
pub(crate) async fn grant(client: &Client, values: &Values, before: Option<&Values>) -> anyhow::Result<()> {
    let objects = rendered(values)?;
    for mut object in objects.clone() {
        object["metadata"]["labels"][OURS] = json!("true");
        objects::apply(client, &object).await?;
    }
    let key = |o: &Value| format!("{} {} {}", o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]);
    let stay: BTreeSet<_> = objects.iter().map(key).collect();
    for object in before.map(rendered).transpose()?.unwrap_or_default() {
        if !stay.contains(&key(&object)) {
            let (api, _) = objects::api_of(client, &object).await?;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            api.delete(name, &DeleteParams::default()).await?;
        }
    }
    let granted = granted(&objects, OPERATOR_ACCOUNT);
    wait::asking("the API server knows the operator's rights", wait::PATIENCE, async || {
        let asked = try_join_all(granted.iter().map(|right| right.is_in_force(client))).await?;
        let missing = asked.iter().zip(&granted).find(|(holds, _)| !**holds);
        Ok(missing.map_or(Ok(()), |(_, right)| Err(format!("{right} is not allowed yet"))))
    })
    .await
}

/// What one rule of RBAC allows, with one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    group: String,
    /// With its subresource.
    resource: String,
    /// Where it holds; empty: everywhere.
    namespace: String,
    /// For which object it holds; empty: for each.
    name: String,
    verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, namespace, name, verb } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !name.is_empty() {
            write!(f, " named {name}")?;
        }
        if !namespace.is_empty() {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

impl Right {
    /// Whether a request was allowed by it, alone or with others: to apply what
    /// is not there is to create it, and wants both.
    fn allows(&self, request: &Request) -> bool {
        let Self { group, resource, namespace, name, verb } = self;
        let asked = &request.object_ref;
        let (its, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let created = request.verb == "patch" && request.response_status.code == 201;
        (*verb == request.verb || created && verb == "create")
            && *group == asked.api_group
            && its == asked.resource
            && sub == asked.subresource
            && (namespace.is_empty() || *namespace == asked.namespace)
            && (name.is_empty() || *name == asked.name)
    }

    /// Whether the API server goes by it.
    async fn is_in_force(&self, client: &Client) -> anyhow::Result<bool> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (resource, sub) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(OPERATOR_USER.to_owned()),
                resource_attributes: Some(ResourceAttributes {
                    verb: some(&self.verb),
                    group: some(&self.group),
                    resource: some(resource),
                    subresource: some(sub),
                    namespace: some(&self.namespace),
                    name: some(&self.name),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// Every right that these objects give to an account of the operator's
/// namespace.
#[must_use]
pub fn granted(objects: &[Value], account: &str) -> BTreeSet<Right> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|t| t.as_str().map(str::to_owned)).collect()
    };
    let of_account = |binding: &&Value| {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let ours = |s: &Value| s["name"] == account && s["namespace"] == OPERATOR_NAMESPACE;
        binding["kind"].as_str().is_some_and(|kind| kind.ends_with("Binding"))
            && subjects.into_iter().any(ours)
    };
    let mut rights = BTreeSet::new();
    for binding in objects.iter().filter(of_account) {
        let of_binding = |role: &&Value| {
            role["kind"] == binding["roleRef"]["kind"]
                && role["metadata"]["name"] == binding["roleRef"]["name"]
                && role["metadata"]["namespace"] == binding["metadata"]["namespace"]
        };
        let rules = objects.iter().filter(of_binding).filter_map(|role| role["rules"].as_array()).flatten();
        for rule in rules {
            let names = texts(&rule["resourceNames"]);
            let names = if names.is_empty() { vec![String::new()] } else { names };
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        rights.extend(names.iter().map(|name| Right {
                            group: group.clone(),
                            resource: resource.clone(),
                            namespace:
                                binding["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
                            name: name.clone(),
                            verb: verb.clone(),
                        }));
                    }
                }
            }
        }
    }
    rights
}

/// What was asked for, against what the chart can grant.
#[derive(Debug, Default)]
pub struct Used {
    granted: BTreeSet<Right>,
    used: BTreeSet<Right>,
    refused: BTreeSet<String>,
}

impl Used {
    /// Nothing yet, of what the chart grants to the operator with every value
    /// that comes with a right.
    ///
    /// # Errors
    /// When Helm refuses.
    pub fn of_operator() -> anyhow::Result<Self> {
        let values = default_values().into_iter().chain(every_value()).collect();
        Ok(Self::from_granted(granted(&rendered(&values)?, OPERATOR_ACCOUNT)))
    }

    /// Nothing yet, of what a release of the chart grants to an account of its
    /// own.
    ///
    /// # Errors
    /// When Helm refuses.
    pub fn of_account(account: &str) -> anyhow::Result<Self> {
        Ok(Self::from_granted(granted(&rendered(&Values::new())?, account)))
    }

    fn from_granted(granted: BTreeSet<Right>) -> Self {
        Self { granted, ..Self::default() }
    }

    /// Takes in what was asked for.
    pub fn add(&mut self, requests: &[Request]) {
        for request in requests {
            if request.was_refused() {
                self.refused.insert(request.to_string());
                continue;
            }
            let by = self.granted.iter().filter(|right| right.allows(request)).cloned();
            self.used.extend(by);
        }
    }

    /// What was granted and not asked for.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        self.granted.difference(&self.used).map(ToString::to_string).collect()
    }

    /// What was asked for and refused.
    #[must_use]
    pub const fn refused(&self) -> &BTreeSet<String> {
        &self.refused
    }

    /// Writes it down where somebody asks for it: one line of JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&self) -> anyhow::Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a test has no command line to be told by")]
        let Some(path) = std::env::var_os(VARIABLE) else { return Ok(()) };
        let Self { granted, used, refused } = self;
        let told = |rights: &BTreeSet<Right>| rights.iter().map(ToString::to_string).collect::<Vec<_>>();
        let thread = std::thread::current();
        let line = json!({
            "scenario": thread.name().unwrap_or("somebody"),
            "granted": told(granted), "used": told(used), "refused": refused,
        });
        // Tests of one process write at the same time, each its line at once.
        let mut file = std::fs::File::options().create(true).append(true).open(&path)?;
        file.write_all(format!("{line}\n").as_bytes()).context("cannot write down which rights were used")
    }
}

/// Grants what the operator has by default, in the namespaces that it needs.
///
/// # Errors
/// When Helm or the API server refuses.
pub(crate) async fn install(client: &Client) -> anyhow::Result<()> {
    objects::ensure_namespace(client, OPERATOR_NAMESPACE, &json!({})).await?;
    objects::ensure_namespace(client, GPU_OPERATOR_NAMESPACE, &json!({})).await?;
    grant(client, &default_values(), None).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: Value) -> Request {
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn a_right_is_used_by_what_it_allows_and_by_nothing_else() {
        let subjects =
            json!([{"kind": "ServiceAccount", "name": OPERATOR_ACCOUNT, "namespace": OPERATOR_NAMESPACE}]);
        let role = |rules: Value| {
            [
                json!({"kind": "Role", "metadata": {"name": "r", "namespace": "gpu"}, "rules": rules}),
                json!({"kind": "RoleBinding", "metadata": {"name": "r", "namespace": "gpu"},
                    "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}),
            ]
        };
        let objects = role(json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete", "list"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["ours"], "verbs": ["patch"]},
        ]));
        assert!(granted(&objects, "somebody-else").is_empty());
        let mut used = Used::from_granted(granted(&objects, OPERATOR_ACCOUNT));
        let all: Vec<_> = used.granted.iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                "create configmaps in gpu",
                "patch configmaps named ours in gpu",
                "delete pods in gpu",
                "list pods in gpu",
                "create pods/eviction in gpu"
            ]
        );
        used.add(&[
            request(json!({"verb": "list", "objectRef": {"resource": "pods", "namespace": "other"},
                "responseStatus": {"code": 200}})),
            request(json!({"verb": "patch", "objectRef": {"resource": "configmaps", "namespace": "gpu", "name": "theirs"},
                "responseStatus": {"code": 403}})),
            request(json!({"verb": "create", "objectRef": {"resource": "pods", "subresource": "eviction",
                "namespace": "gpu", "name": "p"}, "responseStatus": {"code": 201}})),
            request(json!({"verb": "delete", "objectRef": {"resource": "pods", "namespace": "gpu", "name": "p"},
                "responseStatus": {"code": 404}})),
            // Refused, and yet no right is missing: its kind is just being removed.
            request(json!({"verb": "patch", "objectRef": {"resource": "gpunodes", "name": "n1"},
                "responseStatus": {"code": 403, "message":
                    "create not allowed while custom resource definition is terminating"}})),
        ]);
        assert_eq!(used.unused().len(), 3);
        // Applied, and not there before.
        used.add(&[request(json!({"verb": "patch", "responseStatus": {"code": 201},
            "objectRef": {"resource": "configmaps", "namespace": "gpu", "name": "ours"}}))]);
        let did: Vec<_> = used.used.iter().map(ToString::to_string).collect();
        assert_eq!(
            did,
            [
                "create configmaps in gpu",
                "patch configmaps named ours in gpu",
                "delete pods in gpu",
                "create pods/eviction in gpu"
            ]
        );
        assert_eq!(used.refused, ["patch configmaps gpu/theirs (403)".to_owned()].into());
    }

    #[test]
    fn every_flag_that_wants_a_right_has_its_value() {
        let mut settings = Settings::new("", "");
        assert_eq!(values_for(&settings), default_values());
        settings.kueue = Kueue::AdmissionCheck;
        settings.hardware_profiles = HardwareProfiles::Publish;
        settings.patch_cluster_policy = true;
        settings.patch_device_plugin = true;
        settings.administrators_map =
            Some(controller::MapRef { namespace: TEAM.to_owned(), name: "layouts".to_owned() });
        settings.metrics_tls =
            Some(controller::settings::MetricsTls { certificate: "a".into(), key: "b".into() });
        assert_eq!(values_for(&settings)[1..], every_value());
    }
}
