//! `cargo xtask mutants`: breaks the lines that protect running work, one at a
//! time, and says which of them no test notices.

use std::fs;
use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

/// The program, and how to come by it.
const TOOL: &str = "cargo-mutants is not installed: cargo install cargo-mutants --locked";

/// Breaks the lines that protect running work and names those that no test notices
///
/// What is broken, which tests judge, and which mutants change nothing is in
/// `.cargo/mutants.toml`. All of it takes hours; `--since` takes what differs
/// from a commit, `--file` and `--re` a part.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only what differs from this commit, changes that are not committed included
    #[arg(long, value_name = "REF")]
    since: Option<String>,
    /// Only these files
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Only mutants whose name matches
    #[arg(long, value_name = "REGEX")]
    re: Vec<String>,
    /// Judged by the tests of these packages only
    #[arg(long, value_name = "PACKAGE")]
    test_package: Vec<String>,
    /// Names the mutants and tests nothing
    #[arg(long)]
    list: bool,
    /// Works in this checkout instead of a copy: nothing is compiled anew, and
    /// nobody may touch it meanwhile
    #[arg(long)]
    in_place: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let here = std::env::current_exe()?;
    let folder = here.ancestors().nth(2).context("cannot find the target folder")?.join("mutants");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut mutants = Command::new("cargo");
    mutants.arg("mutants").current_dir(crate::root());
    if let Some(since) = &args.since {
        let diff = difference(since)?;
        if diff.is_empty() {
            writeln!(out, "nothing differs from {since}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let file = folder.join("since.diff");
        fs::write(&file, diff).with_context(|| format!("cannot write {}", file.display()))?;
        mutants.arg("--in-diff").arg(file);
    }
    mutants.args(options(args)).arg("--output").arg(&folder);
    let installed =
        Command::new("cargo").args(["mutants", "--version"]).output().context("cannot run cargo")?;
    ensure!(installed.status.success(), TOOL);
    out.flush()?;
    let status = mutants.status().context("cannot run cargo")?;
    ensure!(status.success(), meaning(status.code(), &folder.join("mutants.out").display().to_string()));
    Ok(ExitCode::SUCCESS)
}

/// What differs from a commit, as `git diff` says it.
fn difference(since: &str) -> anyhow::Result<Vec<u8>> {
    let known = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{since}^{{commit}}")])
        .current_dir(crate::root())
        .output()
        .context("cannot run git")?;
    let commit = String::from_utf8_lossy(&known.stdout).trim().to_owned();
    ensure!(
        known.status.success(),
        "--since is {since:?}, which is no commit here; a branch, a tag or a hash is"
    );
    let diff = Command::new("git").args(["diff", &commit]).current_dir(crate::root()).output()?;
    ensure!(
        diff.status.success(),
        "git diff {commit} failed: {}",
        String::from_utf8_lossy(&diff.stderr).trim()
    );
    Ok(diff.stdout)
}

/// What is handed on as it is.
fn options(args: &Args) -> Vec<String> {
    let mut all = Vec::new();
    let named = [("--file", &args.file), ("--re", &args.re), ("--test-package", &args.test_package)];
    for (option, values) in named {
        all.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    for (option, given) in [("--list", args.list), ("--in-place", args.in_place)] {
        all.extend(given.then(|| option.to_owned()));
    }
    all
}

/// What the end of `cargo mutants` means.
fn meaning(code: Option<i32>, folder: &str) -> String {
    match code {
        Some(2) => format!(
            "no test notices some of the mutants; they are in {folder}/missed.txt. Write the test that says the rule, or list the mutant in .cargo/mutants.toml with the reason why it changes nothing"
        ),
        Some(3) => format!("with some of the mutants the tests do not end; they are in {folder}/timeout.txt"),
        Some(4) => format!("the tests fail without any mutant; see {folder}/log/baseline.log"),
        _ => format!("cargo mutants failed; see {folder}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        Line::parse_from(std::iter::once("mutants").chain(line.iter().copied())).args
    }

    #[test]
    fn what_is_asked_for_is_handed_on() {
        assert!(options(&args(&[])).is_empty());
        let line = ["--file", "a.rs", "--file", "b.rs", "--re", "list_is_fresh", "--in-place", "--list"];
        let expected = ["--file", "a.rs", "--file", "b.rs", "--re", "list_is_fresh", "--list", "--in-place"];
        assert_eq!(options(&args(&line)), expected);
    }

    #[test]
    fn a_commit_that_is_not_there_is_named() {
        let error = difference("no-such-branch").unwrap_err().to_string();
        assert!(error.starts_with("--since is \"no-such-branch\", which is no commit here"), "{error}");
    }

    #[test]
    fn survivors_are_told_from_tests_that_fail_anyway() {
        assert!(meaning(Some(2), "out").contains("out/missed.txt"));
        assert!(meaning(Some(3), "out").contains("out/timeout.txt"));
        assert!(meaning(Some(4), "out").contains("without any mutant"));
        assert!(meaning(None, "out").contains("cargo mutants failed"));
    }
}
