//! One scenario: a cluster, the virtual GPU nodes in it, the operators that
//! run, and what happens.

use std::panic::AssertUnwindSafe;
use std::sync::Once;

use anyhow::{Context, bail};
use cluster::{Cluster, Fleet, Handle, NodeSpec};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{DynamicObject, ListParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use operands::{Flavour, Stack, Strategy};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::control_plane::client_of;
use crate::empty::{empty, remove_made};
use crate::manifests::{self, TEAM};
use crate::objects::{self, GPU_OPERATOR_NAMESPACE, MAP_NAME, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, OURS};
use crate::operator::{self, Operator, SPEED};
use crate::pool::{self, Lent};
use crate::provider::{Kind, Provider};
use crate::rights::{self, Used, Values};
use crate::times;
use crate::wire::Wire;

/// A cluster in which one scenario happens.
pub struct Scene {
    /// When it got its cluster.
    began: Instant,
    provider: Box<dyn Provider>,
    administrator: Kubeconfig,
    client: Client,
    audit: Option<Audit>,
    /// The values with which the chart granted the operator its rights.
    pub(crate) values: Values,
    /// Which of them were used, as far as was looked.
    pub(crate) used: Used,
    world: Option<World>,
    operators: Vec<Operator>,
    started: usize,
    /// How the last operator was started.
    last: Option<controller::Settings>,
    /// Nodes that stay cordoned at the end, because the scenario is about it.
    pub(crate) cordoned: Vec<String>,
    /// How many slices the scenario itself takes from pods.
    pub(crate) harmed: usize,
}

/// The virtual GPU nodes.
struct World {
    handle: Handle,
    task: JoinHandle<Result<(), cluster::Error>>,
    shutdown: CancellationToken,
}

/// Tells a scenario on a cluster of its own, which is empty but for our CRDs;
/// and holds it to what every scenario must keep.
///
/// # Panics
/// When the scenario fails, or leaves behind what none may.
#[expect(
    clippy::print_stderr,
    reason = "where the logs of a failed test are is told to whoever reads its output"
)]
pub fn scenario(story: impl AsyncFnOnce(&mut Scene) -> anyhow::Result<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    logs();
    let mut reusable = None;
    let outcome = runtime.block_on(async {
        let mut scene = Scene::open().await.context("there is no cluster for the scenario")?;
        let whole = async {
            story(&mut scene).await?;
            scene.afterwards().await?;
            scene.look_at_rights()?;
            scene.used.note()
        };
        let told = AssertUnwindSafe(whole).catch_unwind().await;
        // A control plane of ours has everything: there it would be a failure.
        let left_out =
            !scene.provider.is_ours_alone() && matches!(&told, Ok(Err(error)) if error.is::<NotHere>());
        if !matches!(told, Ok(Ok(())))
            && !left_out
            && let Some(folder) = scene.provider.evidence()
        {
            eprintln!("{}", scene.picture().await);
            eprintln!("the logs of the control plane are in {}", folder.display());
        }
        let began = scene.began;
        reusable = scene.close().await;
        if !left_out {
            times::note(began.elapsed());
        }
        anyhow::Ok((told, left_out))
    });
    runtime.shutdown_background();
    pool::give_back(reusable);
    match outcome {
        Ok((Ok(Ok(())), _)) => {}
        Ok((Ok(Err(error)), true)) => {
            eprintln!("left out: {error:#}");
            times::left_out(&format!("{error:#}"));
        }
        Ok((Ok(Err(error)), false)) | Err(error) => panic!("{error:#}"),
        // It was told already.
        Ok((Err(panic), _)) => std::panic::resume_unwind(panic),
    }
}

/// A cluster in which somebody's GPUs are is none to play with: scenarios cut
/// GPUs, and run an operator that has all nodes in its sight.
async fn leave_others_alone(client: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let theirs = ListParams::default().labels(&format!("nvidia.com/gpu.present=true,!{OURS}"));
    if let Some(node) = nodes.list(&theirs).await?.items.first() {
        bail!(
            "the cluster has a GPU node of its own, {}: scenarios are for clusters without GPUs",
            node.name_any()
        );
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in [GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE, TEAM] {
        if let Some(namespace) = namespaces.get_opt(name).await?
            && !namespace.labels().contains_key(OURS)
        {
            bail!("the cluster has a namespace {name} of its own; scenarios need it for themselves");
        }
    }
    let ours = objects::our_crds();
    if objects::not_theirs(client, ours.clone()).await?.len() < ours.len() {
        bail!("the cluster has Slicewright installed, which would work on the nodes of scenarios too");
    }
    let policies = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"});
    if let Ok((api, _)) = objects::api_of(client, &policies).await
        && let Some(policy) = theirs_of(&api).await?.first()
    {
        bail!("the cluster has a ClusterPolicy of its own, {}, and there can be one only", policy.name_any());
    }
    Ok(())
}

/// What of a kind no scenario made; nothing where its CRD has just gone.
async fn theirs_of(api: &Api<DynamicObject>) -> kube::Result<Vec<DynamicObject>> {
    match api.list(&ListParams::default().labels(&format!("!{OURS}"))).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => Ok(listed?.items),
    }
}

