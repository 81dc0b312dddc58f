//! `examples/traces/lab-week.csv`: an invented week of a laboratory, so that the documents have a trace
//! that can be used freely. It is generated here by rules and a fixed sequence of numbers, and nothing in
//! it was recorded anywhere.

use std::fmt::Write;
use std::path::Path;

use crate::support::fleet;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A fixed sequence of numbers without a pattern that anybody would notice
/// (Knuth's linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % n
    }
}

fn week() -> String {
    let mut numbers = Numbers(18);
    let mut pods: Vec<(i64, i64, String, &str, u32)> = Vec::new();
    // Two models are served all week, and a third from Wednesday on.
    for (name, from) in [("serve-a", 0), ("serve-b", 0), ("serve-c", 2 * DAY + 11 * HOUR)] {
        pods.push((from, 7 * DAY, name.to_owned(), "3g.40gb", 1));
    }
    for day in 0..5 {
        // Notebooks of a working day: small ones in the main, and some stay over lunch only.
        for i in 0..14 {
            let from = day * DAY + 8 * HOUR + numbers.below(9 * HOUR);
            let profile = ["1g.10gb", "1g.10gb", "1g.10gb", "2g.20gb", "2g.20gb", "3g.40gb"]
                [usize::try_from(numbers.below(6)).unwrap()];
            let stays = HOUR / 2 + numbers.below(5 * HOUR);
            pods.push((from, from + stays, format!("notebook-{day}-{i}"), profile, 1));
        }
        // Training by night, on whole GPUs.
        for i in 0..4 {
            let from = day * DAY + 18 * HOUR + numbers.below(4 * HOUR);
            let stays = 3 * HOUR + numbers.below(8 * HOUR);
            pods.push((from, from + stays, format!("train-{day}-{i}"), "7g.80gb", 1));
        }
    }
    // A course on Tuesday and Thursday afternoon.
    for day in [1, 3] {
        for i in 0..16 {
            let from = day * DAY + 14 * HOUR + numbers.below(HOUR / 6);
            pods.push((from, day * DAY + 17 * HOUR, format!("course-{day}-{i}"), "1g.10gb", 1));
        }
    }
    // Over the weekend a job on two GPUs of a node at once, and some evaluations.
    pods.push((5 * DAY + HOUR, 5 * DAY + 19 * HOUR, "train-large".to_owned(), "7g.80gb", 2));
    for i in 0..6 {
        let from = 5 * DAY + 9 * HOUR + numbers.below(DAY);
        pods.push((from, from + HOUR + numbers.below(4 * HOUR), format!("evaluate-{i}"), "2g.20gb", 1));
    }
    pods.sort();
    let mut text = "create_s,delete_s,pod,profile,count\n".to_owned();
    for (from, until, pod, profile, count) in pods {
        let _ = writeln!(text, "{from},{until},{pod},{profile},{count}");
    }
    text
}

#[test]
fn the_example_trace_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/lab-week.csv");
    let week = week();
    let fleet = fleet("1x1xA100-80GB");
    replay::Trace::parse(&week, &fleet.profiles(), None).unwrap();
    #[expect(clippy::disallowed_methods, reason = "whoever runs the tests says so")]
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &week).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == week, "{} is not what is made here; UPDATE=1 writes it", path.display());
}
