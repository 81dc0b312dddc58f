//! Expectations: which of them fail, with which message and exit status; and files that are refused.

use std::fs;
use std::path::{Path, PathBuf};

use cli::exit::Status;

const HEAD: &str = "apiVersion: expectations.slicewright.io/v1\nkind: Expectations\nexpectations:\n";
const RESEARCH: &str = include_str!("../../../../examples/policies/research.yaml");

/// `plan` of some policies on the fleet of the examples, with expectations beside them.
fn plan(name: &str, policies: &str, expectations: &str, more: &[&str]) -> (Status, String, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("expectations").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("policies.yaml"), policies).unwrap();
    fs::write(folder.join("expectations.yaml"), format!("{HEAD}{expectations}")).unwrap();
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet/lab.yaml");
    let mut words: Vec<std::ffi::OsString> = vec!["slicewright".into(), "plan".into(), "--fleet".into()];
    words.extend([fleet.into_os_string(), "-f".into(), folder.clone().into_os_string()]);
    words.extend(more.iter().map(Into::into));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(words, &mut out, &mut err);
    let text =
        |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&format!("{}/", folder.display()), "");
    (status, text(out), text(err))
}

/// One expectation, on the policies of the examples: `Ok` when it holds, else
/// the lines that say why not.
#[track_caller]
fn check(name: &str, expectation: &str, expect: &str) {
    let (status, out, err) = plan(name, RESEARCH, &format!("  - {{name: x, {expectation}}}\n"), &[]);
    assert_eq!(err, "");
    let said: String = out
        .lines()
        .skip_while(|line| *line != "Expectations")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    assert_eq!(said, expect);
    let holds = expect.starts_with("holds");
    assert_eq!(status, if holds { Status::Changes } else { Status::Unmet }, "{out}");
}

const HOLDS: &str = "holds      x\n";

#[test]
fn slices_that_exist_are_counted_by_policy_nodes_and_namespace() {
    check("a1", "profile: 1g.10gb, minSlices: 14", HOLDS);
    check(
        "a2",
        "profile: 1g.10gb, minSlices: 15, policy: research",
        "FAILED     x\nminSlices is 15, but when the plan is done, there are 14 x 1g.10gb\nnext: 28 can be reached: set minCount to 15 in spec.layout.demandDriven.slices[1g.10gb] of policy research (it is 0)\n",
    );
    // One of the fourteen is held by team-a: the others can have thirteen.
    check("a3", "profile: 1g.10gb, minSlices: 14, namespace: team-a", HOLDS);
    check(
        "a4",
        "profile: 1g.10gb, minSlices: 14, namespace: team-b",
        "FAILED     x\nminSlices is 14, but when the plan is done, there are 13 x 1g.10gb for namespace team-b\nnext: 27 can be reached: set minCount to 14 in spec.layout.demandDriven.slices[1g.10gb] of policy research (it is 0)\n",
    );
    check(
        "a5",
        "profile: 1g.6gb, minSlices: 4, nodes: {matchLabels: {slicewright.io/pool: teaching}}",
        HOLDS,
    );
    check(
        "a6",
        "profile: 1g.6gb, minSlices: 5, nodes: {matchLabels: {slicewright.io/pool: teaching}}",
        "FAILED     x\nminSlices is 5, but when the plan is done, there are 4 x 1g.6gb\nnext: no layout of these nodes reaches it: the maximum is 4 x 1g.6gb while the slices in use stay; add nodes, wait until pods have ended, or expect less\n",
    );
}

#[test]
fn free_slices_are_those_that_nobody_holds_or_was_promised() {
    check("b1", "profile: 1g.10gb, minFree: 13", HOLDS);
    check(
        "b2",
        "profile: 3g.40gb, minFree: 1",
        "FAILED     x\nminFree is 1, but when the plan is done and all served requests have their slices, the free slices are 0 x 3g.40gb\nnext: 4 can be reached: set spareCount to 1 in spec.layout.demandDriven.slices[3g.40gb] of policy research (it is 0)\n",
    );
    check(
        "b3",
        "profile: 1g.10gb, minFree: 22",
        "FAILED     x\nminFree is 22, but when the plan is done and all served requests have their slices, the free slices are 13 x 1g.10gb\nnext: 28 can be reached: raise maxCount to 22 or more in spec.layout.demandDriven.slices[1g.10gb] of policy research (it is 21)\n",
    );
}

