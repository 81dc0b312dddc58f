//! `replay` of recordings: from one to the next, pods come and go.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cli::exit::Status;

fn run(words: &str) -> (Status, String, String) {
    crate::plan::run(&format!("replay {words}"))
}

/// A folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-recorded-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// A pod of a recording: its name, what it asks for, when it was created, and its node.
type Pod<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

/// Two machines with eight GPUs at a time of the day, and the pods there.
fn recording(time: &str, pods: &[Pod<'_>]) -> String {
    let mut text = format!(
        "apiVersion: snapshot.slicewright.io/v1\nkind: Snapshot\ntakenAt: 2026-11-20T{time}Z\ncluster: lab\nobjects:\n"
    );
    for node in ["hgx-1", "hgx-2"] {
        let labels = "nvidia.com/gpu.present: \"true\", nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB, nvidia.com/gpu.count: \"8\", \
                      nvidia.com/mig.capable: \"true\", nvidia.com/mig.strategy: mixed, nvidia.com/mig.config: all-7g.80gb, \
                      nvidia.com/mig.config.state: success";
        writeln!(
            text,
            "  - {{apiVersion: v1, kind: Node, metadata: {{name: {node}, labels: {{{labels}}}}}, status: {{allocatable: \
             {{cpu: \"64\", memory: 512Gi, pods: \"250\", nvidia.com/mig-7g.80gb: \"8\"}}, conditions: [{{type: Ready, status: \"True\"}}]}}}}"
        )
        .unwrap();
    }
    for (name, profile, created, node) in pods {
        let (place, phase) = match node {
            Some(node) => (format!("nodeName: {node}, "), "Running"),
            None => (String::new(), "Pending"),
        };
        writeln!(
            text,
            "  - {{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: team, uid: u-{name}-{created}, \
             creationTimestamp: \"2026-11-20T{created}Z\"}}, spec: {{{place}containers: [{{name: main, resources: \
             {{limits: {{nvidia.com/mig-{profile}: \"1\"}}}}}}]}}, status: {{phase: {phase}}}}}"
        )
        .unwrap();
    }
    text
}

/// Some, and others.
fn with<'a>(some: &[Pod<'a>], others: &[Pod<'a>]) -> Vec<Pod<'a>> {
    [some, others].concat()
}

/// A morning: bob trains on a whole GPU and ends before ten; ann comes at five past eight and stays; a course
/// of twenty comes at nine; bob comes again with another pod of the same name.
fn morning(folder: &Path) {
    let bob = ("bob", "7g.80gb", "07:30:00", Some("hgx-1"));
    let ann = ("ann", "3g.40gb", "08:05:00", None);
    let students: Vec<String> = (0..20).map(|i| format!("student-{i:02}")).collect();
    let course: Vec<Pod<'_>> =
        students.iter().map(|name| (name.as_str(), "1g.10gb", "09:00:00", None)).collect();
    let again = ("bob", "7g.80gb", "09:50:00", Some("hgx-2"));
    let times = [
        ("late", "10:00:00", with(&[ann, again], &course)),
        ("first", "08:00:00", vec![bob]),
        ("second", "08:10:00", vec![bob, ann]),
        ("third", "09:10:00", with(&[bob, ann], &course)),
        ("zz-last", "11:00:00", vec![ann]),
    ];
    for (name, time, pods) in times {
        fs::write(folder.join(format!("{name}.yaml")), recording(time, &pods)).expect("written");
    }
}

#[test]
fn a_recorded_morning_is_played_as_the_trace_that_says_the_same() {
    let folder = folder("morning");
    morning(&folder);
    let csv = folder.join("morning.csv");
    let mut lines =
        "create_s,delete_s,pod,profile,count\n0,7200,team/bob,7g.80gb,1\n300,10800,team/ann,3g.40gb,1\n"
            .to_owned();
    for i in 0..20 {
        writeln!(lines, "3600,10800,team/student-{i:02},1g.10gb,1").unwrap();
    }
    lines.push_str("6600,10800,team/bob,7g.80gb,1\n");
    fs::write(&csv, lines).unwrap();
    let options = "--actuator idle-gpus --against static:all-7g.80gb";
    let (status, written, err) = run(&format!("{} --fleet 2x8xA100-80GB {options}", csv.display()));
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    assert!(written.starts_with("23 requests in 3h"), "{written}");
    assert!(written.contains("2 nodes with 16 A100-80GB"), "{written}");
    // The fleet is the recorded one; the order of files is of no account, their times are.
    assert_eq!(
        run(&format!("{} {options}", folder.display())),
        (Status::Success, written.clone(), String::new())
    );
    let files: Vec<String> = ["zz-last", "second", "first", "late", "third"]
        .map(|name| folder.join(format!("{name}.yaml")).display().to_string())
        .into();
    assert_eq!(run(&format!("{} {options}", files.join(" "))), (Status::Success, written, String::new()));
}

/// What became of a trace, for programs.
fn figures(folder: &Path, words: &str) -> serde_json::Value {
    let (status, out, err) = run(&format!("{} {words} --actuator idle-gpus -o json", folder.display()));
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    told["played"][0]["figures"].clone()
}

/// A team of two namespaces may have seven compute slices. `speech` comes first and takes them; so `vision`, which
/// comes when `speech` runs, gets none.
#[test]
fn a_share_is_that_of_the_recorded_namespaces_and_their_labels() {
    let folder = folder("shares");
    let speech: Vec<String> = (0..7).map(|i| format!("speech-{i}")).collect();
    let vision: Vec<String> = (0..7).map(|i| format!("vision-{i}")).collect();
    let first: Vec<Pod<'_>> =
        speech.iter().map(|name| (name.as_str(), "1g.10gb", "08:05:00", None)).collect();
    let second: Vec<Pod<'_>> =
        vision.iter().map(|name| (name.as_str(), "1g.10gb", "08:50:00", None)).collect();
    let times = [
        ("08:00:00", vec![]),
        ("08:10:00", first.clone()),
        ("09:00:00", with(&first, &second)),
        ("12:00:00", with(&first, &second)),
    ];
    for (time, pods) in times {
        let mut text = recording(time, &pods);
        for namespace in ["speech", "vision"] {
            text = (0..7).fold(text, |text, i| {
                let name = format!("name: {namespace}-{i}, namespace: ");
                text.replace(&format!("{name}team,"), &format!("{name}{namespace},"))
            });
            writeln!(
                text,
                "  - {{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}, labels: {{team: media}}}}}}"
            )
            .unwrap();
        }
        fs::write(folder.join(format!("{}.yaml", time.replace(':', "-"))), text).expect("written");
    }
    let policy = folder.with_extension("policy.yaml");
    let shares = "shares: [{namespaceSelector: {matchLabels: {team: media}}, maxComputeSlices: 7}]";
    let text = format!(
        "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: p}}\nspec:\n  \
         nodeSelector: {{matchLabels: {{pool: research}}}}\n  layout: {{type: DemandDriven, demandDriven: {{{shares}}}}}\n"
    );
    fs::write(&policy, text).expect("written");
    let without = figures(&folder, "");
    assert_eq!((&without["served"], &without["never"]), (&14.into(), &0.into()));
    let shared = figures(&folder, &format!("--policy {}", policy.display()));
    assert_eq!((&shared["served"], &shared["never"]), (&7.into(), &7.into()));
}

/// ann came first; boss has the higher priority, and stays longer than ann is there.
#[test]
fn who_has_a_higher_priority_in_the_recordings_comes_first() {
    let folder = folder("priority");
    let bob = ("bob", "7g.80gb", "07:30:00", None);
    let (ann, boss) = (("ann", "4g.40gb", "08:05:00", None), ("boss", "4g.40gb", "08:06:00", None));
    let times = [
        ("08:00:00", vec![bob]),
        ("08:10:00", vec![bob, ann, boss]),
        ("08:20:00", vec![ann, boss]),
        ("09:00:00", vec![boss]),
        ("12:00:00", vec![boss]),
    ];
    let write = |priority: &str| {
        for (time, pods) in &times {
            // The only pod of that time of creation.
            let text = recording(time, pods)
                .replace("T08:06:00Z\"}, spec: {", &format!("T08:06:00Z\"}}, spec: {{{priority}"));
            fs::write(folder.join(format!("{}.yaml", time.replace(':', "-"))), text).expect("written");
        }
    };
    write("");
    let by_age = figures(&folder, "--fleet 1x1xA100-80GB");
    assert_eq!((&by_age["served"], &by_age["never"]), (&3.into(), &0.into()));
    write("priority: 1000, ");
    let by_priority = figures(&folder, "--fleet 1x1xA100-80GB");
    assert_eq!((&by_priority["served"], &by_priority["never"]), (&2.into(), &1.into()));
}

/// What is said of recordings that are no trace.
#[track_caller]
fn refused(name: &str, recordings: &[(&str, String)], words: &str, expect: &str) {
    let folder = folder(name);
    for (file, text) in recordings {
        fs::write(folder.join(file), text).expect("written");
    }
    let (status, out, err) = run(&format!("{} {words}", folder.display()));
    let err =
        err.replace(&format!("{}/", folder.display()), "").replace(&folder.display().to_string(), "FOLDER");
    assert_eq!((status, out.as_str()), (Status::Data, ""), "{err}");
    assert!(err.contains(expect), "{err}");
}

#[test]
fn recordings_that_are_no_trace_are_refused_with_file_and_field() {
    let ann = ("ann", "3g.40gb", "08:05:00", None);
    let first = ("a.yaml", recording("08:00:00", &[ann]));
    refused(
        "one",
        std::slice::from_ref(&first),
        "",
        "FOLDER: holds one recording; who comes and who goes is told by two or more",
    );
    refused(
        "same-time",
        &[first.clone(), ("b.yaml", recording("08:00:00", &[]))],
        "",
        "b.yaml: takenAt: 2026-11-20T08:00:00Z is also the time of a.yaml; each recording has a time of its own",
    );
    let later = recording("09:00:00", &[ann]);
    refused(
        "other-cluster",
        &[first.clone(), ("b.yaml", later.replace("cluster: lab", "cluster: attic"))],
        "",
        "b.yaml: cluster: `attic` is not `lab`, of which a.yaml is; recordings of one cluster make a trace",
    );
    refused(
        "no-time",
        &[first.clone(), ("b.yaml", later.replace("2026-11-20T09:00:00Z", "nine"))],
        "",
        "takenAt: is `nine`; write a time such as 2026-11-20T08:00:00Z",
    );
    refused(
        "other-fleet",
        &[first.clone(), ("b.yaml", later.clone())],
        "--fleet 1x1xA30",
        "a.yaml: Pod team/ann: spec.containers[].resources.limits[nvidia.com/mig-3g.40gb]: `1` cannot be played; the \
         fleet's GPUs have 1g.6gb",
    );
    refused(
        "redacted",
        &[first.clone(), ("b.yaml", later.replace("objects:", "provenance: {redacted: {}}\nobjects:"))],
        "",
        "b.yaml: provenance.redacted: names are replaced anew in each recording",
    );
    let nobody = |time| recording(time, &[]);
    refused(
        "nobody",
        &[("a.yaml", nobody("08:00:00")), ("b.yaml", nobody("09:00:00"))],
        "",
        "a.yaml to b.yaml: nobody asks for anything in what is to be played; pods that ask for slices make a trace",
    );
}

#[test]
fn a_command_line_that_mixes_both_is_told_what_is_allowed() {
    let folder = folder("mixed");
    morning(&folder);
    let usage = |words: &str, expect: &str| {
        let (status, out, err) = run(words);
        assert_eq!((status, out.as_str()), (Status::Usage, ""), "{err}");
        assert!(err.contains(expect), "{err}");
    };
    let recorded = folder.display();
    usage(
        &format!("week.csv {recorded}"),
        "week.csv is not a recording; name one CSV file, or two or more recordings",
    );
    usage(&format!("{recorded} --profiles profile"), "--profiles names a column of a CSV trace");
    let csv = folder.join("week.csv");
    fs::write(&csv, "").expect("a trace for the test");
    let csv = csv.display().to_string();
    usage(&csv, "--fleet is missing: a CSV trace has no nodes; write such as --fleet 9x8xA100-80GB");
}
