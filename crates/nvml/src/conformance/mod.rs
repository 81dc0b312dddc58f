//! The behaviour of every implementation of the port, as stories that run against any of them: the engine
//! in process, the simulator's shared library, and, as far as they only read, real hardware.
//!
//! A story panics if an expectation is not met. [`CHANGING`] needs the machine that [`Bench`] describes;
//! [`reading`] works on any machine. Behind the feature `conformance`, for tests.

#![expect(clippy::missing_panics_doc, reason = "a panic is how a story fails")]

mod changing;
mod failing;
mod reading;

use std::fmt::Debug;

use crate::code::Code;
use crate::port::{Answer, Created, GpuUuid, Gpus, Layout, Mode, Place, PortError};

pub use reading::reading;

/// Where stories take place: a machine with an A100-80GB, a T4 (which has no
/// MIG) and an H100-80GB, in this order, MIG off, nobody there.
pub trait Bench {
    /// Plays a story on a machine of its own.
    fn play(&self, story: Story);
}

/// A story: the port, and what others do meanwhile.
pub type Story = fn(&mut dyn Gpus, &dyn Others);

/// What happens to the machine behind the port's back.
pub trait Others {
    /// The next call of this kind on the first GPU misbehaves, once.
    fn misbehaves(&self, call: Call, how: How);
    /// A process opens a slice, or the whole GPU, and computes on it.
    fn opens(&self, gpu: u32, place: Option<&Place>) -> Opened;
    /// It ends.
    fn closes(&self, opened: Opened);
    /// Somebody cuts a slice into two compute instances.
    fn divides(&self, gpu: u32, place: &Place);
    /// A GPU no longer answers.
    fn loses(&self, gpu: u32);
    /// The driver reports an error.
    fn reports_xid(&self, gpu: u32, number: u32);
}

/// A process that has something open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its process id.
    pub pid: u32,
    /// The number by which whoever opened it closes it.
    pub number: u64,
}

/// What can misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Setting the MIG mode.
    SetMode,
    /// Creating a GPU instance.
    CreateInstance,
    /// Creating a compute instance.
    CreateCompute,
    /// Destroying a GPU instance.
    DestroyInstance,
    /// Destroying a compute instance.
    DestroyCompute,
    /// Anything that only reads.
    Query,
}

/// How it misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It fails and does nothing.
    Before(Code),
    /// It does its work, and the answer is a failure.
    After(Code),
    /// It says that it worked, and did nothing.
    Lies,
}

/// The stories that change things, by their names.
pub const CHANGING: &[(&str, Story)] = &[
    ("a mode is switched once", changing::a_mode_is_switched_once),
    ("a GPU without MIG is told", changing::a_gpu_without_mig_is_told),
    ("slices are where they were asked for", changing::slices_are_where_they_were_asked_for),
    ("every place of every profile can be had", changing::every_place_of_every_profile_can_be_had),
    ("what cannot be is refused by name", changing::what_cannot_be_is_refused_by_name),
    ("a slice in use stays, and so do its neighbours", changing::a_slice_in_use_stays),
    ("a mode waits while the GPU is busy", changing::a_mode_waits_while_the_gpu_is_busy),
    ("MIG stays on while there are slices", changing::mig_stays_on_while_there_are_slices),
    ("a slice that somebody divided is told and goes whole", changing::a_divided_slice_is_told),
    ("a lost GPU hides no other", changing::a_lost_gpu_hides_no_other),
    ("changes and errors are events", changing::changes_and_errors_are_events),
    ("a creation that fails anywhere converges", failing::a_creation_that_fails_anywhere_converges),
    ("a destruction that fails anywhere converges", failing::a_destruction_that_fails_anywhere_converges),
    ("a change of mode that fails anywhere converges", failing::a_change_of_mode_that_fails_converges),
    ("a driver that cannot be read changes nothing", failing::a_driver_that_cannot_be_read_changes_nothing),
];

/// The GPUs of the machine, by index.
pub const A100: u32 = 0;
/// The GPU without MIG.
pub const T4: u32 = 1;
/// The second GPU with MIG.
pub const H100: u32 = 2;

#[track_caller]
fn ok<T, E: Debug>(answer: Result<T, E>) -> T {
    match answer {
        Ok(value) => value,
        Err(error) => panic!("{error:?}"),
    }
}

#[track_caller]
fn uuid(gpus: &mut dyn Gpus, index: u32) -> GpuUuid {
    let found = ok(gpus.enumerate());
    let gpu = found.gpus.into_iter().find(|gpu| gpu.index == index);
    gpu.unwrap_or_else(|| panic!("no GPU {index}")).uuid
}

/// A GPU with MIG on.
#[track_caller]
fn with_mig(gpus: &mut dyn Gpus, index: u32) -> GpuUuid {
    let uuid = uuid(gpus, index);
    ok(gpus.set_mode(&uuid, Mode::Enabled));
    uuid
}

fn place(text: &str) -> Place {
    let (profile, start) = text.split_once('@').expect("profile@start");
    Place::new(profile, start.parse().expect("a start"))
}

#[track_caller]
fn create(gpus: &mut dyn Gpus, gpu: &GpuUuid, at: &str) -> Created {
    ok(gpus.create(gpu, &place(at)))
}

/// The layout, as the names of its slices; those that are not whole have `!`.
#[track_caller]
fn layout(gpus: &mut dyn Gpus, gpu: &GpuUuid) -> Vec<String> {
    names(&ok(gpus.layout(gpu)))
}

fn names(layout: &Layout) -> Vec<String> {
    let name = |slice: &crate::port::Slice| {
        let place = slice.place().map_or_else(|| slice.profile.clone(), |place| place.to_string());
        if slice.is_whole() { place } else { format!("{place}!") }
    };
    layout.slices.iter().map(name).collect()
}

#[track_caller]
fn refused<T: Debug>(answer: Answer<T>) -> PortError {
    match answer {
        Ok(value) => panic!("it was not refused: {value:?}"),
        Err(error) => error,
    }
}
