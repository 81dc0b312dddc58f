//! The state machine that takes one node safely from one layout to another. Pure: the inputs are the
//! observation, the wanted layout, the rules, the recorded progress and the time; the outputs are the next
//! progress, the writes that are due now, an outlook for users and the time of the next call.
//!
//! The caller does the following, in this order: observe, call [`advance()`], store the progress if it
//! changed, do the actions in order and stop at the first that fails. Nothing else has to be stored: after
//! a crash between any two of these steps the next call converges to the same end
//! (`docs/adr/0002-rollout.md`).
//!
//! [`fleet::admit`] decides over all nodes together which may start. [`map`] has the entries that the label
//! names.

pub mod action;
pub mod advance;
mod agent_seen;
pub mod cordon;
mod cordon_owner;
pub mod fleet;
pub mod layout;
pub mod map;
pub mod names;
pub mod neighbours;
mod node_patch;
pub mod observed;
pub mod operand;
pub mod outlook;
pub mod progress;
pub mod reasons;
pub mod release;
pub mod rules;
pub mod schedule;
pub mod sharing;
pub mod window;

pub use action::Action;
pub use advance::{Advance, advance, advance_sharing, advance_slices};
pub use agent_seen::{AgentSeen, GpuSlices, ListAsked, Report, SliceChange, SlicePlace, WantedSlices};
pub use cordon_owner::CordonOwner;
pub use layout::{GpuLayout, LayoutRefused, NodeLayout, Strategy};
pub use neighbours::{OtherManager, OtherWork};
pub use node_patch::NodePatch;
pub use observed::{
    Listing, ManagerState, MapSeen, Observed, OperandLabels, Operator, Pod, PodPhase, Refusal,
};
pub use operand::Operand;
pub use outlook::{Failure, FailureReason, Outlook, StartBlocker, Trouble, Unproven, WaitsFor};
pub use progress::{Phase, Progress, Rung};
pub use rules::{Admission, MaxUnavailable, NodeRules, RolloutRules, Settings};
pub use sharing::{
    Method, PluginConfig, Resources, Seats, Shared, SharingChange, SharingSeen, SharingWanted,
};
