//! OpenShift AI's webhook for hardware profiles, as release 2.25 has it: unmodified, as a plain process beside the
//! control plane, which the API server reaches by URL. The webhooks of later releases are in no published module; a
//! stand-in plays them (`workbenches::profile`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use kube::Client;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::by_url::ByUrl;
use crate::manifests::TEAM;
use crate::process::{Den, Running};
use crate::{objects, wait};

/// The program, as `cargo xtask tools` names it.
const PROGRAM: &str = "hardware-profile-webhook";
/// The path at which it is asked, in the operator's own manifests.
const PATH: &str = "/mutate-hardware-profile";

/// The kind of hardware profiles as release 2.25 has it, and the same under the version of the releases after it, as
/// which those who play the other parts of OpenShift AI read it.
///
/// # Errors
/// When its manifest cannot be read.
pub(crate) fn kind() -> anyhow::Result<Value> {
    let file =
        tools::find("hardware-profile-kinds")?.join("infrastructure.opendatahub.io_hardwareprofiles.yaml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("{} is missing", file.display()))?;
    let mut crd = objects::documents(&text)?.into_iter().next().context("the file has a CRD")?;
    let versions = crd["spec"]["versions"].as_array_mut().context("a CRD has versions")?;
    let mut later = versions.first().cloned().context("a CRD has a version")?;
    later["name"] = json!("v1");
    later["storage"] = json!(false);
    versions.push(later);
    Ok(crd)
}

/// The webhook, while it runs. It ends when it is dropped.
pub(crate) struct ProfileWebhook {
    running: Running,
    // Ends what runs in it when it is dropped.
    _den: Den,
}

impl ProfileWebhook {
    /// Starts it with an administrator's permissions, and waits until the API server asks it whenever a Notebook or an
    /// `InferenceService` is written.
    ///
    /// # Errors
    /// When it does not start, or is not asked.
    pub(crate) async fn start(client: &Client, administrator: &Kubeconfig) -> anyhow::Result<Self> {
        objects::install_crds(client, &[kind()?]).await?;
        let den = Den::new()?;
        let reached = ByUrl::new(den.folder())?;
        let command = command(administrator, den.folder(), &reached)?;
        let mut running = den.start(PROGRAM, command)?;
        let manifest = tools::find("hardware-profile-manifests")?.join("manifests.yaml");
        let is_its = |webhook: &mut Value| webhook["clientConfig"]["service"]["path"] == PATH;
        for object in reached.webhooks(PROGRAM, &manifest, is_its)? {
            // The operator has other webhooks, which are not here.
            if object["webhooks"].as_array().is_some_and(|webhooks| !webhooks.is_empty()) {
                objects::apply(client, &object).await?;
            }
        }
        if let Some(status) = running.ended()? {
            bail!("it ended by itself with {status}:\n{}", running.last_words());
        }
        let started = Self { running, _den: den };
        is_asked(client, true).await.with_context(|| started.running.last_words())?;
        Ok(started)
    }
}

fn command(administrator: &Kubeconfig, folder: &Path, reached: &ByUrl) -> anyhow::Result<Command> {
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, serde_json::to_string(administrator)?)?;
    let mut command = Command::new(tools::find(PROGRAM)?);
    command.arg("--port").arg(reached.port.to_string());
    command.arg("--certificates").arg(&reached.certificates).env("KUBECONFIG", kubeconfig);
    Ok(command)
}

/// Waits until the API server asks a webhook for hardware profiles, or does not any more: it learns of both a while
/// after it has stored them. Nothing is made.
///
/// # Errors
/// When time is up.
pub async fn is_asked(client: &Client, is_asked: bool) -> anyhow::Result<()> {
    let strange = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
        "metadata": {"name": "asked", "namespace": TEAM, "annotations": {"opendatahub.io/hardware-profile-name": "none"}},
        "spec": {"template": {"spec": {"containers": [{"name": "asked", "image": "registry.example/lab:1"}]}}}});
    let (api, _) = objects::api_of(client, &strange).await?;
    let tried = PostParams { dry_run: true, ..PostParams::default() };
    let strange = serde_json::from_value(strange)?;
    wait::asking(&format!("the webhook is asked: {is_asked}"), wait::PATIENCE, async || {
        let made = api.create(&tried, &strange).await;
        let is_refused = made.as_ref().is_err_and(|error| error.to_string().contains("'none' not found"));
        Ok(if is_refused == is_asked { Ok(()) } else { Err(format!("{made:?}")) })
    })
    .await
}
