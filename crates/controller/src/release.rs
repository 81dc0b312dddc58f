//! Releases nodes: the implementation of `slicewright release`. It needs no
//! operator; if one runs, the node's policy must be paused or deleted, so that
//! the two do not work against each other.

use std::collections::{BTreeMap, BTreeSet};

use api::policy::Mode;
use api::{GpuNode, GpuPartitionPolicy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use observe::facts::of_node_alone;
use planner::names::NodeName;
use reconcile::remembered;
use rollout::{Phase, Progress};

use crate::calls::{CallError, Calls, managers};
use crate::publish::gpu_node;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which nodes; none: all that we hold.
    pub nodes: Vec<String>,
    /// Whether released nodes are taken back instead.
    pub resume: bool,
    /// The namespace and the name of the operator's lease.
    pub lease: (String, String),
}

/// What came of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was given up: what was done, and what a human should know.
    Released {
        /// Whether it was uncordoned.
        uncordoned: bool,
        /// What is left, one sentence each.
        left: Vec<String>,
    },
    /// It was taken back: the operator looks after it again.
    Resumed,
    /// There was nothing to do.
    Nothing {
        /// Why.
        why: String,
    },
    /// It was left as it is.
    Refused {
        /// Why, and what to do.
        why: String,
    },
}

/// Why nothing could be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The API server did not answer as hoped.
    #[error("the cluster cannot be looked at")]
    Look(#[from] CallError),
    /// There is no such node.
    #[error("there is no node `{name}`{}", .nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    NoNode {
        /// What was given.
        name: String,
        /// A name that is nearly the same.
        nearest: Option<String>,
    },
}

struct Seen {
    nodes: BTreeMap<String, Node>,
    gpu_nodes: BTreeMap<String, GpuNode>,
    policies: BTreeMap<String, GpuPartitionPolicy>,
    operator: Option<String>,
}

/// Releases nodes, or takes them back.
///
/// # Errors
/// When the cluster cannot be looked at, or a node that was named is not there.
/// What goes wrong with one node is its outcome.
pub async fn release(
    calls: &Calls,
    request: &Request,
    now: Timestamp,
) -> Result<Vec<(String, Outcome)>, ReleaseError> {
    let seen = look(calls, request, now).await?;
    let known: BTreeSet<&String> = seen.nodes.keys().collect();
    for name in &request.nodes {
        if !known.contains(name) {
            let nearest = api::spelling::nearest(name, known.iter().map(|n| n.as_str())).map(str::to_owned);
            return Err(ReleaseError::NoNode { name: name.clone(), nearest });
        }
    }
    let wanted: Vec<&String> = match request.nodes.is_empty() {
        false => request.nodes.iter().collect(),
        true => seen.nodes.keys().filter(|name| seen.concerns(name, request.resume)).collect(),
    };
    let mut outcomes = Vec::new();
    for name in wanted {
        // All that is remembered of a node is held across its writes.
        let outcome = Box::pin(one(calls, request, name, &seen, now)).await?;
        outcomes.push((name.clone(), outcome));
    }
    Ok(outcomes)
}

/// How often a node is looked at again that changed in between: MIG manager,
/// the kubelet and the operator write to it all the time.
const LOOKS: usize = 5;

async fn one(
    calls: &Calls,
    request: &Request,
    name: &str,
    seen: &Seen,
    now: Timestamp,
) -> Result<Outcome, ReleaseError> {
    let mut outcome = seen.one(calls, name, request.resume).await;
    for _ in 1..LOOKS {
        if !outcome.as_ref().is_err_and(CallError::is_conflict) {
            break;
        }
        outcome = look(calls, request, now).await?.one(calls, name, request.resume).await;
    }
    Ok(outcome.unwrap_or_else(|error| Outcome::Refused {
        why: match error.is_conflict() {
            true => format!("it changed {LOOKS} times while it was looked at: run the command again"),
            false => crate::class::chain(&error),
        },
    }))
}

async fn look(calls: &Calls, request: &Request, now: Timestamp) -> Result<Seen, CallError> {
    let client = calls.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let gpu_nodes: Api<GpuNode> = Api::all(client.clone());
    let policies: Api<GpuPartitionPolicy> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client, &request.lease.0);
    let all = ListParams::default();
    let nodes = calls.list(&nodes, "nodes", &all).await?;
    let gpu_nodes = calls.list(&gpu_nodes, "gpunodes", &all).await?;
    let policies = calls.list(&policies, "gpupartitionpolicies", &all).await?;
    let (namespace, name) = &request.lease;
    let lease = calls.get(&leases, &format!("Lease {namespace}/{name}"), name).await?;
    Ok(Seen {
        nodes: nodes.into_iter().filter_map(|n| Some((n.metadata.name.clone()?, n))).collect(),
        gpu_nodes: gpu_nodes.into_iter().filter_map(|n| Some((n.metadata.name.clone()?, n))).collect(),
        policies: policies.into_iter().filter_map(|p| Some((p.metadata.name.clone()?, p))).collect(),
        operator: lease.and_then(|lease| holder(&lease, now)),
    })
}

