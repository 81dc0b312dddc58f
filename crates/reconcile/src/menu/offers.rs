//! The hardware profiles that should exist: one for each pool, GPU product and slice profile that the pool's
//! policy can provide, and one for each local queue and slice profile.
//!
//! What can be provided decides, and never what is free: "everything is taken" means that people wait, not
//! that there is no such slice.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::HardwareProfile;
use k8s_openapi::api::core::v1::Toleration;
use mig::ProfileName;
use mig::name::Attribute;
use observe::menu::allows;
use observe::problem::{Problem, Severity};
use observe::{ClusterView, Objects};
use planner::demand::Operator;
use planner::inventory::{Hold, Node, Sharing, Taint};
use planner::names::NodeName;
use planner::policy::{LayoutPolicy, Mode, Policy};

use super::card::{Card, Place, Seat, Share};

/// GFD's label with the product. Under strategy `mixed` no change of a layout
/// changes it.
const PRODUCT: &str = "nvidia.com/gpu.product";
/// Taints with this prefix say that a node has GPUs; whoever asks for one
/// tolerates them.
const OF_GPUS: &str = "nvidia.com/";
/// Taints that Kubernetes sets and takes away.
const OF_KUBERNETES: &str = "node.kubernetes.io/";

/// What should be offered, and by which policies nothing is decided now.
pub(super) struct Offers {
    /// By what they offer.
    pub wanted: Vec<Card>,
    /// Policies in preview or paused: what they offer stays as it is.
    pub frozen: BTreeSet<String>,
    /// What keeps something from being offered.
    pub problems: Vec<Problem>,
}

/// Nodes of one pool with one product.
#[derive(Default)]
struct Group {
    slices: BTreeSet<Slice>,
    tolerations: BTreeSet<(String, String)>,
    shares: BTreeMap<Slice, Share>,
}

/// A slice, and how several pods share it.
type Slice = (ProfileName, Option<Seat>);

/// What should be offered now. `published` are our own profiles that are
/// enabled, by what they offer: one whose CPU and memory still fit is kept.
pub(super) fn offers(
    objects: &Objects,
    view: &ClusterView,
    queues: &[String],
    published: &BTreeMap<&str, Vec<&HardwareProfile>>,
) -> Offers {
    let policies: BTreeMap<&str, &Policy> =
        view.policies.iter().map(|policy| (policy.name.0.as_str(), policy)).collect();
    let policy_of = planner::assign::policy_of(&view.inventory, &view.policies).policy_of;
    let is_frozen = |policy: &&&Policy| policy.mode != Mode::Enforce;
    let frozen = policies.values().filter(is_frozen).map(|policy| policy.name.0.clone()).collect();
    let mut problems = Vec::new();
    let mut groups: BTreeMap<(&str, &str), Group> = BTreeMap::new();
    let mut kept_away: BTreeMap<&str, (&NodeName, &Taint)> = BTreeMap::new();
    for (name, node) in &view.inventory.nodes {
        let policy = policy_of.get(name).and_then(|name| policies.get(name.0.as_str()).copied());
        let Some(policy) = policy.filter(|policy| policy.mode == Mode::Enforce) else { continue };
        let Some(product) = node.labels.get(PRODUCT) else { continue };
        if let Some(taint) = node.taints.iter().find(|taint| keeps_away(taint)) {
            kept_away.insert(&policy.name.0, (name, taint));
            continue;
        }
        let profiles = attainable(node, policy);
        if profiles.is_empty() {
            continue;
        }
        let group = groups.entry((&policy.name.0, product)).or_default();
        let taints = node.taints.iter().filter(|taint| taint.key.starts_with(OF_GPUS));
        group.tolerations.extend(taints.map(|taint| (taint.key.clone(), taint.effect.clone())));
        for profile in profiles {
            let Some(share) = share(objects, name, node, profile) else { continue };
            let of = |sharing: &Sharing| Seat { replicas: sharing.replicas, renamed: sharing.renamed };
            let slice = (profile, node.shared.get(&profile).map(of));
            let least = group.shares.entry(slice).or_insert(share);
            *least = least.min(share);
            group.slices.insert(slice);
        }
    }
    for (policy, (node, taint)) in kept_away {
        if !groups.keys().any(|(has, _)| *has == policy) {
            let Taint { key, effect, .. } = taint;
            let message = format!(
                "offers nothing to OpenShift AI: {} and its other nodes have taints such as {key}:{effect}, which the operator's hardware profiles do not tolerate; commit profiles with that toleration to Git (`slicewright profiles export` writes them)",
                node.0
            );
            problems.push(Problem::new(Severity::Warning, format!("GpuPartitionPolicy {policy}"), message));
        }
    }
    let mut wanted = Vec::new();
    let mut of_queues: BTreeMap<Slice, Share> = BTreeMap::new();
    for ((policy, product), group) in &groups {
        for (slice, share) in &group.shares {
            let least = of_queues.entry(*slice).or_insert(*share);
            *least = least.min(*share);
        }
        let Some(mut selector) = labels(policies[policy]) else { continue };
        selector.insert(PRODUCT.to_owned(), (*product).to_owned());
        let tolerations: Vec<Toleration> = group.tolerations.iter().map(tolerates).collect();
        for slice in &group.slices {
            let place = Place::Nodes {
                policy: (*policy).to_owned(),
                product: (*product).to_owned(),
                selector: selector.clone(),
                tolerations: tolerations.clone(),
            };
            let ((profile, seat), share) = (*slice, group.shares[slice]);
            wanted.push(kept(Card { profile, seat, place, share }, published));
        }
    }
    for (name, policy) in &policies {
        if groups.keys().any(|(has, _)| has == name) && labels(policy).is_none() {
            problems.push(
                Problem::new(
                    Severity::Warning,
                    format!("GpuPartitionPolicy {name}"),
                    "offers nothing to projects without queues: a hardware profile selects nodes by labels with one value each, so write the selector as matchLabels",
                )
                .field("spec.nodeSelector"),
            );
        }
    }
    for queue in queues {
        for ((profile, seat), share) in &of_queues {
            let place = Place::Queue { name: queue.clone() };
            let card = Card { profile: *profile, seat: *seat, place, share: *share };
            wanted.push(kept(card, published));
        }
    }
    Offers { wanted, frozen, problems }
}

