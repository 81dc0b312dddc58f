//! Nodes and operations on them, written like a story.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::collections::BTreeMap;

use gpu::{DriverBranch, Machine, Model};
use jiff::{SignedDuration, Timestamp};
use operands::{
    Change, MIG_CONFIG, MIG_CONFIG_STATE, Node, Opens, Operand, PodName, PodPhase, PodSpec, Setup, What,
};

pub fn start() -> Timestamp {
    "2026-11-20T09:00:00Z".parse().unwrap()
}

pub fn machine(models: &[&str]) -> Machine {
    let machine = Machine::new("worker-1", DriverBranch::default(), start());
    models.iter().fold(machine, |machine, model| machine.with_gpu(&Model::find(model).unwrap()))
}

/// A settled node with a configuration of the generated map.
pub fn node(setup: Setup, models: &[&str], config: Option<&str>) -> Node {
    Node::new(setup, machine(models), BTreeMap::new(), None, config).unwrap()
}

/// The label of a configuration, and nothing else.
pub fn label(node: &mut Node, config: &str) {
    node.patch_labels([(MIG_CONFIG, Some(config))]);
}

/// Lets a time pass.
pub fn pass(node: &mut Node, seconds: i64) -> Vec<Change> {
    let to = node.now() + SignedDuration::from_secs(seconds);
    node.tick(to)
}

/// Lets time pass until nothing happens any more, an hour at most.
pub fn settle(node: &mut Node) -> Vec<Change> {
    let end = node.now() + SignedDuration::from_hours(1);
    let mut changes = Vec::new();
    while let Some(at) = node.next_event().filter(|at| *at <= end) {
        changes.extend(node.tick(at));
    }
    changes
}

pub fn state(node: &Node) -> Option<&str> {
    node.labels().get(MIG_CONFIG_STATE).map(String::as_str)
}

/// The states that MIG manager wrote, in order.
pub fn states(changes: &[Change]) -> Vec<String> {
    let state = |change: &Change| match &change.what {
        What::Label { key, value: Some(value) } if key == MIG_CONFIG_STATE => Some(value.clone()),
        _ => None,
    };
    changes.iter().filter_map(state).collect()
}

/// What can be allocated, zeros left out.
pub fn allocatable(node: &Node) -> Vec<(String, u64)> {
    let short = |(key, n): (&String, &u64)| (key.trim_start_matches("nvidia.com/").to_owned(), *n);
    node.allocatable().iter().map(short).filter(|(_, n)| *n > 0).collect()
}

pub fn has(node: &Node, expect: &[(&str, u64)]) -> bool {
    allocatable(node) == expect.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect::<Vec<_>>()
}

pub fn parked(node: &Node) -> bool {
    node.labels().values().any(|value| value == operands::PAUSED)
}

pub fn bind(node: &mut Node, name: &str, resource: &str, count: u64, opens: Opens) -> PodPhase {
    let requests = BTreeMap::from([(format!("nvidia.com/{resource}"), count)]);
    node.bind(PodSpec { name: PodName::new("team", name), requests, opens }).clone()
}

pub fn end(node: &mut Node, name: &str) {
    node.end(&PodName::new("team", name)).unwrap();
}

/// `profile@start` of each slice of a GPU, `*` where somebody has it.
pub fn slices(node: &Node, gpu: u16) -> Vec<String> {
    let truth = &node.truth()[usize::from(gpu)];
    let show = |s: &operands::SliceTruth| {
        format!("{}@{}{}", s.profile, s.start, if s.holder.is_some() { "*" } else { "" })
    };
    truth.slices.iter().map(show).collect()
}

pub fn plugin_created(node: &Node) -> Option<Timestamp> {
    node.operand_pod(Operand::DevicePlugin).map(|pod| pod.created)
}
