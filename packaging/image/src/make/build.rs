//! Builds a program for an image, and lists its contents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use image::auditable;
use image::packages::{self, Package};
use serde_json::Value;

/// The checkout, as cargo sees it.
#[derive(Clone)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) version: String,
    pub(crate) repository: String,
    profile: String,
    lock: String,
    /// Where the sources of other people's crates are.
    registry: Option<String>,
    sysroot: String,
    /// What this machine is, as Rust calls it.
    machine: String,
    commit_of_rust: String,
}

/// Who links.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linker {
    /// Zig's, for any processor and a C library of its own.
    Zig,
    /// This machine's.
    Own,
}

/// A program, auditable.
pub(crate) struct Made {
    pub(crate) content: Vec<u8>,
    pub(crate) packages: Vec<Package>,
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed what is no text"))
}

impl Workspace {
    /// The checkout that this program was built from.
    pub(crate) fn find(profile: &str) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().context("the checkout that this program was built from is gone")?;
        let text = said(
            Command::new("cargo").args(["metadata", "--format-version", "1", "--locked"]).current_dir(&root),
        )?;
        let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let ours = packages.iter().find(|package| package["name"] == env!("CARGO_PKG_NAME"));
        let ours = ours.context("cargo metadata does not know this package")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let theirs = packages.iter().find(|package| !package["source"].is_null());
        let registry = theirs
            .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent()?.parent()?.to_str())
            .map(str::to_owned);
        let verbose = said(Command::new("rustc").arg("-vV"))?;
        let machine = verbose.lines().find_map(|line| line.strip_prefix("host: "));
        let commit = verbose.lines().find_map(|line| line.strip_prefix("commit-hash: "));
        Ok(Self {
            target: PathBuf::from(text(&metadata["target_directory"])),
            version: text(&ours["version"]),
            repository: text(&ours["repository"]),
            profile: profile.to_owned(),
            lock: fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?,
            registry,
            sysroot: said(Command::new("rustc").args(["--print", "sysroot"]))?.trim().to_owned(),
            machine: machine.context("rustc does not say what it runs on")?.to_owned(),
            commit_of_rust: commit.unwrap_or("unknown").to_owned(),
            root,
        })
    }

    /// The same for a program that runs on every node: what is published of it is built small instead of fast.
    pub(crate) fn for_every_node(&self) -> Self {
        let profile = match self.profile.as_str() {
            "image" => "image-small",
            other => other,
        };
        Self { profile: profile.to_owned(), ..self.clone() }
    }

    /// The version of Rust's standard library, and where its licences are.
    pub(crate) fn standard_library(&self) -> anyhow::Result<(String, PathBuf)> {
        let version = said(Command::new("rustc").arg("--version"))?;
        let version = version.split(' ').nth(1).context("rustc does not say its version")?.to_owned();
        Ok((version, Path::new(&self.sysroot).join("share/doc/rust/COPYRIGHT-library.html")))
    }

    /// Folders of this machine, and what programs call them: a later one wins.
    fn renamed(&self) -> Vec<(String, String)> {
        let mut renamed = vec![(self.root.display().to_string(), "/usr/src/slicewright".to_owned())];
        renamed.push((self.target.display().to_string(), "/usr/src/target".to_owned()));
        renamed.extend(self.registry.clone().map(|folder| (folder, "/usr/src/crates".to_owned())));
        let rust = format!("{}/lib/rustlib/src/rust", self.sysroot);
        renamed.push((rust, format!("/rustc/{}", self.commit_of_rust)));
        renamed
    }

    /// Builds one program, or one shared library.
    pub(crate) fn build(
        &self,
        package: &str,
        artifact: &[&str],
        target: &str,
        linker: Linker,
    ) -> anyhow::Result<Made> {
        let installed = Path::new(&self.sysroot).join("lib/rustlib").join(target);
        ensure!(installed.is_dir(), "Rust has no standard library for {target}: rustup target add {target}");
        let mut cargo = match linker {
            Linker::Own => {
                let mut cargo = Command::new("cargo");
                cargo.arg("build");
                cargo
            }
            Linker::Zig => {
                let mut cargo = Command::new("cargo-zigbuild");
                cargo.arg("zigbuild");
                cargo
            }
        };
        cargo
            .args(["--locked", "--package", package, "--target", target, "--profile", &self.profile])
            .args(artifact)
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(&self.root);
        let mut flags: Vec<_> =
            self.renamed().iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
        flags.push("-Cstrip=debuginfo".to_owned());
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env_remove("RUSTFLAGS");
        if self.profile != "dev" {
            let of_c: Vec<_> =
                self.renamed().iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
            // For this machine as well, whatever is built: build scripts that look at the flags run again when they
            // change, and with them most of what there is. A quick look has what plain cargo built, which knows none.
            for target in [target, &self.machine] {
                cargo.env(format!("CFLAGS_{}", target.replace('-', "_")), of_c.join(" "));
            }
        }
        // The gate compiles with clippy's driver; what is published is the compiler's own work.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
        // An incremental build may order what it makes by what was there.
        cargo.env("CARGO_INCREMENTAL", "0");
        let messages = said(&mut cargo)?;
        let metadata = said(
            Command::new("cargo")
                .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
                .current_dir(&self.root),
        )?;
        let packages = packages::packages(&metadata, &messages, &self.lock, target, package)?;
        let file = made(&messages, package).with_context(|| format!("cargo made no file of {package}"))?;
        let linked = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let content = auditable::embed(&linked, &packages).with_context(|| format!("{}", file.display()))?;
        Ok(Made { content, packages })
    }
}

/// The program or the shared library that cargo made of a package.
fn made(messages: &str, package: &str) -> Option<PathBuf> {
    let messages = messages.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // The last one: a build script of the package comes before it.
    messages.into_iter().find_map(|message| {
        let id = message["package_id"].as_str()?.to_owned();
        // `path+file:///…/folder#slicewright-x@0.1.0`, or `…/x#0.1.0` where folder and name are the same.
        let name = id.rsplit('#').next()?.split('@').next()?;
        if name != package {
            return None;
        }
        let library =
            || message["filenames"].as_array()?.iter().filter_map(Value::as_str).find(|f| f.ends_with(".so"));
        message["executable"].as_str().or_else(library).map(PathBuf::from)
    })
}
