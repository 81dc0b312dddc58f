//! Flux on the control plane of a scenario: its two controllers as processes, and the actions of its users.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use e2e::process::{Den, Running};
use e2e::{Scene, objects, ports};
use futures::FutureExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use packaging::Helm;
use serde_json::{Value, json};

use super::git::Repository;

/// Where Flux and its objects are.
const NAMESPACE: &str = "flux-system";
/// The source, and the Kustomization of the policies.
pub(super) const POLICIES: &str = "gpu-policies";
/// The Kustomization of the operator.
pub(super) const OPERATOR: &str = "slicewright";
/// Flux looks at health every five seconds, and some things take two looks.
const PATIENCE: Duration = Duration::from_secs(120);

/// The files that users start from.
const FILES: [&str; 4] = [
    include_str!("../../../examples/gitops/flux/source.yaml"),
    include_str!("../../../examples/gitops/flux/rights.yaml"),
    include_str!("../../../examples/gitops/flux/operator.yaml"),
    include_str!("../../../examples/gitops/flux/policies.yaml"),
];

/// The operator by helm-controller, which does not run here.
const HELM_RELEASE: &str = include_str!("../../../examples/gitops/flux/helm-release.yaml");

/// Flux, and a repository of its own.
pub(super) struct Flux<'a> {
    /// The cluster.
    pub(super) scene: &'a mut Scene,
    /// What Flux applies.
    pub(super) git: Repository,
    den: Den,
    running: Vec<Running>,
}

/// What a Kustomization says of itself.
#[derive(Clone, Debug)]
pub(super) struct ReadyCondition {
    /// Why it is, or is not, ready.
    pub(super) reason: String,
    /// The same, in a sentence.
    pub(super) message: String,
}

