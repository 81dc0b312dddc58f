//! The workflow files of `examples/policy-repo`, for GitHub, GitLab and
//! Tekton: every script in them is run as its forge would run it, in a clone,
//! with real git, curl and jq. The forge itself is a server that keeps
//! comments; there is no runner.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tempfile::TempDir;

/// One hour after the fleet of the example was recorded.
const NOW: &str = "2026-11-22T09:20:33Z";
/// What the forge gives to who may comment.
const TOKEN: &str = "a-token-of-the-forge";
/// Where a runner has its programs.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin";

/// This machine, as archives name it.
fn system() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "linux-arm64",
        _ => "linux-amd64",
    }
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policy-repo")
}

/// Whether everything is there that the scripts call; where not, it is said which test is left out.
#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
fn can_run(test: &str) -> bool {
    let missing: Vec<&str> = ["git", "curl", "jq", "bash"]
        .into_iter()
        .filter(|program| Command::new(program).arg("--version").output().is_err())
        .collect();
    if !missing.is_empty() {
        println!("{test} is left out: {} is missing", missing.join(", "));
    }
    missing.is_empty()
}

/// A repository with the example, a clone of it with a change, and what the workflows leave there.
struct Bench {
    home: TempDir,
}

impl Bench {
    fn new(change: impl FnOnce(&Path)) -> Self {
        Self::with_main(|_| {}, change)
    }

    /// The same, where the default branch differs from the example.
    fn with_main(main: impl FnOnce(&Path), change: impl FnOnce(&Path)) -> Self {
        let bench = Self { home: TempDir::new().unwrap() };
        let origin = bench.path("origin");
        copy(&example(), &origin);
        main(&origin);
        bench.publish(&origin);
        Bench::git(&origin, &["init", "--quiet", "--initial-branch=main"]);
        Bench::commit(&origin);
        Bench::git(bench.home.path(), &["clone", "--quiet", "origin", "change"]);
        Bench::git(&bench.path("change"), &["switch", "--quiet", "--create", "change"]);
        change(&bench.path("change"));
        Bench::commit(&bench.path("change"));
        bench
    }

    /// A release, as `install.sh` finds one, and its digest in that file. The archive's program starts the one that these
    /// tests are about.
    fn publish(&self, repository: &Path) {
        let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_slicewright"));
        let version = env!("CARGO_PKG_VERSION");
        let release = self.path("releases").join(format!("v{version}"));
        fs::create_dir_all(&release).unwrap();
        let program = release.join("slicewright");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let archive = release.join(format!("slicewright-v{version}-{}.tar.gz", system()));
        let mut tar = Command::new("tar");
        tar.arg("-czf").arg(&archive).arg("-C").arg(&release).arg("slicewright");
        assert!(tar.status().unwrap().success());
        let sum = Command::new("sha256sum").arg(&archive).output().unwrap();
        let digest = String::from_utf8(sum.stdout).unwrap()[..64].to_owned();
        let file = repository.join("install.sh");
        let text = fs::read_to_string(&file).unwrap();
        let pinned = text.replace(&"0".repeat(64), &digest);
        assert_ne!(pinned, text, "the example has digests of zeros");
        fs::write(file, pinned).unwrap();
    }

