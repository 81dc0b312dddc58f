//! Recorded fleets, and the errors in them.

use mig::Catalog;
use observe::problem::{Problem, Severity};
use observe::{Settings, observe, snapshot};

fn errors(problems: &[Problem]) -> Vec<String> {
    problems.iter().filter(|p| p.severity == Severity::Error).map(ToString::to_string).collect()
}

#[track_caller]
fn refused(text: &str, expect: &str) {
    let mut problems = Vec::new();
    let read = snapshot::read("fleet.yaml", text, &mut problems);
    let seen = observe(&read.objects, Catalog::builtin(), &Settings::default(), read.taken_at);
    problems.extend(seen.problems);
    assert_eq!(errors(&problems), [expect]);
}

const HEAD: &str = "apiVersion: snapshot.slicewright.io/v1\nkind: Snapshot\ntakenAt: 2026-11-20T08:00:00Z\n";

#[test]
fn a_snapshot_is_objects_and_a_moment() {
    let text =
        format!("{HEAD}cluster: lab\nobjects:\n- {{apiVersion: v1, kind: Node, metadata: {{name: n1}}}}\n");
    let mut problems = Vec::new();
    let read = snapshot::read("fleet.yaml", &text, &mut problems);
    assert_eq!(errors(&problems), [""; 0]);
    assert_eq!(read.taken_at.to_string(), "2026-11-20T08:00:00Z");
    assert_eq!(read.cluster.as_deref(), Some("lab"));
    assert!(read.objects.nodes.contains_key("n1"));
}

#[test]
fn an_empty_file_is_refused() {
    refused(
        "# nothing\n",
        "fleet.yaml: the file is empty; a snapshot is one document of kind Snapshot (snapshot.slicewright.io/v1)",
    );
}

#[test]
fn another_file_in_the_place_of_a_fleet_is_called_by_what_it_is() {
    let policy = "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {name: fleet}\n";
    let what = "and not a recorded fleet, which `slicewright snapshot` writes";
    refused(
        policy,
        &format!("fleet.yaml:1:1: this is of kind GpuPartitionPolicy, {what}; policies are given with -f"),
    );
    refused(
        "apiVersion: v1\nkind: List\nitems: []\n",
        &format!("fleet.yaml:1:1: this is of kind List, {what}"),
    );
}

#[test]
fn another_version_is_refused() {
    refused(
        &HEAD.replace("io/v1", "io/v7"),
        "fleet.yaml:1:13: Snapshot: apiVersion: is `snapshot.slicewright.io/v7`; this release reads snapshot.slicewright.io/v1",
    );
}

#[test]
fn a_misspelt_field_is_refused_with_the_right_one() {
    refused(
        &format!("{HEAD}object: []\nobjects: []\n"),
        "fleet.yaml:4:1: Snapshot: object: this field does not exist; did you mean `objects`? Fields: apiVersion, kind, takenAt, cluster, provenance, objects",
    );
}

#[test]
fn a_moment_that_is_none_is_refused() {
    refused(
        "apiVersion: snapshot.slicewright.io/v1\nkind: Snapshot\ntakenAt: yesterday\nobjects: []\n",
        "fleet.yaml:3:10: Snapshot: takenAt: is `yesterday`; write a time such as 2026-11-20T08:00:00Z",
    );
}

#[test]
fn broken_yaml_is_refused_with_line_and_column() {
    let mut problems = Vec::new();
    let _ = snapshot::read("fleet.yaml", "apiVersion: [\n", &mut problems);
    let found = errors(&problems);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("fleet.yaml:"), "{found:?}");
}

#[test]
fn a_negative_count_is_refused() {
    let node = "- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n  status: {allocatable: {nvidia.com/mig-1g.10gb: \"-2\"}}\n";
    refused(
        &format!("{HEAD}objects:\n{node}"),
        "fleet.yaml:8:26: Node n1: status.allocatable[nvidia.com/mig-1g.10gb]: `-2` is negative; 0 or more is possible",
    );
}