/// An audit log.
const NO_AUDIT: NotHere = NotHere("this provider has no audit log to look into");

/// What a scenario needs of its cluster that this one does not give.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotHere(pub(crate) &'static str);

/// What operators and virtual nodes log goes to the output of the test, which
/// is shown when it fails.
fn logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = tracing_subscriber::EnvFilter::builder()
            .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
            .from_env_lossy();
        // Somebody else's subscriber is as good.
        let _ =
            tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().with_ansi(false).try_init();
    });
}

impl Scene {
    async fn open() -> anyhow::Result<Self> {
        let kind = Kind::asked_for()?;
        let (provider, is_new) = match pool::take(kind) {
            Lent::Used(provider) => (provider, false),
            Lent::None => (kind.provide().await?, true),
        };
        let began = Instant::now();
        let administrator = provider.administrator();
        let client = client_of(&administrator).await?;
        if !provider.is_ours_alone() {
            // What an earlier run could not remove is in the way of this one.
            empty(&client, false).await?;
            remove_made(&client).await?;
            leave_others_alone(&client).await?;
        }
        objects::install_crds(&client, &objects::our_crds()).await?;
        if is_new {
            empty(&client, provider.is_ours_alone()).await?;
            rights::install(&client).await?;
        }
        let mut foreign = objects::foreign_crds()?;
        if !provider.is_ours_alone() {
            foreign = objects::not_theirs(&client, foreign).await?;
        }
        objects::install_crds(&client, &foreign).await?;
        objects::ensure_namespace(&client, TEAM, &json!({})).await?;
        let audit = provider.audit_log().map(Audit::from_now).transpose()?;
        Ok(Self {
            began,
            provider,
            administrator,
            client,
            audit,
            values: rights::default_values(),
            used: Used::of_operator()?,
            world: None,
            operators: Vec::new(),
            started: 0,
            last: None,
            cordoned: Vec::new(),
            harmed: 0,
        })
    }

    /// Ends what runs and empties the cluster; gives it up when it is not well.
    #[expect(clippy::print_stderr, reason = "what stays behind is told to whoever reads the test's output")]
    async fn close(self) -> Option<Box<dyn Provider>> {
        let Self { provider, client, world, operators, values, .. } = self;
        for operator in operators {
            operator.kill();
        }
        if let Some(World { task, shutdown, handle: _ }) = world {
            shutdown.cancel();
            let _ = task.await;
        }
        let cleared = async {
            provider.is_well().await?;
            let default = rights::default_values();
            if values != default {
                rights::grant(&client, &default, Some(&values)).await?;
            }
            empty(&client, provider.is_ours_alone()).await?;
            if !provider.is_ours_alone() {
                // Nobody knows which scenario is the last.
                remove_made(&client).await?;
            }
            anyhow::Ok(())
        };
        match cleared.await {
            Ok(()) => provider.is_ours_alone().then_some(provider),
            Err(error) => {
                eprintln!("the cluster could not be cleared after the scenario: {error:#}");
                None
            }
        }
    }

    /// An administrator's client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// How an administrator reaches the cluster.
    #[must_use]
    pub fn administrator(&self) -> &Kubeconfig {
        &self.administrator
    }

    /// What the operators asked of the API server since the scenario began.
    ///
    /// # Errors
    /// When the provider has no audit log.
    pub fn audit(&self) -> anyhow::Result<Audit> {
        Ok(self.audit.clone().ok_or(NO_AUDIT)?)
    }

    /// The audit log from now on.
    ///
    /// # Errors
    /// When the provider has none.
    pub fn audit_from_now(&self) -> anyhow::Result<Audit> {
        Audit::from_now(self.provider.audit_log().ok_or(NO_AUDIT)?)
    }

