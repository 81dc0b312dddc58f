//! `plan`, `fleet` and `explain` on the fleet of `examples/`, and input that they refuse. The transcripts
//! are in `golden/`; `UPDATE=1` rewrites them.

use std::fs;
use std::path::{Path, PathBuf};

use cli::exit::Status;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command line whose words may name files below the repository's root.
pub(crate) fn run(words: &str) -> (Status, String, String) {
    let words = words.split_whitespace().map(|word| {
        let file = root().join(word);
        if word.contains('/') && file.exists() { file.into_os_string() } else { word.into() }
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(std::iter::once("slicewright".into()).chain(words), &mut out, &mut err);
    let text = |bytes: Vec<u8>| {
        let root = format!("{}/", root().display());
        String::from_utf8(bytes).expect("text").replace(&root, "")
    };
    (status, text(out), text(err))
}

/// A fleet in a file of this test's own; gives its path.
pub(crate) fn fleet_file(name: &str, text: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.join("fleet.yaml");
    fs::write(&path, text).expect("written");
    path.display().to_string()
}

#[track_caller]
fn check(words: &str, status: Status, golden: &str) {
    let (got, out, err) = run(words);
    assert_eq!((got, err.as_str()), (status, ""), "{out}");
    let path = root().join("crates/cli/tests/golden").join(golden);
    #[expect(clippy::disallowed_methods, reason = "a test decides by its environment whether to rewrite")]
    if std::env::var("UPDATE").is_ok() {
        fs::write(&path, &out).expect("the golden file can be written");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(out, wanted, "run with UPDATE=1 to rewrite {}", path.display());
}

/// A command on files that this test writes; what it says when it refuses.
#[track_caller]
fn refused(name: &str, fleet: &str, policy: &str, expect: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the test");
    let (fleet_file, policy_file) = (folder.join("fleet.yaml"), folder.join("policy.yaml"));
    fs::write(&fleet_file, fleet).expect("written");
    fs::write(&policy_file, policy).expect("written");
    let words = format!("plan --fleet {} -f {}", fleet_file.display(), policy_file.display());
    let (status, out, err) = run(&words);
    let err = err.replace(&format!("{}/", folder.display()), "");
    assert_eq!((status, out.as_str()), (Status::Data, ""), "{err}");
    assert_eq!(err, expect);
}

const EMPTY: &str =
    "apiVersion: snapshot.slicewright.io/v1\nkind: Snapshot\ntakenAt: 2026-11-20T08:00:00Z\nobjects: []\n";

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: p}}\nspec:\n  nodeSelector: {{matchLabels: {{pool: a}}}}\n{spec}"
    )
}

#[test]
fn the_preview_says_what_changes_and_who_is_served() {
    check("plan --fleet examples/fleet/lab.yaml -f examples/policies", Status::Changes, "plan.txt");
}

#[test]
fn the_preview_for_programs_says_the_same() {
    check("plan --fleet examples/fleet/lab.yaml -f examples/policies -o json", Status::Changes, "plan.json");
    let (_, out, _) = run("plan --fleet examples/fleet/lab.yaml -f examples/policies -o json");
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["formatVersion"], 1);
    assert_eq!(json["verdict"]["gpus"], 1);
}

#[test]
fn the_same_policies_before_and_after_make_no_difference() {
    let (_, out, _) =
        run("plan --fleet examples/fleet/lab.yaml --base examples/policies -f examples/policies");
    assert!(out.contains("Compared with the previous policies\n  the policies are the same\n"), "{out}");
}

#[test]
fn the_fleet_is_drawn() {
    check("fleet --fleet examples/fleet/lab.yaml", Status::Success, "fleet.txt");
}

#[test]
fn a_request_a_node_and_a_policy_are_explained() {
    let files = "--fleet examples/fleet/lab.yaml -f examples/policies";
    check(&format!("explain request team-a/fraud-lab-0 {files}"), Status::Success, "explain-request.txt");
    check(&format!("explain node gpu-1 {files}"), Status::Success, "explain-node.txt");
    check(&format!("explain policy research {files}"), Status::Success, "explain-policy.txt");
}

