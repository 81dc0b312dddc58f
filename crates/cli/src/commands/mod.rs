//! One module a command.

pub mod fit;
pub mod layouts;
pub mod solve;
