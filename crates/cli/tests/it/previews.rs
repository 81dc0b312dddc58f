//! A preview's statements about its recording and about the reviewed plan, and its colours.

use std::fs;
use std::path::{Path, PathBuf};

use cli::exit::Status;
use serde_json::Value;

use crate::plan::run;

const FLEET: &str = include_str!("../../../../examples/fleet/lab.yaml");
const RESEARCH: &str = include_str!("../../../../examples/policies/research.yaml");
const PLAN: &str = "plan --fleet examples/fleet/lab.yaml -f examples/policies";

/// A file of this test.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("previews").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// The policy of the examples with the annotations that its plan prints.
fn reviewed(folder: &str) -> PathBuf {
    let (_, json, _) = run(&format!("{PLAN} -o json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let annotations = &json["provenance"]["annotations"];
    assert!(annotations.is_object(), "{annotations}");
    let named = format!("  name: research\n  annotations: {annotations}\n");
    file(&format!("{folder}/research.yaml"), &RESEARCH.replacen("  name: research\n", &named, 1))
}

#[test]
fn what_was_reviewed_is_what_is_planned_as_long_as_nothing_moves() {
    let policies = reviewed("same");
    let (status, out, err) = run(&format!("plan --fleet examples/fleet/lab.yaml -f {}", policies.display()));
    assert_eq!((status, err.as_str()), (Status::Changes, ""), "{out}");
    assert!(!out.contains("REFUSED"), "{out}");
}

/// The words for a plan that is another one than the reviewed one.
pub(crate) fn moved(folder: &str) -> String {
    let policies = reviewed(folder);
    // Since the review somebody asks for more than what was spare.
    let pod = "\n  - apiVersion: v1\n    kind: Pod\n    metadata: {namespace: team-c, name: late, creationTimestamp: 2026-11-20T07:59:00Z}\n    spec: {containers: [{name: t, resources: {limits: {nvidia.com/mig-2g.20gb: \"1\"}}}]}\n    status: {phase: Pending, conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable, message: full}]}\n";
    let fleet = file(&format!("{folder}/fleet.yaml"), &format!("{}{pod}", FLEET.trim_end()));
    format!("plan --fleet {} -f {}", fleet.display(), policies.display())
}

#[test]
fn a_plan_other_than_the_one_that_was_reviewed_is_refused_with_a_status_of_its_own() {
    let words = moved("moved");
    let (status, out, err) = run(&words);
    assert_eq!((status, err.as_str()), (Status::NotReviewed, ""), "{out}");
    assert_eq!(status.code(), 6, "scripts read the number");
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("lab: REFUSED, another plan was reviewed; "), "{first}");
    assert!(
        out.contains("\nThe plan differs from the reviewed plan\n  policy research: the plan is "),
        "{out}"
    );
    assert!(out.contains("what is asked for moved (now "), "{out}");
    assert!(out.contains("  next: review this plan, and commit its annotations"), "{out}");
    let (status, comment, _) = run(&format!("{words} -o markdown"));
    assert_eq!(status, Status::NotReviewed);
    assert!(comment.starts_with("**lab: REFUSED, another plan was reviewed; "), "{comment}");
}

/// A kustomization with the annotations that the plan of the examples prints,
/// once more with a base of which it sets them.
fn kustomized(folder: &str, annotations: &Value) -> PathBuf {
    let outer = format!("resources: [base]\ncommonAnnotations: {annotations}\n");
    // What the object and the base say themselves is no match for what is set outside.
    let named = "  name: research\n  annotations: {slicewright.io/reviewed-plan: none}\n";
    file(&format!("{folder}/base/research.yaml"), &RESEARCH.replacen("  name: research\n", named, 1));
    let base = "resources: [research.yaml]\ncommonAnnotations: {slicewright.io/reviewed-plan: older}\n";
    file(&format!("{folder}/base/kustomization.yaml"), base);
    file(&format!("{folder}/kustomization.yaml"), &outer).parent().unwrap().to_owned()
}

#[test]
fn a_reviewed_plan_that_a_kustomization_names_once_is_compared_as_one_on_the_policy() {
    let (_, json, _) = run(&format!("{PLAN} -o json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let annotations = &json["provenance"]["annotations"];
    let folder = kustomized("kustomized-same", annotations);
    let (status, out, err) = run(&format!("plan --fleet examples/fleet/lab.yaml -f {}", folder.display()));
    assert_eq!((status, err.as_str()), (Status::Changes, ""), "{out}");

    let folder = kustomized("kustomized-moved", annotations);
    let words = moved("kustomized-fleet");
    let fleet = words.split_whitespace().nth(2).unwrap();
    let (status, out, err) = run(&format!("plan --fleet {fleet} -f {}", folder.display()));
    assert_eq!((status, err.as_str()), (Status::NotReviewed, ""), "{out}");
    assert!(out.contains("policy research: the plan is "), "{out}");
}

#[test]
fn annotations_of_a_kustomization_that_are_no_texts_are_refused_with_their_place() {
    for (name, annotations, expect) in [
        (
            "number",
            "{a: b, c: 3}",
            "kustomization.yaml:2:30: commonAnnotations.c: is the number 3; a text is needed: write \"3\", with quotes\n",
        ),
        ("list", "[a]", "kustomization.yaml:2:20: commonAnnotations: is a list; a map is needed\n"),
        ("word", "a", "kustomization.yaml:2:20: commonAnnotations: is the text `a`; a map is needed\n"),
    ] {
        file(&format!("kustomized-{name}/research.yaml"), RESEARCH);
        let text = format!("resources: [research.yaml]\ncommonAnnotations: {annotations}\n");
        let folder = file(&format!("kustomized-{name}/kustomization.yaml"), &text);
        let folder = folder.parent().unwrap().display();
        let (status, out, err) = run(&format!("plan --fleet examples/fleet/lab.yaml -f {folder}"));
        assert_eq!((status, out.as_str()), (Status::Data, ""), "{name}");
        assert!(err.ends_with(expect), "{name}: {err}");
    }
    file("kustomized-empty/research.yaml", RESEARCH);
    let text = "resources: [research.yaml]\ncommonAnnotations:\n";
    let folder = file("kustomized-empty/kustomization.yaml", text);
    let folder = folder.parent().unwrap().display();
    let (status, _, err) = run(&format!("plan --fleet examples/fleet/lab.yaml -f {folder}"));
    assert_eq!((status, err.as_str()), (Status::Changes, ""));
}

#[test]
fn the_age_of_the_recording_is_told_and_an_old_one_is_a_warning() {
    let (_, silent, _) = run(PLAN);
    assert!(!silent.contains(" old"), "without a clock there is no age: {silent}");

    let (status, out, _) = run(&format!("{PLAN} --now 2026-11-21T08:00:00Z"));
    assert_eq!(status, Status::Changes);
    assert!(out.contains(" taken at 2026-11-20T08:00:00Z, 1 d old, by slicewright "), "{out}");
    assert!(!out.contains("warning"), "a day is not more than a day: {out}");

    let (status, out, _) = run(&format!("{PLAN} --now 2026-11-21T08:00:01Z"));
    assert_eq!(status, Status::Changes, "an old recording refuses nothing");
    let warning = "  warning    the fleet was recorded 1 d 1 s ago, which is more than 1 d: it may be out of date; record it again with `slicewright snapshot`\n";
    assert!(out.contains(warning), "{out}");

    let (_, out, _) = run(&format!("{PLAN} --now 2026-11-20T10:00:00Z --max-age 1h"));
    assert!(out.contains("recorded 2 h ago, which is more than 1 h: "), "{out}");
    let (_, out, _) = run(&format!("{PLAN} --now 2026-11-20T10:00:00Z --max-age 1h30m"));
    assert!(out.contains("recorded 2 h ago, which is more than 1 h 30 min: "), "{out}");
    let (_, out, _) = run(&format!("{PLAN} --now 2026-11-20T10:00:00Z --max-age 121m"));
    assert!(!out.contains("which is more than"), "{out}");
    let (_, json, _) = run(&format!("{PLAN} --now 2026-11-20T10:00:00Z -o json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["provenance"]["ageSeconds"], 7200);
}

/// What an age is.
const AGE: &str = "write whole days, hours and minutes, each with its unit and in this order, such as 24h, 90m, 1h30m or 7d";

#[test]
fn a_wrong_time_or_age_is_refused_with_what_is_right() {
    for (words, expect) in [
        ("--now yesterday", "write a time such as 2026-11-20T08:00:00Z, or `clock`"),
        ("--now clock --max-age 3w", AGE),
        ("--now clock --max-age 99999999999999999d", AGE),
        ("--now clock --max-age 30", AGE),
        ("--now clock --max-age 1.5h", AGE),
        ("--now clock --max-age -1h", AGE),
        ("--now clock --max-age +1h", AGE),
        ("--now clock --max-age 30m1h", AGE),
        ("--now clock --max-age h", AGE),
        ("--max-age 3d", "--now"),
    ] {
        let (status, _, err) = run(&format!("{PLAN} {words}"));
        assert_eq!(status, Status::Usage, "{words}");
        assert!(err.contains(expect), "{words}: {err}");
    }
}

/// The text without its colours.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

#[test]
fn colours_say_how_bad_it_is_and_change_no_word() {
    let (_, without, _) = run(PLAN);
    assert!(!without.contains('\u{1b}'), "{without}");
    let (_, with, _) = run(&format!("{PLAN} --color always"));
    assert_eq!(plain(&with), without);
    let first = |text: &str| text.lines().next().unwrap().to_owned();
    assert!(first(&with).starts_with("\u{1b}[1m\u{1b}[32m"), "nothing is wrong: green: {:?}", first(&with));

    let none = file("none/notes.yaml", "a: note\n");
    let none = none.parent().unwrap().display();
    let words =
        format!("plan --fleet examples/fleet/lab.yaml --base examples/policies -f {none} --color always");
    let (status, lost, _) = run(&words);
    assert_eq!(status, Status::Loss);
    assert!(first(&lost).starts_with("\u{1b}[1m\u{1b}[31m"), "people lose: red: {:?}", first(&lost));
}
