//! The list of our files under a root.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Its name under the root.
const NAME: &str = ".slicewright-sim-files";
const NEW: &str = ".slicewright-sim-files.new";
const HEAD: &str = "slicewright-sim files 1";

/// Paths under the root, each with the checksum of what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The generation of the state that they are of; 0 while they are changed.
    pub(super) generation: u64,
    pub(super) entries: BTreeMap<String, u64>,
}

impl Manifest {
    /// The manifest of a root, if it has one.
    pub(super) fn read(root: &Path) -> std::io::Result<Option<Self>> {
        let text = match fs::read_to_string(root.join(NAME)) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let parsed = || {
            let mut lines = text.lines();
            let generation = lines.next()?.strip_prefix(HEAD)?.trim().parse().ok()?;
            let mut entries = BTreeMap::new();
            for line in lines {
                let (sum, path) = line.split_once(' ')?;
                let steps_out = path.split('/').any(|part| matches!(part, "" | "." | ".."));
                let sum = u64::from_str_radix(sum, 16).ok().filter(|_| !steps_out)?;
                entries.insert(path.to_owned(), sum);
            }
            Some(Self { generation, entries })
        };
        let damaged = || {
            Error::new(
                ErrorKind::InvalidData,
                format!("{NAME} there is damaged; remove it and the files beside it"),
            )
        };
        parsed().map(Some).ok_or_else(damaged)
    }

    pub(super) fn write(&self, root: &Path) -> std::io::Result<()> {
        let mut text = format!("{HEAD} {}\n", self.generation);
        for (path, sum) in &self.entries {
            text.push_str(&format!("{sum:016x} {path}\n"));
        }
        fs::write(root.join(NEW), text)?;
        fs::rename(root.join(NEW), root.join(NAME))
    }

    pub(super) fn remove(root: &Path) -> std::io::Result<()> {
        fs::remove_file(root.join(NAME))
    }
}
