//! Nodes that offer `nvidia.com/gpu` and are not planned for, since their GPUs are not cut: whoever finds whole GPUs
//! there needs none of a node on which MIG would have to be switched off.

use std::collections::BTreeMap;

use mig::GpuResource;
use planner::demand::{Refusal, Request};
use planner::eligible::judge;
use planner::inventory::{Inventory, Seating, Sharing};
use planner::names::{NodeName, RequestId};
use planner::predicted_labels::LabelsAfter;
use planner::report::Offered;

/// Says of each request for whole GPUs whether such a node has as many free as
/// it asks for. Each is looked at by itself: that several find the same ones
/// only makes them wait for the scheduler.
pub(super) fn find(requests: &mut [Request], inventory: &Inventory) {
    if requests.iter().all(|request| request.whole_gpus == 0) {
        return;
    }
    let free = |seating: &Seating| match seating.node.schedulable {
        true => seating.total().saturating_sub(seating.held()),
        false => 0,
    };
    let offering: Vec<(&NodeName, &Seating, u32)> = inventory
        .seating
        .iter()
        .filter(|(_, seating)| seating.offers() == Offered::WholeGpu)
        .map(|(name, seating)| (name, seating, free(seating)))
        .filter(|(_, _, free)| *free > 0)
        .collect();
    for request in requests.iter_mut().filter(|request| request.whole_gpus > 0) {
        let has = |(name, seating, free): &&(&NodeName, &Seating, u32)| {
            let node = &seating.node;
            *free >= request.whole_gpus && judge(request, name, node, &LabelsAfter::predict(node)).is_yes()
        };
        request.finds = offering.iter().find(has).map(|(name, _, _)| (*name).clone());
    }
}

/// Refuses who asks for several seats in one container where each node that has any lets a container have one only:
/// the kubelet would refuse the pod. `most_each`: the most of each resource that one container of a request asks for.
pub(super) fn refuse_several(
    requests: &mut [Request],
    most_each: &BTreeMap<&RequestId, &BTreeMap<String, u64>>,
    inventory: &Inventory,
) {
    for request in requests.iter_mut().filter(|request| request.refused.is_none()) {
        let asked = request.shared.keys().map(|offered| (*offered, offered.resource_name()));
        let most =
            |resource: &String| most_each.get(&request.id).and_then(|most| most.get(resource).copied());
        let several = asked.filter_map(|(offered, resource)| Some((offered, most(&resource)?, resource)));
        let several = several.filter(|(_, most, _)| *most > 1);
        let refused = several.into_iter().find(|(offered, _, _)| {
            let mut sharing = offering(*offered, inventory).peekable();
            sharing.peek().is_some() && sharing.all(|sharing| sharing.one_each)
        });
        request.refused = refused.map(|(_, most, resource)| Refusal {
            why: format!(
                "one of its containers asks for {most} of {resource}, but a container may ask for only one: a second seat gives no larger share, and the device plugin refuses the pod"
            ),
            advice: format!("ask for one {resource} in each container"),
        });
    }
}

/// How it is shared, wherever it is offered.
fn offering(offered: Offered, inventory: &Inventory) -> impl Iterator<Item = Sharing> {
    let gpus = inventory.seating.values().filter(move |seating| seating.offers() == offered);
    let slices = inventory.nodes.values().filter_map(move |node| {
        let profile = offered.profile()?;
        node.shared
            .get(&profile)
            .filter(|sharing| sharing.renamed && node.seats_of(profile).0 == offered)
            .copied()
    });
    gpus.map(|seating| seating.sharing).chain(slices)
}

/// The most of each resource that one of these containers asks for, of those that several pods share.
pub(super) fn most_each(containers: &[(String, BTreeMap<String, u64>)]) -> BTreeMap<String, u64> {
    let mut most: BTreeMap<String, u64> = BTreeMap::new();
    for (resource, n) in containers.iter().flat_map(|(_, asks)| asks) {
        if GpuResource::parse(resource).is_some_and(|resource| resource.shared) {
            let known = most.entry(resource.clone()).or_default();
            *known = (*known).max(*n);
        }
    }
    most
}
