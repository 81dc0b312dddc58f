//! The documents name only things that exist: links, paths, and the test of every invariant. And the code
//! follows the few rules that only a reader would notice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use invariants::{held_by, paragraphs};

#[path = "../../src/invariants.rs"]
mod invariants;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Folders that are nobody's source: build output, and what git keeps.
const NOT_OURS: &[&str] = &["target", ".git", "node_modules"];

fn files(extension: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, extension: &str, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !NOT_OURS.contains(&name.as_str()) {
                    walk(&path, extension, into);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                into.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), extension, &mut found);
    found.sort();
    assert!(!found.is_empty());
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A path for people: from the root of the repository.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The lines of a document that are prose, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((i + 1, line));
        }
    }
    lines
}

/// What stands between `open` and `close`, each time.
fn between<'a>(line: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(open) {
        rest = &rest[start + open.len()..];
        let Some(end) = rest.find(close) else { break };
        found.push(&rest[..end]);
        rest = &rest[end + close.len()..];
    }
    found
}

/// The anchors of a document, as GitHub makes them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// The links of a document that lead nowhere, with their lines.
fn broken_links(document: &Path) -> Vec<(usize, String)> {
    let text = read(document);
    let mut wrong = Vec::new();
    for (number, line) in prose(&text) {
        for target in between(line, "](", ")") {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file =
                if path.is_empty() { document.to_owned() } else { document.parent().unwrap().join(path) };
            let good = file.exists()
                && (anchor.is_empty() || file.is_file() && anchors(&read(&file)).contains(anchor));
            if !good {
                wrong.push((number, target.to_owned()));
            }
        }
    }
    wrong
}

/// What starts like a path of this repository is one.
fn broken_paths(document: &Path) -> Vec<(usize, String)> {
    let top: Vec<_> = std::fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir() && entry.file_name() != "target")
        .map(|entry| format!("{}/", entry.file_name().to_string_lossy()))
        .collect();
    let text = read(document);
    let mut wrong = Vec::new();
    for (number, line) in prose(&text) {
        for word in between(line, "`", "`") {
            let is_path = top.iter().any(|folder| word.starts_with(folder.as_str()))
                && !word.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '{' | '<' | '…'));
            // A folder may be a repository of its own: its documents name what is in it.
            let places = [Some(root().join(word)), document.parent().map(|folder| folder.join(word))];
            if is_path && !places.into_iter().flatten().any(|place| place.exists()) {
                wrong.push((number, word.to_owned()));
            }
        }
    }
    wrong
}

/// What a check finds wrong in all documents.
fn in_all_documents(check: fn(&Path) -> Vec<(usize, String)>) -> String {
    let mut wrong = String::new();
    for document in files("md") {
        for (number, what) in check(&document) {
            wrong.push_str(&format!("{}:{number}: there is no {what}\n", shown(&document)));
        }
    }
    wrong
}

/// Without `--locked`, cargo takes the newest versions of the dependencies, also in a checkout: nobody has tried those.
#[test]
fn whoever_installs_by_a_page_gets_the_versions_that_were_tested() {
    let mut found = 0;
    let pages = files("md").into_iter().filter(|page| !page.ends_with("CHANGELOG.md"));
    let helps = files("rs").into_iter().filter(|file| file.starts_with(root().join("xtask/src")));
    for file in pages.chain(helps) {
        for line in read(&file).lines() {
            for rest in line.split("cargo install ").skip(1) {
                let command = rest.split(['`', '"']).next().unwrap();
                // Where only the task is named, there is nothing to type.
                if command.contains(' ') {
                    assert!(command.contains("--locked"), "{}: cargo install {command}", shown(&file));
                    found += 1;
                }
            }
        }
    }
    assert!(found > 8, "{found}");
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let wrong = in_all_documents(broken_links);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_path_that_a_document_names_exists() {
    let wrong = in_all_documents(broken_paths);
    assert!(wrong.is_empty(), "{wrong}");
}

/// The blocks of a document that are files of the repository, by the comment
/// before each: where the block begins, the file, and the text.
fn quoted_files(text: &str) -> Vec<(usize, &str, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some(file) = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let block = lines.get(i + 1..).unwrap_or_default();
        let inside = block.iter().skip(1).take_while(|line| !line.starts_with("```"));
        let is_block = block.first().is_some_and(|line| line.starts_with("```"));
        let text = if is_block { inside.map(|line| format!("{line}\n")).collect() } else { String::new() };
        found.push((i + 1, file, text));
    }
    found
}

