//! Looks for the admission policy of the agents before a round acts upon what one of them reported, and while it is
//! missing once in a while.

use super::Operator;
use crate::agents_policy;
use crate::class::chain;
use crate::clock;

impl Operator {
    /// Looks for it, if that is due.
    pub(super) async fn look_for_agents_policy(&mut self) {
        let now = clock::instant();
        let is_to_look = self.guard.is_to_look(self.batch.since().is_some(), now);
        if self.claim.holds() && is_to_look && self.store.objects.agents_report() {
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
