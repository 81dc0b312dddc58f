//! `cargo xtask sim-lib`: the simulated NVML as a folder for programs, with the tools that belong to it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::building;

/// What cargo calls the library: a crate's name has no dashes.
const BUILT: &str = "libsimulated_nvml.so";

/// The file, as a driver names it: with the version of the driver that a node has unless it is told another
/// one. Programs read the version from there.
const FILE: &str = "libnvidia-ml.so.580.65.06";

/// What programs load, and what they link against: links, each to the one before.
const LINKS: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// The programs, and the packages that they are in.
const PROGRAMS: [(&str, &str); 2] =
    [("nvidia-smi", "slicewright-sim-nvidia-smi"), ("slicewright-sim", "slicewright-sim-cli")];

/// Builds the simulated libnvidia-ml.so.1, nvidia-smi and slicewright-sim, and lays them out
///
/// The folder, which is printed, gets the library as a file that bears the driver's version, with the
/// links `libnvidia-ml.so.1` and `libnvidia-ml.so`, and `bin/nvidia-smi` and `bin/slicewright-sim`. A
/// shell uses them after
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

/// Copies the library, and gives it its names. A program that loads it meanwhile finds the old or the new one.
fn lay_out(built: &Path, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    put(built, folder, FILE)?;
    let mut target = FILE;
    for link in LINKS {
        let (at, beside) = (folder.join(link), folder.join(format!(".{link}.{}", std::process::id())));
        std::os::unix::fs::symlink(target, &beside)
            .and_then(|()| std::fs::rename(&beside, &at))
            .with_context(|| format!("cannot link {}", at.display()))?;
        target = link;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_bears_the_version_of_a_new_nodes_driver_and_replaces_what_an_older_command_made() {
        let version = FILE.rsplit_once(".so.").unwrap().1;
        let branch = version.split('.').next().unwrap();
        let read = |file: &str| std::fs::read_to_string(crate::root().join("simulator").join(file)).unwrap();
        assert!(read("gpu/src/driver.rs").contains(&format!("Self({branch})")));
        assert!(read("store/src/state.rs").contains(&format!("{branch} => \"{version}\"")));

        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join(BUILT);
        std::fs::write(&built, "new").unwrap();
        let to = folder.path().join("sim-lib");
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join("libnvidia-ml.so.1"), "old").unwrap();
        for _ in 0..2 {
            lay_out(&built, &to).unwrap();
            assert_eq!(std::fs::read_to_string(to.join("libnvidia-ml.so")).unwrap(), "new");
            assert_eq!(std::fs::read_link(to.join("libnvidia-ml.so.1")).unwrap(), Path::new(FILE));
            assert_eq!(std::fs::read_dir(&to).unwrap().count(), 3, "nothing is left beside them");
        }
    }
}
