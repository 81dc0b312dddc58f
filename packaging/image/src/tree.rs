//! The files of an image, and one layer of it as a tar archive.

use std::collections::BTreeMap;

use tar::{Builder, EntryType, Header};

/// One thing in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder, and who owns it (user and group alike).
    Folder {
        /// The owner.
        owner: u32,
        /// The permissions.
        mode: u32,
    },
    /// A file of root's, which nobody may write.
    File {
        /// 0o555 for programs, 0o444 for everything else.
        mode: u32,
        /// What is in it.
        content: Vec<u8>,
    },
    /// A symbolic link to this.
    Link(String),
}

/// Files by their paths, without the leading slash. A sorted map: the order of
/// insertion leaves no trace in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            let folder = path[..at].to_owned();
            self.entries.entry(folder).or_insert(Entry::Folder { owner: 0, mode: 0o755 });
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// A program, which everybody may run.
    pub fn program(&mut self, path: &str, content: Vec<u8>) {
        self.put(path, Entry::File { mode: 0o555, content });
    }

    /// A file that everybody may read.
    pub fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.put(path, Entry::File { mode: 0o444, content: content.into() });
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// A folder that this user owns.
    pub fn folder_of(&mut self, owner: u32, path: &str) {
        self.put(path, Entry::Folder { owner, mode: 0o755 });
    }

    /// Everything, in the order of the archive.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// As a tar archive in which everything has this time.
    #[must_use]
    pub fn tar(&self, time: u64) -> Vec<u8> {
        let never = "an archive in memory takes every entry";
        let mut archive = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mtime(time);
            header.set_size(0);
            let owner = match entry {
                Entry::Folder { owner, .. } => *owner,
                Entry::File { .. } | Entry::Link(_) => 0,
            };
            header.set_uid(u64::from(owner));
            header.set_gid(u64::from(owner));
            match entry {
                Entry::Folder { owner: _, mode } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    archive.append_data(&mut header, format!("{path}/"), &[][..]).expect(never);
                }
                Entry::File { mode, content } => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(*mode);
                    header.set_size(u64::try_from(content.len()).expect("a file in memory has a size"));
                    archive.append_data(&mut header, path, content.as_slice()).expect(never);
                }
                Entry::Link(target) => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_mode(0o777);
                    archive.append_link(&mut header, path, target).expect(never);
                }
            }
        }
        archive.into_inner().expect(never)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> Vec<(String, u64, u32, u64)> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            (path, header.uid().unwrap(), header.mode().unwrap(), header.mtime().unwrap())
        });
        entries.collect()
    }

    #[test]
    fn the_order_of_insertion_leaves_no_trace() {
        let (mut one, mut other) = (Tree::new(), Tree::new());
        one.program("usr/bin/b", vec![1]);
        one.file("/etc/a", "text");
        other.file("etc/a", "text");
        other.program("usr/bin/b", vec![1]);
        assert_eq!(one.tar(7), other.tar(7));
        assert_ne!(one.tar(7), one.tar(8), "the time is in it");
    }

    #[test]
    fn everything_is_root_s_but_what_is_given_away_and_folders_come_first() {
        let mut tree = Tree::new();
        tree.program("usr/bin/program", vec![1, 2]);
        tree.link("usr/bin/other", "program");
        tree.folder_of(65532, "run/state");
        assert_eq!(
            names(&tree.tar(9)),
            [
                ("run/".to_owned(), 0, 0o755, 9),
                ("run/state/".to_owned(), 65532, 0o755, 9),
                ("usr/".to_owned(), 0, 0o755, 9),
                ("usr/bin/".to_owned(), 0, 0o755, 9),
                ("usr/bin/other".to_owned(), 0, 0o777, 9),
                ("usr/bin/program".to_owned(), 0, 0o555, 9),
            ]
        );
    }

    #[test]
    fn a_path_of_any_length_is_kept() {
        let long = format!("licenses/{}/LICENSE", "a-very-long-name-".repeat(12));
        let mut tree = Tree::new();
        tree.file(&long, "text");
        assert!(names(&tree.tar(0)).iter().any(|(path, ..)| *path == long));
    }
}