/// Runs Flux while a story is told, and ends it without taking anything of the
/// cluster along.
pub(super) async fn with_flux(
    scene: &mut Scene,
    story: impl AsyncFnOnce(&mut Flux<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut flux = Flux::start(scene).await?;
    let told = AssertUnwindSafe(story(&mut flux)).catch_unwind().await;
    if !matches!(told, Ok(Ok(()))) {
        flux.den.keep();
        tracing::warn!("what Flux logged is in {}", flux.den.folder().display());
    }
    let ended = flux.end().await;
    match told {
        Ok(Ok(())) => ended,
        Ok(Err(error)) => Err(error),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl<'a> Flux<'a> {
    async fn start(scene: &'a mut Scene) -> anyhow::Result<Self> {
        let mut crds = Vec::new();
        for folder in ["source-controller-crds", "kustomize-controller-crds"] {
            let found = objects::crds_in(&tools::find(folder)?)?;
            ensure!(!found.is_empty(), "{folder} has no CRD");
            crds.extend(found.into_iter().map(|(_, crd)| crd));
        }
        objects::install_crds(&scene.client(), &crds).await?;
        objects::ensure_namespace(&scene.client(), NAMESPACE, &json!({})).await?;
        let den = Den::new()?;
        let kubeconfig = den.folder().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_string(scene.administrator())?)?;
        let mut flux = Self { scene, git: Repository::serve().await?, den, running: Vec::new() };
        flux.start_controllers(&kubeconfig)?;
        Ok(flux)
    }

    fn start_controllers(&mut self, kubeconfig: &Path) -> anyhow::Result<()> {
        let address = || Ok::<_, std::io::Error>(format!("127.0.0.1:{}", ports::free()?));
        let (storage, one, other) = (address()?, address()?, address()?);
        let artifacts = self.den.folder().join("artifacts");
        std::fs::create_dir_all(&artifacts)?;
        let command = |name: &str, health: &str| -> anyhow::Result<Command> {
            let mut command = Command::new(tools::find(name)?);
            command.env("KUBECONFIG", kubeconfig).env("RUNTIME_NAMESPACE", NAMESPACE);
            // Temporary files of theirs go with the folder.
            command.env("TMPDIR", self.den.folder());
            command.args(["--metrics-addr=0", "--log-encoding=json", "--requeue-dependency=1s"]);
            command.arg(format!("--health-addr={health}"));
            Ok(command)
        };
        let mut source = command("source-controller", &one)?;
        source.arg(format!("--storage-path={}", artifacts.display()));
        source.args([format!("--storage-addr={storage}"), format!("--storage-adv-addr={storage}")]);
        let mut kustomize = command("kustomize-controller", &other)?;
        kustomize.arg("--concurrent=1");
        self.running.push(self.den.start("source-controller", source)?);
        self.running.push(self.den.start("kustomize-controller", kustomize)?);
        Ok(())
    }

    /// Takes Flux away, and leaves everything else.
    async fn end(mut self) -> anyhow::Result<()> {
        for name in [POLICIES, OPERATOR] {
            let api = self.api("kustomize.toolkit.fluxcd.io/v1", "Kustomization").await?;
            if api.get_opt(name).await?.is_some() {
                let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
                api.patch(name, &PatchParams::default(), &Patch::Merge(&orphan)).await?;
                api.delete(name, &DeleteParams::default()).await?;
                gone(&api, name).await?;
            }
        }
        let api = self.api("source.toolkit.fluxcd.io/v1", "GitRepository").await?;
        if api.get_opt(POLICIES).await?.is_some() {
            api.delete(POLICIES, &DeleteParams::default()).await?;
            gone(&api, POLICIES).await?;
        }
        for running in std::mem::take(&mut self.running) {
            self.den.stop(running)?;
        }
        Ok(())
    }

    async fn api(&self, api_version: &str, kind: &str) -> anyhow::Result<Api<DynamicObject>> {
        let like = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": NAMESPACE}});
        Ok(objects::api_of(&self.scene.client(), &like).await?.0)
    }

    /// Puts the example repository into ours: the policies of the lab, and the
    /// operator as real Helm renders it.
    pub(super) async fn example(&self) -> anyhow::Result<()> {
        self.git.copy(&gitops::root().join("examples/policy-repo"), ".")?;
        self.git.copy(&gitops::root().join("examples/gitops/operator"), "operator")?;
        let helm = Helm::find()?;
        let mut command = helm.command();
        command.args(["template", OPERATOR]).arg(packaging::chart());
        command.args(["--namespace", objects::OPERATOR_NAMESPACE, "--no-hooks"]);
        command.args(["--set-json", packaging::REGISTRY]);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.git.write("operator/slicewright.yaml", std::str::from_utf8(&output.stdout)?)
    }

    /// Applies the files that users start from: where the repository is, and
    /// how often Flux looks, is all that is ours. It looks when it is told to.
    pub(super) async fn set_up(&self) -> anyhow::Result<()> {
        for file in FILES {
            for mut object in objects::documents(file)? {
                for interval in ["interval", "retryInterval"] {
                    if object["spec"][interval].is_string() {
                        object["spec"][interval] = json!("1h");
                    }
                }
                if object["kind"] == "GitRepository" {
                    object["spec"]["url"] = json!(self.git.url);
                    // Nobody has to log in here.
                    object["spec"].as_object_mut().map(|spec| spec.remove("secretRef"));
                }
                objects::apply(&self.scene.client(), &object).await?;
            }
        }
        Ok(())
    }

    /// Asks the API server whether it takes the source of the HelmRelease, by
    /// source-controller's own CRD; nothing of it stays.
    pub(super) async fn takes_the_source_of_the_helm_release(&self) -> anyhow::Result<()> {
        let all = objects::documents(HELM_RELEASE)?;
        let source = all.iter().find(|object| object["kind"] == "GitRepository");
        let source = source.context("the example has a source")?;
        let (api, _) = objects::api_of(&self.scene.client(), source).await?;
        let params = PatchParams { dry_run: true, ..PatchParams::apply("e2e") }.validation_strict();
        api.patch(OPERATOR, &params, &Patch::Apply(source)).await?;
        Ok(())
    }

    /// Tells Flux to look at an object now, as `flux reconcile` does.
    async fn look(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<String> {
        let api = self.api(api_version, kind).await?;
        // Any value that was not there before.
        let asked = format!("after {}", api.get(name).await?.resource_version().unwrap_or_default());
        let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": asked}}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(asked)
    }

    /// Tells Flux to fetch what was pushed.
    pub(super) async fn fetch(&self) -> anyhow::Result<()> {
        self.look("source.toolkit.fluxcd.io/v1", "GitRepository", POLICIES).await.map(drop)
    }

    /// Tells Flux to apply what it has once more, and waits until it has.
    pub(super) async fn apply_again(&self) -> anyhow::Result<()> {
        let asked = self.look("kustomize.toolkit.fluxcd.io/v1", "Kustomization", POLICIES).await?;
        self.kustomization(POLICIES, "has been applied again", |object| {
            (object["status"]["lastHandledReconcileAt"] == json!(asked) && ready(object)?.0 == "True")
                .then_some(())
        })
        .await
    }

    /// Waits until a revision is applied, and all that it waits for is so.
    pub(super) async fn applied(&self, revision: &str) -> anyhow::Result<()> {
        for name in [OPERATOR, POLICIES] {
            self.kustomization(name, &format!("has {revision}"), |object| {
                (object["status"]["lastAppliedRevision"] == revision && ready(object)?.0 == "True")
                    .then_some(())
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until a revision is refused; says why.
    pub(super) async fn refused(&self, revision: &str) -> anyhow::Result<ReadyCondition> {
        self.kustomization(POLICIES, &format!("refuses {revision}"), |object| {
            let (status, said) = ready(object)?;
            let tried = object["status"]["lastAttemptedRevision"] == revision;
            (tried && status == "False" && said.reason != "DependencyNotReady").then_some(said)
        })
        .await
    }

    /// Waits until something is true of a Kustomization.
    pub(super) async fn kustomization<T>(
        &self,
        name: &str,
        what: &str,
        mut judge: impl FnMut(&Value) -> Option<T>,
    ) -> anyhow::Result<T> {
        let api = self.api("kustomize.toolkit.fluxcd.io/v1", "Kustomization").await?;
        watched(&api, name, &format!("Kustomization {name} {what}"), |object| {
            let object = object.ok_or("there is none")?;
            let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
            judge(&value).ok_or_else(|| format!("it says {}", value["status"]["conditions"]))
        })
        .await
    }
}

/// What a Kustomization says about being ready.
fn ready(object: &Value) -> Option<(String, ReadyCondition)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), ReadyCondition { reason: text("reason"), message: text("message") }))
}

/// Watches one object of a kind that only the API server knows.
async fn watched<T>(
    api: &Api<DynamicObject>,
    name: &str,
    what: &str,
    mut judge: impl FnMut(Option<&DynamicObject>) -> Result<T, String>,
) -> anyhow::Result<T> {
    let mut missing = "nothing was seen".to_owned();
    let watching = async {
        let mut stream = std::pin::pin!(kube::runtime::watcher::watch_object(api.clone(), name));
        while let Some(event) = futures::StreamExt::next(&mut stream).await {
            match event.map_err(|error| error.to_string()).and_then(|object| judge(object.as_ref())) {
                Ok(found) => return Ok(found),
                Err(why) => missing = why,
            }
        }
        bail!("the watch for {what} ended")
    };
    match tokio::time::timeout(PATIENCE, watching).await {
        Ok(found) => found,
        Err(_) => bail!("waited {} s until {what}, in vain: {missing}", PATIENCE.as_secs()),
    }
}

async fn gone(api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    let what = format!("{name} is gone");
    watched(api, name, &what, |object| object.map_or(Ok(()), |_| Err("it is there".to_owned())))
        .await
        .with_context(|| format!("Flux does not let go of {name}"))
}

/// How a policy is known to the API server.
pub(super) async fn policy(scene: &Scene, name: &str) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(scene.policies().get(name).await?)?)
}
