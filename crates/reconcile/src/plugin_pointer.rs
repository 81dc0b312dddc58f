//! Who points `ClusterPolicy` to our map of the device plugin's configurations, and when. The device plugin and GPU
//! feature discovery start anew by that on every GPU node, so it is done for a policy that shares GPUs and in one of
//! its windows, or by a person.

use jiff::Timestamp;
use planner::names::PolicyName;
use planner::policy::{Mode, Policy};
use rollout::window;

use crate::input::{Input, RefusedWrite};
use crate::planned_round::PlannedRound;

/// A write to `ClusterPolicy` that is due: its `spec.devicePlugin.config` is to name our map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repoint {
    /// Which `ClusterPolicy`.
    pub cluster_policy: String,
    /// Its resource version, which the write carries.
    pub if_version: String,
    /// The map that it is to name.
    pub map: String,
}

/// A `ClusterPolicy` that points the device plugin elsewhere than to our map, which is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    cluster_policy: String,
    version: String,
    /// What it names now; empty: nothing.
    named: String,
    ours: String,
    by: By,
    /// The API server refuses the write to us.
    refused: Option<RefusedWrite>,
    /// Somebody has undone ours: it is not done again before.
    rests_until: Option<Timestamp>,
}

/// Who changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A person: the flag is not set, or no policy in force shares GPUs.
    APerson,
    /// We do, at this moment; none if no window will ever open.
    Us { at: Option<Timestamp> },
}

/// Where `ClusterPolicy` points the device plugin, as long as that is not our map. None where our map is not there yet:
/// a plugin whose map is missing does not start.
pub(crate) fn elsewhere(input: &Input<'_>, planned: &PlannedRound) -> Option<Elsewhere> {
    let (name, policy) = input.objects.cluster_policies.iter().next()?;
    let ours = input.settings.observe.plugin_map();
    let named = policy.spec.device_plugin.config.as_ref().map(|c| c.name.clone()).unwrap_or_default();
    if named == ours.name || input.objects.gpu_cluster || !input.objects.config_maps.contains_key(&ours.key())
    {
        return None;
    }
    let by = if input.settings.points_device_plugin { by(planned, input.now) } else { By::APerson };
    let version = policy.metadata.resource_version.clone().unwrap_or_default();
    let refused = input.obstacles.plugin_pointer.clone();
    let rests_until = input.obstacles.pointer_rests_until.filter(|until| *until > input.now);
    Some(Elsewhere {
        cluster_policy: name.clone(),
        version,
        named,
        ours: ours.name,
        by,
        refused,
        rests_until,
    })
}

/// The policies in force that share GPUs of a node.
pub(crate) fn who_shares(planned: &PlannedRound) -> impl Iterator<Item = &Policy> {
    let shares = |name: &PolicyName| {
        let mut nodes = planned.view.nodes.values().filter_map(|node| node.shared.as_ref());
        nodes.any(|shared| shared.policy == *name)
    };
    let in_force = planned.view.policies.iter().filter(|policy| policy.mode == Mode::Enforce);
    in_force.filter(move |policy| shares(&policy.name))
}

/// Whose windows count: those of policies in force that share GPUs, and of no others.
fn by(planned: &PlannedRound, now: Timestamp) -> By {
    let mut windows = who_shares(planned)
        .filter_map(|policy| planned.view.rollouts.get(&policy.name))
        .map(|rollout| window::next_open(&rollout.rules.windows, now))
        .peekable();
    if windows.peek().is_none() {
        return By::APerson;
    }
    By::Us { at: windows.flatten().min() }
}

impl Elsewhere {
    /// The write, if it is due now.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Repoint> {
        let is_due = matches!(self.by, By::Us { at: Some(at) } if at <= now) && self.rests_until.is_none();
        is_due.then(|| Repoint {
            cluster_policy: self.cluster_policy.clone(),
            if_version: self.version.clone(),
            map: self.ours.clone(),
        })
    }

    /// What people are told, before it is done.
    pub(crate) fn message(&self, now: Timestamp) -> String {
        let Self { cluster_policy, version: _, named, ours, by, refused, rests_until } = self;
        let uses = if named.is_empty() { "no map".to_owned() } else { format!("the map `{named}`") };
        let what = format!(
            "ClusterPolicy {cluster_policy} points the device plugin to {uses}, so no GPU can be shared; the map `{ours}` is there, with the administrators' keys"
        );
        let restarts = "device plugin and GPU feature discovery";
        let command = format!(
            "kubectl patch clusterpolicies.nvidia.com {cluster_policy} --type merge -p '{{\"spec\":{{\"devicePlugin\":{{\"config\":{{\"name\":\"{ours}\"}}}}}}}}'"
        );
        if let (By::Us { at: Some(at) }, Some(RefusedWrite { write, words })) = (by, refused)
            && *at <= now
        {
            return format!(
                "{what}: the API server refuses to let the operator {write}: {words}; allow it there, and the operator does it at its next try, in a window, or run: {command}"
            );
        }
        if let (By::Us { at: Some(_) }, Some(until)) = (by, rests_until) {
            return format!(
                "{what}: somebody has pointed it elsewhere since the operator pointed it there, and each time the {restarts} restart on every GPU node, so the operator leaves it so until {until}; let whoever manages ClusterPolicy, such as a GitOps tool, name the map `{ours}`, or run: {command}"
            );
        }
        match by {
            By::APerson => format!(
                "{what}: run, at a time when the {restarts} may restart on every GPU node (pods that run keep their GPUs): {command}"
            ),
            By::Us { at: Some(at) } => {
                let when =
                    if *at <= now { "now".to_owned() } else { format!("at {at}, when a window opens") };
                format!(
                    "{what}: the operator points it there {when}, and the {restarts} restart on every GPU node (pods that run keep their GPUs)"
                )
            }
            By::Us { at: None } => format!(
                "{what}: no window of a policy that shares GPUs will open, so the operator does not point it there; change spec.rollout.windows, or run: {command}"
            ),
        }
    }
}
