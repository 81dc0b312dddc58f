//! The image for `oc adm must-gather`: the program of the operator's image, with the shell and the few programs of this
//! machine that `oc` starts in it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use image::oci::Architecture;

use super::build::Workspace;
use super::machine::{self, Library};
use super::{Base, Contents, operator};

/// What is collected, by our command.
const GATHER: &str = "packaging/containers/gather";

/// A shell; what ends the collection when the disk fills up (`df`, `du`, `ps`, `pkill`, `setsid` and others); `tar`, with
/// which `oc` copies; and what a person needs who opens a shell in it.
const PROGRAMS: [&str; 23] = [
    "awk", "bash", "cat", "cp", "date", "df", "du", "env", "grep", "head", "ls", "mkdir", "pkill", "ps",
    "rm", "sed", "setsid", "sleep", "sort", "sync", "tail", "tar", "wc",
];

pub(super) fn contents(workspace: &Workspace, architecture: Architecture) -> anyhow::Result<Contents> {
    let mut contents = operator::contents(workspace, architecture, Base::None)?;
    let base = &mut contents.base;
    let mut found = Vec::new();
    for name in PROGRAMS {
        let path = Path::new("/usr/bin").join(name);
        let content = fs::read(&path).with_context(|| {
            format!("cannot read {}, which the image for must-gather contains: install it", path.display())
        })?;
        found.push((path, content));
    }
    let programs: Vec<&[u8]> = found.iter().map(|(_, content)| content.as_slice()).collect();
    let mut paths: Vec<PathBuf> = Vec::new();
    for Library { path, content } in machine::libraries(&programs, &[], &[], architecture)? {
        base.program(path.to_str().context("a library's path is text")?, content);
        paths.push(path);
    }
    for (path, content) in found {
        base.program(path.to_str().context("a program's path is text")?, content);
        paths.push(path);
    }
    base.link("usr/bin/sh", "bash");
    // `oc` starts /bin/bash.
    base.link("bin", "usr/bin");
    for (other, texts) in machine::owners(&paths)? {
        contents.others.push(other);
        contents.licences.extend(texts);
    }
    let gather = fs::read(workspace.root.join(GATHER)).with_context(|| format!("cannot read {GATHER}"))?;
    contents.programs.program("usr/bin/gather", gather);
    Ok(contents)
}
