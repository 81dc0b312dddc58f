//! `cargo xtask image`: OCI images, built by `slicewright-image` with the
//! tools that it needs, and read back.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::python::{self, PYTHON};
use crate::steps::{Action, Step, Tool};
use crate::tools::{CC, Sources};

/// Builds the OCI images and checks what they promise
///
/// Without a container engine and without a base image. The folder gets, for
/// each product: a folder in the OCI layout, an archive for `docker load`,
/// `podman load` and `kind load image-archive`, and SBOMs. It needs Python, for
/// the linker that makes static programs for every processor.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which images: operator, simulator [default: both]
    #[arg(value_name = "PRODUCT", value_parser = ["operator", "simulator"])]
    products: Vec<String>,
    /// For which processors; more than one makes one image of all [default: this machine's]
    #[arg(long, value_name = "ARCH", value_delimiter = ',', value_parser = ["amd64", "arm64"])]
    arch: Vec<String>,
    /// Where they go [default: `images` in the target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The registry and the organisation before the name, such as registry.example.com/gpu
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// The tag [default: the version]
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Build without optimisation, for a quick look
    #[arg(long)]
    quick: bool,
    /// Build them twice, from two clones in two folders with nothing in common, and compare the digests
    #[arg(long)]
    twice: bool,
    #[arg(long, hide = true, env = "PATH", default_value = "")]
    path: OsString,
    #[command(flatten)]
    sources: Sources,
}

/// The standard library for static programs.
const MUSL: Tool = Tool {
    name: "Rust's standard library for musl",
    probe: &["sh", "-c", "test -d \"$(rustc --print sysroot)/lib/rustlib/$(uname -m)-unknown-linux-musl\""],
    install: "rustup target add x86_64-unknown-linux-musl (or aarch64-unknown-linux-musl, as your machine is)",
};

/// The same for the other processor of servers.
const MUSL_ARM64: Tool = Tool {
    name: "Rust's standard library for musl on arm64",
    probe: &["sh", "-c", "test -d \"$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-musl\""],
    install: "rustup target add aarch64-unknown-linux-musl",
};

/// The step of the gate: the operator's image, in the profile that builds
/// soonest.
pub(crate) fn step(sources: &Sources) -> Step {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--locked", "--package", "xtask", "--", "image", "operator", "--quick"]);
    sources.hand_on(&mut command);
    Step {
        name: "image",
        what: "the operator's image is built without an engine, and keeps its promises",
        tools: &[PYTHON, MUSL],
        after: None,
        action: Action::Run(command),
    }
}

/// The steps of the release check: what is published, another processor, and
/// that two builds have one digest.
pub(crate) fn release_steps(sources: &Sources) -> Vec<Step> {
    let image = |name, what, args: &[&str], tools| {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--locked", "--package", "xtask", "--", "image"]).args(args);
        sources.hand_on(&mut command);
        Step { name, what, tools, after: None, action: Action::Run(command) }
    };
    vec![
        image("images", "both images as they are published keep their promises", &[], &[PYTHON, MUSL, CC]),
        image(
            "image-arm64",
            "the operator's image for both processors",
            &["operator", "--quick", "--arch", "amd64,arm64"],
            &[PYTHON, MUSL, MUSL_ARM64],
        ),
        image("reproducible", "two builds in two folders have one digest", &["--twice"], &[PYTHON, MUSL, CC]),
    ]
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let python = python::environment("image.txt", &args.sources.cache()?, out)?;
    let beside = python.parent().context("python is in a folder")?;
    let path = std::iter::once(beside.to_owned()).chain(std::env::split_paths(&args.path));
    let path = std::env::join_paths(path).context("the folder of the tools cannot be in PATH")?;
    let here = std::env::current_exe().context("cannot find the target folder")?;
    let target =
        here.parent().and_then(|profile| profile.parent()).context("cannot find the target folder")?;
    if args.twice {
        return twice(args, &path, out);
    }
    let folder = match &args.out {
        None => target.join(if args.quick { "images-quick" } else { "images" }),
        Some(folder) => std::path::absolute(folder)?,
    };
    make(args, &path, crate::root(), &folder, out)?;
    let mut test = Command::new("cargo");
    test.args(["test", "--quiet", "--locked", "--package", "slicewright-image", "--test", "image"]);
    test.env("SLICEWRIGHT_IMAGES", &folder).env(
        "SLICEWRIGHT_IMAGES_MADE",
        match args.products.as_slice() {
            [] => "operator,simulator".to_owned(),
            products => products.join(","),
        },
    );
    let status = test.current_dir(crate::root()).status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}

/// Builds them from one checkout.
fn make(
    args: &Args,
    path: &OsStr,
    checkout: &Path,
    folder: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut make = Command::new("cargo");
    make.args(["run", "--quiet", "--locked", "--package", "slicewright-image", "--"]).args(&args.products);
    make.arg("--out").arg(folder).args(args.quick.then_some(["--profile", "dev"]).into_iter().flatten());
    for (flag, value) in [("--prefix", &args.prefix), ("--tag", &args.tag)] {
        make.args(value.iter().flat_map(|value| [flag, value]));
    }
    make.args(args.arch.iter().flat_map(|arch| ["--arch", arch]));
    make.env("PATH", path).current_dir(checkout);
    if checkout != crate::root() {
        make.env("CARGO_TARGET_DIR", checkout.join("built"));
    }
    out.flush()?;
    let status = make.status().context("cannot run cargo")?;
    ensure!(status.success(), "the images could not be built");
    Ok(())
}

/// What was committed, built in two folders of different lengths and depths:
/// the same images, or the first file that differs.
fn twice(args: &Args, path: &OsStr, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let temporary = args.sources.cache()?.with_file_name(format!("twice-{}", std::process::id()));
    let mut built = Vec::new();
    for name in ["one", "another/a-longer-name"] {
        let checkout = temporary.join(name);
        fs::create_dir_all(&checkout).with_context(|| format!("cannot make {}", checkout.display()))?;
        let mut clone = Command::new("git");
        clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(crate::root()).arg(&checkout);
        ensure!(clone.status().context("cannot run git")?.success(), "the checkout cannot be cloned");
        let folder = temporary.join(format!("images-{}", built.len()));
        make(args, path, &checkout, &folder, out)?;
        fs::remove_dir_all(&checkout).with_context(|| format!("cannot remove {}", checkout.display()))?;
        built.push(folder);
    }
    let mut same = true;
    for product in ["operator", "simulator"] {
        let digests: Vec<_> = built
            .iter()
            .filter_map(|at| fs::read_to_string(at.join(format!("{product}.digest"))).ok())
            .collect();
        let [one, another] = digests.as_slice() else { continue };
        let (one, another) = (one.trim(), another.trim());
        if one == another {
            writeln!(out, "{product}: both builds have the digest {one}")?;
        } else {
            same = false;
            writeln!(
                out,
                "{product}: the builds differ, {one} and {another}; both are in {}",
                temporary.display()
            )?;
        }
    }
    if same {
        fs::remove_dir_all(&temporary).with_context(|| format!("cannot remove {}", temporary.display()))?;
    }
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
