//! The output of commands for programs: JSON and YAML of one value.

use std::io::Write;

use planner::inventory::{Gpu, Seating, Slice, Use};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::question::Question;
use crate::shared;

/// The version of what is printed; it grows when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;

/// Prints a value as JSON.
///
/// # Errors
/// If `out` cannot be written to.
pub fn json(value: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{value:#}").map_err(Failure::from)
}

/// Prints a value as YAML.
///
/// # Errors
/// If `out` cannot be written to.
pub fn yaml(value: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(value).map_err(|error| Failure::Bug(error.to_string()))?;
    out.write_all(text.as_bytes()).map_err(Failure::from)
}

/// A fleet: each node, each GPU, each slice with its state and who holds it, and the seats of what several pods share.
#[must_use]
pub fn fleet(question: &Question) -> Value {
    let nodes: Vec<Value> = question
        .seen
        .inventory
        .nodes
        .iter()
        .map(|(name, node)| {
            json!({
                "name": name,
                "schedulable": node.schedulable,
                "held": node.hold.as_ref().map(ToString::to_string),
                "gpus": node.gpus.iter().map(|(index, gpu)| self::gpu(index.0, gpu)).collect::<Vec<_>>(),
                "sharedSlices": shared::of_node(node),
            })
        })
        .collect();
    let seats = question.seen.inventory.seating.iter().map(|(name, seating)| seats(&name.0, seating));
    json!({
        "seats": seats.collect::<Vec<_>>(),
        "formatVersion": FORMAT_VERSION,
        "cluster": question.snapshot.cluster,
        "takenAt": question.now(),
        "nodes": nodes,
        "problems": question.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// The GPUs of a node that are not cut, as seats.
#[must_use]
pub fn seats(name: &str, seating: &Seating) -> Value {
    let by = seating.held.iter().map(|(pod, n)| json!({"pod": pod.to_string(), "seats": n}));
    json!({
        "node": name,
        "schedulable": seating.node.schedulable,
        "card": seating.card,
        "gpus": seating.gpus,
        "replicas": seating.sharing.replicas,
        "resource": seating.offers().resource_name(),
        "total": seating.total(),
        "held": seating.held(),
        "by": by.collect::<Vec<_>>(),
    })
}

/// One GPU; slices whose place is not known have no `start`, and a GPU without MIG has no `slices`.
#[must_use]
pub fn gpu(index: u16, gpu: &Gpu) -> Value {
    let used = |used: &Use| match used {
        Use::Idle => json!({"state": "idle"}),
        Use::InUse { by } => json!({"state": "inUse", "by": [by.to_string()]}),
        Use::MaybeInUse { by } => {
            json!({"state": "maybeInUse", "by": by.iter().map(ToString::to_string).collect::<Vec<_>>()})
        }
    };
    let slice = |of: Slice<'_>| {
        let mut slice = used(of.used);
        slice["profile"] = json!(of.profile.to_string());
        if let Some(start) = of.start {
            slice["start"] = json!(start);
        }
        slice
    };
    let slices: Option<Vec<Value>> =
        (!gpu.slices.is_mig_off()).then(|| gpu.slices.iter().map(slice).collect());
    json!({
        "index": index,
        "model": gpu.model,
        "mig": slices.is_some(),
        "held": gpu.hold.as_ref().map(ToString::to_string),
        "slices": slices,
    })
}
