//! The program under the names that the image gives it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

fn called(name: &str, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(name);
    symlink(env!("CARGO_BIN_EXE_slicewright-multicall"), &link).unwrap();
    Command::new(link).args(args).output().unwrap()
}

#[test]
fn each_name_is_the_program_that_has_it() {
    for name in ["slicewright-operator", "slicewright"] {
        let version = called(name, &["--version"]);
        let expected = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(String::from_utf8(version.stdout).unwrap(), expected);
    }
}

#[test]
fn the_command_of_the_chart_s_hook_is_there() {
    let release = called("slicewright", &["release", "--help"]);
    assert!(String::from_utf8(release.stdout).unwrap().contains("--stop-operator"));
}
