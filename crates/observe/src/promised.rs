//! What was promised to whom, as the `GpuNode`s remember it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::GpuNode;
use api::gpu_node::PromisedTo;
use planner::demand::Request;
use planner::names::{NodeName, RequestId};

/// Marks the requests that a node was promised to. Of several nodes, which can
/// only be where somebody else writes the status, the first by name counts.
pub(crate) fn mark(requests: &mut [Request], gpu_nodes: &BTreeMap<String, Arc<GpuNode>>) {
    let mut promised: BTreeMap<RequestId, &String> = BTreeMap::new();
    for (name, node) in gpu_nodes {
        let rollout = node.status.as_ref().and_then(|status| status.rollout.as_ref());
        for PromisedTo { kind, namespace, name: of, ordinal } in rollout.into_iter().flat_map(|r| &r.promised)
        {
            let Ok(ordinal) = u32::try_from(*ordinal) else { continue };
            let (kind, namespace, of) = (kind.clone(), namespace.clone(), of.clone());
            promised.entry(RequestId { kind, namespace, name: of, ordinal }).or_insert(name);
        }
    }
    for request in requests {
        request.promised = promised.get(&request.id).map(|name| NodeName((*name).clone()));
    }
}
