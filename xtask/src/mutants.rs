//! `cargo xtask mutants`: breaks the lines that protect running work, one at a time, and reports those that
//! no test notices.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::installing::Install;
use crate::invariants;
use crate::needs;
use crate::steps::Tool;
use crate::tools::GIT;

/// The program, and how to come by it.
pub(crate) const TOOL: Tool = Tool {
    name: "cargo-mutants",
    probe: &["cargo", "mutants", "--version"],
    install: Install::Command("cargo install cargo-mutants --locked"),
};

/// The packages whose tests know neither a control plane nor a chart. They are
/// asked about what the tests of a mutant's own package do not notice.
const JUDGES: [&str; 5] = [
    "slicewright-controller",
    "slicewright-observe",
    "slicewright-planner",
    "slicewright-reconcile",
    "slicewright-rollout",
];

/// Breaks the lines that protect running work and lists those that no test notices
///
/// What is broken, and which mutants change nothing, is in `.cargo/mutants.toml`.
/// Each mutant is judged by the quick tests of its own package; what these do not
/// notice is judged once more by all tests of the five packages that know no
/// control plane. `--invariants` takes the functions that hold the invariants,
/// `--since` what differs from a commit, `--file` and `--re` a part.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the functions that docs/architecture.md says to hold the invariants
    #[arg(long)]
    invariants: bool,
    /// Only what differs from this commit, changes that are not committed included
    #[arg(long, value_name = "REF")]
    since: Option<String>,
    /// Only these files
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Only mutants whose name, as `--list` shows it, matches
    #[arg(long, value_name = "REGEX", conflicts_with = "invariants")]
    re: Vec<String>,
    /// Judged once, by the tests of these packages only
    #[arg(long, value_name = "PACKAGE")]
    test_package: Vec<String>,
    /// Names the mutants and tests nothing
    #[arg(long)]
    list: bool,
    /// Works in this checkout instead of a copy: our crates are not compiled anew
    /// each time, and nobody may touch it meanwhile
    #[arg(long)]
    in_place: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let git = args.since.as_ref().map(|_| GIT);
    needs::require("cargo xtask mutants", &[TOOL].into_iter().chain(git).collect::<Vec<_>>())?;
    let here = std::env::current_exe()?;
    let folder = here.ancestors().nth(2).context("cannot find the target folder")?.join("mutants");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (files, mut chosen) = choice(args, &read("docs/architecture.md")?)?;
    let settings = folder.join("mutants.toml");
    fs::write(&settings, narrowed(&read(".cargo/mutants.toml")?, &files)?)
        .with_context(|| format!("cannot write {}", settings.display()))?;
    chosen.extend(["--config".to_owned(), settings.display().to_string()]);
    if let Some(since) = &args.since {
        let diff = difference(since)?;
        if diff.is_empty() {
            writeln!(out, "nothing differs from {since}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let file = folder.join("since.diff");
        fs::write(&file, diff).with_context(|| format!("cannot write {}", file.display()))?;
        chosen.extend(["--in-diff".to_owned(), file.display().to_string()]);
    }
    out.flush()?;
    let results = folder.join("mutants.out");
    let by = packages(&args.test_package);
    let first = if by.is_empty() { quickly() } else { by.clone() };
    let mut code = mutants(&folder, &chosen, &first)?;
    if code == Some(2) && by.is_empty() {
        writeln!(out, "{} are judged once more, by all tests of five packages", survivors(&results))?;
        out.flush()?;
        let again = [packages(&JUDGES.map(str::to_owned)), vec!["--iterate".to_owned()]].concat();
        code = mutants(&folder, &chosen, &again)?;
    }
    ensure!(code == Some(0), meaning(code, &results));
    Ok(ExitCode::SUCCESS)
}

/// One run of `cargo mutants`, and its status. What it builds stays beside its
/// results, so that the next run finds the dependencies built; a mutant is one
/// line of one crate, of which the compiler keeps all else.
fn mutants(folder: &Path, chosen: &[String], how: &[String]) -> anyhow::Result<Option<i32>> {
    let mut mutants = Command::new("cargo");
    mutants.args(line(folder, chosen, how));
    mutants.current_dir(crate::root()).env("CARGO_TARGET_DIR", folder.join("target"));
    mutants.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    mutants.env_remove("RUSTC_WORKSPACE_WRAPPER");
    Ok(mutants.status().context("cannot run cargo")?.code())
}

/// What `cargo` is called with. How to test stands last: what comes after its `--` is for the tests.
fn line(folder: &Path, chosen: &[String], how: &[String]) -> Vec<String> {
    let results = ["mutants", "--output", &folder.display().to_string()].map(str::to_owned);
    [&results, chosen, how].concat()
}

/// How many mutants no test noticed.
fn survivors(results: &Path) -> usize {
    fs::read_to_string(results.join("missed.txt")).map_or(0, |text| text.lines().count())
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

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(crate::root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The configuration with these files in place of those that it names; none:
/// as it is. (`cargo mutants` adds a `--file` to those of its configuration, and
/// its `--re` lets some mutants of other files pass.)
fn narrowed(settings: &str, files: &[String]) -> anyhow::Result<String> {
    if files.is_empty() {
        return Ok(settings.to_owned());
    }
    let named = "examine_globs = [";
    let (before, rest) = settings.split_once(named).context(".cargo/mutants.toml has no examine_globs")?;
    let (_, after) = rest.split_once(']').context("examine_globs of .cargo/mutants.toml has no end")?;
    let files: Vec<String> = files.iter().map(|file| format!("{file:?}")).collect();
    Ok(format!("{before}{named}{}]{after}", files.join(", ")))
}

/// The files whose mutants are chosen (none: all), and the options that choose
/// among their mutants.
fn choice(args: &Args, architecture: &str) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    for file in &args.file {
        ensure!(
            crate::root().join(file).is_file(),
            "--file is {file:?}, which is no file here; a path from the root is"
        );
    }
    let (mut files, mut names) = (args.file.clone(), args.re.clone());
    if args.invariants {
        let paragraphs = invariants::paragraphs(architecture).into_iter();
        let mut held: Vec<_> = paragraphs.flat_map(invariants::held_by).collect();
        held.retain(|(file, _)| args.file.is_empty() || args.file.contains(file));
        ensure!(!held.is_empty(), "no function that holds an invariant is in {:?}", args.file);
        names = held.iter().map(|(file, function)| in_function(file, function)).collect();
        files = held.into_iter().map(|(file, _)| file).collect();
    }
    for all in [&mut files, &mut names] {
        all.sort();
        all.dedup();
    }
    let mut options: Vec<String> = names.into_iter().flat_map(|name| ["--re".to_owned(), name]).collect();
    for (option, given) in [("--list", args.list), ("--in-place", args.in_place)] {
        options.extend(given.then(|| option.to_owned()));
    }
    Ok((files, options))
}

/// An expression for the names of all mutants of one function: the function
/// stands at the end, or after `replace` where it is replaced as a whole.
fn in_function(file: &str, function: &str) -> String {
    let path = format!("(?:.*::)?{function}");
    let file = file.replace('.', "\\.");
    format!("^{file}:[0-9]+:[0-9]+: (?:replace {path}(?: -> .*)? with |.* in {path}$)")
}

/// All tests of the mutant's own package but the properties, which enumerate for
/// longer than all others take.
fn quickly() -> Vec<String> {
    ["--", "--", "--skip", "properties"].map(str::to_owned).into()
}

fn packages(names: &[String]) -> Vec<String> {
    names.iter().flat_map(|name| ["--test-package".to_owned(), name.clone()]).collect()
}

/// What the end of `cargo mutants` means.
fn meaning(code: Option<i32>, results: &Path) -> String {
    let of = |file: &str| -> String { PathBuf::from(results).join(file).display().to_string() };
    match code {
        Some(2) => format!(
            "no test notices some of the mutants; they are in {}. Write the test that says the rule, or list the mutant in .cargo/mutants.toml with the reason why it changes nothing",
            of("missed.txt")
        ),
        Some(3) => {
            format!("with some of the mutants the tests do not end; they are in {}", of("timeout.txt"))
        }
        Some(4) => format!("the tests fail without any mutant; see {}", of("log/baseline.log")),
        _ => format!("cargo mutants failed; see {}", results.display()),
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

    fn chosen(line: &[&str]) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let args = Line::parse_from(std::iter::once("mutants").chain(line.iter().copied())).args;
        choice(&args, "**Invariant 1: a.** Held by `src/a.rs` (`one`, `two`), `src/b.rs` (`three`).")
    }

    #[test]
    fn what_is_asked_for_is_handed_on() {
        assert_eq!(chosen(&[]).unwrap(), Default::default());
        let (files, line) = chosen(&["--re", "list_is_fresh", "--in-place", "--list"]).unwrap();
        assert_eq!(line, ["--re", "list_is_fresh", "--list", "--in-place"]);
        assert!(files.is_empty());
    }

    #[test]
    fn nothing_for_cargo_mutants_stands_after_what_is_for_the_tests() {
        let line = line(Path::new("here"), &["--in-place".to_owned()], &quickly());
        assert_eq!(line.join(" "), "mutants --output here --in-place -- -- --skip properties");
    }

    #[test]
    fn a_file_that_is_named_is_all_that_is_broken() {
        let (files, _) = chosen(&["--file", "xtask/src/main.rs"]).unwrap();
        let settings = read(".cargo/mutants.toml").unwrap();
        let narrow = narrowed(&settings, &files).unwrap();
        assert!(narrow.contains("\nexamine_globs = [\"xtask/src/main.rs\"]\n"), "{narrow}");
        assert!(narrow.contains("\nexclude_re = ["), "{narrow}");
        assert!(!narrow.contains("crates/rollout/src"), "{narrow}");
        assert_eq!(narrowed(&settings, &[]).unwrap(), settings);
        let error = chosen(&["--file", "no/such.rs"]).unwrap_err().to_string();
        assert!(error.starts_with("--file is \"no/such.rs\", which is no file here"), "{error}");
    }

    #[test]
    fn the_functions_that_hold_invariants_are_those_of_the_architecture() {
        let (files, line) = chosen(&["--invariants"]).unwrap();
        assert_eq!(files, ["src/a.rs", "src/b.rs"]);
        let two = "^src/a\\.rs:[0-9]+:[0-9]+: (?:replace (?:.*::)?two(?: -> .*)? with |.* in (?:.*::)?two$)";
        assert_eq!((line.len(), line[3].as_str()), (6, two));
        let args = Line::parse_from(["mutants", "--invariants"]).args;
        let (files, line) = choice(&args, &read("docs/architecture.md").unwrap()).unwrap();
        assert!(files.len() > 20 && line.len() > 100, "{files:?}");
    }

    #[test]
    fn a_commit_that_is_not_there_is_named() {
        let error = difference("no-such-branch").unwrap_err().to_string();
        assert!(error.starts_with("--since is \"no-such-branch\", which is no commit here"), "{error}");
    }

    #[test]
    fn survivors_are_told_from_tests_that_fail_anyway() {
        let out = Path::new("out");
        assert!(meaning(Some(2), out).contains("out/missed.txt"));
        assert!(meaning(Some(3), out).contains("out/timeout.txt"));
        assert!(meaning(Some(4), out).contains("without any mutant"));
        assert!(meaning(None, out).contains("cargo mutants failed"));
    }
}
