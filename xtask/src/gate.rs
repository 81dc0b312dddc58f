//! `cargo xtask test`: every check that a change must pass, in the order that finds a mistake soonest. CI
//! runs exactly this.

use std::io::Write;
use std::process::{Command, ExitCode};

use crate::bundle;
use crate::cargo::cargo;
use crate::clients;
use crate::image;
use crate::installing::Install;
use crate::lint;
use crate::rights;
use crate::steps::{self, Action, Chosen, Step, Tool, step};
use crate::tasks;
use crate::tools::{self, GIT};

/// Runs every check, as CI does
///
/// Each step is named with its progress and its time. All steps run, whatever
/// comes of each; the summary is at the end, and its last line counts them:
/// `N passed, N failed, N skipped`.
///
/// What a missing tool leaves out is named and counted as skipped. In CI
/// (`CI=true`) a missing tool is a failure.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    chosen: Chosen,
    /// Also look the dependencies up in the database of security advisories
    ///
    /// That database is a git repository of its own, fetched from the
    /// network, and not every place where this gate runs can reach it.
    #[arg(long)]
    advisories: bool,
    #[command(flatten)]
    tools: tools::Sources,
}

const RUSTFMT: Tool = Tool {
    name: "rustfmt",
    probe: &["cargo", "fmt", "--version"],
    install: Install::Command("rustup component add rustfmt"),
};
const CLIPPY: Tool = Tool {
    name: "clippy",
    probe: &["cargo", "clippy", "--version"],
    install: Install::Command("rustup component add clippy"),
};
const DENY: Tool = Tool {
    name: "cargo-deny",
    probe: &["cargo", "deny", "--version"],
    install: Install::Command("cargo install cargo-deny --locked --version 0.20.2"),
};
/// One of these opens pages (`crates/cli/tests/it/browser/chromium.rs` has the same names).
const BROWSER: Tool = Tool {
    name: "Chromium or Chrome",
    probe: &[
        "sh",
        "-c",
        "command -v chromium || command -v chromium-browser || command -v google-chrome || command -v google-chrome-stable",
    ],
    install: Install::Debian("chromium"),
};

/// The test programs that need nothing but this checkout, by their names. Scenarios need a control plane: they have a step
/// of their own.
const PROGRAMS: [&str; 5] = ["it", "conformance", "image", "language", "names"];

/// The step that is left out unless it is asked for.
const ADVISORIES: &str = "advisories";

fn all(args: &Args) -> Vec<Step> {
    let mut docs = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    let mut tests =
        cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--examples"]);
    tests.args(["--exclude", "slicewright-sim-clients", "--exclude", "slicewright-packaging"]);
    tests.args(PROGRAMS.iter().flat_map(|program| ["--test", program]));
    let before = git_status();
    // A run of everything compiles the workspace once, with clippy's driver. Whoever asks for
    // single steps works on something: then the lints come from `cargo clippy`, which is the
    // quicker answer, and what plain cargo has built is not built anew.
    let driver = if args.chosen.steps.is_empty() { lint::driver() } else { None };
    let lint: &[&str] = match &driver {
        Some(_) => &["test", "--workspace", "--all-targets", "--locked", "--no-run"],
        None => &["clippy", "--workspace", "--all-targets", "--locked"],
    };
    let with_driver = driver.clone();
    let mut steps = vec![
        Step {
            tools: &[RUSTFMT],
            ..step("format", "the code is formatted", cargo(&["fmt", "--all", "--check"]))
        },
        step(
            "build",
            "the command and every test build",
            cargo(&[
                "test",
                "--workspace",
                "--locked",
                "--no-run",
                "--lib",
                "--bins",
                "--tests",
                "--examples",
            ]),
        ),
        Step {
            tools: &[CLIPPY],
            after: Some("build"),
            action: Action::Check(Box::new(move || lint::check(with_driver, lint))),
            ..step(
                "lint",
                "clippy and rustc have no warning, tests and benches included",
                Command::new("cargo"),
            )
        },
        Step {
            after: Some("build"),
            ..step("test", "units, properties, stories, and the rules of the repository", tests)
        },
        Step {
            after: Some("build"),
            ..step(
                "doctest",
                "the examples in the documentation of the code run",
                cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--doc"]),
            )
        },
        Step {
            after: Some("build"),
            tools: if args.tools.need_go(&[tools::Use::Packaging]) { &[tools::GO] } else { &[] },
            ..step(
                "chart",
                "real Helm renders the chart as reviewed, and refuses bad values",
                cargo(&["run", "--quiet", "--locked", "--package", "xtask", "--", "chart"]),
            )
        },
        Step {
            after: Some("build"),
            tools: if args.tools.need_go(bundle::USES) { &[tools::GO] } else { &[] },
            ..step(
                "bundle",
                "the OLM bundle and its catalog: as generated, as the chart, and faultless to their judges",
                cargo(&["run", "--quiet", "--locked", "--package", "xtask", "--", "bundle"]),
            )
        },
        Step {
            after: Some("build"),
            // Whoever has the control plane and Helm already needs no Go to run them.
            tools: if args.tools.need_go(tools::Use::SCENARIOS) { &[tools::GO] } else { &[] },
            ..step(
                "e2e",
                "scenarios on a real control plane",
                cargo(&["run", "--quiet", "--locked", "--package", "xtask", "--", "e2e"]),
            )
        },
        Step {
            after: Some("e2e"),
            action: Action::Check(Box::new(rights::check)),
            ..step(
                "rbac-used",
                "the scenarios used every right that the chart grants, and lacked none",
                Command::new("cargo"),
            )
        },
    ];
    steps.push(Step { after: Some("build"), ..image::step(&args.tools) });
    steps.extend(clients::steps(&args.tools).into_iter().map(|step| Step { after: Some("build"), ..step }));
    steps.extend([
        step("docs", "the documentation of the code builds without a warning", docs),
        Step {
            after: Some("build"),
            ..step(
                "book",
                "the site of docs/ is whole: every page, every link, no warning",
                cargo(&["run", "--quiet", "--locked", "--package", "xtask", "--", "book"]),
            )
        },
        browser(),
        Step {
            after: Some("build"),
            ..step(
                "generated",
                "what is generated is up to date (else: cargo xtask codegen)",
                tasks::codegen_command(true),
            )
        },
        Step {
            tools: &[DENY],
            ..step(
                "deny",
                "licences, duplicates and sources of the dependencies",
                cargo(&[
                    "deny",
                    "--all-features",
                    "--locked",
                    "check",
                    "-D",
                    "warnings",
                    "bans",
                    "licenses",
                    "sources",
                ]),
            )
        },
    ]);
    if args.advisories || args.chosen.steps.iter().any(|wanted| wanted == ADVISORIES) {
        steps.push(Step {
            tools: &[DENY],
            ..step(
                ADVISORIES,
                "no dependency has a known hole",
                cargo(&["deny", "--all-features", "--locked", "check", "advisories"]),
            )
        });
    }
    steps.push(Step {
        tools: &[GIT],
        action: Action::Check(Box::new(move || unchanged(before, git_status()))),
        ..step("tree", "the checks above changed no file of the checkout", Command::new("git"))
    });
    if let Some(driver) = &driver {
        lint::compile_with(driver, &mut steps);
    }
    steps
}

