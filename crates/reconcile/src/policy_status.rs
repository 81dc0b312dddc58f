//! The status of a policy: the report's figures, and its conditions.

use std::collections::{BTreeMap, BTreeSet};

use api::GpuPartitionPolicyStatus;
use api::condition::{self, reason};
use api::foreign::kueue::VERSIONS;
use api::policy_status::{
    IdleHolder, IdleHolders, Level, NodeCounts, ProfileSupply, SeatSupply, Unserved, UnservedRequest,
};
use api::review::REVIEWED_PLAN;
use mig::ProfileName;
use observe::{ClusterView, Objects, Problem, Severity};
use planner::demand::Request;
use planner::inventory::{Gpu, Hold, Use};
use planner::names::{GpuIndex, NodeName, PolicyName, RequestId};
use planner::policy::{LayoutPolicy, Mode, Policy, StaticCut, rule_for};
use planner::report::{Outcome, PolicyReport, RequestReport, Why};
use rollout::{Advance, Outlook, StartBlocker};

use crate::answers::plural;
use crate::conditions::{About, conditions};
use crate::gpu_node::slices_in_words;
use crate::input::Input;
use crate::map::MapRound;
use crate::planned_round::PlannedRound;
use crate::plugin_map::PluginMapRound;
use crate::plugin_pointer;
use crate::policy_digest::policy_digest;
use crate::review::{Fingerprint, review};
use crate::why_name::{may_pass, why_name};

/// How many unserved requests a status shows; the CRD takes no more. Readers
/// see the oldest, and how many there are.
const MOST_REQUESTS: usize = 50;
/// How many profiles, and how many levels of the certificate, the CRD takes.
const MOST_PROFILES: usize = 64;
const MOST_LEVELS: usize = 32;

/// The status of every policy, as it should be. One whose `nodeSelector` is
/// empty was not planned with, and is told so.
pub(crate) fn statuses(
    input: &Input<'_>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
    map: &MapRound,
    plugin_map: &PluginMapRound,
) -> BTreeMap<PolicyName, GpuPartitionPolicyStatus> {
    let policy_digest = policy_digest(&input.objects.policies);
    let fingerprint = fingerprint(input, planned);
    let cluster = cluster(input, planned, map, plugin_map);
    planned
        .view
        .policies
        .iter()
        .filter_map(|policy| {
            let object = input.objects.policies.get(&policy.name.0)?;
            let generation = object.metadata.generation.unwrap_or(1);
            let report = planned.report.policies.iter().find(|r| r.policy == policy.name);
            let mut about = about(policy, report, input, planned, advances, &cluster);
            about.refused = refused(policy, input, planned);
            if about.refused.is_some() {
                about.left_alone.clear();
            }
            let mut conditions_now =
                object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
            for wanted in conditions(&about) {
                condition::set(&mut conditions_now, wanted, generation, input.now);
            }
            let status = GpuPartitionPolicyStatus {
                observed_generation: Some(generation),
                conditions: conditions_now,
                slices: report.map(|report| match &about.shared {
                    // Nodes that are shared have no slices to tell of.
                    Some(shared) if report.offers().next().is_none() => shared.clone(),
                    _ => in_one_line(report),
                }),
                supply: report.map(supply).unwrap_or_default(),
                seats: report.map(seats).unwrap_or_default(),
                unserved: Some(unserved(&about.requests, &planned.view.requests)),
                idle_holders: idle_holders(&policy.name, planned),
                nodes: Some(nodes(report, planned, advances)),
                policy_digest: Some(policy_digest.clone()),
                plan_digest: Some(planned.plan.digest()),
                review: fingerprint.as_ref().and_then(|found| review(object, found, input.now)),
                certificate: certificate(planned),
            };
            Some((policy.name.clone(), status))
        })
        .collect()
}

