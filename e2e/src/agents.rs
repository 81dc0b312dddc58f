//! Node agents beside virtual nodes: the real program, with the account, the rights and the admission policy that the
//! chart gives it, and the token of a pod on its node. The simulator's library is its driver and a stand-in its kubelet.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use packaging::{Helm, Render};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::agent_fixture::Fixture;
use crate::not_here::NotHere;
use crate::objects::{self, OPERATOR_ACCOUNT, OURS};
use crate::scene::Scene;
use crate::wait;

/// The namespace of agents.
pub const AGENT_NAMESPACE: &str = "slicewright-agent";
/// Their account, as the chart names it after the release.
const ACCOUNT: &str = "slicewright-operator-agent";

/// An agent that runs. It ends when this is dropped.
pub struct Agent {
    process: Child,
    fixture: Arc<Fixture>,
}

impl Agent {
    /// What it and those before it on its node logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.fixture.file("agent.log")).unwrap_or_default()
    }

    /// How often kubelet was asked on its node.
    #[must_use]
    pub fn kubelet_calls(&self) -> sim_kubelet::Calls {
        self.fixture.kubelet.calls()
    }

    /// Its process id; none once it has ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends it where it is, as when its process is killed.
    ///
    /// # Errors
    /// When it has ended already.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// What the chart installs for agents, and nothing else of it: their DaemonSet, and the rest.
fn installed() -> anyhow::Result<(Value, Vec<Value>)> {
    let set = [packaging::REGISTRY.to_owned(), format!("fullnameOverride=\"{OPERATOR_ACCOUNT}\"")];
    // Whatever the chart is called, the operator knows its agents.
    let ours = ["agent.enabled=true", "nameOverride=\"gpu-slices\""].map(str::to_owned);
    let set = set.into_iter().chain(ours).collect();
    let mut objects = Helm::find()?.objects(&packaging::chart(), &Render { set, ..Render::default() })?;
    objects.retain(|object| object["metadata"]["labels"]["app.kubernetes.io/component"] == "agent");
    let daemons = objects.iter().position(|object| object["kind"] == "DaemonSet");
    let daemons = objects.remove(daemons.context("the chart has no DaemonSet of agents")?);
    ensure!(objects.len() >= 6, "the chart installs for agents only {objects:#?}");
    Ok((daemons, objects))
}

impl Scene {
    /// Installs what the chart installs for agents, without its DaemonSet:
    /// where it would put a pod, [`Scene::agent_on`] starts a process.
    ///
    /// # Errors
    /// When Helm or the API server refuses.
    pub async fn agents_are_installed(&self) -> anyhow::Result<()> {
        if !self.provider.is_ours_alone() {
            bail!(NotHere("agents are put into clusters of our own only"));
        }
        for mut object in installed()?.1 {
            object["metadata"]["labels"][OURS] = json!("true");
            objects::apply(&self.client(), &object).await?;
        }
        Ok(())
    }

    /// A kubeconfig with the token of an agent's pod on this node, which is
    /// made for it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn agent_kubeconfig(&self, node: &str) -> anyhow::Result<(Kubeconfig, Pod)> {
        // Where older data were put back, the garbage collector may not know the owner of the pod yet, and removes it.
        wait::asking("the agent has a pod, and a token of it", wait::PATIENCE, async || {
            match self.agent_pod_and_token(node).await {
                Ok(found) => Ok(Ok(found)),
                Err(error) if is_not_found(&error) => Ok(Err(format!("{error:#}"))),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn agent_pod_and_token(&self, node: &str) -> anyhow::Result<(Kubeconfig, Pod)> {
        let pod = agent_pod(&self.client(), node).await?;
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name_any()),
            uid: pod.metadata.uid.clone(),
        };
        Ok((kubeconfig(self.client(), self.administrator(), Some(bound)).await?, pod))
    }

    /// A kubeconfig of the agents' account with a token that no pod has.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn agent_kubeconfig_without_pod(&self) -> anyhow::Result<Kubeconfig> {
        kubeconfig(self.client(), self.administrator(), None).await
    }

