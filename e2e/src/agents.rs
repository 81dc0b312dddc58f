//! Node agents beside virtual nodes: the real program, with the account, the rights and the admission policy that the
//! chart gives it, and the token of a pod on its node. The simulator's library is its driver and a stand-in its kubelet;
//! both follow the virtual node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cluster::Handle;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use operands::Operand;
use packaging::{Helm, Render};
use serde_json::{Value, json};
use sim_kubelet::{Books, Container, Kubelet};
use store::{State, Store};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::not_here::NotHere;
use crate::objects::{self, OPERATOR_ACCOUNT, OURS};
use crate::scene::Scene;
use crate::wait;

/// The namespace of agents.
pub const AGENT_NAMESPACE: &str = "slicewright-agent";
/// Their account, as the chart names it after the release.
const ACCOUNT: &str = "slicewright-operator-agent";
/// How often the stand-ins follow the virtual node.
const FOLLOWED_EVERY: Duration = Duration::from_millis(50);

/// An agent that runs. It ends when this is dropped.
pub struct Agent {
    folder: TempDir,
    process: Child,
    follows: JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

impl Agent {
    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("agent.log")).unwrap_or_default()
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
    let set = set.into_iter().chain(["agent.enabled=true".to_owned()]).collect();
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

    /// Starts an agent beside a virtual node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn agent_on(&self, node: &str) -> anyhow::Result<Agent> {
        let (kubeconfig, pod) = self.agent_kubeconfig(node).await?;
        let folder = tempfile::tempdir()?;
        let engine = self.hands().engine(node)?;
        let store = Store::create(&folder.path().join("gpus"), State::new(engine.machine().clone()))?;
        let kubelet = Kubelet::start(folder.path(), Books::default())?;
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("kubeconfig"), serde_json::to_string(&kubeconfig)?)?;
        std::fs::write(file("boot_id"), engine.boot_id())?;
        let log = std::fs::File::create(file("agent.log"))?;
        let process = Command::new(program()?)
            .env_clear()
            .env(store::DIRECTORY_VARIABLE, file("gpus"))
            .env("SLICEWRIGHT_SIM_PRIVILEGED", "1")
            .args(["--node-name", node, "--pod-uid", pod.metadata.uid.as_deref().unwrap_or_default()])
            .args(["--health-address", "none", "--log-format", "text", "--settle", "100ms"])
            .arg("--kubeconfig")
            .arg(file("kubeconfig"))
            .arg("--boot-id-file")
            .arg(file("boot_id"))
            .arg("--pod-resources-socket")
            .arg(kubelet.socket())
            .arg("--checkpoint")
            .arg(kubelet.checkpoint())
            .arg("--library")
            .arg(library()?)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the agent cannot be started")?;
        let follower = Follower {
            client: self.client(),
            hands: self.hands().clone(),
            node: node.to_owned(),
            store,
            kubelet,
        };
        Ok(Agent { folder, process, follows: tokio::spawn(follower.follow()) })
    }
}

/// The pod of an agent, bound to its node as the DaemonSet's controller does it.
async fn agent_pod(client: &Client, node: &str) -> anyhow::Result<Pod> {
    let name = format!("agent-{node}");
    // The operator knows agents by them.
    let mut labels = installed()?.0["spec"]["template"]["metadata"]["labels"].clone();
    labels[OURS] = json!("true");
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": AGENT_NAMESPACE, "labels": labels,
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
    let tests = std::env::current_exe()?;
    let folder = tests.parent().and_then(|deps| deps.parent()).context("the tests are in a target folder")?;
    let program = folder.join("slicewright-agent");
    if !program.exists() {
        bail!("{} is missing: run `cargo build -p slicewright-node-agent`", program.display());
    }
    Ok(program)
}

/// The library that cargo builds beside the tests.
fn library() -> anyhow::Result<PathBuf> {
    let library = std::env::current_exe()?.with_file_name("libsimulated_nvml.so");
    ensure!(library.exists(), "{} is missing: it is a dependency of the tests", library.display());
    Ok(library)
}

/// Keeps a driver and a kubelet of files as the virtual node is.
struct Follower {
    client: Client,
    hands: Handle,
    node: String,
    store: Store,
    kubelet: Kubelet,
}

impl Follower {
    async fn follow(self) {
        let mut tick = tokio::time::interval(FOLLOWED_EVERY);
        let mut last = None;
        loop {
            tick.tick().await;
            let Ok(engine) = self.hands.engine(&self.node) else { return };
            let truth = engine.truth();
            let given: BTreeMap<_, _> = engine
                .pods()
                .filter(|pod| pod.holds() && !pod.devices.is_empty())
                .map(|pod| (pod.spec.name.clone(), pod.devices.clone()))
                .collect();
            let plugin =
                engine.operand_pod(Operand::DevicePlugin).is_some_and(operands::OperandPod::is_ready);
            let now = (truth, given, plugin);
            if last.as_ref() == Some(&now) {
                continue;
            }
            // The books change after the hardware: a kubelet never has a device before it is there.
            let changed = self.store.update(|state| state.machine = engine.machine().clone());
            let Ok(pods) = self.pods(&now.1).await else { continue };
            let healthy = if plugin { healthy(&engine) } else { BTreeMap::new() };
            if changed.is_ok() && self.kubelet.update(|books| *books = Books { healthy, pods }).is_ok() {
                last = Some(now);
            }
        }
    }

    /// The pods that have devices, with the uids and containers that the API knows.
    async fn pods(
        &self,
        given: &BTreeMap<operands::PodName, BTreeMap<String, Vec<String>>>,
    ) -> anyhow::Result<Vec<sim_kubelet::Pod>> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let listed = api.list(&here).await?;
        let mut pods = Vec::new();
        for (name, devices) in given {
            let is_it = |pod: &&Pod| {
                pod.name_any() == name.name && pod.namespace().as_deref() == Some(name.namespace.as_str())
            };
            let pod = listed.items.iter().find(is_it).context("the pod is not in the API")?;
            let resource = devices.keys().next().context("it has devices")?;
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let asks = |container: &&k8s_openapi::api::core::v1::Container| {
                let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
                limits.is_some_and(|limits| limits.contains_key(resource))
            };
            let container = containers.into_iter().find(asks).context("no container asks for it")?;
            let devices =
                devices.iter().map(|(resource, ids)| (resource.clone(), ids.iter().cloned().collect()));
            pods.push(sim_kubelet::Pod {
                namespace: name.namespace.clone(),
                name: name.name.clone(),
                uid: pod.metadata.uid.clone().context("it has a uid")?,
                ended: false,
                containers: vec![Container {
                    name: container.name.clone(),
                    init: false,
                    recorded: true,
                    devices: devices.collect(),
                }],
            });
        }
        Ok(pods)
    }
}

/// What a plugin registers of a machine under strategy `mixed`.
fn healthy(engine: &operands::Node) -> BTreeMap<String, BTreeSet<String>> {
    let mut healthy: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for gpu in engine.truth() {
        let whole = engine.machine().gpu(gpu.index).filter(|_| !gpu.mig).map(|gpu| gpu.uuid.clone());
        healthy.entry("nvidia.com/gpu".to_owned()).or_default().extend(whole);
        for slice in gpu.slices {
            healthy.entry(slice.profile.resource_name()).or_default().extend(slice.uuid);
        }
    }
    healthy.retain(|_, ids| !ids.is_empty());
    healthy
}