/// A pod without what it asks for holds nothing, and its slice would be given to somebody else.
#[test]
fn a_quantity_of_a_pod_that_is_none_is_refused() {
    let with = |spec: &str| {
        format!(
            "{HEAD}objects:\n- {{apiVersion: v1, kind: Node, metadata: {{name: p}}}}\n- apiVersion: v1\n  kind: Pod\n  metadata: {{namespace: other, name: p}}\n- apiVersion: v1\n  kind: Pod\n  metadata: {{namespace: team, name: p}}\n  spec: {spec}\n"
        )
    };
    let one = "containers: [{name: c, resources: {limits: {nvidia.com/mig-1g.10gb: one}}}]";
    refused(
        &with(&format!("{{{one}}}")),
        "fleet.yaml:9:3: Pod team/p: spec.containers[0].resources.limits[nvidia.com/mig-1g.10gb]: `one` is not a quantity; write a number such as 7, 500m or 64Gi",
    );
    refused(
        &with(
            "{containers: [], initContainers: [{name: i}, {name: c, resources: {requests: {nvidia.com/mig-1g.10gb: \"-1\"}}}]}",
        ),
        "fleet.yaml:9:3: Pod team/p: spec.initContainers[1].resources.requests[nvidia.com/mig-1g.10gb]: `-1` is negative; 0 or more is possible",
    );
    refused(
        &with("{containers: [], resources: {requests: {cpu: 1 core}}, overhead: {memory: 64Gi}}"),
        "fleet.yaml:9:3: Pod team/p: spec.resources.requests[cpu]: `1 core` is not a quantity; write a number such as 7, 500m or 64Gi",
    );
    refused(
        &with("{containers: [], overhead: {memory: 64GB}}"),
        "fleet.yaml:9:3: Pod team/p: spec.overhead[memory]: `64GB` is not a quantity; write a number such as 7, 500m or 64Gi",
    );
}

#[test]
fn a_pod_or_a_node_that_cannot_be_read_is_refused_and_others_are_ignored() {
    let with = |item: &str| format!("{HEAD}objects:\n- {item}\n");
    refused(
        &with("{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: p}, spec: {containers: 3}}"),
        "fleet.yaml:5:3: Pod team/p: cannot be read, so that nobody knows which slices it has or holds: invalid type: integer `3`, expected a sequence",
    );
    refused(
        &with("{apiVersion: v1, kind: Node, metadata: {name: n1, labels: [a]}}"),
        "fleet.yaml:5:3: Node n1: metadata: cannot be read, so that nobody knows which slices it has or holds: invalid type: sequence, expected a map",
    );
    let mut problems = Vec::new();
    let queue =
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: team, name: c}, spec: 3}";
    let _ = snapshot::read("fleet.yaml", &with(queue), &mut problems);
    assert_eq!(errors(&problems), [""; 0]);
    let said = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(said.contains("PersistentVolumeClaim team/c: cannot be read, and is ignored"), "{said}");
}

/// Whoever writes a fleet by hand forgets what the scheduler would have written.
#[test]
fn a_pod_that_waits_without_a_word_of_the_scheduler_is_named() {
    let said = |more: &str| {
        let spec = format!(
            "spec: {{containers: [{{name: c, resources: {{limits: {{nvidia.com/mig-1g.10gb: 1}}}}}}]{more}"
        );
        let mut problems = Vec::new();
        let text = format!(
            "{HEAD}objects:\n- {{apiVersion: v1, kind: Pod, metadata: {{namespace: team, name: p}}, {spec}}}\n"
        );
        let _ = snapshot::read("fleet.yaml", &text, &mut problems);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let says = said("}");
    assert!(
        says.len() == 1
            && says[0].starts_with(
                "fleet.yaml:5:3: Pod team/p: status.conditions: has no node and no condition PodScheduled"
            ),
        "{says:?}"
    );
    for more in [
        ", nodeName: n1}",
        ", schedulingGates: [{name: g}]}",
        "}, status: {nominatedNodeName: n1}",
        "}, status: {phase: Succeeded}",
        "}, status: {conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]}",
    ] {
        assert_eq!(said(more), [""; 0], "{more}");
    }
}

#[test]
fn overlapping_instances_are_refused() {
    let node = r#"
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    labels:
      nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
      nvidia.com/gpu.count: "1"
      nvidia.com/mig.capable: "true"
      nvidia.com/mig.strategy: mixed
- apiVersion: slicewright.io/v1alpha1
  kind: GpuNode
  metadata: {name: n1}
  spec: {}
  status:
    observed:
      at: 2026-11-20T07:59:00Z
      by: Agent
      gpus:
      - index: 0
        model: A100-80GB
        migEnabled: true
        slices:
        - {profile: 3g.40gb, start: 0, used: Idle}
        - {profile: 2g.20gb, start: 2, used: Idle}
"#;
    let mut problems = Vec::new();
    let read = snapshot::read("fleet.yaml", &format!("{HEAD}objects:{node}"), &mut problems);
    let seen = observe(&read.objects, Catalog::builtin(), &Settings::default(), read.taken_at);
    problems.extend(seen.problems);
    let found = errors(&problems);
    assert!(found.iter().any(|text| text.contains("overlap")), "{found:#?}");
}

/// The part of a page between two lines.
fn part<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let start = page.find(from).expect("the part begins") + from.len();
    &page[start..start + page[start..].find(to).expect("the part ends")]
}

