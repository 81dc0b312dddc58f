//! The permissions that the operator needs, per verb with the reason: it uses all of them, and there are no
//! wildcards. The manifest that installs them and the page that explains them are generated from this
//! table; scenarios run with exactly these permissions.

mod rights;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use reconcile::MapRef;
use serde_json::{Value, json};

use crate::settings::{HardwareProfiles, Kueue, Settings};
use rights::{LEASE, right};

pub use rights::RIGHTS;
pub use snapshot::{SNAPSHOT, snapshot_manifests};

/// Where a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In the operator's own namespace.
    Own,
    /// In the namespace of the GPU Operator.
    GpuOperator,
    /// In the namespace of OpenShift AI's own applications.
    OpenShiftAi,
}

/// When a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// Always.
    Always,
    /// With `--patch-cluster-policy` and `--patch-device-plugin` only.
    PatchClusterPolicy,
    /// With `--metrics-certificate` only.
    SecureMetrics,
    /// With `--kueue=report` and `--kueue=admission-check` only.
    ReadsQueues,
    /// With `--kueue=admission-check` only.
    AnswersChecks,
    /// With `--hardware-profiles=report` and `--hardware-profiles=publish` only.
    PlansProfiles,
    /// With `--hardware-profiles=publish` only.
    PublishesProfiles,
}

/// One right: verbs on a resource.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// Where.
    pub scope: Scope,
    /// When.
    pub when: When,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource, with its subresource.
    pub resource: &'static str,
    /// The only object for which it holds; empty: any.
    pub name: &'static str,
    /// The verbs, each with its reason.
    pub verbs: &'static [(&'static str, &'static str)],
}

/// Where and for whom the rights are installed.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The operator's namespace.
    pub namespace: String,
    /// The operator's service account.
    pub account: String,
    /// The namespace of the GPU Operator.
    pub gpu_operator_namespace: String,
    /// Whether the operator runs with `--patch-cluster-policy` or
    /// `--patch-device-plugin`.
    pub patch_cluster_policy: bool,
    /// Whether the operator runs with `--metrics-certificate`.
    pub secure_metrics: bool,
    /// What the operator has to do with Kueue's queues.
    pub kueue: Kueue,
    /// What the operator has to do with hardware profiles.
    pub hardware_profiles: HardwareProfiles,
    /// The namespace of OpenShift AI's own applications.
    pub applications_namespace: String,
    /// The administrators' map, where the operator runs with
    /// `--administrators-map`.
    pub administrators_map: Option<MapRef>,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: "slicewright-system".to_owned(),
            account: "slicewright-operator".to_owned(),
            gpu_operator_namespace: Settings::new("", "").gpu_operator_namespace,
            patch_cluster_policy: false,
            secure_metrics: false,
            kueue: Kueue::Off,
            hardware_profiles: HardwareProfiles::Off,
            applications_namespace: "redhat-ods-applications".to_owned(),
            administrators_map: None,
        }
    }
}

impl Installation {
    fn rules(&self, scope: Scope) -> Vec<Value> {
        let due = |when: When| match when {
            When::Always => true,
            When::PatchClusterPolicy => self.patch_cluster_policy,
            When::SecureMetrics => self.secure_metrics,
            When::ReadsQueues => self.kueue.is_read(),
            When::AnswersChecks => self.kueue == Kueue::AdmissionCheck,
            When::PlansProfiles => self.hardware_profiles.is_planned(),
            When::PublishesProfiles => self.hardware_profiles == HardwareProfiles::Publish,
        };
        let wanted = |right: &&Right| right.scope == scope && due(right.when);
        rules(RIGHTS.iter().filter(wanted))
    }

