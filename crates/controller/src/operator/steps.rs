//! The writes of a round, each as a separate task that owns its data, so that several run at the same time.

use std::sync::Arc;

use api::{GpuNode, GpuPartitionPolicy, GpuPartitionPolicyStatus};
use futures::StreamExt;
use jiff::Timestamp;
use planner::names::{NodeName, PolicyName};
use reconcile::gpu_node::WantedGpuNode;
use rollout::Action;

use crate::apply::{Done, Executor};
use crate::calls::CallError;
use crate::publish::events::{self, Draft};
use crate::publish::gpu_node::{self, Written};
use crate::publish::policy;
use crate::store::awaited::Subject;

/// What came of storing what is to be remembered of a node: it as it was written, or nothing where it was stored before.
pub(super) type Stored = Option<Result<Option<Box<GpuNode>>, CallError>>;

/// Does several things, so many at the same time.
pub(super) async fn together<T>(at_once: usize, work: Vec<impl Future<Output = T>>) -> Vec<T> {
    futures::stream::iter(work).buffer_unordered(at_once.max(1)).collect().await
}

/// A `GpuNode` as it should be, beside what is there.
fn wanted<'a>(node: &'a NodeName, wanted: &'a WantedGpuNode, now: Option<&GpuNode>) -> gpu_node::Wanted<'a> {
    gpu_node::Wanted {
        node,
        owner_uid: &wanted.owner_uid,
        spec: &wanted.spec,
        status: &wanted.status,
        agent: observe::hardware::has_report_of_agent(now),
    }
}

/// Whether what is to be remembered of a node is stored already, as that of nearly all nodes is in nearly all rounds.
pub(super) fn is_remembered(node: &NodeName, of_node: &WantedGpuNode, now: &GpuNode) -> bool {
    gpu_node::is_as_wanted(&wanted(node, of_node, Some(now)), now)
}

/// Stores what is to be remembered of a node; `None` when we may not write, or
/// not to its end.
pub(super) async fn remember(
    executor: Executor,
    node: NodeName,
    of_node: WantedGpuNode,
    now: Option<Arc<GpuNode>>,
) -> (NodeName, Stored) {
    let now = now.as_deref();
    let wanted = wanted(&node, &of_node, now);
    let outcome = match gpu_node::write(&executor.calls, &wanted, now, || executor.may_write()).await {
        Ok(Written::Stopped) => None,
        Ok(Written::Now(written)) => Some(Ok(Some(written))),
        Ok(Written::Same) => Some(Ok(None)),
        Err(error) => Some(Err(error)),
    };
    (node, outcome)
}

/// Does the actions of a node.
pub(super) async fn apply(executor: Executor, node: NodeName, actions: Vec<Action>) -> (NodeName, Done) {
    let mut done = Done::default();
    executor.apply(&node, &actions, &mut done).await;
    (node, done)
}

/// Writes the status of a policy; `None` when we may not.
pub(super) async fn publish(
    executor: Executor,
    name: PolicyName,
    now: GpuPartitionPolicy,
    wanted: GpuPartitionPolicyStatus,
) -> (PolicyName, Option<Result<Option<Subject>, CallError>>) {
    if !executor.may_write() {
        return (name, None);
    }
    let outcome = policy::write(&executor.calls, &now, &wanted).await;
    (name, Some(outcome))
}

/// Sends an event; hands it back with what came of it.
pub(super) async fn send(
    executor: Executor,
    draft: Draft,
    instance: String,
    at: Timestamp,
) -> (Draft, Timestamp, Result<(), CallError>) {
    let outcome = match executor.may_write() {
        true => events::send(&executor.calls, &draft, &instance, at).await,
        false => Ok(()),
    };
    (draft, at, outcome)
}
