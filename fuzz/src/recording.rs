//! A recorded fleet, which people keep, cut and edit: what can be read is planned for, and the plan breaks no
//! rule. The planner's work is limited by itself; libFuzzer stops an input that takes minutes all the same.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use observe::problem::Severity;
use observe::snapshot;
use reconcile::{Input, Obstacles, Settings};

/// More nodes and pods say nothing new here, and take time.
const MOST_OBJECTS: usize = 40;

/// For all nodes of the examples, in the order that asks the solver most.
const POLICY: &str = "\
apiVersion: slicewright.io/v1alpha1
kind: GpuPartitionPolicy
metadata: {name: recorded}
spec:
  nodeSelector: {matchExpressions: [{key: slicewright.io/pool, operator: Exists}]}
  layout: {type: DemandDriven, demandDriven: {order: OldestFirst}}
";

fuzz_target!(|text: &str| {
    let mut problems = Vec::new();
    let mut snapshot = snapshot::read("fleet.yaml", text, &mut problems);
    let _ = observe::manifest::read_all(&mut snapshot.objects, [("policy.yaml", POLICY)], &mut problems);
    let is_refused = problems.iter().any(|problem| problem.severity == Severity::Error);
    if is_refused || snapshot.objects.nodes.len() + snapshot.objects.pods.len() > MOST_OBJECTS {
        return;
    }
    let planned = reconcile::plan_round(&Input {
        objects: &snapshot.objects,
        local: &BTreeMap::new(),
        map_changed: None,
        obstacles: &Obstacles::NONE,
        settings: &Settings::default(),
        now: snapshot.taken_at,
    });
    let fatal: Vec<String> = planned.plan.fatal().map(ToString::to_string).collect();
    assert!(fatal.is_empty(), "{fatal:?}");
});
