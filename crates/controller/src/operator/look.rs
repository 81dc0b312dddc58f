//! Reads an object again from the API server, instead of relying on the watches.
//!
//! A watch can stop without an error: the connection is open, and nothing arrives for minutes. According to
//! its last state, a node whose change was completed long ago looks late. So before a node is considered
//! late or wrong, and after a write that shows that our state is outdated, the node is read with a
//! consistent read.

use std::collections::BTreeSet;

use planner::names::NodeName;
use reconcile::Round;

use super::Operator;
use super::subject::node_subject;
use crate::calls::CallError;
use crate::clock;
use crate::store::Source;
use crate::store::history::Read;

/// How often in a row a round is repeated after reading again. A node that
/// changes under every look is judged by the last one, which is fresh.
pub(super) const MOST_LOOKS: usize = 3;

/// What came of looking.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Whether anything differs from what the watches showed.
    pub(super) is_news: bool,
    /// Nodes that could not be looked at: nothing is held against them.
    pub(super) unseen: BTreeSet<NodeName>,
    /// How many reads failed.
    pub(super) failures: usize,
}

/// Nodes of which this round says that something did not come, or came wrong.
pub(super) fn suspects(round: &Round) -> Vec<NodeName> {
    let suspects =
        round.nodes.iter().filter(|(_, node)| node.advance.progress.finds_fault_after(&node.before));
    suspects.map(|(name, _)| name.clone()).collect()
}

/// Takes nodes out of a round: nothing is stored of them, done to them, or
/// said of them and their policies.
pub(super) fn leave_out(round: &mut Round, unseen: &BTreeSet<NodeName>) {
    for name in unseen {
        round.nodes.remove(name);
        round.gpu_nodes.remove(name);
        if let Some(policy) = round.planned.policy_of.get(name) {
            round.policies.remove(policy);
        }
    }
}

impl Operator {
    /// Reads nodes and their pods, and takes in what is there. After one that
    /// cannot be read the others have to wait for the next round: an API server
    /// that does not answer is not asked a hundred times in a row.
    pub(super) async fn look_at(&mut self, nodes: Vec<NodeName>) -> Looked {
        let mut looked = Looked::default();
        for name in nodes {
            let what = node_subject(&name);
            if looked.failures > 0 || !self.retries.may_try(&what, clock::instant()) {
                looked.unseen.insert(name);
                continue;
            }
            match self.look_at_one(&name).await {
                Ok(is_news) => looked.is_news |= is_news,
                Err(error) => {
                    looked.failures += self.judge(&what, Err(error));
                    looked.unseen.insert(name);
                }
            }
        }
        looked
    }

    async fn look_at_one(&mut self, name: &NodeName) -> Result<bool, CallError> {
        let calls = std::sync::Arc::clone(&self.calls);
        let began = self.settings.clock.now();
        let node = name.0.clone();
        let before = [Source::Nodes, Source::Pods].map(|source| self.store.highest(&source));
        let (found, pods) =
            self.pump(async move { Ok((calls.node(&node).await?, calls.pods_of(&node).await?)) }).await?;
        let read = |version, highest_before| Read { version, highest_before };
        let mut is_news = self.store.take_node(&name.0, found.found, read(found.version, before[0]));
        is_news |= self.store.take_pods_of(&name.0, pods.found, read(pods.version, before[1]));
        self.notice();
        self.local.entry(name.clone()).or_default().listed = Some(began);
        Ok(is_news)
    }

    /// Looks at what was found to be not as we see it: a write of ours was
    /// refused as outdated, or was never seen.
    pub(super) async fn look_at_doubted(&mut self) {
        let outdated: Vec<NodeName> = std::mem::take(&mut self.outdated).into_iter().collect();
        if outdated.is_empty() {
            return;
        }
        let Looked { is_news, unseen, failures: _ } = Box::pin(self.look_at(outdated)).await;
        self.outdated.extend(unseen);
        if is_news {
            self.batch.touch(clock::instant());
        }
    }
}
