//! Real OLM, as a process, installs the bundle of the repository, and the operator works with the
//! permissions from OLM.
//!
//! OLM is two programs. The one that resolves catalogs pulls the bundle's image in a Job, which needs a
//! kubelet and a registry; here its own code (`olm-steps`) returns the objects that it would create, and
//! the test creates them. The one that installs runs unmodified. There is no kubelet either: a virtual node
//! admits the pods of the Deployment and reports them as ready, and the operator runs in this process, with
//! the token of the service account that OLM uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use cluster::{Cluster, Fleet, NodeSpec};
use e2e::control_plane::{ControlPlane, client_of};
use e2e::objects::{self, GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE};
use e2e::operator::{self, Operator, SPEED};
use e2e::process::{Den, Running};
use e2e::{policy, wait};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use packaging::{Helm, Render};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The service account, the Deployment, and what else is named after them.
const NAME: &str = "slicewright";
/// The operator, as the API server knows it.
const USER: &str = "system:serviceaccount:slicewright-system:slicewright";
/// How long OLM may take; its queues are patient.
const PATIENCE: Duration = Duration::from_secs(180);

/// What OLM's catalog operator would create, by OLM's own code.
fn steps() -> anyhow::Result<Vec<Value>> {
    let bundle = packaging::root().join("olm-bundle");
    let output = Command::new(tools::find("olm-steps")?).arg(&bundle).arg(OPERATOR_NAMESPACE).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A cluster with OLM.
struct Site {
    plane: ControlPlane,
    client: Client,
    den: Den,
    olm: Option<Running>,
}

impl Site {
    async fn new() -> anyhow::Result<Self> {
        let plane = ControlPlane::start(USER).await?;
        let client = client_of(plane.administrator()).await?;
        let den = Den::new()?;
        let crds: Vec<Value> =
            objects::crds_in(&tools::find("olm-crds")?)?.into_iter().map(|(_, crd)| crd).collect();
        ensure!(crds.len() >= 6, "olm-crds has only {} CRDs", crds.len());
        objects::install_crds(&client, &crds).await?;
        // The Prometheus Operator's own, of the kinds that the bundle has.
        let mut monitoring = objects::crds_in(&tools::find("monitoring-crds")?)?;
        monitoring
            .retain(|(file, _)| ["rules.yaml", "servicemonitors.yaml"].iter().any(|end| file.ends_with(end)));
        let monitoring: Vec<Value> = monitoring.into_iter().map(|(_, crd)| crd).collect();
        objects::install_crds(&client, &monitoring).await?;
        // And of OpenShift's console.
        let console: Vec<Value> =
            objects::crds_in(&tools::find("console-crds")?)?.into_iter().map(|(_, crd)| crd).collect();
        objects::install_crds(&client, &console).await?;
        for namespace in [OPERATOR_NAMESPACE, GPU_OPERATOR_NAMESPACE] {
            objects::ensure_namespace(&client, namespace, &json!({})).await?;
        }
        Ok(Self { plane, client, den, olm: None })
    }

    fn start_olm(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(tools::find("olm")?);
        command.arg("--debug").env("KUBECONFIG", self.plane.kubeconfig()).env("HOME", self.den.folder());
        self.olm = Some(self.den.start("olm", command)?);
        Ok(())
    }

    /// How often OLM has said something.
    fn olm_said(&self, words: &str) -> usize {
        let log = std::fs::read_to_string(self.den.folder().join("olm.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains(words)).count()
    }

    /// Creates what the catalog operator creates, as it does: the
    /// ClusterServiceVersion first, so that the others can be owned by it, and
    /// all of them marked as OLM's.
    async fn create(&self, steps: &[Value]) -> anyhow::Result<()> {
        let group = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": NAME, "namespace": OPERATOR_NAMESPACE}, "spec": {},
        });
        objects::apply(&self.client, &group).await?;
        // Nobody here acts on it; a guide that removes the operator has to remove it as well.
        let subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": NAME, "namespace": OPERATOR_NAMESPACE},
            "spec": {"channel": "fast-v0", "name": NAME, "source": NAME, "sourceNamespace": "openshift-marketplace"},
        });
        objects::apply(&self.client, &subscription).await?;
        let is_csv = |object: &&Value| object["kind"] == "ClusterServiceVersion";
        let csv = steps.iter().find(is_csv).context("a bundle has a ClusterServiceVersion")?;
        let uid = objects::apply(&self.client, &managed(csv)).await?.uid().context("it has a uid")?;
        for object in steps.iter().filter(|object| !is_csv(object)) {
            let mut object = managed(object);
            for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
                owner["uid"] = json!(uid);
            }
            if object["kind"] == "CustomResourceDefinition" {
                objects::install_crds(&self.client, &[object]).await?;
            } else {
                objects::apply(&self.client, &object).await?;
            }
        }
        Ok(())
    }

    /// That Prometheus finds what the bundle has for it, as the bundle has it:
    /// the API server took every field.
    async fn is_watched(&self, steps: &[Value]) -> anyhow::Result<()> {
        for kind in ["ServiceMonitor", "PrometheusRule"] {
            let ours = steps.iter().find(|step| step["kind"] == kind);
            let ours = managed(ours.with_context(|| format!("the bundle has a {kind}"))?);
            let (api, _) = objects::api_of(&self.client, &ours).await?;
            let there = api.get(ours["metadata"]["name"].as_str().unwrap_or_default()).await?;
            ensure!(there.data["spec"] == ours["spec"], "{kind}: {}", there.data["spec"]);
        }
        Ok(())
    }

    /// The ClusterServiceVersions in the operator's namespace.
    async fn versions(&self) -> anyhow::Result<Api<DynamicObject>> {
        self.of_olm("ClusterServiceVersion").await
    }

    /// What OLM has of a kind in the operator's namespace.
    async fn of_olm(&self, kind: &str) -> anyhow::Result<Api<DynamicObject>> {
        let like = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
            "metadata": {"namespace": OPERATOR_NAMESPACE},
        });
        Ok(objects::api_of(&self.client, &like).await?.0)
    }

    async fn phase(&self, name: &str) -> anyhow::Result<Option<(String, String)>> {
        let api = self.versions().await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = api.get_opt(name).await?;
        Ok(found.map(|csv| (text(&csv.data["status"]["phase"]), text(&csv.data["status"]["message"]))))
    }

    async fn succeeds(&mut self, name: &str) -> anyhow::Result<()> {
        wait::asking("the ClusterServiceVersion has succeeded", PATIENCE, async || {
            if let Some(olm) = &mut self.olm
                && let Some(status) = olm.ended()?
            {
                let (name, said) = (olm.name(), olm.last_words());
                anyhow::bail!("{name} ended by itself with {status}:\n{said}");
            }
            Ok(match self.phase(name).await? {
                Some((phase, _)) if phase == "Succeeded" => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await
    }

    async fn deployment(&self) -> anyhow::Result<Option<Deployment>> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        Ok(api.get_opt(NAME).await?)
    }

    /// Everything that the service account may do, and where: by the bindings
    /// that are there. `*` is everywhere.
    async fn rights(&self) -> anyhow::Result<BTreeSet<Right>> {
        let all = ListParams::default();
        let cluster_roles: BTreeMap<String, Vec<PolicyRule>> = Api::<ClusterRole>::all(self.client.clone())
            .list(&all)
            .await?
            .into_iter()
            .map(|role| (role.name_any(), role.rules.unwrap_or_default()))
            .collect();
        let roles: BTreeMap<(String, String), Vec<PolicyRule>> = Api::<Role>::all(self.client.clone())
            .list(&all)
            .await?
            .into_iter()
            .map(|role| {
                ((role.namespace().unwrap_or_default(), role.name_any()), role.rules.unwrap_or_default())
            })
            .collect();
        let rules_of = |role: &RoleRef, namespace: &str| -> Vec<PolicyRule> {
            let found = if role.kind == "ClusterRole" {
                cluster_roles.get(&role.name)
            } else {
                roles.get(&(namespace.to_owned(), role.name.clone()))
            };
            found.cloned().unwrap_or_default()
        };
        let mut rights = BTreeSet::new();
        for binding in Api::<ClusterRoleBinding>::all(self.client.clone()).list(&all).await? {
            if is_for_us(&binding.subjects) {
                rights.extend(flat("*", &rules_of(&binding.role_ref, "")));
            }
        }
        for binding in Api::<RoleBinding>::all(self.client.clone()).list(&all).await? {
            if is_for_us(&binding.subjects) {
                let namespace = binding.namespace().unwrap_or_default();
                rights.extend(flat(&namespace, &rules_of(&binding.role_ref, &namespace)));
            }
        }
        Ok(rights)
    }
}

/// As OLM marks what it makes: without the label it does not see it.
fn managed(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["labels"]["olm.managed"] = json!("true");
    let of_the_cluster = ["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"];
    if of_the_cluster.iter().all(|kind| object["kind"] != *kind) {
        object["metadata"]["namespace"] = json!(OPERATOR_NAMESPACE);
    }
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| !value.is_null());
    }
    object
}

