//! Compares `docs/reference/cli.md` with the command's help.

use std::path::Path;
use std::process::{Command, Stdio};

/// What the program prints, away from any terminal, so that no width of a
/// window has a say.
fn help(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .args(args)
        .arg("--help")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names under `Commands:`.
fn commands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

fn page() -> String {
    let overview = help(&[]);
    let names = commands(&overview);
    assert!(!names.is_empty());
    let mut page = format!(
        "# The command\n\n<!-- Generated from the command's own help: cargo xtask codegen. -->\n\n```text\n{overview}```\n"
    );
    for name in names {
        page.push_str(&format!("\n## slicewright {name}\n\n```text\n{}```\n", help(&[name])));
    }
    page.push_str(
        "
## Exit statuses

| status | meaning |
|---|---|
| 0 | done; it fits; nothing would change |
| 1 | it does not fit; an expectation of a story did not hold; something failed that is nobody's input |
| 2 | `plan`: something would change |
| 3 | `plan`: something would change, and something is blocked or violated |
| 4 | `plan`: an expectation does not hold, whether something changes or not |
| 5 | `plan`: people lose: their pods are evicted, or they are not served although the policies before would serve them |
| 6 | `plan`: the policies say which plan was reviewed, and this is another one |
| 7 | the planner gave up: it found no plan, or (`solve`) not the proof that its plan is the best |
| 64 | a wrong command line, or a question that makes no sense |
| 65 | input that cannot be read or is not valid |
| 141 | the reader of the output went away before everything was written, as where `head` reads it; `plan` keeps its own status |
",
    );
    // Trailing blanks are clap's, and no editor keeps them.
    page.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A command that wraps is two commands to whoever copies it.
#[test]
fn every_example_is_a_line_of_a_terminal_of_80_columns() {
    let mut all: Vec<Vec<String>> =
        commands(&help(&[])).into_iter().map(|name| vec![name.to_owned()]).collect();
    all.push(vec!["profiles".to_owned(), "export".to_owned()]);
    let mut seen = 0;
    for command in all {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help(&words);
        for line in help.lines().skip_while(|line| *line != "Examples:").skip(1) {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
            seen += 1;
        }
    }
    assert!(seen > 40, "the examples are looked at: {seen}");
}

#[test]
fn the_reference_of_the_command_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = page();
    #[expect(clippy::disallowed_methods, reason = "the switch of cargo xtask codegen")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/reference/cli.md is out of date: run cargo xtask codegen");
}
