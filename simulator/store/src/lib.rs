//! The state of simulated GPUs, shared by all processes that use one directory and kept when they end. It
//! has the role of the driver on a real machine: the shared library, the control tool and all other
//! programs that open the directory see one machine.
//!
//! The following holds even if any process is killed at any instruction: the state is the one before an
//! update or the one after it; an update that returned is seen by every read that begins later, in any
//! process; and a read of an unchanged state makes no system call (two, every tenth of a second, while
//! processes hold GPUs open: see [`Store::read`]). [`Store`] describes how.
//!
//! Root can write and all users can read, unless the node was set up so that users may write, too.

mod clients;
mod clock;
#[doc(hidden)]
pub mod crash;
mod disk;
mod error;
mod files;
mod page;
mod state;
mod store;

pub use clients::Live;
pub use clock::now;
pub use error::StoreError;
pub use files::{CAPS_MAJOR, NVIDIA_MAJOR, UVM_MAJOR};
pub use state::{FunctionFault, State, Writers};
pub use store::Store;

/// The variable that names the directory, for every program that uses it.
pub const DIRECTORY_VARIABLE: &str = "SLICEWRIGHT_SIM_DIR";

/// The directory where none is named.
pub const DEFAULT_DIRECTORY: &str = "/run/slicewright-sim";

/// How many events a machine remembers.
pub const EVENTS_KEPT: usize = 256;
