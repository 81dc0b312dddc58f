//! The generation: one number in one page that all processes have mapped, so that a reader knows without a
//! system call whether its copy is up to date. If it is even, the state of that generation is on disk. If
//! it is odd, a process is replacing the state, or died while doing so.
#![allow(unsafe_code, reason = "a number that other processes change can be seen through mapped memory only")]

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Mmap, MmapMut, MmapOptions};

/// The length of the file.
pub(crate) const LENGTH: usize = 4096;
/// What it begins with; the number follows.
pub(crate) const MAGIC: [u8; 16] = *b"slicewright-sim\n";

#[derive(Debug)]
enum Mapped {
    Writable(MmapMut),
    ReadOnly(Mmap),
}

/// The mapped page.
#[derive(Debug)]
pub(crate) struct Page {
    mapped: Mapped,
    /// Which file it is: device and inode.
    pub(crate) file: (u64, u64),
}

impl Page {
    /// Maps the page. `None` if the file is none.
    pub(crate) fn map(file: &File, writable: bool) -> std::io::Result<Option<Self>> {
        let metadata = file.metadata()?;
        if metadata.len() != LENGTH as u64 {
            return Ok(None);
        }
        let mut options = MmapOptions::new();
        options.len(LENGTH);
        let mapped = if writable {
            // SAFETY: the memory is read and written by way of one aligned atomic only (`number`)
            // and a magic number that nobody writes after the file has its name. Nothing of ours
            // shortens the file; if somebody else does, this process gets SIGBUS, as with any
            // mapped file.
            Mapped::Writable(unsafe { options.map_mut(file) }?)
        } else {
            // SAFETY: as above; this mapping is never written to.
            Mapped::ReadOnly(unsafe { options.map(file) }?)
        };
        let page = Self { mapped, file: (metadata.dev(), metadata.ino()) };
        Ok(page.bytes().starts_with(&MAGIC).then_some(page))
    }

    fn bytes(&self) -> &[u8] {
        match &self.mapped {
            Mapped::Writable(map) => map,
            Mapped::ReadOnly(map) => map,
        }
    }

    fn number(&self) -> &AtomicU64 {
        let at = self.bytes()[MAGIC.len()..].as_ptr().cast::<AtomicU64>();
        debug_assert!(at.is_aligned());
        // SAFETY: a page begins at a multiple of 4096, so that 16 bytes on is a multiple of 8; eight
        // bytes from there are inside of it; the mapping lives as long as `self`; all access to
        // these bytes is atomic, in every process. Through a mapping that is read-only there are
        // only loads (`store` looks), which need no write access on 64-bit targets.
        unsafe { &*at }
    }

    /// The generation.
    pub(crate) fn load(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// Sets the generation; a page that is mapped for reading stays as it is.
    pub(crate) fn store(&self, generation: u64) {
        if self.is_writable() {
            self.number().store(generation, Ordering::Release);
        }
    }

    /// Whether this process may change it.
    pub(crate) const fn is_writable(&self) -> bool {
        matches!(self.mapped, Mapped::Writable(_))
    }
}
