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

    /// How people call the operating system.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::LinuxAmd64 | Self::LinuxArm64 => "Linux",
            Self::DarwinAmd64 | Self::DarwinArm64 => "macOS",
            Self::WindowsAmd64 => "Windows",
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

/// Where the script for jobs is, from the root of the repository.
pub const INSTALLER: &str = "examples/policy-repo/install.sh";

/// The script for jobs does not set a variable, or sets it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{INSTALLER} needs one line that begins with {0}=, where a release writes its own")]
pub struct NoVariable(pub &'static str);

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

    /// The script that installs the command for a job, of the one in `examples/policy-repo`: with the version, the place and
    /// the digests of this release. A system without an archive keeps a digest of zeros, with which the script stops.
    ///
    /// # Errors
    /// When the script has no line, or several, for one of them.
    pub fn installer(&self, example: &str) -> Result<String, NoVariable> {
        let Self { version, repository, archives } = self;
        let mut lines = vec![("VERSION", (*version).to_owned()), ("REPOSITORY", (*repository).to_owned())];
        let pinned = [(System::LinuxAmd64, "SHA256_AMD64"), (System::LinuxArm64, "SHA256_ARM64")];
        for (system, variable) in pinned {
            let archive = archives.iter().find(|(of, _)| *of == system);
            lines.push((variable, archive.map_or_else(|| "0".repeat(64), |(_, digest)| digest.clone())));
        }
        let mut text = example.to_owned();
        for (variable, value) in lines {
            let begins = format!("{variable}=");
            if text.lines().filter(|line| line.starts_with(&begins)).count() != 1 {
                return Err(NoVariable(variable));
            }
            let set = text.lines().map(|line| match line.starts_with(&begins) {
                true => format!("{begins}{value}\n"),
                false => format!("{line}\n"),
            });
            text = set.collect();
        }
        Ok(text)
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
