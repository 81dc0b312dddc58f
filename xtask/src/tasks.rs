//! The tasks that are one cargo command: the demo, the generated files, the
//! benchmarks.

use std::process::{Command, ExitCode};

use anyhow::Context;

/// The variable that makes an up-to-date test write what it would compare.
pub(crate) const UPDATE: &str = "UPDATE";

/// What the name of a test that guards a generated file contains.
const UP_TO_DATE: &str = "up_to_date";

/// Builds the command and runs its demo: a working day of a simulated fleet
///
/// Everything after `--` goes to `slicewright demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Build with optimisation: slower to build, and not needed to watch
    #[arg(long)]
    release: bool,
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

/// Runs `slicewright demo`.
pub(crate) fn demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "slicewright-cli", "--bin", "slicewright"]);
    if args.release {
        command.arg("--release");
    }
    run(command.args(["--", "demo"]).args(&args.rest))
}

/// Writes or checks what is generated.
pub(crate) fn codegen(args: &CodegenArgs) -> anyhow::Result<ExitCode> {
    run(&mut codegen_command(args.check))
}

/// The up-to-date tests, with leave to write unless `check`.
pub(crate) fn codegen_command(check: bool) -> Command {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    command.args(["--", UP_TO_DATE]);
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
