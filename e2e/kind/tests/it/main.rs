//! The command line, on a machine on which no cluster of ours runs: nothing here starts one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

/// What a command line says with a folder of its own: standard output, standard error, status.
fn kind(home: &Path, words: &[&str]) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slicewright-kind"));
    // A folder of the tester's would be the tester's cluster.
    for name in ["SLICEWRIGHT_KIND", "SLICEWRIGHT_SIM", "SLICEWRIGHT_SIM_LIBRARY", "SLICEWRIGHT_IMAGES"] {
        command.env_remove(name);
    }
    let output = command.args(words).env("HOME", home).env("XDG_CACHE_HOME", "relative").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

#[test]
fn a_worker_that_cannot_be_is_refused_before_anything_begins() {
    let home = tempfile::tempdir().unwrap();
    let (_, error, status) = kind(home.path(), &["up", "--worker", "17xA30"]);
    assert_eq!(status, 2);
    assert!(
        error.contains("\"17xA30\" is not COUNTxMODEL, such as 2xA100-80GB, with 1 to 16 GPUs"),
        "{error}"
    );
    assert!(!home.path().join(".cache").exists(), "nothing was made");
}

#[test]
fn the_files_are_in_the_cache_of_the_user_and_a_relative_one_is_no_cache() {
    let home = tempfile::tempdir().unwrap();
    let (said, error, status) = kind(home.path(), &["story", "--list"]);
    assert_eq!((error.as_str(), status), ("", 0));
    assert!(said.lines().any(|line| line.starts_with("reboot ")), "{said}");
    assert!(home.path().join(".cache/slicewright/kind").is_dir());
}

#[test]
fn without_a_cluster_each_task_says_how_to_get_one_and_down_does_nothing() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("place");
    let folder = folder.to_str().unwrap();
    let (said, _, status) = kind(home.path(), &["--folder", folder, "status"]);
    assert_eq!(status, 0);
    assert!(said.contains("\ncluster  none (`cargo xtask kind up`)\n"), "{said}");
    for words in [&["run", "kubectl", "get", "nodes"][..], &["story", "reboot"], &["logs", "/nowhere"]] {
        let (said, error, status) = kind(home.path(), &[&["--folder", folder], words].concat());
        let advice = "error: no cluster runs: bring one up with `cargo xtask kind up`\n";
        assert_eq!((said.as_str(), error.as_str(), status), ("", advice, 1), "{words:?}");
    }
    let (said, _, status) = kind(home.path(), &["--folder", folder, "down"]);
    assert_eq!(status, 0);
    assert!(
        said.ends_with("nothing of the cluster is left; node images are kept for the next one\n"),
        "{said}"
    );
}

#[test]
fn a_program_must_be_named_to_be_run() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(kind(home.path(), &["run"]).2, 2);
}