/// What a review is compared with, where anybody says that there was one.
fn fingerprint(input: &Input<'_>, planned: &PlannedRound) -> Option<Fingerprint> {
    let annotated = |policy: &api::GpuPartitionPolicy| {
        policy.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(REVIEWED_PLAN))
    };
    let policies = &input.objects.policies;
    let PlannedRound { view, policy_of, plan, report: _ } = planned;
    let ClusterView { inventory, requests, .. } = view;
    let any = policies.values().any(annotated);
    any.then(|| Fingerprint::new(plan, policies, policy_of, inventory, requests))
}

/// What is known about one policy.
fn about<'a>(
    policy: &'a Policy,
    report: Option<&'a PolicyReport>,
    input: &Input<'_>,
    planned: &'a PlannedRound,
    advances: &'a BTreeMap<NodeName, Advance>,
    cluster: &[(&'static str, String)],
) -> About<'a> {
    let mine = |node: &NodeName| planned.policy_of.get(node) == Some(&policy.name);
    let title = format!("GpuPartitionPolicy {}", policy.name);
    let found = |severity| {
        let mine = planned.view.problems.iter().filter(|p| p.object == title);
        mine.filter(move |p| p.severity == severity)
    };
    let in_words = |p: &Problem| match p.field.is_empty() {
        true => p.message.clone(),
        false => format!("{}: {}", p.field, p.message),
    };
    // Other warnings about a policy have a place of their own in its status.
    let about_nodes = |p: &&Problem| {
        let fields = ["spec.nodeSelector", "spec.sharing.rules"];
        fields.iter().any(|field| p.field.starts_with(field)) || p.field.ends_with("].indices")
    };
    let nodes = planned.view.inventory.nodes.iter().filter(|(name, _)| mine(name));
    let left_alone = nodes.filter_map(|(name, node)| match &node.hold {
        Some(hold @ Hold::NotEstablished { .. }) => {
            Some((reason::NOT_ESTABLISHED, format!("{name}: {hold}")))
        }
        Some(hold @ Hold::HandsOff { .. }) => {
            let help = "take the node out of the policy's nodeSelector";
            Some((reason::HANDS_OFF, format!("{name}: {hold}, so it is not changed; {help}")))
        }
        _ => None,
    });
    let cordoned = planned
        .view
        .inventory
        .nodes
        .iter()
        .filter(|(name, node)| mine(name) && matches!(node.hold, Some(Hold::Cordoned { .. })));
    About {
        policy,
        report,
        requests: planned
            .report
            .requests
            .iter()
            .filter(|r| r.policy.as_ref() == Some(&policy.name))
            .collect(),
        refused: None,
        errors: found(Severity::Error).map(in_words).collect(),
        warnings: found(Severity::Warning).filter(about_nodes).map(in_words).collect(),
        outlooks: advances
            .iter()
            .filter(|(node, advance)| mine(node) && advance.outlook != Outlook::Idle)
            .map(|(node, advance)| (node, &advance.outlook))
            .collect(),
        arrived: planned
            .view
            .inventory
            .nodes
            .iter()
            .filter(|(name, node)| mine(name) && node.hold == Some(Hold::Changing))
            .map(|(name, _)| name)
            .filter(|name| advances.get(*name).is_none_or(|advance| advance.outlook == Outlook::Idle))
            .collect(),
        missed: report.map(|report| missed(report, planned)).unwrap_or_default(),
        left_alone: left_alone.collect(),
        cordoned: cordoned.map(|(name, _)| name).collect(),
        shared: shared(policy, planned),
        now: input.now,
        cluster: cluster.iter().filter(|(reason, _)| concerns(policy, reason, input)).cloned().collect(),
    }
}

/// Whether something that is wrong with the cluster keeps a policy from being
/// carried out.
fn concerns(policy: &Policy, what: &str, input: &Input<'_>) -> bool {
    let spec = input.objects.policies.get(&policy.name.0).map(|object| &object.spec);
    let cuts = spec.is_none_or(|spec| spec.layout.type_ != api::policy::LayoutType::None);
    let shares = spec.is_some_and(|spec| spec.sharing.is_some());
    policy.mode == Mode::Enforce
        && match what {
            reason::MAP_NOT_OURS | reason::MAP_INVALID => cuts,
            reason::PLUGIN_MAP_NOT_OURS | reason::PLUGIN_MAP_INVALID => shares,
            _ => true,
        }
}

