//! Files and folders under a root, as they should be.

use std::collections::BTreeMap;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Folder,
    File { content: Vec<u8>, mode: u32 },
    Link(String),
    Device { major: u32, minor: u32, mode: u32 },
}

/// Files and folders, by their paths under the root. What is added brings the folders that it is in.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// All of it.
    pub(super) fn into_entries(self) -> BTreeMap<String, Entry> {
        self.0
    }

    pub(super) fn add(&mut self, path: String, entry: Entry) {
        let mut parent = path.as_str();
        while let Some((up, _)) = parent.rsplit_once('/') {
            if self.0.contains_key(up) {
                break;
            }
            self.0.insert(up.to_owned(), Entry::Folder);
            parent = up;
        }
        self.0.insert(path, entry);
    }

    pub(super) fn text(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.add(path.into(), Entry::File { content: content.into(), mode: 0o444 });
    }

    pub(super) fn link(&mut self, path: impl Into<String>, to: impl Into<String>) {
        self.add(path.into(), Entry::Link(to.into()));
    }

    pub(super) fn device(&mut self, path: impl Into<String>, major: u32, minor: u32, mode: u32) {
        self.add(path.into(), Entry::Device { major, minor, mode });
    }
}
