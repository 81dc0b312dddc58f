//! Publish: the records of nodes, the conditions of policies, and the messages to users. Only changes are
//! written.

use api::gpu_node::GpuNodeSpec;
use api::{GpuNode, GpuPartitionPolicyStatus, condition};
use reconcile::{Round, discreet, remembered};
use rollout::Progress;

use crate::entry::Who;
use crate::world::World;

/// Stores the progress of a node's rollout.
pub(crate) fn store(world: &mut World, name: &str, next: &Progress) {
    let World { gpu_nodes, revision, now, .. } = world;
    if gpu_nodes.get(name).is_none() {
        gpu_nodes.put(GpuNode::new(name, GpuNodeSpec::default()), *now, revision);
    }
    gpu_nodes.edit(name, revision, |node| {
        let status = node.status.get_or_insert_default();
        status.rollout = Some(remembered::write(next, status.rollout.as_ref()));
    });
}

/// What is known of nodes, the statuses of policies, and sentences for people.
pub(crate) fn publish(world: &mut World, round: &Round) {
    let World { gpu_nodes, revision, now, .. } = world;
    for (name, wanted) in &round.gpu_nodes {
        if gpu_nodes.get(&name.0).is_none() {
            gpu_nodes.put(GpuNode::new(&name.0, GpuNodeSpec::default()), *now, revision);
        }
        gpu_nodes.edit(&name.0, revision, |node| {
            node.spec = wanted.spec.clone();
            node.status = Some(wanted.status.clone());
        });
    }
    for (policy, status) in &round.policies {
        write_status(world, &policy.0, status);
    }
    for answer in &round.answers {
        let (namespace, name) = (&answer.id.namespace, &answer.id.name);
        // As the operator tells it unless it is told otherwise: others' pods are counted, and not named.
        let text = discreet::for_those_of(namespace, &answer.text, |node| world.nodes.get(node).is_some());
        world.tell(&format!("{namespace}/{name}"), &answer.gist, &text);
    }
    for problem in &round.planned.view.problems {
        if let Some(name) = problem.object.strip_prefix("HardwareProfile ") {
            let name = name.to_owned();
            world.tell(&name, &problem.message, &problem.message);
        }
    }
}

fn write_status(world: &mut World, policy: &str, status: &GpuPartitionPolicyStatus) {
    let World { policies, revision, .. } = world;
    let Some(object) = policies.get(policy) else { return };
    let before = lines_of(object);
    let reviewed = object.status.as_ref().and_then(|status| status.review.as_ref());
    let moved =
        reconcile::review::turned(reviewed, status.review.as_ref()).map(|review| review.message.clone());
    policies.edit(policy, revision, |policy| policy.status = Some(status.clone()));
    // The message of a condition moves with every step; news is another
    // status or reason.
    let after = world.policies.get(policy).map(lines_of).unwrap_or_default();
    for (what, line) in after.iter().filter(|(what, _)| !before.iter().any(|(b, _)| b == what)) {
        world.tell(policy, what, line);
    }
    if let Some(message) = moved {
        let text = format!("ReviewMoved: {message}");
        world.tell(policy, &text, &text);
    }
}

/// The conditions that people look at: `Ready=False (Waiting)`, and the same
/// with its message.
fn lines_of(policy: &api::GpuPartitionPolicy) -> Vec<(String, String)> {
    let conditions = policy.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let shown = conditions.iter().filter(|c| {
        c.type_ != condition::kind::RECONCILING
            && !(c.type_ == condition::kind::PLANNED && c.status == "True")
    });
    let line = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        let what = format!("{}={} ({})", c.type_, c.status, c.reason);
        (what.clone(), format!("{what}: {}", c.message))
    };
    shown.map(line).collect()
}

impl World {
    /// Tells somebody something, once: what has the gist of what was said
    /// last is not said again.
    pub(crate) fn tell(&mut self, who: &str, gist: &str, text: &str) {
        if text.is_empty() || self.gists.get(who).is_some_and(|last| last == gist) {
            return;
        }
        self.gists.insert(who.to_owned(), gist.to_owned());
        self.told.push((who.to_owned(), text.to_owned()));
        self.say(Who::Tells(who.to_owned()), text);
    }
}
