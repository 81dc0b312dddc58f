//! The files of a directory: the state, which is only ever replaced as a
//! whole; the page with the generation; and the file that is locked.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::crash;
use crate::error::StoreError;
use crate::page::{LENGTH, MAGIC, Page};
use crate::state::{State, Writers};

/// The version of what is written here.
const FORMAT: u32 = 1;
/// How the state begins.
const HEAD: &str = "slicewright-sim state";

const STATE: &str = "state";
const NEW_STATE: &str = "state.new";
const PAGE: &str = "generation";
const NEW_PAGE: &str = "generation.new";
const LOCK: &str = "lock";
/// The files that live clients hold locked.
pub(crate) const CLIENTS: &str = "clients";
const OURS: &[&str] = &[STATE, NEW_STATE, PAGE, NEW_PAGE, LOCK, CLIENTS];

/// A directory with a simulated node in it.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
}

/// An exclusive or shared lock of the directory; ends when it is dropped, and
/// when the process does.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Said, and not left to the closing: a child that was forked meanwhile has the file open, too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Disk {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    fn io(&self, doing: &'static str, file: &str) -> impl FnOnce(std::io::Error) -> StoreError {
        let (dir, path) = (self.dir.clone(), self.path(file));
        move |source| match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem if doing != "cannot read" => {
                StoreError::ReadOnly { dir }
            }
            _ => StoreError::Io { doing, path, source },
        }
    }

    pub(crate) fn damaged(&self, file: &'static str, problem: impl Into<String>) -> StoreError {
        StoreError::Damaged { dir: self.dir.clone(), file, problem: problem.into() }
    }

    fn missing(&self, file: &'static str) -> StoreError {
        if self.path(STATE).exists() || self.path(PAGE).exists() {
            self.damaged(file, "is missing")
        } else {
            StoreError::NotSetUp { dir: self.dir.clone() }
        }
    }

    /// Makes the directory, with the files that are only ever opened. One that
    /// has anything else in it is somebody else's.
    pub(crate) fn prepare(&self) -> Result<(), StoreError> {
        fs::create_dir_all(&self.dir).map_err(self.io("cannot make", ""))?;
        for entry in fs::read_dir(&self.dir).map_err(self.io("cannot read", ""))? {
            let name = entry.map_err(self.io("cannot read", ""))?.file_name();
            let name = name.to_string_lossy();
            if !OURS.contains(&name.as_ref()) {
                return Err(StoreError::Foreign { dir: self.dir.clone(), entry: name.into_owned() });
            }
        }
        let mut lock = OpenOptions::new();
        lock.read(true).write(true).create(true).mode(0o644);
        lock.open(self.path(LOCK)).map_err(self.io("cannot make", LOCK))?;
        match fs::create_dir(self.path(CLIENTS)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(self.io("cannot make", CLIENTS)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Lets those write who may. Called with the lock, once the page is there.
    pub(crate) fn set_permissions(&self, writers: Writers) -> Result<(), StoreError> {
        let (folder, file) = match writers {
            Writers::Owner => (0o755, 0o644),
            Writers::Everybody => (0o777, 0o666),
        };
        for (name, mode) in [("", folder), (CLIENTS, folder), (LOCK, file), (PAGE, file)] {
            fs::set_permissions(self.path(name), Permissions::from_mode(mode))
                .map_err(self.io("cannot change the permissions of", name))?;
        }
        Ok(())
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self, how: FlockOperation) -> Result<Lock, StoreError> {
        // Opened anew each time: a lock belongs to an opening, which a forked child would share.
        let file = match File::open(self.path(LOCK)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.missing(LOCK)),
            Err(error) => return Err(self.io("cannot read", LOCK)(error)),
        };
        loop {
            match flock(&file, how) {
                Ok(()) => return Ok(Lock(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.io("cannot lock", LOCK)(error.into())),
            }
        }
    }

    /// Maps the page, for writing where that is allowed.
    pub(crate) fn page(&self) -> Result<Page, StoreError> {
        let path = self.path(PAGE);
        let (file, writable) = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => (file, true),
            Err(error)
                if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                (File::open(&path).map_err(self.io("cannot read", PAGE))?, false)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.missing(PAGE)),
            Err(error) => return Err(self.io("cannot read", PAGE)(error)),
        };
        let page = Page::map(&file, writable).map_err(self.io("cannot map", PAGE))?;
        page.ok_or_else(|| self.damaged(PAGE, "is not a page with a generation"))
    }

    /// Which file the page is now: device and inode.
    pub(crate) fn page_file(&self) -> Option<(u64, u64)> {
        let metadata = fs::metadata(self.path(PAGE)).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }

    /// The page that is there, so that those who have it mapped go on; a new
    /// one, if there is none that can be used. Called with the lock.
    pub(crate) fn make_page(&self) -> Result<Page, StoreError> {
        match self.page() {
            Err(StoreError::Damaged { .. } | StoreError::NotSetUp { .. }) => {}
            other => return other,
        }
        let mut bytes = vec![0; LENGTH];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        fs::write(self.path(NEW_PAGE), bytes).map_err(self.io("cannot write", NEW_PAGE))?;
        fs::rename(self.path(NEW_PAGE), self.path(PAGE)).map_err(self.io("cannot write", PAGE))?;
        self.page()
    }

    /// The state's file as it is, with its generation.
    pub(crate) fn read(&self) -> Result<Written, StoreError> {
        let text = match fs::read_to_string(self.path(STATE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.missing(STATE)),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(self.damaged(STATE, "is not text"));
            }
            Err(error) => return Err(self.io("cannot read", STATE)(error)),
        };
        let (head, body) = text.split_once('\n').unwrap_or((&text, ""));
        let Some(rest) = head.strip_prefix(HEAD) else {
            return Err(StoreError::Foreign { dir: self.dir.clone(), entry: STATE.to_owned() });
        };
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let format = words.first().and_then(|word| word.parse::<u32>().ok());
        match format {
            Some(found) if found > FORMAT => {
                return Err(StoreError::Newer { dir: self.dir.clone(), found, known: FORMAT });
            }
            Some(_) => {}
            None => return Err(self.damaged(STATE, "begins with no format")),
        }
        let generation =
            words.get(1).and_then(|word| word.parse::<u64>().ok()).filter(|n| n.is_multiple_of(2));
        let sum = words.get(2).and_then(|word| u64::from_str_radix(word, 16).ok());
        let (Some(generation), Some(sum), 3) = (generation, sum, words.len()) else {
            return Err(self.damaged(STATE, "begins with no generation and sum"));
        };
        if sum != checksum(body.as_bytes()) {
            return Err(self.damaged(STATE, "has another checksum than it says"));
        }
        Ok(Written { generation, body: body.to_owned() })
    }

    /// The state that a file says.
    pub(crate) fn parse(&self, written: &Written) -> Result<State, StoreError> {
        serde_json::from_str(&written.body)
            .map_err(|error| self.damaged(STATE, format!("does not describe a node: {error}")))
    }

    /// Writes a state beside the one that counts.
    pub(crate) fn write(&self, generation: u64, state: &State) -> Result<(), StoreError> {
        let body = serde_json::to_string(state).expect("a state is maps with keys that are texts or numbers");
        let sum = checksum(body.as_bytes());
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        // What a process left that was killed here may be another user's.
        let _ = fs::remove_file(self.path(NEW_STATE));
        let mut file = options.open(self.path(NEW_STATE)).map_err(self.io("cannot write", NEW_STATE))?;
        // Users may read, whatever the mask of this process says.
        file.set_permissions(Permissions::from_mode(0o644))
            .and_then(|()| writeln!(file, "{HEAD} {FORMAT} {generation} {sum:016x}"))
            .map_err(self.io("cannot write", NEW_STATE))?;
        crash::point();
        file.write_all(body.as_bytes()).map_err(self.io("cannot write", NEW_STATE))
    }

    /// Makes the written state the one that counts.
    pub(crate) fn replace(&self) -> Result<(), StoreError> {
        fs::rename(self.path(NEW_STATE), self.path(STATE)).map_err(self.io("cannot write", STATE))
    }
}

/// The state's file.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) generation: u64,
    body: String,
}

/// FNV-1a: it tells accidents, not enemies.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
