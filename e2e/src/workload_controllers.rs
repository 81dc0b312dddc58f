//! What makes pods from one object of a person on OpenShift AI, beside JobSet and LeaderWorkerSet: KServe, KubeRay and
//! both of Kubeflow's trainers, each as a plain process beside the control plane: unmodified, with the webhooks of
//! KServe and of the newer trainer, which the API server reaches by URL. They run with an administrator's permissions:
//! only our own permissions are tested here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::by_url::ByUrl;
use crate::manifests::TEAM;
use crate::process::{Den, Running};
use crate::{mounts, objects, wait};

/// How long it may take until one answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who makes pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// `KServe` in its mode "Standard": a Deployment for each `InferenceService`.
    KServe,
    /// KServe's second program: for each `LLMInferenceService` a Deployment, or a `LeaderWorkerSet` where it takes
    /// several nodes, whose controller it then needs.
    KServeLlm,
    /// `KubeRay`: pods for each `RayCluster`, and a cluster for each `RayJob`.
    KubeRay,
    /// Kubeflow's trainer: a `JobSet` for each `TrainJob`. It needs the controller of `JobSet`.
    Trainer,
    /// Kubeflow's training operator, older than the trainer: pods for each `PyTorchJob`.
    TrainingOperator,
}

/// Where a program of controller-runtime looks for its certificate, below the folder of temporary files.
const SERVING: &str = "k8s-webhook-server/serving-certs";
/// Where the training operator keeps its certificate, whatever the folder of temporary files is.
const OF_THE_TRAINING_OPERATOR: &str = "/tmp/k8s-webhook-server";
/// The namespaces in which they run, as their own installations say.
const KSERVE: &str = "kserve";
const KUBEFLOW: &str = "kubeflow";
/// The Secret of the training operator, with the certificate that it makes for itself.
const SECRET: &str = "training-operator-webhook-cert";

impl Controller {
    /// The program, as `cargo xtask tools` names it.
    fn program(self) -> &'static str {
        match self {
            Self::KServe => "kserve-manager",
            Self::KServeLlm => "kserve-llmisvc",
            Self::KubeRay => "kuberay-operator",
            Self::Trainer => "trainer",
            Self::TrainingOperator => "training-operator",
        }
    }

    /// The folder with its kinds.
    fn kinds(self) -> anyhow::Result<PathBuf> {
        Ok(match self {
            Self::KServe => tools::find("kserve-config")?.join("crd/full"),
            Self::KServeLlm => tools::find("kserve-config")?.join("crd/full/llmisvc"),
            Self::KubeRay => tools::find("kuberay-config")?.join("crd/bases"),
            Self::Trainer => tools::find("trainer-manifests")?.join("crds"),
            Self::TrainingOperator => tools::find("training-operator-manifests")?.join("crds"),
        })
    }

    /// What has to be there before it starts.
    fn prerequisites(self) -> anyhow::Result<Vec<Value>> {
        let namespace =
            |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        Ok(match self {
            Self::KServe | Self::KServeLlm => vec![namespace(KSERVE), settings_of_kserve()],
            Self::TrainingOperator => vec![
                namespace(KUBEFLOW),
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": KUBEFLOW}}),
            ],
            Self::KubeRay | Self::Trainer => Vec::new(),
        })
    }

    /// Its webhooks, where the API server is to ask them: the training operator makes a certificate for the name of
    /// its Service, which nobody reaches here.
    fn webhooks(self) -> anyhow::Result<Option<PathBuf>> {
        Ok(match self {
            Self::KServe => Some(tools::find("kserve-config")?.join("webhook/manifests.yaml")),
            Self::KServeLlm => Some(tools::find("kserve-config")?.join("webhook/llmisvc/manifests.yaml")),
            Self::Trainer => Some(tools::find("trainer-manifests")?.join("webhook/manifests.yaml")),
            Self::KubeRay | Self::TrainingOperator => None,
        })
    }

    /// An object that only its webhooks let through, where there are any.
    fn probe(self) -> Option<Value> {
        let metadata = json!({"name": "probe", "namespace": TEAM});
        match self {
            Self::KServe => {
                let container = json!({"name": "kserve-container", "image": "registry.example/probe:1"});
                Some(json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
                    "metadata": metadata, "spec": {"predictor": {"containers": [container]}}}))
            }
            Self::Trainer => {
                Some(json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
                "metadata": metadata, "spec": {"template": {"spec": {"replicatedJobs": [
                    {"name": "node", "template": {"spec": {"template": {"spec": {
                        "containers": [{"name": "node", "image": "registry.example/probe:1"}],
                    }}}}},
                ]}}}}))
            }
            Self::KServeLlm => {
                Some(json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService",
                "metadata": metadata, "spec": {"model": {"uri": "hf://probe/probe"}}}))
            }
            Self::KubeRay | Self::TrainingOperator => None,
        }
    }

    fn command(self, program: &Path, folder: &Path, reached: &ByUrl) -> anyhow::Result<Command> {
        let port = reached.port.to_string();
        Ok(match self {
            Self::KServe | Self::KServeLlm => {
                let mut command = Command::new(program);
                command.args(["--metrics-addr=0", "--health-probe-addr=0", "--webhook-port", &port]);
                command.env("POD_NAMESPACE", KSERVE);
                command
            }
            Self::KubeRay => {
                let mut command = Command::new(program);
                command.args(["--metrics-addr=0", "--health-probe-bind-address=0"]);
                command.arg("--enable-leader-election=false");
                command
            }
            Self::Trainer => {
                let configuration = json!({
                    "apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration",
                    "health": {"healthProbeBindAddress": "0"},
                    "metrics": {"bindAddress": "0"},
                    "webhook": {"host": "127.0.0.1", "port": reached.port},
                    "leaderElection": {"leaderElect": false},
                    "certManagement": {"enable": false},
                });
                let file = folder.join("config.json");
                fs::write(&file, configuration.to_string())?;
                let mut command = Command::new(program);
                command.arg(format!("--config={}", file.display()));
                command
            }
            Self::TrainingOperator => {
                let own = mounts::own().context(
                    "the training operator wants a certificate under a fixed path, so it needs mounts of its own: \
                     run this as root, or allow user namespaces",
                )?;
                let mut command = Command::new("unshare");
                let run = r#"mkdir -p "$2" && mount --bind "$1" "$2" && shift 2 && exec "$@""#;
                command.args(own).args(["sh", "-c", run, "training-operator"]);
                command.arg(folder.join("k8s-webhook-server")).arg(OF_THE_TRAINING_OPERATOR).arg(program);
                command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
                command.args(["--webhook-server-port", &port, "--enable-scheme=pytorchjob"]);
                command
            }
        })
    }
}

