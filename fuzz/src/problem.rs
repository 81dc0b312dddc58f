//! A planning problem that can be read is solved, and twice the same; its
//! effort is bounded, so that no input takes for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;
use planner::problem::{Actuation, Problem};
use planner::solver::Effort;

/// More GPUs say nothing new here, and take time.
const MOST_GPUS: usize = 6;

fuzz_target!(|text: &str| {
    let Ok(problem) = Problem::from_json(text) else { return };
    if problem.gpus.len() > MOST_GPUS {
        return;
    }
    for actuation in [Actuation::SliceBySlice, Actuation::WholeGpu] {
        let solve = || problem.solve(actuation, Effort { nodes: 200 });
        let (one, other) = (solve(), solve());
        if let (Ok(one), Ok(other)) = (one, other) {
            assert_eq!(format!("{one:?}"), format!("{other:?}"), "the same problem has the same plan");
        }
    }
});