    /// Whether there is an audit log.
    pub(crate) fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// Virtual GPU nodes, as a fresh OpenShift cluster with OpenShift AI and
    /// strategy `mixed` has them.
    ///
    /// # Errors
    /// When a node is not possible.
    pub async fn nodes_are(&mut self, nodes: impl IntoIterator<Item = NodeSpec>) -> anyhow::Result<()> {
        self.world(Fleet { nodes: nodes.into_iter().collect(), ..Fleet::default() }).await
    }

    /// As most stories begin: virtual nodes, an operator, and a policy named
    /// `research` over them.
    ///
    /// # Errors
    /// When one of the three cannot be had.
    pub async fn research_has(&mut self, nodes: impl IntoIterator<Item = NodeSpec>) -> anyhow::Result<()> {
        self.nodes_are(nodes).await?;
        self.operator().await?;
        self.apply(manifests::policy("research", "research")).await
    }

    /// A virtual cluster, sped up.
    ///
    /// # Errors
    /// When it is not possible.
    pub async fn world(&mut self, mut fleet: Fleet) -> anyhow::Result<()> {
        if self.world.is_some() {
            bail!("there is a virtual cluster already");
        }
        fleet.speed = SPEED;
        for node in &mut fleet.nodes {
            node.labels.insert(OURS.to_owned(), "true".to_owned());
        }
        if fleet.stack == Stack::DevicePlugin && !self.has_cluster_policy().await? {
            // As an administrator leaves it who did what a condition of our policies asks for.
            self.cluster_policy(fleet.flavour, fleet.strategy, json!({"name": MAP_NAME})).await?;
        }
        let names: Vec<_> = fleet.each_node().map(|node| node.name).collect();
        let shutdown = CancellationToken::new();
        let cluster = Cluster::new(self.client(), fleet, shutdown.clone())?;
        let handle = cluster.handle();
        let task = tokio::spawn(cluster.run());
        self.world = Some(World { handle, task, shutdown });
        for name in names {
            self.node(&name, "is ready", |node| {
                let conditions = node.status.as_ref()?.conditions.as_ref()?;
                let ready = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
                let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
                let free = taints.is_none_or(|taints| {
                    taints.iter().all(|taint| !taint.key.starts_with("node.kubernetes.io/"))
                });
                (ready && free).then_some(())
            })
            .await?;
        }
        Ok(())
    }

    async fn has_cluster_policy(&self) -> anyhow::Result<bool> {
        let like = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy"});
        let (api, _) = objects::api_of(&self.client, &like).await?;
        Ok(!api.list(&ListParams::default()).await?.items.is_empty())
    }

    /// The ClusterPolicy, with this map for MIG manager. Without it
    /// [`Scene::world`] makes one that names ours.
    ///
    /// # Errors
    /// What the API server says against it.
    pub async fn cluster_policy(
        &self,
        flavour: Flavour,
        strategy: Strategy,
        map: Value,
    ) -> anyhow::Result<()> {
        // As each way of installation names it.
        let name = match flavour {
            Flavour::OpenShift => "gpu-cluster-policy",
            Flavour::Helm => "cluster-policy",
        };
        let strategy = match strategy {
            Strategy::Mixed => "mixed",
            Strategy::Single => "single",
            Strategy::None => "none",
            Strategy::Configured => "",
        };
        self.apply(json!({
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": name},
            "spec": {
                "daemonsets": {}, "dcgm": {}, "dcgmExporter": {}, "devicePlugin": {}, "driver": {}, "gfd": {},
                "nodeStatusExporter": {}, "operator": {}, "toolkit": {},
                "mig": {"strategy": strategy},
                "migManager": {"enabled": true, "config": map},
            },
        }))
        .await
    }

