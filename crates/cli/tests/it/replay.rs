//! `replay`: its output, and input that it refuses. The transcripts are in `golden/`; `UPDATE=1` rewrites
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use cli::exit::Status;
use serde_json::Value;

const WEEK: &str = "examples/traces/lab-week.csv";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(words: &str) -> (Status, String, String) {
    crate::plan::run(&format!("replay {words}"))
}

#[track_caller]
fn check(words: &str, golden: &str) {
    let (status, out, err) = run(words);
    assert_eq!((status, err.as_str()), (Status::Success, ""), "{out}");
    let path = root().join("crates/cli/tests/golden").join(golden);
    #[expect(clippy::disallowed_methods, reason = "a test decides by its environment whether to rewrite")]
    if std::env::var("UPDATE").is_ok() {
        fs::write(&path, &out).expect("the golden file can be written");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(out, wanted, "run with UPDATE=1 to rewrite {}", path.display());
}

fn json(words: &str) -> Value {
    let (status, out, err) = run(&format!("{words} -o json"));
    assert_eq!((status, err.as_str()), (Status::Success, ""));
    serde_json::from_str(&out).expect("JSON")
}

/// A command on a trace and a policy that this test writes; what it says when it refuses.
#[track_caller]
fn refused(name: &str, trace: &str, policy: &str, words: &str, expect: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{name}"));
    fs::create_dir_all(&folder).expect("a folder for the test");
    let (trace_file, policy_file) = (folder.join("trace.csv"), folder.join("policy.yaml"));
    fs::write(&trace_file, trace).expect("written");
    fs::write(&policy_file, policy).expect("written");
    let with = if policy.is_empty() { String::new() } else { format!("--policy {}", policy_file.display()) };
    let (status, out, err) = run(&format!("{} --fleet 1x1xA100-80GB {with} {words}", trace_file.display()));
    let err = err.replace(&format!("{}/", folder.display()), "");
    assert_eq!((status, out.as_str()), (Status::Data, ""), "{err}");
    assert_eq!(err, expect);
}

const HEADER: &str = "create_s,delete_s,pod,profile,count\n";

#[test]
fn a_day_as_text_as_json_and_as_a_picture() {
    let day = format!("{WEEK} --fleet 1x2xA100-80GB --from 1d --until 2d --against static:all-balanced");
    check(&format!("{day} --actuator all --sizes 1,2"), "replay.txt");
    check(&format!("{day} -o svg"), "replay.svg");
    let words = format!("{day} --actuator idle-gpus,single-slices -o json");
    let once = run(&words);
    assert_eq!(once, run(&words), "the same input gives the same bytes");
}

#[test]
fn programs_get_every_figure_and_the_sums_are_right() {
    let value = json(&format!(
        "{WEEK} --fleet 2x4xA100-80GB --actuator all --against first-fit --against static:peak"
    ));
    assert_eq!((&value["formatVersion"], &value["trace"]["requests"]), (&1.into(), &132.into()));
    let bound = value["bound"]["sliceSeconds"].as_u64().unwrap();
    let rows = value["played"].as_array().unwrap();
    // Three ways for the planner and for first fit, and one layout that never changes.
    assert_eq!(rows.len(), 7);
    let week = 7 * 86_400;
    for row in rows {
        let figure = |name: &str| row["figures"][name].as_u64().unwrap();
        assert_eq!(figure("served") + figure("never"), figure("asked"), "{row}");
        assert!(figure("heldSliceSeconds") <= bound, "nobody beats the bound: {row}");
        let of = |name: &str| row["figures"]["fleet"][name].as_u64().unwrap();
        assert_eq!(of("held") + of("idle") + of("away") + of("uncut"), 56 * week, "{row}");
        let spans = row["timeline"]["spans"].as_array().unwrap();
        let held: u64 = spans.iter().map(|span| span["held"].as_u64().unwrap()).sum();
        assert_eq!(held, figure("heldSliceSeconds"));
    }
}

#[test]
fn a_policy_is_played_as_if_it_were_in_force_everywhere() {
    let day = format!("{WEEK} --fleet 1x2xA100-80GB --from 1d --until 2d");
    let without = json(&day);
    let with = json(&format!("{day} --policy examples/policies/research.yaml"));
    let changed = |value: &Value| value["played"][0]["figures"]["nodesChanged"].as_u64().unwrap();
    // Its window is open from 22:00 in Seoul for six hours, on weekdays.
    assert!(changed(&without) > 0);
    assert_ne!(with["played"], without["played"]);
}

#[test]
fn what_cannot_be_played_is_refused_with_its_place_and_what_is_allowed() {
    let good = format!("{HEADER}0,10,a,1g.10gb,1\n");
    refused(
        "backwards",
        &format!("{HEADER}5,10,a,1g.10gb,1\n4,10,b,1g.10gb,1\n"),
        "",
        "",
        "error: trace.csv: line 3, column create_s: `4` goes back in time; lines are in the order of create_s, and the one before has 5\n",
    );
    refused(
        "ends-first",
        &format!("{HEADER}5,4,a,1g.10gb,1\n"),
        "",
        "",
        "error: trace.csv: line 2, column delete_s: `4` is before the pod began; it is 5, the pod's create_s, or later; or empty for a pod that stays\n",
    );
    refused(
        "profile",
        &format!("{HEADER}5,40,a,1g.5gb,1\n"),
        "",
        "",
        "error: trace.csv: line 2, column profile: `1g.5gb` is a profile that no GPU of the fleet has; its GPUs have 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb\n",
    );
    refused(
        "empty",
        HEADER,
        "",
        "",
        "error: trace.csv: nobody asks for anything in what is to be played; a trace has a line for each request\n",
    );
    let policy = |layout: &str| {
        format!(
            "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: p}}\nspec:\n  \
             nodeSelector: {{matchLabels: {{pool: research}}}}\n  layout: {layout}\n"
        )
    };
    refused(
        "static",
        &good,
        &policy("{type: Static, static: {gpus: [{slices: [{profile: 1g.10gb, count: 7}]}]}}"),
        "",
        "error: policy.yaml: spec.layout.type: `Static` never changes, so there is nothing to plan; name a DemandDriven policy, and compare with a layout by --against static:LAYOUT\n",
    );
    refused(
        "shares",
        &good,
        &policy("{type: DemandDriven, demandDriven: {shares: [{maxComputeSlices: 7, perNamespace: true}]}}"),
        "",
        "error: policy.yaml: spec.layout.demandDriven.shares: a CSV trace does not say in which namespace anybody is, so nobody would have a share; remove the field, or play recordings (slicewright snapshot), which have namespaces\n",
    );
    let two = format!(
        "{0}---\n{1}",
        policy("{type: DemandDriven}"),
        policy("{type: DemandDriven}").replace("name: p", "name: q")
    );
    refused("two", &good, &two, "", "error: policy.yaml: holds 2 policies; a replay is played with one\n");
}

#[track_caller]
fn usage(words: &str, expect: &str) {
    let (status, out, err) = run(&format!("{WEEK} {words}"));
    assert_eq!((status, out.as_str()), (Status::Usage, ""), "{err}");
    assert!(err.contains(expect), "{err}");
}

#[test]
fn a_trace_that_is_not_there_is_named_before_the_fleet_that_it_would_need() {
    let (status, out, err) = run("no-such-trace.csv");
    assert_eq!((status == Status::Success, out.as_str()), (false, ""));
    assert!(err.contains("no-such-trace.csv") && !err.contains("--fleet"), "{err}");
}

#[test]
fn a_wrong_command_line_is_told_what_is_allowed() {
    usage("--fleet 0x8xA100-80GB", "`0` is not a number of nodes; write a whole number from 1 to 10000");
    usage("--fleet A100-80GB", "write such as 9x8xA100-80GB");
    let fleet = "--fleet 1x1xA100-80GB";
    usage(&format!("{fleet} --against fastest"), "write first-fit, best-fit, or static: and a layout");
    usage(
        &format!("{fleet} --against static:all-1g.5gb"),
        "A100-80GB has no such layout; it has all-1g.10gb",
    );
    usage(
        &format!("{fleet} --against static:3g.40gb:3"),
        "--against static:3g.40gb:3 does not fit one A100-80GB: they need 9 compute slices, and the GPU has 7",
    );
    usage(
        &format!("{fleet} --from 2d --until 1d"),
        "--until 86400 is not after --from 172800: nothing lies between",
    );
    usage(&format!("{fleet} --sizes 3..1"), "write numbers of nodes such as 6..12 or 6,8,12");
    usage(&format!("{fleet},1x2xA100-80GB --sizes 1..2"), "--sizes: the nodes of the fleet differ");
    usage(&format!("{fleet} --from soon"), "write a whole number of seconds, or of minutes, hours or days");
}

/// The seconds of the day of the only line of a transcript that says this.
fn second(transcript: &str, says: &str) -> i64 {
    let line = transcript.lines().find(|line| line.contains(says)).unwrap();
    let parts: Vec<i64> = line[4..12].split(':').map(|part| part.parse().unwrap()).collect();
    (parts[0] * 60 + parts[1]) * 60 + parts[2]
}

/// The replay's times are not made up: told how long the simulated cluster
/// closes the node, it lets people wait as long as that one does, second by
/// second; and what it takes by itself is no less.
#[test]
fn a_change_takes_what_it_takes_on_the_simulated_cluster() {
    let story = fs::read_to_string(root().join("stories/an-idle-notebook-is-left-alone.golden")).unwrap();
    let (planned, closed) = (second(&story, " PLAN "), second(&story, "n1          is cordoned"));
    let opened = second(&story, "it is uncordoned");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-story.csv");
    // One goes at 370, when the story's notebook is gone; the other waits since 60.
    fs::write(&file, format!("{HEADER}0,370,idle,7g.80gb,1\n60,9000,eager,1g.10gb,1\n")).unwrap();
    let words = format!("{} --fleet 1x1xA100-80GB", file.display());
    let longest = |words: &str| json(words)["played"][0]["figures"]["waited"]["max"].as_i64().unwrap();
    let told = format!("{words} --away {}s --map-settle {}s", opened - closed, closed - planned);
    assert_eq!(longest(&told), 370 - 60 + (opened - planned));
    assert!(longest(&words) >= longest(&told));
}

/// The first block of the page about the public trace, where the trace is beside the repository.
#[test]
fn the_page_shows_what_becomes_of_the_public_trace() {
    let trace = root().join("../shared/cases/traces/openb_mig_events.csv");
    if !trace.exists() {
        println!("left out: there is no {}", trace.display());
        return;
    }
    let file = root().join("docs/results.md");
    let page = fs::read_to_string(&file).unwrap();
    let (_, block) =
        page.split_once("$ slicewright replay openb_mig_events.csv ").expect("the page shows it");
    let (words, block) = block.split_once('\n').expect("what it prints");
    let (shown, _) = block.split_once("```").expect("the end of the block");
    let (status, out, _) = run(&format!("{} {words}", trace.display()));
    assert_eq!(status, Status::Success);
    // The explanation of the columns is on the page already.
    let (table, _) = out.split_once("\nDELIVERED: ").expect("the columns are explained");
    #[expect(clippy::disallowed_methods, reason = "a test decides by its environment whether to rewrite")]
    if std::env::var("UPDATE").is_ok() {
        fs::write(&file, page.replacen(shown, table, 1)).expect("the page can be written");
    } else {
        assert_eq!(
            table,
            shown,
            "run with UPDATE=1 to rewrite {}, and read what it says of it",
            file.display()
        );
    }
}
