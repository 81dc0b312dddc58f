//! `cargo xtask image`: OCI images, built by `slicewright-image` with the necessary tools, and read back.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::building;
use crate::installing::Install;
use crate::needs::{self, MUSL};
use crate::python::{self, PYTHON};
use crate::steps::{Action, Step, Tool};
use crate::tools::{self, CC, GO, Sources};

/// Builds the OCI images and checks their contents
///
/// Without a container engine and without a base image: `--help` lists the
/// options. It needs Python, for the linker that makes static programs for
/// every processor.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(long, hide = true, env = "PATH", default_value = "")]
    path: OsString,
    #[command(flatten)]
    sources: Sources,
    /// What `slicewright-image` takes (packaging/image)
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The same for the other processor of servers.
const MUSL_ARM64: Tool = Tool {
    name: "Rust's standard library for musl on arm64",
    probe: &["sh", "-c", "test -d \"$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-musl\""],
    install: Install::Command("rustup target add aarch64-unknown-linux-musl"),
};

/// What runs the image for the other processor, on a machine of servers.
const EMULATOR: Tool = Tool {
    name: "an emulator for the other processor",
    probe: &["sh", "-c", "command -v qemu-aarch64-static && command -v qemu-x86_64-static"],
    install: Install::Debian("qemu-user-static"),
};

/// What the image of a release needs.
pub(crate) const RELEASED: &[Tool] = &[crate::gate::GIT, PYTHON, MUSL, MUSL_ARM64];

/// The step of the gate: what a cluster runs, in the profile that builds
/// soonest.
pub(crate) fn step(sources: &Sources) -> Step {
    let mut command = Command::new("cargo");
    command.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "xtask",
        "--",
        "image",
        "operator",
        "agent",
        "--quick",
    ]);
    sources.hand_on(&mut command);
    Step {
        name: "image",
        what: "the images of operator and agent are built without an engine, and keep their promises",
        tools: &[PYTHON, MUSL, CC],
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
        image(
            "images",
            "the images as they are published keep their promises, and containerd loads them",
            &["--load"],
            &[PYTHON, MUSL, CC, GO],
        ),
        image(
            "image-arm64",
            "the operator's image for both processors, the other one in an emulator",
            &["operator", "--quick", "--arch", "amd64,arm64"],
            &[PYTHON, MUSL, MUSL_ARM64, EMULATOR],
        ),
        containerfiles(),
        Step {
            after: Some("images"),
            ..image(
                "reproducible",
                "built once more in another folder, the images have the same digests",
                &["--again"],
                &[PYTHON, MUSL, CC],
            )
        },
    ]
}

/// Base images come from a registry; what is built on them can be tried without.
fn containerfiles() -> Step {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--locked", "--package", "slicewright-image", "--test", "image"]);
    command.args(["--", "containerfile"]).env("SLICEWRIGHT_CONTAINERFILES", "1");
    Step {
        name: "containerfiles",
        what: "the Containerfiles promise what our images do, and their build makes what they copy",
        tools: &[CC],
        after: None,
        action: Action::Run(command),
    }
}

/// `slicewright-image` with the linker that it needs.
fn maker(sources: &Sources, path: &OsStr, out: &mut dyn Write) -> anyhow::Result<Command> {
    needs::require("the operator's image", needs::IMAGE)?;
    building::first(&["build", "--locked", "--package", "slicewright-image"])?;
    let mut make = with_zig(sources, path, "cargo", out)?;
    make.args(["run", "--quiet", "--locked", "--package", "slicewright-image", "--"]);
    Ok(make)
}

/// A program that finds zig, which links for every processor.
pub(crate) fn with_zig(
    sources: &Sources,
    path: &OsStr,
    program: &str,
    out: &mut dyn Write,
) -> anyhow::Result<Command> {
    let python = python::environment("image.txt", &sources.cache()?, out)?;
    let beside = python.parent().context("python is in a folder")?;
    let path = std::iter::once(beside.to_owned()).chain(std::env::split_paths(path));
    let path = std::env::join_paths(path).context("the folder of the tools cannot be in PATH")?;
    // Where a program is looked for is our own PATH, which has none of it.
    let of_python = beside.join(program);
    let mut command =
        Command::new(if of_python.is_file() { of_python.as_os_str() } else { OsStr::new(program) });
    command.env("PATH", path).current_dir(crate::root());
    Ok(command)
}

/// The images of operator and agent in the profile that builds soonest, for a
/// cluster to load, written to this folder; [`step`] checks the same.
pub(crate) fn of_operator_and_agent(
    sources: &Sources,
    path: &OsStr,
    folder: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut make = maker(sources, path, out)?;
    make.args(["operator", "agent", "--quick", "--out"]).arg(folder);
    out.flush()?;
    ensure!(
        make.status().context("cannot run cargo")?.success(),
        "the images of operator and agent could not be built"
    );
    Ok(())
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut make = maker(&args.sources, &args.path, out)?;
    make.args(&args.arguments);
    // A second build is compared with the first and nothing else; a folder for a Containerfile is no image.
    let no_image = |argument: &OsString| argument == "--again" || argument == "--tree";
    make.args((!args.arguments.iter().any(no_image)).then_some("--check"));
    if args.arguments.iter().any(|argument| argument == "--load") {
        // The containerd of a kind cluster's nodes.
        for binary in tools::ensure_built(&args.sources, &[tools::Use::Kind], out)? {
            make.env(binary.variable(), &binary.path);
        }
    }
    out.flush()?;
    let status = make.status().context("cannot run cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(128);
    Ok(ExitCode::from(code))
}