#[test]
fn a_name_that_does_not_exist_gets_the_nearest_one() {
    let (status, _, err) = run("explain policy reserch --fleet examples/fleet/lab.yaml -f examples/policies");
    assert_eq!(status, Status::Usage);
    assert_eq!(err, "error: there is no policy `reserch`; did you mean `research`? There are: research\n");
    let (status, out, _) =
        run("explain Policy research --fleet examples/fleet/lab.yaml -f examples/policies");
    assert_eq!((status, out.is_empty()), (Status::Success, false), "kinds are written as people know them");
    let (status, _, err) = run("explain GpuPartitionPolicy research --fleet examples/fleet/lab.yaml");
    let none = "there is no policy `research`. The fleet has no policy of its own: give policies with -f";
    assert_eq!((status, err), (Status::Usage, format!("error: {none}\n")));
    let (_, _, err) = run("explain Notebook team-a/x --fleet examples/fleet/lab.yaml -f examples/policies");
    assert_eq!(err, "error: there is no workbench `team-a/x`. The fleet has no workbench\n");
    let (_, _, err) = run("explain node nope --fleet examples/fleet/lab.yaml -f examples/policies");
    assert!(err.starts_with("error: there is no node with GPUs `nope`. There are: gpu-1, "), "{err}");
}

/// A policy without nodes is mostly a label with another value, so the values that are there are told.
#[test]
fn a_policy_that_selects_no_node_is_told_which_label_fails_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("selects-nothing");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("policy.yaml");
    let told = |selector: &str| {
        let policy = format!(
            "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: teaching}}\nspec:\n  nodeSelector: {selector}\n  layout: {{type: DemandDriven}}\n"
        );
        fs::write(&file, policy).expect("written");
        let (status, out, _) = run(&format!("plan --fleet examples/fleet/lab.yaml -f {}", file.display()));
        assert_eq!(status, Status::Blocked, "{out}");
        let blocked =
            out.lines().find_map(|line| line.trim().strip_prefix("blocked")).expect("it is blocked");
        blocked.trim().to_owned()
    };
    let none = "policy teaching: its nodeSelector selects no node with GPUs that can be partitioned";
    let value = "{matchLabels: {nvidia.com/gpu.present: \"true\", slicewright.io/pool: teeching}}";
    assert_eq!(
        told(value),
        format!("{none}: no node has slicewright.io/pool=teeching; the values there are: research, teaching")
    );
    assert_eq!(told("{matchLabels: {pool: teaching}}"), format!("{none}: no node has the label pool"));
    let condition = "{matchExpressions: [{key: slicewright.io/pool, operator: DoesNotExist}]}";
    assert_eq!(told(condition), format!("{none}: no node fulfils its condition on slicewright.io/pool"));
    // Each condition holds somewhere, and both nowhere.
    let both = "{matchLabels: {slicewright.io/pool: teaching, nvidia.com/gpu.count: \"2\"}}";
    assert_eq!(told(both), none);
}

#[test]
fn a_floor_that_cannot_be_met_is_a_violation_and_exit_status_3() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("floor");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("policy.yaml");
    let floor = "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {name: teaching}\nspec:\n  nodeSelector: {matchLabels: {slicewright.io/pool: teaching}}\n  layout:\n    type: DemandDriven\n    demandDriven: {slices: [{profile: 4g.24gb, minCount: 2}]}\n";
    fs::write(&file, floor).expect("written");
    let (status, out, _) = run(&format!("plan --fleet examples/fleet/lab.yaml -f {}", file.display()));
    assert_eq!(status, Status::Blocked, "{out}");
    let says = "policy teaching: spec.layout.demandDriven.slices[4g.24gb].minCount is 2, but the plan reaches only 1";
    assert!(out.contains(says), "{out}");
}

#[test]
fn a_file_that_does_not_exist_is_named() {
    let (status, _, err) = run("plan --fleet no/such.yaml -f examples/policies");
    assert_eq!(status, Status::Data);
    assert!(err.starts_with("error: cannot read no/such.yaml: No such file or directory"), "{err}");
    assert!(err.contains("`slicewright snapshot` records"), "{err}");
}

