//! Archives of images for `docker load` and `ctr images import`, written without an engine.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::call::call;

/// One image of one layer.
pub(crate) struct Image<'a> {
    pub(crate) names: &'a [&'a str],
    pub(crate) layer: &'a Path,
    pub(crate) config: Value,
}

/// One archive of all of them.
pub(crate) fn write(into: &Path, scratch: &Path, images: &[Image<'_>]) -> anyhow::Result<()> {
    let folder = scratch.join("archive");
    crate::place::remove(&folder)?;
    fs::create_dir(&folder)?;
    let mut manifest = Vec::new();
    for image in images {
        let digest = sha256(image.layer)?;
        let layer = format!("{digest}.tar");
        fs::hard_link(image.layer, folder.join(&layer))
            .or_else(|_| fs::copy(image.layer, folder.join(&layer)).map(drop))
            .with_context(|| format!("cannot take {}", image.layer.display()))?;
        let config = serde_json::to_vec(&json!({
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "slicewright-kind"}],
        }))?;
        let name = format!("{}.json", hex(&Sha256::digest(&config)));
        fs::write(folder.join(&name), config)?;
        manifest.push(json!({"Config": name, "RepoTags": image.names, "Layers": [layer]}));
    }
    File::create(folder.join("manifest.json"))?.write_all(&serde_json::to_vec(&manifest)?)?;
    call(Command::new("tar").arg("-C").arg(&folder).arg("-cf").arg(into).arg("."))?;
    crate::place::remove(&folder)
}

/// What Go calls this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// By a program of the machine: this one is not optimised in a debug build,
/// and layers are large.
pub(crate) fn sha256(path: &Path) -> anyhow::Result<String> {
    let said = call(Command::new("sha256sum").arg("--").arg(path))?;
    // A name with a backslash in it is marked by one before the sum.
    let sum = said.trim_start_matches('\\').split_whitespace().next().unwrap_or_default();
    ensure!(sum.len() == 64, "sha256sum says {said:?} of {}", path.display());
    Ok(sum.to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