fn is_for_us(subjects: &Option<Vec<Subject>>) -> bool {
    subjects.iter().flatten().any(|subject| {
        subject.kind == "ServiceAccount"
            && subject.name == NAME
            && subject.namespace.as_deref() == Some(OPERATOR_NAMESPACE)
    })
}

/// One thing that may be done: namespace (or everywhere), group, resource,
/// name (or any), verb.
type Right = [String; 5];

fn flat(namespace: &str, rules: &[PolicyRule]) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in rules {
        let any = vec!["*".to_owned()];
        let names = rule.resource_names.as_ref().filter(|names| !names.is_empty()).unwrap_or(&any);
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for name in names {
                    for verb in &rule.verbs {
                        all.insert([namespace, group, resource, name, verb].map(ToOwned::to_owned));
                    }
                }
            }
        }
    }
    all
}

/// What the chart makes with the values that the bundle is made with.
fn as_the_bundle() -> anyhow::Result<Vec<Value>> {
    let render = Render {
        values: vec![packaging::bundle::sources().join("values.yaml")],
        set: vec![packaging::REGISTRY.to_owned()],
        apis: vec!["monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"],
    };
    Ok(Helm::find()?.objects(&packaging::chart(), &render)?)
}

/// What the chart gives to the operator, wherever it does.
fn chart_rights() -> anyhow::Result<BTreeSet<Right>> {
    let objects = as_the_bundle()?;
    let mut all = BTreeSet::new();
    for role in objects.iter().filter(|o| o["kind"] == "ClusterRole" || o["kind"] == "Role") {
        let bound = objects.iter().any(|binding| {
            binding["roleRef"]["name"] == role["metadata"]["name"]
                && binding["roleRef"]["kind"] == role["kind"]
                && binding["subjects"][0]["name"] == NAME
        });
        if bound {
            let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone())?;
            all.extend(flat("*", &rules));
        }
    }
    Ok(all)
}

