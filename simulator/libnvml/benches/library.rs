//! The speed of the library: a monitor's round over a full node, and loading.
#![allow(unsafe_code, reason = "C functions are called")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![allow(missing_docs, reason = "criterion's macros write functions")]

#[path = "../tests/it/support/mod.rs"]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use nvml_wrapper_sys::bindings::NvmlLib;
use support::sweep::{busy_node, measure, sweep};

fn benchmarks(c: &mut Criterion) {
    let sim = busy_node();
    sim.init().unwrap();
    let calls = sweep(&sim.lib);
    c.bench_function(&format!("sweep of 8 GPUs with 7 slices each, {calls} calls"), |b| {
        b.iter(|| sweep(&sim.lib));
    });
    let calls = measure(&sim.lib);
    c.bench_function(&format!("energy, fields, work and nearness of the same, {calls} calls"), |b| {
        b.iter(|| measure(&sim.lib));
    });
    sim.shutdown().unwrap();
    // A file of its own: the other one is loaded already.
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libnvidia-ml.so.1");
    std::fs::copy(support::built(), &library).unwrap();
    c.bench_function("load, look all functions up, initialise, shut down, unload", |b| {
        b.iter(|| {
            // SAFETY: loading it runs no code of ours; the functions take nothing.
            let lib = unsafe { NvmlLib::new(&library) }.unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { (lib.nvmlInit_v2(), lib.nvmlShutdown()) }, (0, 0));
        });
    });
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