    /// Where the releases are.
    fn releases(&self) -> String {
        format!("file://{}", self.path("releases").display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn git(folder: &Path, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Test", "-c", "user.email=test@example.com"]).args(words);
        let output = command.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(folder: &Path) {
        Self::git(folder, &["add", "--all"]);
        Self::git(folder, &["commit", "--quiet", "--allow-empty", "--message=a change"]);
    }

    /// Runs a script in a folder, with nothing of this process: `slicewright` is on the path where the script installs it.
    fn run(&self, shell: &[&str], script: &str, folder: &str, env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(script).current_dir(self.path(folder)).env_clear();
        command.envs([("PATH", PROGRAMS), ("NOW", NOW), ("GIT_CONFIG_GLOBAL", "/dev/null")]);
        command.env("SLICEWRIGHT_RELEASES", self.releases());
        command.envs(env.iter().copied()).output().unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { assert!(fs::copy(&path, &target).is_ok()) }
    }
}

/// A change by which an expectation does not hold any more.
fn breaks_an_expectation(repository: &Path) {
    let file = repository.join("clusters/lab/teaching.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let after = text.replace("[{profile: 1g.6gb, count: 4}]", "[{profile: 2g.12gb, count: 2}]");
    assert_ne!(text, after);
    fs::write(file, after).unwrap();
}

/// A document of the example, by its path.
fn document(path: &str) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(example().join(path)).unwrap()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

#[track_caller]
fn ended(output: &Output, status: i32) {
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output), status, "{said}");
}

/// What a forge keeps: comments by number, and who asked for what.
#[derive(Default)]
struct Kept {
    comments: BTreeMap<u64, String>,
    asked: Vec<String>,
    /// The pull request, and the commit that it is at.
    pulls: Value,
}

/// A forge, until it is dropped.
struct Forge {
    address: String,
    kept: Arc<Mutex<Kept>>,
    _thread: JoinHandle<()>,
}

impl Forge {
    fn start(pulls: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::new(Mutex::new(Kept { pulls, ..Kept::default() }));
        let of_thread = Arc::clone(&kept);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                answer(stream, &of_thread);
            }
        });
        Self { address, kept, _thread: thread }
    }

    fn comments(&self) -> Vec<String> {
        self.kept.lock().unwrap().comments.values().cloned().collect()
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.kept.lock().unwrap().asked)
    }
}

fn answer(mut stream: TcpStream, kept: &Mutex<Kept>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length, mut may) = (String::new(), 0, false);
    reader.read_line(&mut head).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        if key.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
        may |= value.ends_with(TOKEN);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = head.split_whitespace();
    let (verb, target) = (words.next().unwrap(), words.next().unwrap());
    let path = target.split('?').next().unwrap();
    let mut kept = kept.lock().unwrap();
    kept.asked.push(format!("{verb} {path}"));
    let text = || serde_json::from_slice::<Value>(&body).unwrap()["body"].as_str().unwrap().to_owned();
    let answer = match verb {
        _ if !may => None,
        "GET" if path.ends_with("/pulls") => Some(kept.pulls.clone()),
        "GET" => Some(kept.comments.iter().map(|(id, body)| json!({"id": id, "body": body})).collect()),
        "POST" => {
            let id = kept.comments.keys().last().map_or(1, |last| last + 1);
            kept.comments.insert(id, text());
            Some(json!({"id": id}))
        }
        _ => {
            let id: u64 = path.rsplit('/').next().unwrap().parse().unwrap();
            kept.comments.insert(id, text());
            Some(json!({"id": id}))
        }
    };
    let (status, body) = match answer {
        Some(body) => ("200 OK", body.to_string()),
        None => ("401 Unauthorized", String::new()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).unwrap();
}

/// The scripts of a job of GitHub, by the names of their steps.
fn scripts(file: &str, job: &str) -> Vec<(String, String)> {
    let workflow = document(file);
    let steps = workflow["jobs"][job]["steps"].as_array().unwrap().clone();
    steps
        .iter()
        .filter_map(|step| Some((step["name"].as_str()?.to_owned(), step["run"].as_str()?.to_owned())))
        .collect()
}

const GITHUB: [&str; 2] = ["bash", "-ec"];

