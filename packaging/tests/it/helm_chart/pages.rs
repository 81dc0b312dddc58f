//! The commands that the pages give to install the chart are taken by it, as they are written.

use packaging::{KUBERNETES, Render};

use super::Bench;

/// The pages that install from the checkout, and how often each does.
const PAGES: [(&str, usize); 4] = [
    ("charts/slicewright/README.md", 1),
    ("docs/guides/install.md", 2),
    ("docs/guides/images.md", 3),
    ("docs/tutorial.md", 1),
];

const INSTALLS: &str = "helm install slicewright charts/slicewright ";

/// What stands in a page for what a reader fills in, and what a reader could fill in.
const FILLED_IN: [(&str, &str); 3] = [
    ("sha256:DIGEST", "sha256:1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"),
    (
        "$(cat target/images/operator.digest)",
        "sha256:2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e",
    ),
    ("MIRROR", "mirror.example.com/gpu"),
];

/// The words after `helm install slicewright charts/slicewright`, each time.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = FILLED_IN.iter().fold(text.replace("\\\n", " "), |text, (from, to)| text.replace(from, to));
    let after = text.lines().filter_map(|line| line.trim_start_matches("$ ").strip_prefix(INSTALLS));
    after.map(|words| words.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn every_command_that_a_page_gives_to_install_is_taken_by_the_chart() {
    let bench = Bench::new();
    for (page, many) in PAGES {
        let text = std::fs::read_to_string(packaging::root().join(page)).unwrap();
        let found = commands(&text);
        assert_eq!(found.len(), many, "{page}: {found:?}");
        for words in found {
            let mut template = bench.helm.command();
            template.args(["template", "slicewright"]).arg(packaging::chart());
            template.args(["--kube-version", KUBERNETES]).args(&words);
            let taken = bench.helm.run(&mut template);
            assert!(taken.is_ok(), "{page}: helm install … {}: {}", words.join(" "), taken.unwrap_err());
        }
    }
}

/// What the page of the chart said once, and the chart refuses.
#[test]
fn a_command_that_the_chart_refuses_is_found_over_several_lines() {
    let bench = Bench::new();
    let page =
        format!("```text\n{INSTALLS}--namespace a \\\n  --create-namespace\n```\n$ {INSTALLS}--set x=y\n");
    assert_eq!(commands(&page), [vec!["--namespace", "a", "--create-namespace"], vec!["--set", "x=y"]]);
    let nowhere = Render { set: vec![r#"image.registry="""#.to_owned()], ..Render::default() };
    assert!(bench.helm.text(&packaging::chart(), &nowhere).is_err());
}
