//! The workbenches that hold slices although nobody has used them for a while. Only culling tells (with it
//! off, OpenShift AI writes no last activity), and it looks at kernels and terminals, not at the GPU: what
//! it calls idle is worth a question to its user, and nothing is taken for it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use mig::ProfileName;
use planner::names::NodeName;

use crate::in_step::InStep;
use crate::objects::{Key, Objects};
use crate::pods::{self, Life};
use crate::requests::{Briefs, Speakers};

/// How long after its last activity a workbench counts as idle. The store keeps
/// the hour of that activity, so two hours make sure of one.
pub const IDLE_AFTER: SignedDuration = SignedDuration::from_hours(2);

/// A workbench that holds slices, and has been idle for at least an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleHolder {
    /// The workbench.
    pub notebook: Key,
    /// The node of its pod.
    pub node: NodeName,
    /// The slices that its pod holds.
    pub slices: BTreeMap<ProfileName, u32>,
    /// Its last activity.
    pub since: Timestamp,
}

/// The idle holders, and when the next one becomes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleHolders {
    /// The longest idle first.
    pub holders: Vec<IdleHolder>,
    /// When the next of those that are at work would count as idle.
    pub next: Option<Timestamp>,
}

/// Who is idle now.
pub(crate) fn idle_holders(
    objects: &Objects,
    briefs: &Briefs,
    speakers: &Speakers,
    now: Timestamp,
) -> IdleHolders {
    let mut found = IdleHolders::default();
    let used = briefs.workbenches(objects).filter_map(|(key, _, brief)| Some((key, brief.last_activity?)));
    // Both are in the order of namespace and name.
    let mut used = InStep::new(used);
    for (root, pod) in speakers.of_workbenches() {
        let Some(spec) = &pod.spec else { continue };
        let Some(node) = spec.node_name.as_ref().filter(|name| !name.is_empty()) else { continue };
        if pods::life(pod) == Life::Ended {
            continue;
        }
        let found_at =
            |((namespace, name), _): &(&Key, _)| (namespace, name).cmp(&(&root.namespace, &root.name));
        let Some((key, since)) = used.find(found_at).copied() else { continue };
        // What somebody else wrote may be a day that never comes.
        let Ok(due) = since.checked_add(IDLE_AFTER) else { continue };
        // Of many that are at work only the first to become idle is looked at closely.
        if due > now && found.next.is_some_and(|next| next <= due) {
            continue;
        }
        let slices = pods::takes(spec).slices;
        if slices.is_empty() {
            continue;
        }
        if due <= now {
            found.holders.push(IdleHolder {
                notebook: key.clone(),
                node: NodeName(node.clone()),
                slices,
                since,
            });
        } else {
            found.next = Some(found.next.map_or(due, |next| next.min(due)));
        }
    }
    found.holders.sort_by(|a, b| (a.since, &a.notebook).cmp(&(b.since, &b.notebook)));
    found
}
