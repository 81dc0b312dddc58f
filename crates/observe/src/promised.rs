//! What was promised to whom, as the `GpuNode`s remember it.
//!
//! A promise belongs to an owner, and the number in it tells its requests apart. Pods that come to be get numbers that
//! nobody could know before: so a promise whose number fits nobody is that of another request of the same owner.
//!
//! A workload of Kueue that somebody made before its job has no owner at first, and was promised something itself: what
//! was promised to it is promised to its job.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::GpuNode;
use api::gpu_node::PromisedTo;
use planner::demand::Request;
use planner::eligible::judge;
use planner::inventory::{Inventory, Node};
use planner::names::{NodeName, RequestId};
use planner::predicted_labels::LabelsAfter;

use crate::free::free_slices;

/// The promises to one owner: the node, by the number of the request.
pub(crate) type Numbered = BTreeMap<u32, NodeName>;

/// Marks the requests that a node was promised to, and says what is promised to nobody among them. `is_placed` says
/// whether a pod of that number has its node: its promise has been kept. `behind`: who stands behind each workload of
/// Kueue.
pub(crate) fn mark(
    requests: &mut [Request],
    is_placed: impl Fn(&RequestId) -> bool,
    inventory: &Inventory,
    mut owners: BTreeMap<RequestId, Numbered>,
    behind: &BTreeMap<RequestId, RequestId>,
) -> Vec<(NodeName, RequestId)> {
    if owners.is_empty() {
        return Vec::new();
    }
    pass_on(&mut owners, behind);
    let mut unheard = Vec::new();
    let mut nodes = Nodes { inventory, labels: BTreeMap::new() };
    let mut of_owner: BTreeMap<RequestId, Vec<&mut Request>> = BTreeMap::new();
    for request in requests {
        let owner = RequestId { ordinal: 0, ..request.id.clone() };
        if owners.contains_key(&owner) {
            of_owner.entry(owner).or_default().push(request);
        }
    }
    for (owner, mut requests) in of_owner {
        let mut promised = owners.remove(&owner).unwrap_or_default();
        // The number is the same, and the node has what it asks for.
        for request in &mut requests {
            let node =
                promised.get(&request.id.ordinal).filter(|node| nodes.may_keep(request, node)).cloned();
            request.promised = node.inspect(|_| drop(promised.remove(&request.id.ordinal)));
        }
        let mut left: BTreeMap<&NodeName, Vec<u32>> = BTreeMap::new();
        for (number, node) in &promised {
            if !is_placed(&RequestId { ordinal: *number, ..owner.clone() }) {
                left.entry(node).or_default().push(*number);
            }
        }
        let mut passed_on = Vec::new();
        for request in requests.iter_mut().filter(|request| request.promised.is_none()) {
            let found = left.iter_mut().find(|(node, of)| !of.is_empty() && nodes.may_keep(request, node));
            if let Some((node, numbers)) = found {
                request.promised = Some((*node).clone());
                passed_on.extend(numbers.pop());
            }
        }
        promised.retain(|number, _| !passed_on.contains(number));
        // What cannot be kept is reported as broken, to whom it was made.
        for request in requests.iter_mut().filter(|request| request.promised.is_none()) {
            request.promised = promised.remove(&request.id.ordinal);
        }
        owners.insert(owner, promised);
    }
    for (owner, promised) in owners {
        let of = promised.into_iter().map(|(ordinal, node)| (node, RequestId { ordinal, ..owner.clone() }));
        unheard.extend(of.filter(|(_, id)| !is_placed(id)));
    }
    unheard
}

/// Gives what was promised to workloads to those who stand behind them, by numbers that nobody has.
fn pass_on(owners: &mut BTreeMap<RequestId, Numbered>, behind: &BTreeMap<RequestId, RequestId>) {
    for (workload, owner) in behind {
        let Some(promised) = owners.remove(workload) else { continue };
        let of_owner = owners.entry(owner.clone()).or_default();
        for (number, node) in promised {
            let number = (number..).find(|number| !of_owner.contains_key(number)).unwrap_or(number);
            of_owner.insert(number, node);
        }
    }
}