/// How the GPUs of a policy's nodes are shared, in words: `16 GPUs, each GPU is
/// shared by 4, as nvidia.com/gpu.shared`.
fn shared(policy: &Policy, planned: &PlannedRound) -> Option<String> {
    let mut gpus: BTreeMap<String, u64> = BTreeMap::new();
    for node in planned.view.nodes.values() {
        let Some((n, config)) = node.shared_gpus() else { continue };
        if node.shared.as_ref().is_some_and(|shared| shared.policy == policy.name && shared.wanted.is_some())
        {
            let all = gpus.entry(format!("{config}{}", config.isolation())).or_default();
            *all = all.saturating_add(n);
        }
    }
    let parts: Vec<String> = gpus
        .into_iter()
        .map(|(how, n)| format!("{}: {how}", plural(usize::try_from(n).unwrap_or(usize::MAX), "GPU")))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Why a policy cannot work at all, as `ClusterPolicy` is: its sharing does not
/// go with the MIG strategy, or it goes by demand for profiles, and none of its
/// nodes offers slices by profile.
fn refused(policy: &Policy, input: &Input<'_>, planned: &PlannedRound) -> Option<(&'static str, String)> {
    let by_demand = matches!(policy.layout, LayoutPolicy::DemandDriven { .. });
    let mine = planned.policy_of.iter().filter(|(_, owner)| **owner == policy.name);
    let mut nodes = mine.filter_map(|(name, _)| planned.view.nodes.get(name)).peekable();
    let any = nodes.peek().is_some();
    let none_by_profile = nodes.all(|node| node.strategy() != rollout::Strategy::Mixed);
    let sharing = observe::shared::policy(input.objects, mig::Catalog::builtin(), &policy.name.0);
    if let Some(why) = sharing.as_ref().and_then(observe::shared::SharingPolicy::refused) {
        return Some((reason::SHARING_REFUSED, format!("spec.sharing cannot be carried out: {why}")));
    }
    // Where each node's configuration says the strategy, it comes with the sharing.
    let comes = sharing.is_some_and(|sharing| sharing.brings_strategy());
    (by_demand && any && none_by_profile && !comes).then(|| {
        let why = observe::fleet::strategy_is_not_mixed(input.objects);
        (reason::STRATEGY_SINGLE, format!("spec.layout.type: DemandDriven cannot work, since {why}"))
    })
}

/// The GPUs of a static policy that keep another layout, and why: their node
/// may not change, or pods hold what would go.
fn missed(report: &PolicyReport, planned: &PlannedRound) -> Vec<(&'static str, String)> {
    let policy = planned.view.policies.iter().find(|policy| policy.name == report.policy);
    let why = |(name, index): &(NodeName, GpuIndex)| {
        let node = planned.view.inventory.nodes.get(name)?;
        if let Some(hold) = &node.hold {
            let reason = match hold {
                Hold::Changing => reason::CHANGING,
                _ => reason::WAITING,
            };
            return Some((reason, format!("{name}/gpu{index}: {hold}")));
        }
        let gpu = node.gpus.get(index)?;
        let holders = |gpus: &mut dyn Iterator<Item = &Gpu>| {
            let uses = gpus.flat_map(|gpu| gpu.slices.uses());
            let holders: BTreeSet<String> = uses.flat_map(Use::holders).map(ToString::to_string).collect();
            holders.into_iter().collect::<Vec<_>>().join(", ")
        };
        let (of_gpu, of_node) = (holders(&mut std::iter::once(gpu)), holders(&mut node.gpus.values()));
        let why = if switches_mig(policy, gpu, *index) && !of_node.is_empty() {
            format!(
                "MIG has to be switched there, which clears the node, and GPUs or slices of it are, or may be, held by {of_node}"
            )
        } else if of_gpu.is_empty() {
            "it cannot change now".to_owned()
        } else {
            format!("a slice that would be destroyed is, or may be, held by {of_gpu}")
        };
        Some((reason::WAITING, format!("{name}/gpu{index}: {why}")))
    };
    let mut missed: Vec<_> = report.static_missed.iter().filter_map(why).collect();
    // What waits is told before what is on its way.
    missed.sort_by_key(|(reason, _)| *reason == reason::CHANGING);
    missed
}

/// Whether a static layout wants another MIG mode of a GPU than it has.
fn switches_mig(policy: Option<&Policy>, gpu: &Gpu, index: GpuIndex) -> bool {
    let Some(LayoutPolicy::Static { gpus: rules }) = policy.map(|policy| &policy.layout) else {
        return false;
    };
    let rule = rule_for(rules, &gpu.model, index);
    rule.is_some_and(|rule| (rule.cut == StaticCut::MigOff) != gpu.slices.is_mig_off())
}

/// What keeps everything from going as it should: reason and sentence, the
/// worst first.
fn cluster(
    input: &Input<'_>,
    planned: &PlannedRound,
    map: &MapRound,
    plugin_map: &PluginMapRound,
) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if let Some(until) = input.obstacles.settling(input.now) {
        let hold = StartBlocker::Settling { until };
        all.push((reason::DATA_WENT_BACK, format!("{hold}. {}", hold.help(""))));
    }
    if planned.plan.checked().is_none() {
        let what = planned.plan.fatal().next().map(ToString::to_string).unwrap_or_default();
        all.push((
            reason::PLAN_REFUSED,
            format!(
                "the plan breaks a rule, which is a bug in Slicewright. Nothing is changed until it is fixed; please report it, with the policy and the nodes: {what}"
            ),
        ));
    }
    all.extend(queues_unread(input.objects).map(|sentence| (reason::QUEUES_UNREAD, sentence)));
    all.extend(agents_unguarded(input.objects).map(|sentence| (reason::AGENT_UNGUARDED, sentence)));
    all.extend(map.problem.clone().map(|problem| (reason::MAP_INVALID, problem)));
    all.extend(map_reference(input).map(|command| (reason::MAP_NOT_OURS, command)));
    let of_plugin_map = plugin_map.problem.clone().or_else(|| plugin_map.lost.clone());
    all.extend(of_plugin_map.map(|problem| (reason::PLUGIN_MAP_INVALID, problem)));
    let elsewhere = plugin_pointer::elsewhere(input, planned);
    all.extend(elsewhere.map(|elsewhere| (reason::PLUGIN_MAP_NOT_OURS, elsewhere.message(input.now))));
    all
}