/// The pages of plans and fleets, opened. The tests are built already, and were run with all others; they do nothing
/// until they are told that there is a browser.
fn browser() -> Step {
    // Of the whole workspace, as the step `build`: another selection would build the dependencies anew.
    let mut opens = cargo(&["test", "--workspace", "--locked", "--test", "it", "--", "browser::"]);
    opens.env("SLICEWRIGHT_BROWSER", "1");
    Step {
        after: Some("build"),
        tools: &[BROWSER],
        ..step(
            "browser",
            "the pages of plans and fleets are readable in a real browser, wide and narrow",
            opens,
        )
    }
}

/// All that its steps take from a machine.
#[cfg(test)]
pub(crate) fn needed(sources: &tools::Sources) -> Vec<Tool> {
    let chosen = Chosen { steps: Vec::new(), without: Vec::new(), list: false, ci: false };
    let steps = all(&Args { chosen, advisories: false, tools: sources.clone() });
    steps.iter().flat_map(|step| step.tools.iter().copied()).collect()
}

fn git_status() -> Option<String> {
    let output =
        Command::new("git").args(["status", "--porcelain"]).current_dir(crate::root()).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

fn unchanged(before: Option<String>, after: Option<String>) -> Result<(), String> {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let new: Vec<_> = after.lines().filter(|line| !before.lines().any(|b| b == *line)).collect();
    if new.is_empty() { Ok(()) } else { Err(format!("git status now says: {}", new.join("; "))) }
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let steps = all(args);
    steps::run_chosen(steps, &args.chosen, out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn args(steps: &[&str], list: bool) -> Args {
        let steps = steps.iter().map(|s| (*s).to_owned()).collect();
        Args {
            chosen: Chosen { steps, without: Vec::new(), list, ci: false },
            advisories: false,
            tools: tools::Sources::default(),
        }
    }

    #[test]
    fn every_test_program_of_the_workspace_has_a_step() {
        let mut metadata = Command::new(env!("CARGO"));
        metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let output = metadata.current_dir(crate::root()).output().unwrap();
        let workspace: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let targets = |package: &serde_json::Value| package["targets"].as_array().unwrap().clone();
        let all = workspace["packages"].as_array().unwrap().iter().flat_map(targets);
        let tests = all.filter(|target| target["kind"][0] == "test" && target["test"] == true);
        let names: BTreeSet<String> =
            tests.map(|target| target["name"].as_str().unwrap().to_owned()).collect();
        let of_scenarios = ["release", "scenarios"];
        let expected = PROGRAMS.iter().chain(&of_scenarios).map(|name| (*name).to_owned()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_list_names_every_step_once() {
        let mut out = Vec::new();
        run(&args(&[], true), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let names: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(
            names,
            [
                "format",
                "build",
                "lint",
                "test",
                "doctest",
                "chart",
                "bundle",
                "e2e",
                "rbac-used",
                "image",
                "clients-rust",
                "clients-go",
                "clients-python",
                "docs",
                "book",
                "browser",
                "generated",
                "deny",
                "tree"
            ]
        );
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error = run(&args(&["tests"], false), &mut Vec::new()).unwrap_err();
        assert!(
            error.to_string().starts_with("there is no step \"tests\"; there are format, build,"),
            "{error}"
        );
    }

    #[test]
    fn only_new_changes_of_the_tree_count() {
        let status = |text: &str| Some(text.to_owned());
        assert_eq!(unchanged(status(" M a.rs\n"), status(" M a.rs\n")), Ok(()));
        let error = unchanged(status(" M a.rs\n"), status(" M a.rs\n?? b.snap.new\n")).unwrap_err();
        assert_eq!(error, "git status now says: ?? b.snap.new");
    }
}