#[test]
fn github_plans_with_rights_to_read_and_a_second_workflow_posts_also_for_a_fork() {
    if !can_run("github_plans_with_rights_to_read_and_a_second_workflow_posts_also_for_a_fork") {
        return;
    }
    let bench = Bench::new(breaks_an_expectation);
    let steps = scripts(".github/workflows/plan.yaml", "plan");
    assert_eq!(steps.len(), 3, "{steps:?}");
    ended(&bench.run(&GITHUB, &steps[0].1, "change", &[("BASE", "main")]), 0);
    let (temp, paths) = (bench.path("temp"), bench.path("paths"));
    let installs = [("RUNNER_TEMP", temp.to_str().unwrap()), ("GITHUB_PATH", paths.to_str().unwrap())];
    ended(&bench.run(&GITHUB, &steps[1].1, "change", &installs), 0);
    // A runner puts the lines of that file in front of the path of every later step.
    let path = format!("{}:{PROGRAMS}", fs::read_to_string(paths).unwrap().trim());
    ended(&bench.run(&GITHUB, &steps[2].1, "change", &[("PEOPLE_MAY_LOSE", ""), ("PATH", &path)]), 4);
    let comment = fs::read_to_string(bench.path("change/plans/lab.md")).unwrap();
    assert!(comment.contains("Expectations that FAILED"), "{comment}");
    let page = fs::read_to_string(bench.path("change/plans/lab.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg "), "{page}");

    // The artifact, in a checkout of the default branch.
    let sha = Bench::git(&bench.path("change"), &["rev-parse", "HEAD"]);
    copy(&bench.path("change/plans"), &bench.path("origin/plans"));
    let forge = Forge::start(json!([
        {"number": 6, "head": {"sha": "of another pull request"}}, {"number": 7, "head": {"sha": sha}},
    ]));
    let api = format!("{}/repos/platform/fleet", forge.address);
    let [(_, post)] = scripts(".github/workflows/comment.yaml", "comment").try_into().unwrap();
    let env = [("TOKEN", TOKEN), ("API", api.as_str()), ("HEAD", "somebody:change"), ("SHA", sha.as_str())];
    ended(&bench.run(&GITHUB, &post, "origin", &env), 0);
    assert_eq!(forge.comments(), [comment.trim_end()]);
    let issue = "/repos/platform/fleet/issues";
    let first = [
        "GET /repos/platform/fleet/pulls".to_owned(),
        format!("GET {issue}/7/comments"),
        format!("POST {issue}/7/comments"),
    ];
    assert_eq!(forge.asked(), first);

    // A push more: the comment is replaced, in its place.
    let again = format!("pushed again\n\n{comment}");
    fs::write(bench.path("origin/plans/lab.md"), &again).unwrap();
    ended(&bench.run(&GITHUB, &post, "origin", &env), 0);
    assert_eq!(forge.comments(), [again.trim_end()]);
    assert_eq!(forge.asked().last().unwrap(), &format!("PATCH {issue}/comments/1"));

    // What was pushed since belongs to another run; and text without the mark of a plan is not posted.
    let other = [("TOKEN", TOKEN), ("API", api.as_str()), ("HEAD", "somebody:change"), ("SHA", "another")];
    ended(&bench.run(&GITHUB, &post, "origin", &other), 0);
    fs::write(bench.path("origin/plans/lab.md"), "buy this\n").unwrap();
    ended(&bench.run(&GITHUB, &post, "origin", &env), 65);
    assert_eq!(forge.comments().len(), 1);
    let wrong =
        [("TOKEN", "none"), ("API", api.as_str()), ("HEAD", "somebody:change"), ("SHA", sha.as_str())];
    assert_ne!(code(&bench.run(&GITHUB, &post, "origin", &wrong)), 0, "who may not comment is told so");
}

/// Text of a pull request in a script would be run, an action that is named by a tag is whatever the tag becomes, and
/// the workflow that runs what a fork brings must not be able to write.
#[test]
fn githubs_workflows_run_no_text_of_the_change_and_pin_what_they_use() {
    for file in [".github/workflows/plan.yaml", ".github/workflows/comment.yaml"] {
        let workflow = document(file);
        for (job, body) in workflow["jobs"].as_object().unwrap() {
            for step in body["steps"].as_array().unwrap() {
                let script = step["run"].as_str().unwrap_or_default();
                assert!(!script.contains("${{"), "{file} {job}: {script}");
                if let Some(action) = step["uses"].as_str() {
                    let (_, pin) = action.split_once('@').unwrap();
                    assert!(
                        pin.len() == 40 && pin.chars().all(|c| c.is_ascii_hexdigit()),
                        "{file}: {action}"
                    );
                }
            }
        }
    }
    assert_eq!(document(".github/workflows/plan.yaml")["permissions"], json!({"contents": "read"}));
    let on = &document(".github/workflows/plan.yaml")["on"];
    assert!(on.get("pull_request").is_some() && on.get("pull_request_target").is_none(), "{on}");
}

