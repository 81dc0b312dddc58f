//! The chart on a real API server, by real Helm: installed, upgraded, rolled
//! back and uninstalled while policies are there. No kubelet runs here, so
//! the test does what the pods would: it runs the operator with the token of
//! the chart's service account, and the command of the chart's hook with the
//! token of the hook's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, ensure};
use api::foreign::HardwareProfile;
use api::foreign::hardware_profile::{
    DISABLED, MANAGED_BY, MANAGER, OFFERS, PROFILE_NAME, PROFILE_NAMESPACE, SPEC_DIGEST,
};
use e2e::audit::Audit;
use e2e::control_plane::{ControlPlane, client_of};
use e2e::objects::{self, GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE};
use e2e::operator::{self, Operator};
use e2e::rights::Used;
use e2e::{TEAM, policy, wait};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use packaging::{Helm, REGISTRY};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::menu::APPLICATIONS;

/// The release, and what its objects are named after.
const RELEASE: &str = "slicewright";
/// The account of the hook.
const HOOK: &str = "slicewright-release";
/// The hook, as the API server knows it: what it asks for is written down.
const HOOKS_USER: &str = "system:serviceaccount:slicewright-system:slicewright-release";

/// Profiles of ours: one that something names, and one that nothing names.
const PROFILES: [&str; 2] = ["gpu-named-a100-3g-40gb-0a1b2c3d", "gpu-unnamed-a100-3g-40gb-0a1b2c3d"];
/// How their names end.
const DIGEST: &str = "0a1b2c3d";

/// A cluster of its own: what is installed here would be in the way of others.
struct Site {
    plane: ControlPlane,
    client: Client,
    helm: Helm,
    home: TempDir,
}

impl Site {
    async fn new() -> anyhow::Result<Self> {
        let home = TempDir::new()?;
        let helm = Helm::find()?;
        let plane = ControlPlane::start(HOOKS_USER).await?;
        let client = client_of(plane.administrator()).await?;
        let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        objects::apply(&client, &namespace(GPU_OPERATOR_NAMESPACE)).await?;
        Ok(Self { plane, client, helm, home })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.helm.command();
        command.args(args).args(["--namespace", OPERATOR_NAMESPACE]);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig());
        command
    }

    /// Runs Helm beside everything else that goes on.
    async fn helm(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command(args);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {}: {error}{said}", args.join(" "));
        Ok(said)
    }

    async fn install(&self) -> anyhow::Result<String> {
        let chart = packaging::chart();
        let chart = chart.to_str().context("the chart's path is text")?;
        self.helm(&["install", RELEASE, chart, "--create-namespace", "--set-json", REGISTRY]).await
    }

    /// The operator of the release, with its rights.
    async fn operator(&self) -> anyhow::Result<Operator> {
        let config = operator::account_of(self.plane.administrator(), RELEASE).await?;
        Operator::start(config, operator::settings("first"))
    }

    async fn replicas(&self) -> anyhow::Result<Option<i32>> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let found = deployments.get_opt(RELEASE).await?;
        Ok(found.and_then(|deployment| deployment.spec?.replicas))
    }

    async fn may_patch_cluster_policy(&self) -> anyhow::Result<bool> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let rules = roles.get(RELEASE).await?.rules.unwrap_or_default();
        let patches = |verbs: &[String]| verbs.iter().any(|verb| verb == "patch");
        let concerns = |all: &Option<Vec<String>>| all.iter().flatten().any(|r| r == "clusterpolicies");
        Ok(rules.iter().any(|rule| patches(&rule.verbs) && concerns(&rule.resources)))
    }

    /// Waits until the operator has said something about the policy: it could
    /// read it, and it may write its status. That no node is there to be
    /// partitioned is what it says.
    async fn answered(&self, name: &str) -> anyhow::Result<()> {
        let policies: Api<api::GpuPartitionPolicy> = Api::all(self.client.clone());
        wait::until_one(policies, name, "the operator has answered the policy", wait::PATIENCE, |policy| {
            let status = policy.and_then(|policy| policy.status.as_ref()).ok_or("it has no status")?;
            let digest = status.policy_digest.as_ref().ok_or("its status has no digest")?;
            if digest.is_empty() { Err("its digest is empty".to_owned()) } else { Ok(()) }
        })
        .await
    }

    async fn policies(&self) -> anyhow::Result<Vec<String>> {
        let policies: Api<api::GpuPartitionPolicy> = Api::all(self.client.clone());
        let all = policies.list(&kube::api::ListParams::default()).await?;
        Ok(all.iter().map(ResourceExt::name_any).collect())
    }

    /// A kubeconfig with nothing but the token of a service account, as a pod
    /// has it.
    async fn kubeconfig_of(&self, account: &str) -> anyhow::Result<PathBuf> {
        let kubeconfig = operator::kubeconfig_of(self.plane.administrator(), account).await?;
        let path = self.home.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, serde_saphyr::to_string(&kubeconfig)?)?;
        Ok(path)
    }

    /// Does what a kubelet would do with the hook's pod: runs its command, and
    /// says that it succeeded.
    async fn run_the_hook(&self) -> anyhow::Result<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let hook =
            |pod: &Pod| pod.labels().get("app.kubernetes.io/component").is_some_and(|c| c == "release");
        let pod = wait::until(pods.clone(), "the hook's pod is there", wait::PATIENCE, |seen| {
            seen.values().find(|pod| hook(pod)).cloned().ok_or_else(|| "there is none".to_owned())
        })
        .await?;
        let spec = pod.spec.as_ref().context("a pod has a spec")?;
        let container = spec.containers.first().context("a pod has a container")?;
        ensure!(container.command.as_deref() == Some(&["/usr/bin/slicewright".to_owned()]), "{container:?}");
        let account = spec.service_account_name.as_deref().context("the hook has an account of its own")?;
        let kubeconfig = self.kubeconfig_of(account).await?;
        let args = container.args.clone().unwrap_or_default();
        let said = tokio::task::spawn_blocking(move || command_line(&args, &kubeconfig)).await??;
        let done = json!({"status": {"phase": "Succeeded"}});
        pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&done)).await?;
        Ok(said)
    }
}

