//! nvidia-smi's MIG command line and text formats. It asks whatever
//! `libnvidia-ml.so.1` the system finds, and nothing else.
//!
//! A command is parsed (`arguments`), its GPUs are found and asked (`ask`), and
//! then either plain values become text (`render`, which asks nothing) or
//! something is changed and said (`act`).

mod act;
mod arguments;
mod ask;
mod clock;
mod exit;
mod generation;
mod help;
mod mig;
mod render;
mod run;
mod snapshot;

pub use clock::Clock;
pub use run::run;
