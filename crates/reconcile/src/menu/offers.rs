//! The hardware profiles that should exist: one for each pool, GPU product and slice profile that the pool's
//! policy can provide, one for its whole GPUs, and one for each way in which its GPUs are shared; and one of each
//! for each local queue.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::HardwareProfile;
use k8s_openapi::api::core::v1::Toleration;
use observe::ClusterView;
use observe::problem::{Problem, Severity};
use planner::demand::Operator;
use planner::inventory::Taint;
use planner::names::NodeName;
use planner::policy::{Mode, Policy};
use planner::report::Offered;
use rollout::names::PRODUCT;

use super::attainable::{Offer, attainable};
use super::card::{Card, OF_QUEUES, Place, Seat, Share};

/// Taints with this prefix say that a node has GPUs; whoever asks for one
/// tolerates them.
const OF_GPUS: &str = "nvidia.com/";
/// Taints that Kubernetes sets and takes away.
const OF_KUBERNETES: &str = "node.kubernetes.io/";

/// What should be offered, and by which policies nothing is decided now.
pub(super) struct Offers {
    /// By what they offer.
    pub wanted: Vec<Card>,
    /// What stays as it is.
    pub frozen: Frozen,
    /// What keeps something from being offered.
    pub problems: Vec<Problem>,
}

/// What policies in preview or paused offer: they change nothing on the menu.
pub(super) struct Frozen {
    /// These policies.
    policies: BTreeSet<String>,
    /// Whether one of them has nodes. A profile of a queue is of no policy, so any of them may be theirs.
    have_nodes: bool,
}

impl Frozen {
    /// Whether what offers this ([`Card::offers`]) stays if nobody else wants it.
    pub(super) fn keeps(&self, offers: &str) -> bool {
        let of = offers.split('/').next().unwrap_or_default();
        self.policies.contains(of) || self.have_nodes && of == OF_QUEUES
    }
}

/// Nodes of one pool with one product.
#[derive(Default)]
struct Group {
    tolerations: BTreeSet<(String, String)>,
    shares: BTreeMap<Offer, Share>,
}

/// What should be offered now. `published` are our own profiles that are enabled, or that somebody has
/// switched off, by what they offer: one whose CPU and memory still fit is kept.
pub(super) fn offers(
    view: &ClusterView,
    queues: &[String],
    published: &BTreeMap<&str, Vec<&HardwareProfile>>,
) -> Offers {
    let policies: BTreeMap<&str, &Policy> =
        view.policies.iter().map(|policy| (policy.name.0.as_str(), policy)).collect();
    let policy_of = planner::assign::policy_of(&view.inventory, &view.policies).policy_of;
    let is_frozen = |policy: &&&Policy| policy.mode != Mode::Enforce;
    let found = |name: &planner::names::PolicyName| policies.get(name.0.as_str());
    let frozen = Frozen {
        policies: policies.values().filter(is_frozen).map(|policy| policy.name.0.clone()).collect(),
        have_nodes: policy_of.values().filter_map(found).any(|policy| is_frozen(&policy)),
    };
    let mut problems = Vec::new();
    let mut groups: BTreeMap<(&str, String), Group> = BTreeMap::new();
    let mut kept_away: BTreeMap<&str, (&NodeName, &Taint)> = BTreeMap::new();
    for (name, node) in &view.inventory.nodes {
        let policy = policy_of.get(name).and_then(|name| policies.get(name.0.as_str()).copied());
        let Some(policy) = policy.filter(|policy| policy.mode == Mode::Enforce) else { continue };
        let Some(product) = node.labels.get(PRODUCT) else { continue };
        if let Some(taint) = node.taints.iter().find(|taint| keeps_away(taint)) {
            kept_away.insert(&policy.name.0, (name, taint));
            continue;
        }
        let Some(found) = attainable(view, name, policy, product) else { continue };
        let group = groups.entry((&policy.name.0, found.product)).or_default();
        let taints = node.taints.iter().filter(|taint| taint.key.starts_with(OF_GPUS));
        group.tolerations.extend(taints.map(|taint| (taint.key.clone(), taint.effect.clone())));
        for (offer, share) in found.offers {
            let least = group.shares.entry(offer).or_insert(share);
            *least = least.min(share);
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
    let mut of_queues: BTreeMap<Offered, (Option<Seat>, Share)> = BTreeMap::new();
    for ((policy, product), group) in &groups {
        for ((offered, seat), share) in &group.shares {
            // One resource is one profile, since a queue says which node it is of.
            let (worst, least) = of_queues.entry(*offered).or_insert((*seat, *share));
            *worst = Seat::one_of(*worst, *seat);
            *least = least.min(*share);
        }
        let Some(mut selector) = labels(policies[policy]) else { continue };
        selector.insert(PRODUCT.to_owned(), product.clone());
        let tolerations: Vec<Toleration> = group.tolerations.iter().map(tolerates).collect();
        for ((offered, seat), share) in &group.shares {
            let place = Place::Nodes {
                policy: (*policy).to_owned(),
                product: product.clone(),
                selector: selector.clone(),
                tolerations: tolerations.clone(),
            };
            let card = Card { offered: *offered, seat: *seat, place, share: *share };
            wanted.push(kept(card, published));
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
        for (offered, (seat, share)) in &of_queues {
            let place = Place::Queue { name: queue.clone() };
            let card = kept(Card { offered: *offered, seat: *seat, place, share: *share }, published);
            // The nodes of who is paused may be the smaller ones, for which the profile that is there was made.
            let stem = format!("{OF_QUEUES}/{queue}/{offered}");
            if !frozen.have_nodes || !is_another_published(&card, &stem, published) {
                wanted.push(card);
            }
        }
    }
    Offers { wanted, frozen, problems }
}

/// Whether the same resource of a queue is published by other profiles than this one.
fn is_another_published(card: &Card, stem: &str, published: &BTreeMap<&str, Vec<&HardwareProfile>>) -> bool {
    let same = published
        .iter()
        .filter(|(of, _)| of.strip_prefix(stem).is_some_and(|seat| seat.is_empty() || seat.starts_with('/')));
    let mut names =
        same.flat_map(|(_, profiles)| profiles).filter_map(|profile| profile.metadata.name.as_ref());
    let name = card.name();
    names.clone().next().is_some() && !names.any(|published| *published == name)
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

/// A taint that keeps pods away which ask for a GPU, and that is not there for
/// a moment only.
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

/// The labels that select the nodes of a policy, if labels alone can.
fn labels(policy: &Policy) -> Option<BTreeMap<String, String>> {
    let one = |expression: &planner::demand::Expression| match (expression.operator, &expression.values[..]) {
        (Operator::In, [value]) => Some((expression.key.clone(), value.clone())),
        _ => None,
    };
    policy.nodes.iter().map(one).collect()
}