#[test]
fn the_example_of_the_reference_is_a_snapshot() {
    let page = include_str!("../../../../docs/reference/snapshot.md");
    let mut problems = Vec::new();
    let read = snapshot::read("snapshot.md", part(page, "```yaml\n", "```"), &mut problems);
    let seen = observe(&read.objects, Catalog::builtin(), &Settings::default(), read.taken_at);
    assert_eq!((problems, seen.problems), (vec![], vec![]));
    assert_eq!(seen.inventory.nodes.len(), 1);
}

#[test]
fn the_schema_and_the_reader_know_the_same_fields() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/reference/snapshot.schema.json")).expect("JSON");
    let fields = schema["properties"].as_object().expect("an object").keys();
    for field in fields {
        let text = format!("{HEAD}objects: []\n");
        let value = if schema["properties"][field]["type"] == "object" { "{}" } else { "x" };
        let text =
            if text.contains(&format!("{field}:")) { text } else { format!("{text}{field}: {value}\n") };
        let mut problems = Vec::new();
        let _ = snapshot::read("fleet.yaml", &text, &mut problems);
        assert_eq!(errors(&problems), [""; 0], "{field}");
    }
    let mut problems = Vec::new();
    let _ = snapshot::read("fleet.yaml", &format!("{HEAD}objects: []\nother: x\n"), &mut problems);
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(errors(&problems).len(), 1);
    for required in schema["required"].as_array().expect("a list") {
        let field = format!("{}:", required.as_str().expect("a name"));
        let text = format!("{HEAD}objects: []\n");
        let without: String =
            text.lines().filter(|l| !l.starts_with(&field)).map(|l| format!("{l}\n")).collect();
        let mut problems = Vec::new();
        let _ = snapshot::read("fleet.yaml", &without, &mut problems);
        assert_eq!(errors(&problems).len(), 1, "{field} {problems:?}");
    }
}

#[test]
fn the_schema_and_the_reader_know_the_same_provenance() {
    fn given(schema: &serde_json::Value) -> serde_json::Value {
        match schema["type"].as_str() {
            Some("object") => {
                assert_eq!(schema["additionalProperties"], false);
                let fields = schema["properties"].as_object().expect("an object").iter();
                fields.map(|(name, schema)| (name.clone(), given(schema))).collect()
            }
            Some("array") => serde_json::json!(["x"]),
            _ => serde_json::json!("x"),
        }
    }
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/reference/snapshot.schema.json")).expect("JSON");
    let all = given(&schema["properties"]["provenance"]);
    let mut problems = Vec::new();
    let read =
        snapshot::read("fleet.yaml", &format!("{HEAD}provenance: {all}\nobjects: []\n"), &mut problems);
    assert_eq!(errors(&problems), [""; 0]);
    assert_eq!(serde_json::json!(read.provenance), all, "nothing that the schema allows is lost");
    refused(
        &format!("{HEAD}provenance: {{recordetBy: x}}\nobjects: []\n"),
        "fleet.yaml:4:13: Snapshot: provenance: cannot be read: unknown field `recordetBy`, expected one of `recordedBy`, `serverVersion`, `absent`, `unreadable`, `redacted`; write recordedBy, serverVersion, absent, unreadable, redacted, or leave it out",
    );
}

#[test]
fn a_recording_is_of_a_whole_second_which_is_after_everything_in_it() {
    for (made, written) in [
        ("2026-11-22T08:20:35.124236395Z", "takenAt: 2026-11-22T08:20:36Z\n"),
        ("2026-11-22T08:20:35Z", "takenAt: 2026-11-22T08:20:35Z\n"),
    ] {
        let recording = snapshot::record::Recording {
            taken_at: made.parse().unwrap(),
            cluster: None,
            provenance: snapshot::Provenance::default(),
        };
        let text = snapshot::record::text(&recording, &observe::Objects::default());
        assert!(text.contains(written), "{text}");
    }
}
