//! Fleets that stand in files: snapshots, and problems of which the optimum is proved.

#![expect(clippy::unwrap_used, reason = "what is read was written for this")]

use mig::Catalog;
use planner::demand::Request;
use planner::inventory::{ChangeScope, Inventory};
use planner::testing::{GpuBuilder, NodeBuilder, a100, at, fleet, node, request};
use serde_json::Value;

/// What a file has: a problem has GPUs, and a snapshot objects.
pub(crate) fn read(path: &str) -> (Inventory, Vec<Request>) {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    if file["gpus"].is_array() { problem(&file) } else { snapshot(&file) }
}

/// A problem: GPUs whose slices have their places, and how many slices are asked for, each by a pod of its own.
fn problem(file: &Value) -> (Inventory, Vec<Request>) {
    let mut nodes: Vec<(&str, NodeBuilder)> = Vec::new();
    for gpu in file["gpus"].as_array().unwrap() {
        let (name, id) = (gpu["node"].as_str().unwrap(), gpu["id"].as_str().unwrap());
        let model = Catalog::builtin().get(gpu["model"].as_str().unwrap()).unwrap();
        let mut read = GpuBuilder::new(&model.id, model.geometry.clone());
        for (list, is_used) in [("idle", false), ("in_use", true)] {
            for slice in gpu[list].as_array().unwrap() {
                let (profile, start) = (slice["profile"].as_str().unwrap(), slice["start"].as_u64().unwrap());
                let start = u8::try_from(start).unwrap();
                let by = format!("{}-{start}", id.replace('/', "-"));
                read = if is_used { read.used(profile, start, &by) } else { read.idle(profile, start) };
            }
        }
        match nodes.last_mut().filter(|(last, _)| *last == name) {
            Some((_, node)) => *node = node.clone().gpu(read),
            None => nodes.push((name, node().gpu(read))),
        }
    }
    let fleet = nodes.into_iter().fold(fleet(), |fleet, (name, node)| fleet.node(name, node));
    let demand = file["demand"].as_object().unwrap();
    let asks = demand.iter().flat_map(|(profile, n)| {
        let ask = move |i| request(&format!("{profile}-{i}")).asks(profile, 1).build();
        (0..n.as_u64().unwrap()).map(ask)
    });
    (fleet.build(), asks.collect())
}

/// A snapshot of nodes that are all idle, and of pods that all wait.
fn snapshot(snapshot: &Value) -> (Inventory, Vec<Request>) {
    let gib = |value: &Value| value.as_str().unwrap().trim_end_matches("Gi").parse::<i64>().unwrap() << 30;
    let priority = |value: &Value| value.as_i64().map_or(0, |n| i32::try_from(n).unwrap());
    let milli = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap() * 1_000;
    let (mut builder, mut requests) = (fleet(), Vec::new());
    for object in snapshot["objects"].as_array().unwrap() {
        let name = object["metadata"]["name"].as_str().unwrap();
        if object["kind"] == "Node" {
            let gpus: usize =
                object["metadata"]["labels"]["nvidia.com/gpu.count"].as_str().unwrap().parse().unwrap();
            let has = &object["status"]["allocatable"];
            let pods = has["pods"].as_str().unwrap().parse().unwrap();
            let mut node =
                node().scope(ChangeScope::IdleGpus).room(milli(&has["cpu"]), gib(&has["memory"]), pods);
            for _ in 0..gpus {
                let mut gpu = a100();
                for (resource, count) in has.as_object().unwrap() {
                    if let Some(profile) = resource.strip_prefix("nvidia.com/mig-") {
                        gpu = gpu.counted(profile, count.as_str().unwrap().parse::<usize>().unwrap() / gpus);
                    }
                }
                node = node.gpu(gpu);
            }
            builder = builder.node(name, node);
        } else {
            let asks = &object["spec"]["containers"][0]["resources"]["limits"];
            let since = object["metadata"]["creationTimestamp"].as_str().unwrap();
            let since: jiff::Timestamp = since.parse().unwrap();
            let mut wants = request(name)
                .takes(milli(&asks["cpu"]), gib(&asks["memory"]))
                .since(since.as_second() - at(0).as_second())
                .priority(priority(&object["spec"]["priority"]));
            for (resource, count) in asks.as_object().unwrap() {
                if let Some(profile) = resource.strip_prefix("nvidia.com/mig-") {
                    wants = wants.asks(profile, count.as_str().unwrap().parse().unwrap());
                }
            }
            requests.push(wants.build());
        }
    }
    (builder.build(), requests)
}
