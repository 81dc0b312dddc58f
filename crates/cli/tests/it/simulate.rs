//! `slicewright simulate` and `slicewright demo`: their exit statuses, and their messages about stories
//! that fail.

use std::path::PathBuf;

/// Runs the command; gives status, output and messages.
fn run(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let line = std::iter::once("slicewright").chain(args.iter().copied()).map(Into::into);
    let status = cli::run(line, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(out), text(err))
}

/// Writes a story where only this test looks, and simulates it.
fn simulate(name: &str, story: &str, more: &[&str]) -> (u8, String, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("{name}.story"));
    std::fs::write(&file, story).expect("the story can be written");
    let file = file.to_str().expect("the path is text");
    let (status, out, err) = run(&[&["simulate", file], more].concat());
    (status, out, err.replace(file, "STORY"))
}

#[test]
fn an_expectation_that_does_not_hold_is_status_1_and_the_story_goes_on() {
    let (status, out, _) =
        simulate("missed", "node n1 1xA30\nexpect allocatable n1 1g.6gb 4\nexpect plan empty\n", &[]);
    assert_eq!(status, 1);
    assert!(
        out.contains("NOT AS EXPECTED (line 2, column 1): allocatable n1 1g.6gb 4, but it is 0"),
        "{out}"
    );
    assert!(out.contains("= plan again: no changes"), "{out}");
}

#[test]
fn a_story_that_cannot_be_read_does_not_begin() {
    let (status, out, err) = simulate("unread", "node n1 1xA30\nexpct plan empty\n", &[]);
    assert_eq!((status, out.as_str()), (65, ""));
    assert!(err.starts_with("error: STORY: line 2, column 1: there is no command `expct`"), "{err}");
    assert!(err.contains("did you mean `expect`?"), "{err}");
}

#[test]
fn a_story_that_stops_half_way_says_where_after_what_has_happened() {
    let (status, out, err) = simulate("half", "node n1 1xA30\nadvance 5m\nreboot n2\nadvance 5m\n", &[]);
    assert_eq!(status, 65);
    assert!(out.contains("> advance 5m") && out.ends_with("> reboot n2\n"), "{out}");
    assert_eq!(err, "error: STORY: line 3, column 1: there is no node `n2`; did you mean `n1`?\n");
}

#[test]
fn what_is_wrong_in_a_manifest_has_its_line_in_the_story() {
    let story = "policy:\n  apiVersion: slicewright.io/v1alpha1\n  kind: GpuPartitionPolicy\n  metadata: {name: p}\n  \
                 spec:\n    nodeSelector: {matchLabels: {a: b}}\n    layuot: {type: DemandDriven}\n";
    let (status, _, err) = simulate("manifest", story, &[]);
    assert_eq!(status, 65);
    assert!(err.contains("line 7, column 5: spec.layuot: unknown field; did you mean `layout`?"), "{err}");
}

#[test]
fn unknown_models_and_files_are_named() {
    let (status, _, err) = simulate("model", "node n1 2xA31\n", &[]);
    assert_eq!(status, 65);
    assert!(err.contains("line 1, column 9: no GPU model with MIG is called `A31`"), "{err}");
    let (status, _, err) = simulate("file", "policy nowhere.yaml\n", &[]);
    assert_eq!(status, 65);
    assert!(err.contains("line 1, column 8: nowhere.yaml: cannot be read"), "{err}");
    let (status, _, err) = run(&["simulate", "nowhere.story"]);
    assert_eq!(status, 65);
    assert!(err.starts_with("error: cannot read nowhere.story: No such file"), "{err}");
}

#[test]
fn a_story_in_which_nothing_happens_is_no_success() {
    for (name, story) in [("empty", ""), ("comments", "# Later.\n\n  # Much later.\n")] {
        let (status, out, err) = simulate(name, story, &[]);
        assert_eq!((status, out.as_str()), (65, ""), "{name}");
        assert!(err.starts_with("error: STORY: nothing happens in it; a story is a text file"), "{err}");
    }
}

#[test]
fn files_that_are_no_text_are_called_by_what_they_are() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (status, _, err) = run(&["simulate", &folder.display().to_string()]);
    assert_eq!(
        (status, err),
        (65, format!("error: cannot read {}: it is a folder; name a file in it\n", folder.display()))
    );
    let wide = folder.join("utf-16.story");
    std::fs::write(&wide, b"\xff\xfen\0o\0").expect("written");
    let (status, _, err) = run(&["simulate", &wide.display().to_string()]);
    assert_eq!(status, 65);
    assert!(err.contains("it is not a text in UTF-8 (Windows PowerShell's `>` writes UTF-16"), "{err}");
}

#[test]
fn json_is_one_entry_a_line() {
    let (status, out, _) = simulate("json", "# Hello.\nnode n1 1xA30\nfleet\n", &["-o", "json"]);
    assert_eq!(status, 0);
    let entries: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let types: Vec<&str> = entries.iter().filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(types, ["remark", "command", "command", "fleet", "command", "end", "end", "end"]);
    assert_eq!(entries[3]["picture"]["nodes"][0]["gpus"][0]["model"], "A30");
}

#[test]
fn the_demo_tells_a_day_without_its_expectations() {
    let (status, out, err) = run(&["demo", "--fast"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert!(out.contains("# 09:00. Alice opens a notebook") && !out.contains("> expect"), "{out}");
    assert!(out.contains("= no slice was taken from a pod (invariant 1)"), "{out}");
}
