//! The port: how Slicewright reads and changes the GPUs of one machine, in its own terms.
//!
//! [`Gpus`] blocks, for seconds where the driver takes them, and is owned by one thread
//! ([`Worker`](crate::Worker)). Nothing that it takes or gives is a handle: GPUs are named by their UUIDs,
//! slices by their [`Place`]. A name stays valid while other processes change the GPU; a handle would not.
//!
//! The state of the GPU counts, not the answer of a call: after every change the GPU is read again. So a
//! lost or false answer does no harm, and calling again converges.

mod error;
mod layout;

use std::time::Duration;

pub use error::PortError;
pub use layout::{
    Created, Destroyed, Device, Event, Found, Gpu, GpuUuid, Happened, Layout, ModeSet, Place, Process,
    Profile, Silent, Slice, Span, geometry,
};

pub use crate::library::{Engines, MigMode, Mode};

/// What the port answers.
pub type Answer<T> = Result<T, PortError>;

/// The GPUs of this machine.
#[cfg_attr(test, mockall::automock)]
pub trait Gpus {
    /// All GPUs, with MIG or without. One that does not answer is told apart
    /// and hides none of the others.
    ///
    /// # Errors
    /// The driver does not answer at all.
    fn enumerate(&mut self) -> Answer<Found>;

    /// The kinds of slices that a GPU can be cut into and where each may be,
    /// as its driver says. None without MIG; drivers up to 535 name none while
    /// MIG is off.
    ///
    /// # Errors
    /// No such GPU; the driver's.
    fn profiles(&mut self, gpu: &GpuUuid) -> Answer<Vec<Profile>>;

    /// What a GPU is cut into now, and who computes on it. Nothing where MIG
    /// is off.
    ///
    /// # Errors
    /// No such GPU; the driver's.
    fn layout(&mut self, gpu: &GpuUuid) -> Answer<Layout>;

    /// Switches MIG on or off, unless it is so already. A mode that is pending
    /// is asked for again: what was in its way may be gone.
    ///
    /// # Errors
    /// No such GPU; one without MIG; switching off while there are slices; the
    /// driver's.
    fn set_mode(&mut self, gpu: &GpuUuid, mode: Mode) -> Answer<ModeSet>;

    /// Creates a slice at its place: the GPU instance and one compute instance
    /// that has all of it. A slice that is there already is left alone, one
    /// without its compute instance gets it.
    ///
    /// # Errors
    /// No such GPU, profile or place; MIG off; another slice in the way; the
    /// driver's. Then there is what was there before, or the error says what
    /// was left.
    fn create(&mut self, gpu: &GpuUuid, place: &Place) -> Answer<Created>;

    /// Destroys the slice at a place, if it is there. The driver protects what
    /// a process has open, and nothing else: whether a pod was given the slice
    /// is for the caller to know.
    ///
    /// # Errors
    /// No such GPU; a process has the slice open; the driver's.
    fn destroy(&mut self, gpu: &GpuUuid, place: &Place) -> Answer<Destroyed>;

    /// What happened since the last call, on any GPU, by anybody; waits so
    /// long for the first if there is nothing yet. What happened before the
    /// first call is not told. Not every driver tells everything: events make
    /// one look sooner, and nothing may depend on them.
    ///
    /// # Errors
    /// The driver's.
    fn events(&mut self, at_most: Duration) -> Answer<Vec<Event>>;
}
