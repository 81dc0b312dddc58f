//! One round of the operator as a pure function: from the observed and recorded state to the actions that
//! are due and the messages. Pure: no I/O, no clock.
//!
//! The caller of [`round()`] does the following, in this order: fill an [`Input`] from the watched objects,
//! call, write the map if that is due, store for each node the progress that changed, do the node's actions
//! in order and stop at the first that fails, then write the statuses and report the changes to users. All
//! records are in the `GpuNode`s; after a crash between any two of these steps the next round converges to
//! the same end.

pub mod admission;
pub mod advance;
pub mod answers;
pub mod conditions;
pub mod discreet;
mod gangs;
pub mod gpu_node;
pub mod input;
mod keys_in_use;
pub mod map;
pub mod menu;
pub mod node_conditions;
pub mod planned_round;
pub mod plugin_map;
mod plugin_pointer;
pub mod policy_digest;
pub mod policy_status;
mod promises;
pub mod remembered;
pub mod review;
pub mod round;
pub mod seen;
mod send_back;
mod session;
mod siblings;
pub mod steps;
pub mod surge;
pub mod wanted;
pub mod why_name;

pub use admission::{CheckAnswer, CheckState};
pub use gpu_node::WantedGpuNode;
pub use input::{Input, LocalState, MapRef, Obstacles, RefusedWrite, Settings};
pub use map::{MapRound, MapWrite};
pub use menu::{MenuAct, MenuRound, MenuSettings, MenuWrite};
pub use planned_round::{PlannedRound, plan_next_round, plan_round};
pub use plugin_map::{PluginMapRound, PluginMapWrite};
pub use plugin_pointer::Repoint;
pub use round::{NodeRound, Round, next_round, round};
pub use session::Session;