/// That Kueue serves no version that is read here, and what becomes of its workloads.
fn queues_unread(objects: &Objects) -> Option<String> {
    let (kind, served) = objects.unread_queues.iter().next()?;
    let serves = match served.as_slice() {
        [] => "in no version".to_owned(),
        some => format!("as {}", some.join(", ")),
    };
    Some(format!(
        "{kind} is served {serves}, and {} are read here: the workloads of Kueue are not read. Nothing is planned for \
         them, no check is answered, and nodes with slices that were promised to them are left as they are. Install a \
         release of Slicewright that reads what is served",
        VERSIONS.join(" and ")
    ))
}

/// That reports of agents are not acted upon, and what to do about it.
fn agents_unguarded(objects: &Objects) -> Option<String> {
    let why = objects.unguarded_agents.as_ref()?;
    objects.agents_report().then(|| format!(
        "reports of node agents are not acted upon: {why}. Without the ValidatingAdmissionPolicy and the \
         ValidatingAdmissionPolicyBinding {}, the agent of one node could report for every other one. Nodes keep the \
         slices that they have, and nobody knows which of them are idle. {}",
        rollout::names::AGENTS_POLICY,
        StartBlocker::AgentUnguarded.help("")
    ))
}

/// The command that makes `ClusterPolicy` point to our map, when it does not.
fn map_reference(input: &Input<'_>) -> Option<String> {
    let (name, policy) = input.objects.cluster_policies.iter().next()?;
    let found = policy.spec.mig_manager.config.as_ref().map(|c| c.name.as_str()).unwrap_or_default();
    let ours = &input.settings.observe.map.name;
    if found == *ours || input.objects.gpu_cluster {
        return None;
    }
    let uses = if found.is_empty() { "no map of its own".to_owned() } else { format!("the map `{found}`") };
    let command = format!(
        "kubectl patch clusterpolicies.nvidia.com {name} --type merge -p '{{\"spec\":{{\"migManager\":{{\"config\":{{\"name\":\"{ours}\"}}}}}}}}'"
    );
    let what = format!("ClusterPolicy {name} uses {uses}, so no node can be changed");
    Some(match input.obstacles.map_pointer_rests_until.filter(|until| *until > input.now) {
        None => format!("{what}; run: {command}"),
        Some(until) => format!(
            "{what}: somebody has pointed it elsewhere since the operator pointed it to `{ours}`, and each time MIG manager restarts on every node, so the operator leaves it so until {until}; let whoever manages ClusterPolicy, such as a GitOps tool, name the map `{ours}`, or run: {command}"
        ),
    })
}

