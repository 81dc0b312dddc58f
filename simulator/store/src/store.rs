//! Reading and updating.
//!
//! An update holds the directory's lock and does, in this order: read the state from disk, change it, write
//! it to a new file, make the generation odd, rename the file, make the generation even. A reader uses its
//! copy exactly while the generation is even and equal to that of its copy. If it is odd, a process is
//! between the last three steps or died there: the reader waits for the lock, which the kernel releases for
//! dead processes, and reads the file, which is complete before and after the rename.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::FlockOperation;

use crate::EVENTS_KEPT;
use crate::clock::now;
use crate::crash;
use crate::disk::{Disk, Lock};
use crate::error::StoreError;
use crate::files;
use crate::page::Page;
use crate::state::State;

/// How long a client that died may be taken for a live one.
const LOOK_FOR_DEAD_CLIENTS: SignedDuration = SignedDuration::from_millis(100);

/// A simulated node, shared with all other processes that have it open.
#[derive(Debug)]
pub struct Store {
    disk: Disk,
    known: RwLock<Known>,
}

/// What this process knows of the state.
#[derive(Clone, Debug)]
struct Known {
    page: Arc<Page>,
    generation: u64,
    state: Arc<State>,
    /// When the locks of clients were looked at.
    looked: Timestamp,
}