#[test]
fn what_no_layout_offers_is_not_attainable() {
    check("c1", "profile: 7g.80gb, minAttainable: 2, policy: research", HOLDS);
    check(
        "c2",
        "profile: 7g.80gb, minAttainable: 5",
        "FAILED     x\nminAttainable is 5, but no layout offers more than 2 x 7g.80gb\nnext: no layout of these nodes reaches it: the maximum is 2 x 7g.80gb while the slices in use stay; add nodes, wait until pods have ended, or expect less\n",
    );
}

#[test]
fn everybody_who_is_meant_is_served_or_it_says_who_is_not_and_what_would_help() {
    check("d1", "served: true", HOLDS);
    let nobody = RESEARCH.replace("minCount: 1}", "maxCount: 0}");
    let (status, out, _) = plan("d2", &nobody, "  - {name: x, served: true, namespace: team-a}\n", &[]);
    assert_eq!(status, Status::Unmet);
    let says =
        "1 request is not served: Pod team-a/fraud-lab-0\n    next: Pod team-a/fraud-lab-0: not served: ";
    assert!(out.contains(says), "{out}");
    let preview = RESEARCH.replace("spec:\n", "spec:\n  mode: Preview\n");
    let (status, out, _) = plan("d3", &preview, "  - {name: x, served: true, namespace: team-a}\n", &[]);
    assert_eq!(status, Status::Unmet);
    assert!(
        out.contains("policy research would serve it and is in mode Preview; set spec.mode to Enforce"),
        "{out}"
    );
}

#[test]
fn who_may_not_be_evicted_is_protected() {
    let evicting = RESEARCH
        .replace("type: DemandDriven\n    demandDriven:\n      slices:\n        - {profile: 1g.10gb, spareCount: 1, maxCount: 21}\n        - {profile: 3g.40gb, minCount: 1}", "type: Static\n    static: {gpus: [{slices: [{profile: 7g.80gb, count: 1}]}]}")
        .replace("maxUnavailable: 1", "maxUnavailable: 1\n    drain: Evict");
    let (status, out, err) =
        plan("e1", &evicting, "  - {name: quiet, maxEvictions: 0, namespace: team-a}\n", &[]);
    assert_eq!((status, err.as_str()), (Status::Unmet, ""), "{out}");
    assert!(out.contains("maxEvictions is 0, but 1 pod is evicted: team-a/churn-0"), "{out}");
    let (status, _, _) =
        plan("e2", &evicting, "  - {name: quiet, maxEvictions: 0, namespace: team-b}\n", &[]);
    assert_eq!(status, Status::Loss, "somebody else's pod is evicted");
}

#[test]
fn what_means_nobody_fails_instead_of_holding_by_accident() {
    check(
        "f1",
        "profile: 1g.10gb, minSlices: 0, policy: reserch",
        "FAILED     x\nthere is no policy `reserch`; did you mean `research`?\nnext: keep the policy, or name one of these in the expectation: research\n",
    );
    check(
        "f2",
        "served: true, nodes: {matchLabels: {slicewright.io/pool: nowhere}}",
        "FAILED     x\nit selects no node with GPUs\nnext: check the labels (`slicewright fleet`), the policy's nodeSelector, and this expectation's `nodes`\n",
    );
}

#[test]
fn a_namespace_or_a_profile_that_is_not_there_fails_instead_of_holding_by_accident() {
    // The fleet of the examples has no Namespace: those count in which something is.
    check(
        "f3",
        "served: true, namespace: taem-a",
        "FAILED     x\nthe snapshot has no namespace `taem-a`; did you mean `team-a`?\nnext: correct the name, or add the Namespace to the fleet\n",
    );
    check(
        "f4",
        "profile: 1g.6gb, minSlices: 0, policy: research",
        "FAILED     x\nno GPU of the selected nodes can have 1g.6gb\nnext: name one that they can have: 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb; or other nodes\n",
    );
    check("f5", "profile: 1g.6gb, minSlices: 0", HOLDS);
}