/// People who have no policy yet are shown one, and it can be planned as it is.
#[test]
fn policies_that_are_not_there_are_named_with_one_that_can_be_written_there() {
    let (status, _, err) = run("plan --fleet examples/fleet/lab.yaml -f nope");
    assert_eq!(status, Status::Data);
    assert!(err.starts_with("error: cannot read nope: No such file or directory"), "{err}");
    let (_, policy) = err.split_once("\n\n").expect("a policy is shown");
    let example = fs::read_to_string(root().join("examples/first/policy.yaml")).expect("the example");
    assert_eq!(policy, example.split_once('\n').expect("its first line is a comment").1);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first");
    fs::create_dir_all(&folder).expect("a folder for the test");
    fs::write(folder.join("policy.yaml"), policy).expect("written");
    let words = format!("plan --fleet examples/fleet/lab.yaml -f {}", folder.display());
    let (status, out, err) = run(&words);
    assert_eq!((status, err.as_str()), (Status::Changes, ""), "{out}");
    let (status, _, err) = run("plan --fleet examples/fleet/lab.yaml -f examples/policies --base nope");
    assert!(status == Status::Data && err.contains("\n  mode: Preview\n"), "{err}");
}

/// Nobody has to have a cluster, or to wait for one, to read that a file is not there.
#[test]
fn policies_that_are_not_there_are_named_before_a_cluster_is_asked() {
    for files in ["-f nope", "-f examples/policies --base nope"] {
        let (status, _, err) = run(&format!("plan --kubeconfig no/such/config {files}"));
        assert_eq!(status, Status::Data);
        assert!(err.starts_with("error: cannot read nope: No such file or directory"), "{err}");
    }
    let (_, _, err) = run("plan --kubeconfig no/such/config -f examples/policies");
    assert!(err.contains("no/such/config"), "{err}");
}

#[test]
fn a_misspelt_field_of_a_policy_is_refused_with_its_place() {
    refused(
        "misspelt",
        EMPTY,
        &policy("  layot: {type: DemandDriven}\n"),
        "error: policy.yaml:5:3: GpuPartitionPolicy p: spec.layout: is missing; a map is needed\nerror: policy.yaml:6:3: GpuPartitionPolicy p: spec.layot: unknown field; did you mean `layout`? Allowed here: layout, mode, nodeSelector, priority, rollout, sharing\n",
    );
}

#[test]
fn a_file_without_any_policy_is_refused() {
    refused(
        "none",
        EMPTY,
        EMPTY,
        "error: policy.yaml holds no policy: at least one object of kind GpuPartitionPolicy (slicewright.io/v1alpha1) is needed\n",
    );
}

#[test]
fn a_window_that_never_opens_is_refused() {
    refused(
        "window",
        EMPTY,
        &policy(
            "  layout: {type: DemandDriven}\n  rollout: {windows: [{schedule: \"0 25 * * *\", duration: 6h, timeZone: Mars/Olympus}]}\n",
        ),
        "error: policy.yaml:7:34: GpuPartitionPolicy p: spec.rollout.windows[0].schedule: schedule `0 25 * * *`: hour `25` is not valid; allowed are 0 to 23, `*`, lists (1,2), ranges (1-5) and steps (*/2)\n",
    );
}

#[test]
fn bounds_that_contradict_each_other_are_refused() {
    refused(
        "contradiction",
        EMPTY,
        &policy(
            "  layout: {type: DemandDriven, demandDriven: {slices: [{profile: 1g.10gb, minCount: 4, maxCount: 2}]}}\n",
        ),
        "error: policy.yaml:6:85: GpuPartitionPolicy p: spec.layout.demandDriven.slices[0].minCount: is 4, but maxCount is 2, so there cannot be more than 2; lower minCount, raise maxCount, or remove maxCount\n",
    );
}

#[test]
fn a_profile_that_no_model_has_is_refused_with_the_nearest() {
    refused(
        "profile",
        EMPTY,
        &policy("  layout: {type: DemandDriven, demandDriven: {slices: [{profile: 1g.11gb}]}}\n"),
        "error: policy.yaml:6:66: GpuPartitionPolicy p: spec.layout.demandDriven.slices[0].profile: `1g.11gb` is not a profile of any known model; did you mean `1g.10gb`?\n",
    );
}

#[test]
fn a_wrong_unit_is_refused() {
    refused(
        "units",
        EMPTY,
        &policy("  layout: {type: DemandDriven}\n  rollout: {cooldown: 10 parsecs}\n"),
        "error: policy.yaml:7:23: GpuPartitionPolicy p: spec.rollout.cooldown: `10 parsecs` is not a duration: write hours, minutes and seconds in this order, such as 10m or 1h30m\n",
    );
}