/// The card as it is published already, if its CPU and memory still fit the
/// share and use most of it. A profile cannot be edited, so a little more or
/// less memory on a node would mean a new profile each time.
fn kept(card: Card, published: &BTreeMap<&str, Vec<&HardwareProfile>>) -> Card {
    let of = card.offers();
    let same = published.get(of.as_str()).into_iter().flatten().find_map(|profile| {
        let share = Share::from_profile(profile)?;
        let candidate = Card { share, ..card.clone() };
        let fits = share.cpu <= card.share.cpu && share.memory_gib <= card.share.memory_gib;
        let is_most =
            share.cpu * 4 >= card.share.cpu * 3 && share.memory_gib * 4 >= card.share.memory_gib * 3;
        (fits && is_most && Some(candidate.digest().as_str()) == profile.annotation(super::SPEC_DIGEST))
            .then_some(candidate)
    });
    same.unwrap_or(card)
}

/// The profiles that the policy of a node can give slices of there.
fn attainable(node: &Node, policy: &Policy) -> BTreeSet<ProfileName> {
    let mut found = BTreeSet::new();
    if node.single_strategy {
        return found;
    }
    for gpu in node.gpus.values() {
        match node.hold.as_ref().or(gpu.hold.as_ref()) {
            Some(Hold::HandsOff { .. } | Hold::NotReady | Hold::Unhealthy { .. } | Hold::NoPolicy) => {}
            // Nothing is changed there, so it offers what it has.
            Some(Hold::ForeignLayout { .. } | Hold::Failed { .. } | Hold::NotEstablished { .. }) => {
                found.extend(gpu.slices.profiles());
            }
            // These pass: people wait for them.
            Some(
                Hold::CoolingDown { .. }
                | Hold::Changing
                | Hold::Promised { .. }
                | Hold::Cordoned { .. }
                | Hold::ForeignWork { .. },
            )
            | None => {
                let profiles = gpu.geometry.profiles().iter().map(|profile| profile.name);
                found.extend(profiles.filter(|name| is_offered(policy, *name)));
            }
        }
    }
    found
}

/// Whether a policy offers slices of a profile: those with a special engine
/// only where it names them.
fn is_offered(policy: &Policy, name: ProfileName) -> bool {
    let is_named = match &policy.layout {
        LayoutPolicy::DemandDriven { slices, .. } => slices.contains_key(&name),
        LayoutPolicy::Static { gpus } => gpus.iter().any(|rule| rule.cuts_into(name)),
    };
    allows(policy, name) && (is_named || name.attribute == Attribute::Plain)
}

/// A taint that keeps pods away which ask for a slice, and that is not there
/// for a moment only.
fn keeps_away(taint: &Taint) -> bool {
    let passes = taint.key.starts_with(OF_GPUS) || taint.key.starts_with(OF_KUBERNETES);
    !passes && matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

fn tolerates((key, effect): &(String, String)) -> Toleration {
    Toleration {
        key: Some(key.clone()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.clone()),
        ..Toleration::default()
    }
}

/// What a slice may have of the CPU and memory of a node: its share of the
/// GPUs, of nine tenths, since other pods of the node need some; a seat of it,
/// its part of that.
fn share(objects: &Objects, name: &NodeName, node: &Node, profile: ProfileName) -> Option<Share> {
    let allocatable = objects.nodes.get(&name.0)?.status.as_ref()?.allocatable.as_ref()?;
    let amount = |resource: &str| observe::pods::amount(resource, allocatable.get(resource)?);
    let whole: i128 = node.gpus.values().map(|gpu| i128::from(gpu.geometry.compute())).sum();
    let compute = node.gpus.values().find_map(|gpu| {
        let index = gpu.geometry.profile_named(profile)?;
        Some(i128::from(gpu.geometry.profile(index).compute))
    })?;
    let seats = i128::from(node.seats_of(profile).1);
    let part = |amount: i128| amount.checked_mul(9 * compute)?.checked_div(10 * whole * seats);
    let (cpu, memory) = (part(amount("cpu")?)? / 1000, part(amount("memory")?)? >> 30);
    let at_least_one = |n: i128| u32::try_from(n.max(1)).unwrap_or(u32::MAX);
    Some(Share { cpu: at_least_one(cpu), memory_gib: at_least_one(memory) })
}

/// The labels that select the nodes of a policy, if labels alone can.
fn labels(policy: &Policy) -> Option<BTreeMap<String, String>> {
    let one = |expression: &planner::demand::Expression| match (expression.operator, &expression.values[..]) {
        (Operator::In, [value]) => Some((expression.key.clone(), value.clone())),
        _ => None,
    };
    policy.nodes.iter().map(one).collect()
}
