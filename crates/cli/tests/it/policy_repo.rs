//! `examples/policy-repo` as a whole: the script that its workflows run, on a
//! good change, on one that breaks an expectation, and on a new cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A child of another test has, until it runs its own program, every file open
/// that is being written here; and a script that somebody writes cannot be run.
static ONE_WRITES_OR_STARTS: Mutex<()> = Mutex::new(());

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policy-repo")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

/// A change of the repository, as the workflows judge it: the exit status of
/// `plan.sh` and the comment.
fn judged(name: &str, change: impl FnOnce(&Path)) -> (i32, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policy-repo").join(name);
    let _ = fs::remove_dir_all(&folder);
    let (before, after) = (folder.join("before"), folder.join("after"));
    let running = {
        let _one = ONE_WRITES_OR_STARTS.lock().unwrap_or_else(PoisonError::into_inner);
        copy(&example(), &before);
        copy(&example(), &after);
        change(&after);
        // As the workflows do: the script is that of the branch before.
        Command::new("../before/plan.sh")
            .args(["lab", "../before", "comment.md"])
            .current_dir(&after)
            .env("SLICEWRIGHT", env!("CARGO_BIN_EXE_slicewright"))
            // An hour after the fleet was recorded.
            .env("NOW", "2026-11-22T09:20:33Z")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let output = running.wait_with_output().unwrap();
    let comment = fs::read_to_string(after.join("comment.md")).unwrap();
    (output.status.code().unwrap(), format!("{comment}{}", String::from_utf8_lossy(&output.stderr)))
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from} in {}", file.display());
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn the_repository_as_it_is_holds_all_that_it_expects() {
    let (status, comment) = judged("same", |_| {});
    assert_eq!(status, 0, "{comment}");
    assert!(comment.starts_with("**lab: nobody loses a slice; "), "{comment}");
    assert!(comment.lines().next().unwrap().ends_with("4 expectations hold**"), "{comment}");
    assert!(comment.contains("the policies are the same as before"), "{comment}");
    assert!(
        comment.trim_end().ends_with("<!-- slicewright-plan:lab -->"),
        "the workflows find it by its last line"
    );
}

#[test]
fn a_change_that_breaks_an_expectation_fails_the_check_and_says_what_to_do() {
    let (status, comment) = judged("broken", |repository| {
        let slices = "[{profile: 1g.6gb, count: 4}]";
        replace(&repository.join("clusters/lab/teaching.yaml"), slices, "[{profile: 2g.12gb, count: 2}]");
    });
    assert_eq!(status, 4, "{comment}");
    let says = "- **a course of four fits into the teaching pool** (it held before this change)<br>minSlices is 4, but when the plan is done, there are 0 x 1g.6gb. Next: 4 can be reached: add more 1g.6gb in spec.layout.static.gpus of policy teaching";
    assert!(comment.contains(says), "{comment}");
    assert!(comment.contains("| `gpu-3/gpu0` | 4 x 1g.6gb | stays | 2 x 2g.12gb |"), "{comment}");
}

#[test]
fn a_policy_that_cannot_be_read_fails_the_check_with_its_place() {
    let (status, said) = judged("misspelt", |repository| {
        replace(&repository.join("base/research.yaml"), "spareCount", "sparCount");
    });
    assert_eq!(status, 65, "{said}");
    assert!(said.contains("research.yaml:13:") && said.contains("did you mean `spareCount`?"), "{said}");
}

#[test]
fn a_cluster_that_is_new_is_compared_with_nothing() {
    let (status, comment) = judged("new", |repository| {
        fs::remove_dir_all(repository.join("../before/clusters")).unwrap();
    });
    assert_eq!(status, 0, "{comment}");
    assert!(comment.contains("- `research` is added"), "{comment}");
}

/// Recordings of earlier releases have nanoseconds.
#[test]
fn nobody_is_told_the_time_of_a_recording_more_exactly_than_to_the_second() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policy-repo").join("seconds");
    fs::create_dir_all(&folder).unwrap();
    let text = fs::read_to_string(example().join("fleets/lab.yaml")).unwrap();
    let exact = text.replace("takenAt: 2026-11-22T08:20:36Z", "takenAt: 2026-11-22T08:20:35.124236395Z");
    assert_ne!(text, exact, "the example has whole seconds");
    let fleet = folder.join("lab.yaml");
    fs::write(&fleet, exact).unwrap();
    for (words, output) in
        [("plan", "text"), ("plan", "markdown"), ("plan", "html"), ("plan", "json"), ("fleet", "html")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slicewright"));
        command.arg(words).arg("--fleet").arg(&fleet).args(["-o", output]);
        if words == "plan" {
            command.arg("-f").arg(example().join("clusters/lab"));
        }
        let found = command.output().unwrap();
        let said = String::from_utf8_lossy(&found.stdout);
        assert!(said.contains("2026-11-22T08:20:35Z"), "{words} -o {output}: {found:?}");
        assert!(!said.contains("08:20:35.1"), "{words} -o {output}");
    }
}