impl Store {
    /// Opens the node in a directory.
    ///
    /// # Errors
    /// There is none, it is damaged, or of a newer version: each says what to
    /// do.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let disk = Disk::new(dir);
        let page = Arc::new(disk.page()?);
        let written = disk.read()?;
        let state = Arc::new(disk.parse(&written)?);
        let known = Known { page, generation: written.generation, state, looked: Timestamp::MIN };
        Ok(Self { disk, known: RwLock::new(known) })
    }

    /// Sets up a node, instead of the one that is there if there is one, even
    /// a damaged one: processes that have it open go on with the new one, and
    /// what handles they have are stale.
    ///
    /// # Errors
    /// The directory is somebody else's, or cannot be written.
    pub fn create(dir: &Path, mut state: State) -> Result<Self, StoreError> {
        let disk = Disk::new(dir);
        disk.prepare()?;
        let lock = disk.lock(FlockOperation::LockExclusive)?;
        crash::point();
        let page = Arc::new(disk.make_page()?);
        crash::point();
        let before = disk.read().ok();
        if let Some(old) = before.as_ref().and_then(|written| disk.parse(written).ok()) {
            state.machine.take_the_place_of(&old.machine);
            state.next_process = state.next_process.max(old.next_process);
            state.files = state.files.or(old.files);
        }
        disk.set_permissions(state.writers)?;
        crash::point();
        let generation = next(&page, before.map_or(0, |written| written.generation));
        let known = Known { page, generation, state: Arc::new(state), looked: Timestamp::MIN };
        let store = Self { disk, known: RwLock::new(known.clone()) };
        store.commit(&lock, &known)?;
        Ok(store)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.disk.dir()
    }

    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Looks at the state. No system call while it is unchanged, except that
    /// while clients are processes their locks are looked at, once in a tenth
    /// of a second.
    ///
    /// # Errors
    /// The state has become unreadable since.
    pub fn read<T>(&self, f: impl FnOnce(&State) -> T) -> Result<T, StoreError> {
        Ok(f(&self.current()?.state))
    }

    /// The state as it is now.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn snapshot(&self) -> Result<Arc<State>, StoreError> {
        Ok(self.current()?.state)
    }

    /// The generation: the same number, the same state. Odd while somebody
    /// changes it.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.known.read().unwrap_or_else(PoisonError::into_inner).page.load()
    }

    /// Changes the state, alone: nobody else changes it meanwhile, and `f`
    /// sees all that others did, at the present time. If nothing but the time
    /// changed, nothing is written. Whatever `f` waits for, everybody waits
    /// for; an update inside of `f` waits for ever.
    ///
    /// # Errors
    /// This user may not, or the disk says no; then nothing was changed.
    pub fn update<T>(&self, f: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let read_only = || StoreError::ReadOnly { dir: self.dir().to_owned() };
        if !self.known().page.is_writable() {
            // Before the lock, which who may not write has no reason to hold.
            return Err(read_only());
        }
        let lock = self.disk.lock(FlockOperation::LockExclusive)?;
        crash::point();
        let mut known = self.fresh()?;
        if !known.page.is_writable() {
            return Err(read_only());
        }
        let mut state = State::clone(&known.state);
        let before = known.generation;
        // Until now they worked: nobody knows better when they died.
        state.machine.advance(now());
        self.disk.bury(&mut state);
        let answer = f(&mut state);
        crash::point();
        state.machine.forget_events(EVENTS_KEPT);
        known.looked = now();
        if known.page.load() == before && state.equals_but_for_time(&known.state) {
            bring_files(&known);
            self.remember(known);
            return Ok(answer);
        }
        known.generation = next(&known.page, before);
        known.state = Arc::new(state);
        self.commit(&lock, &known)?;
        self.remember(known);
        Ok(answer)
    }

    /// Writes what is known to disk. Whatever step it dies after, the next one
    /// to look finds one state or the other.
    fn commit(&self, _: &Lock, known: &Known) -> Result<(), StoreError> {
        self.disk.write(known.generation, &known.state)?;
        crash::point();
        known.page.store(known.generation - 1);
        crash::point();
        self.disk.replace()?;
        crash::point();
        known.page.store(known.generation);
        crash::point();
        bring_files(known);
        crash::point();
        Ok(())
    }

    /// Keeps the files that the ecosystem reads beside the library under a
    /// root, from now on and in step with the state.
    ///
    /// # Errors
    /// The root is `/`, has files of others in the way, or cannot be written.
    pub fn keep_files(&self, root: &Path) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { doing: "cannot keep files under", path: root.to_owned(), source };
        let state = self.snapshot()?;
        if state.files.as_deref().is_some_and(|old| old != root) {
            self.drop_files()?;
        }
        files::adopt(root, &state)?;
        let root = root.canonicalize().map_err(io)?;
        self.update(|state| state.files = Some(root.clone()))?;
        let _alone = self.disk.lock(FlockOperation::LockExclusive)?;
        let known = self.fresh()?;
        files::bring_anew(&root, &known.state, known.generation).map_err(io)
    }

    /// Takes the files beside the library away, and keeps none from now on.
    ///
    /// # Errors
    /// This user may not.
    pub fn drop_files(&self) -> Result<(), StoreError> {
        let Some(root) = self.update(|state| state.files.take())? else { return Ok(()) };
        let _alone = self.disk.lock(FlockOperation::LockExclusive)?;
        let gone = files::abandon(&root);
        gone.map_err(|source| StoreError::Io { doing: "cannot remove the files under", path: root, source })
    }

    /// Whether the files beside the library are up to date; `None` where none
    /// are kept, or where they cannot be seen from here.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn files_are_current(&self) -> Result<Option<bool>, StoreError> {
        let known = self.current()?;
        Ok(files::are_at(&known.state, known.generation))
    }

    fn remember(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn known(&self) -> Known {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What counts, to somebody who has the lock, or does not mind that it is
    /// another one a moment later.
    fn fresh(&self) -> Result<Known, StoreError> {
        let mut known = self.known();
        if self.disk.page_file() != Some(known.page.file) {
            // The directory was removed and set up again.
            known.page = Arc::new(self.disk.page()?);
            known.generation = u64::MAX;
        }
        let written = self.disk.read()?;
        if written.generation != known.generation {
            known.state = Arc::new(self.disk.parse(&written)?);
            known.generation = written.generation;
            known.looked = Timestamp::MIN;
        }
        Ok(known)
    }

    fn current(&self) -> Result<Known, StoreError> {
        let mut known = self.known();
        let generation = known.page.load();
        if generation != known.generation {
            known = self.catch_up(generation)?;
        }
        if known.state.machine.next_event().is_none() && known.state.processes.is_empty() {
            return Ok(known);
        }
        self.settle(known)
    }

    /// Reads what others wrote.
    fn catch_up(&self, generation: u64) -> Result<Known, StoreError> {
        let even = generation.is_multiple_of(2);
        // Odd: whoever is at work has the lock; whoever died has it no more.
        let waited = if even { None } else { Some(self.disk.lock(FlockOperation::LockShared)?) };
        let known = self.fresh()?;
        if even && known.generation >= generation || waited.is_some() && known.page.load() == known.generation
        {
            self.remember(known.clone());
            return Ok(known);
        }
        drop(waited);
        // A writer died, or somebody replaced the files: put it right, if that is allowed.
        match self.update(|_| ()) {
            Ok(()) => Ok(self.known()),
            Err(StoreError::ReadOnly { .. }) => {
                self.remember(known.clone());
                Ok(known)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets what is due happen, and closes what dead processes had open: for
    /// everybody where this process may write, else for itself.
    fn settle(&self, mut known: Known) -> Result<Known, StoreError> {
        let time = now();
        let due = known.state.machine.next_event().is_some_and(|at| at <= time);
        let look = !known.state.processes.is_empty()
            && time.duration_since(known.looked).abs() >= LOOK_FOR_DEAD_CLIENTS;
        if look {
            known.looked = time;
            self.remember(known.clone());
        }
        let died = look && !self.disk.dead(&known.state).is_empty();
        if !due && !died {
            return Ok(known);
        }
        match self.update(|_| ()) {
            Ok(()) => Ok(self.known()),
            Err(StoreError::ReadOnly { .. }) => {
                let mut state = State::clone(&known.state);
                state.machine.advance(time);
                self.disk.bury(&mut state);
                known.state = Arc::new(state);
                self.remember(known.clone());
                Ok(known)
            }
            Err(error) => Err(error),
        }
    }
}

/// Brings the files beside the library up to date. Whoever cannot leaves it to
/// the next: the state counts, and the files say how old they are.
fn bring_files(known: &Known) {
    if let Some(root) = &known.state.files {
        let _ = files::bring(root, &known.state, known.generation);
    }
}

/// A generation that nobody has seen yet, after all that page and file say.
fn next(page: &Page, file: u64) -> u64 {
    let page = page.load();
    file.max(page + page % 2) + 2
}