#[test]
fn every_file_that_a_document_quotes_is_quoted_as_it_is() {
    let wrong = in_all_documents(|document| {
        let text = read(document);
        let differs = |file: &str, quoted: &str| {
            std::fs::read_to_string(root().join(file)).map_or(true, |text| text != quoted)
        };
        quoted_files(&text)
            .into_iter()
            .filter(|(_, file, quoted)| differs(file, quoted))
            .map(|(line, file, _)| (line, format!("this block is not {file}")))
            .collect()
    });
    assert!(wrong.is_empty(), "{wrong}");
}

/// The names of all test functions, those inside `proptest!` included.
fn tests_of_the_tree() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files("rs") {
        let text = read(&file);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for (i, line) in lines.iter().enumerate() {
            if *line != "#[test]" {
                continue;
            }
            let function = lines[i + 1..].iter().find_map(|line| line.strip_prefix("fn "));
            names.extend(function.map(|f| f.split(['(', '<']).next().unwrap().to_owned()));
        }
    }
    names
}

#[test]
fn every_invariant_names_tests_that_exist() {
    let text = read(&root().join("docs/architecture.md"));
    let tests = tests_of_the_tree();
    let paragraphs = paragraphs(&text);
    assert!(paragraphs.len() >= 9, "design has nine, the document states {}", paragraphs.len());
    for paragraph in paragraphs {
        let title = paragraph.lines().next().unwrap();
        let (_, guards) = paragraph
            .split_once("Guarded by")
            .unwrap_or_else(|| panic!("this invariant says \"Guarded by\" nothing: {title}"));
        let named = between(guards, "`", "`");
        assert!(!named.is_empty(), "this invariant names no test: {title}");
        for name in named {
            assert!(tests.contains(name), "there is no test {name}, which is said to guard: {title}");
        }
    }
}

#[test]
fn every_invariant_names_functions_that_exist() {
    let text = read(&root().join("docs/architecture.md"));
    let broken = globs_of_mutants();
    let mut named = 0;
    // That the core is pure is held by what the crates may use, and by no function.
    for paragraph in paragraphs(&text).into_iter().filter(|text| !text.starts_with("**Invariant 10")) {
        let title = paragraph.lines().next().unwrap();
        let held = held_by(paragraph);
        assert!(!held.is_empty(), "this invariant names no function that holds it: {title}");
        let protects =
            ["1:", "2:", "4:", "5:"].iter().any(|n| title.starts_with(&format!("**Invariant {n}")));
        for (file, function) in held {
            let path = root().join(&file);
            assert!(path.is_file(), "there is no file {file}, which is said to hold: {title}");
            let source = read(&path);
            let is_there =
                source.contains(&format!("fn {function}(")) || source.contains(&format!("fn {function}<"));
            assert!(is_there, "{file} has no function {function}, which is said to hold: {title}");
            let breaks = broken.iter().any(|glob| is_of(glob, &file));
            assert!(
                breaks || !protects,
                "{file} holds what protects running work, and .cargo/mutants.toml leaves it out"
            );
            named += 1;
        }
    }
    assert!(named > 40, "{named}");
}

/// The files that `cargo xtask mutants` breaks.
fn globs_of_mutants() -> Vec<String> {
    let text = read(&root().join(".cargo/mutants.toml"));
    let (_, list) = text.split_once("examine_globs = [").expect("it says what is broken");
    let (list, _) = list.split_once(']').expect("the list ends");
    between(list, "\"", "\"").iter().map(|glob| (*glob).to_owned()).collect()
}

