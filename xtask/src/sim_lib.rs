//! `cargo xtask sim-lib`: the simulated NVML as a folder that a program can be
//! pointed to.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

/// What cargo calls the library: a crate's name has no dashes.
const BUILT: &str = "libsimulated_nvml.so";

/// What programs load, and what they link against.
const NAMES: (&str, &str) = ("libnvidia-ml.so.1", "libnvidia-ml.so");

/// Builds the simulated libnvidia-ml.so.1 and lays it out
///
/// The folder gets `libnvidia-ml.so.1` and the link `libnvidia-ml.so`. Point a
/// program to it with LD_LIBRARY_PATH, and to a simulated node with
/// SLICEWRIGHT_SIM_DIR.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Where it goes [default: `sim-lib` in the target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build with optimisation
    #[arg(long)]
    release: bool,
}

/// Builds it, and prints the folder.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    writeln!(out, "{}", ensure_built(args)?.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Builds it, and says in which folder it is.
///
/// # Errors
/// When it does not build, or cannot be copied.
pub(crate) fn ensure_built(args: &Args) -> anyhow::Result<PathBuf> {
    let profile = if args.release { "release" } else { "debug" };
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--package", "slicewright-sim-libnvml", "--lib"]);
    if args.release {
        build.arg("--release");
    }
    let status = build.current_dir(crate::root()).status().context("cannot run cargo")?;
    ensure!(status.success(), "the simulated library does not build");
    // This program stands in the same target folder, one profile deep.
    let here = std::env::current_exe().context("cannot find the target folder")?;
    let target = here.parent().and_then(Path::parent).context("cannot find the target folder")?;
    let folder = args.out.clone().unwrap_or_else(|| target.join("sim-lib"));
    lay_out(&target.join(profile).join(BUILT), &folder)?;
    Ok(folder)
}

/// Copies the library under its names. A program that has the old one loaded
/// keeps it: the file is replaced and not written over.
fn lay_out(built: &Path, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (library, link) = (folder.join(NAMES.0), folder.join(NAMES.1));
    let beside = folder.join(format!(".{}.{}", NAMES.0, std::process::id()));
    std::fs::copy(built, &beside).with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&beside, &library).with_context(|| format!("cannot write {}", library.display()))?;
    if std::fs::symlink_metadata(&link).is_err() {
        std::os::unix::fs::symlink(NAMES.0, &link)
            .with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(())
}
