//! `GpuNode`s: the wanted layout, the observed state, and the progress of the rollout. These are three
//! concerns with three field managers; the progress of a rollout is stored here before its steps are
//! carried out.

use std::sync::LazyLock;

use api::gpu_node::{GpuNodeStatus, ObservedBy};
use api::{GpuNode, GpuNodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Preconditions};
use planner::names::NodeName;
use serde_json::{Map, Value, json};

use crate::calls::{CallError, Calls, Manager, Target, managers};
use crate::store::Source;
use crate::store::awaited::Subject;

/// A `GpuNode` as it should be.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Its node.
    pub node: &'a NodeName,
    /// The uid of its node, which owns it.
    pub owner_uid: &'a str,
    /// Its spec.
    pub spec: &'a GpuNodeSpec,
    /// Its status.
    pub status: &'a GpuNodeStatus,
    /// Whether an agent writes what was seen.
    pub agent: bool,
}

/// What has to be written: the body of each patch without its version.
#[derive(Clone, Debug, PartialEq)]
struct Patch {
    manager: Manager,
    target: Target,
    body: Value,
    /// Whether it takes fields of others out, which no apply can.
    takes_out: bool,
}

/// What came of writing a `GpuNode`.
#[derive(Debug)]
pub enum Written {
    /// It is what it should be: nothing was to be written.
    Same,
    /// It is what it should be now.
    Now(Box<GpuNode>),
    /// We may not write any more; some of it may be written.
    Stopped,
}

/// Makes a `GpuNode` what it should be, while we `may` write: another replica
/// may have the lease before the last of several writes.
///
/// # Errors
/// When it was not, or may not have been, written; what came before in the
/// order spec, observed, rollout is written then.
pub async fn write(
    calls: &Calls,
    wanted: &Wanted<'_>,
    now: Option<&GpuNode>,
    may: impl Fn() -> bool,
) -> Result<Written, CallError> {
    let api: Api<GpuNode> = Api::all(calls.client());
    let name = &wanted.node.0;
    let title = format!("GpuNode {name}");
    let made;
    let (now, mut last) = match now {
        Some(now) => (now, None),
        None if !may() => return Ok(Written::Stopped),
        None => {
            made = make(calls, &api, &title, wanted).await?;
            (&made, Some(made.clone()))
        }
    };
    let mut version = now.metadata.resource_version.clone();
    for Patch { manager, target, mut body, takes_out } in patches(wanted, now) {
        if !may() {
            return Ok(Written::Stopped);
        }
        if let Some(version) = &version {
            body["metadata"]["resourceVersion"] = json!(version);
        }
        // The status is of the spec that was written just before, whose number is not known in advance.
        let generation = last.as_ref().and_then(|written: &GpuNode| written.metadata.generation);
        if let (Some(status), Some(generation)) = (body.get_mut("status"), generation) {
            describes(status, generation);
        }
        let written: GpuNode = match nothing_left(target, &body, now) {
            Some(spec) => {
                let body = json!({"metadata": {"resourceVersion": version}, "spec": spec});
                calls.merge(&api, &title, &manager, Target::Object, name, &body).await?
            }
            None if takes_out => calls.merge(&api, &title, &manager, target, name, &body).await?,
            None => calls.apply(&api, &title, &manager, target, name, &body).await?,
        };
        version.clone_from(&written.metadata.resource_version);
        last = Some(written);
    }
    Ok(last.map_or(Written::Same, |last| Written::Now(Box::new(last))))
}

/// Says in a status, and in its conditions, of which generation of the spec it is.
fn describes(status: &mut Value, generation: i64) {
    let says = |of: &mut Value| {
        if let Some(told) = of.get_mut("observedGeneration") {
            *told = json!(generation);
        }
    };
    says(status);
    status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten().for_each(says);
}

/// What is awaited of a `GpuNode` that was written.
#[must_use]
pub fn awaited(written: &GpuNode) -> Subject {
    Subject::Version {
        source: Source::GpuNodes,
        key: (String::new(), written.metadata.name.clone().unwrap_or_default()),
        version: written.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// What to take out of a spec in which nothing is to be left. Applying an
/// empty one would remove our fields and leave `null` in its place, which the
/// API server then refuses.
fn nothing_left(target: Target, body: &Value, now: &GpuNode) -> Option<Value> {
    let empty = matches!(target, Target::Object) && body["spec"].as_object().is_some_and(Map::is_empty);
    if !empty {
        return None;
    }
    let before = serde_json::to_value(&now.spec).ok()?;
    Some(before.as_object()?.keys().map(|field| (field.clone(), Value::Null)).collect())
}

/// A `GpuNode` that says nothing yet, for its version: as with our map, only
/// what is created is sure to be the first.
async fn make(
    calls: &Calls,
    api: &Api<GpuNode>,
    title: &str,
    wanted: &Wanted<'_>,
) -> Result<GpuNode, CallError> {
    let mut empty = GpuNode::new(&wanted.node.0, GpuNodeSpec::default());
    empty.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: wanted.node.0.clone(),
        uid: wanted.owner_uid.to_owned(),
        ..OwnerReference::default()
    }]);
    calls.create(api, title, managers::PLAN.name, &empty).await
}

