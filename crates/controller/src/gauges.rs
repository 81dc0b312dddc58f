//! Sets the gauges from the results of a round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use mig::{Catalog, ProfileName};
use observe::Objects;
use observe::quota::Drift;
use planner::demand::Request;
use planner::inventory::{Node, Use};
use planner::names::RequestId;
use planner::policy::{LayoutPolicy, Policy};
use planner::report::{Offered, Outcome, PolicyReport, RequestReport};
use reconcile::Round;
use reconcile::menu::Stand;
use reconcile::why_name::why_name;
use rollout::{Advance, Outlook, Phase, Progress};

use crate::metrics::{Metrics, NodeGauges, PolicyGauges, Waiting};

/// Sets every gauge to what the round found, and counts changes that ended.
pub fn set(metrics: &Metrics, objects: &Objects, round: &Round) {
    cached(metrics, objects);
    metrics.slices(slices(round));
    metrics.seats(seats(round));
    metrics.pending(pending(&round.planned.view.requests));
    metrics.unserved(unserved(&round.planned.view.requests, &round.planned.report.requests));
    metrics.policies(policies(objects, round));
    metrics.nodes(nodes(round));
    metrics.quota_drift(quota_drift(&round.planned.view.drifts));
    if round.menu.namespace.is_some() {
        metrics.hardware_profiles(Stand::ALL.into_iter().map(|stand| {
            let n = round.menu.stands.values().filter(|found| **found == stand).count();
            (stand.name(), n)
        }));
    }
    let gpus = round.planned.plan.steps.iter().map(|step| step.gpus.len()).sum();
    metrics.plan(round.planned.plan.steps.len(), gpus);
    for (name, node) in &round.nodes {
        let (before, next) = (&node.before, &node.advance.progress);
        if before.phase == next.phase {
            continue;
        }
        let works = matches!(next.phase, Phase::Changing | Phase::Verifying | Phase::Releasing);
        if before.phase == Phase::Healing && works {
            metrics.healed(name.0.clone());
        }
        let rolled_back = next.set_back.as_ref().is_some_and(|back| back.rolled_back);
        let result = match (before.phase, next.phase) {
            (Phase::Releasing, Phase::Idle) if rolled_back => "rolled_back",
            (Phase::Releasing, Phase::Idle) => "verified",
            (Phase::Retreating, Phase::Idle) => "taken_back",
            (_, Phase::Failed) => "failed",
            _ => continue,
        };
        let cordoned = before.target.as_ref().and_then(|target| target.cordoned_at);
        let away = cordoned.zip(next.verified.as_ref().map(|v| v.at)).filter(|_| result == "verified");
        let away = away.and_then(|(from, to)| Duration::try_from(from.duration_until(to)).ok());
        metrics.repartitioned(result, reason(next), away);
    }
}

fn cached(metrics: &Metrics, objects: &Objects) {
    let room_taken: i64 = objects.room_taken.values().map(|room| room.pods).sum();
    for (kind, n) in [
        ("nodes", objects.nodes.len()),
        ("pods", objects.pods.len() + usize::try_from(room_taken).unwrap_or_default()),
        ("gpunodes", objects.gpu_nodes.len()),
        ("gpupartitionpolicies", objects.policies.len()),
        ("notebooks", objects.notebooks.len()),
        ("hardwareprofiles", objects.hardware_profiles.len()),
        ("namespaces", objects.namespaces.len()),
        ("workloads", objects.workloads.len()),
    ] {
        metrics.cached(kind, n);
    }
}

