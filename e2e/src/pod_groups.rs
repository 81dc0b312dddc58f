//! The controllers of JobSet and LeaderWorkerSet themselves, each as a plain process beside the control
//! plane: unmodified, with all of their webhooks, which the API server reaches by URL. They run with an
//! administrator's permissions: only our own permissions are tested here.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::bail;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::by_url::ByUrl;
use crate::manifests::TEAM;
use crate::process::{Den, Running};
use crate::{objects, wait};

/// How long it may take until the webhooks answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What makes groups of pods from one object of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `JobSet`: Jobs of several shapes that start and end together.
    JobSet,
    /// `LeaderWorkerSet`: servers of which each is a leader and its workers.
    LeaderWorkerSet,
}

impl Kind {
    /// The program, as `cargo xtask tools` names it.
    fn program(self) -> &'static str {
        match self {
            Self::JobSet => "jobset-controller",
            Self::LeaderWorkerSet => "lws-controller",
        }
    }

    /// Its published manifests.
    fn manifests(self) -> &'static str {
        match self {
            Self::JobSet => "jobset-components",
            Self::LeaderWorkerSet => "lws-config",
        }
    }

    /// The API group.
    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::JobSet => "jobset.x-k8s.io",
            Self::LeaderWorkerSet => "leaderworkerset.x-k8s.io",
        }
    }

    /// What Kueue calls its part for this kind.
    pub(crate) fn framework(self) -> &'static str {
        match self {
            Self::JobSet => "jobset.x-k8s.io/jobset",
            Self::LeaderWorkerSet => "leaderworkerset.x-k8s.io/leaderworkerset",
        }
    }

    /// The version of its configuration, and the label of the pods that its
    /// webhooks are asked about, as its own installation says.
    fn particulars(self) -> (&'static str, &'static str) {
        match self {
            Self::JobSet => ("config.jobset.x-k8s.io/v1alpha1", "jobset.sigs.k8s.io/jobset-name"),
            Self::LeaderWorkerSet => ("config.lws.x-k8s.io/v1alpha1", "leaderworkerset.sigs.k8s.io/name"),
        }
    }

    /// A small object that its webhooks accept.
    fn probe(self) -> Value {
        let pod = json!({"containers": [{"name": "main", "image": "registry.example/probe:1"}]});
        let metadata = json!({"name": "probe", "namespace": TEAM});
        match self {
            Self::JobSet => {
                json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata,
                "spec": {"replicatedJobs": [{"name": "main", "template": {"spec": {"template": {"spec": pod}}}}]}})
            }
            Self::LeaderWorkerSet => {
                json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
                "metadata": metadata, "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": pod}}}})
            }
        }
    }
}

/// Such a controller, while it runs. It ends when it is dropped.
pub(crate) struct PodGroups {
    pub(crate) kind: Kind,
    running: Running,
    // Ends what runs in it when it is dropped.
    _den: Den,
}

impl PodGroups {
    /// Installs the kind and its webhooks, starts the controller, and waits
    /// until it answers.
    pub(crate) async fn start(
        kind: Kind,
        client: &Client,
        administrator: &Kubeconfig,
    ) -> anyhow::Result<Self> {
        let name = kind.program();
        let program = tools::find(name)?;
        let manifests = tools::find(kind.manifests())?;
        let (config_version, label) = kind.particulars();
        let den = Den::new()?;
        let folder = den.folder().to_owned();
        let reached = ByUrl::new(&folder)?;
        let kubeconfig = folder.join("kubeconfig");
        fs::write(&kubeconfig, serde_json::to_string(administrator)?)?;
        let config = folder.join("config.json");
        // Nobody reads its metrics or its health; one process needs no lease.
        let configuration = json!({
            "apiVersion": config_version, "kind": "Configuration",
            "health": {"healthProbeBindAddress": "0"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": reached.port, "certDir": reached.certificates},
            "leaderElection": {"leaderElect": false},
            "internalCertManagement": {"enable": false},
        });
        fs::write(&config, configuration.to_string())?;
        let crds: Vec<Value> =
            objects::crds_in(&manifests.join("crd/bases"))?.into_iter().map(|(_, crd)| crd).collect();
        objects::install_crds(client, &crds).await?;
        let mut command = Command::new(program);
        command.arg(format!("--config={}", config.display())).env("KUBECONFIG", &kubeconfig);
        let running = den.start(name, command)?;
        let of_its_own_pods = |webhook: &mut Value| {
            if webhook["rules"][0]["resources"][0] == "pods" {
                webhook["objectSelector"] =
                    json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
            }
            true
        };
        for object in reached.webhooks(name, &manifests.join("webhook/manifests.yaml"), of_its_own_pods)? {
            objects::apply(client, &object).await?;
        }
        let mut started = Self { kind, running, _den: den };
        started.answers(client).await?;
        Ok(started)
    }

    /// Waits until its webhooks answer. Nothing is made.
    async fn answers(&mut self, client: &Client) -> anyhow::Result<()> {
        let probe = self.kind.probe();
        let (api, _) = objects::api_of(client, &probe).await?;
        let dry = PatchParams::apply("e2e").dry_run();
        wait::asking(&format!("{} answers", self.running.name()), PATIENCE, async || {
            if let Some(status) = self.running.ended()? {
                bail!("it ended by itself with {status}:\n{}", self.running.last_words());
            }
            Ok(match api.patch("probe", &dry, &Patch::Apply(&probe)).await {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{error:#}")),
            })
        })
        .await
    }
}
