//! Planning whole fleets, from scratch and after one slice changed.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use planner::problem::{Actuation, Session};
use planner::solver::Effort;
use planner::testing::generate::{Family, Numbers, change_one_slice, generate};

fn plan(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    group.sample_size(10);
    for gpus in [8, 64, 512, 4_096, 80_000] {
        let problem = generate(Family::Churn, gpus, 1);
        let mut changed = problem.clone();
        change_one_slice(&mut changed, &mut Numbers::new(1));
        let session = || Session::new(Actuation::SliceBySlice, Effort::default());
        group.bench_with_input(BenchmarkId::new("cold", gpus), &problem, |b, problem| {
            b.iter_batched(session, |mut s| s.plan(problem), BatchSize::LargeInput);
        });
        let mut warm = session();
        warm.plan(&problem).expect("a plan");
        group.bench_with_input(BenchmarkId::new("one slice changed", gpus), &changed, |b, changed| {
            b.iter_batched(|| warm.clone(), |mut s| s.plan(changed), BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
