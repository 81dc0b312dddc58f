//! The goals for what asks beside pods: 10,000 workbenches, 10,000 workloads and 2,000 model servers may cost so much memory and
//! time more than the same fleet without them. The memory of a process never shrinks, so each side is measured in processes of
//! its own; of three runs the best one counts, since other programs make a run slower and never faster.

use std::fmt;
use std::process::Command;
use std::time::Duration;

/// The word with which a run ends with its figures in one line.
pub(crate) const FIGURES: &str = "figures";
/// How many runs of each side there are.
const RUNS: usize = 3;
/// How much more memory there may be, in MiB.
const MOST_MORE: f64 = 60.0;
/// How many times as long a round may take.
const MOST_TIMES: f64 = 1.5;

/// What a run has measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// The most memory, rounds included, in MiB.
    pub(crate) most: f64,
    /// The first round.
    pub(crate) first: Duration,
    /// The next one.
    pub(crate) next: Duration,
    /// One after a pod was written.
    pub(crate) written: Duration,
}

impl Figures {
    /// All of it in one line.
    pub(crate) fn line(&self) -> String {
        let Self { most, first, next, written } = self;
        let seconds = [first, next, written].map(|round| round.as_secs_f64().to_string());
        format!("{FIGURES}: {most} {}", seconds.join(" "))
    }

    /// What such a line says, among others.
    fn read(lines: &str) -> Option<Self> {
        let line = lines.lines().find_map(|line| line.strip_prefix(FIGURES)?.strip_prefix(": "))?;
        let numbers: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [most, first, next, written] = numbers[..] else { return None };
        let [first, next, written] = [first, next, written].map(Duration::from_secs_f64);
        Some(Self { most, first, next, written })
    }

    /// The best of both.
    fn min(self, other: Self) -> Self {
        Self {
            most: self.most.min(other.most),
            first: self.first.min(other.first),
            next: self.next.min(other.next),
            written: self.written.min(other.written),
        }
    }
}

/// One goal, and how far it is met.
pub(crate) struct Goal {
    what: &'static str,
    measured: f64,
    at_most: f64,
    unit: &'static str,
}

impl Goal {
    /// Whether it is met.
    pub(crate) fn holds(&self) -> bool {
        self.measured <= self.at_most
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, measured, at_most, unit } = self;
        let holds = if self.holds() { "holds" } else { "is MISSED" };
        write!(f, "the goal for {what} {holds}: {measured:.2} {unit}, at most {at_most} {unit}")
    }
}

/// The goals, by runs with the same words without and with queues, in turn.
pub(crate) fn judge(arguments: &[String]) -> Vec<Goal> {
    let words =
        arguments.iter().filter(|word| !matches!(word.as_str(), "goals" | "--goals" | "queues" | "--bench"));
    let mut words: Vec<&str> = words.map(String::as_str).chain(["rounds", FIGURES]).collect();
    // The fleet for which the goals are.
    if words.iter().all(|word| word.parse::<usize>().is_err()) {
        words.extend(["1000", "50000", "100"]);
    }
    let (mut without, mut with) = (run(&words, None), run(&words, Some("queues")));
    for _ in 1..RUNS {
        without = without.min(run(&words, None));
        with = with.min(run(&words, Some("queues")));
    }
    let times = |of: fn(&Figures) -> Duration| of(&with).as_secs_f64() / of(&without).as_secs_f64();
    let round = |what, measured| Goal { what, measured, at_most: MOST_TIMES, unit: "times as long" };
    vec![
        Goal { what: "memory", measured: with.most - without.most, at_most: MOST_MORE, unit: "MiB more" },
        round("a first round", times(|figures| figures.first)),
        round("a next round", times(|figures| figures.next)),
        round("a round after a pod was written", times(|figures| figures.written)),
    ]
}

fn run(words: &[&str], more: Option<&str>) -> Figures {
    let program = std::env::current_exe().expect("this program has a path");
    let output =
        Command::new(program).args(words).args(more).output().expect("this program can be started again");
    let said = String::from_utf8_lossy(&output.stdout);
    Figures::read(&said)
        .unwrap_or_else(|| panic!("a run says no figures: {said}{}", String::from_utf8_lossy(&output.stderr)))
}
