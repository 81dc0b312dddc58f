//! Carries out the actions that are due, in order, and stops at the first failure. An action that requires
//! the lease is not begun without it: before each disruptive action, the holder of the lease is read from
//! the API server.
//!
//! Every write carries the version on which its decision was based, so that a late write fails. The
//! resulting version is recorded, so that nothing is decided before the watches show it.

pub mod map;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use planner::names::NodeName;
use rollout::Action;
use rollout::observed::Refusal;
use tokio_util::sync::CancellationToken;

use crate::calls::{CallError, Calls, Evicted, managers};
use crate::clock::Clock;
use crate::lease::{Claim, Lost};
use crate::metrics::{Metrics, Outcome};
use crate::store::Source;
use crate::store::awaited::Subject;
use crate::store::history::Consistent;

/// An action that was not done.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// The API server did not do it.
    #[error("{action} was not done")]
    Call {
        /// Which.
        action: &'static str,
        /// Why.
        #[source]
        source: CallError,
    },
    /// Another replica writes now.
    #[error("{action} was not done")]
    Lost {
        /// Which.
        action: &'static str,
        /// What is known of the lease.
        #[source]
        source: Lost,
    },
    /// We were told to stop.
    #[error("{action} was not done: the operator stops")]
    Stopping {
        /// Which.
        action: &'static str,
    },
    /// What it was decided on is of a history that is no more.
    #[error("{action} was not done: the API's data went back in time since it was decided")]
    WentBack {
        /// Which.
        action: &'static str,
    },
}

/// What came of the actions of one node.
#[derive(Debug, Default)]
pub struct Done {
    /// What the watches have to show before anything else is decided.
    pub awaited: Vec<Subject>,
    /// When a consistent list of the node's pods began, and what it showed.
    pub listed: Option<(Timestamp, Consistent<Vec<Pod>>)>,
    /// Evictions that were refused.
    pub refusals: Vec<Refusal>,
    /// The action at which we stopped.
    pub stopped: Option<ActionError>,
}

/// Who does actions.
#[derive(Clone)]
pub struct Executor {
    /// Calls to the API server.
    pub calls: Arc<Calls>,
    /// Whether we may.
    pub claim: Claim,
    /// By which lists are dated.
    pub clock: Clock,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Cancelled when we stop: the action that we are at is the last.
    pub stop: CancellationToken,
    /// Cancelled when the API's data went back in time: nothing is done any
    /// more on what was read before.
    pub went_back: CancellationToken,
}

impl Executor {
    /// Whether we may write now: the lease is ours, nobody told us to stop, and
    /// what we know is of the API's data as they are.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.claim.holds() && !self.stop.is_cancelled() && !self.went_back.is_cancelled()
    }

    /// Does the actions of a node in order, until one fails. An eviction that
    /// is refused is an answer. Entries of the map are written for all nodes
    /// together, before (see [`map`]).
    pub async fn apply(&self, node: &NodeName, actions: &[Action], done: &mut Done) {
        // Each write moves the version on which the next one was decided.
        let mut version: Option<String> = None;
        for action in actions {
            let outcome = self.one(node, action, &mut version, done).await;
            let label = match &outcome {
                Ok(()) => Outcome::Done,
                Err(ActionError::Call { source, .. }) => Outcome::Failed(source.class()),
                Err(ActionError::Lost { .. }) => Outcome::LeaseLost,
                Err(ActionError::Stopping { .. }) => Outcome::Stopping,
                Err(ActionError::WentBack { .. }) => Outcome::WentBack,
            };
            self.metrics.action(action.name(), label);
            if let Err(error) = outcome {
                done.stopped = Some(error);
                return;
            }
            tracing::info!(node = node.0, action = action.name(), "an action is done");
        }
    }

    async fn one(
        &self,
        node: &NodeName,
        action: &Action,
        version: &mut Option<String>,
        done: &mut Done,
    ) -> Result<(), ActionError> {
        let name = action.name();
        let call = |source| ActionError::Call { action: name, source };
        let lost = |source| ActionError::Lost { action: name, source };
        if self.stop.is_cancelled() {
            return Err(ActionError::Stopping { action: name });
        }
        if self.went_back.is_cancelled() {
            return Err(ActionError::WentBack { action: name });
        }
        if action.is_disruptive() {
            self.claim.confirm().await.map_err(lost)?;
        } else if !self.claim.holds() {
            return Err(lost(Lost::Gone));
        }
        match action {
            Action::ListPods => {
                // The list is as of a moment after this one.
                let began = self.clock.now();
                let pods = self.calls.pods_of(&node.0).await.map_err(call)?;
                done.listed = Some((began, pods));
                return Ok(());
            }
            Action::Evict { pod, if_uid } => {
                match self.calls.evict(&pod.namespace, &pod.name, if_uid).await.map_err(call)? {
                    Evicted::Going => done.awaited.push(Subject::Going {
                        key: (pod.namespace.clone(), pod.name.clone()),
                        uid: if_uid.clone(),
                    }),
                    Evicted::Gone => {}
                    Evicted::Refused(message) => done.refusals.push(Refusal { pod: pod.clone(), message }),
                }
                return Ok(());
            }
            Action::DeletePod { pod, if_uid } => {
                self.calls.delete_pod(&pod.namespace, &pod.name, if_uid).await.map_err(call)?;
                done.awaited.push(Subject::Going {
                    key: (pod.namespace.clone(), pod.name.clone()),
                    uid: if_uid.clone(),
                });
                return Ok(());
            }
            // Entries of the map are written for all nodes together; all others patch the node.
            _ => {}
        }
        let Some(patch) = action.node_patch() else { return Ok(()) };
        let if_version = version.as_deref().unwrap_or(patch.if_version);
        let written = self
            .calls
            .patch_node(&node.0, if_version, &managers::NODE, &patch.labels, patch.cordon)
            .await
            .map_err(call)?;
        if let Some(new) = written.metadata.resource_version {
            done.awaited.retain(|s| !matches!(s, Subject::Version { source: Source::Nodes, .. }));
            done.awaited.push(Subject::Version {
                source: Source::Nodes,
                key: (String::new(), node.0.clone()),
                version: new.clone(),
            });
            *version = Some(new);
        }
        Ok(())
    }
}
