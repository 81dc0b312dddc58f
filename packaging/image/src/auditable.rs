//! The list of dependencies inside a program: the section that cargo-auditable defines, and that
//! `rust-audit-info`, `cargo audit bin` and scanners of images read.
//!
//! It is written from cargo's messages about compiled packages, which are exact, and not by
//! cargo-auditable, which uses `cargo metadata` and also lists features of other members of the workspace.

use std::io::Write;

use auditable_serde::{DependencyKind, Package as Audited, Source, VersionInfo};
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::elf;
use crate::packages::{Kind, Origin, Package};

/// The section's name.
pub const SECTION: &str = ".dep-v0";

/// The list in the form that is embedded, before compression.
#[must_use]
pub fn list(packages: &[Package]) -> VersionInfo {
    let packages = packages.iter().map(|package| Audited {
        name: package.name.clone(),
        version: package.version.parse().expect("cargo takes semantic versions only"),
        source: match package.origin {
            Origin::Local => Source::Local,
            Origin::Registry => Source::CratesIo,
            Origin::Git => Source::Git,
        },
        kind: match package.kind {
            Kind::Linked => DependencyKind::Runtime,
            Kind::Build => DependencyKind::Build,
        },
        dependencies: package.dependencies.clone(),
        root: package.root,
    });
    // Format 1: macros and what they are made of count as of the build.
    VersionInfo { packages: packages.collect(), format: 1 }
}

/// The program with the list in it.
///
/// # Errors
/// When it is not a program.
pub fn embed(program: &[u8], packages: &[Package]) -> Result<Vec<u8>, elf::Error> {
    let never = "a list in memory is written and compressed without fail";
    let mut writer = ZlibEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut writer, &list(packages)).expect(never);
    writer.flush().expect(never);
    elf::with_section(program, SECTION, &writer.finish().expect(never))
}