    /// The service account, the roles and the bindings. The namespaces are
    /// not among them.
    #[must_use]
    pub fn manifests(&self) -> Vec<Value> {
        let Self { namespace, account, gpu_operator_namespace, applications_namespace, .. } = self;
        let rbac = "rbac.authorization.k8s.io/v1";
        let labels =
            json!({"app.kubernetes.io/name": "slicewright", "app.kubernetes.io/component": "operator"});
        let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
        let mut manifests = vec![json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace, "labels": labels},
        })];
        let scopes = [
            (Scope::Cluster, account.clone(), None),
            (Scope::Own, account.clone(), Some(namespace)),
            (Scope::GpuOperator, format!("{account}-maps"), Some(gpu_operator_namespace)),
            (Scope::OpenShiftAi, format!("{account}-hardware-profiles"), Some(applications_namespace)),
        ];
        for (scope, name, within) in scopes {
            let (role, binding) = match scope {
                Scope::Cluster => ("ClusterRole", "ClusterRoleBinding"),
                Scope::Own | Scope::GpuOperator | Scope::OpenShiftAi => ("Role", "RoleBinding"),
            };
            let rules = self.rules(scope);
            if rules.is_empty() {
                continue;
            }
            let mut metadata = json!({"name": name, "labels": labels});
            if let Some(within) = within {
                metadata["namespace"] = json!(within);
            }
            manifests.push(json!({
                "apiVersion": rbac, "kind": role, "metadata": metadata, "rules": rules,
            }));
            manifests.push(json!({
                "apiVersion": rbac, "kind": binding, "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
                "subjects": subjects,
            }));
        }
        manifests.extend(self.administrators_role());
        manifests
    }

    /// The role and the binding for an administrators' map in a namespace of
    /// its own: to read that one map, and nothing else there. A map in the GPU
    /// Operator's namespace needs none.
    fn administrators_role(&self) -> Vec<Value> {
        let elsewhere = |map: &&MapRef| map.namespace != self.gpu_operator_namespace;
        let Some(MapRef { namespace, name }) = self.administrators_map.as_ref().filter(elsewhere) else {
            return Vec::new();
        };
        let role = format!("{}-administrators-map", self.account);
        let rbac = "rbac.authorization.k8s.io/v1";
        let metadata = json!({"name": role, "namespace": namespace, "labels": {
            "app.kubernetes.io/name": "slicewright", "app.kubernetes.io/component": "operator",
        }});
        vec![
            json!({
                "apiVersion": rbac, "kind": "Role", "metadata": metadata,
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name],
                    "verbs": ["list", "watch"]}],
            }),
            json!({
                "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": self.account, "namespace": self.namespace}],
            }),
        ]
    }
}

/// The Deployment of the operator, as the chart calls it in a release of its own name.
const DEPLOYMENT: &str = "slicewright";

/// What `slicewright release --stop-operator` needs: the rights with which the
/// chart's hook or an administrator runs it.
pub const RELEASE: &[Right] = &[
    right(
        Scope::Cluster,
        "",
        "nodes",
        &[
            ("list", "to see which nodes the operator cordoned"),
            (
                "patch",
                "to uncordon them, to remove the operator's label, and to ask the operator to give back those of agents",
            ),
        ],
    ),
    right(Scope::Cluster, api::GROUP, "gpupartitionpolicies", &[("list", "to see the policies in force")]),
    right(
        Scope::Cluster,
        api::GROUP,
        "gpunodes",
        &[
            ("list", "to see the rollouts of nodes"),
            ("patch", "to withdraw what the agent of a node was told"),
        ],
    ),
    right(
        Scope::Cluster,
        api::GROUP,
        "gpunodes/status",
        &[("patch", "to record that a node is released, so that its rollout does not continue")],
    ),
    right(
        Scope::Cluster,
        "kueue.x-k8s.io",
        "admissionchecks",
        &[("list", "to see which checks the operator answered, also before --kueue was switched off")],
    ),
    right(
        Scope::Cluster,
        "kueue.x-k8s.io",
        "admissionchecks/status",
        &[(
            "patch",
            "to report that nobody answers them any more: their queues would let people wait for ever",
        )],
    ),
    Right {
        name: LEASE,
        ..right(
            Scope::Own,
            "coordination.k8s.io",
            "leases",
            &[("get", "to see whether a replica still has the lease")],
        )
    },
    Right {
        name: DEPLOYMENT,
        ..right(
            Scope::Own,
            "apps",
            "deployments/scale",
            &[("patch", "to stop the operator: its Deployment is scaled to zero")],
        )
    },
];

