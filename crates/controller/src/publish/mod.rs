//! Writes the results: `GpuNode`s, the statuses of policies, events. Only differences are written.

pub mod catalogue;
pub mod discreet;
pub mod events;
pub mod gpu_node;
pub mod kueue;
pub mod menu;
pub mod news;
mod place;
pub mod policy;
