//! Two revisions of a folder of policies against a recorded fleet, and what
//! may stand in such a folder. The transcripts are in `golden/`; `UPDATE=1`
//! rewrites them.

use std::fs;
use std::path::{Path, PathBuf};

use cli::exit::Status;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of this test, with these files and nothing else.
pub(crate) fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("revisions").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// `plan` on the fleet of the examples; folders of this test lose their path.
fn plan(before: Option<&Path>, after: &Path, more: &[&str]) -> (Status, String, String) {
    let fleet = root().join("examples/fleet/lab.yaml");
    let mut words = vec!["slicewright".into(), "plan".into(), "--fleet".into(), fleet.into_os_string()];
    if let Some(before) = before {
        words.extend(["--base".into(), before.as_os_str().to_owned()]);
    }
    words.extend(["-f".into(), after.as_os_str().to_owned()]);
    words.extend(more.iter().map(Into::into));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(words, &mut out, &mut err);
    let text = |bytes: Vec<u8>| {
        let mut text = String::from_utf8(bytes).unwrap();
        for path in before.into_iter().chain([after]) {
            text = text.replace(&format!("{}/", path.display()), "").replace(&path.display().to_string(), "");
        }
        text
    };
    (status, text(out), text(err))
}

#[track_caller]
fn check_golden(found: &str, golden: &str) {
    let path = root().join("crates/cli/tests/golden").join(golden);
    #[expect(clippy::disallowed_methods, reason = "a test decides by its environment whether to rewrite")]
    if std::env::var("UPDATE").is_ok() {
        fs::write(&path, found).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, wanted, "run with UPDATE=1 to rewrite {}", path.display());
}

pub(crate) const RESEARCH: &str = include_str!("../../../../examples/policies/research.yaml");

pub(crate) fn static_policy(name: &str, pool: &str, profile: &str, count: u32) -> String {
    format!(
        "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {{name: {name}}}\nspec:\n  nodeSelector: {{matchLabels: {{slicewright.io/pool: {pool}}}}}\n  layout:\n    type: Static\n    static: {{gpus: [{{slices: [{{profile: {profile}, count: {count}}}]}}]}}\n"
    )
}

/// A change that hurts: the research pool becomes static sevenths, and the
/// teaching pool gets a policy of its own.
fn revisions(name: &str) -> (PathBuf, PathBuf) {
    let before = folder(&format!("{name}-before"), &[("research.yaml", RESEARCH)]);
    let after = folder(
        &format!("{name}-after"),
        &[
            ("research.yaml", &static_policy("research", "research", "1g.10gb", 7)),
            ("teaching.yaml", &static_policy("teaching", "teaching", "2g.12gb", 2)),
            ("shop.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n"),
            ("values.yaml", "replicas: 3\n"),
        ],
    );
    (before, after)
}

#[test]
fn two_revisions_are_compared_as_text_for_people() {
    let (before, after) = revisions("text");
    let (status, out, err) = plan(Some(&before), &after, &[]);
    assert_eq!((status, err.as_str()), (Status::Loss, ""), "{out}");
    check_golden(&out, "revisions.txt");
}

#[test]
fn two_revisions_are_compared_in_one_comment() {
    let (before, after) = revisions("markdown");
    let (status, out, _) = plan(Some(&before), &after, &["-o", "markdown"]);
    assert_eq!(status, Status::Loss);
    check_golden(&out, "revisions.md");
    assert!(out.starts_with("**lab: 3 people lose their slice; "), "the verdict is the first line");
    assert!(out.trim_end().ends_with("<!-- slicewright-plan:lab -->"), "the mark is the last");
}

