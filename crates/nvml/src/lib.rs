//! The GPUs of this machine, through NVIDIA's management library (NVML). All
//! of the product's `unsafe` is in this crate, in [`library`].
//!
//! [`port::Gpus`] is the interface for the rest of the product; [`Hardware`] implements it over a real
//! library, or over the simulator's, which cannot be told apart. [`Worker`] gives it a thread of its own.

mod code;
pub mod compare;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod hardware;
pub mod library;
pub mod port;
mod worker;

pub use code::Code;
pub use error::{Error, Result};
pub use hardware::{Hardware, open};
pub use library::Library;
pub use worker::{Pending, Unanswered, Worker};