/// The rules of all scopes as the chart reads them: one list of RBAC rules a
/// key.
#[must_use]
pub fn rules_by_scope() -> Value {
    let always = Installation::default();
    let cluster = always.rules(Scope::Cluster);
    let beyond = |with: Installation| -> Vec<Value> {
        with.rules(Scope::Cluster).into_iter().filter(|rule| !cluster.contains(rule)).collect()
    };
    let patch = beyond(Installation { patch_cluster_policy: true, ..Installation::default() });
    let secure = beyond(Installation { secure_metrics: true, ..Installation::default() });
    let reads = beyond(Installation { kueue: Kueue::Report, ..Installation::default() });
    let mut answers = beyond(Installation { kueue: Kueue::AdmissionCheck, ..Installation::default() });
    answers.retain(|rule| !reads.contains(rule));
    let publishing = Installation { hardware_profiles: HardwareProfiles::Publish, ..Installation::default() };
    let openshift_ai = publishing.rules(Scope::OpenShiftAi);
    let plans = beyond(publishing);
    json!({
        "cluster": cluster,
        "patchClusterPolicy": patch,
        "secureMetrics": secure,
        "readsQueues": reads,
        "answersChecks": answers,
        "plansProfiles": plans,
        "openshiftAi": openshift_ai,
        "own": always.rules(Scope::Own),
        "gpuOperator": always.rules(Scope::GpuOperator),
        // Those in its own namespace name the Deployment, whose name the chart makes.
        "release": rules(RELEASE.iter().filter(|right| right.scope == Scope::Cluster)),
    })
}

/// RBAC's rules for some rights. Resources of one group with the same verbs
/// share a rule.
fn rules<'a>(rights: impl Iterator<Item = &'a Right>) -> Vec<Value> {
    let mut rules: BTreeMap<(&str, &str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for right in rights {
        let verbs = right.verbs.iter().map(|(verb, _)| *verb).collect();
        rules.entry((right.group, right.name, verbs)).or_default().push(right.resource);
    }
    let rule = |((group, name, verbs), resources): ((&str, &str, Vec<&str>), Vec<&str>)| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        if !name.is_empty() {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    rules.into_iter().map(rule).collect()
}

/// The page that explains each permission.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Permissions of the operator\n\n\
         This page is generated from the table in `crates/controller/src/rbac/rights.rs`; `deploy/rbac.yaml` grants exactly\n\
         these permissions, and the scenarios on a real control plane run with them. There are no wildcards, and no\n\
         permission on secrets.\n",
    );
    let scopes = [
        (Scope::Cluster, "In the whole cluster"),
        (Scope::Own, "In its own namespace"),
        (Scope::GpuOperator, "In the namespace of the GPU Operator"),
        (Scope::OpenShiftAi, "In the namespace that DSCInitialization names"),
    ];
    for (scope, title) in scopes {
        let _ = write!(page, "\n## {title}\n\n| resource | verb | why |\n|---|---|---|\n");
        for right in RIGHTS.iter().filter(|right| right.scope == scope) {
            rows(right, &mut page);
        }
    }
    page.push_str(
        "\n## For an administrators' map in another namespace\n\n\
         With `--administrators-map NAMESPACE/NAME`, where NAMESPACE is not that of the GPU Operator, the operator also\n\
         needs to read that one map. For `platform/mig-layouts`:\n\n```yaml\n",
    );
    let map = MapRef { namespace: "platform".to_owned(), name: "mig-layouts".to_owned() };
    let elsewhere = Installation { administrators_map: Some(map), ..Installation::default() };
    for manifest in elsewhere.administrators_role() {
        // JSON is YAML, and kubectl takes it as it is.
        let _ = writeln!(page, "---\n{manifest:#}");
    }
    page.push_str("```\n\nA lease with another name (`--lease-name`) needs this name in the Role above.\n");
    before_an_uninstallation(&mut page);
    page
}

