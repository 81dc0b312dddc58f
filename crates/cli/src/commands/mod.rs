//! One module for each command.

pub mod completions;
pub mod demo;
pub mod explain;
pub mod fit;
pub mod fleet;
#[cfg(feature = "gpus")]
pub mod gpus;
pub mod layouts;
pub mod man;
pub mod plan;
pub mod profiles;
pub mod release;
pub mod replay;
pub mod simulate;
pub mod snapshot;
pub mod solve;
