//! mdBook itself: a published crate, pinned, built once into the cache that
//! keeps the other tools.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::tools::Sources;

/// The version that is built. Without its server and its watcher it is a third
/// of the crates.
const VERSION: &str = "0.5.4";
const FEATURES: &str = "search";

/// Where it is, built if it is not there yet.
///
/// # Errors
/// When the registry cannot be reached, or it does not build.
pub(super) fn ensure_built(sources: &Sources, out: &mut dyn Write) -> anyhow::Result<PathBuf> {
    if let Some(given) = sources.given("mdbook") {
        return Ok(given);
    }
    let folder = sources.cache()?.join(format!("mdbook-{VERSION}-{}", std::env::consts::ARCH));
    let program = folder.join("bin/mdbook");
    if program.exists() {
        return Ok(program);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let lock = File::create(folder.join(".lock")).context("cannot make the lock of the build")?;
    lock.lock().context("cannot wait for another build of mdbook")?;
    if !program.exists() {
        writeln!(out, "tools: building mdbook {VERSION}, once; about a minute and a half on two cores")?;
        out.flush()?;
        let build = folder.join("build");
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "mdbook", "--locked", "--version", VERSION]);
        cargo.args(["--no-default-features", "--features", FEATURES, "--no-track", "--root"]);
        cargo.arg(&folder).arg("--target-dir").arg(&build);
        // As it is published, whatever our own code is compiled with.
        for ours in ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
            cargo.env_remove(ours);
        }
        let status = cargo.current_dir(&folder).stdin(Stdio::null()).status().context("cannot run cargo")?;
        ensure!(status.success(), "`cargo install mdbook` ended with {status}");
        fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
    }
    Ok(program)
}