/// Whether a path is meant by a glob whose only star stands for a file's name.
fn is_of(glob: &str, path: &str) -> bool {
    match glob.split_once('*') {
        None => glob == path,
        Some((before, after)) => path
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|name| !name.contains('/')),
    }
}

#[test]
fn what_mutants_are_made_of_exists_and_what_is_left_out_says_why() {
    let sources: Vec<_> = files("rs").iter().map(|file| shown(file)).collect();
    for glob in globs_of_mutants() {
        assert!(sources.iter().any(|file| is_of(&glob, file)), ".cargo/mutants.toml: nothing is {glob}");
    }
    let text = read(&root().join(".cargo/mutants.toml"));
    let (_, list) = text.split_once("exclude_re = [\n").expect("it says what is left out");
    let mut reason = false;
    for line in list.lines().take_while(|line| !line.starts_with(']')).map(str::trim) {
        let is_reason = line.starts_with("# ");
        assert!(is_reason || reason, "this mutant is left out without a reason: {line}");
        reason = is_reason;
    }
}

#[test]
fn every_test_that_the_checklist_of_packaging_names_exists() {
    let text = read(&root().join("docs/packaging.md"));
    let rows: Vec<_> =
        text.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).collect();
    assert_eq!(rows.len(), 60);
    name_tests_that_exist(&rows, 60);
    let (tests, steps) = (tests_of_the_tree(), steps());
    for row in rows {
        let (_, shown_by) = row.trim_end_matches('|').rsplit_once('|').unwrap();
        assert!(!proofs(shown_by, &tests, &steps).is_empty(), "no test and no step shows this: {row}");
    }
}

/// The steps of `cargo xtask test` and of `cargo xtask release-check`.
fn steps() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in ["gate", "release_check", "image", "clients"] {
        let text = read(&root().join(format!("xtask/src/{file}.rs")));
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for called in ["step( \"", "step(\"", "image( \"", "image(\"", "name: \""] {
            found.extend(between(&text, called, "\"").into_iter().map(str::to_owned));
        }
    }
    found
}

/// What a cell names that can fail by itself: tests, and steps.
fn proofs(cell: &str, tests: &BTreeSet<String>, steps: &BTreeSet<String>) -> Vec<String> {
    let mut found: Vec<String> =
        between(cell, "`", "`").into_iter().filter(|word| tests.contains(*word)).map(str::to_owned).collect();
    let of_release = between(cell, "`cargo xtask release-check ", "`").into_iter().flat_map(|s| s.split(' '));
    let lists = cell.split(';').filter_map(|part| part.split_once("steps `"));
    let in_lists = lists.flat_map(|(_, list)| list.split('`').step_by(2));
    let named = between(cell, "step `", "`").into_iter().chain(of_release).chain(in_lists);
    for step in named {
        assert!(steps.contains(step), "there is no step {step}, which is named in:{cell}");
        found.push(step.to_owned());
    }
    found
}

#[test]
fn a_row_that_names_a_package_or_everything_shows_nothing() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let (tests, steps) = (set(&["a_slice_is_kept_by_its_pod"]), set(&["flux", "image", "deny"]));
    let proofs = |cell| proofs(cell, &tests, &steps);
    assert_eq!(proofs("the package `gitops`; `cargo xtask e2e`; the snapshots"), [""; 0]);
    assert_eq!(proofs("`a_slice_is_kept_by_its_pod`"), ["a_slice_is_kept_by_its_pod"]);
    assert_eq!(proofs("step `flux` of the release check"), ["flux"]);
    assert_eq!(proofs("steps `image` and `deny`"), ["image", "deny"]);
    assert_eq!(proofs("`cargo xtask release-check image flux`"), ["image", "flux"]);
}