/// The command of the hook's image, in this process.
fn command_line(args: &[String], kubeconfig: &Path) -> anyhow::Result<String> {
    let mut line = vec![OsString::from("slicewright")];
    line.extend(args.iter().map(OsString::from));
    line.extend(["--kubeconfig".into(), kubeconfig.into()]);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(line, &mut out, &mut err);
    let said = String::from_utf8(out)? + &String::from_utf8(err)?;
    ensure!(status == cli::exit::Status::Success, "{status:?}: {said}");
    Ok(said)
}

fn on_a_site(story: impl AsyncFnOnce(&Site) -> anyhow::Result<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let told = runtime.block_on(async {
        let site = Site::new().await?;
        story(&site).await
    });
    told.unwrap_or_else(|error| panic!("{error:?}"));
}

/// A node that is cordoned by us, and that we know. Whose a cordon is, the API
/// server knows by who wrote it.
async fn hold_a_node(site: &Site) -> anyhow::Result<()> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"slicewright.io/cordoned-by": "slicewright"}},
    });
    let node = objects::apply(&site.client, &node).await?;
    let ours = PatchParams { field_manager: Some("slicewright-node".to_owned()), ..PatchParams::default() };
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    Api::<Node>::all(site.client.clone()).patch("n1", &ours, &cordon).await?;
    let known = json!({
        "apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode",
        // Its agent is in the midst of a change, and is told to go no further.
        "spec": {"policy": "fleet", "change": {"id": "change-1", "gpus": []}},
        "metadata": {"name": "n1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node.uid().unwrap_or_default()},
        ]},
    });
    objects::apply(&site.client, &known).await?;
    Ok(())
}

/// A check of Kueue that queues name, and that nobody answers once everything is gone. Kueue itself is not there.
async fn make_a_check(site: &Site) -> anyhow::Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "admissionchecks.kueue.x-k8s.io", "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"}},
        "spec": {
            "group": "kueue.x-k8s.io", "scope": "Cluster",
            "names": {"kind": "AdmissionCheck", "plural": "admissionchecks"},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    });
    objects::install_crds(&site.client, &[crd]).await?;
    let mut check = check();
    check["spec"] = json!({"controllerName": "slicewright.io/slices"});
    objects::apply(&site.client, &check).await?;
    Ok(())
}

/// The check, as it is named.
fn check() -> Value {
    json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "gpu-slices"}})
}

/// A hardware profile as the operator has published it.
fn profile(name: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
        "metadata": {"name": name, "namespace": APPLICATIONS, "labels": {MANAGED_BY: MANAGER}, "annotations": {
            DISABLED: "false", OFFERS: "research/NVIDIA-A100-SXM4-80GB/3g.40gb", SPEC_DIGEST: DIGEST}},
        "spec": {"identifiers": [
            {"displayName": "3g.40gb", "identifier": "nvidia.com/mig-3g.40gb", "minCount": 1, "defaultCount": 1}]},
    })
}

