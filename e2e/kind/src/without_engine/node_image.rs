//! The image of a node: kind's own where its registry can be reached, otherwise one that is built here from
//! Debian packages and the Go modules under `tools/`, and kept outside the checkout under a key that is
//! derived from its inputs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use super::parts::Parts;
use super::{control_plane, rootfs};
use crate::archive;
use crate::call::call;
use crate::engine::Engine;
use crate::place::{Place, remove};
use crate::preflight;
use crate::progress::Progress;

/// kind's own image for it.
const STOCK: &str = "kindest/node:v1.36.3";

/// Ours. By its whole name: for one without a registry kind asks podman for
/// Docker's.
pub(crate) const OURS: &str = "localhost/slicewright-kind-node";

/// The one that the engine has afterwards: its name.
///
/// # Errors
/// When it can neither be fetched nor made.
pub fn ensure<W: std::io::Write>(
    place: &Place,
    engine: &Engine,
    own: bool,
    progress: &mut Progress<W>,
) -> anyhow::Result<String> {
    if !own && !engine.is_ours() {
        if engine.has_image(STOCK)
            || progress.step(&format!("fetching {STOCK}"), || Ok(engine.pull(STOCK)))?
        {
            return Ok(STOCK.to_owned());
        }
        progress.say(&format!("{STOCK} cannot be fetched: a node image of our own instead"))?;
    }
    let parts = Parts::find()?;
    let key = key(&parts)?;
    let image = format!("{OURS}:{key}");
    if engine.has_image(&image) {
        return Ok(image);
    }
    let kept = place.image(&key);
    if !kept.is_file() {
        preflight::own_image(place)?;
        let scratch = place.scratch()?;
        let made = progress
            .step("making a node image (some minutes, once)", || make(&parts, &scratch, &image, &kept));
        // A root file system with what a container store needs: nothing of it is of use to anybody.
        let cleaned = remove(&scratch);
        made.and(cleaned)?;
    }
    progress.step("loading the node image", || {
        let zstd = Command::new("zstd")
            .args(["-dc"])
            .arg(&kept)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run zstd")?;
        let from = zstd.stdout.context("zstd has no output")?;
        let status = engine
            .command()
            .args(["load", "--quiet"])
            .stdin(from)
            .stdout(Stdio::null())
            .status()
            .context("cannot load it")?;
        ensure!(
            status.success() && engine.has_image(&image),
            "the engine does not take {}: remove it and try again",
            kept.display()
        );
        Ok(())
    })?;
    Ok(image)
}

/// Of everything that goes in: the recipe, and the programs by the names
/// of their folders, which are keys themselves.
fn key(parts: &Parts) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for recipe in [
        include_str!("node_image.rs"),
        include_str!("parts.rs"),
        include_str!("control_plane.rs"),
        include_str!("rootfs.rs"),
        include_str!("../archive.rs"),
        std::env::consts::ARCH,
    ] {
        hash.update(recipe);
        hash.update([0]);
    }
    for (name, path) in parts.found() {
        hash.update(name);
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().as_encoded_bytes();
        hash.update(folder);
        hash.update([0]);
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Makes it in a scratch folder and keeps it.
fn make(parts: &Parts, scratch: &Path, image: &str, kept: &Path) -> anyhow::Result<()> {
    let root = scratch.join("rootfs");
    rootfs::debian(&root)?;
    let archive = scratch.join("images.tar");
    control_plane::save(parts, &root, scratch, &archive)?;
    rootfs::node(parts, &root)?;
    rootfs::preload(parts, &root, scratch, &archive)?;
    let layer = scratch.join("layer.tar");
    call(Command::new("tar").arg("-C").arg(&root).args(["--numeric-owner", "-cf"]).arg(&layer).arg("."))?;
    let config = serde_json::json!({
        "Env": ["container=docker", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Entrypoint": ["/usr/local/bin/entrypoint", "/sbin/init"],
    });
    let whole = scratch.join("node.tar");
    archive::write(&whole, scratch, &[archive::Image { names: &[image], layer: &layer, config }])?;
    let folder = kept.parent().context("an image is kept in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let partial = kept.with_extension("partial");
    call(Command::new("zstd").args(["-q", "-f", "-T0", "-3"]).arg(&whole).arg("-o").arg(&partial))?;
    fs::rename(&partial, kept).with_context(|| format!("cannot write {}", kept.display()))
}
