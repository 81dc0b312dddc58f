//! The command for users' machines: an archive for each system, with manual pages and completions, and the
//! manifest by which krew installs it as `kubectl slicewright`. The same files give the same bytes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

pub mod macos;

/// A system that there is an archive for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum System {
    /// x86_64, any distribution: the program is static
    LinuxAmd64,
    /// aarch64, any distribution
    LinuxArm64,
    /// macOS on Intel
    DarwinAmd64,
    /// macOS on Apple silicon
    DarwinArm64,
    /// Windows 10 or later, x86_64
    WindowsAmd64,
}

impl System {
    /// How kubectl, krew and Go call it.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::LinuxAmd64 => ("linux", "amd64"),
            Self::LinuxArm64 => ("linux", "arm64"),
            Self::DarwinAmd64 => ("darwin", "amd64"),
            Self::DarwinArm64 => ("darwin", "arm64"),
            Self::WindowsAmd64 => ("windows", "amd64"),
        }
    }

    /// How the program is called there.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::WindowsAmd64 => "slicewright.exe",
            Self::LinuxAmd64 | Self::LinuxArm64 | Self::DarwinAmd64 | Self::DarwinArm64 => "slicewright",
        }
    }

    /// Whether the system starts this program, as far as its bytes say. Linux and Windows ask for nothing that a linker
    /// could have forgotten.
    ///
    /// # Errors
    /// When it would not.
    pub fn check(self, program: &[u8]) -> Result<(), macos::Unfit> {
        match self {
            Self::DarwinAmd64 | Self::DarwinArm64 => macos::check(program),
            Self::LinuxAmd64 | Self::LinuxArm64 | Self::WindowsAmd64 => Ok(()),
        }
    }

    /// How its archive of this version is called.
    #[must_use]
    pub fn archive(self, version: &str) -> String {
        let (os, arch) = self.names();
        format!("slicewright-v{version}-{os}-{arch}.tar.gz")
    }
}

/// One file of an archive.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path in the archive.
    pub path: String,
    /// What is in it.
    pub content: Vec<u8>,
    /// Whether it is run.
    pub is_program: bool,
}

/// The files of a folder and of the folders in it, below this path, by name.
///
/// # Errors
/// When it cannot be read.
pub fn below(folder: &Path, path: &str) -> io::Result<Vec<File>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let name = format!("{path}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files.extend(below(&entry.path(), &name)?);
        } else {
            files.push(File { path: name, content: fs::read(entry.path())?, is_program: false });
        }
    }
    Ok(files)
}

/// The archive of these files: without times, owners and names of users.
///
/// # Errors
/// When a path is too long for an archive.
pub fn packed(files: &[File]) -> io::Result<Vec<u8>> {
    let compressed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(compressed);
    for File { path, content, is_program } in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(if *is_program { 0o755 } else { 0o644 });
        header.set_mtime(0);
        archive.append_data(&mut header, path, content.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// SHA-256, as `sha256sum` and krew write it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Archives with their digests, as a release has them.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    /// The version, without a `v`.
    pub version: &'a str,
    /// The repository that publishes it.
    pub repository: &'a str,
    /// Each system with the digest of its archive.
    pub archives: Vec<(System, String)>,
}

impl Release<'_> {
    /// What `sha256sum --check` reads.
    #[must_use]
    pub fn sums(&self) -> String {
        let Self { version, repository: _, archives } = self;
        archives.iter().map(|(system, digest)| format!("{digest}  {}\n", system.archive(version))).collect()
    }

    /// The manifest of krew's plugin.
    #[must_use]
    pub fn manifest(&self) -> String {
        let Self { version, repository, archives } = self;
        let mut text = format!(
            "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: slicewright
spec:
  version: v{version}
  homepage: {repository}
  shortDescription: Plan and explain how GPUs are cut into MIG slices
  description: |
    Shows what policies of Slicewright would change on a cluster with NVIDIA
    GPUs, says why somebody waits for a slice and what would help, draws the
    fleet, and records it so that a plan can be made without the cluster.

    Needs no operator in the cluster to read it; the rights that it needs are
    listed when one is missing.
  platforms:
"
        );
        for (system, digest) in archives {
            let (os, arch) = system.names();
            let (archive, program) = (system.archive(version), system.program());
            let _ = write!(
                text,
                "    - selector:
        matchLabels: {{os: {os}, arch: {arch}}}
      uri: {repository}/releases/download/v{version}/{archive}
      sha256: {digest}
      files:
        - {{from: {program}, to: .}}
        - {{from: LICENSE, to: .}}
      bin: {program}
"
            );
        }
        text
    }
}
