//! `slicewright-sim node env`: the environment of a shell whose programs see the simulated node.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

const LIBRARY: &str = "libnvidia-ml.so.1";

/// Prints commands for a shell to evaluate, so that programs started from it see the node.
///
/// PATH gets the folder of this program, where nvidia-smi is too, LD_LIBRARY_PATH the folder with
/// the simulated libnvidia-ml.so.1, and SLICEWRIGHT_SIM_DIR the directory of the node. The node may
/// be set up later.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example, after `cargo xtask sim-lib`:
  eval \"$(target/sim-lib/bin/slicewright-sim node env --dir /tmp/node)\"
  slicewright-sim node setup --gpus a100-80gb=2 --mig
  nvidia-smi")]
pub(super) struct Args {
    /// The folder with the library [default: looked for around this program].
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
}

pub(super) fn run(dir: &Path, args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    // Where this program is, also when a link in another folder started it.
    let program = std::env::current_exe().and_then(fs::canonicalize).context("cannot find this program")?;
    let programs = program.parent().context("cannot find the folder of this program")?;
    let libraries = match args.libraries {
        Some(folder) => folder,
        None => around(programs)?,
    };
    ensure_simulated(&libraries.join(LIBRARY))?;
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("cannot make {} absolute", path.display()))
    };
    let (libraries, dir) = (absolute(&libraries)?, absolute(dir)?);
    for (variable, folder) in [("PATH", programs), ("LD_LIBRARY_PATH", &libraries)] {
        ensure!(
            !folder.as_os_str().as_bytes().contains(&b':'),
            "{} cannot be in {variable}: a colon ends a folder there",
            folder.display()
        );
        out.write_all(&front(variable, folder.as_os_str()))?;
    }
    out.write_all(&assignment(store::DIRECTORY_VARIABLE, dir.as_os_str()))?;
    Ok(())
}

/// The folder with the library, from the folder of the programs: as `cargo
/// xtask sim-lib` lays it out, and as the image does.
fn around(programs: &Path) -> anyhow::Result<PathBuf> {
    let of_architecture = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let mut looked = Vec::new();
    for place in ["..", ".", "../lib64", "../lib", &of_architecture] {
        let folder = programs.join(place);
        match fs::canonicalize(&folder) {
            Ok(folder) if folder.join(LIBRARY).exists() => return Ok(folder),
            Ok(folder) => looked.push(folder.display().to_string()),
            // Not there, so neither is the library.
            Err(_) => {}
        }
    }
    bail!(
        "there is no {LIBRARY} in {}: `cargo xtask sim-lib` makes a folder with it and the programs, \
         and --libraries names the one to take",
        looked.join(", ")
    )
}

/// Refuses NVIDIA's own library: a node that is set up would not be what
/// programs see.
fn ensure_simulated(library: &Path) -> anyhow::Result<()> {
    let content = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let ours = store::DIRECTORY_VARIABLE.as_bytes();
    ensure!(
        content.windows(ours.len()).any(|part| part == ours),
        "{} is not the simulated library: `cargo xtask sim-lib` makes a folder with that, and --libraries \
         names it",
        library.display()
    );
    Ok(())
}

/// `export NAME='VALUE'`.
fn assignment(name: &str, value: &OsStr) -> Vec<u8> {
    [b"export ", name.as_bytes(), b"=", &quoted(value), b"\n"].concat()
}

/// The folder before those that are there. An empty one would be the current
/// folder, so nothing follows where there were none.
fn front(name: &str, folder: &OsStr) -> Vec<u8> {
    let others = format!("${{{name}:+\":${name}\"}}");
    [b"export ", name.as_bytes(), b"=", &quoted(folder), others.as_bytes(), b"\n"].concat()
}

/// As a shell reads it back, whatever is in it.
fn quoted(value: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in value.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}