/// The promises, by owner. Of several nodes for one request, which can only be
/// where somebody else writes the status, the first by name counts.
pub(crate) fn read(gpu_nodes: &BTreeMap<String, Arc<GpuNode>>) -> BTreeMap<RequestId, Numbered> {
    let mut owners: BTreeMap<RequestId, Numbered> = BTreeMap::new();
    for (name, node) in gpu_nodes {
        let rollout = node.status.as_ref().and_then(|status| status.rollout.as_ref());
        for PromisedTo { kind, namespace, name: of, ordinal } in rollout.into_iter().flat_map(|r| &r.promised)
        {
            let Ok(ordinal) = u32::try_from(*ordinal) else { continue };
            let (kind, namespace, of) = (kind.clone(), namespace.clone(), of.clone());
            let owner = RequestId { kind, namespace, name: of, ordinal: 0 };
            owners.entry(owner).or_default().entry(ordinal).or_insert_with(|| NodeName(name.clone()));
        }
    }
    owners
}

/// The nodes that were promised to somebody.
struct Nodes<'a> {
    inventory: &'a Inventory,
    labels: BTreeMap<NodeName, (&'a Node, LabelsAfter)>,
}

impl Nodes<'_> {
    /// Whether a request may use a node, and the node has free what it asks for.
    fn may_keep(&mut self, request: &Request, name: &NodeName) -> bool {
        if !self.labels.contains_key(name) {
            let Some(node) = self.inventory.nodes.get(name) else { return false };
            self.labels.insert(name.clone(), (node, LabelsAfter::predict(node)));
        }
        let (node, labels) = &self.labels[name];
        judge(request, name, node, labels).is_yes()
            && request.slices.iter().all(|(profile, n)| free_slices(node, *profile) >= *n)
    }
}

#[cfg(test)]
mod tests {
    use planner::testing::{a100, fleet, node, request};

    use super::*;

    /// The owner of some pods, of which those with these numbers ask for a slice each.
    fn lab(numbers: &[u32]) -> (RequestId, Vec<Request>) {
        let one = request("lab").asks("3g.40gb", 1).build();
        let of = |ordinal| {
            let mut request = one.clone();
            request.id.ordinal = ordinal;
            request
        };
        (RequestId { ordinal: 0, ..one.id.clone() }, numbers.iter().map(|number| of(*number)).collect())
    }

    /// Nodes with a free slice each.
    fn free(names: &[&str]) -> Inventory {
        let node = || node().gpu(a100().idle("3g.40gb", 0));
        names.iter().fold(fleet(), |fleet, name| fleet.node(name, node())).build()
    }

    /// To whom each request of the owner is promised then, and which promises are left, by number.
    fn kept(
        inventory: &Inventory,
        (owner, mut requests): (RequestId, Vec<Request>),
        promised: &[(u32, &str)],
        placed: &[u32],
    ) -> (Vec<Option<NodeName>>, Vec<u32>) {
        let promised: Numbered = promised.iter().map(|(number, node)| (*number, (*node).into())).collect();
        let owners = BTreeMap::from([(owner, promised)]);
        let is_placed = |id: &RequestId| placed.contains(&id.ordinal);
        let unheard = mark(&mut requests, is_placed, inventory, owners, &BTreeMap::new());
        (
            requests.into_iter().map(|request| request.promised).collect(),
            unheard.into_iter().map(|(_, id)| id.ordinal).collect(),
        )
    }

    #[test]
    fn a_promise_that_was_kept_or_is_anothers_is_passed_on_to_nobody() {
        let fleet = free(&["n1"]);
        assert_eq!(kept(&fleet, lab(&[0, 1]), &[(0, "n1")], &[]), (vec![Some("n1".into()), None], vec![]));
        // Who it was made to has its node.
        assert_eq!(kept(&fleet, lab(&[1]), &[(0, "n1")], &[0]), (vec![None], vec![]));
    }