fn patches(wanted: &Wanted<'_>, now: &GpuNode) -> Vec<Patch> {
    let Wanted { node, owner_uid, spec, status, agent: _ } = wanted;
    let mut patches = Vec::new();
    let body = |rest: Value| {
        let mut body = json!({
            "apiVersion": api::API_VERSION, "kind": "GpuNode", "metadata": {"name": node.0},
        });
        for (key, value) in rest.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        body
    };
    let Differs { spec: spec_differs, observed: observed_differs, rollout: rollout_differs } =
        differs(wanted, now);
    if spec_differs {
        let mut body = body(json!({"spec": spec}));
        body["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node", "name": node.0, "uid": owner_uid}]);
        patches.push(Patch { manager: managers::PLAN, target: Target::Object, body, takes_out: false });
    }
    let GpuNodeStatus { observed_generation, conditions, slices, observed, agent: _, rollout } = &**status;
    if is_taken_back(wanted, now) {
        let body = json!({"status": {"observed": null, "agent": null}});
        let (manager, target) = (managers::OBSERVED, Target::Status);
        patches.push(Patch { manager, target, body, takes_out: true });
    } else if observed_differs {
        let body = body(json!({"status": {"observed": observed}}));
        patches.push(Patch { manager: managers::OBSERVED, target: Target::Status, body, takes_out: false });
    }
    if rollout_differs {
        let body = body(json!({"status": {
            "observedGeneration": observed_generation, "conditions": conditions, "slices": slices,
            "rollout": rollout,
        }}));
        patches.push(Patch { manager: managers::ROLLOUT, target: Target::Status, body, takes_out: false });
    }
    patches
}

/// What of a `GpuNode` is not as it should be, by who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Differs {
    spec: bool,
    observed: bool,
    rollout: bool,
}

fn differs(wanted: &Wanted<'_>, now: &GpuNode) -> Differs {
    static NONE: LazyLock<GpuNodeStatus> = LazyLock::new(GpuNodeStatus::default);
    let before = now.status.as_ref().unwrap_or(&NONE);
    let GpuNodeStatus { observed_generation, conditions, slices, observed, agent: _, rollout } =
        wanted.status;
    Differs {
        spec: now.spec != *wanted.spec,
        observed: is_taken_back(wanted, now) || !wanted.agent && before.observed != *observed,
        rollout: before.rollout != *rollout
            || before.conditions != *conditions
            || before.slices != *slices
            || before.observed_generation != *observed_generation,
    }
}

/// Whether a `GpuNode` is as it should be: nothing is to be written then. Asked of every node in every round, so
/// nothing is copied for it.
#[must_use]
pub fn is_as_wanted(wanted: &Wanted<'_>, now: &GpuNode) -> bool {
    differs(wanted, now) == Differs { spec: false, observed: false, rollout: false }
}

/// Whether all that an agent has said goes: it is uninstalled. What the operator
/// sees is written in the next round, since an agent's fields cannot be applied
/// over, and are nobody's once they are gone.
fn is_taken_back(wanted: &Wanted<'_>, now: &GpuNode) -> bool {
    let Some(before) = &now.status else { return false };
    let by_agent = before.observed.as_ref().is_some_and(|observed| observed.by == ObservedBy::Agent);
    (before.agent.is_some() || by_agent) && wanted.status.agent.is_none() && wanted.status.observed.is_none()
}

/// Removes the `GpuNode` of a node that is gone: another node has its name
/// now, and nothing of what is remembered is true of it.
///
/// # Errors
/// When it was not, or may not have been, removed.
pub async fn remove(calls: &Calls, node: &GpuNode) -> Result<(), CallError> {
    let api: Api<GpuNode> = Api::all(calls.client());
    let name = node.metadata.name.clone().unwrap_or_default();
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: node.metadata.uid.clone(),
        resource_version: node.metadata.resource_version.clone(),
    });
    calls.delete(&api, &format!("GpuNode {name}"), &name, &params).await
}