/// `12 x 1g.10gb (3 free), 3g.40gb`.
fn in_one_line(report: &PolicyReport) -> String {
    let present = report.offers().filter(|(_, supply)| supply.present > 0);
    let words: Vec<String> = present
        .map(|(what, supply)| {
            slices_in_words(what, supply.present, supply.present.saturating_sub(supply.allocated))
        })
        .take(MOST_PROFILES)
        .collect();
    if words.is_empty() { "no slice".to_owned() } else { words.join(", ") }
}

fn supply(report: &PolicyReport) -> Vec<ProfileSupply> {
    let figure = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    report
        .offers()
        .take(MOST_PROFILES)
        .map(|(what, supply)| {
            let planner::report::Supply { attainable, present, allocated, planned, requested, unserved } =
                supply;
            ProfileSupply {
                profile: what.to_string(),
                attainable: figure(attainable),
                present: figure(present),
                allocated: figure(allocated),
                free: figure(present.saturating_sub(allocated)),
                planned: figure(planned),
                requested: figure(requested),
                unserved: figure(unserved),
            }
        })
        .collect()
}

/// Supply and demand in seats: of GPUs that are not cut, and of slices that several pods share.
fn seats(report: &PolicyReport) -> Vec<SeatSupply> {
    let figure = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let all = report.seats.iter().take(MOST_PROFILES).map(|(offered, of)| {
        let planner::report::SeatSupply { devices, total, held, planned, requested, unserved } = of;
        SeatSupply {
            resource: offered.resource_name(),
            devices: figure(*devices),
            total: figure(*total),
            held: figure(*held),
            free: figure(of.free()),
            planned: figure(*planned),
            requested: figure(*requested),
            unserved: figure(*unserved),
        }
    });
    all.collect()
}

fn certificate(planned: &PlannedRound) -> Vec<Level> {
    let levels = planned.report.certificate.iter().take(MOST_LEVELS);
    levels.map(|l| Level { level: l.level.clone(), value: l.value, bound: l.bound }).collect()
}

fn unserved(reports: &[&RequestReport], requests: &[Request]) -> Unserved {
    let by_id: BTreeMap<&RequestId, &Request> = requests.iter().map(|r| (&r.id, r)).collect();
    let mut waiting: Vec<(&Request, &RequestReport, &Why)> = reports
        .iter()
        .filter_map(|report| match &report.outcome {
            Outcome::Unserved { why, .. } => Some((*by_id.get(&report.id)?, *report, why)),
            Outcome::ServedNow { .. } | Outcome::ServedByPlan { .. } => None,
        })
        .collect();
    waiting.sort_by_key(|(request, ..)| (request.since, request.id.clone()));
    let shown = waiting.iter().take(MOST_REQUESTS).map(|(request, report, why)| UnservedRequest {
        kind: request.id.kind.clone(),
        namespace: request.id.namespace.clone(),
        name: request.id.name.clone(),
        slices: slices(request),
        since: request.since,
        reason: why_name(why).to_owned(),
        message: report.outcome.to_string(),
    });
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let never = waiting.iter().filter(|(_, _, why)| !may_pass(why)).count();
    Unserved { total: count(waiting.len()), cannot_be_served: count(never), requests: shown.collect() }
}

