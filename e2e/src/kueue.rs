//! Kueue itself, as a plain process beside the control plane: unmodified, with its webhooks and its
//! conversion of versions, which the API server reaches by URL. It runs with an administrator's
//! permissions: only our own permissions are tested here.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::by_url::ByUrl;
use crate::pod_groups::Kind;
use crate::process::{Den, Running};
use crate::{mounts, objects, wait};

/// How long it may take until its webhooks answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Namespaces whose pods it is not asked about, as its own manifests have it.
const PASSED_OVER: [&str; 2] = ["kube-system", "kueue-system"];

/// What it is told beside its defaults. Nobody may read its metrics; one
/// process needs no lease; queues of pods, sets and jobs are what scenarios
/// have, and of these kinds, where their controllers run.
fn configuration(reached: &ByUrl, kinds: &[Kind]) -> Value {
    let always = ["batch/job", "pod", "statefulset"].into_iter();
    let frameworks: Vec<_> = always.chain(kinds.iter().map(|kind| kind.framework())).collect();
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": reached.port, "certDir": reached.certificates},
        "leaderElection": {"leaderElect": false},
        "internalCertManagement": {"enable": false},
        "integrations": {"frameworks": frameworks},
    })
}

/// What starts it where it sees an `/etc` of its own: the folder, the program,
/// its configuration.
const IN_MOUNTS_OF_ITS_OWN: &str =
    r#"mount --bind "$1" /etc && exec "$2" --config="$3" --feature-gates=VisibilityOnDemand=false"#;
/// What starts it where nobody gets mounts of his own: who may write there gets
/// the certificate onto the machine itself.
const ON_THE_MACHINE_ITSELF: &str = r#"mkdir -p /etc/kueue && cp -r "$1/kueue/." /etc/kueue/ && exec "$2" --config="$3" --feature-gates=VisibilityOnDemand=false"#;

/// Kueue, while it runs. It ends when it is dropped.
pub struct Kueue {
    den: Den,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    running: Mutex<Option<Running>>,
}

/// Whether scenarios run Kueue's newest release instead of the one that Red Hat builds.
pub(crate) fn is_next() -> bool {
    let program = tools::find("kueue").ok();
    let name = program.as_ref().and_then(|path| path.file_name()?.to_str());
    name.is_some_and(|name| name.starts_with("kueue-next"))
}

impl Kueue {
    /// Installs its kinds and its webhooks, starts it, and waits until it
    /// answers. It knows groups of pods of these kinds.
    ///
    /// # Errors
    /// When it is missing, or does not answer; the error has its last words.
    pub(crate) async fn start(
        client: &Client,
        administrator: &Kubeconfig,
        kinds: &[Kind],
    ) -> anyhow::Result<Self> {
        let program = tools::find("kueue")?;
        let components = tools::find("kueue-components")?;
        let den = Den::new().context("cannot make a folder for Kueue")?;
        let folder = den.folder().to_owned();
        let reached = ByUrl::new(&folder)?;
        // It looks for the certificate of its metrics there, whatever it is told.
        let etc = folder.join("etc");
        let of_metrics = etc.join("kueue/metrics/certs");
        fs::create_dir_all(&of_metrics)?;
        for file in ["tls.crt", "tls.key"] {
            fs::copy(reached.certificates.join(file), of_metrics.join(file))?;
        }
        for file in ["hosts", "nsswitch.conf", "resolv.conf", "passwd"] {
            // What the machine does not have, it needs not either.
            let _ = fs::copy(Path::new("/etc").join(file), etc.join(file));
        }
        let config = folder.join("kueue.json");
        fs::write(&config, configuration(&reached, kinds).to_string())?;
        let kubeconfig = folder.join("kubeconfig");
        fs::write(&kubeconfig, serde_json::to_string(administrator)?)?;
        let command = move || {
            let mut command = match mounts::own() {
                Some(flags) => {
                    let mut command = Command::new("unshare");
                    command.args(flags).args(["sh", "-c", IN_MOUNTS_OF_ITS_OWN, "kueue"]);
                    command
                }
                None => {
                    let mut command = Command::new("sh");
                    command.args(["-c", ON_THE_MACHINE_ITSELF, "kueue"]);
                    command
                }
            };
            command.args([&etc, &program, &config]).env("KUBECONFIG", &kubeconfig);
            command
        };
        let kueue = Self { den, command: Box::new(command), running: Mutex::new(None) };
        let crds = of_kueue(&components.join("crd"), &reached)?;
        objects::install_crds(client, &crds).await?;
        kueue.begin().await?;
        let manifest = components.join("webhook/manifests.yaml");
        for object in reached.webhooks("kueue", &manifest, |webhook| is_known(webhook, kinds))? {
            objects::apply(client, &object).await?;
        }
        kueue.answers(client).await?;
        Ok(kueue)
    }