fn slices(round: &Round) -> impl Iterator<Item = (String, String, &'static str, i64)> {
    let mut all: BTreeMap<(String, String, &'static str), i64> = BTreeMap::new();
    for (name, node) in &round.planned.view.inventory.nodes {
        for gpu in node.gpus.values() {
            let mut count = |profile: String, used: &Use| {
                let state = match used {
                    Use::Idle => "free",
                    Use::InUse { .. } => "in_use",
                    Use::MaybeInUse { .. } => "maybe_in_use",
                };
                *all.entry((name.0.clone(), profile, state)).or_default() += 1;
            };
            gpu.slices.iter().for_each(|slice| count(slice.profile.to_string(), slice.used));
            gpu.slices.whole().into_iter().for_each(|used| count("gpu".to_owned(), used));
        }
    }
    all.into_iter().map(|((node, profile, state), n)| (node, profile, state, n))
}

/// A profile as a label. People may ask for any that they can spell: one that
/// no model has is one value for all.
fn profile_label(profile: &ProfileName) -> String {
    static KNOWN: LazyLock<BTreeSet<ProfileName>> = LazyLock::new(|| {
        let models = Catalog::builtin().models().iter();
        models.flat_map(|model| model.geometry.profiles()).map(|profile| profile.name).collect()
    });
    if KNOWN.contains(profile) { profile.to_string() } else { "other".to_owned() }
}

/// What pods ask for, as a label: `1g.10gb`, `gpu`, or the same with `.shared`.
fn offered_label(offered: Offered) -> String {
    match offered {
        Offered::Slice(profile) => profile_label(&profile),
        Offered::SharedSlice(profile) => {
            format!("{}{}", profile_label(&profile), mig::GpuResource::SHARED)
        }
        Offered::WholeGpu | Offered::SharedGpu => offered.to_string(),
    }
}

/// The seats of every node of which no GPU is cut, or GPUs or slices are shared.
fn seats(round: &Round) -> impl Iterator<Item = (String, String, &'static str, i64)> {
    let mut all: BTreeMap<(String, String, &'static str), i64> = BTreeMap::new();
    let inventory = &round.planned.view.inventory;
    let mut count = |node: &str, offered: Offered, total: u32, held: u32| {
        for (state, n) in [("held", held.min(total)), ("free", total.saturating_sub(held))] {
            *all.entry((node.to_owned(), offered_label(offered), state)).or_default() += i64::from(n);
        }
    };
    for (name, seating) in &inventory.seating {
        count(&name.0, seating.offers(), seating.total(), seating.held());
    }
    for (name, node) in &inventory.nodes {
        for profile in node.shared.keys() {
            let (offered, each) = node.seats_of(*profile);
            let profiles = node.gpus.values().flat_map(|gpu| gpu.slices.profiles());
            let slices = u32::try_from(profiles.filter(|of| of == profile).count()).unwrap_or(u32::MAX);
            let held = node.allocated.get(profile).copied().unwrap_or(0);
            count(&name.0, offered, slices.saturating_mul(each), held);
        }
    }
    all.into_iter().map(|((node, profile, state), n)| (node, profile, state, n))
}

/// The profiles that a request asks for, as labels; whole GPUs are one of them.
fn asked(request: &Request) -> BTreeMap<String, i64> {
    let mut asked: BTreeMap<String, i64> = BTreeMap::new();
    for (profile, n) in &request.slices {
        *asked.entry(profile_label(profile)).or_default() += i64::from(*n);
    }
    if request.whole_gpus > 0 {
        asked.insert("gpu".to_owned(), i64::from(request.whole_gpus));
    }
    for (offered, n) in &request.shared {
        *asked.entry(offered_label(*offered)).or_default() += i64::from(*n);
    }
    asked
}

fn pending(requests: &[Request]) -> BTreeMap<String, i64> {
    let mut pending: BTreeMap<String, i64> = BTreeMap::new();
    for (profile, n) in requests.iter().flat_map(asked) {
        *pending.entry(profile).or_default() += n;
    }
    pending
}

/// Where the quota of a queue is wrong. Resources that no profile has are one
/// value for all, since people may ask for any that they can spell.
fn quota_drift(drifts: &[Drift]) -> BTreeMap<[String; 4], i64> {
    let mut all: BTreeMap<[String; 4], i64> = BTreeMap::new();
    for drift in drifts {
        let Drift { queue, flavor, resource, what } = drift;
        let profile = match ProfileName::from_resource_name(resource) {
            Some(profile) => profile_label(&profile),
            None if resource == mig::GpuResource::GPU => "gpu".to_owned(),
            None => "other".to_owned(),
        };
        let labels = [queue.clone(), flavor.clone().unwrap_or_default(), profile, what.name().to_owned()];
        let by = all.entry(labels).or_default();
        *by = by.saturating_add(i64::try_from(what.by()).unwrap_or(i64::MAX));
    }
    all
}

/// Who waits, by policy, profile and reason.
fn unserved(requests: &[Request], reports: &[RequestReport]) -> BTreeMap<[String; 3], Waiting> {
    let by_id: BTreeMap<&RequestId, &Request> = requests.iter().map(|r| (&r.id, r)).collect();
    let mut all: BTreeMap<[String; 3], Waiting> = BTreeMap::new();
    for report in reports {
        let (Outcome::Unserved { why, .. }, Some(request)) = (&report.outcome, by_id.get(&report.id)) else {
            continue;
        };
        let policy = report.policy.as_ref().map(|policy| policy.0.clone()).unwrap_or_default();
        for profile in asked(request).into_keys() {
            let labels = [policy.clone(), profile, why_name(why).to_owned()];
            let waiting = all.entry(labels).or_insert(Waiting { requests: 0, since: request.since });
            waiting.requests += 1;
            waiting.since = waiting.since.min(request.since);
        }
    }
    all
}

/// Where every node is on its way, and what holds it.
fn nodes(round: &Round) -> impl Iterator<Item = (String, NodeGauges)> {
    round.nodes.iter().map(|(name, node)| {
        let policy = round.planned.policy_of.get(name).map(|policy| policy.0.clone()).unwrap_or_default();
        let Advance { progress, outlook, .. } = &node.advance;
        let on_its_way = !matches!(progress.phase, Phase::Idle | Phase::Released);
        let phase =
            progress.since.filter(|_| on_its_way).map(|since| (progress.phase.name().to_owned(), since));
        let hold = match outlook {
            Outlook::Holding(hold) => Some(hold.reason().name),
            Outlook::Failed(failure) => Some(failure.why.reason().name),
            Outlook::Working { .. } | Outlook::Idle => None,
        };
        (name.0.clone(), NodeGauges { policy, phase, hold })
    })
}

/// The floors of a policy: how many slices or whole GPUs it promises, and how
/// many of them are not there.
fn floors(policy: &Policy, report: Option<&PolicyReport>) -> Vec<(String, i64, i64)> {
    let LayoutPolicy::DemandDriven { slices, whole_gpus, .. } = &policy.layout else { return Vec::new() };
    let slices = slices.iter().map(|(profile, bounds)| (Offered::Slice(*profile), bounds));
    let all = slices.chain(whole_gpus.iter().map(|bounds| (Offered::WholeGpu, bounds)));
    all.filter(|(_, bounds)| bounds.min > 0)
        .map(|(offered, bounds)| {
            let supply = |report: &PolicyReport| report.offers().find(|(of, _)| *of == offered);
            let present = report.and_then(supply).map_or(0, |(_, supply)| supply.present);
            let missing = bounds.min.saturating_sub(present);
            (offered_label(offered), i64::from(bounds.min), i64::from(missing))
        })
        .collect()
}

/// Why a change did not end as it should have, in one word.
fn reason(next: &Progress) -> &'static str {
    match (&next.failed, &next.last_error) {
        (Some(why), _) => why.reason().name,
        (None, Some(trouble)) => trouble.name(),
        (None, None) => "none",
    }
}

/// Of the compute slices that nobody holds, the share on GPUs of which
/// somebody holds, or may hold, another.
fn fragmentation<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<f64> {
    let (mut free, mut in_pieces) = (0u32, 0u32);
    for gpu in nodes.flat_map(|node| node.gpus.values()) {
        let held = |used: &Use, compute: u8| if matches!(used, Use::Idle) { 0 } else { u32::from(compute) };
        let all = u32::from(gpu.geometry.compute());
        let held: u32 = match gpu.slices.whole() {
            Some(used) => held(used, gpu.geometry.compute()),
            None => gpu.slices.iter().map(|slice| held(slice.used, slice.profile.compute)).sum(),
        };
        let left = all.saturating_sub(held);
        free += left;
        in_pieces += if held > 0 { left } else { 0 };
    }
    (free > 0).then(|| f64::from(in_pieces) / f64::from(free))
}

fn policies(objects: &Objects, round: &Round) -> impl Iterator<Item = (String, PolicyGauges)> {
    let mut all: BTreeMap<String, PolicyGauges> = BTreeMap::new();
    for (name, status) in &round.policies {
        let conditions = status.conditions.iter();
        let conditions = conditions.map(|c| [c.type_.clone(), c.status.clone(), c.reason.clone()]).collect();
        let info = objects
            .policies
            .get(&name.0)
            .map(|policy| (policy.spec.mode.name().to_owned(), policy.spec.layout.type_.name().to_owned()));
        let mine = round.planned.policy_of.iter().filter(|(_, owner)| *owner == name);
        let nodes = mine.filter_map(|(node, _)| round.planned.view.inventory.nodes.get(node));
        let report = round.planned.report.policies.iter().find(|report| report.policy == *name);
        let policy = round.planned.view.policies.iter().find(|policy| policy.name == *name);
        let gauges = PolicyGauges {
            conditions,
            info,
            nodes: BTreeMap::new(),
            floors: policy.map(|policy| floors(policy, report)).unwrap_or_default(),
            fragmentation: fragmentation(nodes),
        };
        all.insert(name.0.clone(), gauges);
    }
    for (node, policy) in &round.planned.policy_of {
        let Some(gauges) = all.get_mut(&policy.0) else { continue };
        let phase = round.nodes.get(node).map_or(Phase::Idle, |node| node.advance.progress.phase);
        *gauges.nodes.entry(phase.name().to_owned()).or_default() += 1;
    }
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use planner::inventory::{ChangeScope, CountedSlice, Gpu, Room, Slices};
    use planner::names::{GpuIndex, PodRef};
    use planner::report::Why;

    use super::*;

    fn node(gpus: &[&[(&str, bool)]]) -> Node {
        let model = mig::Catalog::builtin().get("A100-80GB").expect("known");
        let slice = |(profile, held): &(&str, bool)| CountedSlice {
            profile: profile.parse().expect("a profile"),
            used: match held {
                true => Use::InUse { by: PodRef { namespace: "a".to_owned(), name: "p".to_owned() } },
                false => Use::Idle,
            },
        };
        let gpu = |slices: &&[(&str, bool)]| Gpu {
            model: model.id.clone(),
            geometry: Arc::clone(&model.geometry),
            slices: Slices::Counted(slices.iter().map(slice).collect()),
            hold: None,
        };
        Node {
            labels: BTreeMap::new(),
            single_strategy: false,
            shared: BTreeMap::new(),
            whole_held: 0,
            whole_shared: None,
            taints: Vec::new(),
            room: Room::ZERO,
            other_resources: BTreeMap::new(),
            scope: ChangeScope::IdleGpus,
            hold: None,
            schedulable: true,
            allocated: BTreeMap::new(),
            held: BTreeMap::new(),
            gpus: gpus
                .iter()
                .enumerate()
                .map(|(i, g)| (GpuIndex(u16::try_from(i).expect("few")), gpu(g)))
                .collect(),
        }
    }

    #[test]
    fn what_is_left_beside_a_held_slice_is_in_pieces() {
        // Of the first GPU four of seven are left, and all seven of the second.
        let nodes = node(&[&[("3g.40gb", true), ("1g.10gb", false)], &[("7g.80gb", false)]]);
        assert_eq!(fragmentation([&nodes].into_iter()), Some(4.0 / 11.0));
        assert_eq!(fragmentation([&node(&[&[("7g.80gb", true)]])].into_iter()), None);
        assert_eq!(fragmentation([&node(&[&[("1g.10gb", false)]])].into_iter()), Some(0.0));
    }

    fn request(name: &str, profiles: &[&str], since: i64) -> Request {
        Request {
            id: RequestId {
                kind: "Pod".to_owned(),
                namespace: "a".to_owned(),
                name: name.to_owned(),
                ordinal: 0,
            },
            slices: profiles.iter().map(|p| (p.parse().expect("a profile"), 1)).collect(),
            whole_gpus: 0,
            shared: BTreeMap::new(),
            priority: 0,
            since: jiff::Timestamp::from_second(since).expect("a moment"),
            namespace_labels: BTreeMap::new(),
            constraints: planner::demand::Constraints::default(),
            takes: Room::NOTHING,
            evidence: planner::demand::Evidence::PendingPod,
            blocked_elsewhere: None,
            promised: None,
            finds: None,
            keeps_apart: BTreeMap::new(),
            together: planner::demand::Together::default(),
            refused: None,
        }
    }

    #[test]
    fn who_waits_is_counted_by_profile_and_reason_with_the_time_of_the_oldest() {
        let requests = [
            request("p", &["1g.10gb"], 300),
            request("q", &["1g.10gb", "3g.40gb"], 100),
            request("r", &["1g.10gb"], 50),
        ];
        let report = |of: &Request, why: Option<Why>| RequestReport {
            id: of.id.clone(),
            policy: Some(planner::names::PolicyName("research".to_owned())),
            outcome: match why {
                Some(why) => Outcome::Unserved { why, help: Vec::new() },
                None => {
                    Outcome::ServedNow { node: planner::names::NodeName("n".to_owned()), gpus: Vec::new() }
                }
            },
            broken: None,
        };
        let reports = [
            report(&requests[0], Some(Why::AllUsed)),
            report(&requests[1], Some(Why::AllUsed)),
            report(&requests[2], None),
        ];
        let at = |second| jiff::Timestamp::from_second(second).expect("a moment");
        let labels = |profile: &str| ["research", profile, "AllUsed"].map(str::to_owned);
        assert_eq!(
            unserved(&requests, &reports),
            BTreeMap::from([
                (labels("1g.10gb"), Waiting { requests: 2, since: at(100) }),
                (labels("3g.40gb"), Waiting { requests: 1, since: at(100) }),
            ])
        );
    }

    #[test]
    fn drift_is_shown_by_queue_flavor_and_profile_and_what_people_misspell_is_one_label() {
        let not_covered = |resource: String| Drift {
            queue: "default".to_owned(),
            flavor: None,
            resource,
            what: observe::quota::What::NotCovered {
                workloads: vec![("team-a".to_owned(), "lab".to_owned())],
                profiles: Vec::new(),
                is_counted: true,
            },
        };
        let mut drifts: Vec<Drift> =
            (10..110).map(|n| not_covered(format!("nvidia.com/mig-1g.{n}00gb"))).collect();
        drifts.push(not_covered("nvidia.com/mig-3g.40gb".to_owned()));
        drifts.push(Drift {
            flavor: Some("nvidia-gpu-flavor".to_owned()),
            resource: "nvidia.com/gpu".to_owned(),
            what: observe::quota::What::LessThanHeld { quota: 8, borrowable: 0, held: 11 },
            ..not_covered(String::new())
        });
        let labels =
            |flavor: &str, profile: &str, kind: &str| ["default", flavor, profile, kind].map(str::to_owned);
        let expected = [
            (labels("", "3g.40gb", "not_covered"), 1),
            (labels("", "other", "not_covered"), 100),
            (labels("nvidia-gpu-flavor", "gpu", "less_than_held"), 3),
        ];
        assert_eq!(quota_drift(&drifts), BTreeMap::from(expected));
    }

    #[test]
    fn whatever_people_spell_is_one_label() {
        let many = (10..110).map(|n| format!("1g.{n}00gb"));
        let requests: Vec<Request> = many.map(|profile| request("p", &[&profile], 0)).collect();
        assert_eq!(pending(&requests), BTreeMap::from([("other".to_owned(), 100)]));
        assert_eq!(pending(&[request("p", &["1g.10gb"], 0)]), BTreeMap::from([("1g.10gb".to_owned(), 1)]));
    }

    #[test]
    fn a_floor_misses_what_is_not_there() {
        let policy = |min| Policy {
            name: planner::names::PolicyName("research".to_owned()),
            nodes: Vec::new(),
            priority: 0,
            mode: planner::policy::Mode::Enforce,
            layout: LayoutPolicy::DemandDriven {
                namespaces: Vec::new(),
                slices: BTreeMap::from([(
                    "1g.10gb".parse().expect("a profile"),
                    planner::policy::Bounds { min, spare: 1, max: None },
                )]),
                unrequested: planner::policy::Unrequested::Keep,
                order: planner::policy::Order::MostServed,
                shares: Vec::new(),
                whole_gpus: None,
            },
            drain: planner::policy::Drain::Never,
        };
        let supply = planner::report::Supply { present: 3, ..Default::default() };
        let report = PolicyReport {
            policy: planner::names::PolicyName("research".to_owned()),
            nodes: Vec::new(),
            lost: Vec::new(),
            supply: BTreeMap::from([("1g.10gb".parse().expect("a profile"), supply)]),
            unmet: Vec::new(),
            whole_gpus: None,
            seats: BTreeMap::new(),
            static_missed: Vec::new(),
            unknown_profiles: Vec::new(),
        };
        let profile = || "1g.10gb".to_owned();
        assert_eq!(floors(&policy(4), Some(&report)), [(profile(), 4, 1)]);
        assert_eq!(floors(&policy(2), Some(&report)), [(profile(), 2, 0)]);
        assert_eq!(floors(&policy(2), None), [(profile(), 2, 2)]);
        assert_eq!(floors(&policy(0), Some(&report)), []);
    }
}