/// Who has the lease and has renewed it lately.
pub(crate) fn holder(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let duration = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(15)));
    let renewed = spec.renew_time.as_ref()?.0;
    (now.duration_since(renewed) < duration).then_some(holder)
}

/// Whether a node has our mark, a cordon of ours without it, or an operand that
/// we have paused.
fn is_held(node: &Node, progress: &Progress) -> bool {
    let facts = of_node_alone(node);
    facts.is_marked || facts.cordoned_by_us(progress) || !facts.operands.held.is_empty()
}

impl Seen {
    /// Whether a node is among those that are meant when none is named.
    fn concerns(&self, name: &str, resume: bool) -> bool {
        let progress = remembered::read(self.gpu_nodes.get(name));
        let phase = progress.as_ref().map_or(Phase::Failed, |progress| progress.phase);
        if resume {
            return phase == Phase::Released;
        }
        let held = phase != Phase::Idle && phase != Phase::Released;
        let progress = progress.unwrap_or_default();
        held || self.nodes.get(name).is_some_and(|node| is_held(node, &progress))
    }

    /// Why the operator would work against us.
    fn in_the_way(&self, name: &str, phase: Option<Phase>) -> Option<String> {
        let operator = self.operator.as_ref()?;
        // Nothing is under way there, and nothing will be.
        if matches!(phase, Some(Phase::Failed | Phase::Released)) {
            return None;
        }
        let policy = self.gpu_nodes.get(name).and_then(|node| node.spec.policy.clone())?;
        let object = self.policies.get(&policy)?;
        (object.spec.mode == Mode::Enforce).then(|| {
            format!(
                "the operator runs ({operator} has the lease) and the policy {policy} is in force, so it would go on; pause the policy first: kubectl patch gpupartitionpolicy {policy} --type merge -p '{{\"spec\":{{\"mode\":\"Paused\"}}}}' (or delete it, or stop the operator)"
            )
        })
    }

    async fn one(&self, calls: &Calls, name: &str, resume: bool) -> Result<Outcome, CallError> {
        let Some(node) = self.nodes.get(name) else {
            return Ok(Outcome::Nothing { why: "it is gone".to_owned() });
        };
        let gpu_node = self.gpu_nodes.get(name);
        let read = remembered::read(gpu_node);
        let phase = read.as_ref().ok().map(|progress| progress.phase);
        if resume {
            if phase != Some(Phase::Released) {
                return Ok(Outcome::Nothing { why: "it is not released".to_owned() });
            }
            store(calls, name, node, gpu_node, &rollout::release::resume()).await?;
            return Ok(Outcome::Resumed);
        }
        // What cannot be read is given up like what can: that is what this is for.
        let progress = read.unwrap_or_default();
        if !is_held(node, &progress)
            && matches!(progress.phase, Phase::Idle | Phase::Released)
            && phase.is_some()
        {
            return Ok(Outcome::Nothing { why: "we hold nothing of it".to_owned() });
        }
        if let Some(why) = self.in_the_way(name, phase) {
            return Ok(Outcome::Refused { why });
        }
        let rollout::release::Release { progress, actions, left } =
            rollout::release::release(&of_node_alone(node), &progress);
        store(calls, name, node, gpu_node, &progress).await?;
        let mut uncordoned = false;
        // Each write moves the version on which the next one was decided.
        let mut version: Option<String> = None;
        for action in &actions {
            let Some(patch) = action.node_patch() else { continue };
            let if_version = version.as_deref().unwrap_or(patch.if_version);
            let written =
                calls.patch_node(name, if_version, &managers::NODE, &patch.labels, patch.cordon).await?;
            uncordoned |= patch.cordon == Some(false);
            version = written.metadata.resource_version;
        }
        Ok(Outcome::Released { uncordoned, left })
    }
}

/// Stores a progress, if anything is remembered of the node at all.
async fn store(
    calls: &Calls,
    name: &str,
    node: &Node,
    gpu_node: Option<&GpuNode>,
    progress: &Progress,
) -> Result<(), CallError> {
    let Some(gpu_node) = gpu_node else { return Ok(()) };
    let before = gpu_node.status.clone().unwrap_or_default();
    let rollout = remembered::write(progress, before.rollout.as_ref());
    let status = api::GpuNodeStatus { rollout: Some(rollout), ..before };
    // What the agent was told ends with the rollout: it says what it leaves.
    let change = gpu_node.spec.change.clone().filter(|_| progress.phase != Phase::Released);
    // Nobody is left who would take it back.
    let spec = api::GpuNodeSpec { change, driver_in_use_by: None, ..gpu_node.spec.clone() };
    let wanted = gpu_node::Wanted {
        node: &NodeName(name.to_owned()),
        owner_uid: node.metadata.uid.as_deref().unwrap_or_default(),
        spec: &spec,
        status: &status,
        agent: observe::hardware::has_report_of_agent(Some(gpu_node)),
    };
    gpu_node::write(calls, &wanted, Some(gpu_node), || true).await?;
    Ok(())
}
