//! The page of a plan says what its comment says, and YAML what JSON says: whoever reads the one misses nothing of the other.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::plan::run;
use crate::revisions::{RESEARCH, folder, static_policy};
use crate::{previews, seats};

const EXPECTATIONS: &str = "apiVersion: expectations.slicewright.io/v1
kind: Expectations
expectations:
  - name: team A keeps four
    why: its workbenches start every morning
    namespace: team-a
    profile: 3g.40gb
    minSlices: 4
  - name: nobody is evicted by a merge
    maxEvictions: 0
";

/// A change that hurts: the research pool becomes sevenths, the teaching pool gets a policy, and something else is beside it.
fn hurts(name: &str) -> String {
    let before = folder(&format!("{name}-before"), &[("research.yaml", RESEARCH)]);
    let files = [
        ("research.yaml", static_policy("research", "research", "1g.10gb", 7)),
        ("teaching.yaml", static_policy("teaching", "teaching", "2g.12gb", 2)),
        ("values.yaml", "replicas: 3\n".to_owned()),
        ("expectations.yaml", EXPECTATIONS.to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (*file, text.as_str())).collect();
    let after = folder(&format!("{name}-after"), &files);
    format!("plan --fleet examples/fleet/lab.yaml --base {} -f {}", before.display(), after.display())
}

/// The titles of a comment's sections, without how many items are in them.
fn titles(comment: &str) -> BTreeSet<String> {
    let title = |line: &str| -> Option<String> {
        let (_, folded) = line.split_once("<summary>").unzip();
        let folded = folded.and_then(|rest| rest.rsplit_once(" (")).map(|(title, _)| title);
        folded.or_else(|| line.strip_prefix("#### ")).map(str::to_owned)
    };
    comment.lines().filter_map(title).collect()
}

#[test]
fn every_section_of_the_comment_is_on_the_page() {
    let mut found = BTreeSet::new();
    let cases =
        [hurts("page"), format!("plan {}", seats::files("page-seats")), previews::moved("page-moved")];
    for words in cases {
        let (_, comment, err) = run(&format!("{words} -o markdown"));
        let (_, page, _) = run(&format!("{words} -o html"));
        assert_eq!(err, "");
        for title in titles(&comment) {
            // What the signs of the pictures mean stands below the picture of the page.
            let title = if title.starts_with("Before and after: ") { "Before and after" } else { &title };
            assert!(page.contains(&format!("<h2>{title}</h2>")), "{title:?} is not on the page of {words}");
            found.insert(title.to_owned());
        }
    }
    assert_eq!(found.len(), 16, "a section that no fleet here has is not looked for: {found:#?}");
}

#[test]
fn the_page_says_what_people_have_to_know_before_they_agree() {
    let words = hurts("page-says");
    let (_, page, _) = run(&format!("{words} -o html"));
    let json: Value = serde_json::from_str(&run(&format!("{words} -o json")).1).unwrap();
    let compared = &json["compared"];
    let (policies, plan) =
        (compared["policyDigest"].as_str().unwrap(), compared["planDigest"].as_str().unwrap());
    for says in [
        "Why it is expected: its workbenches start every morning".to_owned(),
        "node <code>gpu-3</code>: no policy → <code>teaching</code>".to_owned(),
        "<code>a document</code> at <code>".to_owned(),
        format!("; before this change policies <code>{policies}</code>, plan <code>{plan}</code>. "),
        "No plan is better up to the number of slices created and destroyed: proved on ".to_owned(),
        "<code>teaching</code> is added".to_owned(),
        "<td>gpu-3/gpu0</td><td>4 x 1g.6gb</td>".to_owned(),
    ] {
        assert!(page.contains(&says), "{says:?} is not on the page:\n{page}");
    }
}

/// The picture alone is that of the page, for whoever puts it somewhere else.
#[test]
fn the_picture_of_a_plan_is_the_one_on_its_page_and_a_file_of_its_own() {
    let words = hurts("page-picture");
    let (status, picture, err) = run(&format!("{words} -o svg"));
    let (of_the_page, page, _) = run(&format!("{words} -o html"));
    assert_eq!((status, err.as_str()), (of_the_page, ""));
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"), "{picture}");
    assert!(
        picture.contains("xmlns=\"http://www.w3.org/2000/svg\""),
        "a browser opens it as a file: {picture}"
    );
    assert_eq!(picture.matches("<svg ").count(), 1);
    // It loads nothing, and has both sides of what changes, with the cost in words.
    assert!(!picture.contains("href") && !picture.contains("<script"), "{picture}");
    for (says, times) in [
        (">gpu-1</text>", 1),
        (">gpu-3</text>", 1),
        ("<title>1g.6gb, destroyed</title>", 4),
        ("<title>2g.12gb, created</title>", 2),
    ] {
        assert_eq!(picture.matches(says).count(), times, "{says}:\n{picture}");
    }
    let (_, drawn) = picture.split_once('>').unwrap();
    assert!(page.contains(drawn.trim_end()), "the page has another picture:\n{page}\n{picture}");
}

#[test]
fn yaml_says_to_programs_what_json_says() {
    let files = "--fleet examples/fleet/lab.yaml -f examples/policies";
    for words in [
        format!("fleet --fleet {}", seats::files("yaml-seats").split(' ').nth(1).unwrap()),
        "fleet --fleet examples/fleet/lab.yaml".to_owned(),
        format!("explain request team-a/fraud-lab-0 {files}"),
        format!("explain node gpu-1 {files}"),
        format!("explain policy research {files}"),
    ] {
        let printed = |output: &str| run(&format!("{words} -o {output}"));
        let ((status, json, _), (other, yaml, err)) = (printed("json"), printed("yaml"));
        assert_eq!((status, err.as_str()), (other, ""), "{words}");
        let json: Value = serde_json::from_str(&json).unwrap();
        let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(json, yaml, "{words}");
        assert_eq!(json["formatVersion"], 1, "{words}");
    }
}
