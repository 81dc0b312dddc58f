//! NVIDIA's management library over simulated GPUs: a program that loads
//! `libnvidia-ml.so.1` cannot tell that there is no GPU.
//!
//! `api` reads like a table of NVML's functions, one file a topic, without a
//! line of `unsafe`: what a C caller promises is in the types of the arguments
//! (`argument`, `handle`). `entry` is what every function does first:
//! catch unwinding, see that the library is initialised, check the arguments,
//! let a fault strike. `process` is what one process has of the library, and
//! `session` its view of the state that all processes share.
//!
//! `functions.txt` beside this folder lists what one driver generation's
//! library exports; a test compares it with what is built.

#[macro_use]
mod entry;
#[macro_use]
mod waiting;

mod api;
mod argument;
mod clock;
mod events;
mod figures;
mod first_versions;
mod handle;
mod process;
mod samples;
mod session;
