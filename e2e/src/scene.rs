//! One scenario: a cluster, the virtual GPU nodes in it, the running operators, and the actions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster::{Cluster, Fleet, Handle, NodeSpec};
use kube::Client;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use operands::{Flavour, Stack, Strategy};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent_fixture::Fixture;
use crate::audit::Audit;
use crate::control_plane::{ControlPlane, client_of};
use crate::empty::{empty, remove_made};
use crate::etcd::{Copy, Versions};
use crate::guest::leave_others_alone;
use crate::kueue::Kueue;
use crate::manifests::{self, NEIGHBOURS, TEAM};
use crate::not_here::NotHere;
use crate::objects::{self, MAP_NAME, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, OURS};
use crate::operator::{self, Operator, SPEED};
use crate::pod_groups::PodGroups;
use crate::pool::{self, Lent};
use crate::profile_webhook::ProfileWebhook;
use crate::provider::{Kind, Provider};
use crate::real_nodes::{self, RealNodes};
use crate::rights::{self, Used, Values};
use crate::wait;
use crate::wire::Wire;
use crate::workload_controllers::WorkloadController;

/// A cluster in which one scenario happens.
pub struct Scene {
    /// When it got its cluster.
    pub(crate) began: Instant,
    pub(crate) provider: Box<dyn Provider>,
    administrator: Kubeconfig,
    client: Client,
    audit: Option<Audit>,
    /// The values with which the chart granted the operator its rights.
    pub(crate) values: Values,
    /// Which of them were used, as far as was looked.
    pub(crate) used: Used,
    world: Option<World>,
    /// The nodes that it borrowed, where they are real.
    real: Option<RealNodes>,
    operators: Vec<Operator>,
    started: usize,
    /// How the last operator was started.
    last: Option<controller::Settings>,
    /// Nodes that stay cordoned at the end, because the scenario is about it.
    pub(crate) cordoned: Vec<String>,
    /// How many slices the scenario itself takes from pods.
    pub(crate) harmed: usize,
    /// Kueue, where the scenario has queues. Its webhooks and finalizers stay
    /// in the cluster, which nobody else gets after it.
    pub(crate) kueue: Option<Kueue>,
    /// Controllers of groups of pods; the same holds for their webhooks.
    pub(crate) pod_groups: Vec<PodGroups>,
    /// What makes pods from other objects of people; and for theirs.
    pub(crate) workload_controllers: Vec<WorkloadController>,
    /// OpenShift AI's webhook for hardware profiles.
    pub(crate) profile_webhook: Option<ProfileWebhook>,
    /// What agents find on their nodes.
    pub(crate) fixtures: BTreeMap<String, Arc<Fixture>>,
}

/// The virtual GPU nodes.
struct World {
    handle: Handle,
    task: JoinHandle<Result<(), cluster::Error>>,
    shutdown: CancellationToken,
}

/// An audit log.
const NO_AUDIT: NotHere = NotHere("this provider has no audit log to look into");