/// Whoever reads the first page, or how to install, is led to every guide for users.
#[test]
fn the_first_pages_lead_to_every_guide_and_the_commands_help_is_quoted_as_it_is() {
    let (readme, install) = (read(&root().join("README.md")), read(&root().join("docs/guides/install.md")));
    for entry in std::fs::read_dir(root().join("docs/guides")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let led_to =
            readme.contains(&format!("(docs/guides/{name}")) || install.contains(&format!("({name}"));
        // How a maintainer releases is in the developers' guide.
        assert!(
            led_to || name == "releasing.md",
            "neither README.md nor docs/guides/install.md leads to {name}"
        );
    }
    for page in ["docs/tutorial.md", "docs/guides/install.md#the-command"] {
        assert!(readme.contains(&format!("({page})")), "README.md does not lead to {page}");
    }
    let help = read(&root().join("docs/reference/cli.md"));
    for command in ["slicewright completions bash > ", "slicewright man --to "] {
        let line = help.lines().find(|line| line.trim_start().starts_with(command)).unwrap().trim();
        assert!(install.lines().any(|quoted| quoted == line), "docs/guides/install.md does not say: {line}");
    }
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let text = read(&root().join("docs/threat-model.md"));
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| **")).collect();
    name_tests_that_exist(&rows, 6);
}

#[test]
fn every_test_that_the_page_on_tenants_names_exists() {
    let text = read(&root().join("docs/threat-model-tenants.md"));
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| **")).collect();
    name_tests_that_exist(&rows, 12);
}

/// The tests that rows of a table name are there, and there are some.
#[track_caller]
fn name_tests_that_exist(rows: &[&str], least: usize) {
    let tests = tests_of_the_tree();
    let is_test = |name: &&str| name.matches('_').count() > 2 && !name.contains(['.', '/', ' ']);
    let named: Vec<_> = rows.iter().flat_map(|row| between(row, "`", "`")).filter(is_test).collect();
    assert!(named.len() > least, "{named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !tests.contains(**name)).collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}

#[test]
fn no_test_is_switched_off() {
    // In two parts, so that this line is not found.
    let ignore = ["#[", "ignore"].concat();
    let found: Vec<_> =
        files("rs").iter().filter(|file| read(file).contains(&ignore)).map(|f| shown(f)).collect();
    assert!(found.is_empty(), "a test that does not run is removed or mended: {found:?}");
}

#[test]
fn no_file_holds_two_ideas() {
    const LIMIT: usize = 600;
    let found: Vec<_> = files("rs")
        .iter()
        .map(|file| (read(file).lines().count(), shown(file)))
        .filter(|(lines, _)| *lines > LIMIT)
        .collect();
    assert!(found.is_empty(), "more than {LIMIT} lines: which second idea moved in? {found:?}");
}

#[test]
fn every_module_names_what_it_does() {
    let vague = ["util", "utils", "common", "helper", "helpers", "misc"];
    let found: Vec<_> = files("rs")
        .iter()
        .filter(|file| {
            let stem = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
            vague.contains(&stem(file).as_str()) || vague.contains(&stem(file.parent().unwrap()).as_str())
        })
        .map(|file| shown(file))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_checks_see_what_is_wrong() {
    assert_eq!(between("see `a` and `b`", "`", "`"), ["a", "b"]);
    assert_eq!(
        anchors("# One\ntext\n## 2. Two, and `three`\n"),
        ["2-two-and-three", "one"].map(str::to_owned).into()
    );
    assert_eq!(prose("a\n```\nb\n```\nc"), [(1, "a"), (5, "c")]);
    assert_eq!(paragraphs("x\n\n**Invariant 1: a.** b\n\ny"), ["**Invariant 1: a.** b"]);
    assert_eq!(
        quoted_files("a\n<!-- file: x/y.yaml -->\n```yaml\nb: 1\n```\n"),
        [(2, "x/y.yaml", "b: 1\n".to_owned())]
    );
    let document = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page.md");
    let text = "# Here\n[a](page.md#here) [b](#there)\n[c](none.md) `crates/mig` `crates/nothing`\n";
    std::fs::write(&document, text).unwrap();
    assert_eq!(broken_links(&document), [(2, "#there".to_owned()), (3, "none.md".to_owned())]);
    assert_eq!(broken_paths(&document), [(3, "crates/nothing".to_owned())]);
}
