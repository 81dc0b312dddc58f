//! `cargo xtask archives`: the command for users' machines, built for each system with one linker for all,
//! and packed by `packaging/src/archives.rs`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::building;
use crate::image;
use crate::installing::Install;
use crate::needs;
use crate::python::PYTHON;
use crate::steps::Tool;
use crate::tools::Sources;

/// Builds the `slicewright` command for each system, as archives with checksums and krew's manifest
///
/// Manual pages and completions are in each. Programs for Linux are static.
/// What loads NVIDIA's library (`slicewright gpus`) is left out: it is for the
/// machine with the GPUs, where `cargo install --locked --path crates/cli`
/// builds it.
///
/// Programs for macOS are linked with Apple's SDK where SDKROOT names its
/// folder, and otherwise with the lists of functions in packaging/apple.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long, hide = true, env = "PATH", default_value = "")]
    path: OsString,
    #[command(flatten)]
    sources: Sources,
    #[arg(long, hide = true, env = "SDKROOT")]
    sdk: Option<PathBuf>,
    /// For which systems
    #[arg(long, value_enum, value_name = "SYSTEM", value_delimiter = ',', default_values_t = System::ALL)]
    system: Vec<System>,
    /// The folder that gets them
    #[arg(long, value_name = "DIR", default_value = "target/archives")]
    out: PathBuf,
    /// Build without optimisation, which is quicker, to see that it can be built
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// x86_64, any distribution
    LinuxAmd64,
    /// aarch64, any distribution
    LinuxArm64,
    /// macOS 13 or later, Intel
    DarwinAmd64,
    /// macOS 13 or later, Apple silicon
    DarwinArm64,
    /// Windows 10 or later, x86_64
    WindowsAmd64,
}

impl System {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::LinuxAmd64, Self::LinuxArm64, Self::DarwinAmd64, Self::DarwinArm64, Self::WindowsAmd64];

    const fn is_apple_s(self) -> bool {
        matches!(self, Self::DarwinAmd64 | Self::DarwinArm64)
    }

    /// Its name, Rust's name for it, and Rust's standard library for it.
    const fn names(self) -> (&'static str, &'static str, Tool) {
        macro_rules! target {
            ($name:literal, $target:literal) => {
                (
                    $name,
                    $target,
                    Tool {
                        name: concat!("Rust's standard library for ", $target),
                        probe: &[
                            "sh",
                            "-c",
                            concat!("test -d \"$(rustc --print sysroot)/lib/rustlib/", $target, "\""),
                        ],
                        install: Install::Command(concat!("rustup target add ", $target)),
                    },
                )
            };
        }
        match self {
            Self::LinuxAmd64 => target!("linux-amd64", "x86_64-unknown-linux-musl"),
            Self::LinuxArm64 => target!("linux-arm64", "aarch64-unknown-linux-musl"),
            Self::DarwinAmd64 => target!("darwin-amd64", "x86_64-apple-darwin"),
            Self::DarwinArm64 => target!("darwin-arm64", "aarch64-apple-darwin"),
            Self::WindowsAmd64 => target!("windows-amd64", "x86_64-pc-windows-gnu"),
        }
    }
}

/// What is in the archives: everything but what loads a library.
const FEATURES: [&str; 3] = ["--no-default-features", "--features", "tls-rustls"];

/// The oldest macOS on which the programs start (`packaging/src/archives/macos.rs` checks it). The linker's own choice
/// is the newest but one.
const OLDEST_MACOS: &str = "13.0";

/// The linker for all of them, and Rust's standard library for each.
pub(crate) fn needed(systems: &[System]) -> Vec<Tool> {
    std::iter::once(PYTHON).chain(systems.iter().map(|system| system.names().2)).collect()
}

/// Runs it.
pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    needs::require("cargo xtask archives", &needed(&args.system))?;
    let profile = if args.quick { "dev" } else { "image" };
    let here = std::env::current_exe()?;
    let target = here.parent().and_then(|folder| folder.parent()).context("there is no target folder")?;
    let mut packs = Command::new("cargo");
    packs.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "slicewright-packaging",
        "--bin",
        "archives",
        "--",
    ]);
    for system in &args.system {
        let (name, triple, _) = system.names();
        writeln!(out, "building slicewright for {name}")?;
        out.flush()?;
        let mut build = image::with_zig(&args.sources, &args.path, "cargo-zigbuild", out)?;
        build.args(["zigbuild", "--locked", "--package", "slicewright-cli", "--bin", "slicewright"]);
        build.args(FEATURES).args(["--target", triple, "--profile", profile]);
        // Folders of this machine are nobody's business, and the same sources give the same program.
        let renamed = format!("--remap-path-prefix={}=/usr/src/slicewright", crate::root().display());
        build
            .env("CARGO_ENCODED_RUSTFLAGS", format!("{renamed}\u{1f}-Cstrip=symbols"))
            .env_remove("RUSTFLAGS");
        build.env_remove("RUSTC_WORKSPACE_WRAPPER").env("CARGO_INCREMENTAL", "0");
        if system.is_apple_s() {
            let ours = || crate::root().join("packaging/apple");
            build.env("SDKROOT", args.sdk.clone().unwrap_or_else(ours));
            build.env("MACOSX_DEPLOYMENT_TARGET", OLDEST_MACOS);
        }
        let status = build.status().context("cannot run cargo-zigbuild")?;
        ensure!(status.success(), "slicewright could not be built for {name}");
        let folder = if args.quick { "debug" } else { profile };
        let file = if *system == System::WindowsAmd64 { "slicewright.exe" } else { "slicewright" };
        let built = target.join(triple).join(folder).join(file);
        packs.arg("--program").arg(format!("{name}={}", built.display()));
    }
    building::first(&["build", "--locked", "--package", "slicewright-packaging", "--bin", "archives"])?;
    // The same command for this machine writes the pages.
    building::first(&[&["build", "--locked", "--package", "slicewright-cli"], &FEATURES[..]].concat())?;
    packs
        .arg("--here")
        .arg(here.with_file_name("slicewright"))
        .arg("--out")
        .arg(crate::root().join(&args.out));
    let status = packs.current_dir(crate::root()).status().context("cannot run cargo")?;
    ensure!(status.success(), "the archives could not be packed");
    Ok(ExitCode::SUCCESS)
}