impl Scene {
    pub(crate) async fn open() -> anyhow::Result<Self> {
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
            leave_others_alone(&client, provider.as_ref()).await?;
            if provider.has_real_nodes() {
                real_nodes::clear(&client).await?;
            }
        }
        objects::install_crds(&client, &objects::our_crds()).await?;
        if is_new {
            empty(&client, provider.is_ours_alone()).await?;
            rights::install(&client).await?;
        }
        // There everything of others came with the cluster.
        if !provider.has_real_nodes() {
            let mut foreign = objects::foreign_crds()?;
            if !provider.is_ours_alone() {
                foreign = objects::not_theirs(&client, foreign).await?;
            }
            objects::install_crds(&client, &foreign).await?;
        }
        for tenants in [TEAM, NEIGHBOURS] {
            objects::ensure_namespace(&client, tenants, &json!({})).await?;
        }
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
            real: None,
            operators: Vec::new(),
            started: 0,
            last: None,
            cordoned: Vec::new(),
            harmed: 0,
            kueue: None,
            pod_groups: Vec::new(),
            workload_controllers: Vec::new(),
            profile_webhook: None,
            fixtures: BTreeMap::new(),
        })
    }

    /// Ends what runs and empties the cluster; gives it up when it is not well,
    /// or when the scenario failed: what that one left behind would fail the
    /// next one too, which says nothing about it.
    #[expect(clippy::print_stderr, reason = "what stays behind is told to whoever reads the test's output")]
    pub(crate) async fn close(self, failed: bool) -> Option<Box<dyn Provider>> {
        let is_changed = self.kueue.is_some()
            || !self.pod_groups.is_empty()
            || !self.workload_controllers.is_empty()
            || self.profile_webhook.is_some();
        let Self { provider, client, world, real, operators, values, .. } = self;
        for operator in operators {
            operator.kill();
        }
        if let Some(World { task, shutdown, handle: _ }) = world {
            shutdown.cancel();
            let _ = task.await;
        }
        if is_changed {
            return None;
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
            if let Some(real) = real {
                real.give_back(&client).await?;
            }
            anyhow::Ok(())
        };
        match cleared.await {
            Ok(()) => (provider.is_ours_alone() && !failed).then_some(provider),
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
        if self.world.is_some() || self.real.is_some() {
            bail!("there is a virtual cluster already");
        }
        if self.provider.has_real_nodes() {
            if fleet.stack != Stack::DevicePlugin || fleet.strategy != Strategy::Mixed {
                bail!(NotHere(
                    "the kind cluster is set up in one way: with a device plugin and strategy mixed"
                ));
            }
            self.real = Some(RealNodes::borrow(&self.client, &fleet.each_node().collect::<Vec<_>>()).await?);
            return Ok(());
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
        self.take_pods(&names).await
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
    pub fn simulator(&self) -> &Handle {
        if self.provider.has_real_nodes() {
            // Not a failure: the scenario is left out.
            std::panic::resume_unwind(Box::new(NotHere("nothing can be made to go wrong on real nodes")));
        }
        &self.world.as_ref().expect("the scenario has nodes").handle
    }

    /// How many GPUs a node has: as many as the scenario asked for, or more.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn gpus(&self, node: &str) -> anyhow::Result<u16> {
        match &self.real {
            Some(real) => real.gpus(node).context("the scenario has no such node"),
            None => Ok(u16::try_from(self.simulator().truth(node)?.len())?),
        }
    }

    /// The name of a node in the cluster, by the one that the scenario gave it.
    #[must_use]
    pub fn real_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.real.as_ref().map_or(name, |real| real.real(name))
    }

    /// The name that the scenario gave a node of the cluster.
    pub(crate) fn given_name(&self, node: &str) -> String {
        self.real.as_ref().map_or_else(|| node.to_owned(), |real| real.given(node))
    }

    /// How long anything may take here.
    #[must_use]
    pub fn patience(&self) -> Duration {
        if self.provider.has_real_nodes() { real_nodes::PATIENCE } else { wait::PATIENCE }
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
        let mut settings = if self.provider.has_real_nodes() {
            operator::unhurried("operator", real_nodes::GPU_OPERATOR_NAMESPACE)
        } else {
            operator::settings("operator")
        };
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
        self.operators.push(Operator::start_through(wire, config, settings.clone())?);
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
        if let Some(real) = &self.real {
            real.dress(&mut object);
        }
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
        // As kubectl does. Without a word, the API server leaves what a Job owns behind.
        api.delete(name, &kube::api::DeleteParams::background()).await?;
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
        let name = self.real_name(name);
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

    /// Copies etcd's data as they are now.
    ///
    /// # Errors
    /// When the provider cannot.
    pub async fn copy_etcd(&self, name: &str) -> anyhow::Result<Copy> {
        self.control_plane()?.copy_etcd(name).await
    }

    /// Puts an older copy of etcd's data back, with everything that belongs to
    /// it: the control plane starts anew, and so do the kubelets.
    ///
    /// # Errors
    /// When the provider cannot.
    pub async fn put_back_etcd(&mut self, copy: &Copy, versions: Versions) -> anyhow::Result<()> {
        self.look_at_rights()?;
        self.control_plane()?.put_back_etcd(copy, versions).await?;
        if let Some(world) = &self.world {
            world.handle.api_went_back();
        }
        // One that has just started does not know all rights yet.
        self.audit = self.provider.audit_log().map(Audit::from_now).transpose()?;
        Ok(())
    }

    fn control_plane(&self) -> anyhow::Result<&ControlPlane> {
        Ok(self
            .provider
            .control_plane()
            .ok_or(NotHere("the control plane of this cluster is not ours to end"))?)
    }

    /// The operator's namespace, where its lease is.
    #[must_use]
    pub const fn operator_namespace(&self) -> &'static str {
        OPERATOR_NAMESPACE
    }
}
