//! The conditions of a policy: a projection of the report and of the outlooks,
//! in their words.

use std::collections::BTreeMap;

use api::condition::{Tri, Wanted, kind, reason};
use jiff::Timestamp;
use planner::names::NodeName;
use planner::policy::{Mode, Policy};
use planner::report::{Outcome, PolicyReport, RequestReport, Why};
use rollout::{Outlook, StartBlocker};

use crate::answers::{EXPECTED_BY, is_unserved, plural};

/// What is known about one policy.
pub struct About<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Its report; none when it was not planned with.
    pub report: Option<&'a PolicyReport>,
    /// The requests that it answers.
    pub requests: Vec<&'a RequestReport>,
    /// What is wrong with it, as far as it is its author's to repair.
    pub errors: Vec<String>,
    /// What its author should look at: in its `nodeSelector`, and in rules that
    /// match nothing. It does not keep the policy from being used.
    pub warnings: Vec<String>,
    /// What the cluster lacks for its layout: the MIG strategy, and the command
    /// that sets it. It is refused until then.
    pub refused: Option<(&'static str, String)>,
    /// How its nodes stand; nodes that rest are left out.
    pub outlooks: BTreeMap<&'a NodeName, &'a Outlook>,
    /// Its nodes that rest since a moment ago: what was planned in this round
    /// took them for nodes on their way, and the next round may find more to do.
    pub arrived: Vec<&'a NodeName>,
    /// Its GPUs that keep another layout than the one that is always wanted,
    /// and why: reason and sentence.
    pub missed: Vec<(&'static str, String)>,
    /// Its nodes that are left as they are, and why: reason and sentence.
    pub left_alone: Vec<(&'static str, String)>,
    /// How many GPUs of how many of its nodes are shared, in words; none where
    /// it shares none.
    pub shared: Option<String>,
    /// Its nodes that rest, and that somebody cordoned.
    pub cordoned: Vec<&'a NodeName>,
    /// The time.
    pub now: Timestamp,
    /// What keeps everything from going as it should, whatever the policy
    /// says: reason and sentence.
    pub cluster: Vec<(&'static str, String)>,
}

/// All conditions of a policy, in the order in which they are read.
#[must_use]
pub fn conditions(about: &About<'_>) -> Vec<Wanted> {
    let accepted = accepted(about);
    let valid = accepted.status == Tri::True;
    let planned = planned(about);
    let ready = match (accepted.reason, ready(about)) {
        // Nothing can be where nothing is accepted; what its nodes still do is told first.
        (reason::INVALID | reason::STRATEGY_SINGLE, _) => Wanted { kind: kind::READY, ..accepted.clone() },
        (_, ready) if accepted.status == Tri::False && ready.status == Tri::True => {
            Wanted { kind: kind::READY, ..accepted.clone() }
        }
        (_, ready) => ready,
    };
    let reconciling = match ready.reason {
        reason::CHANGING | reason::WAITING => Tri::True,
        _ => Tri::False,
    };
    let stuck = matches!(
        ready.reason,
        reason::ROLLOUT_FAILED
            | reason::FOREIGN_LAYOUT
            | reason::FOREIGN_SHARING
            | reason::PLUGIN_MAP_NOT_OURS
            | reason::SHARING_REFUSED
            | reason::MAP_NOT_OURS
            | reason::HANDS_OFF
            | reason::NO_CLUSTER_POLICY
            | reason::MANAGER_DISABLED
            | reason::LAYOUT_REFUSED
            | reason::RELEASED
            | reason::WRITE_REFUSED
            | reason::WRITE_UNDONE
    );
    let stalled = if valid { ready.clone() } else { accepted.clone() };
    // A policy that starts nothing is planned with nodes that may not change: what it lacks is no trouble.
    let paused = about.policy.mode.starts_nothing();
    let unmet = planned.reason == reason::BOUND_UNMET && !paused;
    let unmet = unmet.then(|| (planned.reason, planned.message.clone()));
    let degraded = about.cluster.iter().chain(&about.left_alone).chain(&unmet).next().cloned();
    vec![
        Wanted {
            kind: kind::RECONCILING,
            status: reconciling,
            reason: ready.reason,
            message: ready.message.clone(),
        },
        Wanted {
            kind: kind::STALLED,
            status: tri(stuck || !valid),
            reason: stalled.reason,
            message: stalled.message,
        },
        Wanted {
            kind: kind::DEGRADED,
            status: tri(degraded.is_some()),
            reason: degraded.as_ref().map_or(planned.reason, |(reason, _)| reason),
            message: degraded.map(|(_, message)| message).unwrap_or_default(),
        },
        accepted,
        planned,
        ready,
    ]
}

const fn tri(holds: bool) -> Tri {
    if holds { Tri::True } else { Tri::False }
}

fn accepted(about: &About<'_>) -> Wanted {
    let say = |status, reason, message| Wanted { kind: kind::ACCEPTED, status, reason, message };
    let warned = |message: String| {
        about.warnings.iter().fold(message, |message, warning| format!("{message}. Warning: {warning}"))
    };
    if let Some(error) = about.errors.first() {
        return say(Tri::False, reason::INVALID, error.clone());
    }
    let Some(report) = about.report else {
        return say(Tri::Unknown, reason::PENDING, "the operator has not seen it yet".to_owned());
    };
    if let Some((reason, refused)) = &about.refused {
        return say(Tri::False, reason, refused.clone());
    }
    if let Some(unknown) = report.unknown_profiles.iter().find(|u| u.everywhere) {
        let message =
            format!("no GPU of its nodes has {}: they are {}", unknown.profile, unknown.lacking.join(", "));
        return say(Tri::False, reason::UNKNOWN_PROFILE, message);
    }
    if report.nodes.is_empty() {
        return match report.lost.first() {
            Some((node, winner)) => {
                let message = format!(
                    "every node that it selects belongs to a policy of higher priority (or earlier name), such as {node} to {winner}"
                );
                say(Tri::False, reason::OVERRULED, message)
            }
            None => {
                let message = "its nodeSelector selects no node with GPUs".to_owned();
                say(Tri::False, reason::NO_NODES, warned(message))
            }
        };
    }
    let lost =
        report.lost.iter().map(|(node, winner)| format!("{node} belongs to {winner}")).collect::<Vec<_>>();
    let mut message = format!("it has {}", plural(report.nodes.len(), "node"));
    if !lost.is_empty() {
        message = format!("{message}; {}", lost.join(", "));
    }
    say(Tri::True, reason::VALID, warned(message))
}

/// What an administrator does about GPUs of which nobody knows what is idle.
const INSTALL_AGENT: &str = "A node agent knows which slices are idle. Where none reports from these nodes, the Helm chart \
    installs it with agent.enabled=true; under OLM, apply what `helm template slicewright charts/slicewright --set \
    agent.enabled=true --show-only templates/agent.yaml` renders (docs/guides/olm.md). Where one reports, it does not know yet \
    which slice a new pod got";

/// Whether an agent on its nodes could show that there are slices for it.
const fn lacks_agent(request: &RequestReport) -> bool {
    matches!(request.outcome, Outcome::Unserved { why: Why::IdlenessNotProvable { .. }, .. })
}

fn planned(about: &About<'_>) -> Wanted {
    let say = |status, reason, message| Wanted { kind: kind::PLANNED, status, reason, message };
    let unmet = about.report.and_then(|r| r.unmet.first());
    let unserved: Vec<_> = about.requests.iter().filter(|r| is_unserved(r)).collect();
    if let Some(bound) = unmet {
        let paused =
            if about.policy.mode.starts_nothing() { " while the policy changes nothing" } else { "" };
        let message =
            format!("{} wants {}, and {} can be reached{paused}", bound.field, bound.wanted, bound.reached);
        return say(Tri::False, reason::BOUND_UNMET, message);
    }
    if let Some(first) = unserved.first() {
        let message = format!(
            "{} not served; first {}: {}",
            plural(unserved.len(), "request"),
            first.id,
            first.outcome
        );
        // Under OLM nothing installs it: the bundle must not bring what is privileged.
        let message = match unserved.iter().any(|request| lacks_agent(request)) {
            true => format!("{message}. {INSTALL_AGENT}"),
            false => message,
        };
        return say(Tri::False, reason::DEMAND_UNSERVED, message);
    }
    say(Tri::True, reason::DEMAND_SERVED, "every request has its slices, or will get them".to_owned())
}

/// Whether a node does not go on before a human did something. That a device
/// plugin restarts, or a device is unhealthy ([`StartBlocker::NotAsVerified`],
/// [`StartBlocker::NotAsReported`]), is told on the node: mostly it passes, and a policy that stalls fails pipelines.
pub(crate) const fn waits_for_a_human(hold: &StartBlocker) -> bool {
    match hold {
        StartBlocker::ForeignLayout { .. }
        | StartBlocker::ForeignSharing { .. }
        | StartBlocker::PluginMapNotOurs
        | StartBlocker::SharingRefused { .. }
        | StartBlocker::HandsOff { .. }
        | StartBlocker::NoClusterPolicy
        | StartBlocker::ManagerDisabled
        | StartBlocker::MapNotOurs
        | StartBlocker::LayoutRefused(_)
        | StartBlocker::AgentAway
        | StartBlocker::AgentUnguarded
        | StartBlocker::AgentCannot { .. }
        | StartBlocker::HandingOver
        | StartBlocker::Released
        | StartBlocker::WriteRefused { .. }
        | StartBlocker::WriteUndone { .. } => true,
        StartBlocker::NotEnforced
        | StartBlocker::Budget { .. }
        | StartBlocker::Window { .. }
        | StartBlocker::Cooldown { .. }
        | StartBlocker::BackedOff { .. }
        | StartBlocker::PodsInTheWay { .. }
        | StartBlocker::SharingUnknown
        | StartBlocker::SharingMiscounted { .. }
        | StartBlocker::PluginPodOfBefore { .. }
        | StartBlocker::GpusHeld { .. }
        | StartBlocker::CordonedByOthers
        | StartBlocker::NotReady
        | StartBlocker::ForeignWork { .. }
        | StartBlocker::ManagerNotReady
        | StartBlocker::RunInProgress { .. }
        | StartBlocker::Settling { .. }
        | StartBlocker::HandingBack
        | StartBlocker::NotAsVerified { .. }
        | StartBlocker::NotAsReported { .. } => false,
    }
}

/// Nothing is left to do. Nodes that are left alone are named: nobody knows
/// whether they have a layout.
fn converged(about: &About<'_>) -> Wanted {
    let say = |status, reason, message| Wanted { kind: kind::READY, status, reason, message };
    let cordoned = about.cordoned.first().map(|first| {
        let n = plural(about.cordoned.len(), "node");
        format!("; somebody cordoned {n}, where no pod can be scheduled: {first}")
    });
    let cordoned = cordoned.unwrap_or_default();
    let Some((why, first)) = about.left_alone.first() else {
        let what = match &about.shared {
            Some(shared) => format!("every node is as the policy says: {shared}"),
            None => "every node has its layout".to_owned(),
        };
        return say(Tri::True, reason::CONVERGED, format!("{what}{cordoned}"));
    };
    let all = about.report.map_or(0, |report| report.nodes.len()).max(about.left_alone.len());
    let there = all - about.left_alone.len();
    let have = if all == 1 { "has its" } else { "have their" };
    let message = format!("{there} of {} {have} layout; {first}{cordoned}", plural(all, "node"));
    if there == 0 { say(Tri::False, why, message) } else { say(Tri::True, reason::CONVERGED, message) }
}

fn ready(about: &About<'_>) -> Wanted {
    let say = |status, reason, message| Wanted { kind: kind::READY, status, reason, message };
    for (node, outlook) in &about.outlooks {
        if let Outlook::Failed(failure) = outlook {
            let message = format!("{node}: {}. {}", failure.why, failure.help(&node.0));
            return say(Tri::False, reason::ROLLOUT_FAILED, message);
        }
    }
    for (node, outlook) in &about.outlooks {
        if let Outlook::Holding(hold @ StartBlocker::ForeignLayout { .. }) = outlook {
            let message = format!("{node}: {hold}. {}", hold.help(&node.0));
            return say(Tri::False, reason::FOREIGN_LAYOUT, message);
        }
    }
    for (node, outlook) in &about.outlooks {
        if let Outlook::Holding(hold) = outlook
            && waits_for_a_human(hold)
        {
            let at_cluster = about.cluster.iter().find(|(reason, _)| *reason == hold.reason().name);
            let message = at_cluster
                .map_or_else(|| format!("{node}: {hold}. {}", hold.help(&node.0)), |(_, m)| m.clone());
            return say(Tri::False, hold.reason().name, message);
        }
    }
    let working: Vec<String> = about
        .outlooks
        .iter()
        .filter_map(|(node, outlook)| match outlook {
            Outlook::Working { waits_for, until } if *until <= about.now => {
                Some(format!("{node} still waits for {waits_for}{EXPECTED_BY}{until}"))
            }
            Outlook::Working { waits_for, until: _ } => Some(format!("{node} waits for {waits_for}")),
            _ => None,
        })
        .collect();
    if let Some(first) = working.first() {
        return say(
            Tri::False,
            reason::CHANGING,
            format!("{} changing: {first}", plural(working.len(), "node")),
        );
    }
    if let Some(first) = about.arrived.first() {
        let message =
            format!("{} changing: {first} is checked once more", plural(about.arrived.len(), "node"));
        return say(Tri::False, reason::CHANGING, message);
    }
    let holding: Vec<String> = about
        .outlooks
        .iter()
        .filter_map(|(node, outlook)| match outlook {
            Outlook::Holding(hold) => Some(format!("{node}: {hold}")),
            _ => None,
        })
        .collect();
    let Some(first) = holding.first() else {
        if about.policy.mode == Mode::Paused {
            let message = "the policy is paused: nothing starts until its mode is Enforce".to_owned();
            return say(Tri::False, reason::PAUSED, message);
        }
        if let Some((reason, first)) = about.missed.first() {
            let message = format!("{} with another layout: {first}", plural(about.missed.len(), "GPU"));
            return say(Tri::False, reason, message);
        }
        return converged(about);
    };
    let (reason, what) = match about.policy.mode {
        Mode::Preview => (reason::PREVIEW, "would change; the policy only previews"),
        Mode::Paused => (reason::PAUSED, "would change; the policy is paused"),
        Mode::Invalid => (reason::INVALID, "would change; the policy is not valid"),
        Mode::Enforce => (reason::WAITING, "to change"),
    };
    let message = match about.policy.mode {
        Mode::Enforce => format!("{} {what}: {first}", plural(holding.len(), "node")),
        Mode::Preview | Mode::Paused | Mode::Invalid => format!("{} {what}", plural(holding.len(), "node")),
    };
    say(Tri::False, reason, message)
}
