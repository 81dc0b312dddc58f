//! nvidia-smi's MIG command line and text formats. It queries only the `libnvidia-ml.so.1` that the system
//! finds.
//!
//! A command is parsed (`arguments`), its GPUs are found and queried (`ask`), and then either plain values
//! become text (`render`, which makes no queries) or a change is made and reported (`act`).

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