/// OpenShift AI with two profiles of ours: a stopped workbench names one of them, and nothing the other.
async fn publish_profiles(site: &Site) -> anyhow::Result<()> {
    let of_ai = |crd: &Value| {
        let group = crd["spec"]["group"].as_str().unwrap_or_default();
        ["kubeflow.org", "infrastructure.opendatahub.io"].contains(&group)
    };
    let crds: Vec<Value> = objects::foreign_crds()?.into_iter().filter(of_ai).collect();
    objects::install_crds(&site.client, &crds).await?;
    for namespace in [APPLICATIONS, TEAM] {
        objects::ensure_namespace(&site.client, namespace, &json!({})).await?;
    }
    for name in PROFILES {
        // Otherwise nobody would take it for ours anyway.
        let read: HardwareProfile = serde_json::from_value(profile(name))?;
        ensure!(read.is_published(), "{name} is as the operator has published it");
        objects::apply(&site.client, &profile(name)).await?;
    }
    let lab = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": "lab", "namespace": TEAM, "annotations": {
            "kubeflow-resource-stopped": "2026-11-20T10:00:00Z",
            PROFILE_NAME: PROFILES[0], PROFILE_NAMESPACE: APPLICATIONS,
        }},
        "spec": {"template": {"spec": {"containers": [{"name": "lab", "image": "registry.example/lab:1"}]}}},
    });
    objects::apply(&site.client, &lab).await?;
    Ok(())
}

/// The versions of both profiles: whoever wrote to one changed it.
async fn versions_of_profiles(site: &Site) -> anyhow::Result<Vec<Option<String>>> {
    let (api, _) = objects::api_of(&site.client, &profile("any")).await?;
    let mut versions = Vec::new();
    for name in PROFILES {
        let there = api.get(name).await.with_context(|| format!("the profile {name} is gone"))?;
        versions.push(there.resource_version());
    }
    Ok(versions)
}

#[test]
fn the_chart_is_installed_upgraded_rolled_back_and_uninstalled_and_policies_survive() {
    on_a_site(async |site| {
        let notes = site.install().await?;
        ensure!(notes.contains("It changes nothing until there is a policy"), "{notes}");
        // The policy that the notes tell people to begin with is one that the API server takes.
        let first = notes.split("<<POLICY\n").nth(1).and_then(|rest| rest.split("\nPOLICY\n").next());
        for first in objects::documents(first.context("the notes have a first policy")?)? {
            objects::apply(&site.client, &first).await?;
        }
        let operator = site.operator().await?;
        site.answered("fleet").await?;
        let demand: Value = policy("research", "research").always(&[("3g.40gb", 2)]).into();
        objects::apply(&site.client, &demand).await?;
        let whole: Value = policy("training", "training").into();
        objects::apply(&site.client, &whole).await?;
        site.answered("research").await?;
        site.answered("training").await?;

        let chart = packaging::chart();
        let chart = chart.to_str().context("the chart's path is text")?;
        let values = [
            "--reset-then-reuse-values",
            "--set",
            "replicas=3",
            "--set",
            "gpuOperator.patchClusterPolicy=true",
        ];
        site.helm(&[["upgrade", RELEASE, chart].as_slice(), &values].concat()).await?;
        assert_eq!(site.replicas().await?, Some(3));
        assert!(site.may_patch_cluster_policy().await?);
        assert_eq!(site.policies().await?, ["fleet", "research", "training"]);
        site.helm(&["rollback", RELEASE, "1"]).await?;
        assert_eq!(site.replicas().await?, Some(2));
        assert!(!site.may_patch_cluster_policy().await?);
        assert_eq!(site.policies().await?, ["fleet", "research", "training"]);

        // A node that we hold when everything goes, and what we know of it.
        hold_a_node(site).await?;
        make_a_check(site).await?;
        publish_profiles(site).await?;
        let published = versions_of_profiles(site).await?;
        let deployments: Api<Deployment> = Api::namespaced(site.client.clone(), OPERATOR_NAMESPACE);
        let scaled =
            wait::until_one(deployments, RELEASE, "the operator is scaled down", wait::PATIENCE, |d| {
                let replicas = d.and_then(|d| d.spec.as_ref()?.replicas);
                (replicas == Some(0)).then_some(()).ok_or_else(|| format!("{replicas:?}"))
            });
        let kubelet = async {
            scaled.await?;
            operator.stop().await
        };
        let (gone, said, stopped) = tokio::join!(
            site.helm(&["uninstall", RELEASE, "--timeout", "120s"]),
            site.run_the_hook(),
            kubelet
        );
        stopped?;
        let said = said?;
        gone?;
        assert!(said.contains("the operator is stopped: Deployment slicewright has no replicas"), "{said}");
        assert!(said.contains("n1: released and uncordoned"), "{said}");
        assert!(said.contains("AdmissionCheck gpu-slices: not active any more"), "{said}");
        let (checks, _) = objects::api_of(&site.client, &check()).await?;
        let told = &checks.get("gpu-slices").await?.data["status"]["conditions"][0];
        assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("OperatorStopped")));
        let nodes: Api<Node> = Api::all(site.client.clone());
        let node = nodes.get("n1").await?;
        assert_ne!(node.spec.and_then(|spec| spec.unschedulable), Some(true));
        // It had the rights that it needed, and used each of them.
        let mut used = Used::of_account(HOOK)?;
        used.add(&Audit::whole(site.plane.audit_log()).requests()?);
        used.note()?;
        let (unused, refused) = (used.unused(), used.refused());
        ensure!(unused.is_empty() && refused.is_empty(), "unused: {unused:?}; refused: {refused:?}");

        assert_eq!(site.replicas().await?, None);
        // Whoever is started again may need what it names (docs/adr/0016).
        assert_eq!(versions_of_profiles(site).await?, published, "nobody has touched the profiles");
        assert_eq!(site.policies().await?, ["fleet", "research", "training"]);
        let crds: Api<CustomResourceDefinition> = Api::all(site.client.clone());
        crds.get("gpupartitionpolicies.slicewright.io")
            .await
            .map_err(|error| anyhow!("a CRD is gone: {error}"))?;

        // Whoever comes back finds the policies as they were.
        site.install().await?;
        let operator = site.operator().await?;
        operator.has_run_rounds(1).await?;
        site.answered("research").await?;
        operator.stop().await
    });
}

