//! Builds the committed sources again in a folder of another length and depth, without results of earlier
//! builds: the images must be the same, otherwise the differences are reported.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use image::labels::Product;

use super::Args;
use super::build::Workspace;

/// Builds as the arguments say, and compares with the images of an earlier
/// build.
pub(super) fn compare(
    workspace: &Workspace,
    args: &Args,
    products: &[Product],
    earlier: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let digest = |folder: &Path, product: &Product| {
        let file = folder.join(format!("{}.digest", product.name()));
        fs::read_to_string(&file).map(|text| text.trim().to_owned()).with_context(|| {
            format!(
                "cannot read {}: build the images first, with the same options but --again",
                file.display()
            )
        })
    };
    // Before the long work.
    let before: Vec<_> =
        products.iter().map(|product| digest(earlier, product)).collect::<anyhow::Result<_>>()?;

    let temporary = workspace.target.join(format!("again-{}", std::process::id()));
    let checkout = temporary.join("another/a-longer-name");
    fs::create_dir_all(&checkout).with_context(|| format!("cannot make {}", checkout.display()))?;
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(&workspace.root).arg(&checkout);
    ensure!(clone.status().context("cannot run git")?.success(), "the checkout cannot be cloned");
    let folder = temporary.join("images");
    let mut make = Command::new("cargo");
    make.args(["run", "--quiet", "--locked", "--package", env!("CARGO_PKG_NAME"), "--"]);
    make.args(options(args)).arg("--out").arg(&folder).current_dir(&checkout);
    make.env("CARGO_TARGET_DIR", checkout.join("built"));
    out.flush()?;
    ensure!(make.status().context("cannot run cargo")?.success(), "the images could not be built");
    fs::remove_dir_all(&checkout).with_context(|| format!("cannot remove {}", checkout.display()))?;

    let mut same = true;
    for (product, one) in products.iter().zip(&before) {
        let name = product.name();
        let another = digest(&folder, product)?;
        if *one == another {
            writeln!(out, "{name}: both builds have the digest {one}")?;
        } else {
            same = false;
            writeln!(out, "{name}: the digest was {one}, and is {another} now")?;
        }
    }
    if !same {
        bail!(
            "the builds differ: {} and {}; the earlier one has to be of the same commit, without changes in the \
             checkout",
            earlier.display(),
            folder.display()
        );
    }
    fs::remove_dir_all(&temporary).with_context(|| format!("cannot remove {}", temporary.display()))
}

/// What makes an image what it is.
fn options(args: &Args) -> Vec<String> {
    let Args { products, arch, out: _, prefix, tag, quick, check: _, load: _, again: _, tree: _, created } =
        args;
    let mut options: Vec<String> = products.iter().map(|product| product.name().to_owned()).collect();
    options.extend(arch.iter().map(|arch| format!("--arch={}", arch.name())));
    options.extend(prefix.iter().map(|prefix| format!("--prefix={prefix}")));
    options.extend(tag.iter().map(|tag| format!("--tag={tag}")));
    options.extend(quick.then(|| "--quick".to_owned()));
    options.extend(created.map(|created| format!("--created={created}")));
    options
}
