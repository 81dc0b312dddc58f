//! Decisions for nodes that are short of CPU and memory, for demand of many kinds, and for hundreds that
//! wait: the plan alone, and with what would help.
//!
//! `cargo bench -p slicewright-planner --bench decide`

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use planner::decide::{decide, decide_without_advice};
use planner::demand::Request;
use planner::inventory::{Inventory, Room};
use planner::testing::generate::rooms::{Rooms, rooms};
use planner::testing::policy;

/// Fleets without limits of CPU and memory, and with three priorities, on which about so many wait in vain.
fn many_wait(nodes: usize, pods: usize) -> (Inventory, Vec<Request>) {
    let (mut inventory, mut requests) = rooms(Rooms { nodes, gpus: 8, pods, kinds: 12 }, 7);
    inventory.nodes.values_mut().for_each(|node| node.room = Room::UNLIMITED);
    for (i, request) in (0..).zip(&mut requests) {
        request.priority = i % 3;
    }
    (inventory, requests)
}

fn decisions(c: &mut Criterion) {
    let policies = [policy("p").build()];
    let mut group = c.benchmark_group("rooms");
    group.sample_size(10);
    for (nodes, pods, kinds) in [(10, 120, 6), (40, 480, 12), (100, 1_200, 40)] {
        let (inventory, requests) = rooms(Rooms { nodes, gpus: 8, pods, kinds }, 1);
        let name = format!("{nodes} nodes, {pods} pods");
        group.bench_function(BenchmarkId::new("plan", &name), |b| {
            b.iter(|| decide_without_advice(black_box(&inventory), &requests, &policies));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("many kinds");
    group.sample_size(10);
    for kinds in [4, 16, 40] {
        let (mut inventory, requests) = rooms(Rooms { nodes: 16, gpus: 8, pods: 240, kinds }, 3);
        inventory.nodes.values_mut().for_each(|node| node.room.storage_bytes = i64::MAX);
        group.bench_function(BenchmarkId::new("plan", kinds), |b| {
            b.iter(|| decide_without_advice(black_box(&inventory), &requests, &policies));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("explaining");
    group.sample_size(10);
    for (nodes, pods) in [(8, 700), (64, 1_500)] {
        let (inventory, requests) = many_wait(nodes, pods);
        let name = format!("{} GPUs, {pods} pods", 8 * nodes);
        group.bench_function(BenchmarkId::new("plan", &name), |b| {
            b.iter(|| decide_without_advice(black_box(&inventory), &requests, &policies));
        });
        group.bench_function(BenchmarkId::new("with advice", &name), |b| {
            b.iter(|| decide(black_box(&inventory), &requests, &policies));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
