//! nvidia-smi's MIG command line and text formats. It asks whatever
//! `libnvidia-ml.so.1` it finds, and nothing else.
#![allow(
    dead_code,
    unused_imports,
    reason = "the command line, which uses the texts, comes with the next change"
)]

mod exit;
mod generation;
mod render;
mod snapshot;