#[test]
fn gitlab_plans_and_posts_one_note_which_is_replaced() {
    if !can_run("gitlab_plans_and_posts_one_note_which_is_replaced") {
        return;
    }
    let bench = Bench::new(breaks_an_expectation);
    let job = document(".gitlab-ci.yml")["plan"].clone();
    // What the image lacks is installed before; here it is there.
    assert_eq!(job["image"], "alpine:3.22");
    assert_eq!(job["before_script"], json!(["apk add --no-cache curl git jq"]));
    let lines = job["script"].clone();
    let script: Vec<&str> = lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let forge = Forge::start(json!([]));
    let api = format!("{}/api/v4", forge.address);
    let env = [
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
        ("CI_API_V4_URL", api.as_str()),
        ("CI_PROJECT_ID", "12"),
        ("CI_MERGE_REQUEST_IID", "3"),
        ("GITLAB_TOKEN", TOKEN),
    ];
    let shell = ["bash", "-eo", "pipefail", "-c"];
    ended(&bench.run(&shell, &script.join("\n"), "change", &env), 4);
    let comment = fs::read_to_string(bench.path("change/plans/lab.md")).unwrap();
    assert_eq!(forge.comments(), [comment.trim_end()]);
    let notes = "/api/v4/projects/12/merge_requests/3/notes";
    assert_eq!(forge.asked(), [format!("GET {notes}"), format!("POST {notes}")]);
    ended(&bench.run(&shell, script[1], "change", &env), 4);
    assert_eq!(forge.asked(), [format!("GET {notes}"), format!("PUT {notes}/1")]);
    assert_eq!(forge.comments().len(), 1);
    // A merge request from a fork has no token: the plan is in the log.
    let output = bench.run(&shell, script[1], "change", &env[..4]);
    ended(&output, 4);
    assert!(String::from_utf8_lossy(&output.stdout).contains("Expectations that FAILED"));
    assert_eq!(forge.asked(), [""; 0]);
}

