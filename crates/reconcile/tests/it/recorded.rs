//! Recordings that an editor, a script or a broken disk has changed: each is refused with its place, or planned
//! for. Planning one ends with the work that it is allowed, and its plan breaks no rule.
//!
//! Objects with defects are in `mangled`; here the text is changed, as it is in a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use observe::problem::{Problem, Severity};
use observe::snapshot;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use reconcile::{Input, Obstacles, PlannedRound, Session, Settings};

/// What the solver may be asked while a plan for one of these fleets is made and explained: a few programs for
/// the plan, and those of the trials, of which there are at most some tens for so few GPUs. The work for each
/// is limited by its effort.
const MOST_QUESTIONS: u64 = 2_000;

/// The recordings that are changed.
fn recordings() -> &'static [String] {
    static TEXTS: OnceLock<Vec<String>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let example = |path: &str| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
            std::fs::read_to_string(path).unwrap()
        };
        vec![example("examples/fleet/lab.yaml"), example("examples/policy-repo/fleets/lab.yaml"), machines()]
    })
}

/// Three machines with eight GPUs that are short of CPU and memory, a pod on one of them, and thirty that wait.
fn machines() -> String {
    let mut text =
        "apiVersion: snapshot.slicewright.io/v1\nkind: Snapshot\ntakenAt: 2026-11-20T08:00:00Z\nobjects:\n"
            .to_owned();
    for (name, config, offers) in [
        ("hgx-1", "all-7g.80gb", "nvidia.com/mig-7g.80gb: \"8\""),
        ("hgx-2", "all-1g.10gb", "nvidia.com/mig-1g.10gb: \"56\""),
        ("hgx-3", "all-3g.40gb", "nvidia.com/mig-3g.40gb: \"16\""),
    ] {
        write!(
            text,
            "  - apiVersion: v1
    kind: Node
    metadata:
      name: {name}
      labels:
        slicewright.io/pool: research
        nvidia.com/gpu.present: \"true\"
        nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
        nvidia.com/gpu.count: \"8\"
        nvidia.com/mig.capable: \"true\"
        nvidia.com/mig.strategy: mixed
        nvidia.com/mig.config: {config}
        nvidia.com/mig.config.state: success
    status:
      allocatable:
        cpu: \"64\"
        memory: 256Gi
        pods: \"110\"
        {offers}
      conditions: [{{type: Ready, status: \"True\"}}]
"
        )
        .unwrap();
    }
    let profiles = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"];
    for i in 0..31 {
        let (profile, cpu, memory) = (profiles[i % 4], 2 + i % 3 * 4, 8 + i % 5 * 8);
        let (place, status) = match i {
            0 => ("\n      nodeName: hgx-1", "{phase: Running}".to_owned()),
            _ => ("", "{phase: Pending, conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable, message: full}]}".to_owned()),
        };
        let profile = if i == 0 { "7g.80gb" } else { profile };
        write!(
            text,
            "  - apiVersion: v1
    kind: Pod
    metadata:
      name: p{i:02}
      namespace: team
      creationTimestamp: 2026-11-20T07:{i:02}:00Z
    spec:{place}
      containers:
        - name: main
          resources:
            limits:
              cpu: \"{cpu}\"
              memory: {memory}Gi
              nvidia.com/mig-{profile}: \"1\"
    status: {status}
"
        )
        .unwrap();
    }
    text
}

/// What happens to a line.
#[derive(Clone, Debug)]
enum Damage {
    Lost,
    Twice,
    /// It stands where another one stood.
    Moved(Index),
    /// What follows its colon is something else.
    Is(&'static str),
    /// What follows its colon is what follows the colon of another line.
    Like(Index),
    /// Everything after it is lost.
    CutOff,
}

fn damage() -> impl Strategy<Value = Damage> {
    let odd = select(vec![
        "",
        "null",
        "\"\"",
        "x",
        "-1",
        "0",
        "1",
        "7",
        "255",
        "70000",
        "4294967296",
        "18446744073709551615",
        "1.5",
        "\"1e9\"",
        "500m",
        "9Ei",
        "true",
        "[]",
        "{}",
        "\"8\"",
        "\"56\"",
        "hgx-1",
        "all-1g.10gb",
        "1g.10gb",
        "7g.80gb",
        "NVIDIA-A30",
        "2026-11-20T09:00:00Z",
        "9999-12-31T23:59:59Z",
        "Succeeded",
    ]);
    prop_oneof![
        3 => Just(Damage::Lost),
        1 => Just(Damage::Twice),
        1 => any::<Index>().prop_map(Damage::Moved),
        8 => odd.prop_map(Damage::Is),
        4 => any::<Index>().prop_map(Damage::Like),
        1 => Just(Damage::CutOff),
    ]
}

fn after_the_colon(line: &str) -> Option<(&str, &str)> {
    let at = line.find(": ").map(|at| at + 2)?;
    Some(line.split_at(at))
}

/// A recording after some damage.
fn damaged(recording: Index, damages: &[(Index, Damage)]) -> String {
    let mut lines: Vec<String> = recording.get(recordings()).lines().map(str::to_owned).collect();
    for (place, damage) in damages {
        if lines.is_empty() {
            break;
        }
        let at = place.index(lines.len());
        match damage {
            Damage::Lost => drop(lines.remove(at)),
            Damage::Twice => lines.insert(at, lines[at].clone()),
            Damage::Moved(to) => {
                let to = to.index(lines.len());
                lines.swap(at, to);
            }
            Damage::Is(odd) => {
                let changed = after_the_colon(&lines[at]).map(|(key, _)| format!("{key}{odd}"));
                lines[at] = changed.unwrap_or_else(|| (*odd).to_owned());
            }
            Damage::Like(other) => {
                let other = other.index(lines.len());
                let value = after_the_colon(&lines[other]).map(|(_, value)| value.to_owned());
                if let (Some((key, _)), Some(value)) = (after_the_colon(&lines[at]), value) {
                    lines[at] = format!("{key}{value}");
                }
            }
            Damage::CutOff => lines.truncate(at + 1),
        }
    }
    lines.join("\n")
}

const POLICY: &str = "\
apiVersion: slicewright.io/v1alpha1
kind: GpuPartitionPolicy
metadata: {name: recorded}
spec:
  nodeSelector: {matchExpressions: [{key: slicewright.io/pool, operator: Exists}]}
  layout: {type: DemandDriven, demandDriven: {order: OldestFirst}}
";

/// What is planned for a recording, and how much the solver was asked; or why it is refused.
fn planned(text: &str) -> Result<(PlannedRound, u64), Vec<Problem>> {
    let mut problems = Vec::new();
    let mut snapshot = snapshot::read("fleet.yaml", text, &mut problems);
    let _ = observe::manifest::read_all(&mut snapshot.objects, [("policy.yaml", POLICY)], &mut problems);
    problems.retain(|problem| problem.severity == Severity::Error);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut session = Session::default();
    let input = Input {
        objects: &snapshot.objects,
        local: &BTreeMap::new(),
        map_changed: None,
        obstacles: &Obstacles::NONE,
        settings: &Settings::default(),
        now: snapshot.taken_at,
    };
    let planned = reconcile::plan_next_round(&input, &mut session);
    Ok((planned, session.searched()))
}

fn cases() -> impl Strategy<Value = (Index, Vec<(Index, Damage)>)> {
    (any::<Index>(), vec((any::<Index>(), damage()), 1..4))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(18), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_recording_is_refused_with_its_place_or_planned_for_within_bounds((recording, damages) in cases()) {
        let text = damaged(recording, &damages);
        match planned(&text) {
            Err(problems) => {
                for problem in problems {
                    let told = problem.to_string();
                    prop_assert!(told.contains("fleet.yaml"), "it says where: {}", told);
                }
            }
            Ok((planned, questions)) => {
                let fatal: Vec<String> = planned.plan.fatal().map(ToString::to_string).collect();
                prop_assert_eq!(fatal, Vec::<String>::new(), "{}", text);
                prop_assert!(planned.report.gave_up.is_none(), "{}", text);
                prop_assert!(questions <= MOST_QUESTIONS, "{} questions: {}", questions, text);
            }
        }
    }
}

/// Damage that nobody notices, or that nothing survives, would prove nothing.
#[test]
fn some_damaged_recordings_are_refused_and_of_others_other_plans_are_made() {
    let whole: Vec<_> = recordings().iter().map(|text| planned(text).expect("it is whole").0).collect();
    assert!(whole.iter().all(|planned| !planned.report.requests.is_empty()));
    assert!(whole.iter().any(|planned| !planned.plan.steps.is_empty()));
    let mut runner = TestRunner::deterministic();
    let (mut refused, mut others) = (0, 0);
    for _ in 0..80 {
        let (recording, damages) = cases().new_tree(&mut runner).expect("a case").current();
        match planned(&damaged(recording, &damages)) {
            Err(_) => refused += 1,
            Ok((planned, _)) => {
                let as_it_was = recording.get(&whole);
                others += usize::from(planned.report != as_it_was.report);
            }
        }
    }
    assert!(refused >= 15 && others >= 10, "{refused} of 80 are refused, {others} are planned otherwise");
}
