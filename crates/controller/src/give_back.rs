//! Gives the nodes of agents back to MIG manager before the operator is stopped for good. The operator does it: it
//! alone may write MIG manager's map, and it looks at what each node has. This module marks the nodes and waits for the result.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use observe::facts::of_node_alone;
use rollout::names;

use crate::calls::{CallError, Calls, managers};
use crate::{clock, release};

/// How often the nodes are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often a node is marked again that changed in between.
const TRIES: usize = 5;

/// What came of it, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// MIG manager has them.
    pub back: Vec<String>,
    /// MIG manager does not have them.
    pub left: Vec<String>,
}

/// Marks the nodes that agents change, and waits until MIG manager has them, at most for `patience`. Without an
/// operator that runs, nothing is marked: nobody would give them back.
///
/// # Errors
/// When the cluster cannot be read, or a node cannot be marked.
pub async fn give_back(
    calls: &Calls,
    (namespace, lease): &(String, String),
    patience: Duration,
) -> Result<GivenBack, CallError> {
    let nodes = handed(calls).await?;
    let names = |nodes: &[Node]| nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let all = names(&nodes);
    let leases: Api<Lease> = Api::namespaced(calls.client(), namespace);
    let found = calls.get(&leases, &format!("Lease {namespace}/{lease}"), lease).await?;
    if all.is_empty() || found.and_then(|lease| release::holder(&lease, clock::now())).is_none() {
        return Ok(GivenBack { back: Vec::new(), left: all });
    }
    for name in &all {
        mark(calls, name, Some(names::GIVE_BACK_NOW)).await?;
    }
    let mut waited = Duration::ZERO;
    loop {
        let left = names(&handed(calls).await?);
        if left.is_empty() || waited >= patience {
            let back = all.into_iter().filter(|name| !left.contains(name)).collect();
            return Ok(GivenBack { back, left });
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}

/// Takes the marks away again: an operator that is installed later finds the nodes as any others.
///
/// # Errors
/// When the nodes cannot be read, or a mark cannot be taken away.
pub async fn forget(calls: &Calls) -> Result<(), CallError> {
    let is_marked = |node: &&Node| node.labels().contains_key(names::GIVE_BACK);
    for node in list(calls).await?.iter().filter(is_marked) {
        mark(calls, &node.name_any(), None).await?;
    }
    Ok(())
}

async fn list(calls: &Calls) -> Result<Vec<Node>, CallError> {
    calls.list(&Api::all(calls.client()), "nodes", &ListParams::default()).await
}

async fn handed(calls: &Calls) -> Result<Vec<Node>, CallError> {
    let mut nodes = list(calls).await?;
    nodes.retain(|node| of_node_alone(node).operands.config.as_deref() == Some(names::HANDED_TO_AGENT));
    Ok(nodes)
}

/// Writes the mark of a node. The kubelet and MIG manager write to it all the time.
async fn mark(calls: &Calls, name: &str, value: Option<&str>) -> Result<(), CallError> {
    let label = [(names::GIVE_BACK.to_owned(), value.map(str::to_owned))];
    for tried in 1.. {
        let Some(node) = list(calls).await?.into_iter().find(|node| node.name_any() == name) else { break };
        let version = node.resource_version().unwrap_or_default();
        match calls.patch_node(name, &version, &managers::NODE, &label, None).await {
            Err(error) if error.is_conflict() && tried < TRIES => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    Ok(())
}
