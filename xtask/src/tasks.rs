//! The tasks that are one cargo command: the demo, the generated files, the
//! benchmarks.

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::building;
use crate::bundle;
use crate::tools;

/// The variable that makes an up-to-date test write what it would compare.
pub(crate) const UPDATE: &str = "UPDATE";

/// What the name of a test that guards a generated file contains.
const UP_TO_DATE: &str = "up_to_date";

/// Shows the product on a simulated fleet
///
/// On a real control plane, where Go is there to build it (`cargo xtask
/// tools`): the operator, virtual GPU nodes, a policy, and people who ask.
/// Without Go, or with `--in-process`, `slicewright demo`: a working day of a
/// small fleet, in virtual time and without a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Leave everything running, to be looked at with kubectl
    #[arg(long)]
    keep: bool,
    /// Run `slicewright demo`, which needs no control plane
    #[arg(long, conflicts_with = "keep")]
    in_process: bool,
    /// Build with optimisation: slower to build, and not needed to watch
    #[arg(long)]
    release: bool,
    #[command(flatten)]
    sources: tools::Sources,
    /// Arguments for `slicewright demo`
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Writes the generated files anew: schemas, references, and what else a test
/// named `…up_to_date…` guards
#[derive(Debug, clap::Args)]
pub(crate) struct CodegenArgs {
    /// Write nothing; fail when a file is not what would be generated
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    sources: tools::Sources,
}

/// Runs the benchmarks of the planner, optimised
///
/// Everything after `--` goes to the benchmarks.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Only this benchmark (a `[[bench]]` of crates/planner/Cargo.toml)
    #[arg(long)]
    bench: Option<String>,
    /// Arguments for the benchmarks, such as a filter
    #[arg(last = true)]
    rest: Vec<String>,
}

/// The demo that needs no control plane, where it is that one: because it was
/// asked for, or, with a sentence that says so, because there is no Go to build
/// a control plane with.
fn in_process(args: &DemoArgs, go_is_present: bool) -> Option<(String, Command)> {
    let go = tools::GO;
    let lacks_go = args.sources.need_go(tools::Use::DEMO) && !go_is_present;
    if !lacks_go && !args.in_process && args.rest.is_empty() {
        return None;
    }
    let said = match lacks_go && !args.in_process {
        true => format!(
            "{} is missing, so there is no control plane: this is the demo without one. To see the other, {}.\n\n",
            go.name, go.install
        ),
        false => String::new(),
    };
    Some((said, without_control_plane(args)))
}

/// `slicewright demo`. Cargo says what it compiles and how far it is: it may be minutes, the first time.
fn without_control_plane(args: &DemoArgs) -> Command {
    let mut command = Command::new("cargo");
    command.args(["run", "--package", "slicewright-cli", "--bin", "slicewright"]);
    if args.release {
        command.arg("--release");
    }
    command.args(["--", "demo"]).args(&args.rest);
    command
}

/// Runs the demo, or the other one.
pub(crate) fn demo(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some((said, mut command)) = in_process(args, tools::GO.is_present()) {
        write!(out, "{said}")?;
        out.flush()?;
        return run(&mut command);
    }
    let missing = tools::unbuilt(&args.sources, tools::Use::DEMO)?;
    if !missing.is_empty() {
        let many = missing.len();
        writeln!(
            out,
            "A control plane has to be built first, once: {} (about ten minutes on two cores for all {}). Before that, \
             the demo that needs none; `cargo xtask demo --in-process` is that alone.\n",
            missing.join(", "),
            tools::names(tools::Use::DEMO).count()
        )?;
        out.flush()?;
        let code = run(&mut without_control_plane(args))?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
        writeln!(out, "\nNow the control plane: {many} of its programs.")?;
        out.flush()?;
    }
    let mut command = Command::new("cargo");
    for binary in tools::ensure_built(&args.sources, tools::Use::DEMO, out)? {
        command.env(binary.variable(), &binary.path);
    }
    command.args(["run", "--package", "slicewright-e2e", "--bin", "slicewright-demo"]);
    if args.release {
        command.arg("--release");
    }
    command.arg("--");
    if args.keep {
        command.arg("--keep");
    }
    run(&mut command)
}