#[test]
fn an_empty_selector_is_refused() {
    let text = policy("  layout: {type: DemandDriven}\n").replace("{matchLabels: {pool: a}}", "{}");
    refused(
        "selector",
        EMPTY,
        &text,
        "error: policy.yaml:5:17: GpuPartitionPolicy p: spec.nodeSelector: is empty and would select every node: name at least one label, such as `matchLabels: {slicewright.io/pool: research}`\n",
    );
}

/// What is said to a reader that has gone away, and the status.
fn cut(words: &str) -> (Status, String) {
    struct Gone;
    impl std::io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let words = words.split_whitespace().map(|word| {
        let file = root().join(word);
        if word.contains('/') && file.exists() { file.into_os_string() } else { word.into() }
    });
    let mut err = Vec::new();
    let status = cli::run(std::iter::once("slicewright".into()).chain(words), &mut Gone, &mut err);
    (status, String::from_utf8(err).expect("text"))
}

#[test]
fn a_reader_that_goes_away_gets_no_message_and_no_success_for_what_was_not_said() {
    for words in ["fleet --fleet examples/fleet/lab.yaml", "--help", "plan --help"] {
        assert_eq!(cut(words), (Status::Cut, String::new()), "{words}");
    }
    assert_eq!(Status::Cut.code(), 141, "as of a program that ends by SIGPIPE");
}

#[test]
fn what_a_plan_finds_is_its_status_whether_the_reader_stays_or_not() {
    for output in ["text", "json", "markdown", "html", "svg"] {
        let words = format!("plan --fleet examples/fleet/lab.yaml -f examples/policies -o {output}");
        assert_eq!(cut(&words), (Status::Changes, String::new()), "{output}");
    }
    let none = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cut-none");
    fs::create_dir_all(&none).expect("a folder for the test");
    let words = "plan --fleet examples/fleet/lab.yaml --base examples/policies -f";
    assert_eq!(cut(&format!("{words} {}", none.display())), (Status::Loss, String::new()));
}

/// A disk that is full is found only when the last of it is written.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_an_error_that_says_so() {
    let full = fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .args(["fleet", "--fleet"])
        .arg(root().join("examples/fleet/lab.yaml"))
        .stdout(full)
        .output()
        .expect("it starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: cannot write the result: "), "{err}");
}

#[test]
fn everything_that_is_wrong_with_a_policy_is_said_at_once() {
    let sharing = "  layout: {type: None}\n  sharing:\n    type: TimeSlicing\n    rules:\n      - {model: T4, resource: nvidia.com/gpu, replicas: 400}\n      - {model: T5, resource: nvidia.com/gpu, replicas: 4}\n      - {model: T4, resource: nvidia.com/mig-1g.10gb, replicas: 1}\n";
    let policy = policy(sharing);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("all-at-once");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("policy.yaml");
    fs::write(&file, policy).expect("written");
    let fleet = fleet_file("all-at-once", EMPTY);
    let (status, _, err) = run(&format!("plan --fleet {fleet} -f {}", file.display()));
    assert_eq!(status, Status::Data, "{err}");
    for expect in [
        "spec.sharing.rules[0].replicas: ",
        "spec.sharing.rules[1].model: `T5` is not a known card",
        "spec.sharing.rules[2].resource: is `nvidia.com/mig-1g.10gb`, and T4 has no MIG",
        "spec.sharing.rules[2].replicas: ",
    ] {
        assert_eq!(err.matches(expect).count(), 1, "{expect} in:\n{err}");
    }
}

