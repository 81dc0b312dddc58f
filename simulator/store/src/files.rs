//! The files beside the library, kept up to date with the state: a manifest under the root lists our files
//! and their generation.
//!
//! The process that changes the state also updates the files, under the state's lock. If the root is not
//! visible (another mount namespace) or not writable, the state changes nevertheless, and the next process
//! that can updates the files.

mod driver;
mod manifest;
mod pci;
mod tree;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::crash;
use crate::disk::checksum;
use crate::error::StoreError;
use crate::state::State;
use manifest::Manifest;
use tree::{Entry, Tree};

/// The major numbers of the device files: NVIDIA's own, and two of those that
/// the kernel gives out as they come.
pub const NVIDIA_MAJOR: u32 = 195;
/// Of the capabilities.
pub const CAPS_MAJOR: u32 = 238;
/// Of unified memory.
pub const UVM_MAJOR: u32 = 508;

/// Whether the files under the root of a state are those of a generation;
/// `None` if no files are kept, or if they are not to be seen from here.
pub(crate) fn are_at(state: &State, generation: u64) -> Option<bool> {
    let manifest = Manifest::read(state.files.as_deref()?).ok()??;
    Some(manifest.generation == generation)
}

/// All files, by their paths under the root.
fn entries(state: &State) -> BTreeMap<String, Entry> {
    let mut tree = Tree::default();
    driver::node(&mut tree, &state.driver_version);
    let mut capable = false;
    for (index, gpu) in (0u32..).zip(state.machine.gpus()) {
        driver::card(&mut tree, index, gpu, &state.driver_version);
        pci::card(&mut tree, gpu, state.machine.topology(), index);
        if gpu.mig().is_some() {
            capable = true;
            driver::instances(&mut tree, index, gpu);
        }
    }
    if capable {
        driver::capabilities(&mut tree);
    }
    tree.into_entries()
}

/// Takes a root over: it must be a folder in which nothing is in the way.
pub(crate) fn adopt(root: &Path, state: &State) -> Result<(), StoreError> {
    let io = |source| StoreError::Io { doing: "cannot keep files under", path: root.to_owned(), source };
    fs::create_dir_all(root).map_err(io)?;
    if root.canonicalize().map_err(io)? == Path::new("/") {
        return Err(StoreError::RealRoot);
    }
    if Manifest::read(root).map_err(io)?.is_some() {
        return Ok(());
    }
    for (path, entry) in entries(state) {
        let there = fs::symlink_metadata(root.join(&path));
        if !matches!(entry, Entry::Folder) && there.is_ok() {
            return Err(StoreError::InTheWay { root: root.to_owned(), path });
        }
    }
    Manifest::default().write(root).map_err(io)
}

/// Brings the files to what a state says. Does nothing where there is no
/// manifest: that root is not ours, or is not to be seen from here.
pub(crate) fn bring(root: &Path, state: &State, generation: u64) -> std::io::Result<()> {
    match Manifest::read(root)? {
        Some(old) if old.generation != generation => lay_out(root, state, generation, &old),
        _ => Ok(()),
    }
}

/// Brings them to what a state says also where they are of that generation:
/// another version of this program may have laid out others.
pub(crate) fn bring_anew(root: &Path, state: &State, generation: u64) -> std::io::Result<()> {
    let Some(old) = Manifest::read(root)? else { return Ok(()) };
    lay_out(root, state, generation, &old)
}

fn lay_out(root: &Path, state: &State, generation: u64, old: &Manifest) -> std::io::Result<()> {
    let mut wanted = entries(state);
    let sums: BTreeMap<_, _> = wanted.iter().map(|(path, entry)| (path.clone(), entry.sum())).collect();
    // First what is ours from now on, so that nothing is left behind if this process dies.
    let mut both = Manifest { generation: 0, entries: old.entries.clone() };
    for path in sums.keys() {
        if !old.entries.contains_key(path) && fs::symlink_metadata(root.join(path)).is_err() {
            both.entries.insert(path.clone(), 0);
        }
    }
    if both.entries != old.entries || old.generation != 0 {
        both.write(root)?;
    }
    // Whatever was there before and is not in the manifest is somebody else's.
    crash::point();
    wanted.retain(|path, _| both.entries.contains_key(path));
    for path in both.entries.keys().rev().filter(|path| !wanted.contains_key(*path)) {
        let path = root.join(path);
        remove(&beside(&path))?;
        remove(&path)?;
        crash::point();
    }
    for (path, entry) in &wanted {
        if both.entries[path] != sums[path] {
            write(&root.join(path), entry)?;
            crash::point();
        }
    }
    let entries = wanted.keys().map(|path| (path.clone(), sums[path])).collect();
    Manifest { generation, entries }.write(root)
}

/// Takes all files away.
pub(crate) fn abandon(root: &Path) -> std::io::Result<()> {
    let Some(manifest) = Manifest::read(root)? else { return Ok(()) };
    for path in manifest.entries.keys().rev() {
        let path = root.join(path);
        remove(&beside(&path))?;
        remove(&path)?;
    }
    Manifest::remove(root)
}

fn remove(path: &Path) -> std::io::Result<()> {
    let gone = match fs::symlink_metadata(path) {
        // A folder in which somebody else has something stays.
        Ok(metadata) if metadata.is_dir() => return fs::remove_dir(path).or(Ok(())),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    gone.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Writes beside and renames, so that nobody reads half a file.
fn write(path: &Path, entry: &Entry) -> std::io::Result<()> {
    if matches!(entry, Entry::Folder) {
        let made = fs::create_dir(path);
        return made.or_else(
            |error| {
                if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
            },
        );
    }
    let new = beside(path);
    remove(&new)?;
    match entry {
        Entry::Folder => {}
        Entry::File { content, mode } => {
            fs::write(&new, content)?;
            fs::set_permissions(&new, Permissions::from_mode(*mode))?;
        }
        Entry::Link(to) => symlink(to, &new)?,
        Entry::Device { major, minor, mode } => {
            let made = mknodat(
                CWD,
                &new,
                FileType::CharacterDevice,
                Mode::from_raw_mode(*mode),
                makedev(*major, *minor),
            );
            if made.is_err() {
                // Not allowed, or not possible here: whoever only looks whether it is there finds it.
                fs::write(&new, "")?;
            }
            fs::set_permissions(&new, Permissions::from_mode(*mode))?;
        }
    }
    crash::point();
    // An older version of this program may have had a folder in this place, which is empty by now.
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        fs::remove_dir(path)?;
    }
    fs::rename(&new, path)
}

/// Where a file is written before it gets its name.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".slicewright-new");
    path.with_file_name(name)
}

impl Entry {
    fn sum(&self) -> u64 {
        // Never 0, which stands for what is not written yet.
        let sum = match self {
            Self::Folder => 1,
            Self::File { content, mode } => checksum(content) ^ u64::from(*mode) << 48,
            Self::Link(to) => checksum(to.as_bytes()).rotate_left(1),
            Self::Device { major, minor, mode } => {
                u64::from(*major) << 40 | u64::from(*minor) << 12 | u64::from(*mode)
            }
        };
        sum.max(1)
    }
}
