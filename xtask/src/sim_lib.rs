//! `cargo xtask sim-lib`: the simulated NVML as a folder for programs, with the tools that belong to it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::building;

/// What cargo calls the library: a crate's name has no dashes.
const BUILT: &str = "libsimulated_nvml.so";

/// What programs load, and what they link against.
const NAMES: (&str, &str) = ("libnvidia-ml.so.1", "libnvidia-ml.so");

/// The programs, and the packages that they are in.
const PROGRAMS: [(&str, &str); 2] =
    [("nvidia-smi", "slicewright-sim-nvidia-smi"), ("slicewright-sim", "slicewright-sim-cli")];

/// Builds the simulated libnvidia-ml.so.1, nvidia-smi and slicewright-sim, and lays them out
///
/// The folder, which is printed, gets `libnvidia-ml.so.1` with the link `libnvidia-ml.so`,
/// `bin/nvidia-smi` and `bin/slicewright-sim`. A shell uses them after
/// `eval "$(FOLDER/bin/slicewright-sim node env)"`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Where it goes [default: `sim-lib` in the target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build with optimisation
    #[arg(long)]
    release: bool,
}

/// Builds everything, and prints the folder.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let folder = ensure_built(args)?;
    let programs = folder.join("bin");
    std::fs::create_dir_all(&programs).with_context(|| format!("cannot make {}", programs.display()))?;
    for (program, package) in PROGRAMS {
        let built = build(&["--package", package, "--bin", program], args.release)?.join(program);
        put(&built, &programs, program)?;
    }
    writeln!(out, "{}", folder.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the library, and says in which folder it is.
///
/// # Errors
/// When it does not build, or cannot be copied.
pub(crate) fn ensure_built(args: &Args) -> anyhow::Result<PathBuf> {
    let built = build(&["--package", "slicewright-sim-libnvml", "--lib"], args.release)?;
    let folder = match (&args.out, built.parent()) {
        (Some(folder), _) => folder.clone(),
        (None, Some(target)) => target.join("sim-lib"),
        (None, None) => anyhow::bail!("cannot find the target folder"),
    };
    lay_out(&built.join(BUILT), &folder)?;
    Ok(folder)
}

/// Builds what is selected, and says in which folder it is.
fn build(selected: &[&str], release: bool) -> anyhow::Result<PathBuf> {
    let release_build: &[&str] = if release { &["--release"] } else { &[] };
    building::first(&[&["build"], selected, release_build].concat())?;
    // This program stands in the same target folder, one profile deep.
    let here = std::env::current_exe().context("cannot find the target folder")?;
    let target = here.parent().and_then(Path::parent).context("cannot find the target folder")?;
    Ok(target.join(if release { "release" } else { "debug" }))
}

/// Copies the library under its names.
fn lay_out(built: &Path, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    put(built, folder, NAMES.0)?;
    let link = folder.join(NAMES.1);
    if std::fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink(NAMES.0, &link)
            .with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(())
}

/// Copies a file. A process that has the old one loaded keeps it: the file is
/// replaced and not written over.
fn put(built: &Path, folder: &Path, name: &str) -> anyhow::Result<()> {
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    std::fs::copy(built, &beside).with_context(|| format!("cannot copy {}", built.display()))?;
    let place = folder.join(name);
    std::fs::rename(&beside, &place).with_context(|| format!("cannot write {}", place.display()))
}
