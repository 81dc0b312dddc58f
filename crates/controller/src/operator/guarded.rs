//! Looks for the admission policy of the agents before a round acts upon what one of them reported, and while it is
//! missing once in a while.

use api::GpuNode;

use super::Operator;
use crate::agents_policy;
use crate::class::chain;
use crate::clock;

fn has_report(node: &GpuNode) -> bool {
    node.status.as_ref().is_some_and(|status| status.agent.is_some())
}

impl Operator {
    /// Whether reports of agents are there and are not acted upon.
    pub(super) fn waits_for_agents_policy(&self) -> bool {
        self.guard.why_not.is_some() && self.store.objects.gpu_nodes.values().any(|node| has_report(node))
    }

    /// Looks for it, if that is due. At rest nothing is acted upon, so that nobody looks.
    pub(super) async fn look_for_agents_policy(&mut self) {
        let now = clock::instant();
        let is_due = self.guard.due().is_none_or(|at| now >= at);
        let is_used = self.batch.since().is_some() || self.guard.why_not.is_some();
        let reports = self.store.objects.gpu_nodes.values().any(|node| has_report(node));
        if self.claim.holds() && reports && is_used && is_due {
            let answer = agents_policy::why_not(&self.calls).await;
            if let Err(error) = &answer {
                tracing::warn!(error = chain(error), "the admission policy of the agents cannot be read");
            }
            if self.guard.take(answer, now) {
                match &self.guard.why_not {
                    Some(why) => tracing::warn!(why, "reports of node agents are not acted upon"),
                    None => tracing::info!(
                        "the admission policy of the agents is there: their reports are acted upon"
                    ),
                }
                self.touch();
            }
        }
        self.store.objects.unguarded_agents.clone_from(&self.guard.why_not);
    }
}
