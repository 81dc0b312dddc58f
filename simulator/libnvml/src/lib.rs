//! NVIDIA's management library over simulated GPUs: a program that loads
//! `libnvidia-ml.so.1` cannot tell that there is no GPU.
//!
//! `api` reads like a table of NVML's functions, one file for each topic, without a line of `unsafe`: the
//! promises of a C caller are in the types of the arguments (`argument`, `handle`). `entry` has the first
//! steps of every function: catch unwinding, check that the library is initialised, check the arguments,
//! apply faults. `process` has the state of the library in one process, and `session` the process's view of
//! the state that all processes share.
//!
//! `functions.txt` beside this folder lists the exports of the library of one driver generation; a test
//! compares it with the built library.

#[macro_use]
mod entry;
#[macro_use]
mod waiting;

mod api;
mod argument;
mod boards;
mod c_handle;
mod clock;
mod events;
mod figures;
mod filled;
mod first_versions;
mod handle;
mod padded;
mod process;
mod samples;
mod session;
mod system_events;
