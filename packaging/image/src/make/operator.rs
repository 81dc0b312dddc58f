//! The operator's image: one static program under two names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use image::oci::{Architecture, digest};
use image::sbom::{Other, Program};
use image::tree::Tree;

use super::build::{Linker, Workspace};
use super::{Base, Contents};

/// The file, and the name of the operator, which is a link to it.
const PROGRAM: &str = "usr/bin/slicewright";
const OPERATOR: &str = "usr/bin/slicewright-operator";

pub(super) fn contents(
    workspace: &Workspace,
    architecture: Architecture,
    base: Base,
) -> anyhow::Result<Contents> {
    let (library, linker) = match base {
        Base::None => ("musl", Linker::Zig),
        Base::Image => ("gnu", Linker::Own),
    };
    let target = format!("{}-unknown-linux-{library}", architecture.rust());
    let package = "slicewright-multicall";
    let made = workspace.build(package, &["--bin", package], &target, linker)?;
    let mut programs = Tree::new();
    let sha256 = digest(&made.content).trim_start_matches("sha256:").to_owned();
    programs.program(PROGRAM, made.content);
    programs.link(OPERATOR, "slicewright");
    let (rust, licence_of_rust) = workspace.standard_library()?;
    let mut others = vec![other("rust-std", &rust, "MIT OR Apache-2.0")];
    let mut licences = vec![("rust-std/COPYRIGHT-library.html".to_owned(), read(&licence_of_rust)?)];
    if base == Base::None {
        let Zig { version, folder } = zig()?;
        others.extend([
            other("musl (of zig)", &version, "MIT"),
            other("compiler-rt (of zig)", &version, "MIT"),
        ]);
        licences.extend([
            ("musl/COPYRIGHT".to_owned(), read(&folder.join("lib/libc/musl/COPYRIGHT"))?),
            ("zig/LICENSE".to_owned(), read(&folder.join("LICENSE"))?),
        ]);
    }
    Ok(Contents {
        base: Tree::new(),
        programs,
        linked: vec![Program { path: format!("/{PROGRAM}"), sha256, packages: made.packages }],
        others,
        licences,
        environment: vec!["PATH=/usr/bin".to_owned()],
    })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn other(name: &str, version: &str, licence: &str) -> Other {
    let (name, version) = (name.to_owned(), version.to_owned());
    Other { name, version, licence: Some(licence.to_owned()), purl: None }
}

struct Zig {
    version: String,
    folder: PathBuf,
}

/// Zig, as `cargo zigbuild` finds it: a package of the first Python in PATH.
fn zig() -> anyhow::Result<Zig> {
    let ask = |args: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("python3").args(args).output().context("cannot run python3")?;
        ensure!(output.status.success(), "zig is not there: start this as `cargo xtask image`");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let folder = ask(&["-c", "import os, ziglang; print(os.path.dirname(ziglang.__file__))"])?;
    Ok(Zig { version: ask(&["-m", "ziglang", "version"])?, folder: folder.into() })
}
