//! Quotations of Slicewright's messages in the pages for users are correct: each quoted sentence and each
//! reason is in the code, and no reason for waiting is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All code of a folder as one text, in which a literal that goes on in the
/// next line is one line.
fn code(folder: &str) -> String {
    fn walk(folder: &Path, into: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push_str(&joined(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    let mut text = String::new();
    walk(&root().join(folder), &mut text);
    text
}

fn joined(source: &str) -> String {
    let mut parts = source.split("\\\n");
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text.push_str(part.trim_start()));
    text
}

/// What the tables of a page quote under `message`, with the line.
fn quoted(page: &str) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in read(page).lines().enumerate() {
        if !line.starts_with('|') {
            inside = false;
        } else if line.starts_with("| message |") {
            inside = true;
        } else if let Some(cell) = line.strip_prefix("| \"").filter(|_| inside) {
            let (sentence, _) = cell.split_once("\" |").expect("the quote ends in its cell");
            found.push((number + 1, sentence.to_owned()));
        }
    }
    found
}

/// The parts of a sentence that are always the same; what is left out in it is
/// `…` on a page, and in braces in the code.
fn fixed(sentence: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for part in sentence.split('…') {
        let mut rest = part;
        while let Some((before, after)) = rest.split_once('{') {
            parts.push(before);
            rest = after.split_once('}').map_or("", |(_, after)| after);
        }
        parts.push(rest);
    }
    let says_something = |part: &&str| part.chars().filter(|c| c.is_alphabetic()).count() > 3;
    parts.into_iter().map(str::trim).filter(says_something).map(str::to_owned).collect()
}

/// The literals of a piece of code.
fn literals(code: &str) -> Vec<String> {
    let parts: Vec<&str> = code.split('"').collect();
    parts.iter().skip(1).step_by(2).map(|literal| (*literal).to_owned()).collect()
}

const WAITING: &str = "docs/guides/waiting.md";
const TROUBLE: &str = "docs/guides/troubleshooting.md";

#[test]
fn every_sentence_that_a_page_quotes_stands_in_the_code() {
    let folders = ["planner", "rollout", "reconcile", "observe", "controller"];
    let code: String = folders.iter().map(|name| code(&format!("crates/{name}/src"))).collect();
    for (page, least) in [(WAITING, 30), (TROUBLE, 5)] {
        let sentences = quoted(page);
        assert!(sentences.len() >= least, "{page}: {sentences:?}");
        for (line, sentence) in sentences {
            let parts = fixed(&sentence);
            assert!(!parts.is_empty(), "{page}:{line}: this quotes nothing: {sentence}");
            for part in parts {
                assert!(code.contains(&part), "{page}:{line}: nothing in the code says {part:?}");
            }
        }
    }
}

#[test]
fn every_reason_why_somebody_waits_and_what_would_help_is_on_the_page_for_them() {
    let words = joined(&read("crates/planner/src/words.rs"));
    let page: String = read(WAITING);
    for (kind, least) in [("Why", 15), ("Help", 7)] {
        let (_, of_kind) =
            words.split_once(&format!("impl fmt::Display for {kind} {{")).expect("it has words");
        let (of_kind, _) = of_kind.split_once("\nimpl ").expect("other words follow");
        let parts: Vec<String> = literals(of_kind).iter().flat_map(|literal| fixed(literal)).collect();
        assert!(parts.len() >= least, "{kind}: {parts:?}");
        for part in parts {
            assert!(page.contains(&part), "{WAITING} does not say what this means: {part:?}");
        }
    }
}

/// Reasons, states and kinds are written in one word with capitals.
fn is_a_name(word: &str) -> bool {
    let capitals = word.chars().filter(char::is_ascii_uppercase).count();
    capitals > 1
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric())
}

#[test]
fn every_reason_that_a_page_for_trouble_names_is_one() {
    let mut known: String = ["crates", "simulator"].iter().map(|folder| code(folder)).collect();
    known.push_str(&read("charts/slicewright/files/rules.yaml"));
    let runbooks = std::fs::read_dir(root().join("docs/runbooks")).unwrap();
    let mut pages: Vec<String> = runbooks
        .map(|entry| format!("docs/runbooks/{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    pages.extend([WAITING.to_owned(), TROUBLE.to_owned()]);
    let mut named = 0;
    for page in pages {
        let text = read(&page);
        for name in text.split('`').skip(1).step_by(2).filter(|word| is_a_name(word)) {
            assert!(known.contains(name), "{page}: there is no {name}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

/// The reasons of conditions that the code can write, each once.
fn reasons_of_conditions() -> BTreeSet<String> {
    let code = read("crates/api/src/condition.rs");
    let (_, list) = code.split_once("\nreasons! {\n").expect("the reasons are in one list");
    let (list, _) = list.split_once("\n}\n").expect("the list ends");
    let rows = list.lines().map(str::trim).filter(|line| !line.starts_with("///"));
    rows.map(|row| row.split('"').nth(1).unwrap_or_else(|| panic!("{row} is no reason")).to_owned()).collect()
}

/// The first cell of each row below a heading, and the last.
fn told(page: &str, heading: &str) -> Vec<(String, String)> {
    let text = read(page);
    let (_, section) =
        text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{page}: {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let cells = rows.map(|row| {
        let (reason, rest) = row.split_once("` | ").expect("a row begins with its reason");
        (reason.to_owned(), rest.rsplit(" | ").next().unwrap_or_default().to_owned())
    });
    cells.collect()
}

#[test]
fn the_page_for_trouble_says_of_every_reason_of_a_condition_what_to_do_and_knows_no_other() {
    let reasons = reasons_of_conditions();
    assert!(reasons.len() > 30, "{reasons:?}");
    let rows = told(TROUBLE, "## What each reason asks of you");
    let named: BTreeSet<String> = rows.iter().map(|(reason, _)| reason.clone()).collect();
    assert_eq!(named, reasons);
    assert_eq!(rows.len(), reasons.len(), "each is there once");
    assert!(rows.iter().all(|(_, advice)| advice.len() > 5), "{rows:?}");
}

/// Why a node does not change: the reference is generated, and the page for trouble quotes it.
#[test]
fn the_page_for_trouble_names_only_reasons_that_a_node_has() {
    let of_nodes: BTreeSet<String> =
        told("docs/reference/rollout.md", "## Reasons").into_iter().map(|(reason, _)| reason).collect();
    assert!(of_nodes.len() > 30, "{of_nodes:?}");
    let known: BTreeSet<String> = of_nodes.union(&reasons_of_conditions()).cloned().collect();
    let rows = told(TROUBLE, "## A node does not change");
    assert!(rows.len() > 3, "{rows:?}");
    for (cell, _) in rows {
        for reason in cell.split("`, `") {
            assert!(known.contains(reason), "no node has the reason {reason}");
        }
    }
}

#[test]
fn a_message_to_which_a_page_sends_its_reader_is_explained_further_down() {
    let text = read(WAITING);
    let parts: Vec<&str> = text.split("see \"").skip(1).collect();
    assert!(!parts.is_empty());
    for part in parts {
        let (message, after) = part.split_once('"').expect("the quote ends");
        assert!(after.starts_with(" below"), "{message}");
        assert!(after.contains(&format!("\n| \"{message}")), "{WAITING} does not explain {message:?} below");
    }
}