/// What KServe is told: its mode, no ingress, and images that nobody pulls here.
fn settings_of_kserve() -> Value {
    let ingress = json!({
        "ingressGateway": "knative-serving/knative-ingress-gateway", "ingressDomain": "example.com",
        "kserveIngressGateway": "kserve/kserve-ingress-gateway",
        "disableIngressCreation": true, "disableIstioVirtualHost": true,
    });
    let helper = json!({"image": "registry.example/kserve/agent:1", "memoryRequest": "100Mi", "memoryLimit": "1Gi",
        "cpuRequest": "100m", "cpuLimit": "1"});
    let mut fetches_models = helper.clone();
    for (key, amount) in [("cpuModelcar", "10m"), ("memoryModelcar", "15Mi")] {
        fetches_models[key] = json!(amount);
    }
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inferenceservice-config", "namespace": KSERVE},
        "data": {
            "deploy": json!({"defaultDeploymentMode": "Standard"}).to_string(),
            "ingress": ingress.to_string(),
            "storageInitializer": fetches_models.to_string(), "agent": helper.to_string(), "logger": helper.to_string(),
            "batcher": helper.to_string(), "router": helper.to_string(),
            "credentials": "{}", "explainers": "{}", "metricsAggregator": "{}",
            "security": json!({"autoMountServiceAccountToken": true}).to_string(),
        },
    })
}

/// Such a controller, while it runs. It ends when it is dropped.
pub(crate) struct WorkloadController {
    which: Controller,
    running: Running,
    // Ends what runs in it when it is dropped.
    den: Den,
}

impl WorkloadController {
    /// Installs its kinds and webhooks, starts it, and waits until it answers.
    pub(crate) async fn start(
        which: Controller,
        client: &Client,
        administrator: &Kubeconfig,
    ) -> anyhow::Result<Self> {
        let name = which.program();
        let program = tools::find(name)?;
        let den = Den::new()?;
        let folder = den.folder().to_owned();
        let reached = ByUrl::new(&folder)?;
        let certificates = folder.join(SERVING);
        fs::create_dir_all(&certificates)?;
        if which != Controller::TrainingOperator {
            for file in ["tls.crt", "tls.key"] {
                fs::copy(reached.certificates.join(file), certificates.join(file))?;
            }
        }
        let kubeconfig = folder.join("kubeconfig");
        fs::write(&kubeconfig, serde_json::to_string(administrator)?)?;
        let crds: Vec<Value> = objects::crds_in(&which.kinds()?)?.into_iter().map(|(_, crd)| crd).collect();
        ensure!(!crds.is_empty(), "no kinds of {name} in {}", which.kinds()?.display());
        objects::install_crds(client, &crds).await?;
        for object in which.prerequisites()? {
            objects::apply(client, &object).await?;
        }
        let mut command = which.command(&program, &folder, &reached)?;
        command.env("KUBECONFIG", &kubeconfig).env("TMPDIR", &folder);
        let running = den.start(name, command)?;
        if let Some(manifest) = which.webhooks()? {
            for object in reached.webhooks(name, &manifest, |_| true)? {
                objects::apply(client, &object).await?;
            }
        }
        let mut started = Self { which, running, den };
        if which == Controller::TrainingOperator {
            started.gets_the_certificate_that_it_made(client).await?;
        }
        started.answers(client).await?;
        Ok(started)
    }

    fn is_there(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.running.ended()? {
            bail!("it ended by itself with {status}:\n{}", self.running.last_words());
        }
        Ok(())
    }

    /// In a cluster kubelet puts the Secret where its pod mounts it.
    async fn gets_the_certificate_that_it_made(&mut self, client: &Client) -> anyhow::Result<()> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), KUBEFLOW);
        let folder = self.den.folder().join(SERVING);
        wait::asking("the training operator makes its certificate", PATIENCE, async || {
            self.is_there()?;
            let data = secrets.get(SECRET).await?.data.unwrap_or_default();
            if !data.contains_key("tls.crt") {
                return Ok(Err("the Secret is empty".to_owned()));
            }
            for (name, content) in data {
                fs::write(folder.join(name), content.0)?;
            }
            Ok(Ok(()))
        })
        .await
    }

    /// Waits until its webhooks answer. Nothing is made.
    async fn answers(&mut self, client: &Client) -> anyhow::Result<()> {
        let Some(probe) = self.which.probe() else { return self.is_there() };
        let (api, _) = objects::api_of(client, &probe).await?;
        let dry = PatchParams::apply("probe").dry_run();
        wait::asking(&format!("{} answers", self.running.name()), PATIENCE, async || {
            self.is_there()?;
            Ok(match api.patch("probe", &dry, &Patch::Apply(&probe)).await {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{error:#}")),
            })
        })
        .await
    }
}