#[test]
fn explain_says_why_nothing_is_applied_where_a_policy_only_previews_or_is_paused() {
    let fleet = "--fleet examples/fleet/lab.yaml -f examples/first/policy.yaml";
    let preview = "mode: Preview, so nothing of its plan is applied; set spec.mode to Enforce to apply it";
    let (_, out, _) = run(&format!("explain policy fleet {fleet}"));
    assert_eq!(out.lines().nth(1), Some(format!("  {preview}").as_str()), "{out}");
    let (_, out, _) = run(&format!("explain node gpu-2 {fleet}"));
    assert_eq!(out.lines().nth(1), Some(format!("  policy fleet has {preview}").as_str()), "{out}");
    for what in ["request", "pod"] {
        let (_, out, _) = run(&format!("explain {what} team-a/fraud-lab-0 {fleet}"));
        assert!(out.contains(&format!("\n  policy fleet has {preview}\n")), "{out}");
    }
    let (_, json, _) = run(&format!("explain node gpu-2 {fleet} -o json"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["node"]["mode"], "Preview");

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explain-paused");
    fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("policy.yaml");
    let first = fs::read_to_string(root().join("examples/first/policy.yaml")).expect("the example");
    fs::write(&file, first.replace("mode: Preview", "mode: Paused")).expect("written");
    let paused = format!("--fleet examples/fleet/lab.yaml -f {}", file.display());
    let says = "mode: Paused, so no change starts; set spec.mode to Enforce to go on";
    let (_, out, _) = run(&format!("explain policy fleet {paused}"));
    assert_eq!(out.lines().nth(1), Some(format!("  {says}").as_str()), "{out}");
    let (_, out, _) = run(&format!("explain node gpu-2 {paused}"));
    assert_eq!(out.lines().nth(1), Some(format!("  policy fleet has {says}").as_str()), "{out}");
}

#[test]
fn a_pod_is_explained_in_the_words_of_the_plan_also_where_a_promise_to_it_is_not_kept() {
    let fleet = fs::read_to_string(root().join("examples/fleet/lab.yaml")).expect("the example");
    let promised = "\n  - apiVersion: slicewright.io/v1alpha1\n    kind: GpuNode\n    metadata: {name: gpu-9}\n    spec: {}\n    status: {rollout: {promised: [{kind: Pod, namespace: team-a, name: fraud-lab-0}]}}\n";
    let idle = "  - apiVersion: v1\n    kind: Pod\n    metadata: {namespace: team-a, name: web}\n    spec: {containers: [{name: w}]}\n    status: {phase: Pending}\n";
    let fleet = fleet_file("explain-promise", &format!("{}{promised}{idle}", fleet.trim_end()));
    let with = format!("--fleet {fleet} -f examples/policies");
    let (_, json, _) = run(&format!("plan {with} -o json"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let waiting = json["requests"].as_array().expect("a list");
    assert!(waiting.len() > 2, "{json}");
    for request in waiting {
        let name = request["request"].as_str().expect("a text").trim_start_matches("Pod ");
        let answer = request["answer"].as_str().expect("a text");
        let (_, out, _) = run(&format!("explain pod {name} {with}"));
        assert!(out.contains(&format!(": {answer}\n")), "{answer}\n{out}");
        let (_, json, _) = run(&format!("explain pod {name} {with} -o json"));
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["requests"][0]["answer"], answer);
    }
    let kept_not = waiting.iter().filter_map(|request| request["answer"].as_str());
    assert!(kept_not.into_iter().any(|answer| answer.contains("gpu-9")), "{json}");
    let (_, out, _) = run(&format!("explain pod team-a/web {with}"));
    assert!(out.ends_with("  it requests no slice that it does not have\n"), "{out}");
}

#[test]
fn of_a_pod_that_the_scheduler_has_not_judged_it_is_not_said_that_it_requests_nothing() {
    let fleet = fs::read_to_string(root().join("examples/fleet/lab.yaml")).expect("the example");
    let judged = "conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]";
    let nominated = format!("status: {{nominatedNodeName: gpu-1, {judged}}}");
    let states = [
        ("schedulingGates: [{name: g}]", "status: {}", "scheduling gates (spec.schedulingGates)"),
        ("priority: 0", "status: {phase: Pending}", "(condition PodScheduled)"),
        ("priority: 0", &nominated, "(status.nominatedNodeName)"),
    ];
    for (at, (spec, status, says)) in states.into_iter().enumerate() {
        let pod = format!(
            "\n  - apiVersion: v1\n    kind: Pod\n    metadata: {{namespace: team-a, name: web}}\n    spec: {{{spec}, containers: [{{name: w, resources: {{limits: {{nvidia.com/mig-1g.10gb: 1}}}}}}]}}\n    {status}\n"
        );
        let fleet = fleet_file(&format!("explain-unjudged-{at}"), &format!("{}{pod}", fleet.trim_end()));
        let (_, out, _) = run(&format!("explain pod team-a/web --fleet {fleet} -f examples/policies"));
        assert!(out.contains(says) && out.contains("nothing is planned for it"), "{out}");
    }
}
