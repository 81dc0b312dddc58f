//! The ways of sharing that suit the cards of a node: MIG, time-slicing, MPS, vGPU or passthrough. The
//! labels of NFD and GPU feature discovery show the cards and whether the node is a physical machine.

use std::collections::BTreeMap;

use mig::sharing::{Known, Place, Sharing, Verdict, advise, find};
use planner::inventory::Node as Seen;
use planner::names::PolicyName;
use rollout::{Method, PluginConfig};

use crate::names;

/// Whether a node is a machine of its own, as far as its labels say.
#[must_use]
pub fn place(labels: &BTreeMap<String, String>) -> Place {
    let is_true = |key: &str| labels.get(key).is_some_and(|value| value == "true");
    if is_true(names::VGPU_PRESENT) {
        Place::VgpuGuest
    } else if is_true(names::HYPERVISOR) {
        Place::VirtualMachine
    } else if labels.keys().any(|key| key.starts_with(names::CPUID_PREFIX)) {
        Place::BareMetal
    } else {
        Place::Unknown
    }
}

/// The cards of a node: those that are known to be in it, or the product of its label.
fn cards<'a>(labels: &'a BTreeMap<String, String>, seen: Option<&'a Seen>) -> Vec<&'a str> {
    let mut cards: Vec<&str> =
        seen.into_iter().flat_map(|n| n.gpus.values()).map(|g| g.model.as_str()).collect();
    if cards.is_empty() {
        cards.extend(labels.get(names::PRODUCT).map(String::as_str));
    }
    cards.sort_unstable();
    cards.dedup();
    cards
}

/// What of the way in which a policy shares the devices of a node does not work there, or is a risk.
#[must_use]
pub fn warnings(
    labels: &BTreeMap<String, String>,
    seen: Option<&Seen>,
    config: &PluginConfig,
    policy: &PolicyName,
) -> Vec<String> {
    let Some(shared) = &config.sharing else { return Vec::new() };
    let (way, place) = match shared.by {
        Method::TimeSlicing => (Sharing::TimeSlicing, place(labels)),
        Method::Mps => (Sharing::Mps, place(labels)),
    };
    let whole = shared.replicas.contains_key(names::RESOURCE_GPU);
    let mut lines = Vec::new();
    for card in cards(labels, seen) {
        let Some(known) = find(card) else { continue };
        let (name, has_mig) = match known {
            Known::Model(model) => (&model.id, true),
            Known::Card(card) => (&card.id, false),
        };
        let all = advise(known, place);
        let Some(of) = all.iter().find(|advice| advice.sharing == way) else { continue };
        // MPS beside MIG does not work; on a whole GPU of a card that knows MIG, with MIG off, it does.
        let by_mig = has_mig && way == Sharing::Mps && whole && place != Place::VgpuGuest;
        let is_out = of.verdict == Verdict::Impossible && !by_mig;
        if is_out {
            lines.push(format!(
                "policy {policy} shares {name} by {way}, which does not work there: {}",
                of.why
            ));
        } else if way == Sharing::Mps {
            lines.push(format!(
                "policy {policy} shares {name} by {way}: {}",
                if has_mig { "a failure of one pod ends all" } else { of.why.as_str() }
            ));
        }
        let best = all.iter().find(|advice| advice.verdict == Verdict::Recommended);
        if let Some(best) = best.filter(|best| best.sharing == Sharing::Mig && whole) {
            lines.push(format!(
                "policy {policy} shares whole GPUs of {name} by {way}, without memory of their own for pods; {} is recommended: {}",
                best.sharing, best.why
            ));
        }
    }
    lines
}

/// The advice for a node, a line each; nothing when it has no NVIDIA card.
#[must_use]
pub fn advice(labels: &BTreeMap<String, String>, seen: Option<&Seen>) -> Vec<String> {
    let place = place(labels);
    let mut lines = Vec::new();
    for card in cards(labels, seen) {
        let Some(known) = find(card) else {
            lines.push(format!(
                "how to share {card}: this card is unknown; if it has no MIG, time-slicing works on every card since Pascal"
            ));
            continue;
        };
        let name = known.id();
        lines.push(format!("how to share {name} ({place}):"));
        for advice in advise(known, place) {
            let verdict = match advice.verdict {
                Verdict::Recommended => "RECOMMENDED".to_owned(),
                verdict => verdict.to_string(),
            };
            lines.push(format!("  {:<12} {verdict:<11} {}", advice.sharing, advice.why));
        }
    }
    lines
}
