//! However the demo ends, all of its objects are removed.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use e2e::wait;

/// The demo, started, with a folder of its own for all that it makes.
struct Demo {
    child: Child,
    folder: tempfile::TempDir,
    out: BufReader<ChildStdout>,
}

impl Demo {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Who is started in the background by a script ignores SIGINT, and so would the demo.
        let mut child = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_slicewright-demo"), "--keep"])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, folder, out }
    }

    /// Reads until it says this.
    fn says(&mut self, part: &str) {
        let mut all = String::new();
        while !all.contains(part) {
            let read = self.out.read_line(&mut all).unwrap();
            assert!(read > 0, "it ended without {part:?}:\n{all}");
        }
    }

    fn signal(&mut self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.child.wait().unwrap();
    }
}

/// Processes that were told of a folder, with how they were called.
fn who_knows(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let called = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
    let words = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace('\0', " ");
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(called).map(words);
    all.filter(|line| line.contains(&folder)).collect()
}

fn nothing_stays_after(signal: &str) {
    let mut demo = Demo::start();
    demo.says("Virtual GPU nodes");
    let there = who_knows(demo.folder.path());
    for part in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        assert!(there.iter().any(|line| line.contains(part)), "{part} does not run: {there:#?}");
    }
    demo.signal(signal);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gone = wait::asking("nothing of the demo runs", wait::PATIENCE, async || {
        let left = who_knows(demo.folder.path());
        Ok(if left.is_empty() { Ok(()) } else { Err(left.join("\n")) })
    });
    runtime.block_on(gone).unwrap();
    let left: Vec<_> = fs::read_dir(demo.folder.path()).unwrap().flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_demo_that_is_killed_leaves_nothing_behind() {
    nothing_stays_after("-KILL");
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    nothing_stays_after("-INT");
}

#[test]
fn whoever_asks_for_help_or_mistypes_waits_for_no_control_plane() {
    let said = |arg: &str| Command::new(env!("CARGO_BIN_EXE_slicewright-demo")).arg(arg).output().unwrap();
    let help = said("--help");
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("Usage: cargo xtask demo [--keep]"));
    let wrong = said("--kep");
    assert_eq!((wrong.status.code(), wrong.stdout.len()), (Some(64), 0));
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("error: there is no option `--kep`\n"));
}

#[test]
fn a_demo_that_is_read_to_its_first_line_ends_without_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_slicewright-demo"))
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_demo_that_is_left_alone_tells_its_story_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_slicewright-demo"))
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{told}\n{}", String::from_utf8_lossy(&ended.stderr));
    assert!(!told.contains("controller::"), "the operator's log is among what people are told: {told}");
    let (before, after) = told.split_once("What people got:").unwrap();
    assert!(before.contains("How the fleet is cut now:"), "{told}");
    // Everybody who asked has an answer, and somebody has a slice.
    let asked =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/demo/workbenches.yaml"));
    let asked = e2e::objects::documents(&asked.unwrap()).unwrap();
    let names: Vec<_> = asked.iter().filter(|object| object["kind"] == "Notebook").collect();
    assert!(!names.is_empty());
    for notebook in names {
        let name = notebook["metadata"]["name"].as_str().unwrap();
        let answer = after.lines().find(|line| line.contains(&format!("/{name} ("))).unwrap_or_default();
        assert!(answer.contains(" runs on ") || answer.contains("was told: "), "{name}:\n{after}");
    }
    assert!(after.contains(" runs on ") && !after.contains("nothing yet"), "{after}");
    assert!(who_knows(folder.path()).is_empty(), "something of it still runs");
}
