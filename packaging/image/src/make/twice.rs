//! What is committed, built in two folders of different lengths and depths: the
//! same images, or the files that differ.

use std::fs;
use std::io::Write;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use image::labels::Product;

use super::build::Workspace;

/// Builds with the arguments of this program, and compares.
pub(super) fn compare(workspace: &Workspace, out: &mut dyn Write) -> anyhow::Result<()> {
    let temporary = workspace.target.join(format!("twice-{}", std::process::id()));
    let mut built = Vec::new();
    for name in ["one", "another/a-longer-name"] {
        let checkout = temporary.join(name);
        fs::create_dir_all(&checkout).with_context(|| format!("cannot make {}", checkout.display()))?;
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(&workspace.root).arg(&checkout);
        ensure!(clone.status().context("cannot run git")?.success(), "the checkout cannot be cloned");
        let folder = temporary.join(format!("images-{}", built.len()));
        let mut make = Command::new("cargo");
        make.args(["run", "--quiet", "--locked", "--package", env!("CARGO_PKG_NAME"), "--"]);
        make.args(std::env::args_os().skip(1).filter(|argument| argument != "--twice"));
        make.arg("--out").arg(&folder).current_dir(&checkout);
        make.env("CARGO_TARGET_DIR", checkout.join("built"));
        out.flush()?;
        ensure!(make.status().context("cannot run cargo")?.success(), "the images could not be built");
        fs::remove_dir_all(&checkout).with_context(|| format!("cannot remove {}", checkout.display()))?;
        built.push(folder);
    }
    let mut same = true;
    for product in [Product::Operator, Product::Simulator].map(Product::name) {
        let file = format!("{product}.digest");
        let digests: Vec<_> = built.iter().filter_map(|at| fs::read_to_string(at.join(&file)).ok()).collect();
        let [one, another] = digests.as_slice() else { continue };
        let (one, another) = (one.trim(), another.trim());
        same &= one == another;
        match one == another {
            true => writeln!(out, "{product}: both builds have the digest {one}")?,
            false => writeln!(out, "{product}: one build has the digest {one}, the other {another}")?,
        }
    }
    if !same {
        bail!("the builds differ; both are in {}", temporary.display());
    }
    fs::remove_dir_all(&temporary).with_context(|| format!("cannot remove {}", temporary.display()))
}
