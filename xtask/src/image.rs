//! `cargo xtask image`: OCI images, built by `slicewright-image` with the necessary tools, and read back.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::building;
use crate::installing::Install;
use crate::needs::{self, MUSL, NAMESPACES};
use crate::python::{self, PYTHON};
use crate::steps::{Action, Step, Tool};
use crate::tools::{self, CC, GIT, GO, Sources};

/// Builds the OCI images and checks their contents
///
/// Without a container engine and without a base image: `--help` lists the
/// options. It needs Python, for the linker that makes static programs for
/// every processor, and a C compiler.
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

/// The same for each processor of servers, by the name that `--arch` takes.
const MUSL_ARM64: Tool = Tool {
    name: "Rust's standard library for musl on arm64",
    probe: &["sh", "-c", "test -d \"$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-musl\""],
    install: Install::Command("rustup target add aarch64-unknown-linux-musl"),
};
const MUSL_AMD64: Tool = Tool {
    name: "Rust's standard library for musl on amd64",
    probe: &["sh", "-c", "test -d \"$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-musl\""],
    install: Install::Command("rustup target add x86_64-unknown-linux-musl"),
};

/// What the image for must-gather takes from this machine: the list of `packaging/image/src/make/must_gather.rs`.
const GATHERED: Tool = Tool {
    name: "the programs in the image for must-gather",
    probe: &[
        "sh",
        "-c",
        "for program in awk bash cat cp date df du env grep head ls mkdir pkill ps rm sed setsid sleep sort sync tail tar wc; \
         do test -x /usr/bin/$program || exit 1; done",
    ],
    install: Install::Debian("bash coreutils gawk grep procps sed tar util-linux"),
};

/// What runs the image for the other processor, on a machine of servers.
const EMULATOR: Tool = Tool {
    name: "an emulator for the other processor",
    probe: &["sh", "-c", "command -v qemu-aarch64-static && command -v qemu-x86_64-static"],
    install: Install::Debian("qemu-user-static"),
};

/// What the image of a release needs.
pub(crate) const RELEASED: &[Tool] = &[GIT, PYTHON, MUSL, MUSL_ARM64, CC, GATHERED];

/// What the image for must-gather needs, and who runs it with nothing around it.
pub(crate) const MUST_GATHER: &[Tool] = &[PYTHON, MUSL, CC, GATHERED, NAMESPACES];

/// All that `cargo xtask image` needs for these arguments.
pub(crate) fn needed<'a>(sources: &Sources, arguments: impl IntoIterator<Item = &'a str>) -> Vec<Tool> {
    let words: Vec<&str> = arguments.into_iter().collect();
    let mut needed = vec![PYTHON, CC];
    let mut chosen = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| words[before]);
        let value = word.strip_prefix("--arch=").or_else(|| (before == Some("--arch")).then_some(*word));
        chosen.extend(value.into_iter().flat_map(|value| value.split(',')).filter_map(|name| match name {
            "amd64" => Some(MUSL_AMD64),
            "arm64" => Some(MUSL_ARM64),
            _ => None,
        }));
    }
    if chosen.is_empty() {
        chosen.push(MUSL);
    }
    needed.extend(chosen);
    // Without a name all images are made.
    let named = |name: &str| words.contains(&name);
    if named("must-gather") || !["operator", "agent", "simulator"].into_iter().any(named) {
        needed.push(GATHERED);
    }
    if named("--load") {
        needed.extend(needs::components(sources, &[tools::Use::Kind]));
    }
    needed
}

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
            &[PYTHON, MUSL, CC, GATHERED, GO],
        ),
        image(
            "image-arm64",
            "the operator's image for both processors, the other one in an emulator",
            &["operator", "--quick", "--arch", "amd64,arm64"],
            &[PYTHON, MUSL, MUSL_ARM64, CC, EMULATOR],
        ),
        containerfiles(),
        Step {
            after: Some("images"),
            ..image(
                "reproducible",
                "built once more in another folder, the images have the same digests",
                &["--again"],
                &[PYTHON, MUSL, CC, GATHERED],
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

/// `slicewright-image` with the linker that it needs, once all that is needed is there.
fn maker(sources: &Sources, path: &OsStr, needed: &[Tool], out: &mut dyn Write) -> anyhow::Result<Command> {
    needs::require("cargo xtask image", needed)?;
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
    let mut make = maker(sources, path, needs::IMAGE, out)?;
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
    let words = args.arguments.iter().filter_map(|argument| argument.to_str());
    let mut make = maker(&args.sources, &args.path, &needed(&args.sources, words), out)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &[&str], expected: &[Tool]) {
        let nowhere = tempfile::tempdir().unwrap();
        let found = needed(&Sources::kept_in(nowhere.path()), arguments.iter().copied());
        let names =
            |tools: &[Tool]| tools.iter().map(|tool| tool.name).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(names(&found), names(expected), "{arguments:?}");
    }

    #[test]
    fn what_an_image_needs_is_known_before_the_first_build() {
        check(&[], &[PYTHON, CC, MUSL, GATHERED]);
        check(&["operator", "--quick"], &[PYTHON, CC, MUSL]);
        check(&["agent", "simulator", "--out", "/tmp/images"], &[PYTHON, CC, MUSL]);
        check(&["operator", "--arch", "amd64,arm64"], &[PYTHON, CC, MUSL_AMD64, MUSL_ARM64]);
        check(&["operator", "must-gather", "--arch=arm64"], &[PYTHON, CC, MUSL_ARM64, GATHERED]);
        check(&["operator", "--load"], &[PYTHON, CC, MUSL, GO]);
        check(&["--again"], &[PYTHON, CC, MUSL, GATHERED]);
    }

    /// The list is another crate's, which is built after this one looked.
    #[test]
    fn the_programs_of_must_gather_are_those_of_its_image() {
        let file = crate::root().join("packaging/image/src/make/must_gather.rs");
        let text = std::fs::read_to_string(file).unwrap();
        let (_, list) = text.split_once("const PROGRAMS").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let programs: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert!(programs.len() > 20, "{programs:?}");
        assert!(GATHERED.probe[2].contains(&format!("in {};", programs.join(" "))), "{programs:?}");
    }
}
