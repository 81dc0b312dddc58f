//! Looks for the admission policy of the agents before a round acts upon what one of them reported, and while it is
//! missing once in a while.

use super::Operator;
use crate::agents_policy;
use crate::class::chain;
use crate::clock;

impl Operator {
    fn agents_report(&self) -> bool {
        let mut statuses = self.store.objects.gpu_nodes.values().filter_map(|node| node.status.as_ref());
        statuses.any(|status| status.agent.is_some())
    }

    /// Whether reports of agents are there and are not acted upon.
    pub(super) fn waits_for_agents_policy(&self) -> bool {
        self.guard.why_not.is_some() && self.agents_report()
    }

    /// Looks for it, if that is due. At rest nothing is acted upon, so that nobody looks.
    pub(super) async fn look_for_agents_policy(&mut self) {
        let now = clock::instant();
        let is_due = self.guard.due().is_none_or(|at| now >= at);
        let is_used = self.batch.since().is_some() || self.guard.why_not.is_some();
        if self.claim.holds() && is_used && is_due && self.agents_report() {
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