/// The workbenches on nodes of this policy that hold slices and are idle.
fn idle_holders(policy: &PolicyName, planned: &PlannedRound) -> Option<IdleHolders> {
    let mine = |node: &NodeName| planned.policy_of.get(node) == Some(policy);
    let all: Vec<_> = planned.view.idle.holders.iter().filter(|holder| mine(&holder.node)).collect();
    let shown = all.iter().take(MOST_REQUESTS).map(|holder| {
        let (namespace, name) = holder.notebook.clone();
        let slices = profiles(&holder.slices).join(", ");
        IdleHolder { namespace, name, node: holder.node.0.clone(), slices, last_activity: holder.since }
    });
    let shown =
        IdleHolders { total: i32::try_from(all.len()).unwrap_or(i32::MAX), workbenches: shown.collect() };
    (!all.is_empty()).then_some(shown)
}

/// `1 x 3g.40gb`, by profile.
fn profiles(slices: &BTreeMap<ProfileName, u32>) -> Vec<String> {
    slices.iter().map(|(profile, n)| format!("{n} x {profile}")).collect()
}

/// `1 x 3g.40gb, 2 x 1g.10gb`.
fn slices(request: &Request) -> String {
    let mut parts = profiles(&request.slices);
    if request.whole_gpus > 0 {
        parts.push(format!("{} x {}", request.whole_gpus, rollout::names::RESOURCE_GPU));
    }
    parts.extend(request.shared.iter().map(|(offered, n)| format!("{n} x {}", offered.resource_name())));
    if parts.is_empty() {
        // What it asks for would come from a hardware profile that is not there.
        return "not known".to_owned();
    }
    parts.join(", ")
}

/// What a node of a policy is doing, for its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Ready,
    Waiting,
    Changing,
    Held,
    Failed,
}

/// What a node is doing: first what the rollout says, then what the planner
/// leaves it alone for.
pub(crate) fn doing(name: &NodeName, planned: &PlannedRound, advance: Option<&Advance>) -> Doing {
    let held = || match planned.view.inventory.nodes.get(name).and_then(|node| node.hold.as_ref()) {
        None | Some(Hold::CoolingDown { .. } | Hold::NoPolicy) => None,
        Some(Hold::Changing) => Some(Doing::Changing),
        Some(Hold::Failed { .. }) => Some(Doing::Failed),
        Some(_) => Some(Doing::Held),
    };
    let has_step = planned.plan.steps.iter().any(|step| step.node == *name);
    match advance.map(|advance| &advance.outlook) {
        Some(Outlook::Failed(_)) => Doing::Failed,
        Some(Outlook::Working { .. }) => Doing::Changing,
        Some(Outlook::Holding(
            StartBlocker::NotEnforced
            | StartBlocker::Budget { .. }
            | StartBlocker::Window { .. }
            | StartBlocker::Cooldown { .. }
            | StartBlocker::BackedOff { .. }
            | StartBlocker::PodsInTheWay { .. }
            | StartBlocker::SharingUnknown
            | StartBlocker::PluginPodOfBefore { .. }
            | StartBlocker::GpusHeld { .. },
        )) => Doing::Waiting,
        Some(Outlook::Holding(_)) => Doing::Held,
        Some(Outlook::Idle) | None => match held() {
            Some(doing) => doing,
            None if has_step => Doing::Waiting,
            None => Doing::Ready,
        },
    }
}

fn nodes(
    report: Option<&PolicyReport>,
    planned: &PlannedRound,
    advances: &BTreeMap<NodeName, Advance>,
) -> NodeCounts {
    let mut counts = NodeCounts::default();
    for name in report.iter().flat_map(|report| &report.nodes) {
        counts.total += 1;
        match doing(name, planned, advances.get(name)) {
            Doing::Ready => counts.ready += 1,
            Doing::Waiting => counts.waiting += 1,
            Doing::Changing => counts.changing += 1,
            Doing::Held => counts.held += 1,
            Doing::Failed => counts.failed += 1,
        }
    }
    counts
}
