//! What `solve` says to files that are wrong, and its JSON.

use std::path::Path;

use cli::exit::Status;

fn run(name: &str, text: &str) -> (Status, String, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    std::fs::write(&file, text).expect("written");
    let words =
        ["slicewright".into(), "solve".into(), file.clone().into_os_string(), "-o".into(), "json".into()];
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

#[test]
fn broken_json_is_refused_with_line_and_column() {
    let (status, _, err) = run("broken", "{\n  \"name\": \n}");
    assert_eq!(status, Status::Data);
    assert_eq!(err, "error: FILE: not a planning problem: expected value at line 3 column 1\n");
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