/// Writes or checks what is generated.
pub(crate) fn codegen(args: &CodegenArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    building::first(&[UP_TO_DATE_OF, NEED_NO_HELM].concat())?;
    let code = run(&mut codegen_command(args.check))?;
    let go = tools::GO;
    if args.sources.need_go(bundle::USES) && !go.is_present() {
        writeln!(
            out,
            "{} is missing, so the OLM bundle and the chart's README are left as they are: {}.",
            go.name, go.install
        )?;
        return Ok(code);
    }
    // Made of what was just written: the chart and the CRDs in it.
    building::first(&[UP_TO_DATE_OF, NEED_HELM].concat())?;
    let mut command = up_to_date(NEED_HELM, args.check);
    for binary in tools::ensure_built(&args.sources, bundle::USES, out)? {
        command.env(binary.variable(), &binary.path);
    }
    let packages = run(&mut command)?;
    Ok(if code == ExitCode::SUCCESS { packages } else { code })
}

/// What needs Helm to be generated; the gate has steps of its own for it.
const NEED_HELM: &[&str] = &["--package", "slicewright-packaging"];
/// The rest.
const NEED_NO_HELM: &[&str] = &["--workspace", "--exclude", "slicewright-packaging"];
/// Builds the tests of some packages, of which those named [`UP_TO_DATE`] run afterwards.
const UP_TO_DATE_OF: &[&str] = &["test", "--no-run", "--lib", "--bins", "--tests"];

/// The up-to-date tests that need nothing but Rust, with leave to write unless `check`.
pub(crate) fn codegen_command(check: bool) -> Command {
    up_to_date(NEED_NO_HELM, check)
}

fn up_to_date(packages: &[&str], check: bool) -> Command {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    command.args(packages).args(["--", UP_TO_DATE]);
    if check {
        command.env_remove(UPDATE);
    } else {
        command.env(UPDATE, "1");
    }
    command
}

/// Runs the benchmarks.
pub(crate) fn bench(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let mut command = Command::new("cargo");
    command.args(["bench", "--package", "slicewright-planner"]);
    match &args.bench {
        Some(name) => command.args(["--bench", name]),
        None => command.arg("--benches"),
    };
    run(command.arg("--").args(&args.rest))
}

fn run(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    // A child that a signal ended has no code; its own convention is 128 and more.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArgs,
    }

    /// What is said and run when this is typed, on a machine on which nothing
    /// was built.
    fn typed(words: &[&str], go_is_present: bool) -> Option<(String, Vec<String>)> {
        let nothing = tempfile::tempdir().unwrap();
        let cache = nothing.path().display().to_string();
        let line = ["demo", "--tools", cache.as_str()].into_iter().chain(words.iter().copied());
        let (said, command) = in_process(&Line::parse_from(line).demo, go_is_present)?;
        Some((said, command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()))
    }

    #[test]
    fn without_go_one_sentence_says_so_and_the_demo_is_the_one_in_process() {
        let (said, runs) = typed(&[], false).expect("there is nothing to build a control plane with");
        let sentence = said.trim_end();
        assert!(sentence.starts_with("Go is missing, so there is no control plane: "), "{sentence}");
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
        let expect = ["run", "--package", "slicewright-cli", "--bin", "slicewright", "--", "demo"];
        assert_eq!(runs, expect);
    }

    #[test]
    fn with_go_it_is_the_one_on_a_control_plane_unless_the_other_is_asked_for() {
        assert_eq!(typed(&[], true), None);
        let (said, runs) = typed(&["--in-process"], true).expect("it was asked for");
        assert_eq!((said.as_str(), runs.last().map(String::as_str)), ("", Some("demo")));
        let (said, _) = typed(&["--in-process"], false).expect("it was asked for");
        assert_eq!(said, "", "who asked for it needs no excuse");
    }
}
