//! The core of the node agent: how single slices are changed beside running
//! ones, as pure functions. Nothing here reads a socket, a file, a driver or a
//! clock; the daemon and the operator do, and hand over what they saw.
//!
//! Both halves of the agreement are here, so that one test can play them
//! against each other (`docs/adr/0013-node-agent.md`):
//!
//! - the agent's: [`books`] (who holds which slice), [`gate`] (whether kubelet
//!   can still give one away), [`report`] (what is told, and when), and
//!   [`change::next`], one safe step after the other;
//! - the controller's: [`prove`](prove()), without which nothing is destroyed.
//!
//! An agent has no journal. After a restart it goes on from what the hardware
//! has and from what the `GpuNode` says.

pub mod account;
pub mod act;
pub mod books;
pub mod change;
pub mod gate;
pub mod layout;
pub mod names;
pub mod observation;
pub mod position;
pub mod prove;
pub mod remembered;
pub mod report;
pub mod step;
pub mod wish;

pub use account::{Account, ChangeState, GateReport, Known, Outcome, Stage, Why};
pub use act::Act;
pub use books::{Books, Device, Holder, Listed, Recorded};
pub use change::next;
pub use gate::Gate;
pub use layout::{GpuLayout, GpuState, NodeLayout, Slice};
pub use names::{BootId, ChangeId, DeviceId, GpuUuid, ObjectVersion, Place, PodUid, ReportNumber, SliceName};
pub use observation::{Look, Observation, Seen, Turn};
pub use prove::{Container, Pod, PodLife, PodList, Unproven, prove};
pub use remembered::Remembered;
pub use step::{Step, WaitsFor, Writes};
pub use wish::{GpuChange, Malformed, Permit, Wish};