    /// Starts its process.
    ///
    /// # Errors
    /// When that is not possible.
    pub async fn begin(&self) -> anyhow::Result<()> {
        *self.running.lock().await = Some(self.den.start("kueue", (self.command)())?);
        Ok(())
    }

    /// Ends its process, as a node does that is lost.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub async fn ends(&self) -> anyhow::Result<()> {
        if let Some(running) = self.running.lock().await.take() {
            self.den.stop(running).context("cannot end Kueue")?;
        }
        Ok(())
    }

    /// Waits until its webhooks answer: a flavor is made through one of them.
    ///
    /// # Errors
    /// When they do not, or it has ended.
    pub async fn answers(&self, client: &Client) -> anyhow::Result<()> {
        let probe = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}});
        wait::asking("Kueue's webhooks answer", PATIENCE, async || {
            let mut running = self.running.lock().await;
            if let Some(kueue) = running.as_mut()
                && let Some(status) = kueue.ended()?
            {
                bail!("Kueue ended by itself with {status}:\n{}", kueue.last_words());
            }
            Ok(match objects::apply(client, &probe).await {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{error:#}")),
            })
        })
        .await
    }
}

/// Its kinds. It converts those itself for which its own installation says so; the others have the same fields in
/// both versions, and a webhook that was asked about them would refuse.
fn of_kueue(folder: &Path, reached: &ByUrl) -> anyhow::Result<Vec<Value>> {
    let installation =
        fs::read_to_string(folder.join("kustomization.yaml")).context("Kueue's kinds are missing")?;
    let converted = converted_by_itself(&installation)?;
    let mut crds = Vec::new();
    for entry in fs::read_dir(folder.join("bases")).context("Kueue's kinds are missing")? {
        for mut crd in objects::documents(&fs::read_to_string(entry?.path())?)? {
            let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
            if converted.iter().any(|kind| kind == plural) {
                crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
                    "clientConfig": reached.client_config("/convert"), "conversionReviewVersions": ["v1"],
                }});
            }
            crds.push(crd);
        }
    }
    Ok(crds)
}

/// The kinds, in the plural, that its kustomization patches for a conversion by webhook.
fn converted_by_itself(kustomization: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for document in objects::documents(kustomization)? {
        let patches = document["patches"].as_array().into_iter().flatten();
        let files = patches.filter_map(|patch| patch["path"].as_str());
        let kinds = files.filter_map(|path| path.strip_prefix("patches/webhook_in_")?.strip_suffix(".yaml"));
        found.extend(kinds.map(str::to_owned));
    }
    anyhow::ensure!(!found.is_empty(), "Kueue's kustomization patches no kind for a conversion by webhook");
    Ok(found)
}

/// Whether a webhook of it is about kinds that it knows here; those about pods
/// and sets pass over some namespaces.
fn is_known(webhook: &mut Value, kinds: &[Kind]) -> bool {
    let known = ["", "apps", "batch", "kueue.x-k8s.io"];
    let is_known = |group: &str| known.contains(&group) || kinds.iter().any(|kind| kind.group() == group);
    let groups = webhook["rules"].as_array().into_iter().flatten();
    let mut groups = groups.flat_map(|rule| rule["apiGroups"].as_array().into_iter().flatten());
    let about_known = groups.all(|group| is_known(group.as_str().unwrap_or("?")));
    let about = webhook["rules"][0]["resources"][0].as_str().unwrap_or_default();
    if ["pods", "statefulsets"].contains(&about) {
        webhook["namespaceSelector"] = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": PASSED_OVER},
        ]});
    }
    about_known && !webhook["name"].as_str().unwrap_or_default().contains("deployment")
}
