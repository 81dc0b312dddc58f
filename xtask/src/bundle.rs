//! `cargo xtask bundle`: validates the OLM bundle, or makes it for a release.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::building;
use crate::needs;
use crate::tools::{self, Sources};

/// Validates the OLM bundle and its catalog, or writes those of a release
///
/// Without arguments: that both are what is generated, that the bundle
/// installs what the chart installs, the whole suite of the validation
/// library, the six tests of the scorecard, and `opm validate`.
///
/// With `--image` and `--out`: the bundle that installs this image, and with
/// `--bundle-image` the catalog that offers it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The operator's image, by digest: REGISTRY/REPOSITORY@sha256:DIGEST
    #[arg(long, value_name = "IMAGE", requires_all = ["out", "contact"])]
    image: Option<String>,
    /// The image of the bundle, by digest, once it is published
    #[arg(long, value_name = "IMAGE", requires = "image")]
    bundle_image: Option<String>,
    /// Where people write to who have installed it: an address that somebody reads
    #[arg(long, value_name = "EMAIL", requires = "image")]
    contact: Option<String>,
    /// The folder that gets olm-bundle and olm-catalog
    #[arg(long, value_name = "DIR", requires = "image")]
    out: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
}

/// What it runs.
pub(crate) const USES: &[tools::Use] = &[tools::Use::Packaging, tools::Use::Bundle];

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    needs::require("cargo xtask bundle", &needs::components(&args.sources, USES))?;
    let mut command = Command::new("cargo");
    let package = ["--locked", "--package", "slicewright-packaging"];
    match (&args.image, &args.out) {
        (Some(image), Some(folder)) => {
            building::first(&[&["build"], &package[..], &["--bin", "bundle"]].concat())?;
            let folder = std::path::absolute(folder).context("there is no such folder")?;
            command.args(["run", "--quiet"]).args(package);
            command.args(["--bin", "bundle", "--", "--image", image, "--out"]).arg(folder);
            if let Some(contact) = &args.contact {
                command.args(["--contact", contact]);
            }
            if let Some(image) = &args.bundle_image {
                command.args(["--bundle-image", image]);
            }
        }
        _ => {
            building::first(&[&["test", "--no-run"], &package[..], &["--test", "it"]].concat())?;
            command.args(["test", "--quiet"]).args(package);
            command.args(["--test", "it", "olm_bundle::"]);
        }
    }
    for binary in tools::ensure_built(&args.sources, USES, out)? {
        command.env(binary.variable(), &binary.path);
    }
    let status = command.current_dir(crate::root()).status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}
