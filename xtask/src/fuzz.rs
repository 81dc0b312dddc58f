//! `cargo xtask fuzz`: runs the parsers of foreign text with inputs that libFuzzer makes, under
//! AddressSanitizer.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::installing::Install;
use crate::needs::{self, NIGHTLY};
use crate::steps::Tool;

/// Fuzzes the code that reads foreign text, with libFuzzer
///
/// Needs a nightly toolchain and a C++ compiler. Each target runs for a while;
/// an input that breaks a promise is left in a file that is named.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each target runs
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    seconds: u32,
    /// Only these targets; all when none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

/// The targets, and what of the repository they begin with.
const TARGETS: [(&str, &str, &str); 5] = [
    ("map", "fuzz/seeds", "yaml"),
    ("problem", "examples/problems", "json"),
    ("recording", "examples/fleet", "yaml"),
    ("review", "fuzz/seeds", "txt"),
    ("story", "stories", "story"),
];

/// What builds them.
pub(crate) const NEEDED: &[Tool] =
    &[NIGHTLY, Tool { name: "g++", probe: &["g++", "--version"], install: Install::Debian("g++") }];

/// What tells libFuzzer where an input led.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing -Cdebuginfo=1";

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let known = || TARGETS.map(|(name, ..)| name).join(", ");
    for target in &args.targets {
        ensure!(
            TARGETS.iter().any(|(name, ..)| name == target),
            "there is no {target}; there are {}",
            known()
        );
    }
    needs::require("cargo xtask fuzz", NEEDED)?;
    let here = std::env::current_exe()?;
    let folder = here.ancestors().nth(2).context("cannot find the target folder")?.join("fuzz");
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = Command::new("cargo");
    build.args(["+nightly", "build", "--release", "--locked", "--target", &machine]);
    build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &folder);
    let built = build.current_dir(crate::root().join("fuzz")).status().context("cannot run cargo")?;
    ensure!(built.success(), "the targets do not build");
    let mut broken = Vec::new();
    for (name, seeds, extension) in TARGETS {
        if !args.targets.is_empty() && !args.targets.iter().any(|wanted| wanted == name) {
            continue;
        }
        let corpus = folder.join("corpus").join(name);
        let found = folder.join("found").join(name);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&found)?;
        for seed in files(&crate::root().join(seeds), extension)? {
            let called = seed.file_name().context("a file has a name")?;
            fs::copy(&seed, corpus.join(called))?;
        }
        writeln!(out, "\n=== {name}, {} s", args.seconds)?;
        out.flush()?;
        let mut fuzz = Command::new(folder.join(machine.as_str()).join("release").join(name));
        fuzz.arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-artifact_prefix={}/", found.display()))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(&corpus);
        if !fuzz.status().with_context(|| format!("cannot run {name}"))?.success() {
            broken.push(format!("{name} (the input is in {})", found.display()));
        }
    }
    ensure!(broken.is_empty(), "broken: {}", broken.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// The files below a folder that end so.
fn files(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    Ok(found)
}
