//! `-` is standard input: what is piped in is read as if its file were named.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FLEET: &str = "examples/fleet/lab.yaml";
const POLICY: &str = "examples/first/policy.yaml";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The command in the root of the repository, with this text piped in.
fn piped(words: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .args(words.split(' '))
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses before reading closes the pipe; what it says is looked at below.
    let _ = command.stdin.take().unwrap().write_all(input.as_bytes());
    command.wait_with_output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).unwrap()
}

#[test]
fn what_is_piped_in_is_read_as_if_its_file_were_named() {
    for (words, file) in [
        ("fleet --fleet -", FLEET),
        ("fleet --fleet - -o json", FLEET),
        ("plan --fleet - -f examples/policies", FLEET),
        ("plan --fleet examples/fleet/lab.yaml -f -", POLICY),
        ("explain request team-a/fraud-lab-0 --fleet - -f examples/policies", FLEET),
        ("solve -", "examples/problems/morning.json"),
    ] {
        let named: Vec<&str> = words.split(' ').map(|word| if word == "-" { file } else { word }).collect();
        let named = piped(&named.join(" "), "");
        let input = piped(words, &text(file));
        assert_eq!(said(&input.stderr), said(&named.stderr), "{words}");
        assert_eq!(input.status.code(), named.status.code(), "{words}");
        assert!(!named.stdout.is_empty() && said(&input.stdout) == said(&named.stdout), "{words}");
    }
}

#[test]
fn a_story_is_read_from_standard_input() {
    let told = piped("simulate -", "node n1 1xA100-80GB\nrun until quiet\n");
    let out = said(&told.stdout);
    assert!(told.status.success(), "{out}{}", said(&told.stderr));
    assert!(out.contains("> node n1 1xA100-80GB") && out.contains("> the end"), "{out}");
}

#[test]
fn what_is_wrong_with_it_is_said_of_standard_input_and_it_is_read_once() {
    let wrong = piped("fleet --fleet -", "nonsense: [");
    let err = said(&wrong.stderr);
    assert!(!wrong.status.success() && err.contains("standard input"), "{err}");
    // Nobody waits for a text that two want.
    for words in
        ["plan --fleet - -f -", "explain node gpu-1 --fleet - -f -", "profiles export --fleet - -f -"]
    {
        let both = piped(words, "");
        let err = said(&both.stderr);
        assert!(
            both.status.code() == Some(64) && err.contains("cannot both be standard input"),
            "{words}: {err}"
        );
    }
}