/// A node as the release before left it: cordoned by us for a change that had
/// not begun yet, as the CRD of that release can say it.
async fn leave_a_node_on_its_way(site: &Site) -> anyhow::Result<()> {
    hold_a_node(site).await?;
    let progress = json!({
        "phase": "Cordoning", "since": "2026-11-20T08:00:00Z",
        "target": {"layout": {"0": {"mig": {"3g.40gb": 2}}}, "label": "slicewright-3g.40gb-2", "attempt": 1},
    });
    let status = json!({"status": {"rollout": {"phase": "Cordoning", "attempt": 1, "progress": progress}}});
    let nodes: Api<api::GpuNode> = Api::all(site.client.clone());
    nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

async fn schema_of_gpu_nodes(site: &Site) -> anyhow::Result<Value> {
    let crds: Api<CustomResourceDefinition> = Api::all(site.client.clone());
    Ok(serde_json::to_value(crds.get("gpunodes.slicewright.io").await?.spec)?)
}

/// Who installed the release before, in its own words, and has policies and a
/// node in the middle of a change, comes to this one by the command that the
/// guide names: what was set stays set, the CRDs are today's, the policies are
/// answered, and the node is not left cordoned.
#[test]
fn the_release_before_is_upgraded_with_its_own_values_while_a_node_is_on_its_way() {
    on_a_site(async |site| {
        let before = packaging::previous::chart();
        let before = before.to_str().context("the archive's path is text")?;
        // Secrets were a list of names then.
        let theirs = r#"imagePullSecrets=["mirror"]"#;
        let own = ["--create-namespace", "--set-json", REGISTRY, "--set-json", theirs, "--set", "replicas=3"];
        site.helm(&[["install", RELEASE, before].as_slice(), &own].concat()).await?;
        let old_schema = schema_of_gpu_nodes(site).await?;
        let demand: Value = policy("research", "research").always(&[("3g.40gb", 2)]).into();
        objects::apply(&site.client, &demand).await?;
        leave_a_node_on_its_way(site).await?;

        let chart = packaging::chart();
        let chart = chart.to_str().context("the chart's path is text")?;
        site.helm(&["upgrade", RELEASE, chart, "--reset-then-reuse-values"]).await?;
        assert_ne!(schema_of_gpu_nodes(site).await?, old_schema, "the CRDs changed in between");
        let deployments: Api<Deployment> = Api::namespaced(site.client.clone(), OPERATOR_NAMESPACE);
        let spec = deployments.get(RELEASE).await?.spec.context("a Deployment has a spec")?;
        let pod = spec.template.spec.context("a template has a spec")?;
        let secrets: Vec<_> = pod.image_pull_secrets.iter().flatten().map(|secret| &*secret.name).collect();
        assert_eq!((spec.replicas, secrets), (Some(3), vec!["mirror"]));
        assert_eq!(site.policies().await?, ["research"]);
        let nodes: Api<api::GpuNode> = Api::all(site.client.clone());
        let kept = nodes.get("n1").await?.status.and_then(|status| status.rollout);
        assert_eq!(kept.map(|rollout| rollout.phase).as_deref(), Some("Cordoning"));

        let operator = site.operator().await?;
        site.answered("research").await?;
        let nodes: Api<Node> = Api::all(site.client.clone());
        wait::until_one(nodes, "n1", "the node is uncordoned", wait::PATIENCE, |node| {
            let node = node.ok_or("it is not there")?;
            let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
            let is_marked = node.labels().contains_key("slicewright.io/cordoned-by");
            if is_cordoned || is_marked { Err("it is cordoned, or marked".to_owned()) } else { Ok(()) }
        })
        .await?;
        operator.stop().await
    });
}