/// The section of whoever runs `slicewright release`.
fn before_an_uninstallation(page: &mut String) {
    page.push_str(
        "\n## Before an uninstallation\n\n\
         The operator itself does not have the following permissions. They are for the account that runs\n\
         `slicewright release --stop-operator=DEPLOYMENT`: the chart's hook before `helm uninstall`, or you. With\n\
         `rbac.create=true`, the chart creates an account with them for the hook. With `rbac.create=false`, grant them to the\n\
         account that `uninstall.serviceAccountName` names (if it is empty, to the operator's account), or set\n\
         `uninstall.release=false`: without them the hook fails, and with it `helm uninstall`.\n",
    );
    for (scope, title) in
        [(Scope::Cluster, "In the whole cluster"), (Scope::Own, "In the operator's namespace")]
    {
        let _ = write!(page, "\n{title}:\n\n| resource | verb | why |\n|---|---|---|\n");
        for right in RELEASE.iter().filter(|right| right.scope == scope) {
            rows(right, page);
        }
    }
    page.push_str(
        "\nThe Deployment has the name of the Helm release (`fullnameOverride`, if that is set); with OLM it is `slicewright`.\n",
    );
}

/// A row for each verb.
fn rows(right: &Right, page: &mut String) {
    let group = if right.group.is_empty() { "" } else { "." };
    let mut resource = format!("`{}{group}{}`", right.resource, right.group);
    if !right.name.is_empty() {
        let _ = write!(resource, " named `{}`", right.name);
    }
    for (verb, why) in right.verbs {
        let when = match right.when {
            When::Always => "",
            When::PatchClusterPolicy => " (only with `--patch-cluster-policy` or `--patch-device-plugin`)",
            When::SecureMetrics => " (only with `--metrics-certificate`)",
            When::ReadsQueues => " (only with `--kueue=report` or `--kueue=admission-check`)",
            When::AnswersChecks => " (only with `--kueue=admission-check`)",
            When::PlansProfiles => {
                " (only with `--hardware-profiles=report` or `--hardware-profiles=publish`)"
            }
            When::PublishesProfiles => " (only with `--hardware-profiles=publish`)",
        };
        let _ = writeln!(page, "| {resource} | {verb} | {why}{when} |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_right_is_a_wildcard_and_each_verb_has_a_reason_and_stands_once() {
        let mut seen = std::collections::BTreeSet::new();
        for right in RIGHTS {
            for (verb, why) in right.verbs {
                assert!(why.starts_with("to "), "{} {verb}: {why}", right.resource);
                assert!(![right.group, right.resource, verb].contains(&"*"));
                assert_ne!(right.resource, "secrets");
                let key = (right.scope, right.group, right.resource, right.name, *verb);
                assert!(seen.insert(key), "{key:?} stands twice");
            }
        }
    }

    #[test]
    fn the_names_in_the_rights_are_those_of_the_settings() {
        let settings = Settings::new("", "");
        assert_eq!(settings.lease.name, LEASE);
        assert_eq!(settings.map_name, rollout::names::MAP_NAME);
    }

    #[test]
    fn a_map_of_the_administrators_gets_a_role_only_where_the_others_do_not_reach() {
        let of = |namespace: &str| {
            let map = MapRef { namespace: namespace.to_owned(), name: "theirs".to_owned() };
            let installation = Installation { administrators_map: Some(map), ..Installation::default() };
            installation.manifests().len() - Installation::default().manifests().len()
        };
        assert_eq!(of("platform"), 2);
        assert_eq!(of(&Installation::default().gpu_operator_namespace), 0);
    }

    #[test]
    fn cluster_policy_is_written_only_where_the_flag_allows_it() {
        let may_patch = |patch_cluster_policy| {
            let rules =
                Installation { patch_cluster_policy, ..Installation::default() }.rules(Scope::Cluster);
            rules.iter().any(|rule| {
                let has = |field: &str, value: &str| {
                    rule[field].as_array().is_some_and(|all| all.iter().any(|v| v == value))
                };
                has("resources", "clusterpolicies") && has("verbs", "patch")
            })
        };
        assert!(!may_patch(false));
        assert!(may_patch(true));
    }
}
