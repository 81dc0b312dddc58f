//! The `GpuNode` of this node: the newest version that is known, and the agent's part of its status.

use agent::ObjectVersion;
use api::GpuNode;
use api::gpu_node::{GpuNodeStatus, Observed};
use api::node_agent::AgentStatus;
use controller::calls::{CallError, Calls, Target, managers};
use kube::Api;
use serde_json::{Map, Value, json};

/// The object, as this process knows it.
#[derive(Debug)]
pub struct Object {
    calls: Calls,
    name: String,
    latest: Option<GpuNode>,
    /// A list had an older version than is known.
    is_in_doubt: bool,
}

/// Why the status was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object changed meanwhile; it was read again.
    #[error("the GpuNode changed meanwhile")]
    Outdated,
    /// The API server did not do it.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Object {
    /// The object of the node with this name.
    #[must_use]
    pub fn new(calls: Calls, name: &str) -> Self {
        Self { calls, name: name.to_owned(), latest: None, is_in_doubt: false }
    }

    /// The newest that is known.
    #[must_use]
    pub const fn latest(&self) -> Option<&GpuNode> {
        self.latest.as_ref()
    }

    /// Whether the operator wants a change, which waits for what the agent sees.
    #[must_use]
    pub fn has_change(&self) -> bool {
        self.latest.as_ref().is_some_and(|node| node.spec.change.is_some())
    }

    /// Who else works on the driver, so that it has to stay closed. Not before what was begun has ended: only the
    /// agent can end it.
    #[must_use]
    pub fn driver_in_use_by(&self) -> Option<&str> {
        let spec = &self.latest.as_ref()?.spec;
        spec.driver_in_use_by.as_deref().filter(|_| spec.change.is_none())
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> Option<ObjectVersion> {
        self.latest.as_ref()?.metadata.resource_version.clone().map(ObjectVersion)
    }

    /// Takes what a watch says, unless it is older than what is known: our own
    /// write is answered before the watch tells of it. Says whether something
    /// changed that concerns the agent.
    pub fn offer(&mut self, node: GpuNode) -> bool {
        if let Some(known) = &self.latest
            && known.metadata.uid == node.metadata.uid
            && number(&node) <= number(known)
        {
            return false;
        }
        let before = self.latest.replace(node);
        let concern = |node: &GpuNode| {
            let status = node.status.clone().unwrap_or_default();
            let observed =
                status.observed.map(|observed| Observed { labels: Default::default(), ..observed });
            let spec = &node.spec;
            let wanted = (spec.change.clone(), spec.driver_in_use_by.clone());
            (node.metadata.uid.clone(), wanted, status.agent, observed)
        };
        before.as_ref().map(concern) != self.latest.as_ref().map(concern)
    }

    /// Takes what a list says, with which a watch begins. One that has an older
    /// version than is known was made before our own last write, or after the
    /// API's data went back in time: then no message of a watch would be taken
    /// for a long while. Which it is, only a read says. Says what
    /// [`offer`](Self::offer) does.
    pub fn offer_listed(&mut self, node: GpuNode) -> bool {
        let is_older = self
            .latest
            .as_ref()
            .is_some_and(|known| known.metadata.uid == node.metadata.uid && number(&node) < number(known));
        self.is_in_doubt |= is_older;
        is_older || self.offer(node)
    }

    /// Reads it, if it is in doubt which version is the newest.
    ///
    /// # Errors
    /// There is no usable answer: it stays in doubt.
    pub async fn settle(&mut self) -> Result<(), CallError> {
        if self.is_in_doubt { self.read().await } else { Ok(()) }
    }

    /// The watch says that it is gone.
    pub fn gone(&mut self) {
        self.latest = None;
    }

    fn api(&self) -> Api<GpuNode> {
        Api::all(self.calls.client())
    }

    fn title(&self) -> String {
        format!("GpuNode {}", self.name)
    }

    /// Reads it from the API server.
    ///
    /// # Errors
    /// There is no usable answer.
    pub async fn read(&mut self) -> Result<(), CallError> {
        self.latest = self.calls.get(&self.api(), &self.title(), &self.name).await?;
        self.is_in_doubt = false;
        Ok(())
    }

    /// Writes the agent's part of the status, if the object still has this
    /// version. Whatever comes of it, what is known afterwards is not older
    /// than the write.
    ///
    /// # Errors
    /// It was not, or may not have been, written.
    pub async fn write(
        &mut self,
        observed: &Observed,
        agent: &AgentStatus,
        if_version: &ObjectVersion,
    ) -> Result<(), WriteError> {
        let status = self.latest.as_ref().and_then(|node| node.status.clone()).unwrap_or_default();
        let mut patch = difference(&ours(&status), &json!({"observed": observed, "agent": agent}));
        if let Some(observed) = patch["observed"].as_object_mut() {
            observed.remove("labels");
        }
        let body = json!({"metadata": {"resourceVersion": if_version.0}, "status": patch});
        let (api, title) = (self.api(), self.title());
        match self.calls.merge(&api, &title, &managers::AGENT, Target::Status, &self.name, &body).await {
            Ok(written) => {
                self.latest = Some(written);
                Ok(())
            }
            Err(error) => {
                if error.is_conflict() || error.may_have_happened() || error.is_not_found() {
                    self.read().await?;
                }
                Err(if error.is_conflict() { WriteError::Outdated } else { error.into() })
            }
        }
    }
}

/// The agent's part of a status.
fn ours(status: &GpuNodeStatus) -> Value {
    let mut ours = Map::new();
    ours.extend(status.observed.iter().map(|observed| ("observed".to_owned(), json!(observed))));
    ours.extend(status.agent.iter().map(|agent| ("agent".to_owned(), json!(agent))));
    Value::Object(ours)
}

/// The merge patch that makes `before` to `after`: what is not there any more
/// is `null`.
fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return after.clone() };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(other) => drop(patch.insert(key.clone(), difference(other, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    Value::Object(patch)
}

/// Versions of one object are numbers that grow, by Kubernetes' own word since 1.35, and by etcd's before.
fn number(node: &GpuNode) -> Option<u128> {
    node.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_has_what_changed_and_takes_away_what_is_gone() {
        let before = json!({"a": 1, "b": {"c": 2, "d": [1], "e": {"f": 3}}, "g": {"h": 4}});
        let after = json!({"a": 1, "b": {"c": 5, "d": [1, 2], "e": {}}, "i": {"j": 6}});
        let patch = difference(&before, &after);
        let expected = json!({"b": {"c": 5, "d": [1, 2], "e": {"f": null}}, "g": null, "i": {"j": 6}});
        assert_eq!(patch, expected);
        assert_eq!(difference(&after, &after), json!({}));
    }
}
