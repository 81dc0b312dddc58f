//! Writes what is so: `GpuNode`s, the statuses of policies, events. Only what
//! differs from what is there is written.

pub mod catalogue;
pub mod discreet;
pub mod events;
pub mod gpu_node;
pub mod kueue;
pub mod news;
pub mod policy;