    /// By which the virtual cluster is acted upon.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn hands(&self) -> &Handle {
        &self.world.as_ref().expect("the scenario has nodes").handle
    }

    pub(crate) fn breaches(&self) -> Vec<String> {
        self.world.as_ref().map(|world| world.handle.breaches()).unwrap_or_default()
    }

    /// Starts an operator.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn operator(&mut self) -> anyhow::Result<()> {
        self.operator_with(|_| ()).await
    }

    /// Starts an operator with other settings.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn operator_with(
        &mut self,
        change: impl FnOnce(&mut controller::Settings),
    ) -> anyhow::Result<()> {
        let mut settings = operator::settings("operator");
        change(&mut settings);
        self.start(settings).await
    }

    /// Starts an operator with the settings of the last one.
    ///
    /// # Errors
    /// When there was none, or it cannot be started.
    pub async fn operator_again(&mut self) -> anyhow::Result<()> {
        let settings = self.last.clone().context("no operator was ever started")?;
        self.start(settings).await
    }

    /// A kubeconfig of the operator's service account, for one that runs as a
    /// process of its own.
    ///
    /// # Errors
    /// When it gets no token.
    pub async fn operator_kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        operator::kubeconfig_of(&self.administrator, OPERATOR_ACCOUNT).await
    }

    /// A kubeconfig with nothing but the token of a service account of the
    /// operator's namespace.
    ///
    /// # Errors
    /// When it gets no token.
    pub async fn kubeconfig_of(&self, account: &str) -> anyhow::Result<Kubeconfig> {
        operator::kubeconfig_of(&self.administrator, account).await
    }

    /// Starts an operator whose calls go through this wire. It has the name of
    /// the one before, so that it need not wait for that one's lease.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn operator_through(
        &mut self,
        wire: Wire,
        change: impl FnOnce(&mut controller::Settings),
    ) -> anyhow::Result<()> {
        let mut settings = operator::settings("operator-wired");
        change(&mut settings);
        self.grant_for(&settings).await?;
        self.started += 1;
        let config = operator::account(&self.administrator).await?;
        self.operators.push(Operator::start_through(Some(wire), config, settings.clone())?);
        self.last = Some(settings);
        Ok(())
    }

    async fn start(&mut self, mut settings: controller::Settings) -> anyhow::Result<()> {
        self.started += 1;
        settings.identity = format!("operator-{}", self.started);
        self.grant_for(&settings).await?;
        let config = operator::account(&self.administrator).await?;
        self.operators.push(Operator::start(config, settings.clone())?);
        self.last = Some(settings);
        Ok(())
    }

    /// The operators that run.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// Whether an operator was ever started.
    pub(crate) fn had_operators(&self) -> bool {
        self.started > 0
    }

    /// Tells all operators to stop, and waits until they have.
    ///
    /// # Errors
    /// When one does not end well.
    pub async fn stop_operators(&mut self) -> anyhow::Result<()> {
        for operator in std::mem::take(&mut self.operators) {
            operator.stop().await?;
        }
        Ok(())
    }

    /// Ends all operators where they are, as when their process is killed.
    pub fn kill_operators(&mut self) {
        for operator in std::mem::take(&mut self.operators) {
            operator.kill();
        }
    }

    /// Takes an operator out, by its name in the lease.
    pub fn take_operator(&mut self, identity: &str) -> Option<Operator> {
        let at = self.operators.iter().position(|operator| operator.identity() == identity)?;
        Some(self.operators.remove(at))
    }

    /// Applies an object as a human would.
    ///
    /// # Errors
    /// What the API server says against it.
    pub async fn apply(&self, object: impl Into<Value>) -> anyhow::Result<()> {
        let mut object = object.into();
        object["metadata"]["labels"][OURS] = json!("true");
        objects::apply(&self.client, &object).await?;
        Ok(())
    }

    /// Deletes an object as a human would.
    ///
    /// # Errors
    /// When there is none, or the API server refuses.
    pub async fn delete(&self, object: impl Into<Value>) -> anyhow::Result<()> {
        let object = object.into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let (api, _) = objects::api_of(&self.client, &object).await?;
        api.delete(name, &kube::api::DeleteParams::default()).await?;
        Ok(())
    }

    /// Merges something into an object as a human would.
    ///
    /// # Errors
    /// When there is none, or the API server refuses.
    pub async fn patch(&self, object: impl Into<Value>, patch: Value) -> anyhow::Result<()> {
        let object = object.into();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let (api, _) = objects::api_of(&self.client, &object).await?;
        api.patch(name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Merges something into a node as a human would.
    ///
    /// # Errors
    /// When there is none, or the API server refuses.
    pub async fn patch_node(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        self.patch(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}), patch).await
    }

    /// Says that a node stays cordoned at the end, since the scenario is about
    /// that.
    pub fn stays_cordoned(&mut self, node: &str) {
        self.cordoned.push(node.to_owned());
    }

    /// Restarts the API server.
    ///
    /// # Errors
    /// When the provider cannot.
    pub async fn restart_api_server(&mut self) -> anyhow::Result<()> {
        if !self.provider.is_ours_alone() {
            bail!(NotHere("the API server of this cluster is not ours to restart"));
        }
        self.look_at_rights()?;
        self.provider.restart_api_server().await?;
        // One that has just started does not know all rights yet.
        self.audit = self.provider.audit_log().map(Audit::from_now).transpose()?;
        Ok(())
    }

    /// The operator's namespace, where its lease is.
    #[must_use]
    pub const fn operator_namespace(&self) -> &'static str {
        OPERATOR_NAMESPACE
    }
}