#[test]
fn tekton_plans_in_one_step_and_posts_in_the_next_and_ends_with_what_the_plan_says() {
    if !can_run("tekton_plans_in_one_step_and_posts_in_the_next_and_ends_with_what_the_plan_says") {
        return;
    }
    let bench = Bench::new(breaks_an_expectation);
    Bench::git(bench.home.path(), &["clone", "--quiet", "origin", "before"]);
    let task = document("tekton/plan.yaml");
    let steps = task["spec"]["steps"].as_array().unwrap();
    let forge = Forge::start(json!([]));
    let comments = format!("{}/repos/platform/fleet/issues/9/comments", forge.address);
    let result = bench.path("status");
    let env = [
        ("PEOPLE_MAY_LOSE", ""),
        ("RESULT", result.to_str().unwrap()),
        ("FORGE", "github"),
        ("COMMENTS", comments.as_str()),
        ("TOKEN", TOKEN),
    ];
    for (step, status) in steps.iter().zip([0, 4]) {
        let wanted: Vec<&str> =
            step["env"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
        let given: Vec<_> = env.iter().copied().filter(|(name, _)| wanted.contains(name)).collect();
        assert_eq!(given.len(), wanted.len(), "{wanted:?}");
        let script = step["script"].as_str().unwrap();
        assert!(script.starts_with("#!/bin/sh\n") && !script.contains("$(params"), "{script}");
        ended(&bench.run(&["sh", "-c"], script, "change", &given), status);
    }
    assert_eq!(forge.comments().len(), 1);
}

#[test]
fn people_who_lose_fail_the_check_unless_somebody_decides_that_they_may() {
    if !can_run("people_who_lose_fail_the_check_unless_somebody_decides_that_they_may") {
        return;
    }
    let bench = Bench::new(|repository| {
        // Nobody expects anything any more, and the pool of research becomes sevenths.
        fs::remove_file(repository.join("clusters/lab/expectations.yaml")).unwrap();
        let file = repository.join("base/research.yaml");
        let text = fs::read_to_string(&file).unwrap();
        let (head, _) = text.split_once("  layout:").unwrap();
        let layout =
            "  layout:\n    type: Static\n    static: {gpus: [{slices: [{profile: 1g.10gb, count: 7}]}]}\n";
        fs::write(&file, format!("{head}{layout}")).unwrap();
    });
    Bench::git(bench.home.path(), &["clone", "--quiet", "origin", "before"]);
    let run = |may: &str| {
        bench.run(
            &["sh", "-c"],
            "../before/plan.sh lab ../before comment.md page.html",
            "change",
            &[("PEOPLE_MAY_LOSE", may), ("SLICEWRIGHT", env!("CARGO_BIN_EXE_slicewright"))],
        )
    };
    ended(&run(""), 5);
    let comment = fs::read_to_string(bench.path("change/comment.md")).unwrap();
    assert!(comment.lines().next().unwrap().contains(" their slice; "), "{comment}");
    assert!(comment.contains("```diff\n"), "{comment}");
    ended(&run("1"), 0);
}

#[test]
fn a_change_that_deletes_a_cluster_names_who_loses_there_and_fails_the_check() {
    if !can_run("a_change_that_deletes_a_cluster_names_who_loses_there_and_fails_the_check") {
        return;
    }
    let annex = |repository: &Path| {
        copy(&repository.join("clusters/lab"), &repository.join("clusters/annex"));
        fs::copy(repository.join("fleets/lab.yaml"), repository.join("fleets/annex.yaml")).unwrap();
    };
    let bench = Bench::with_main(annex, |repository| {
        fs::remove_dir_all(repository.join("clusters/lab")).unwrap();
        fs::remove_file(repository.join("fleets/lab.yaml")).unwrap();
    });
    Bench::git(bench.home.path(), &["clone", "--quiet", "origin", "before"]);
    let run = |may: &str| {
        bench.run(
            &["sh", "-c"],
            "../before/plans.sh ../before plans",
            "change",
            &[("PEOPLE_MAY_LOSE", may), ("SLICEWRIGHT", env!("CARGO_BIN_EXE_slicewright"))],
        )
    };
    ended(&run(""), 5);
    let comment = fs::read_to_string(bench.path("change/plans/lab.md")).unwrap();
    assert!(comment.lines().next().unwrap().contains(" their slice; "), "{comment}");
    assert!(comment.contains("- `Notebook team-a/w-2` is not served any more\n"), "{comment}");
    assert!(comment.contains("`teaching` is removed"), "{comment}");
    assert!(bench.path("change/plans/annex.md").is_file(), "the cluster that stays has its plan");
    assert!(bench.path("change/plans/lab.html").is_file());
    // Once more in the same checkout, and with the decision of somebody who may take it.
    ended(&run(""), 5);
    ended(&run("1"), 0);
}

#[test]
fn what_is_installed_is_the_archive_whose_digest_is_pinned_and_no_other() {
    if !can_run("what_is_installed_is_the_archive_whose_digest_is_pinned_and_no_other") {
        return;
    }
    let bench = Bench::new(|_| {});
    let install = |folder: &str| bench.run(&["sh", "-c"], "./install.sh ../installed", folder, &[]);
    ended(&install("change"), 0);
    let installed = bench.path("installed/slicewright");
    let version = Command::new(&installed).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    assert_eq!(fs::read_dir(bench.path("installed")).unwrap().count(), 1, "the archive is not left there");

    // Somebody else's archive in the same place, and the example as it is, whose digests are of no file.
    fs::remove_dir_all(bench.path("installed")).unwrap();
    let archives = bench.path("releases").join(concat!("v", env!("CARGO_PKG_VERSION")));
    let archive = archives.join(format!("slicewright-v{}-{}.tar.gz", env!("CARGO_PKG_VERSION"), system()));
    let ours = fs::read(&archive).unwrap();
    fs::write(&archive, b"something else").unwrap();
    ended(&install("change"), 65);
    fs::write(&archive, ours).unwrap();
    fs::copy(example().join("install.sh"), bench.path("origin/install.sh")).unwrap();
    let refused = install("origin");
    ended(&refused, 65);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("is not the archive whose digest install.sh names (0000"), "{said}");
    assert_eq!(fs::read_dir(bench.path("installed")).unwrap().count(), 0, "nothing is left of it");
}
