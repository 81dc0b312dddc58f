//! The GPUs of this machine, through NVIDIA's management library (NVML). All
//! of the product's `unsafe` is in this crate, in [`library`].

mod code;
mod error;
pub mod library;

pub use code::Code;
pub use error::{Error, Result};
pub use library::Library;
