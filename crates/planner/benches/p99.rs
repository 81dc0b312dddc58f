//! The planning times that the documentation quotes: percentiles over many
//! plans of each size, on one core.
//!
//! `cargo bench -p slicewright-planner --bench p99 [-- PLANS [LARGEST_FLEET]]`
//!
//! A plan is timed from the checked problem in memory to the list of changes:
//! the first two objectives alone, all three, and all three again after one
//! slice has changed. Each is done three times and the shortest counts, since
//! other processes can only make it longer.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::time::{Duration, Instant};

use planner::problem::{Actuation, Objective, Session};
use planner::solver::Effort;
use planner::testing::generate::{Family, Numbers, change_one_slice, generate};

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// The shortest of three times.
fn best_of_three<T>(mut run: impl FnMut() -> (Duration, T)) -> (Duration, T) {
    let first = run();
    (0..2).fold(first, |best, _| {
        let again = run();
        if again.0 < best.0 { again } else { best }
    })
}

fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    times[(times.len() * percent).div_ceil(100).clamp(1, times.len()) - 1].as_secs_f64() * 1e3
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let plans = numbers.next().unwrap_or(200);
    let largest = numbers.next().unwrap_or(80_000);
    println!(
        "| GPUs | plans | two objectives p50 | p99 | max | all three p50 | p99 | max | again p50 | p99 | again/first p50 | not proved (1st, 2nd, 3rd) | same bytes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for gpus in [8, 64, 512, 4_096, 80_000].into_iter().filter(|gpus| *gpus <= largest) {
        let (mut two, mut cold, mut warm) = (Vec::new(), Vec::new(), Vec::new());
        let mut open = [0; 3];
        let mut same = true;
        for seed in 0..plans {
            let family = Family::ALL[seed % Family::ALL.len()];
            let mut problem = generate(family, gpus, seed as u64);
            let session = || Session::new(Actuation::SliceBySlice, Effort::default());
            let (time, plan) =
                best_of_three(|| timed(|| session().up_to(Objective::GpusChanged).plan(&problem)));
            let first = plan.expect("a plan");
            two.push(time);
            let (time, (plan, session)) = best_of_three(|| {
                let mut session = session();
                let (time, plan) = timed(|| session.plan(&problem));
                (time, (plan, session))
            });
            let plan = plan.expect("a plan");
            cold.push(time);
            same &= (first.unserved_weight, first.gpus_changed) == (plan.unserved_weight, plan.gpus_changed);
            for (count, level) in
                open.iter_mut().zip([plan.unserved_weight, plan.gpus_changed, plan.operations])
            {
                *count += usize::from(!level.is_proven());
            }
            change_one_slice(&mut problem, &mut Numbers::new(seed as u64));
            let (time, again) = best_of_three(|| {
                let mut session = session.clone();
                timed(|| session.plan(&problem))
            });
            warm.push(time);
            same &= again.ok() == problem.solve(Actuation::SliceBySlice, Effort::default()).ok();
        }
        let (c, w) = (percentile(&mut cold, 50), percentile(&mut warm, 50));
        println!(
            "| {gpus} | {plans} | {:.2} ms | {:.2} ms | {:.2} ms | {c:.2} ms | {:.2} ms | {:.2} ms | {w:.2} ms | {:.2} ms | {:.0} % | {}, {}, {} | {same} |",
            percentile(&mut two, 50),
            percentile(&mut two, 99),
            percentile(&mut two, 100),
            percentile(&mut cold, 99),
            percentile(&mut cold, 100),
            percentile(&mut warm, 99),
            100.0 * w / c,
            open[0],
            open[1],
            open[2],
        );
    }
    println!("\npeak memory: {}", peak_memory());
}