/// The arguments that the chart gives to the operator.
fn chart_arguments() -> anyhow::Result<Vec<String>> {
    let objects = as_the_bundle()?;
    let deployment = objects.iter().find(|o| o["kind"] == "Deployment").context("there is a Deployment")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    // Without any flag there is no list of them.
    Ok(container
        .get("args")
        .map(|args| serde_json::from_value(args.clone()))
        .transpose()?
        .unwrap_or_default())
}

/// How somebody reaches the cluster, in a file.
fn somebody(kubeconfig: &Kubeconfig, folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join("somebody.kubeconfig");
    std::fs::write(&path, serde_saphyr::to_string(kubeconfig)?)?;
    Ok(path)
}

/// The commands by which the guide uninstalls, as they stand; `oc` is kubectl.
fn uninstall(kubeconfig: &Kubeconfig, folder: &Path) -> anyhow::Result<()> {
    let guide = std::fs::read_to_string(packaging::root().join("docs/guides/olm.md"))?;
    let blocks: Vec<&str> = guide
        .split("<!-- run: e2e/release/olm.rs -->\n```text\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    ensure!(blocks.len() == 2, "the guide has {} blocks to run", blocks.len());
    let oc = "oc() { [ \"$1\" != adm ] || shift; \"$KUBECTL\" \"$@\"; }";
    let output = Command::new("sh")
        .args(["-euc", &format!("{oc}\n{}", blocks.concat())])
        .env("KUBECTL", tools::find("kubectl")?)
        .env("KUBECONFIG", somebody(kubeconfig, folder)?)
        .output()?;
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// `slicewright release`, in this process.
fn release(kubeconfig: &Kubeconfig, folder: &Path) -> anyhow::Result<String> {
    let path = somebody(kubeconfig, folder)?;
    let line = [
        "slicewright",
        "release",
        "--stop-operator=slicewright",
        "--operator-namespace=slicewright-system",
        "--kubeconfig",
    ];
    let line = line.iter().map(std::ffi::OsString::from).chain([path.into()]);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(line, &mut out, &mut err);
    let said = String::from_utf8(out)? + &String::from_utf8(err)?;
    ensure!(status == cli::exit::Status::Success, "{status:?}: {said}");
    Ok(said)
}

#[test]
fn olm_installs_the_bundle_and_the_operator_works_with_the_rights_that_it_got() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let told = runtime.block_on(async {
        let mut site = Site::new().await?;
        let told = story(&mut site).await;
        if told.is_err() {
            site.den.keep();
            site.plane.keep_folder();
            eprintln!(
                "the logs are in {} and {}",
                site.den.folder().display(),
                site.plane.folder().display()
            );
        }
        told
    });
    runtime.shutdown_background();
    told.unwrap_or_else(|error| panic!("{error:?}"));
}

async fn story(site: &mut Site) -> anyhow::Result<()> {
    let steps = steps()?;
    let csv = steps.iter().find(|step| step["kind"] == "ClusterServiceVersion");
    let csv = csv.and_then(|csv| csv["metadata"]["name"].as_str()).context("the bundle has a version")?;

    // A node for the pods, with GPUs for what comes after.
    let nodes = vec![NodeSpec::new("n1", 1, "A100-80GB").layout("all-1g.10gb")];
    let fleet = Fleet { nodes, speed: SPEED, ..Fleet::default() };
    let shutdown = CancellationToken::new();
    let world = tokio::spawn(Cluster::new(site.client.clone(), fleet, shutdown.clone())?.run());

    // Installed.
    site.create(&steps).await?;
    site.is_watched(&steps).await?;
    site.start_olm()?;
    site.succeeds(csv).await?;
    let deployment = site.deployment().await?.context("OLM makes the Deployment")?;
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas);
    ensure!(ready == Some(2), "{ready:?} replicas are ready");
    let pods = deployment.spec.context("a Deployment has a spec")?.template.spec.context("and its pods")?;
    let arguments = pods.containers[0].args.clone().unwrap_or_default();
    ensure!(arguments == chart_arguments()?, "{arguments:?}");

    // With the chart's rights, in every namespace, and what OLM adds by itself for one that watches all.
    let rights = site.rights().await?;
    let mut expected = chart_rights()?;
    expected.extend(
        ["get", "list", "watch"].map(|verb| ["*", "", "namespaces", "*", verb].map(ToOwned::to_owned)),
    );
    // OLM keeps the role in the namespace, from which it makes the one for the cluster.
    let in_namespace = rights.iter().filter(|right| right[0] != "*");
    for right in in_namespace {
        let mut everywhere = right.clone();
        "*".clone_into(&mut everywhere[0]);
        ensure!(right[0] == OPERATOR_NAMESPACE && rights.contains(&everywhere), "{right:?}");
    }
    let everywhere: BTreeSet<Right> = rights.into_iter().filter(|right| right[0] == "*").collect();
    ensure!(
        everywhere == expected,
        "more: {:?}; less: {:?}",
        everywhere.difference(&expected).collect::<Vec<_>>(),
        expected.difference(&everywhere).collect::<Vec<_>>()
    );

    // They are enough: every watch is filled, and the policy is answered.
    let config = operator::account_of(site.plane.administrator(), NAME).await?;
    let running = Operator::start(config, operator::settings("olm"))?;
    let research: Value = policy("research", "research").into();
    objects::apply(&site.client, &research).await?;
    let policies: Api<api::GpuPartitionPolicy> = Api::all(site.client.clone());
    wait::until_one(
        policies.clone(),
        "research",
        "the operator has answered the policy",
        wait::PATIENCE,
        |p| {
            let digest = p.and_then(|policy| policy.status.as_ref()?.policy_digest.as_ref());
            digest.map(|_| ()).ok_or_else(|| "its status has no digest".to_owned())
        },
    )
    .await?;

    // Uninstalled, in the order of the guide. First the operator is stopped, and OLM leaves it so.
    let administrator = site.plane.administrator().clone();
    let folder = site.den.folder().to_owned();
    let scaled = async {
        let deployments: Api<Deployment> = Api::namespaced(site.client.clone(), OPERATOR_NAMESPACE);
        wait::until_one(deployments, NAME, "the operator is scaled down", wait::PATIENCE, |d| {
            let replicas = d.and_then(|d| d.spec.as_ref()?.replicas);
            (replicas == Some(0)).then_some(()).ok_or_else(|| format!("{replicas:?}"))
        })
        .await?;
        // As a kubelet ends the pods.
        running.stop().await
    };
    let (said, stopped) =
        tokio::join!(tokio::task::spawn_blocking(move || release(&administrator, &folder)), scaled);
    stopped?;
    let said = said??;
    ensure!(said.contains("the operator is stopped"), "{said}");
    // It looks at it once more, from the beginning to the end, after the replicas are gone. By a label: annotations
    // of the version belong into the Deployment's template, so OLM would install that anew, with its replicas.
    let begun = site.olm_said("start syncing CSV");
    let versions = site.versions().await?;
    let touched = json!({"metadata": {"labels": {"e2e.slicewright.io/touched": "true"}}});
    versions.patch(csv, &PatchParams::default(), &Patch::Merge(&touched)).await?;
    wait::asking("OLM has looked at it", PATIENCE, async || {
        let ended = site.olm_said("end syncing CSV");
        Ok(if ended > begun { Ok(()) } else { Err(format!("it began {begun} times and ended {ended}")) })
    })
    .await?;
    let replicas = site.deployment().await?.and_then(|d| d.spec?.replicas);
    ensure!(replicas == Some(0), "OLM scaled it back to {replicas:?}");

    // Then the version goes, with what it owns; policies stay. A node that an operator left in the middle of a change is
    // opened, with the operand that was paused.
    let (mark, back, plugin) =
        ("slicewright.io/cordoned-by", "slicewright.io/give-back", "nvidia.com/gpu.deploy.device-plugin");
    let nodes: Api<Node> = Api::all(site.client.clone());
    let held = json!({"spec": {"unschedulable": true},
        "metadata": {"labels": {(mark): "slicewright", (plugin): "paused-for-slicewright"}}});
    nodes.patch("n1", &PatchParams::default(), &Patch::Merge(&held)).await?;
    let (administrator, folder) = (site.plane.administrator().clone(), site.den.folder().to_owned());
    tokio::task::spawn_blocking(move || uninstall(&administrator, &folder)).await??;
    let subscriptions = site.of_olm("Subscription").await?;
    ensure!(subscriptions.get_opt(NAME).await?.is_none(), "the subscription would install it again");
    let node = nodes.get("n1").await?;
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    let labels = node.labels();
    let ours = [mark, back].map(|label| labels.contains_key(label));
    ensure!(!unschedulable && ours == [false, false], "{labels:?}");
    ensure!(labels.get(plugin).is_some_and(|value| value == "true"), "{labels:?}");
    wait::asking("the Deployment is gone", PATIENCE, async || {
        Ok(match site.deployment().await? {
            None => Ok(()),
            Some(_) => Err("it is there".to_owned()),
        })
    })
    .await?;
    ensure!(policies.get_opt("research").await?.is_some(), "the policy is gone");
    shutdown.cancel();
    let _ = world.await;
    Ok(())
}
