//! One suite, every implementation of the port: the engine in process, the
//! simulator's shared library, and hardware where there is some.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod engine;
mod hardware;
mod others;
mod shared;