#[test]
fn an_expectation_fails_also_when_nothing_changes_and_says_whether_it_held_before() {
    let nothing = "apiVersion: slicewright.io/v1alpha1\nkind: GpuPartitionPolicy\nmetadata: {name: research}\nspec:\n  mode: Paused\n  nodeSelector: {matchLabels: {slicewright.io/pool: research}}\n  layout: {type: DemandDriven}\n";
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies");
    let more = ["--base", base.to_str().unwrap()];
    let expectation = "  - {name: half a GPU exists, profile: 3g.40gb, minSlices: 1, why: the course}\n";
    let (status, out, _) = plan("g", nothing, expectation, &more);
    assert_eq!(status, Status::Unmet);
    assert!(out.lines().next().unwrap().contains("; no GPU changes; "), "{out}");
    assert!(out.lines().next().unwrap().ends_with("; 1 of 1 expectation FAILED"), "{out}");
    assert!(out.contains("half a GPU exists (it held before this change)"), "{out}");
    assert!(out.contains("policy research changes nothing; set spec.mode to Enforce"), "{out}");
    assert!(out.contains("why it is expected: the course (expectations.yaml:4:"), "{out}");
    let (status, out, _) = plan("g", nothing, expectation, &["-o", "markdown"]);
    assert_eq!(status, Status::Unmet);
    assert!(out.contains("#### Expectations that FAILED\n\n- **half a GPU exists**<br>"), "{out}");
    let (_, out, _) = plan("g", nothing, expectation, &["-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["expectations"][0]["failures"][0]["field"], "minSlices");
}

#[track_caller]
fn refused(name: &str, expectations: &str, expect: &str) {
    let (status, out, err) = plan(name, RESEARCH, expectations, &[]);
    assert_eq!((status, out.as_str(), err.as_str()), (Status::Data, "", expect));
}

#[test]
fn a_wrong_file_is_refused_with_place_field_and_the_nearest_word() {
    refused(
        "r1",
        "  - {name: x, profile: 1g.10gb, minSlice: 4}\n",
        "error: expectations.yaml:4:33: Expectations: expectations[0].minSlice: unknown field; did you mean `minSlices`? Allowed here: maxEvictions, minAttainable, minFree, minSlices, name, namespace, nodes, policy, profile, served, why\n",
    );
    refused(
        "r2",
        "  - {name: x, profile: 1g.11gb, minSlices: 4}\n",
        "error: expectations.yaml:4:24: Expectations: expectations[0].profile: `1g.11gb` is not a profile of any known model; did you mean `1g.10gb`?\n",
    );
    refused(
        "r3",
        "  - {name: x, minSlices: 4}\n",
        "error: expectations.yaml:4:26: Expectations: expectations[0].minSlices: needs a profile to count; write for example `profile: 1g.10gb`\n",
    );
    refused(
        "r4",
        "  - {name: x}\n",
        "error: expectations.yaml:4:5: Expectations: expectations[0]: expects nothing; write at least one of minSlices, minFree, minAttainable, served, maxEvictions\n",
    );
    refused(
        "r5",
        "  - {name: x, profile: 1g.10gb, minSlices: many}\n",
        "error: expectations.yaml:4:44: Expectations: expectations[0].minSlices: is the text `many`; a whole number is needed\n",
    );
    refused(
        "r6",
        "",
        "error: expectations.yaml:3:13: Expectations: expectations: has no value; a list is needed\n",
    );
}

#[test]
fn a_file_may_be_named_and_is_then_needed() {
    let here = PathBuf::from("no/such/expectations.yaml");
    let (status, _, err) =
        plan("n", RESEARCH, "  - {name: x, served: true}\n", &["--expect", here.to_str().unwrap()]);
    assert_eq!(status, Status::Data);
    assert!(err.starts_with("error: cannot read no/such/expectations.yaml: "), "{err}");
}