#[test]
fn two_revisions_are_compared_for_programs() {
    let (before, after) = revisions("json");
    let (_, out, _) = plan(Some(&before), &after, &["-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let compared = &json["compared"];
    let changes: Vec<_> =
        compared["policies"].as_array().unwrap().iter().map(|p| (&p["policy"], &p["change"])).collect();
    assert_eq!(
        format!("{changes:?}"),
        r#"[(String("research"), String("changed")), (String("teaching"), String("added"))]"#
    );
    assert_eq!(compared["nodes"][0]["node"], "gpu-3");
    assert_eq!(compared["nodes"][0]["after"], "teaching");
    let lost: Vec<_> = compared["lose"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(lost, ["Pod team-a/forecast-0", "Pod team-a/fraud-lab-0", "Pod team-b/pretrain-0"]);
    assert_eq!(compared["supply"]["teaching"]["2g.12gb"]["before"], Value::Null);
    assert_ne!(compared["planDigest"], json["provenance"]["planDigest"]);
    let skipped: Vec<_> =
        json["notRead"].as_array().unwrap().iter().map(|n| n["what"].as_str().unwrap()).collect();
    assert_eq!(skipped, ["Deployment shop/web", "a document"]);
}

#[test]
fn the_comment_keeps_its_length_whatever_the_size_of_the_fleet_and_says_what_it_leaves_out() {
    let mut fleet = fs::read_to_string(root().join("examples/fleet/lab.yaml")).unwrap();
    for n in 0..2000 {
        fleet.push_str(&format!(
            "\n  - apiVersion: v1\n    kind: Pod\n    metadata: {{namespace: team-c, name: train-{n:04}, creationTimestamp: 2026-11-20T07:41:00Z}}\n    spec: {{containers: [{{name: t, resources: {{limits: {{nvidia.com/mig-3g.40gb: \"1\"}}}}}}]}}\n    status: {{phase: Pending, conditions: [{{type: PodScheduled, status: \"False\", reason: Unschedulable, message: full}}]}}"
        ));
    }
    let folder = folder("large", &[("fleet.yaml", &fleet), ("p/research.yaml", RESEARCH)]);
    let mut lengths = Vec::new();
    for most in ["4000", "60000"] {
        let words = ["slicewright", "plan", "-o", "markdown", "--max-bytes", most, "--fleet"];
        let mut words: Vec<_> = words.into_iter().map(std::ffi::OsString::from).collect();
        words.extend([folder.join("fleet.yaml").into(), "-f".into(), folder.join("p").into()]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        cli::run(words, &mut out, &mut err);
        let out = String::from_utf8(out).unwrap();
        assert!(out.len() <= most.parse().unwrap(), "{} bytes of {most}", out.len());
        assert!(out.starts_with("**lab: "), "{out}");
        assert!(out.contains("Omitted, so that this fits into one comment: "), "{out}");
        assert!(out.contains(" of 2003 requests"), "{out}");
        assert!(out.contains(" plan `"), "the digests stay: {out}");
        assert!(out.trim_end().ends_with("<!-- slicewright-plan:lab -->"));
        assert_eq!(out.matches("<details>").count(), out.matches("</details>").count());
        lengths.push(out.len());
    }
    assert!(lengths[0] < lengths[1], "what fits is shown: {lengths:?}");
}

#[test]
fn the_first_policy_and_the_last_one_can_be_compared_with_none() {
    let none = folder("none", &[]);
    let some = folder("some", &[("research.yaml", RESEARCH)]);
    let (status, out, _) = plan(Some(&none), &some, &[]);
    assert_eq!(status, Status::Changes);
    assert!(out.contains("policy research is added"), "{out}");
    let (status, out, _) = plan(Some(&some), &none, &[]);
    assert_eq!(status, Status::Loss, "nothing changes, and who would have been served is not: {out}");
    assert!(out.starts_with("lab: 2 people lose their slice; no GPU changes; "), "{out}");
    assert!(out.contains("policy research is removed"), "{out}");
    let keeps = "gpu-1 has no policy any more (before: research): it keeps its layout, and is not changed";
    assert!(out.contains(keeps), "{out}");
    let (status, _, err) = plan(None, &none, &[]);
    assert_eq!(status, Status::Data);
    assert!(err.contains("holds no manifest"), "{err}");
}

#[test]
fn a_base_and_an_overlay_are_read_through_their_kustomizations() {
    let repository = folder(
        "kustomize",
        &[
            ("base/kustomization.yaml", "resources: [research.yaml]\n"),
            ("base/research.yaml", RESEARCH),
            ("base/not-named.yaml", "kind: ["),
            (
                "lab/kustomization.yaml",
                "resources:\n  - ../base\n  - teaching.yaml\ncommonAnnotations: {a: b}\n",
            ),
            ("lab/teaching.yaml", &static_policy("teaching", "teaching", "2g.12gb", 2)),
        ],
    );
    let (status, out, err) = plan(None, &repository.join("lab"), &[]);
    assert_eq!((status, err.as_str()), (Status::Changes, ""), "{out}");
    assert!(out.contains("policy research") && out.contains("policy teaching"), "{out}");
}

#[track_caller]
fn refused(name: &str, files: &[(&str, &str)], expect: &str) {
    let folder = folder(name, files);
    let (status, out, err) = plan(None, &folder, &[]);
    assert_eq!((status, out.as_str()), (Status::Data, ""));
    assert_eq!(err, expect);
}

#[test]
fn what_only_kustomize_can_do_is_refused_with_the_command_that_does_it() {
    refused(
        "patches",
        &[("kustomization.yaml", "resources: [p.yaml]\npatches:\n  - path: x.yaml\n"), ("p.yaml", RESEARCH)],
        "error: kustomization.yaml:2:1: patches: changes objects, which only kustomize can do; render it first: kustomize build  > rendered.yaml, and give rendered.yaml instead\n",
    );
    refused(
        "missing",
        &[("kustomization.yaml", "resources:\n  - nowhere.yaml\n")],
        "error: kustomization.yaml:2:5: resources: `nowhere.yaml` does not exist\n",
    );
    refused(
        "circle",
        &[("kustomization.yaml", "resources: [a]\n"), ("a/kustomization.yaml", "resources: [..]\n")],
        "error: a/../kustomization.yaml: resources: names a folder that includes itself\n",
    );
}

#[test]
fn an_object_that_lacks_half_of_its_kind_is_refused_and_not_passed_over() {
    refused(
        "half",
        &[("a.yaml", RESEARCH), ("b.yaml", "\nkind: GpuPartitionPolicy\nmetadata: {name: x}\n")],
        "error: b.yaml:2:1: this is not a Kubernetes object: `apiVersion` is missing\n",
    );
}

/// The policy of the examples in this mode.
fn research_in(mode: &str) -> String {
    RESEARCH.replacen("spec:\n", &format!("spec:\n  mode: {mode}\n"), 1)
}

#[test]
fn a_policy_that_only_previews_serves_nobody_any_more_and_the_comparison_says_so() {
    let enforce = folder("mode-enforce", &[("research.yaml", &research_in("Enforce"))]);
    let preview = folder("mode-preview", &[("research.yaml", &research_in("Preview"))]);
    let paused = folder("mode-paused", &[("research.yaml", &research_in("Paused"))]);

    let (status, out, _) = plan(Some(&enforce), &preview, &[]);
    assert_eq!(status, Status::Loss, "{out}");
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("lab: 2 people lose their slice; "), "{first}");
    assert!(first.contains("; NOT APPLIED, mode: Preview; "), "{first}");
    let says = "policy research goes from mode Enforce to Preview: it only previews, and nothing of its plan is applied any more";
    assert!(out.contains(&format!("\n  warning    {says}\n")), "{out}");
    assert!(out.contains("loses: it was served before"), "{out}");
    assert!(out.contains(", now stays (only previewed: "), "{out}");
    let (_, comment, _) = plan(Some(&enforce), &preview, &["-o", "markdown"]);
    assert!(comment.contains("only previews, and nothing of its plan is applied"), "{comment}");
    assert!(comment.contains("is not served any more"), "{comment}");

    let (status, out, _) = plan(Some(&preview), &enforce, &[]);
    assert_eq!(status, Status::Changes, "{out}");
    assert!(
        out.contains("policy research goes from mode Preview to Enforce: what it plans is applied now"),
        "{out}"
    );
    assert!(out.contains("gains: it is served now"), "{out}");
    assert!(out.contains("before stays (only previewed: "), "{out}");

    let (status, out, _) = plan(Some(&enforce), &paused, &[]);
    assert_eq!(status, Status::Loss, "{out}");
    assert!(out.contains("policy research goes from mode Enforce to Paused: "), "{out}");

    // What served nobody is no loss.
    let none = folder("mode-none", &[]);
    let (status, out, _) = plan(Some(&preview), &none, &[]);
    assert_eq!(status, Status::Success, "{out}");
    assert!(out.starts_with("lab: nobody loses a slice; no GPU changes; "), "{out}");
}

#[test]
fn pods_that_a_preview_would_evict_are_not_counted_as_evicted() {
    let evicting = |mode: &str| {
        let text = static_policy("research", "research", "3g.40gb", 2);
        let head = format!("spec:\n  mode: {mode}\n  rollout: {{drain: Evict}}\n");
        text.replacen("spec:\n", &head, 1)
    };
    let preview = folder("evict-preview", &[("research.yaml", &evicting("Preview"))]);
    let enforce = folder("evict-enforce", &[("research.yaml", &evicting("Enforce"))]);
    let (status, out, _) = plan(None, &preview, &[]);
    assert_ne!(status, Status::Loss, "{out}");
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("lab: nobody loses a slice; "), "{first}");
    assert!(first.contains("; 0 drains, 0 pods evicted; "), "{first}");
    assert!(out.contains("would be evicted, if policy research were in mode Enforce: "), "{out}");

    let (status, out, _) = plan(Some(&preview), &enforce, &["-o", "json"]);
    assert_eq!(status, Status::Loss, "{out}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let evicted = json["compared"]["evicts"].as_array().unwrap().len();
    assert!(evicted > 0, "{out}");
    let lost = json["compared"]["lose"].as_array().unwrap().len();
    assert_eq!(json["verdict"]["evictions"], evicted);
    assert_eq!(json["verdict"]["lose"], evicted + lost);
    assert_eq!(json["compared"]["verdict"]["evictions"], 0);

    // Who is evicted under both revisions loses nothing by the change, and is counted nevertheless.
    let again = folder("evict-again", &[("research.yaml", &format!("# again\n{}", evicting("Enforce")))]);
    let (_, out, _) = plan(Some(&enforce), &again, &[]);
    let first = out.lines().next().unwrap();
    assert!(first.starts_with("lab: nobody loses a slice; "), "{first}");
    let says = format!(
        "{evicted} {} evicted (also before this change); ",
        if evicted == 1 { "pod" } else { "pods" }
    );
    assert!(first.contains(&says), "{first}");
}

#[test]
fn the_first_line_counts_a_profile_once_whichever_policies_have_it() {
    let fleet = fs::read_to_string(root().join("examples/fleet/lab.yaml")).unwrap();
    let (first, rest) = fleet.split_at(fleet.find("name: gpu-2").unwrap());
    let rest = rest.replacen("slicewright.io/pool: research", "slicewright.io/pool: second", 1);
    let folder = folder(
        "twice",
        &[
            ("fleet.yaml", &format!("{first}{rest}")),
            ("p/a.yaml", RESEARCH),
            ("p/b.yaml", &static_policy("second", "second", "1g.10gb", 7)),
        ],
    );
    let words = format!("plan --fleet {0}/fleet.yaml -f {0}/p", folder.display());
    let (_, out, _) = crate::plan::run(&words);
    let first = out.lines().next().unwrap();
    assert_eq!(first.matches("1g.10gb ").count(), 1, "{first}");
    let (_, json, _) = crate::plan::run(&format!("{words} -o json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let sum = |figure: &str| {
        let of = |policy: &str| json["supply"][policy]["1g.10gb"][figure].as_u64().unwrap();
        of("research") + of("second")
    };
    assert!(first.contains(&format!("1g.10gb {}->{}", sum("present"), sum("planned"))), "{first}");
}

/// The lines of the section about what was not read.
fn not_read(out: &str) -> Vec<&str> {
    let after = out.lines().skip_while(|line| *line != "Other documents, which were not read").skip(1);
    after.take_while(|line| !line.is_empty()).map(str::trim).collect()
}

#[test]
fn what_contributes_nothing_is_named_with_the_reason() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec: {template: {spec: {containers: [{name: t, resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]}}}\n";
    let list = "apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: Service, metadata: {name: web}}\n  - {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: w}]}}\n";
    let some = folder(
        "ignored",
        &[
            ("research.yaml", RESEARCH),
            ("empty.yaml", "# teaching: to be written\n"),
            ("job.yaml", job),
            ("list.yaml", list),
            ("teaching.yaml.bak", "x"),
            ("README.md", "x"),
            ("sub/kustomization.yaml", "resources: []\n"),
        ],
    );
    let (status, out, err) = plan(None, &some, &[]);
    assert_eq!((status, err.as_str()), (Status::Changes, ""), "{out}");
    assert!(
        out.contains("\n  warning    empty.yaml: holds no object: it is empty, or has only comments\n"),
        "{out}"
    );
    assert_eq!(
        not_read(&out),
        [
            "job.yaml:1:1: Job train: it asks for GPUs, but only pods, workbenches and Kueue's workloads are requests: give those that it makes",
            "list.yaml:4:5: Service web: its kind is not about slices",
            "list.yaml:5:5: Pod shop/web: it asks for no GPU and no slice",
            "sub/kustomization.yaml: the file: a kustomization counts only at the top of the folder that is named",
            "teaching.yaml.bak: the file: its name ends in none of .yaml, .yml and .json",
        ]
    );
    let named = folder(
        "not-named",
        &[
            ("kustomization.yaml", "resources: [research.yaml]\n"),
            ("research.yaml", RESEARCH),
            ("teaching.yaml", &static_policy("teaching", "teaching", "2g.12gb", 2)),
        ],
    );
    let (_, out, _) = plan(None, &named, &[]);
    assert_eq!(
        not_read(&out),
        ["teaching.yaml: the file: the kustomization.yaml beside it does not name it in resources"]
    );
}

#[test]
fn a_base_with_manifests_and_no_policy_is_a_warning() {
    let other = folder(
        "other-base",
        &[("shop.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n")],
    );
    let some = folder("other-base-new", &[("research.yaml", RESEARCH)]);
    let (status, out, _) = plan(Some(&other), &some, &[]);
    assert_eq!(status, Status::Changes, "{out}");
    assert!(out.contains("  warning    : holds manifests, and none of them is a policy\n"), "{out}");
}

/// What opens a part of Markdown is closed.
#[track_caller]
fn is_whole(markdown: &str) {
    assert_eq!(markdown.matches("<details>").count(), markdown.matches("</details>").count(), "{markdown}");
    let fences = markdown.lines().filter(|line| line.starts_with("```")).count();
    assert_eq!(fences % 2, 0, "{markdown}");
    for row in markdown.lines().filter(|line| line.starts_with("| ")) {
        assert!(row.ends_with(" |"), "{row}");
    }
}

#[test]
fn a_comment_keeps_every_length_that_is_allowed_and_stays_whole() {
    let (before, after) = revisions("lengths");
    // Nothing of what others named it makes the first line longer than its share.
    let fleet = fs::read_to_string(root().join("examples/fleet/lab.yaml")).unwrap();
    let long = format!("cluster: \"{}\"", "<&|한>".repeat(400));
    let folder = folder("lengths", &[("fleet.yaml", &fleet.replacen("cluster: lab", &long, 1))]);
    let words = format!(
        "plan --fleet {}/fleet.yaml --base {} -f {} -o markdown --max-bytes",
        folder.display(),
        before.display(),
        after.display()
    );
    for most in (4000..8000).step_by(97).chain([20_000, 60_000]) {
        let (status, out, err) = crate::plan::run(&format!("{words} {most}"));
        assert_eq!((status, err.as_str()), (Status::Loss, ""));
        assert!(out.len() <= most, "{} bytes of {most}", out.len());
        assert!(out.contains(" plan `") && out.trim_end().ends_with(" -->"), "{out}");
        is_whole(&out);
    }
    for few in ["0", "3999", "-1", "4k", "4e3"] {
        let (status, out, err) = crate::plan::run(&format!("{words}={few}"));
        assert_eq!((status, out.as_str()), (Status::Usage, ""), "{few}");
        assert!(err.contains("write a number of bytes, at least 4000"), "{few}: {err}");
    }
}
