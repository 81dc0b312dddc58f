//! One module a command.

pub mod demo;
pub mod explain;
pub mod fit;
pub mod fleet;
#[cfg(feature = "gpus")]
pub mod gpus;
pub mod layouts;
pub mod plan;
pub mod release;
pub mod replay;
pub mod simulate;
pub mod snapshot;
pub mod solve;
