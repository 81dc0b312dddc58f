//! `cargo xtask`: the tasks of the repository itself. Arguments in, one module for each task, an exit
//! status out.
//!
//! It needs only Rust; a task that needs another tool names it and counts the steps that it had to skip.

mod alerts;
mod archives;
mod book;
mod building;
mod bundle;
mod cargo;
mod chart;
mod clients;
mod e2e;
mod families;
mod fuzz;
mod gate;
mod image;
mod installing;
mod invariants;
mod kind;
mod lint;
mod mutants;
mod needs;
mod python;
mod release;
mod release_check;
mod rights;
mod sanitize;
mod sim_lib;
mod sources;
mod steps;
mod tasks;
mod tools;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

/// Tasks of this repository: run it, check it, and generate files.
///
/// Start with two of them: `cargo xtask demo` shows the product on a
/// simulated fleet, `cargo xtask test` runs every check that a change must pass.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Test(gate::Args),
    ReleaseCheck(release_check::Args),
    Release(release::Args),
    Publish(release::PublishArgs),
    Demo(tasks::DemoArgs),
    Codegen(tasks::CodegenArgs),
    Bench(tasks::BenchArgs),
    Tools(tools::Args),
    E2e(e2e::Args),
    Kind(kind::Args),
    Chart(chart::Args),
    Alerts(alerts::Args),
    Bundle(bundle::Args),
    Book(book::Args),
    Image(image::Args),
    Archives(archives::Args),
    SimLib(sim_lib::Args),
    Clients(clients::Args),
    Fuzz(fuzz::Args),
    Sanitize(sanitize::Args),
    Mutants(mutants::Args),
}

/// The root of the checkout that Cargo runs this program for, which need not be the one that it was built from: two
/// checkouts may share a build folder, and a checkout may have been moved. Without Cargo, it is the latter.
#[expect(clippy::disallowed_methods, reason = "Cargo says where the package is; nobody sets it by hand")]
fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .filter(|package| package.ends_with("xtask"))
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
    });
    ROOT.parent().expect("xtask/ is a folder of the repository")
}

fn main() -> ExitCode {
    match run(Cli::parse().task, &mut std::io::stdout()) {
        Ok(code) => code,
        Err(error) => {
            // The causes in one line, and no stack: what failed is said in words.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let code = match task {
        Task::Test(args) => gate::run(&args, out)?,
        Task::ReleaseCheck(args) => release_check::run(&args, out)?,
        Task::Release(args) => release::run(&args, out)?,
        Task::Publish(args) => release::publish(&args, out)?,
        Task::Demo(args) => tasks::demo(&args, out)?,
        Task::Codegen(args) => tasks::codegen(&args, out)?,
        Task::Bench(args) => tasks::bench(&args)?,
        Task::Clients(args) => clients::run(&args, out)?,
        Task::Fuzz(args) => fuzz::run(&args, out)?,
        Task::Sanitize(args) => sanitize::run(&args, out)?,
        Task::Mutants(args) => mutants::run(&args, out)?,
        Task::Kind(args) => kind::run(&args, out)?,
        Task::E2e(args) => e2e::run(&args, out)?,
        Task::Alerts(args) => alerts::run(&args, out)?,
        Task::Chart(args) => chart::run(&args, out)?,
        Task::Bundle(args) => bundle::run(&args, out)?,
        Task::Book(args) => book::run(&args, out)?,
        Task::Image(args) => image::run(&args, out)?,
        Task::Archives(args) => archives::run(&args, out)?,
        Task::SimLib(args) => sim_lib::run(&args, out)?,
        Task::Tools(args) => {
            needs::require("cargo xtask tools", &needs::components(&args.sources, args.uses()))?;
            tools::run(&args, out)?
        }
    };
    out.flush()?;
    Ok(code)
}
