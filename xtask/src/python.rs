//! Programs from Python's package index, each list of them in a virtual
//! environment of its own beside the tools.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::installing::Install;
use crate::steps::Tool;

/// What every such environment needs.
pub(crate) const PYTHON: Tool = Tool {
    name: "Python 3 with venv",
    probe: &["python3", "-c", "import ensurepip, venv"],
    install: Install::Debian("python3 python3-venv"),
};

/// The Python of a virtual environment that has what a list under
/// `tools/python` pins, made where it is not there yet. A list pins everything
/// that is needed, so nothing else comes with it. What the index has as source
/// only is in a second list, such as `requirements-source.txt`.
pub(crate) fn environment(list: &str, cache: &Path, out: &mut dyn Write) -> anyhow::Result<PathBuf> {
    let pinned = crate::root().join("tools/python").join(list);
    let text = fs::read_to_string(&pinned).with_context(|| format!("cannot read {}", pinned.display()))?;
    let sources = pinned.with_file_name(list.replace(".txt", "-source.txt"));
    let sources = sources.is_file().then_some(sources);
    let text_of_sources = sources.as_ref().map(fs::read_to_string).transpose();
    let text_of_sources = text_of_sources.with_context(|| format!("cannot read the sources of {list}"))?;
    let version = Command::new("python3").arg("--version").output().context("cannot run python3")?;
    let hash = Sha256::new()
        .chain_update(&text)
        .chain_update(text_of_sources.unwrap_or_default())
        .chain_update(&version.stdout)
        .finalize();
    let key: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.join(format!("python-{key}"));
    let (python, whole) = (folder.join("bin/python"), folder.join("whole"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let lock = File::create(folder.join(".lock")).context("cannot make the lock of the environment")?;
    lock.lock().context("cannot wait for another who makes the same environment")?;
    if !whole.is_file() {
        writeln!(out, "installing what tools/python/{list} names")?;
        out.flush()?;
        let call = |command: &mut Command| -> anyhow::Result<()> {
            let status = command.stdin(Stdio::null()).status().context("cannot run python3")?;
            ensure!(status.success(), "{command:?} ended with {status}");
            Ok(())
        };
        call(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let pip = || {
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--require-hashes", "--no-deps"]);
            pip
        };
        call(pip().args(["--only-binary", ":all:", "--requirement"]).arg(&pinned))?;
        if let Some(sources) = sources {
            call(pip().args(["--no-binary", ":all:", "--no-build-isolation", "--requirement"]).arg(sources))?;
        }
        fs::write(&whole, "")?;
    }
    Ok(python)
}