    #[test]
    fn a_promise_that_fits_nobody_any_more_is_still_that_of_whom_it_was_made_to() {
        assert_eq!(kept(&free(&["n2"]), lab(&[3]), &[(3, "n1")], &[]), (vec![Some("n1".into())], vec![]));
    }

    #[test]
    fn a_node_without_a_free_slice_keeps_no_promise() {
        let taken = node().gpu(a100().used("3g.40gb", 0, "other"));
        let other = node().gpu(a100().idle("3g.40gb", 0));
        let fleet = fleet().node("n1", taken).node("n2", other).build();
        let promised = [(0, "n1"), (1, "n2")];
        assert_eq!(kept(&fleet, lab(&[0]), &promised, &[]), (vec![Some("n2".into())], vec![0]));
    }

    /// Its job may have been promised something under the same number.
    #[test]
    fn what_was_promised_to_a_workload_is_promised_to_its_job_beside_what_the_job_has() {
        let (owner, mut requests) = lab(&[0, 1]);
        let workload = RequestId { kind: "Workload".into(), ..owner.clone() };
        let owners = BTreeMap::from([
            (owner.clone(), Numbered::from([(0, "n1".into())])),
            (workload.clone(), Numbered::from([(0, "n2".into())])),
        ]);
        let behind = BTreeMap::from([(workload, owner)]);
        let unheard = mark(&mut requests, |_| false, &free(&["n1", "n2"]), owners, &behind);
        let promised: Vec<_> = requests.into_iter().map(|request| request.promised).collect();
        assert_eq!(promised, [Some("n1".into()), Some("n2".into())]);
        assert_eq!(unheard, []);
    }

    #[test]
    fn of_two_nodes_that_say_that_they_are_promised_to_one_the_first_by_name_counts() {
        let to = |name: &str, ordinal: i64| {
            let promised =
                PromisedTo { kind: "Pod".into(), namespace: "team".into(), name: name.into(), ordinal };
            let rollout = api::gpu_node::NodeRollout { promised: vec![promised], ..Default::default() };
            let status = api::gpu_node::GpuNodeStatus { rollout: Some(rollout), ..Default::default() };
            let mut node = GpuNode::new("n", api::gpu_node::GpuNodeSpec::default());
            node.status = Some(status);
            Arc::new(node)
        };
        let nodes = [("n1", to("a", 0)), ("n2", to("a", 0)), ("n3", to("a", -1)), ("n4", to("a", 1))];
        let read = read(&nodes.into_iter().map(|(name, node)| (name.to_owned(), node)).collect());
        let owner = RequestId { kind: "Pod".into(), namespace: "team".into(), name: "a".into(), ordinal: 0 };
        let of_it = Numbered::from([(0, "n1".into()), (1, "n4".into())]);
        assert_eq!(read, BTreeMap::from([(owner, of_it)]));
    }

    /// Two pods of one owner had a node each, and the one that is left may only use the second.
    #[test]
    fn a_promise_of_the_same_number_is_not_taken_where_it_cannot_be_kept_and_another_one_of_the_owner_can() {
        let on = |disk: &str| node().label("disk", disk).gpu(a100().idle("3g.40gb", 0));
        let inventory = fleet().node("n1", on("slow")).node("n2", on("fast")).build();
        let mut requests = [request("lab").asks("3g.40gb", 1).selects("disk", "fast").build()];
        let owner = RequestId { ordinal: 0, ..requests[0].id.clone() };
        let number = requests[0].id.ordinal;
        let promised = [(number, "n1".into()), (number + 1, "n2".into())];
        let owners = BTreeMap::from([(owner, Numbered::from(promised))]);
        let unheard = mark(&mut requests, |_| false, &inventory, owners, &BTreeMap::new());
        assert_eq!(requests[0].promised, Some("n2".into()));
        let unheard: Vec<_> = unheard.into_iter().map(|(node, id)| (node, id.ordinal)).collect();
        assert_eq!(unheard, [("n1".into(), number)], "who it was made to may come yet");
    }
}
