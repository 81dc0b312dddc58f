//! The messages of `solve` about invalid files, and its JSON.

use std::path::Path;

use cli::exit::Status;

fn run(name: &str, text: &str) -> (Status, String, String) {
    run_with(name, text, &["-o", "json"])
}

fn run_with(name: &str, text: &str, more: &[&str]) -> (Status, String, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    std::fs::write(&file, text).expect("written");
    let words = ["slicewright".into(), "solve".into(), file.clone().into_os_string()];
    let words = words.into_iter().chain(more.iter().map(Into::into));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(words, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("text").replace(&*file.to_string_lossy(), "FILE");
    (status, text(out), text(err))
}

const RIGHT: &str = r#"{"name": "t", "rules": {
  "geometry": {"A30": {"1g.6gb": {"compute": 1, "size": 1, "starts": [0, 1, 2, 3]}, "2g.12gb": {"compute": 2, "size": 2, "starts": [0, 2]}}},
  "totals": {"A30": {"compute": 4, "memory": 4}}},
 "gpus": [{"id": "n/0", "node": "n", "model": "A30", "in_use": [{"profile": "1g.6gb", "start": 1}], "idle": []}],
 "demand": {"2g.12gb": 1}, "weights": {"2g.12gb": 2}}"#;

#[track_caller]
fn refused(name: &str, from: &str, to: &str, expect: &str) {
    assert!(RIGHT.contains(from));
    let (status, out, err) = run(name, &RIGHT.replacen(from, to, 1));
    assert_eq!((status, out.as_str()), (Status::Data, ""), "{err}");
    assert_eq!(err, expect);
}

#[test]
fn the_answer_has_changes_objectives_and_a_certificate() {
    let (status, out, err) = run("right", RIGHT);
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["changes"][0]["gpu"], "n/0");
    assert_eq!(json["changes"][0]["final"], serde_json::json!([["1g.6gb", 1], ["2g.12gb", 2]]));
    assert_eq!(json["objectives"]["unserved_weight"], 0);
    assert_eq!(json["certificate"]["operations"]["proven"], true);
}

/// Of three GPUs, whose fewest operations take some search to be proved.
const HARD: &str = r#"{"name": "hard", "rules": {
  "geometry": {"A100-80GB": {
    "1g.10gb": {"compute": 1, "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]}, "2g.20gb": {"compute": 2, "size": 2, "starts": [0, 2, 4]},
    "3g.40gb": {"compute": 3, "size": 4, "starts": [0, 4]}, "7g.80gb": {"compute": 7, "size": 8, "starts": [0]}}},
  "totals": {"A100-80GB": {"compute": 7, "memory": 8}}},
 "gpus": [{"id": "a", "node": "n", "model": "A100-80GB", "in_use": [], "idle": []},
  {"id": "b", "node": "n", "model": "A100-80GB", "in_use": [], "idle": [{"profile": "2g.20gb", "start": 2}, {"profile": "1g.10gb", "start": 4}]},
  {"id": "c", "node": "n", "model": "A100-80GB", "in_use": [], "idle": []}],
 "demand": {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
 "weights": {"1g.10gb": 6, "2g.20gb": 4, "3g.40gb": 2, "7g.80gb": 2}}"#;

/// That no plan is better is said where everything is proved, and nowhere else.
#[test]
fn a_search_that_is_given_up_has_a_status_of_its_own_and_says_how_far_from_the_best_it_may_be() {
    let (status, out, err) = run_with("given-up", HARD, &["--effort", "1"]);
    assert_eq!((status, status.code(), err.as_str()), (Status::GaveUp, 7, ""));
    let open = "a better plan may exist: slices created and destroyed is 12, and cannot be below 10";
    assert_eq!(out.lines().nth(1), Some(format!("3 of 3 GPUs change; {open}").as_str()), "{out}");
    assert!(!out.contains("no plan is better"), "{out}");
    let (status, out, err) = run_with("searched", HARD, &[]);
    assert_eq!((status, err.as_str()), (Status::Success, ""), "{out}");
    assert_eq!(out.lines().nth(1), Some("3 of 3 GPUs change; no plan is better"), "{out}");
}

#[test]
fn broken_json_is_refused_with_line_and_column() {
    let (status, _, err) = run("broken", "{\n  \"name\": \n}");
    assert_eq!(status, Status::Data);
    assert_eq!(err, "error: FILE: not a planning problem: expected value at line 3 column 1\n");
}

#[test]
fn a_file_of_another_kind_is_refused_with_what_a_problem_is() {
    let what = "a problem is a JSON file, as examples/problems/morning.json of the repository";
    let (status, _, err) = run("empty", "\n");
    assert_eq!((status, err), (Status::Data, format!("error: FILE: the file is empty; {what}\n")));
    let (_, _, err) = run("yaml", "kind: Snapshot\n");
    assert!(
        err.starts_with("error: FILE: not a planning problem: ") && err.ends_with(&format!("; {what}\n")),
        "{err}"
    );
}

#[test]
fn a_geometry_that_contradicts_a_known_model_is_refused() {
    refused(
        "starts",
        "\"starts\": [0, 2]",
        "\"starts\": [0, 1, 2]",
        "error: FILE: rules.geometry.A30.2g.12gb.starts: [0, 1, 2] contradicts A30, which has [0, 2]; correct it, or give the model another name\n",
    );
    refused(
        "totals",
        "\"memory\": 4",
        "\"memory\": 5",
        "error: FILE: rules.totals.A30.memory: 5 contradicts A30, which has 4; correct it, or give the model another name\n",
    );
}

#[test]
fn a_start_off_the_grid_and_an_unknown_model_are_refused() {
    refused(
        "start",
        "\"start\": 1",
        "\"start\": 7",
        "error: FILE: gpus[0] (n/0).in_use[0]: 1g.6gb cannot start at 7; it starts at 0, 1, 2, 3\n",
    );
    refused(
        "model",
        "\"model\": \"A30\"",
        "\"model\": \"A31\"",
        "error: FILE: gpus[0] (n/0).model: there is no model `A31` in rules.geometry; there are A30\n",
    );
}