    /// Starts an agent beside a virtual node, which reports.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn agent_on(&mut self, node: &str) -> anyhow::Result<Agent> {
        self.agent_with(node, &["--mode", "report"]).await
    }

    /// The same for one that changes slices, too.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn agent_that_changes(&mut self, node: &str) -> anyhow::Result<Agent> {
        self.agent_with(node, &["--mode", "change"]).await
    }

    /// The pod of the agent of a node is gone for good, as when its DaemonSet is
    /// deleted.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn agent_is_uninstalled(&self, node: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client(), AGENT_NAMESPACE);
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete(&format!("agent-{node}"), &now).await?;
        Ok(())
    }

    /// The machine of a node is another one from now on: what an agent of the
    /// old one found there is gone.
    pub(crate) fn agent_has_no_machine(&mut self, node: &str) {
        self.fixtures.remove(node);
    }

    /// Whether an agent that starts now reads of the present boot of its node.
    pub(crate) fn agent_may_start(&self, node: &str) -> anyhow::Result<bool> {
        let Some(fixture) = self.fixtures.get(node) else { return Ok(true) };
        let written = std::fs::read_to_string(fixture.file("boot_id"))?;
        Ok(written == self.simulator().books(node)?.boot_id)
    }

    async fn agent_with(&mut self, node: &str, flags: &[&str]) -> anyhow::Result<Agent> {
        let (kubeconfig, pod) = self.agent_kubeconfig(node).await?;
        let fixture = match self.fixtures.get(node) {
            Some(fixture) => Arc::clone(fixture),
            None => Arc::new(Fixture::start(self.simulator(), node)?),
        };
        self.fixtures.insert(node.to_owned(), Arc::clone(&fixture));
        std::fs::write(fixture.file("kubeconfig"), serde_json::to_string(&kubeconfig)?)?;
        let log = OpenOptions::new().create(true).append(true).open(fixture.file("agent.log"))?;
        let process = Command::new(program()?)
            .env_clear()
            .env(store::DIRECTORY_VARIABLE, fixture.file("gpus"))
            .env("SLICEWRIGHT_SIM_PRIVILEGED", "1")
            .args(["--node-name", node, "--pod-uid", pod.metadata.uid.as_deref().unwrap_or_default()])
            .args(["--health-address", "none", "--log-format", "text", "--settle", "100ms"])
            .arg("--kubeconfig")
            .arg(fixture.file("kubeconfig"))
            .arg("--boot-id-file")
            .arg(fixture.file("boot_id"))
            .arg("--pod-resources-socket")
            .arg(fixture.kubelet.socket())
            .arg("--checkpoint")
            .arg(fixture.kubelet.checkpoint())
            .arg("--library")
            .arg(library()?)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the agent cannot be started")?;
        Ok(Agent { process, fixture })
    }
}

/// The pod of an agent, bound to its node as the DaemonSet's controller does it.
async fn agent_pod(client: &Client, node: &str) -> anyhow::Result<Pod> {
    let name = format!("agent-{node}");
    // The operator knows agents by them.
    let mut labels = installed()?.0["spec"]["template"]["metadata"]["labels"].clone();
    labels[OURS] = json!("true");
    // And by their DaemonSet; the stand-in for it makes no pods of its own.
    let daemons = json!({
        "apiVersion": "sim.slicewright.io/v1", "kind": "DaemonSet",
        "metadata": {"name": ACCOUNT, "namespace": AGENT_NAMESPACE, "labels": {OURS: "true"}},
    });
    let uid = objects::apply(client, &daemons).await?.metadata.uid;
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": AGENT_NAMESPACE, "labels": labels,
            "ownerReferences": [{"apiVersion": daemons["apiVersion"], "kind": "DaemonSet", "name": ACCOUNT, "uid": uid,
                "controller": true, "blockOwnerDeletion": false}],
        },
        "spec": {
            "nodeName": node, "serviceAccountName": ACCOUNT, "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "registry.example/agent:1"}],
        },
    });
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), AGENT_NAMESPACE);
    wait::until_one(accounts, ACCOUNT, "the agents have an account", wait::PATIENCE, |account| {
        account.map(|_| ()).ok_or_else(|| "they have not".to_owned())
    })
    .await?;
    objects::apply(client, &object).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), AGENT_NAMESPACE);
    Ok(pods.get(&name).await?)
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404)
}

async fn kubeconfig(
    client: Client,
    administrator: &Kubeconfig,
    bound: Option<BoundObjectReference>,
) -> anyhow::Result<Kubeconfig> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, AGENT_NAMESPACE);
    let spec = TokenRequestSpec {
        expiration_seconds: Some(3600),
        bound_object_ref: bound,
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let answer = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await?;
    let token = answer.status.map(|status| status.token).context("the answer has no token")?;
    let mut kubeconfig = administrator.clone();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(serde_json::from_value(json!({"token": token}))?);
    }
    Ok(kubeconfig)
}

/// The agent's program, which `cargo xtask e2e` builds beside the tests.
fn program() -> anyhow::Result<PathBuf> {
    built(&["slicewright-agent", "../slicewright-agent"])
        .context("slicewright-agent is not built: run `cargo build -p slicewright-node-agent`")
}

/// The library that cargo builds beside the tests.
fn library() -> anyhow::Result<PathBuf> {
    built(&["libsimulated_nvml.so", "deps/libsimulated_nvml.so"])
        .context("libsimulated_nvml.so is not built: run `cargo build -p simulated-nvml`")
}

/// The first of these files that there is, from the folder of this program: a test in `deps`, or a program above it.
fn built(names: &[&str]) -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let folder = this.parent()?;
    names.iter().map(|name| folder.join(name)).find(|file| file.exists())
}
